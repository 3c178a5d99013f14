# SPDX-License-Identifier: Apache-2.0
"""A model and the program that thunderc wrote of it, trained side by side, and the program's weights put back into the model."""
import copy
import dataclasses
import inspect
import json
import subprocess
import tempfile
from pathlib import Path
from typing import Any, Callable, Iterable, Mapping, Sequence

import torch
import torch.nn.functional as F

from thunderc._export import distance, parameters_of, plain, plain_attention, tensors_of, trained

_TYPES = {"f32": torch.float32, "i64": torch.int64, "i32": torch.int32, "bool": torch.bool}
_OPTIMIZERS: dict[str, tuple[list[str], Callable[[Any], torch.optim.Optimizer]]] = {
    "adamw": (["--beta1", "0.9", "--beta2", "0.95", "--eps", "1e-8", "--weight-decay", "0.1", "--decay", "all"],
              lambda p: torch.optim.AdamW(p, lr=1e-3, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1)),
    "sgd": (["--momentum", "0.9", "--weight-decay", "0"], lambda p: torch.optim.SGD(p, lr=1e-3, momentum=0.9)),
}
# Relative: of the first loss, ten times that of the last; of gradients' norms; of updates', in which Adam makes much of little.
_LOSS, _GRADIENT, _UPDATE, _NARROW = 1e-5, 1e-4, 1e-3, 1e3  # the last: so much more in narrow types
_NOISE = 1e-6  # of the norm of all gradients, and of their largest element: a difference, and an element, below it is rounding


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
        lines += [f"{what}: {difference:.1e}, tolerance {tolerance:.0e}" for what, difference, tolerance in over or [max(self.rows, key=lambda row: row[1] / row[2])]]
        return "\n".join(lines + [f"{len(over)} of {len(self.rows)} differ" if over else f"the same, all {len(self.rows)}; the widest is above"])


