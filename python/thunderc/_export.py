# SPDX-License-Identifier: Apache-2.0
"""A model as a .pt2 file that thunderc trains, held against the model before it is written."""
import contextlib
import dataclasses
import inspect
import io
import linecache
import logging
import os
import re
import shutil
import traceback
import warnings
from pathlib import Path
from typing import Any, Callable, Iterator, Mapping, NamedTuple

import torch

from thunderc import _example
from thunderc._flex import plain_attention

_BESIDE = (".json", ".txt", ".model", ".jinja")  # of what a checkpoint has beside weights: configuration, tokenizer
_NOT_THE_AUTHORS = re.compile(r"[/\\](torch|thunderc)[/\\]|<frozen|(contextlib|functools)\.py")
# Of a tensor's norm: both sides compute the same operators in the same order, in the type's own precision.
_TOLERANCE = {torch.float64: 1e-9, torch.float32: 1e-4, torch.bfloat16: 5e-2, torch.float16: 1e-2}


class ExportError(RuntimeError):
    """What cannot be exported, where in the author's code, and what to do."""


@dataclasses.dataclass(frozen=True)
class Exported:
    path: Path
    program: torch.export.ExportedProgram
    dynamic: dict[str, dict[int, str]]  # input -> its dimensions of any size
    difference: float  # the largest of a result and of a gradient from the model's, relative to its norm
    notes: list[str]
    command: str  # the next one


class _WithLoss(torch.nn.Module):
    """The author's loss of the model's result. Arguments are by name, so that the graph's inputs have these names."""

    def __init__(self, model: torch.nn.Module, loss: Callable[..., Any], of_model: list[str], of_loss: list[str]):
        super().__init__()
        self.model, self.loss = model, loss

        def forward(**given: Any) -> Any:
            return self.loss(self.model(**{name: given[name] for name in of_model}), **{name: given[name] for name in of_loss})

        forward.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
            [inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD) for name in [*of_model, *of_loss]])
        self.forward = forward


@contextlib.contextmanager
def trained(model: torch.nn.Module, mode: str, notes: list[str]) -> Iterator[None]:
    """In the mode in which it is to be trained; buffers and modes are afterwards what they were."""
    if mode not in ("train", "eval"):
        raise ValueError(f"mode={mode!r}: train or eval")
    modes, buffers = [(m, m.training) for m in model.modules()], [(buffer, buffer.clone()) for buffer in model.buffers()]
    if mode == "eval" or not model.training:
        model.train(mode == "train")
        if mode == "train":
            notes.append("exported in train() mode, as it is trained; mode=\"eval\" leaves dropout out and statistics fixed")
    try:
        yield
    finally:
        with torch.no_grad():
            for buffer, before in buffers:
                buffer.copy_(before)
        for module, training in modes:
            module.training = training


@contextlib.contextmanager
def _silence() -> Iterator[None]:
    """What torch prints of an attempt that fails is said in one sentence instead."""
    disabled, nowhere = logging.root.manager.disable, io.StringIO()
    with warnings.catch_warnings(), contextlib.redirect_stdout(nowhere), contextlib.redirect_stderr(nowhere):
        warnings.simplefilter("ignore")
        logging.disable(logging.CRITICAL)
        try:
            yield
        finally:
            logging.disable(disabled)


def _said(error: BaseException) -> tuple[str, str]:
    """What is wrong, with the innermost line that is the author's (of the traceback, or of the code that torch says it was tracing),
    and what to do."""
    text, place = str(error), ""
    frames = [(f.filename, str(f.lineno)) for f in traceback.extract_tb(error.__traceback__)]
    for file, line in frames + re.findall(r'File "([^"]+)", line (\d+)', text):
        if not _NOT_THE_AUTHORS.search(file):
            place = f"\n  {file}:{line}: {linecache.getline(file, int(line)).strip()}"
    if "GuardOnDataDependent" in type(error).__name__ or "data-dependent" in text:
        return (f"what is computed here depends on a tensor's numbers{place}",
                "choose with torch.where instead of `if`, keep sizes known, or move the decision out of forward()")
    lines = [line.strip(" -") for line in text.splitlines() if line.strip(" -")] or [""]
    if "Suggested fixes" in text:
        return f"{lines[min(1, len(lines) - 1)]}{place}", "dynamic=False exports the sizes of the example"
    return f"{type(error).__name__}: {lines[0]}{place}", "torch.export has to be able to trace the model with these inputs"


