#!/usr/bin/env python
# SPDX-License-Identifier: Apache-2.0
"""Records what torch's optimizers do to two small parameters in a hundred steps, and what its averages of weights
are over as many: tests/runtime/kernels/trajectories.h. And what they make of a model in a few steps:
tests/fixtures/mlp/optimizers.{json,safetensors}.

  python scripts/record_optimizers.py

Optimizers are in fp64. Gradients are numbers that tests make by the same formula; what decays is the matrix, or with
"decay_all" the vector as well. An optimizer that torch does not have is written here as its paper has it.
Averages are in f32, as programs keep them, of parameters that are in each step what the gradients are.

The model is tests/fixtures/mlp in fp64, with a case of each optimizer: losses, norms of gradients, parameters and their average
after the last step. Beside it, how far from these torch itself is where states are rounded after each step: to a type that
products are in as well, by autocast, or to codes of 8 bits, of optimizers that step matrices element by element.
"""
import argparse, json, pathlib

import torch
from safetensors.torch import load_file, save_file

PINNED = {"torch": "2.13.0"}
STEPS, KEPT = 100, (1, 2, 3, 10, 100)
SHAPES = {"w": (3, 4), "b": (5,)}
LEARNING_RATE, WEIGHT_DECAY = 0.01, 0.1


def sized(shape, value):
    n = torch.Size(shape).numel()
    return torch.tensor([value(k) for k in range(n)]).reshape(shape)


def start(name):
    salt = ord(name)
    return sized(SHAPES[name], lambda k: ((5 * k + salt) % 13 - 6) / 8)


def gradient(name, step):  # from 0
    salt = ord(name)
    return sized(SHAPES[name], lambda k: ((37 * k + 53 * step + 19 * salt) * (step + 7) % 101 - 50) / 64)


def trajectory(make, decay_all, max_grad_norm):
    torch.set_default_dtype(torch.float64)
    tensors = {name: torch.nn.Parameter(start(name)) for name in SHAPES}
    groups = [{"params": [p], "weight_decay": WEIGHT_DECAY if decay_all or p.dim() > 1 else 0.0} for p in tensors.values()]
    optimizer = make(groups)
    points = []
    for step in range(STEPS):
        for name, p in tensors.items():
            p.grad = gradient(name, step)
        if max_grad_norm:
            torch.nn.utils.clip_grad_norm_(tensors.values(), max_grad_norm)
        optimizer.step()
        if step + 1 in KEPT:
            points.append([x for p in tensors.values() for x in p.detach().flatten().tolist()])
    return points


def averages(decay):
    model = torch.nn.Module()
    for name in SHAPES:
        model.register_parameter(name, torch.nn.Parameter(start(name).float()))
    averaged = torch.optim.swa_utils.AveragedModel(model, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(decay))
    points = []
    for step in range(STEPS):
        for name, p in model.named_parameters():
            p.data.copy_(gradient(name, step))
        averaged.update_parameters(model)
        if step + 1 in KEPT:
            points.append([x for p in averaged.parameters() for x in p.detach().flatten().tolist()])
    return points


def is_hidden_matrix(p):  # that Muon steps as a whole: no table, and not the weight of the model's last product
    return p.dim() == 2 and not getattr(p, "is_outer", False)


class Lion(torch.optim.Optimizer):
    """Algorithm 2 of Chen and others, Symbolic Discovery of Optimization Algorithms, 2023."""

    def __init__(self, params, lr, betas):
        super().__init__(params, {"lr": lr, "betas": betas})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            beta1, beta2 = group["betas"]
            for p in group["params"]:
                m = self.state[p].setdefault("m", torch.zeros_like(p))
                c = beta1 * m + (1 - beta1) * p.grad
                p -= group["lr"] * (torch.sign(c) + group["weight_decay"] * p)
                m.copy_(beta2 * m + (1 - beta2) * p.grad)


