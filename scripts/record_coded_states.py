#!/usr/bin/env python
# SPDX-License-Identifier: Apache-2.0
"""Records what torchao's 8-bit optimizers do: tests/runtime/kernels/coded_numbers.h.

  python scripts/record_coded_states.py

The numbers that its codes stand for, and a hundred steps of its Adam and AdamW on a matrix of 64 x 64: the first
elements of what they come to, and how far that is, as a root of mean squares, from torch's own in fp64. Gradients are
numbers that tests make by the same formula; they differ by four powers of ten within a block.
"""
import os

os.environ["TORCHDYNAMO_DISABLE"] = "1"  # as written, without a compiler

import argparse, pathlib

import torch
import torchao.optim
from torchao.optim.quant_utils import create_dynamic_map

PINNED = {"torch": "2.13.0", "torchao": "0.18.0"}
STEPS, SIDE, FIRST = 100, 64, 24
LEARNING_RATE, WEIGHT_DECAY = 0.01, 0.1
CASES = [("adam", 0.9, 0.999, 1e-4, "Adam8bit", "Adam", 0.0), ("adamw", 0.9, 0.95, 1e-6, "AdamW8bit", "AdamW", WEIGHT_DECAY)]


def start(k):
    return ((5 * k + 7) % 13 - 6) / 8


def gradient(k, step):  # from 0
    return ((37 * k + 53 * step) * (step + 7) % 101 - 50) / 64 * 2.0 ** -(k % 14)


def steps(make, dtype, beta1, beta2, eps, decay):
    p = torch.nn.Parameter(torch.tensor([start(k) for k in range(SIDE * SIDE)], dtype=dtype).reshape(SIDE, SIDE))
    optimizer = make([p], lr=LEARNING_RATE, betas=(beta1, beta2), eps=eps, weight_decay=decay)
    for step in range(STEPS):
        p.grad = torch.tensor([gradient(k, step) for k in range(SIDE * SIDE)], dtype=dtype).reshape(SIDE, SIDE)
        optimizer.step()
    return p.detach().double().flatten()


def rows(numbers, per_line):
    texts = [repr(float(x)) for x in numbers]
    return ["    " + ", ".join(texts[k:k + per_line]) + "," for k in range(0, len(texts), per_line)]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", default=pathlib.Path(__file__).parent.parent / "tests/runtime/kernels/coded_numbers.h")
    out = parser.parse_args().out
    for package in (torch, torchao):
        assert package.__version__.split("+")[0] == PINNED[package.__name__], package.__version__
    lines = ["// SPDX-License-Identifier: Apache-2.0",
             "// What torchao's 8-bit optimizers do: scripts/record_coded_states.py, with torch " + PINNED["torch"] +
             " and torchao " + PINNED["torchao"] + ".", "#pragma once", "", "#include <vector>", "", "namespace thunder {", "",
             "// clang-format off", "// The numbers that codes stand for, in their order: of states that may be negative; of others."]
    for name, signed in (("numbers_with_signs", True), ("numbers_without_signs", False)):
        lines += [f"inline const std::vector<double> {name} = {{", *rows(create_dynamic_map(signed), 8), "};"]
    lines += ["", "struct CodedTrajectory {", "    const char* rule;", "    std::vector<double> options;",
              "    double weight_decay;", "    double distance;  // torchao's from torch's in fp64",
              "    std::vector<double> exact, torchaos;  // the first elements after the last step", "};",
              "inline const std::vector<CodedTrajectory> coded_trajectories = {"]
    for rule, beta1, beta2, eps, theirs, exact, decay in CASES:
        numbers = beta1, beta2, eps, decay
        coded = steps(getattr(torchao.optim, theirs), torch.float32, *numbers)
        double = steps(getattr(torch.optim, exact), torch.float64, *numbers)
        distance = (coded - double).square().mean().sqrt().item()
        lines += [f'    {{"{rule}", {{{beta1!r}, {beta2!r}, {eps!r}}}, {decay!r}, {distance!r}, {{', *rows(double[:FIRST], 6), "    }, {",
                  *rows(coded[:FIRST], 6), "    }},"]
    lines += ["};", "// clang-format on", "", "}  // namespace thunder", ""]
    pathlib.Path(out).write_text("\n".join(lines))


if __name__ == "__main__":
    main()
