#!/usr/bin/env python
# SPDX-License-Identifier: Apache-2.0
"""Makes tests/fixtures/frontend/composed_OPSET.{onnx,safetensors}: operators that importing makes of several ops, each with what
ONNX's own reference implementation computes. Needs the version of onnx below, and numpy.

  python scripts/make_operator_fixtures.py [--out tests/fixtures]

Numbers are random, so that gradients meet no ties: tests hold them against differences.
"""
import argparse

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from safetensors.numpy import save_file

PINNED = "1.23.2"
OPSETS = (13, 26)


class Const:
    """An operand that is an initializer; other arrays are inputs of the graph, None is absent."""

    def __init__(self, *values, kind=np.int64):
        self.value = np.array(values, kind)


def body(name, inputs, nodes, outputs):
    info = lambda n, kind: helper.make_tensor_value_info(n, kind, [] if kind != TensorProto.FLOAT else [3])
    return helper.make_graph(nodes, name, [info(*i) for i in inputs], [info(*o) for o in outputs])


def steps():
    """Bodies of Scan, (s, x) -> (s x, tanh(s x)), and of Loop, (i, c, s) -> (i < 2, s sin s, i + s)."""
    real, whole, truth, node = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL, helper.make_node
    nodes = [node("Mul", ["s", "x"], ["t"]), node("Tanh", ["t"], ["y"])]
    scan = body("scan", [("s", real), ("x", real)], nodes, [("t", real), ("y", real)])
    nodes = [node("Constant", [], ["two"], value_int=2), node("Less", ["i", "two"], ["d"]), node("Sin", ["s"], ["a"]),
             node("Mul", ["s", "a"], ["t"]), node("Cast", ["i"], ["k"], to=real), node("Add", ["k", "s"], ["y"])]
    return scan, body("loop", [("i", whole), ("c", truth), ("s", real)], nodes, [("d", truth), ("t", real), ("y", real)])