class Muon(torch.optim.Optimizer):
    """torch.optim.Muon for matrices, AdamW for all else; matrices are iterated in the type of their gradients, where
    torch's own are in bf16."""

    def __init__(self, params, lr, momentum, nesterov, adjust, betas, eps):
        super().__init__(params, {"lr": lr, "momentum": momentum, "nesterov": nesterov, "adjust": adjust})
        self.others = o.AdamW([g for g in self.param_groups if not is_hidden_matrix(g["params"][0])], lr=lr, betas=betas, eps=eps)

    @torch.no_grad()
    def step(self):
        self.others.step()
        for group in self.param_groups:
            for p in group["params"]:
                if not is_hidden_matrix(p):
                    continue
                m = self.state[p].setdefault("m", torch.zeros_like(p))
                m.lerp_(p.grad, 1 - group["momentum"])
                u = p.grad.lerp(m, group["momentum"]) if group["nesterov"] else m
                rows, columns = p.shape
                x = u.T if rows > columns else u
                x = x / x.norm().clamp(min=1e-7)
                for _ in range(5):
                    gram = x @ x.T
                    x = 3.4445 * x + (-4.775 * gram + 2.0315 * gram @ gram) @ x
                x = x.T if rows > columns else x
                ratio = max(1, rows / columns) ** 0.5 if group["adjust"] == "original" else 0.2 * max(rows, columns) ** 0.5
                p.mul_(1 - group["lr"] * group["weight_decay"]).sub_(group["lr"] * ratio * x)


class TorchsMuon:
    """torch's own, and its AdamW."""

    def __init__(self, params, lr, momentum, nesterov, adjust, betas, eps):
        matrices, others = [[g for g in params if is_hidden_matrix(g["params"][0]) == two] for two in (True, False)]
        self.both = (o.Muon(matrices, lr=lr, momentum=momentum, nesterov=nesterov, adjust_lr_fn=adjust),
                     o.AdamW(others, lr=lr, betas=betas, eps=eps))

    def step(self):
        for optimizer in self.both:
            optimizer.step()


# The name of a case, which begins with that of the rule; its options in their order; the optimizer; whether vectors
# decay; the norm that gradients are clipped to.
o = torch.optim
MUON = ((LEARNING_RATE, 0.95, True, "original", (0.9, 0.95), 1e-3),
        (LEARNING_RATE, 0.8, False, "match_rms_adamw", (0.8, 0.99), 1e-8))
