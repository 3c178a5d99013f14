# SPDX-License-Identifier: Apache-2.0
"""Weights of a program, put back into the model."""
from pathlib import Path
from typing import Iterable

import torch


def model_tensors(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    """Parameters and buffers under each of their names."""
    return dict([*model.named_parameters(remove_duplicate=False), *model.named_buffers(remove_duplicate=False)])


def names_in(model_names: Iterable[str], file_names: Iterable[str]) -> dict[str, str]:
    """The model's name of each name of a file: the same, or with one prefix more or less, which a wrapper around the model has
    for all of them; that with which the fewest have no tensor."""
    own, given = set(model_names), list(file_names)
    choices = [{name: name for name in given}]
    for prefix in sorted({n.split(".")[0] + "." for n in [*own, *given] if "." in n}):
        choices.append({name: prefix + name for name in given})
        if all(name.startswith(prefix) for name in given):
            choices.append({name: name[len(prefix):] for name in given})
    return min(choices, key=lambda names: sum(n not in own for n in names.values()))


def load(model: torch.nn.Module, weights: str | Path) -> torch.nn.Module:
    """Puts the tensors of a file that a program's `--save` wrote into the model, in place, and gives the model. Types are the
    model's. Parameters that the file lacks, tensors that the model lacks and other shapes are an error, with their names; buffers
    may be absent, and a tied parameter answers to each of its names."""
    from safetensors.torch import load_file

    given, own = load_file(weights), model_tensors(model)
    names = names_in(own, given)
    filled = {id(own[to]) for to in names.values() if to in own}
    missing = sorted(name for name, p in model.named_parameters() if id(p) not in filled)
    unknown = sorted(name for name, to in names.items() if to not in own)
    wrong = [f"it lacks {', '.join(missing)}"] if missing else []
    wrong += [f"the model has no {', '.join(unknown)}"] if unknown else []
    wrong += [f"{name} is {list(given[name].shape)} there and {list(own[to].shape)} in the model"
              for name, to in names.items() if to in own and given[name].shape != own[to].shape]
    if wrong:
        raise ValueError(f"{weights} does not fit the model: " + "; ".join(wrong))
    with torch.no_grad():
        for name, to in names.items():
            own[to].copy_(given[name])
    return model
