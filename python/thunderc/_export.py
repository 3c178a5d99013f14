# SPDX-License-Identifier: Apache-2.0
"""A model as a .pt2 file that thunderc trains, held against the model before it is written."""
import contextlib
import dataclasses
import inspect
import io
import linecache
import logging
import re
import shutil
import traceback
import unittest.mock
import warnings
from pathlib import Path
from typing import Any, Callable, ContextManager, Iterator, Mapping

import torch
import torch.nn.attention.flex_attention as flex
from torch.utils import _pytree as pytree

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


def parameters_of(function: Callable[..., Any], required: bool = False) -> list[str]:
    return [name for name, p in inspect.signature(getattr(function, "forward", function)).parameters.items()
            if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD) and not (required and p.default is not p.empty)]


def by_name(model: torch.nn.Module, example: Any, loss: Callable[..., Any] | None) -> tuple[dict[str, Any], dict[str, Any]]:
    """What the model takes, and what the loss takes besides the model's result."""
    own, added = parameters_of(model), parameters_of(loss)[1:] if loss else []
    if not isinstance(example, Mapping):
        values = list(example) if isinstance(example, (tuple, list)) else [example]
        behind = parameters_of(loss, required=True)[1:] if loss else []
        names = [*own[:max(len(values) - len(behind), 0)], *behind]
        if len(values) != len(names):
            raise TypeError(f"{len(values)} example inputs are given; forward() takes {', '.join(own) or 'none by name'}"
                            + (f", the loss {', '.join(behind)}" if loss else "") + ": give a dictionary of their names")
        example = dict(zip(names, values))
    rest = {name: value for name, value in example.items() if name in added and name not in own}
    return {name: value for name, value in example.items() if name not in rest}, rest


def plain(name: str) -> str:
    """As torch.export spells it in a graph; TorchScript has pair.0 for pair_0."""
    return re.sub(r"\W", "_", name).lower()


def tensors_of(inputs: Mapping[str, Any]) -> dict[str, torch.Tensor]:
    """Those within tuples and dictionaries too: pair_0, batch_image."""
    return {plain("_".join(pytree.keystr((key,)).strip("[].'") for key in path)): value
            for path, value in pytree.tree_flatten_with_path(dict(inputs))[0] if isinstance(value, torch.Tensor)}


def register(value: Any) -> None:
    """Named tuples and dataclasses in what a model gives: torch.export.save writes them by a name, in which fields of tuples stand."""
    kind = type(value)
    name = f"{kind.__module__}.{kind.__qualname__}"
    if kind not in pytree.SUPPORTED_SERIALIZED_TYPES and hasattr(kind, "_fields"):
        pytree._register_namedtuple(kind, serialized_type_name=f"{name}({', '.join(kind._fields)})")
    elif kind not in pytree.SUPPORTED_SERIALIZED_TYPES and dataclasses.is_dataclass(kind):
        torch.export.register_dataclass(kind, serialized_type_name=name)
    for part in pytree.tree_flatten(value, is_leaf=lambda of: of is not value)[0]:
        if part is not value:
            register(part)


def with_rows(inputs: dict[str, Any]) -> Any:
    """With at least two rows: the exporter takes a size of 1 for a fixed one."""
    if {value.shape[0] for value in tensors_of(inputs).values() if value.dim() > 0} != {1}:
        return inputs
    return pytree.tree_map_only(torch.Tensor, lambda t: t.repeat(2, *[1] * (t.dim() - 1)) if t.dim() > 0 else t, inputs)


def dynamic_shapes(inputs: Mapping[str, Any]) -> dict[str, dict[int, str]]:
    """Names of the dimensions that may vary: rows, and the second of tensors of whole numbers, as ids are. Equal sizes have one name."""
    tensors, names, out = tensors_of(inputs), dict[int, str](), dict[str, dict[int, str]]()
    rows = next((value.shape[0] for value in tensors.values() if value.dim() > 0), 0)
    for name, value in tensors.items():
        out[name] = {0: "batch"} if value.dim() > 0 and value.shape[0] == rows and rows > 1 else {}
        if out[name] and value.dim() == 2 and not value.is_floating_point() and value.shape[1] > 1:
            out[name][1] = names.setdefault(value.shape[1], "seq" if not names else f"seq_{len(names) + 1}")
    return out