def _traced(module: torch.nn.Module, inputs: dict[str, Any], shapes: Any) -> torch.export.ExportedProgram:
    """With the ranges and multiples of sizes that torch suggests, where it finds that not all of them can be."""
    try:
        return torch.export.export(module, (), inputs, dynamic_shapes=shapes, strict=False)
    except torch._dynamo.exc.UserError as error:
        said, _, _ = str(error).partition("\n\nThe error above")
        fixes = said.partition("Suggested fixes:")[2]
        if not fixes or re.search(r"^\s*\w+ = \d+$", fixes, re.MULTILINE):  # one size alone
            raise
        better = torch.export.dynamic_shapes.refine_dynamic_shapes_from_suggested_fixes(said, shapes)
        return torch.export.export(module, (), inputs, dynamic_shapes=better, strict=False)


def _program(module: torch.nn.Module, inputs: dict[str, Any], dynamic: Any, longest: int | None, notes: list[str]
             ) -> tuple[torch.export.ExportedProgram, dict[str, dict[int, str]]]:
    """With as many dimensions of any size as the model allows: all, then the batch alone, then none."""
    rows = _example.with_rows(inputs) if dynamic is True else inputs
    wanted = _example.dynamic_shapes(rows) if dynamic is True else {}
    batch = {name: {axis: dim for axis, dim in dims.items() if dim == "batch"} for name, dims in wanted.items()}
    none: dict[str, dict[int, str]] = {name: {} for name in wanted}
    failed: list[Exception] = []
    for choice in [wanted] + [c for c, before in ((batch, wanted), (none, batch)) if c != before]:
        example = rows if any(choice.values()) else inputs
        try:
            with _silence():
                shapes = _example.torch_dims(choice, module, example, longest) if dynamic is True else dynamic or None
                program = _traced(module, example, shapes)
        except Exception as error:  # torch raises many kinds, some of them private
            failed.append(error)
            continue
        if failed:
            fixed = sorted({dim for name, dims in wanted.items() for axis, dim in dims.items() if axis not in choice[name]})
            notes.append(f"{' and '.join(fixed)} fixed at the example's size: {_said(failed[-1])[0]}")
        return program, choice
    reason, remedy = _said(failed[-1])
    raise ExportError(f"the model cannot be exported: {reason}\nhelp: {remedy}") from failed[-1]


class _Step(NamedTuple):
    """Results, and gradients of a sum of them in which each element has a weight of its own."""
    results: list[torch.Tensor]
    gradients: dict[str, torch.Tensor]


def _step(module: torch.nn.Module, inputs: Mapping[str, Any]) -> _Step:
    buffers = [(buffer, buffer.clone()) for buffer in module.buffers()]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        result = module(**inputs)
    _example.register(result)
    results = [r for r in torch.utils._pytree.tree_leaves(result) if isinstance(r, torch.Tensor)]
    own = {name: p for name, p in module.named_parameters() if p.requires_grad}
    total = torch.zeros((), dtype=torch.float64)
    for result in results:
        if result.is_floating_point() and result.requires_grad:
            total = total + (result.double() * torch.linspace(0.5, 1.5, result.numel(), dtype=torch.float64).reshape(result.shape)).sum()
    gradients = torch.autograd.grad(total, list(own.values()), allow_unused=True) if total.requires_grad and own else ()
    with torch.no_grad():
        for buffer, before in buffers:
            buffer.copy_(before)
    return _Step(results, {name: torch.zeros_like(p) if g is None else g for (name, p), g in zip(own.items(), gradients)})


def distance(found: torch.Tensor, wanted: torch.Tensor, least: float = 1e-12) -> float:
    """Relative to the norm of what is wanted; infinite and missing numbers stand at the same places."""
    if found.shape != wanted.shape or not torch.equal(torch.isfinite(found), torch.isfinite(wanted)):
        return float("inf")
    finite = torch.isfinite(wanted)
    a, b = found.detach()[finite].double(), wanted.detach()[finite].double()
    return float((a - b).norm()) / max(float(b.norm()), least)


