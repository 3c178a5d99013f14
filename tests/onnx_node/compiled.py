# SPDX-License-Identifier: Apache-2.0
"""Function libraries of ONNX's cases (tests/support/function_libraries.py)."""
import os, pathlib, shutil, sys

import onnx
from safetensors.numpy import save_file

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "support"))
import function_libraries
from cases import stored
from function_libraries import Function, build, keep, kept


def emit(thunderc, name, model, inputs, choices, options, folder):
    """The function of a model; `choices` are sets of inputs to give by --bind, of which the first that is taken is."""
    function = Function(name, os.path.join(folder, name))
    shutil.rmtree(function.folder, ignore_errors=True)
    path = os.path.join(folder, name + ".onnx")
    onnx.save(model, path)
    for bound in choices:
        bind = []
        if bound:
            bind = ["--bind", os.path.join(folder, name + ".bound.safetensors")]
            save_file({k: stored(inputs[k]) for k in bound}, bind[1])
        function.bound = bound
        if function_libraries.emit(thunderc, path, function, options + bind, folder):
            break
    return function