# What torch itself does, in bf16 for a part of the way.
ROUNDED = [
    ("muon", (0.95, 0, 0, 0, 0.9, 0.95, 1e-3), lambda g: TorchsMuon(g, *MUON[0]), False, 0),
    ("muon all, clipped", (0.8, 1, 1, 0, 0.8, 0.99, 1e-8), lambda g: TorchsMuon(g, *MUON[1]), True, 1.5),
]
CASES = [
    ("adamw", (0.9, 0.95, 1e-3), lambda g: o.AdamW(g, lr=LEARNING_RATE, betas=(0.9, 0.95), eps=1e-3), False, 0),
    ("adamw all, clipped", (0.8, 0.99, 1e-8), lambda g: o.AdamW(g, lr=LEARNING_RATE, betas=(0.8, 0.99), eps=1e-8), True, 1.5),
    ("lion", (0.9, 0.99), lambda g: Lion(g, lr=LEARNING_RATE, betas=(0.9, 0.99)), False, 0),
    ("lion all, clipped", (0.8, 0.9), lambda g: Lion(g, lr=LEARNING_RATE, betas=(0.8, 0.9)), True, 1.5),
    ("sgd", (0.9, 0), lambda g: o.SGD(g, lr=LEARNING_RATE, momentum=0.9), False, 0),
    ("sgd all, clipped", (0.5, 0), lambda g: o.SGD(g, lr=LEARNING_RATE, momentum=0.5), True, 1.5),
    ("sgd nesterov", (0.9, 1), lambda g: o.SGD(g, lr=LEARNING_RATE, momentum=0.9, nesterov=True), False, 0),
    ("sgd nesterov, all, clipped", (0.5, 1), lambda g: o.SGD(g, lr=LEARNING_RATE, momentum=0.5, nesterov=True), True, 1.5),
    ("plain_sgd", (), lambda g: o.SGD(g, lr=LEARNING_RATE), False, 0),
    ("plain_sgd all, clipped", (), lambda g: o.SGD(g, lr=LEARNING_RATE), True, 1.5),
    ("adam", (0.9, 0.999, 1e-8), lambda g: o.Adam(g, lr=LEARNING_RATE, betas=(0.9, 0.999), eps=1e-8), False, 0),
    ("adam all, clipped", (0.8, 0.99, 1e-3), lambda g: o.Adam(g, lr=LEARNING_RATE, betas=(0.8, 0.99), eps=1e-3), True, 1.5),
    ("rmsprop", (0.99, 1e-8), lambda g: o.RMSprop(g, lr=LEARNING_RATE, alpha=0.99, eps=1e-8), False, 0),
    ("rmsprop all, clipped", (0.9, 1e-3), lambda g: o.RMSprop(g, lr=LEARNING_RATE, alpha=0.9, eps=1e-3), True, 1.5),
    ("adagrad", (0.0, 1e-10), lambda g: o.Adagrad(g, lr=LEARNING_RATE, eps=1e-10), False, 0),
    ("muon", (0.95, 0, 0, 0, 0.9, 0.95, 1e-3), lambda g: Muon(g, *MUON[0]), False, 0),
    ("muon all, clipped", (0.8, 1, 1, 0, 0.8, 0.99, 1e-8), lambda g: Muon(g, *MUON[1]), True, 1.5),
    ("adafactor", (0.8, 2**-23, 1e-3, 1.0), lambda g: o.Adafactor(g, lr=LEARNING_RATE, eps=(2**-23, 1e-3)), False, 0),
    ("adafactor all, clipped", (0.5, 1e-3, 1e-2, 2.0),
     lambda g: o.Adafactor(g, lr=LEARNING_RATE, beta2_decay=-0.5, eps=(1e-3, 1e-2), d=2.0), True, 1.5),
    ("adagrad all, clipped", (0.1, 1e-3), lambda g: o.Adagrad(g, lr=LEARNING_RATE, lr_decay=0.1, eps=1e-3), True, 1.5),
]


DECAYS = (0.999, 0.75, 0.25)


def lines_of(points, kept=KEPT):
    lines = []
    for step, values in zip(kept, points):
        row = f"        {{{step}, {{"
        for k, x in enumerate(values):
            text = repr(x) + (", " if k + 1 < len(values) else "}},")
            if len(row) + len(text.rstrip()) > 120:
                lines.append(row.rstrip())
                row = "            "
            row += text
        lines.append(row)
    return lines


def cases_of(cases):
    lines = []
    for name, options, make, decay_all, clip in cases:
        numbers = ", ".join(repr(x) for x in options)
        lines.append(f'    {{"{name}", "{name.split()[0]}", {{{numbers}}}, {LEARNING_RATE}, {WEIGHT_DECAY}, '
                     f'{"true" if decay_all else "false"}, {clip}, {{')
        lines += [*lines_of(trajectory(make, decay_all, clip)), "    }},"]
    return lines


# ---- a model -------------------------------------------------------------------------------------------------------
# Of each optimizer the last case without an epsilon beside which narrow states vanish.
LEAST_EPSILON = 1e-3
OF_MODEL = {case[0].split()[0]: case for case in CASES if not any(0 < x < LEAST_EPSILON for x in case[1])}
MODEL_STEPS, MODEL_CLIP, EMA = 6, 0.75, 0.75
GROUP = ("net.2", 0.02, 0.3)  # what a parameter's name begins with; its learning rate and weight decay
# What states are rounded to, and what products are in.
NARROW = {"bf16": torch.bfloat16, "f16": torch.float16, "8bit": None}
WITHOUT_CODES = ("adafactor", "muon", "plain_sgd")
NEVER_NEGATIVE = ("exp_avg_sq", "square_avg", "sum")  # of states, as torch calls them
LOSS_SCALE = 1024  # which f16 needs, and which changes nothing of all else