def _compare(model: _Step, graph: _Step) -> float:
    """The largest relative difference between graph and model; an error where it is more than rounding."""
    tolerance = max([_TOLERANCE.get(r.dtype, 0.0) for r in model.results], default=0.0)
    differences = [distance(a, b) for a, b in zip(graph.results, model.results)] + [float("inf")] * abs(len(graph.results) - len(model.results))
    for k, difference in enumerate(differences):
        if difference > tolerance:
            raise ExportError(f"the exported graph computes something else than the model: result {k} differs by {difference:.1e}\n"
                              "help: forward() may depend on what is no input (random numbers, a clock, what an earlier call left)")
    # A gradient of rounding alone (a bias in front of a softmax) is held against the whole.
    least = max(1e-3 * sum(float(g.double().norm()) ** 2 for g in model.gradients.values()) ** 0.5, 1e-12)
    for name, gradient in model.gradients.items():
        differences.append(distance(graph.gradients[name], gradient, least) if name in graph.gradients else float("inf"))
        if differences[-1] > 10 * tolerance:
            raise ExportError(f"the gradient of {name} is another in the exported graph, by {differences[-1]:.1e} of its norm\n"
                              "help: an export keeps neither hooks nor the backward of an autograd.Function: write it into forward()")
    return max(differences, default=0.0)


def _copy_beside(model: torch.nn.Module, path: Path, source: str | os.PathLike[str] | None, tokenizer: Any) -> Path | None:
    """A folder beside the file, named as it is, of what Hugging Face loads a model with: the program's --save completes it. The
    folder that the model came from keeps its weights: then it is another one."""
    folder, config = path.with_suffix(""), getattr(model, "config", None)
    if source and folder.resolve() == Path(source).resolve():
        folder = folder.with_name(folder.name + "-trained")
    files = [f for f in Path(source).iterdir() if f.suffix in _BESIDE and not f.name.endswith(".index.json")] if source else []
    saved: list[Any] = [of for of in (None if files else config, tokenizer) if hasattr(of, "save_pretrained")]
    if files or saved:
        folder.mkdir(parents=True, exist_ok=True)
    for file in files:
        shutil.copyfile(file, folder / file.name)
    for of in saved:
        of.save_pretrained(folder)
    return folder if files or saved else None


def export(model: torch.nn.Module, example_inputs: Any, path: str | os.PathLike[str], *, loss: Callable[..., Any] | None = None,
           dynamic: Any = True, mode: str = "train", tokenizer: Any = None, source: str | os.PathLike[str] | None = None) -> Exported:
    """Writes `path`, the .pt2 file of a model as it is trained, and checks it against the model.

    `example_inputs`: a dictionary of inputs by name, or a tuple in the order of forward(). With `labels` a Hugging Face model
    gives its own loss. `loss`: a function of the model's result and of further inputs, which stand behind the model's or under the
    names of its parameters; the graph then ends in it. Without one it ends in what the model returns, and `thunderc train --loss`
    adds a loss. `dynamic`: True leaves batch and sequence open where the model can; False fixes the example's sizes; else it is
    torch.export's dynamic_shapes. `mode`: train or eval. `source`: a Hugging Face folder whose configuration and tokenizer are
    copied beside the file; else those of the model and of `tokenizer` are."""
    path = Path(path)
    if path.suffix != ".pt2":
        raise ValueError(f"{path}: the name of the file has to end in .pt2")
    notes: list[str] = []
    of_model, of_loss = _example.by_name(model, example_inputs, loss)
    if "use_cache" in _example.parameters_of(model.forward):
        of_model.setdefault("use_cache", False)
    inputs = _example.distinct({**of_model, **of_loss})
    module = _WithLoss(model, loss, list(of_model), list(of_loss)) if loss else model
    config = getattr(model, "config", None)
    longest = next((n for key in ("max_position_embeddings", "n_positions") if isinstance(n := getattr(config, key, None), int)), None)
    with trained(model, mode, notes), plain_attention():
        step = _step(module, inputs)
        program, dims = _program(module, inputs, dynamic, longest, notes)
        difference = _compare(step, _step(program.module(), inputs))
    path.parent.mkdir(parents=True, exist_ok=True)
    torch.export.save(program, path)
    folder = _copy_beside(model, path, source, tokenizer)
    if folder is not None:
        notes.append(f"configuration in {folder}/: after training with --save {folder}/model.safetensors it is a model to load")
    tensors = _example.tensors_of(inputs)
    sizes = {dim: tensors[name].shape[axis] for name, of in dims.items() for axis, dim in of.items()}
    flags = [f" --{dim} {size}" if dim in ("batch", "seq") else f" --dim {dim}={size}" for dim, size in sizes.items()]
    return Exported(path, program, dims, difference, notes, f"thunderc train {path}{''.join(flags)} -o {path.stem}-train/")