def cases(opset):
    """(operator, operands, attributes, outputs)"""
    r = np.random.default_rng(7)
    f = lambda *dims: (r.random(dims, np.float32) * 4 - 2).astype(np.float32)
    out = []
    add = lambda op, inputs, outputs=1, **attributes: out.append((op, inputs, attributes, outputs))
    x = f(2, 3, 4)
    for op in ("Tan", "Sinh", "Cosh", "Asinh"):
        add(op, [x * 0.5])
    add("Asinh", [np.array([-3e-3, 1e-6, 0.06, -0.0626, 50], np.float32)])
    add("Atanh", [np.array([-3e-3, 1e-6, 0.06, -0.0626, 0.9], np.float32)])
    add("Acosh", [np.abs(x) + 1.1])
    add("Atan", [np.array([-5, -1.01, -0.99, -0.3, 1e-6, 0.6, 1.7, 1e4], np.float32)])
    for op in ("Asin", "Acos"):
        add(op, [np.array([-0.97, -0.5, -1e-6, 0.2, 0.8, 0.99], np.float32)])
    infinities = np.array([1, np.inf, -np.inf, np.nan], np.float32)
    add("IsInf", [infinities])
    add("IsInf", [infinities], detect_negative=0)
    add("IsInf", [infinities], detect_positive=0)
    for kind in (np.uint8, np.uint16, np.uint32, np.uint64):
        top = 8 * kind().itemsize
        a, b = np.array([1, 5, 200, 77, 3], kind), np.array([0, 3, 1, top - 1, 2], kind)
        add("BitShift", [a, b], direction="LEFT")
        add("BitShift", [a, b], direction="RIGHT")
    add("Hardmax", [x])
    add("Hardmax", [np.array([[1, 3, 3, 2], [5, -1, 5, 5]], np.float32)], axis=1)
    for p in (1, 2):
        positive = np.abs(x) + 0.1  # the reference takes no absolute values
        add("LpNormalization", [positive], p=p, axis=1)
        add("LpNormalization", [positive if p == 1 else x], p=p)
    add("InstanceNormalization", [f(2, 3, 4, 2), f(3), f(3)], epsilon=1e-3)
    add("LRN", [f(5, 5, 2, 3)], size=3, alpha=0.1, beta=0.6, bias=1.5)
    add("LRN", [f(5, 5, 2, 1)], size=4)  # as many rows as channels: the reference counts the former
    # ---- products by labels
    add("Einsum", [f(3, 4)], equation="ij->ji")
    add("Einsum", [f(3, 4), f(4, 2)], equation="ij,jk")
    add("Einsum", [f(2, 3, 4), f(2, 4, 2)], equation="bij, bjk -> bik")
    add("Einsum", [f(2, 5, 3, 4), f(2, 6, 3, 4)], equation="bqhd,bkhd->bhqk")
    add("Einsum", [f(3, 3)], equation="ii")
    add("Einsum", [f(2, 3, 3)], equation="...ii->...i")
    add("Einsum", [f(2, 2, 2)], equation="iii->i")
    add("Einsum", [f(3), f(4)], equation="i,j->ij")
    add("Einsum", [f(3), f(3)], equation="i,i")
    add("Einsum", [f(1, 2, 3), f(4, 3, 2)], equation="...ij,...jk->...ik")
    add("Einsum", [f(2, 3), f(3, 4), f(4, 2, 5)], equation="ij,jk,kil->l")
    add("Einsum", [f(2, 3), f(4, 3)], equation="ij,kj->k")
    add("Einsum", [r.integers(-5, 5, (2, 3)), r.integers(-5, 5, (3, 4))], equation="ij,jk->ik")
    # ---- convolutions and pooling
    image, line = f(2, 4, 7, 6), f(2, 3, 9)
    add("Conv", [image, f(5, 4, 3, 2), f(5)], strides=[2, 1], pads=[1, 0, 2, 1])
    add("Conv", [image, f(6, 2, 2, 3)], group=2, dilations=[2, 1])
    add("Conv", [image, f(4, 1, 3, 3), f(4)], group=4, pads=[1, 1, 1, 1])
    add("Conv", [image, f(3, 4, 1, 1)])
    add("Conv", [line, f(2, 3, 4)], auto_pad="SAME_UPPER", strides=[2])
    add("Conv", [f(1, 2, 4, 3, 5), f(2, 2, 2, 2, 3)], pads=[0, 1, 0, 1, 0, 0])
    add("ConvTranspose", [f(2, 4, 3, 4), f(4, 3, 3, 2), f(3)], strides=[2, 1], pads=[1, 0, 0, 1])
    add("ConvTranspose", [f(2, 4, 3, 4), f(4, 2, 2, 3)], dilations=[2, 1], output_padding=[1, 0], strides=[2, 2])
    add("ConvTranspose", [line, f(3, 2, 4)], strides=[3])
    add("MaxPool", [image], 2, kernel_shape=[3, 2], strides=[2, 1], pads=[1, 0, 1, 1])
    add("MaxPool", [image], kernel_shape=[2, 3], dilations=[2, 1], ceil_mode=1, strides=[2, 2])
    add("MaxPool", [image], kernel_shape=[4, 4], auto_pad="SAME_LOWER")
    add("MaxPool", [r.integers(0, 255, (1, 2, 5, 4)).astype(np.uint8)], kernel_shape=[2, 2])
    add("AveragePool", [image], kernel_shape=[3, 2], strides=[2, 2], pads=[1, 1, 1, 0])
    add("AveragePool", [image], kernel_shape=[3, 2], strides=[2, 2], pads=[1, 1, 1, 0], count_include_pad=1)
    add("AveragePool", [line], kernel_shape=[3])
    for op in ("GlobalAveragePool", "GlobalMaxPool"):
        add(op, [image])
    add("GlobalAveragePool", [line])
    # ---- by index
    ids = lambda high, *dims: r.integers(-high, high, dims)
    places = np.array([[1, 0, 2, 0], [0, 2, 1, 1]])
    add("ScatterElements", [f(3, 5), places, f(2, 4)], axis=0)
    add("ScatterElements", [f(3, 5), Const([1, 0, -1], [3, 2, 4]), f(2, 3)], axis=1)
    add("ScatterElements", [r.integers(0, 99, (3, 5)), np.array([[1, 0, -1], [3, 2, 4]]), r.integers(100, 199, (2, 3))], axis=1)
    add("ScatterND", [f(4, 3, 2), np.array([[2], [0]]), f(2, 3, 2)])
    add("ScatterND", [f(4, 3), Const([2, 1], [0, 0], [3, 2]), f(3)])
    add("ReverseSequence", [f(4, 3, 2), np.array([2, 4, 1])])
    add("ReverseSequence", [f(3, 4), np.array([1, 4, 3])], batch_axis=0, time_axis=1)
    add("Compress", [x, Const(False, True, True, kind=bool)], axis=1)
    add("Compress", [x, Const(True, False, False, True, True, kind=bool)])
    for more in ({}, {"axis": 1, "largest": 0}, {"axis": 0}):
        add("TopK", [x, Const(2)], 2, **more)
    add("TopK", [np.array([[1, 3, 3, 2, 3], [5, -1, 5, 5, 0]]), Const(3)], 2)
    add("TopK", [r.integers(-9, 9, (3, 6)), Const(6)], 2, largest=0)
    for mode in ("edge", "reflect"):
        add("Pad", [f(3, 4), Const(1, 2, 2, 3)], mode=mode)
    add("SpaceToDepth", [f(2, 3, 4, 6)], blocksize=2)
    for mode in ("DCR", "CRD"):
        add("DepthToSpace", [f(2, 12, 2, 3)], blocksize=2, mode=mode)
    # ---- steps
    scan, loop = steps()
    add("Scan", [f(3), f(4, 3)], 2, body=scan, num_scan_inputs=1)
    add("Loop", [Const(2), Const(True, kind=bool), f(3)], 2, body=loop)
    add("Loop", [Const(9), Const(True, kind=bool), f(3)], 2, body=loop)
    # ---- sizes
    scales, sizes = (lambda *v: [image, None, Const(*v, kind=np.float32)]), (lambda *v: [image, None, None, Const(*v)])
    for mode in ("nearest", "linear", "cubic"):
        for how in ("half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric"):
            add("Resize", scales(1, 1, 1.75, 0.625), mode=mode, coordinate_transformation_mode=how)
        add("Resize", sizes(2, 4, 1, 9), mode=mode, coordinate_transformation_mode="pytorch_half_pixel")
    for how in ("floor", "ceil", "round_prefer_ceil"):
        add("Resize", sizes(2, 4, 14, 9), mode="nearest", nearest_mode=how, coordinate_transformation_mode="asymmetric")
    add("Resize", sizes(2, 4, 9, 4), mode="cubic", exclude_outside=1, cubic_coeff_a=-0.5)
    region = Const(0, 0, -0.25, 0.125, 1, 1, 0.875, 1.25, kind=np.float32)
    add("Resize", [image, region, None, Const(2, 4, 5, 8)], mode="linear", coordinate_transformation_mode="tf_crop_and_resize",
        extrapolation_value=3.5)
    if opset >= 18:
        add("BitwiseNot", [np.array([0, 1, 200], np.uint8)])
        add("BitwiseNot", [np.array([0, -1, 2**40])])
        for op in ("BitwiseAnd", "BitwiseOr", "BitwiseXor"):
            for kind in (np.int8, np.uint8, np.int32, np.int64):
                add(op, [np.array([[1, -1, 100], [77, 0, -128]]).astype(kind), np.array([93, -1, 3]).astype(kind)])
        add("Col2Im", [f(2, 12, 6), Const(4, 3), Const(2, 3)], pads=[1, 0, 0, 1], strides=[1, 1], dilations=[2, 1])
        add("LpPool", [image], kernel_shape=[3, 2], pads=[1, 0, 1, 1], strides=[2, 1])
        add("LpPool", [line], kernel_shape=[3], p=3)
        for mode in ("linear", "cubic"):
            add("Resize", scales(1, 1, 0.625, 0.375), mode=mode, antialias=1)
        add("Resize", [image, None, None, Const(9, 10)], mode="linear", axes=[3, 2], keep_aspect_ratio_policy="not_larger")
        add("Resize", [image, None, None, Const(9, 10)], mode="nearest", axes=[2, 3], keep_aspect_ratio_policy="not_smaller")
        for how in ("add", "mul", "max", "min"):
            add("ScatterElements", [f(3, 5), ids(3, 4, 2), f(4, 2)], axis=0, reduction=how)
            add("ScatterND", [f(4, 3), ids(4, 5, 1), f(5, 3)], reduction=how)
            add("ScatterElements", [r.integers(1, 9, (3, 5)), ids(3, 4, 2), r.integers(1, 9, (4, 2))], axis=0, reduction=how)
        add("STFT", [f(2, 12, 1), Const(3, kind=np.int64), f(6)])
    if opset >= 20:
        for more in ({}, {"onesided": 1}):
            add("DFT", [f(2, 5, 3, 1)], **more)
        add("DFT", [f(2, 5, 2), Const(7)])
        add("DFT", [f(2, 5, 2), None, Const(0)], inverse=1)
        for length in (None, Const(7)):
            add("DFT", [f(2, 5, 2), length], inverse=1, onesided=1)
        grid = lambda *dims: f(*dims) * 0.6
        for mode in ("linear", "nearest", "cubic"):
            for padding in ("zeros", "border", "reflection"):
                for aligned in (0, 1):
                    add("GridSample", [f(2, 2, 3, 4), grid(2, 2, 3, 2)], mode=mode, padding_mode=padding, align_corners=aligned)
        add("GridSample", [f(1, 2, 2, 3, 2), grid(1, 2, 1, 3, 3)])
        regions = np.array([[0.6, 0.7, 4.1, 3.3], [-2.3, 1.2, 6.4, 4.7], [1.1, 1.4, 1.6, 1.7]], np.float32)
        for mode in ("avg", "max"):
            for how in ("half_pixel", "output_half_pixel"):
                add("RoiAlign", [f(2, 2, 4, 5), regions, Const(1, 0, 1)], mode=mode, coordinate_transformation_mode=how,
                    output_height=2, output_width=3, sampling_ratio=2, spatial_scale=0.8)
        for op, gates, states in (("RNN", 1, 1), ("GRU", 3, 1), ("LSTM", 4, 2)):
            weights = lambda d: [f(d, gates * 3, 2), f(d, gates * 3, 3)]
            add(op, [f(4, 2, 2), *weights(1)], 1 + states, hidden_size=3)
            more = [f(2, 2, 3)] * states + ([f(2, 9)] if op == "LSTM" else [])
            add(op, [f(4, 2, 2), *weights(2), f(2, 2 * gates * 3), None, *more], 1 + states, hidden_size=3, direction="bidirectional")
            add(op, [f(2, 4, 2), *weights(1)], 1 + states, hidden_size=3, direction="reverse", layout=1)
        add("GRU", [f(4, 2, 2), f(1, 9, 2), f(1, 9, 3), f(1, 18)], 2, hidden_size=3, linear_before_reset=1)
    if opset >= 19:
        add("Pad", [f(3, 4), Const(4, 0, 1, 5)], mode="wrap")
        add("Resize", scales(1, 1, 1.75, 0.625), mode="linear", coordinate_transformation_mode="half_pixel_symmetric")
    if opset >= 17:
        add("LayerNormalization", [x, f(4), f(4)], 3)
        add("LayerNormalization", [x, f(3, 4)], 3, axis=1, epsilon=1e-3)
    if opset >= 26:
        for how in ("linear", "circular"):
            add("TensorScatter", [f(2, 2, 5, 3), f(2, 2, 2, 3), np.array([1, 4 if how == "circular" else 3])], mode=how)
        for more in ({}, {"exclusive": 1}, {"reverse": 1}, {"exclusive": 1, "reverse": 1}):
            add("CumProd", [f(2, 5, 2), Const(1)], **more)
        add("CumProd", [r.integers(-3, 4, (2, 5)).astype(np.int32), Const(-1)])
        for a, kind in ((np.array([1, -1], np.int8), TensorProto.UINT8), (np.array([7, 65535], np.uint16), TensorProto.INT16),
                        (np.array([True, False]), TensorProto.UINT8), (np.array([1, 2**32 - 1], np.uint32), TensorProto.INT32)):
            add("BitCast", [a], to=kind)
        add("DeformConv", [f(1, 4, 4, 5), f(4, 2, 2, 2), f(1, 16, 2, 4), f(4), f(1, 8, 2, 4)], group=2, offset_group=2,
            strides=[2, 1], pads=[1, 0, 0, 1], dilations=[1, 2])
        add("DeformConv", [f(2, 2, 3, 4), f(3, 2, 2, 3), f(2, 12, 2, 2)])
    if opset >= 20:
        for op in ("ReduceMax", "ReduceMin"):
            add(op, [np.array([[True, False], [False, False], [True, True]]), Const(1)], keepdims=0)
    return out


