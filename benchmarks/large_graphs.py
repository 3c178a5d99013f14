#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How long thunderc takes for graphs of many nodes that are no loop, and how much memory.

  benchmarks/large_graphs.py [--thunderc build/thunderc] [--nodes 5000,20000] [--graphs chain,layers,mixed]

chain: one product and elementwise operators behind each other.
layers: residual layers of five nodes, all alike, with --no-roll.
mixed: the same with an activation drawn for each layer, so that what repeats is small.

Prints seconds of processor time and megabytes for `thunderc train`. Needs the packages onnx and numpy.
"""
import argparse
import os
import subprocess
import tempfile

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

WIDTH = 16


def model(nodes, initializers, result):
    shape = [4, WIDTH]
    graph = helper.make_graph(nodes, "graph", [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
                              [helper.make_tensor_value_info(result, TensorProto.FLOAT, shape)],
                              [numpy_helper.from_array(value.astype(np.float32), name) for name, value in initializers])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def chain(count):
    inputs = {"Tanh": [], "Mul": ["scale"], "Add": ["shift"], "Sigmoid": []}
    initializers = [("w", np.linspace(-0.1, 0.1, WIDTH * WIDTH).reshape(WIDTH, WIDTH)), ("scale", np.full(WIDTH, 1.01)), ("shift", np.full(WIDTH, 0.01))]
    nodes = [helper.make_node("MatMul", ["x", "w"], ["v0"])]
    for k in range(count - 1):
        op = list(inputs)[k % len(inputs)]
        nodes.append(helper.make_node(op, [f"v{k}", *inputs[op]], [f"v{k + 1}"]))
    return model(nodes, initializers, f"v{count - 1}")


def layers(count, mixed=False):
    random = np.random.RandomState(0)
    nodes, initializers, x = [], [], "x"
    for k in range(count // 5):
        name = f"layers.{k}."
        initializers += [(name + "w", random.randn(WIDTH, WIDTH) * 0.1), (name + "b", random.randn(WIDTH) * 0.1),
                         (name + "g", np.ones(WIDTH))]
        act = random.choice(["Tanh", "Sigmoid", "Relu", "Softplus", "Elu", "Selu", "Softsign"]) if mixed else "Tanh"
        nodes += [helper.make_node("LayerNormalization", [x, name + "g"], [name + "n"], axis=-1),
                  helper.make_node("MatMul", [name + "n", name + "w"], [name + "m"]),
                  helper.make_node("Add", [name + "m", name + "b"], [name + "a"]),
                  helper.make_node(act, [name + "a"], [name + "h"]),
                  helper.make_node("Add", [x, name + "h"], [name + "y"])]
        x = name + "y"
    return model(nodes, initializers, x)


GRAPHS = {"chain": (chain, ["--constant", "^(scale|shift)$"]), "layers": (layers, ["--no-roll"]),
          "mixed": (lambda count: layers(count, mixed=True), [])}

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--thunderc", default="build/thunderc")
parser.add_argument("--nodes", default="5000,20000")
parser.add_argument("--graphs", default=",".join(GRAPHS))
args = parser.parse_args()

with tempfile.TemporaryDirectory() as folder:
    for name in args.graphs.split(","):
        make, options = GRAPHS[name]
        for count in map(int, args.nodes.split(",")):
            path = os.path.join(folder, "model.onnx")
            onnx.save(make(count), path)
            command = [args.thunderc, "train", path, "--loss", "mse", *options, "-o", os.path.join(folder, f"{name}{count}")]
            process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
            errors = process.stderr.read()
            _, status, used = os.wait4(process.pid, 0)
            if status != 0:
                raise SystemExit(f"{name} of {count} nodes: {errors}")
            print(f"{name:8} {count:7} nodes  {used.ru_utime + used.ru_stime:7.1f} s  {used.ru_maxrss / 1024:7.0f} MB", flush=True)
