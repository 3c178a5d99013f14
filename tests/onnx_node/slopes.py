# SPDX-License-Identifier: Apache-2.0
"""Differences in fp64 of what a model computes: by ONNX's own reference evaluator where it computes the model in double, else by
`thunderc run`, which has another text of every operator than programs have."""
import copy, os, subprocess

import numpy as np
import onnx
from onnx import AttributeProto, TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from safetensors.numpy import load_file, save_file

from cases import FLOATS, stored

# Operators that the evaluator computes otherwise than their definition says.
OTHERWISE = {"LpNormalization"}  # no absolute values
STEP = 1e-5  # the error of a central difference is 1e-10 of the third derivative, and 1e-11 of the value for roundings
TYPE_ATTRIBUTES = {"to", "dtype", "stash_type", "softmax_precision", "output_datatype"}


def in_double(model):
    """The model with every float in double."""
    model = copy.deepcopy(model)

    def tensor(t):
        if t.data_type in FLOATS and t.data_type != TensorProto.DOUBLE:
            t.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(t).astype(np.float64), t.name))

    def graph(g):
        for value in [*g.input, *g.output, *g.value_info]:
            if value.type.HasField("tensor_type") and value.type.tensor_type.elem_type in FLOATS:
                value.type.tensor_type.elem_type = TensorProto.DOUBLE
        for t in g.initializer:
            tensor(t)
        for node in g.node:
            for a in node.attribute:
                if a.name in TYPE_ATTRIBUTES and a.i in FLOATS:
                    a.i = TensorProto.DOUBLE
                elif a.name == "value_float":
                    a.CopyFrom(helper.make_attribute("value", numpy_helper.from_array(np.array(a.f, np.float64))))
                elif a.name == "value_floats":
                    a.CopyFrom(helper.make_attribute("value", numpy_helper.from_array(np.array(a.floats, np.float64))))
                elif a.type == AttributeProto.TENSOR:
                    tensor(a.t)
                elif a.type == AttributeProto.GRAPH:
                    graph(a.g)

    graph(model.graph)
    return model


def double(array):
    return array.astype(np.float64) if array.dtype.kind not in "biu" else array


class Evaluator:
    """ONNX's reference evaluator."""

    name = "evaluator"

    def __init__(self, model):
        self.model = ReferenceEvaluator(in_double(model))
        self.cache = {}

    def values(self, point):
        key = tuple(p.tobytes() for p in point.values())
        if key not in self.cache:
            if len(self.cache) > 8:
                self.cache.clear()
            results = self.model.run(None, {k: double(v) for k, v in point.items()})
            self.cache[key] = dict(zip(self.model.output_names, map(np.asarray, results)))
        return self.cache[key]

    def difference(self, a, b):
        x, y = self.values(a), self.values(b)
        return {k: x[k] - y[k] for k in x if x[k].dtype == np.float64}


class Interpreter:
    """thunderc's reference: a graph of two models and the differences of what they give, which are taken in double."""

    name = "interpreter"

    def __init__(self, thunderc, model, bound, folder):
        self.thunderc, self.bound, self.folder = thunderc, bound, folder
        model = in_double(model)
        self.outputs = [v.name for v in model.graph.output if v.type.tensor_type.elem_type == TensorProto.DOUBLE]
        two = [onnx.compose.add_prefix(model, p) for p in "ab"]
        nodes = [n for m in two for n in m.graph.node]
        nodes += [helper.make_node("Sub", ["a" + n, "b" + n], [n]) for n in self.outputs]
        types = {v.name: v.type for v in model.graph.output}
        graph = helper.make_graph(nodes, "differences", [v for m in two for v in m.graph.input],
                                  [helper.make_value_info(n, types[n]) for n in self.outputs])
        self.model = helper.make_model(graph, opset_imports=model.opset_import, ir_version=model.ir_version)

    def difference(self, a, b):
        paths = [os.path.join(self.folder, n) for n in ("two.onnx", "two.safetensors", "bound.safetensors", "differences.safetensors")]
        onnx.save(self.model, paths[0])
        both = {p + k: stored(double(v)) for p, point in (("a", a), ("b", b)) for k, v in point.items()}
        bound = {p + k for p in "ab" for k in self.bound}
        save_file({k: v for k, v in both.items() if k not in bound}, paths[1])
        save_file({k: v for k, v in both.items() if k in bound}, paths[2])
        done = subprocess.run([self.thunderc, "run", paths[0], "--in", paths[1], "--out", paths[3]] + ["--bind", paths[2]] * bool(bound),
                              capture_output=True, text=True, timeout=120)
        if done.returncode:
            raise ValueError(done.stderr.splitlines()[-1])
        return {k: v.astype(np.float64) for k, v in load_file(paths[3]).items()}


def moved(point, name, direction, step):
    return point | {name: double(point[name]) + step * direction}


def slope(reference, point, name, direction, cotangents):
    """The derivative of sum(cotangent * output) along a direction of an input, and of what size its terms are; or nothing, where the
    function has a kink or a jump near the point, or the reference does not compute in double."""
    def sums(a, b):
        found = reference.difference(a, b)
        if set(cotangents) - set(found):
            return np.nan, np.nan
        terms = [np.where(cotangents[k] == 0, 0, found[k] * cotangents[k]) for k in cotangents]
        return sum(t.sum() for t in terms), sum(np.abs(t).sum() for t in terms)

    seen = []
    for h in (STEP, STEP / 4):
        ahead, size = sums(moved(point, name, direction, h), point)
        behind, other = sums(point, moved(point, name, direction, -h))
        seen.append((ahead / h, behind / h, (size + other) / h / 2))
    (a, b, size), (c, d, _) = seen
    if not np.isfinite([a, b, c, d]).all():
        return None
    # Where it is smooth, the slopes of both sides differ by the step times the curvature: a quarter of it with a quarter of the step.
    bend, central = abs((c - d) - (a - b) / 4), abs((a + b) - (c + d)) / 2
    if max(bend, central) > 1e-5 * max(size, 1e-3):
        return None
    return (a + b) / 2, size