def model_tensors(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    """Parameters and buffers under each of their names."""
    return dict([*model.named_parameters(remove_duplicate=False), *model.named_buffers(remove_duplicate=False)])


def names_in(model_names: Iterable[str], file_names: Iterable[str]) -> dict[str, str]:
    """The model's name of each name of a file: the same, or with one prefix more or less for all; that which fits the most."""
    own, given = set(model_names), list(file_names)
    prefixes = sorted({"", *(n.split(".")[0] + "." for n in [*own, *given] if "." in n)})
    choices = [{name: prefix + name for name in given} for prefix in prefixes]
    choices += [{name: name[len(prefix):] for name in given} for prefix in prefixes if all(name.startswith(prefix) for name in given)]
    return min(choices, key=lambda names: sum(n not in own for n in names.values()))


def _random(of: Mapping[str, Any], generator: torch.Generator) -> torch.Tensor:
    """Numbers that an input takes: masks are ones, positions in order."""
    shape, dtype = of["shape"], _TYPES[of["type"]]
    if of["name"].endswith("mask") or dtype == torch.bool:
        return torch.ones(shape, dtype=dtype)
    if dtype.is_floating_point:
        return torch.randn(shape, generator=generator)
    if of.get("source") == "positions":
        return torch.arange(shape[-1]).expand(shape).clone()
    return torch.randint(0, of.get("entries", 2), shape, generator=generator).to(dtype)


def _own(result: Any, name: str) -> Any:
    """What a model gives under that name, in a dictionary or a class, or else first or alone."""
    first = result[0] if isinstance(result, (tuple, list)) and result else result
    return result.get(name) if isinstance(result, Mapping) else getattr(result, name, first)


def _loss(model: torch.nn.Module, batch: Mapping[str, Any], added: set[str], loss: Callable[..., Any] | None) -> torch.Tensor:
    """Of what forward() takes of a batch, in which pair_0 and pair_1 are a tuple and batch_image is of a dictionary, and of the rest."""
    names, parts, rest = {plain(name): name for name in parameters_of(model)}, dict[str, dict[str, Any]](), dict[str, Any]()
    anything = any(p.kind is p.VAR_KEYWORD for p in inspect.signature(model.forward).parameters.values())
    of_model: dict[str, Any] = {"use_cache": False} if "use_cache" in names else {}
    for name, tensor in batch.items():
        whole = next((of for of in names if name.startswith(of + "_") and of not in batch), "")
        if name in added or not (name in names or whole or anything):
            rest[name] = tensor
        elif name in names or not whole:
            of_model[names.get(name, name)] = tensor
        else:
            parts.setdefault(names[whole], {})[name[len(whole) + 1:]] = tensor
    result: Any = model(**of_model, **{name: tuple(of.values()) if "0" in of else of for name, of in parts.items()})
    if loss is not None:
        return loss(result, **rest)  # type: ignore[no-any-return]
    own, scores = _own(result, "loss"), _own(result, "logits")
    if isinstance(own, torch.Tensor) and own.dim() == 0 and not rest:
        return own
    if set(rest) != {"labels"} or rest["labels"].is_floating_point() or not isinstance(scores, torch.Tensor):
        raise ValueError(f"the program takes {', '.join(rest) or 'no labels'} besides forward()'s inputs, and which loss it has is not known "
                         "here: give loss=, a function of the model's result and of these")
    return F.cross_entropy(scores.flatten(0, -2), rest["labels"].flatten(), ignore_index=-100)


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{command[0]} failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")


def check(model: torch.nn.Module, program_folder: str | Path, *, loss: Callable[..., Any] | None = None, steps: int = 5,
          batches: Sequence[Mapping[str, torch.Tensor]] | None = None, mode: str = "train", cmake: Sequence[str] = ()) -> Check:
    """Trains both for `steps` steps from the model's weights on the same batches, prints the differences and gives them.

    `loss` and `mode` are those of the export. Batches are random where none are given; numbers and flags that the export was given are to
    be in them, as in its example. The program is built in its folder where it is not yet, with `cmake`'s options."""
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
    generator = torch.Generator().manual_seed(0)
    inputs = {plain(of["name"]): of for of in about.get("inputs", [])}
    given = batches or [{name: _random(of, generator) for name, of in inputs.items()} for _ in range(steps)]
    fed = [tensors_of(batch) for batch in given]  # the others are constants of the program
    constants = [{plain(name): of for name, of in batch.items() if isinstance(of, (bool, int, float, str, type(None)))} for batch in given]
    added = {name for name, of in inputs.items() if of.get("added")}
    model = copy.deepcopy(model)
    own = model_tensors(model)
    before = {name: own[name].detach().clone() for name in model.state_dict() if not name.endswith("num_batches_tracked")}
    with tempfile.TemporaryDirectory() as work:
        at = {name: str(Path(work) / name) for name in ("init", "feed", "log", "gradients", "after")}
        save_file(before, at["init"])
        save_file({f"{inputs[name]['name'] if name in inputs else name}_{k}": tensor.clone(memory_format=torch.contiguous_format) for k, batch in enumerate(fed)
                   for name, tensor in batch.items()}, at["feed"])
        train = [str(folder / "build" / "train"), "--init", at["init"], "--feed", at["feed"], "--save", at["after"], "--lr", "1e-3", "--schedule",
                 "constant", "--warmup", "0", "--grad-clip", "0", "--quiet", *flags]
        _run(*train, "--steps", str(steps), "--log", at["log"], "--dump-gradients", at["gradients"])
        log = [json.loads(line) for line in Path(at["log"]).read_text().splitlines()]
        gradients, after = load_file(at["gradients"]), load_file(at["after"])
        buffers = {name: to for name, to in names_in(own, after).items() if to in own and not isinstance(own[to], torch.nn.Parameter)}
        if buffers:  # after the first step: later ones are of weights that Adam may have moved by rounding
            _run(*train, "--steps", "1")
        moved_once = load_file(at["after"])
    losses, wanted, largest_of, statistics = [], dict[str, torch.Tensor](), dict[str, torch.Tensor](), dict[str, torch.Tensor]()
    with trained(model, mode), plain_attention():
        optimizer = optimizer_of([p for p in model.parameters() if p.requires_grad])
        for k in range(steps):
            optimizer.zero_grad()
            value = _loss(model, {**fed[k % len(fed)], **constants[k % len(fed)]}, added, loss)
            value.backward()  # type: ignore[no-untyped-call]
            losses.append((float(value.detach()), float(log[k]["loss"])))
            now = {name: p.grad.double() for name, p in own.items() if p.grad is not None}
            if k == 0:
                wanted, statistics = now, {name: own[to].detach().double() for name, to in buffers.items()}
            largest_of = {name: torch.maximum(g.abs(), largest_of.get(name, g.abs())) for name, g in now.items()}
            optimizer.step()
    scale = 1.0 if about["dtype"] == "f32" else _NARROW
    rows = [(f"loss of step {k}", abs(a - b) / max(abs(a), 1e-12), scale * _LOSS * 10 ** (k / max(steps - 1, 1)))
            for k, (a, b) in enumerate(losses)]
    largest = max([float(g.abs().max()) for g in wanted.values()], default=0.0)
    least = _NOISE * sum(float(g.norm()) ** 2 for g in wanted.values()) ** 0.5
    for name, to in sorted(names_in(own, gradients).items()):
        reference = wanted.get(to, torch.zeros_like(gradients[name]).double())
        rows.append((f"gradient of {to}", distance(gradients[name], reference, least / _GRADIENT), scale * _GRADIENT))
    for name, to in sorted(names_in(own, after).items()):
        if to in wanted:  # of the elements of which the gradient is more than rounding, or never any
            clear = (wanted[to].abs() > _NOISE * largest) | (largest_of[to] == 0)
            end, moved = own[to].detach().double(), float((own[to].detach().double() - before[to]).norm())
            rows.append((f"update of {to}", float(((after[name] - end) * clear).norm()) / max(moved, 1e-30), scale * _UPDATE))
    rows += [(f"statistic {buffers[name]}", distance(moved_once[name], of), scale * _UPDATE) for name, of in sorted(statistics.items())]
    result = Check(rows, losses)
    print(result)
    return result


def load(model: torch.nn.Module, weights: str | Path) -> torch.nn.Module:
    """Puts the tensors of a file that a program's `--save` wrote into the model, in place, and gives it. What either lacks and other
    shapes are an error; buffers may be absent, and a tied parameter answers to each of its names."""
    from safetensors.torch import load_file

    given, own = load_file(weights), model_tensors(model)
    names = names_in(own, given)
    filled = {id(own[to]) for to in names.values() if to in own}
    missing = sorted(name for name, p in model.named_parameters() if id(p) not in filled)
    unknown = sorted(name for name, to in names.items() if to not in own)
    wrong = [f"{what} {', '.join(of)}" for what, of in (("it lacks", missing), ("the model has no", unknown)) if of]
    wrong += [f"{name} is {list(given[name].shape)} there and {list(own[to].shape)} in the model"
              for name, to in names.items() if to in own and given[name].shape != own[to].shape]
    if wrong:
        raise ValueError(f"{weights} does not fit the model: " + "; ".join(wrong))
    with torch.no_grad():
        for name, to in names.items():
            own[to].copy_(given[name])
    return model
