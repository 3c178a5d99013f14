# SPDX-License-Identifier: Apache-2.0
"""A model and the program that thunderc wrote of it, trained side by side."""
import copy
import dataclasses
import inspect
import json
import os
import subprocess
import tempfile
from pathlib import Path
from typing import Any, Callable, Mapping, Sequence

import torch
import torch.nn.functional as F

from thunderc._example import distinct, parameters_of
from thunderc._export import trained
from thunderc._weights import model_tensors, names_in

_TYPES = {"f32": torch.float32, "i64": torch.int64, "i32": torch.int32, "bool": torch.bool}
# The same numbers for both sides: the flags of a program, and torch's optimizer.
_OPTIMIZERS: dict[str, tuple[list[str], Callable[[Any], torch.optim.Optimizer]]] = {
    "adamw": (["--beta1", "0.9", "--beta2", "0.95", "--eps", "1e-8", "--weight-decay", "0.1", "--decay", "all"],
              lambda p: torch.optim.AdamW(p, lr=1e-3, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1)),
    "sgd": (["--momentum", "0.9", "--weight-decay", "0"], lambda p: torch.optim.SGD(p, lr=1e-3, momentum=0.9)),
}
# Relative: of the loss at the first step and ten times that at the last; of each gradient's norm; of each update's norm, in which
# Adam makes much of little. In narrow types a thousand times as much.
_LOSS, _GRADIENT, _UPDATE, _NARROW = 1e-5, 1e-4, 1e-3, 1e3
_NOISE = 1e-6  # of the norm of all gradients: below, it is rounding


@dataclasses.dataclass(frozen=True)
class Check:
    """What was compared, with its difference and its tolerance; true where all are within."""
    rows: list[tuple[str, float, float]]
    losses: list[tuple[float, float]]  # the model's and the program's, step by step

    def __bool__(self) -> bool:
        return all(difference <= tolerance for _, difference, tolerance in self.rows)

    def __str__(self) -> str:
        lines = ["step        PyTorch       program   difference"]
        lines += [f"{k:4}  {a:13.8g} {b:13.8g}   {abs(a - b) / max(abs(a), 1e-12):.1e}" for k, (a, b) in enumerate(self.losses)]
        over = [row for row in self.rows if not row[1] <= row[2]]
        worst = max(self.rows, key=lambda row: row[1] / row[2])
        lines += [f"{what}: {difference:.1e}, tolerance {tolerance:.0e}" for what, difference, tolerance in over or [worst]]
        return "\n".join(lines + [f"{len(over)} of {len(self.rows)} differ" if over else f"the same, all {len(self.rows)}; the widest is above"])


def _random_batch(inputs: Sequence[Mapping[str, Any]], generator: torch.Generator) -> dict[str, torch.Tensor]:
    """Numbers that each input takes: masks are ones, positions in order."""
    batch = {}
    for of in inputs:
        shape, dtype = of["shape"], _TYPES[of["type"]]
        if of["name"].endswith("mask") or dtype == torch.bool:
            batch[of["name"]] = torch.ones(shape, dtype=dtype)
        elif dtype.is_floating_point:
            batch[of["name"]] = torch.randn(shape, generator=generator)
        elif of.get("source") == "positions":
            batch[of["name"]] = torch.arange(shape[-1]).expand(shape).clone()
        else:
            batch[of["name"]] = torch.randint(0, of.get("entries", 2), shape, generator=generator).to(dtype)
    return batch


def _loss(model: torch.nn.Module, batch: Mapping[str, torch.Tensor], added: set[str], loss: Callable[..., Any] | None) -> torch.Tensor:
    names, anything = parameters_of(model.forward), any(p.kind is p.VAR_KEYWORD for p in inspect.signature(model.forward).parameters.values())
    of_model = {name: value for name, value in batch.items() if name not in added and (name in names or anything)}
    rest = {name: value for name, value in batch.items() if name not in of_model}
    result: Any = model(**of_model, **({"use_cache": False} if "use_cache" in names else {}))
    if loss is not None:
        return loss(result, **rest)  # type: ignore[no-any-return]
    own = result if isinstance(result, torch.Tensor) and result.dim() == 0 else getattr(result, "loss", None)
    if isinstance(own, torch.Tensor) and not rest:
        return own
    scores = result if isinstance(result, torch.Tensor) else getattr(result, "logits", None)
    if set(rest) != {"labels"} or rest["labels"].is_floating_point() or not isinstance(scores, torch.Tensor):
        raise ValueError(f"the program takes {', '.join(rest) or 'no labels'} besides forward()'s inputs, and which loss it has is not known "
                         "here: give loss=, a function of the model's result and of these")
    return F.cross_entropy(scores.flatten(0, -2), rest["labels"].flatten(), ignore_index=-100)


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{command[0]} failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")


