# SPDX-License-Identifier: Apache-2.0
"""Inputs by their names, and which of their dimensions may be of any size."""
import inspect
from typing import Any, Callable, Mapping

import torch


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


def distinct(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Each tensor with memory of its own: of one that is given twice (ids that are labels as well) the export makes one input."""
    seen: set[int] = set()
    out = dict(inputs)
    for name, value in tensors_of(inputs).items():
        out[name] = value.clone() if value.data_ptr() in seen else value
        seen.add(value.data_ptr())
    return out


def tensors_of(inputs: Mapping[str, Any]) -> dict[str, torch.Tensor]:
    return {name: value for name, value in inputs.items() if isinstance(value, torch.Tensor)}


def with_rows(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """With at least two rows: the exporter takes a size of 1 for a fixed one."""
    rows = {value.shape[0] for value in tensors_of(inputs).values() if value.dim() > 0}
    if rows != {1}:
        return dict(inputs)
    return {name: value.repeat(2, *[1] * (value.dim() - 1)) if isinstance(value, torch.Tensor) and value.dim() > 0 else value
            for name, value in inputs.items()}


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


def torch_dims(shapes: Mapping[str, Mapping[int, str]], inputs: Mapping[str, Any], longest: int | None) -> dict[str, Any]:
    """As torch.export takes them: an entry for each input, None for what is no tensor."""
    dims: dict[str, Any] = {}
    for of in shapes.values():
        for name in of.values():
            limit = {"max": longest} if name.startswith("seq") and longest and longest > 2 else {}
            dims.setdefault(name, torch.export.Dim(name, **limit))
    return {name: {axis: dims[dim] for axis, dim in shapes.get(name, {}).items()} if isinstance(value, torch.Tensor) else None
            for name, value in inputs.items()}