class _WithLoss(torch.nn.Module):
    """The author's loss of the model's result. Arguments are by name, so that the graph's inputs have these names."""

    def __init__(self, model: torch.nn.Module, loss: Callable[..., Any], of_model: list[str], of_loss: list[str]):
        super().__init__()
        self.model, self.loss = model, loss

        def forward(**given: Any) -> Any:
            return loss(model(**{name: given[name] for name in of_model}), **{name: given[name] for name in of_loss})

        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        forward.__signature__ = inspect.Signature([inspect.Parameter(name, kind) for name in of_model + of_loss])  # type: ignore[attr-defined]
        self.forward = forward


@contextlib.contextmanager
def trained(model: torch.nn.Module, mode: str) -> Iterator[None]:
    """In the mode in which it is to be trained; modes are afterwards what they were."""
    if mode not in ("train", "eval"):
        raise ValueError(f"mode={mode!r}: train or eval")
    with contextlib.ExitStack() as stack:
        for module in model.modules():
            stack.callback(setattr, module, "training", module.training)
        if mode == "eval" or not model.training:
            model.train(mode == "train")
        yield


@contextlib.contextmanager
def _silence() -> Iterator[None]:
    """What torch prints of an attempt that fails is said in one sentence instead."""
    out, err, stack = contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()), contextlib.ExitStack()
    with out, err, warnings.catch_warnings(), stack:
        warnings.simplefilter("ignore")
        stack.callback(logging.disable, logging.root.manager.disable)
        logging.disable(logging.CRITICAL)
        yield


def _said(error: BaseException) -> tuple[str, str]:
    """What is wrong, with the innermost line that is the author's, and what to do."""
    text, place = str(error), ""
    frames = [(f.filename, str(f.lineno)) for f in traceback.extract_tb(error.__traceback__)]
    for file, line in frames + re.findall(r'File "([^"]+)", line (\d+)', text):
        if not _NOT_THE_AUTHORS.search(file):
            place = f"\n  {file}:{line}: {linecache.getline(file, int(line)).strip()}"
    if "GuardOnDataDependent" in type(error).__name__ or "data-dependent" in text:
        return (f"what is computed here depends on a tensor's numbers{place}",
                "choose with torch.where instead of `if`, keep sizes known, or move the decision out of forward()")
    lines = [line.strip(" -") for line in text.splitlines() if line.strip(" -")] or [""]
    if "Suggested fixes" in text or lines[0].startswith("Constraints violated"):  # the first line names the dimension alone
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
    rows = with_rows(inputs) if dynamic is True else inputs
    wanted = dynamic_shapes(rows) if dynamic is True else {}
    every = {dim for dims in wanted.values() for dim in dims.values()}
    limits = {"max": longest} if longest and longest > 2 else {}
    dims = {dim: torch.export.Dim(dim, **(limits if dim.startswith("seq") else {})) for dim in every}
    failed: list[Exception] = []
    for kept in [every, *(fewer for fewer in ({"batch"}, set[str]()) if fewer < every)]:
        choice = {name: {axis: dim for axis, dim in dims.items() if dim in kept} for name, dims in wanted.items()}
        example: dict[str, Any] = rows if kept else inputs
        shapes: Any = torch.export.ShapesCollection()  # type: ignore[no-untyped-call]
        for name, of in choice.items():
            shapes[tensors_of(example)[name]] = {axis: dims[dim] for axis, dim in of.items()}
        try:
            with _silence():
                program = _traced(module, example, shapes.dynamic_shapes(module, (), example) if dynamic is True else dynamic or None)
        except Exception as error:  # torch raises many kinds, some of them private
            failed.append(error)
            continue
        if failed:
            notes.append(f"{' and '.join(sorted(every - kept))} fixed at the example's size: {_said(failed[-1])[0]}")
        return program, choice
    reason, remedy = _said(failed[-1])
    raise ExportError(f"the model cannot be exported: {reason}\nhelp: {remedy}") from failed[-1]


def _step(module: torch.nn.Module, inputs: Mapping[str, Any]) -> tuple[list[torch.Tensor], dict[str, torch.Tensor]]:
    """Results, and gradients of a sum of them in which each element has a weight of its own."""
    buffers = {name: buffer.clone() for name, buffer in module.named_buffers()}  # the model's own stay as they are
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        result = torch.func.functional_call(module, buffers, (), dict(inputs))
    register(result)
    results = [r for r in pytree.tree_leaves(result) if isinstance(r, torch.Tensor)]
    own = {name: p for name, p in module.named_parameters() if p.requires_grad}
    parts = [(r.double() * torch.linspace(0.5, 1.5, r.numel(), dtype=torch.float64).reshape(r.shape)).sum()
             for r in results if r.is_floating_point() and r.requires_grad]
    gradients = torch.autograd.grad(parts, list(own.values()), allow_unused=True) if parts and own else ()
    return results, {name: torch.zeros_like(p) if g is None else g for (name, p), g in zip(own.items(), gradients)}


