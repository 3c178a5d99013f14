#!/usr/bin/env python
# SPDX-License-Identifier: Apache-2.0
"""Makes tests/fixtures/torch_files: files of torch.save as programs read them with --init, and what is in them. Needs the versions of
fixture_files.py.

  python scripts/make_torch_files.py [--out tests/fixtures/torch_files]

tensors.safetensors has what tensors.pt has, in order and without what safetensors does not know; words_*.pt and folder the parameters
of the program in tests/runtime/train/words.
"""
import argparse, collections, json, os

import torch
from safetensors.torch import save_file

import fixture_files

G = torch.Generator().manual_seed(11)


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.norm = torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2)


def tensors():
    """Types, strides, views and ties."""
    base = torch.randn(4, 6, generator=G)
    out = {"f32": torch.randn(3, 2, generator=G), "f64": torch.randn(2, 2, generator=G, dtype=torch.float64), "f16": torch.randn(5, generator=G).half(),
           "bf16": torch.randn(5, generator=G).bfloat16(), "i64": torch.tensor([-1, 2 ** 40]), "i32": torch.tensor([[7], [-7]], dtype=torch.int32),
           "i16": torch.tensor([300], dtype=torch.int16), "i8": torch.tensor([-3, 3], dtype=torch.int8), "u8": torch.tensor([200], dtype=torch.uint8),
           "bool": torch.tensor([True, False, True]), "scalar": torch.tensor(2.5), "empty": torch.zeros(0, 4), "u16": torch.tensor([65535], dtype=torch.uint16),
           "f8": torch.tensor([1.5, -2.0]).to(torch.float8_e4m3fn), "whole": base, "part": base[1:3, 2:5], "transposed": base.t(), "row": base[2], "same": base,
           "parameter": torch.nn.Parameter(torch.randn(2, generator=G)), "every_second": torch.arange(8.0)[::2], "one": base[:1, :1].t()}
    return out


def words():
    def ramp(start, *shape):
        return start + torch.arange(float(torch.Size(shape).numel())).reshape(shape) / 8

    v, d = 11, 8
    return {"model.embed.weight": ramp(1, v, d), "model.head.weight": ramp(20, v, d), "model.head.bias": ramp(40, v), "model.norm.one_plus_weight": ramp(50, d),
            "model.frozen.weight": ramp(60, d)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", default="tests/fixtures/torch_files")
    a = parser.parse_args()
    fixture_files.check_versions(torch)
    os.makedirs(f"{a.out}/folder", exist_ok=True)
    save = lambda value, name, **how: torch.save(value, f"{a.out}/{name}", **how)
    all_of_them = tensors()
    save(all_of_them, "tensors.pt")
    save(all_of_them, "protocol4.pt", pickle_protocol=4)
    save_file({n: t.detach().clone().contiguous() for n, t in all_of_them.items()}, f"{a.out}/tensors.safetensors")
    of_words = words()
    model = Net()
    model.state_dict()  # an OrderedDict with attributes
    optimizer = torch.optim.AdamW(model.parameters())
    model.norm(model.first(torch.randn(4, 3, generator=G))).sum().backward()
    optimizer.step()
    named = collections.OrderedDict(of_words)
    named._metadata = model.state_dict()._metadata
    save({"model": named, "optimizer": optimizer.state_dict(), "epoch": 3, "best": 0.5, "config": {"lr": 1e-3, "names": ["a"]}, "size": torch.Size([2])}, "words_checkpoint.pt")
    save({"state_dict": {f"module._orig_mod.{n}": t for n, t in of_words.items()}}, "words_wrapped.pt")
    save({"generator": model.state_dict(), "average": model.state_dict()}, "several.pt")
    first = dict(list(of_words.items())[:2])
    save(first, "folder/pytorch_model-00001-of-00002.bin")
    save({n: t for n, t in of_words.items() if n not in first}, "folder/pytorch_model-00002-of-00002.bin")
    with open(f"{a.out}/folder/pytorch_model.bin.index.json", "w") as index:
        json.dump({"weight_map": {n: f"pytorch_model-0000{1 if n in first else 2}-of-00002.bin" for n in of_words}}, index)
    save(model, "module.pt")
    save(first, "legacy.pt", _use_new_zipfile_serialization=False)
    save(torch.zeros(2), "one_tensor.pt")
    expanded = torch.zeros(1).expand(1000, 1000)
    save({"w": expanded}, "expanded.pt")
    torch.jit.save(torch.jit.script(model), f"{a.out}/program.pt")


if __name__ == "__main__":
    main()