def write(out, opset):
    nodes, inputs, outputs, initializers, feeds = [], [], [], [], {}
    for n, (op, args, attributes, count) in enumerate(cases(opset)):
        names = []
        for j, a in enumerate(args):
            name = "" if a is None else f"{n}_{op}_in{j}"
            names.append(name)
            if isinstance(a, Const):
                scalar = op in ("CumProd", "DFT", "STFT", "Loop") and a.value.size == 1
                value = a.value[0] if scalar else a.value
                initializers.append(numpy_helper.from_array(np.array(value), name))
            elif a is not None:
                inputs.append(helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(a.dtype), list(a.shape)))
                feeds[name] = a
        results = [f"{n}_{op}" + (f"_{k}" if k else "") for k in range(count)]
        nodes.append(helper.make_node(op, names, results, name=f"{n}_{op}", **attributes))
        outputs += [helper.make_empty_tensor_value_info(name) for name in results]
    graph = helper.make_graph(nodes, "graph", inputs, outputs, initializers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)
    want = ReferenceEvaluator(model).run(None, feeds)
    onnx.save(model, f"{out}/frontend/composed_{opset}.onnx")
    arrays = feeds | {o.name: np.asarray(v) for o, v in zip(outputs, want)}
    save_file({k: np.ascontiguousarray(v.astype(np.float32 if v.dtype.kind == "f" else np.int64)).reshape(v.shape)
               for k, v in arrays.items()}, f"{out}/frontend/composed_{opset}.safetensors")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", default="tests/fixtures")
    args = parser.parse_args()
    assert onnx.__version__ == PINNED, f"needs onnx {PINNED}"
    for opset in OPSETS:
        write(args.out, opset)


if __name__ == "__main__":
    main()
