# SPDX-License-Identifier: Apache-2.0
"""Inputs by their names, and which of their dimensions may be of any size."""
import dataclasses
import inspect
import re
from typing import Any, Callable, Mapping

import torch
from torch.utils import _pytree as pytree


def parameters_of(function: Callable[..., Any], required: bool = False) -> list[str]:
    return [name for name, p in inspect.signature(function).parameters.items()
            if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD) and not (required and p.default is not p.empty)]


def by_name(model: torch.nn.Module, example: Any, loss: Callable[..., Any] | None) -> tuple[dict[str, Any], dict[str, Any]]:
    """What the model takes, and what the loss takes besides the model's result."""
    own, of_loss = parameters_of(model.forward), loss.forward if isinstance(loss, torch.nn.Module) else loss
    added = parameters_of(of_loss)[1:] if of_loss else []
    if not isinstance(example, Mapping):
        values = list(example) if isinstance(example, (tuple, list)) else [example]
        behind = parameters_of(of_loss, required=True)[1:] if of_loss else []
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
    """Named tuples and dataclasses in what a model gives: torch.export.save writes those alone of which it was told a name, and of
    named tuples nothing else: then the fields stand in it."""
    kind, fields = type(value), getattr(value, "_fields", None)
    name = f"{kind.__module__}.{kind.__qualname__}"
    if kind not in pytree.SUPPORTED_SERIALIZED_TYPES:
        if fields and isinstance(value, tuple):
            pytree._register_namedtuple(kind, serialized_type_name=f"{name}({', '.join(fields)})")
        elif dataclasses.is_dataclass(value):
            torch.export.register_dataclass(kind, serialized_type_name=name)
    if not isinstance(value, torch.Tensor):
        for part in pytree.tree_flatten(value, is_leaf=lambda of: of is not value)[0]:
            if part is not value:
                register(part)


def distinct(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Each tensor with memory of its own: of one that is given twice (ids that are labels as well) the export makes one input."""
    seen: set[int] = set()

    def own(tensor: torch.Tensor) -> torch.Tensor:
        twice = tensor.data_ptr() in seen
        seen.add(tensor.data_ptr())
        return tensor.clone() if twice else tensor

    out: dict[str, Any] = pytree.tree_map_only(torch.Tensor, own, dict(inputs))
    return out


def with_rows(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """With at least two rows: the exporter takes a size of 1 for a fixed one."""
    if {value.shape[0] for value in tensors_of(inputs).values() if value.dim() > 0} != {1}:
        return dict(inputs)
    out: dict[str, Any] = pytree.tree_map_only(torch.Tensor, lambda t: t.repeat(2, *[1] * (t.dim() - 1)) if t.dim() > 0 else t, dict(inputs))
    return out


def dynamic_shapes(inputs: Mapping[str, Any]) -> dict[str, dict[int, str]]:
    """Names of the dimensions that may vary: the first of all tensors that have as many rows, and the second of tensors of whole
    numbers, as ids of tokens are. Equal sizes have one name."""
    tensors = tensors_of(inputs)
    rows = next((value.shape[0] for value in tensors.values() if value.dim() > 0), 0)
    names: dict[int, str] = {}
    out: dict[str, dict[int, str]] = {}
    for name, value in tensors.items():
        dims = {0: "batch"} if value.dim() > 0 and value.shape[0] == rows and rows > 1 else {}
        if value.dim() == 2 and not value.is_floating_point() and value.shape[1] > 1 and dims:
            size = value.shape[1]
            dims[1] = names.setdefault(size, "seq" if not names else f"seq_{len(names) + 1}")
        out[name] = dims
    return out


def torch_dims(shapes: Mapping[str, Mapping[int, str]], module: torch.nn.Module, inputs: dict[str, Any], longest: int | None) -> Any:
    """As torch.export takes them."""
    limits = {"max": longest} if longest and longest > 2 else {}
    dims = {dim: torch.export.Dim(dim, **(limits if dim.startswith("seq") else {})) for of in shapes.values() for dim in of.values()}
    out: Any = torch.export.ShapesCollection()  # type: ignore[no-untyped-call]
    for name, tensor in tensors_of(inputs).items():
        out[tensor] = {axis: dims[dim] for axis, dim in shapes[name].items()}
    return out.dynamic_shapes(module, (), inputs)