def model(p, x):
    linear = torch.nn.functional.linear
    h = torch.relu(linear(x, p["net.0.weight"], p["net.0.bias"]))
    h = torch.tanh(linear(h, p["net.2.weight"], p["net.2.bias"]))
    return linear(h, p["net.4.weight"], p["net.4.bias"])


def numbers_of_codes(signs):
    """Those of Dettmers, 8-Bit Approximations for Parallelism in Deep Learning, 2016: decades below 1, each cut into twice as
    many pieces as the one before, whose middles they are."""
    middles = [(0.1 + 0.9 * (k + 0.5) / pieces) * 10.0 ** (decade - 6)
               for decade in range(7) for pieces in [2 ** (decade + (not signs))] for k in range(pieces)]
    return torch.tensor(sorted([0.0, 1.0, *middles, *(-x for x in middles if signs)]))


def as_codes(tensor, signs, block=256):
    """The nearest of these numbers, as parts of the largest of a block; what is above 0 stays above it where nothing is below."""
    numbers = numbers_of_codes(signs)
    out = []
    for part in tensor.flatten().split(block):
        scale = part.abs().max()
        nearest = (part[:, None] / scale - numbers).abs().argmin(1) if scale > 0 else torch.full(part.shape, (numbers == 0).nonzero().item())
        out.append(scale * numbers[nearest if signs else torch.maximum(nearest, (part > 0).long())])
    return torch.cat(out).reshape(tensor.shape)


def round_states(optimizer, to):
    for p, state in optimizer.state.items():
        for name, tensor in state.items():
            if name != "step" and NARROW[to]:
                tensor.copy_(tensor.to(NARROW[to]))
            elif name != "step" and p.dim() > 1:
                tensor.copy_(as_codes(tensor, name not in NEVER_NEGATIVE))
    for other in (getattr(optimizer, "others", None), *getattr(optimizer, "both", ())):
        if other:
            round_states(other, to)


def trained(folder, make, decay_all, states=None):
    """Losses, norms, parameters, their average; in fp64, or with states rounded to a type of NARROW."""
    torch.set_default_dtype(torch.float32 if states else torch.float64)
    products = NARROW[states] if states else None
    parameters = {name: torch.nn.Parameter(t.to(torch.get_default_dtype()))
                  for name, t in load_file(folder / "params.safetensors").items()}
    batches = load_file(folder / "batch.safetensors")
    parameters["net.4.weight"].is_outer = True
    groups = []
    for name, p in parameters.items():
        groups.append({"params": [p], "weight_decay": WEIGHT_DECAY if decay_all or p.dim() > 1 else 0.0})
        if name.startswith(GROUP[0]):
            groups[-1].update(lr=GROUP[1], weight_decay=GROUP[2])
    optimizer = make(groups)
    module = torch.nn.Module()
    module.parameters_ = torch.nn.ParameterDict({name.replace(".", "_"): p for name, p in parameters.items()})
    averaged = torch.optim.swa_utils.AveragedModel(module, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(EMA))
    losses, norms = [], []
    for step in range(MODEL_STEPS):
        x, labels = (batches[f"{name}_{step % 5}"] for name in ("x", "labels"))
        for p in parameters.values():
            p.grad = None
        with torch.autocast("cpu", dtype=products or torch.bfloat16, enabled=products is not None):
            loss = torch.nn.functional.cross_entropy(model(parameters, x.to(torch.get_default_dtype())), labels)
        (LOSS_SCALE * loss).backward()
        for p in parameters.values():
            p.grad /= LOSS_SCALE
        losses.append(loss.item())
        norms.append(torch.nn.utils.clip_grad_norm_(parameters.values(), MODEL_CLIP).item())
        optimizer.step()
        if states:
            round_states(optimizer, states)
        averaged.update_parameters(module)
    averages = averaged.module.parameters_
    return (losses, norms, {name: p.detach().double() for name, p in parameters.items()},
            {name: averages[name.replace(".", "_")].detach().double() for name in parameters})