def distance(found: torch.Tensor, wanted: torch.Tensor, least: float = 1e-12) -> float:
    """Relative to the norm of what is wanted; infinite and missing numbers stand at the same places."""
    if found.shape != wanted.shape or not torch.equal(torch.isfinite(found), torch.isfinite(wanted)):
        return float("inf")
    finite = torch.isfinite(wanted)
    a, b = found.detach()[finite].double(), wanted.detach()[finite].double()
    return float((a - b).norm()) / max(float(b.norm()), least)


def _compare(wanted: list[torch.Tensor], gradients: dict[str, torch.Tensor], results: list[torch.Tensor], found: dict[str, torch.Tensor]) -> float:
    """The largest relative difference between the model's and the graph's; an error where it is more than rounding."""
    tolerance = max([_TOLERANCE.get(r.dtype, 0.0) for r in wanted], default=0.0)
    # A gradient of rounding alone (a bias in front of a softmax) is held against the whole.
    least = max(1e-3 * sum(float(g.double().norm()) ** 2 for g in gradients.values()) ** 0.5, 1e-12)
    differences = [distance(a, b) for a, b in zip(results, wanted)] + [float("inf")] * abs(len(results) - len(wanted))
    for k, difference in enumerate(differences):
        if difference > tolerance:
            raise ExportError(f"the exported graph computes something else than the model: result {k} differs by {difference:.1e}\n"
                              "help: forward() may depend on what is no input (random numbers, a clock, what an earlier call left)")
    for name, gradient in gradients.items():
        differences.append(distance(found[name], gradient, least) if name in found else float("inf"))
        if differences[-1] > 10 * tolerance:
            raise ExportError(f"the gradient of {name} is another in the exported graph, by {differences[-1]:.1e} of its norm\n"
                              "help: an export keeps neither hooks nor the backward of an autograd.Function: write it into forward()")
    return max(differences, default=0.0)


