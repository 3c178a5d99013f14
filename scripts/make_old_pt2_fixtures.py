#!/usr/bin/env python
# SPDX-License-Identifier: Apache-2.0
"""Makes tests/fixtures/mlp/torch_VERSION.logits.pt2 with the PyTorch that runs it: the fixture's model (make_fixtures.py), with weights from
params.safetensors, as this version of torch.export saves it. Run by an environment of each version, with torch and numpy alone.

  python scripts/make_old_pt2_fixtures.py [--out tests/fixtures/mlp]
"""
import argparse, io, json, struct, zipfile

import torch
from torch import nn


class MLP(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(12, 16), nn.ReLU(), nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 5))

    def forward(self, x):
        return self.net(x)


def load(path):
    content = open(path, "rb").read()
    begin = 8 + struct.unpack_from("<Q", content)[0]
    return {name: torch.frombuffer(bytearray(content[begin + of["data_offsets"][0]:begin + of["data_offsets"][1]]), dtype=torch.float32).reshape(of["shape"])
            for name, of in json.loads(content[8:begin]).items() if name != "__metadata__"}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", default="tests/fixtures/mlp")
    a = parser.parse_args()
    model = MLP().eval()
    model.load_state_dict(load(f"{a.out}/params.safetensors"))
    batch = torch.export.Dim("batch", min=1)
    program = torch.export.export(model, (torch.zeros(4, 12),), dynamic_shapes=({0: batch},))
    saved = io.BytesIO()
    torch.export.save(program, saved)
    version = torch.__version__.split("+")[0]
    with zipfile.ZipFile(saved) as source, zipfile.ZipFile(f"{a.out}/torch_{version}.logits.pt2", "w", zipfile.ZIP_DEFLATED) as out:
        for name in source.namelist():
            if "sample_inputs" not in name:
                entry = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
                entry.compress_type = zipfile.ZIP_DEFLATED
                out.writestr(entry, source.read(name))


if __name__ == "__main__":
    main()