def distance(got, want, start):
    """Of all parameters, as a part of the way from where they began."""
    square = lambda a, b: sum(((a[name] - b[name]) ** 2).sum().item() for name in want)
    return (square(got, want) / square(want, start)) ** 0.5


def record_model(folder):
    start = {name: t.double() for name, t in load_file(folder / "params.safetensors").items()}
    runs, tensors = {}, {}
    assert OF_MODEL.keys() == {case[0].split()[0] for case in CASES}, "an optimizer has no case with a large epsilon"
    for rule, (_, options, make, decay_all, _) in OF_MODEL.items():
        losses, norms, after, average = trained(folder, make, decay_all)
        run = {"options": options, "decay_all": decay_all, "loss": losses, "grad_norm": norms}
        for parameter in after:
            tensors[f"{rule}/{parameter}"] = after[parameter].float()
            tensors[f"{rule}/average/{parameter}"] = average[parameter].float()
        for states in NARROW:
            if states == "8bit" and rule in WITHOUT_CODES:
                continue
            theirs, _, theirs_after, theirs_average = trained(folder, make, decay_all, states)
            run[states] = {"loss": max(abs(a / b - 1) for a, b in zip(theirs, losses)),
                          "after": distance(theirs_after, after, start), "average": distance(theirs_average, average, start)}
        runs[rule] = run
    recorded = {"torch": PINNED["torch"], "steps": MODEL_STEPS, "clip": MODEL_CLIP, "ema": EMA, "learning_rate": LEARNING_RATE,
                "weight_decay": WEIGHT_DECAY, "loss_scale": LOSS_SCALE,
                "group": {"begins": GROUP[0], "learning_rate": GROUP[1], "weight_decay": GROUP[2]}, "optimizers": runs}
    (folder / "optimizers.json").write_text(json.dumps(recorded, indent=1) + "\n")
    save_file(tensors, folder / "optimizers.safetensors")


def main():
    tests = pathlib.Path(__file__).parent.parent / "tests"
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", default=tests / "runtime/kernels/trajectories.h")
    parser.add_argument("--model", type=pathlib.Path, default=tests / "fixtures/mlp")
    arguments = parser.parse_args()
    assert torch.__version__.split("+")[0] == PINNED["torch"], torch.__version__
    record_model(arguments.model)
    lines = ["// SPDX-License-Identifier: Apache-2.0", "// What optimizers do to a matrix and a vector in a hundred steps: scripts/record_optimizers.py, with torch "
             + PINNED["torch"] + ".", "#pragma once", "", '#include "trajectory.h"', "",
             "namespace thunder {", "", "// clang-format off", "inline const std::vector<Trajectory> trajectories = {"]
    lines += cases_of(CASES)
    lines += ["};", "", "// Where torch rounds numbers to bf16 on the way.", "inline const std::vector<Trajectory> rounded_trajectories = {"]
    lines += cases_of(ROUNDED)
    lines += ["};", "", "// By decay.", "inline const std::vector<AverageTrajectory> averages = {"]
    for decay in DECAYS:
        lines += [f"    {{{decay}, {{", *lines_of(averages(decay)), "    }},"]
    lines += ["};", "// clang-format on", "", "}  // namespace thunder", ""]
    pathlib.Path(arguments.out).write_text("\n".join(lines))


if __name__ == "__main__":
    main()