# torch.export traces flex_attention as one operator, which torch.export.save does not write; what follows computes it in plain ones.
def _attention(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, score_mod: Any, block_mask: tuple[Any, ...], scale: float,
               kernel_options: Any, *buffers: Any) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """What the kernel computes, over all places at once: the functions are given numbers of rows, heads and places that broadcast."""
    def numbers(count: int, axis: int) -> torch.Tensor:
        return torch.arange(count, device=query.device).view([-1 if k == axis else 1 for k in range(4)])

    batch, heads, rows, columns = query.shape[0], query.shape[1], query.shape[2], key.shape[2]
    if key.shape[1] != heads:  # groups of heads share keys
        key, value = (of.repeat_interleave(heads // key.shape[1], 1) for of in (key, value))
    at = numbers(batch, 0), numbers(heads, 1), numbers(rows, 2), numbers(columns, 3)
    scores = torch.where(block_mask[-1](*at), score_mod(query @ key.transpose(-2, -1) * scale, *at), float("-inf"))
    return torch.softmax(scores, -1) @ value, torch.logsumexp(scores, -1), scores.amax(-1)


def _block_mask(blocks: Any, mask_mod: Any, seq_lengths: tuple[int, int], q_block: int = 128, kv_block: int = 128) -> flex.BlockMask:
    """With the function alone: which blocks are skipped is the kernel's."""
    rows, columns = -(-seq_lengths[0] // q_block), -(-seq_lengths[1] // kv_block)
    counts, places = torch.zeros(1, 1, rows, dtype=torch.int32), torch.zeros(1, 1, rows, columns, dtype=torch.int32)
    return flex.BlockMask(seq_lengths=seq_lengths, kv_num_blocks=counts, kv_indices=places, full_kv_num_blocks=None, full_kv_indices=None,
                          q_num_blocks=None, q_indices=None, full_q_num_blocks=None, full_q_indices=None, BLOCK_SIZE=(q_block, kv_block), mask_mod=mask_mod)


def plain_attention() -> ContextManager[Any]:
    """flex_attention and create_block_mask are these operators, whoever imported them, and have gradients on CPUs."""
    ours: dict[str, Any] = {
        "flex_attention_hop": _attention, "_create_sparse_block_from_block_mask": _block_mask, "_FLEX_ATTENTION_DISABLE_COMPILE_DEBUG": True,
        "_create_empty_block_mask": lambda query, key: _block_mask(None, flex.noop_mask, (query.shape[2], key.shape[2])),
        "create_mask": lambda *_, **__: torch.zeros(1, 1, 1, 1, dtype=torch.bool), "_convert_mask_to_block_mask": lambda *_, **__: (None, None),
        "_validate_device": lambda *_: None}
    patched: ContextManager[Any] = unittest.mock.patch.multiple(flex, **{name: of for name, of in ours.items() if hasattr(flex, name)})
    return patched


def _copy_beside(model: torch.nn.Module, path: Path, source: str | Path | None, tokenizer: Any) -> list[str]:
    """A folder beside the file of what Hugging Face loads a model with, which --save completes; not the one that the model came from."""
    folder = path.with_suffix("")
    if source and folder.resolve() == Path(source).resolve():
        folder = folder.with_name(folder.name + "-trained")
    if source:
        shutil.copytree(source, folder, dirs_exist_ok=True, copy_function=shutil.copyfile,
                        ignore=lambda _, names: [n for n in names if not n.endswith((".json", ".txt", ".model", ".jinja")) or n.endswith(".index.json")])
    saved: list[Any] = [of for of in (None if source else getattr(model, "config", None), tokenizer) if hasattr(of, "save_pretrained")]
    for of in saved:
        of.save_pretrained(folder)
    return [f"configuration in {folder}/: after training with --save {folder}/model.safetensors it is a model to load"] if source or saved else []


def export(model: torch.nn.Module, example_inputs: Any, path: str | Path, *, loss: Callable[..., Any] | None = None,
           dynamic: Any = True, mode: str = "train", tokenizer: Any = None, source: str | Path | None = None) -> Exported:
    """Writes `path`, the .pt2 file of a model as it is trained, and checks it against the model (docs/python.md).

    `example_inputs`: by name, or in the order of forward(), those of `loss` behind them, a function of the model's result and of these.
    `dynamic`: True: batch and sequence where the model can; False: the example's sizes; else torch.export's dynamic_shapes. `mode`:
    train or eval. `source`: a Hugging Face folder whose configuration and tokenizer go beside the file, else the model's and `tokenizer`."""
    path = Path(path)
    if path.suffix != ".pt2":
        raise ValueError(f"{path}: the name of the file has to end in .pt2")
    notes = [] if mode != "train" or model.training else ["exported in train() mode, as it is trained; mode=\"eval\" leaves dropout out"]
    of_model, of_loss = by_name(model, example_inputs, loss)
    if "use_cache" in parameters_of(model):
        of_model.setdefault("use_cache", False)
    # Each with memory of its own: of a tensor that is given twice (ids that are labels as well) the export makes one input.
    inputs = pytree.tree_map_only(torch.Tensor, torch.clone, {**of_model, **of_loss})
    module = _WithLoss(model, loss, list(of_model), list(of_loss)) if loss else model
    config = getattr(model, "config", None)
    longest = next((n for key in ("max_position_embeddings", "n_positions") if isinstance(n := getattr(config, key, None), int)), None)
    with trained(model, mode), plain_attention():
        step = _step(module, inputs)
        program, dims = _program(module, inputs, dynamic, longest, notes)
        try:
            found = _step(program.module(), inputs)
        except RuntimeError as error:
            raise ExportError(f"the exported graph cannot be run as the model was: {str(error).splitlines()[0]}\n"
                              "help: leave out what forward() writes to buffers, and make what depends on them an input") from error
        difference = _compare(*step, *found)
    path.parent.mkdir(parents=True, exist_ok=True)
    torch.export.save(program, path)
    notes += _copy_beside(model, path, source, tokenizer)
    given = tensors_of(inputs)
    opened = {axis: given[node.name].shape[axis] for node in program.graph.find_nodes(op="placeholder") if node.name in given
              for axis, size in enumerate(node.meta["val"].shape) if isinstance(size, torch.SymInt)}
    flags = "".join(f" --{flag} {opened[axis]}" for axis, flag in enumerate(("batch", "seq")) if axis in opened)
    return Exported(path, program, dims, difference, notes, f"thunderc train {path}{flags} -o {path.stem}-train/")