def check(model: torch.nn.Module, program_folder: str | os.PathLike[str], *, loss: Callable[..., Any] | None = None, steps: int = 5,
          batches: Sequence[Mapping[str, torch.Tensor]] | None = None, mode: str = "train", cmake: Sequence[str] = ()) -> Check:
    """Trains both for `steps` steps from the model's weights on the same batches, prints the differences and gives them.

    `loss` and `mode` are those of the export. Batches are random ones of the inputs' shapes and ranges where none are given. The
    program is built in its folder where it is not yet, with `cmake`'s options. The model itself stays as it is."""
    from safetensors.torch import load_file, save_file

    folder = Path(program_folder)
    about = json.loads((folder / "train.json").read_text())
    if about["optimizer"] not in _OPTIMIZERS or "ranks" in about:
        raise ValueError(f"check compares programs of one rank and of {' or '.join(_OPTIMIZERS)}: compile the model once more, as such")
    if mode == "train" and any(isinstance(m, torch.nn.modules.dropout._DropoutNd) and m.p > 0 for m in model.modules()):
        raise ValueError("dropout draws other numbers in PyTorch: set its rate to 0 in the model, and compile with --dropout off")
    if not (folder / "build" / "train").exists():
        _run("cmake", "-S", str(folder), "-B", str(folder / "build"), *cmake)
        _run("cmake", "--build", str(folder / "build"))
    flags, optimizer_of = _OPTIMIZERS[about["optimizer"]]
    inputs, generator = about.get("inputs", []), torch.Generator().manual_seed(0)
    fed = [distinct(batch) for batch in batches or [_random_batch(inputs, generator) for _ in range(steps)]]
    added = {of["name"] for of in inputs if of.get("added")}
    model = copy.deepcopy(model)
    own = model_tensors(model)
    before = {name: own[name].detach().clone() for name in model.state_dict() if not name.endswith("num_batches_tracked")}
    with tempfile.TemporaryDirectory() as work:
        at = {name: str(Path(work) / name) for name in ("init", "feed", "log", "gradients", "after")}
        save_file(before, at["init"])
        save_file({f"{name}_{k}": tensor.contiguous() for k, batch in enumerate(fed) for name, tensor in batch.items()}, at["feed"])
        _run(str(folder / "build" / "train"), "--init", at["init"], "--feed", at["feed"], "--log", at["log"], "--dump-gradients",
             at["gradients"], "--save", at["after"], "--steps", str(steps), "--lr", "1e-3", "--schedule", "constant", "--warmup", "0",
             "--grad-clip", "0", "--quiet", *flags)
        log = [json.loads(line) for line in Path(at["log"]).read_text().splitlines()]
        gradients, after = load_file(at["gradients"]), load_file(at["after"])
    losses, wanted = [], dict[str, torch.Tensor]()
    with trained(model, mode, []):
        optimizer = optimizer_of([p for p in model.parameters() if p.requires_grad])
        for k in range(steps):
            optimizer.zero_grad()
            value = _loss(model, fed[k % len(fed)], added, loss)
            value.backward()  # type: ignore[no-untyped-call]
            losses.append((float(value.detach()), float(log[k]["loss"])))
            wanted = wanted or {name: p.grad.double() for name, p in own.items() if p.grad is not None}
            optimizer.step()
    scale = 1.0 if about["dtype"] == "f32" else _NARROW
    rows = [(f"loss of step {k}", abs(a - b) / max(abs(a), 1e-12), scale * _LOSS * 10 ** (k / max(steps - 1, 1)))
            for k, (a, b) in enumerate(losses)]
    least = _NOISE * sum(float(g.norm()) ** 2 for g in wanted.values()) ** 0.5
    for name, to in sorted(names_in(own, gradients).items()):
        reference = wanted.get(to, torch.zeros_like(gradients[name]).double())
        rows.append((f"gradient of {to}", float((gradients[name] - reference).norm()) / max(float(reference.norm()), least), scale * _GRADIENT))
    for name, to in sorted(names_in(own, after).items()):
        if to in wanted and float(wanted[to].norm()) > least:
            end, moved = own[to].detach().double(), float((own[to].detach().double() - before[to]).norm())
            rows.append((f"update of {to}", float((after[name] - end).norm()) / max(moved, 1e-30), scale * _UPDATE))
    result = Check(rows, losses)
    print(result)
    return result
