#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Exports models of models.py as tests/gpu/prepare.sh takes them: FOLDER/NAME.onnx, whose weights are in no file.

  tests/gpu/export.py FOLDER NAME...       NAME: llama2-7b, llama-1b, gpt2-124m, llama3-70b, tiny-llama, tiny-gpt2

Nothing of a model's size is made: its parameters have shapes and no data (PyTorch's device `meta`), and the graph says of each that
it lies in a file, NAME.onnx.data, that does not exist. thunderc needs no more: the program starts from random weights or from --init.
Needs torch 2.13, onnx and onnxscript.
"""
import os
import sys

import onnx_ir as ir
import torch

import models


def without_weights(graph, file):
    """Every initializer of some size becomes a part of a file that nobody wrote."""
    offset = 0
    for value in graph.initializers.values():
        tensor = value.const_value
        if tensor.nbytes < 1024 and getattr(getattr(tensor, "raw", None), "device", torch.device("cpu")).type != "meta":
            continue  # a number of the graph, not a weight
        value.const_value = ir.ExternalTensor(file, offset, tensor.nbytes, tensor.dtype, shape=tensor.shape, name=value.name)
        offset += tensor.nbytes


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    folder, names = sys.argv[1], sys.argv[2:]
    os.makedirs(folder, exist_ok=True)
    for name in names:
        with torch.device("meta"):
            model, c = models.make(name)
            ids = torch.zeros(c["batch"], c["positions"], dtype=torch.int64)
        program = torch.onnx.export(model.eval(), (ids,), dynamo=True, input_names=["input_ids"], output_names=["logits"],
                                    optimize=False, verbose=False)
        without_weights(program.model.graph, f"{name}.onnx.data")
        for node in program.model.graph:  # stack traces are most of the file
            for key in [key for key in node.metadata_props if "stack_trace" in key]:
                del node.metadata_props[key]
        path = os.path.join(folder, f"{name}.onnx")
        ir.save(program.model, path)
        print(f"{path}: {os.path.getsize(path)} bytes")


if __name__ == "__main__":
    main()
