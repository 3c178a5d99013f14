#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Puts what a run of a fixture's program reads into a folder: its batches, under the names of the graph's inputs, and what is expected.

  fixture.py FIXTURE FOLDER [--own-loss]   FIXTURE: a folder of tests/fixtures
"""
import json
import shutil
import struct
import sys


def renamed(source, target, names):
    """Writes those tensors of a safetensors file under other names: {name: new name}."""
    with open(source, "rb") as f:
        header = json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))
        begin, out, blobs, at = f.tell(), {}, [], 0
        for name, new in names:
            entry = header[name]
            f.seek(begin + entry["data_offsets"][0])
            blobs.append(f.read(entry["data_offsets"][1] - entry["data_offsets"][0]))
            out[new] = {**entry, "data_offsets": [at, at + len(blobs[-1])]}
            at += len(blobs[-1])
    text = json.dumps(out).encode()
    text += b" " * (-len(text) % 8)
    with open(target, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + b"".join(blobs))


def main():
    fixture, folder = sys.argv[1:3]
    with open(f"{fixture}/reference.json") as f:
        reference = json.load(f)
    if "--own-loss" in sys.argv:  # the graph takes the labels as the framework does
        inputs = list(reference["loss_graph_inputs"].items())
    else:
        inputs = [(name, name) for name in [*reference["inputs"], "labels"]]
    steps = range(reference.get("batches", reference["steps"]))
    renamed(f"{fixture}/batch.safetensors", f"{folder}/batch.safetensors",
            [(f"{stored}_{step}", f"{name}_{step}") for step in steps for name, stored in inputs])
    shutil.copy(f"{fixture}/reference.json", folder)


if __name__ == "__main__":
    main()
