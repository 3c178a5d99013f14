#!/usr/bin/env python
# SPDX-License-Identifier: Apache-2.0
"""Records what torch.amp.GradScaler does around each optimizer of record_optimizers.py:
tests/runtime/kernels/scaled_trajectories.h.

  python scripts/record_loss_scale.py

The gradients are those of record_optimizers.py, times the scale; in some steps an element of one is infinite or no
number. They are unscaled, clipped where the case clips, and stepped; in fp64.
"""
import argparse, pathlib

import torch

from record_optimizers import CASES, LEARNING_RATE, PINNED, SHAPES, WEIGHT_DECAY, gradient, lines_of, start

STEPS, KEPT, INTERVAL, FIRST = 40, (1, 2, 3, 10, 40), 4, 2.0**15
# By step from 0: the first is skipped, two in a row, others between.
BROKEN = {0: float("inf"), 6: float("nan"), 7: float("-inf"), 19: float("inf"), 33: float("nan")}


def trajectory(make, decay_all, max_grad_norm):
    torch.set_default_dtype(torch.float64)
    tensors = {name: torch.nn.Parameter(start(name)) for name in SHAPES}
    optimizer = make([{"params": [p], "weight_decay": WEIGHT_DECAY if decay_all or p.dim() > 1 else 0.0} for p in tensors.values()])
    scaler = torch.amp.GradScaler("cpu", init_scale=FIRST, growth_interval=INTERVAL)
    points, scales = [], []
    for step in range(STEPS):
        scale = scaler.scale(torch.ones((), dtype=torch.float32)).item()
        scales.append(scale)
        for name, p in tensors.items():
            p.grad = gradient(name, step) * scale
        if step in BROKEN:
            # of the matrix and of the vector by turns
            name = "wb"[step % 2]
            tensors[name].grad.view(-1)[step % tensors[name].numel()] = BROKEN[step]
        scaler.unscale_(optimizer)
        if max_grad_norm:
            torch.nn.utils.clip_grad_norm_(tensors.values(), max_grad_norm)
        scaler.step(optimizer)
        scaler.update()
        if step + 1 in KEPT:
            points.append([x for p in tensors.values() for x in p.detach().flatten().tolist()])
    return points, scales


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", default=pathlib.Path(__file__).parent.parent / "tests/runtime/kernels/scaled_trajectories.h")
    out = parser.parse_args().out
    assert torch.__version__.split("+")[0] == PINNED["torch"], torch.__version__
    rows, all_scales = [], set()
    for name, options, make, decay_all, clip in CASES:
        points, scales = trajectory(make, decay_all, clip)
        all_scales.add(tuple(scales))
        numbers = ", ".join(repr(x) for x in options)
        rows += [f'    {{"{name}", "{name.split()[0]}", {{{numbers}}}, {LEARNING_RATE}, {WEIGHT_DECAY}, '
                 f'{"true" if decay_all else "false"}, {clip}, {{', *lines_of(points, KEPT), "    }},"]
    (scales,) = all_scales  # one for all: no optimizer has a say in it
    broken = ", ".join(f"{{{step + 1}, {'NAN' if x != x else 'HUGE_VALF' if x > 0 else '-HUGE_VALF'}}}" for step, x in BROKEN.items())
    lines = ["// SPDX-License-Identifier: Apache-2.0",
             "// What torch.amp.GradScaler does around optimizers: scripts/record_loss_scale.py, with torch " + PINNED["torch"] + ".",
             "#pragma once", "", "#include <map>", "", '#include "trajectory.h"', "", "namespace thunder {", "", "// clang-format off",
             f"inline constexpr int scaled_interval = {INTERVAL};",
             "// Of each step, from the first on.",
             "inline const std::vector<float> scales_of_steps = {",
             *["    " + " ".join(f"{int(s)}," for s in scales[at:at + 10]) for at in range(0, STEPS, 10)], "};",
             "// By step from 1: what an element is, (step - 1) modulo the elements, of the matrix in odd steps, else of the vector.",
             f"inline const std::map<int, float> broken_elements = {{{broken}}};", "",
             "inline const std::vector<Trajectory> scaled_trajectories = {", *rows, "};", "// clang-format on", "", "}  // namespace thunder", ""]
    pathlib.Path(out).write_text("\n".join(lines))


if __name__ == "__main__":
    main()
