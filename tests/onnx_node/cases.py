# SPDX-License-Identifier: Apache-2.0
"""The ONNX project's own numeric tests of single operators, as count.py and gradients.py take them: which are counted, what a file
for thunderc has of their tensors, and when a result is right. Needs the Python packages onnx and numpy."""
import re, warnings

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper

FIRST_OPSET = 13
TYPES = {TensorProto.BOOL, TensorProto.INT8, TensorProto.UINT8, TensorProto.INT16, TensorProto.UINT16, TensorProto.INT32,
         TensorProto.UINT32, TensorProto.INT64, TensorProto.UINT64, TensorProto.FLOAT16, TensorProto.BFLOAT16,
         TensorProto.FLOAT, TensorProto.DOUBLE}
FLOATS = {TensorProto.FLOAT16, TensorProto.BFLOAT16, TensorProto.FLOAT, TensorProto.DOUBLE}
QUANTISED = {"QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear", "QLinearMatMul", "QLinearConv", "MatMulInteger",
             "ConvInteger"}
REDUCTIONS = ("Max", "Mean", "Min", "Prod", "Sum", "L1", "L2", "LogSum", "LogSumExp", "SumSquare")
# Operands that decide shapes, or which element goes where, by operator.
DECIDING = {"Reshape": {1}, "Expand": {1}, "Tile": {1}, "Unsqueeze": {1}, "Squeeze": {1}, "Slice": {1, 2, 3, 4}, "Pad": {1, 2, 3},
            "Split": {1}, "CumSum": {1}, "CumProd": {1}, "TopK": {1}, "OneHot": {1, 2}, "Range": {0, 1, 2}, "Trilu": {1},
            "ConstantOfShape": {0}, "Resize": {1, 2, 3}, "CenterCropPad": {1}, "AffineGrid": {1}, "Dropout": {1, 2},
            "BlackmanWindow": {0}, "HammingWindow": {0}, "HannWindow": {0}, "DFT": {1, 2}, "STFT": {1, 3}, "Col2Im": {1, 2},
            "MelWeightMatrix": {0, 1, 2, 3, 4}, "MaxUnpool": {2}, "Upsample": {1}, "If": {0}, "Compress": {1},
            "Loop": {0, 1}, "NonZero": {0}, "Unique": {0}, "RoiAlign": {2}, "Gather": {1}, "GatherElements": {1},
            "ScatterElements": {1}} | {"Reduce" + r: {1} for r in REDUCTIONS}


def counted(case):
    """Why a case is not counted, or an empty text."""
    graph = case.model.graph
    if any(o.domain not in ("", "ai.onnx") for o in case.model.opset_import):
        return "of another domain"
    if max((o.version for o in case.model.opset_import), default=0) < FIRST_OPSET:
        return "of an older opset"
    for value in [*graph.input, *graph.output]:
        if not value.type.HasField("tensor_type"):
            return "of sequences, optionals or maps"
        if value.type.tensor_type.elem_type == TensorProto.STRING:
            return "of strings"
        if value.type.tensor_type.elem_type not in TYPES:
            return "of types of less than 8 bits, of 8-bit floats or complex numbers"
    if any(n.op_type in QUANTISED for n in graph.node):
        return "of quantised tensors"
    return ""


def plain_array(x):
    return numpy_helper.to_array(x) if isinstance(x, TensorProto) else np.asarray(x)


def stored(array):
    """As a file for thunderc has it: floats, i64 or bool, of which it makes what the graph says."""
    if array.dtype == np.bool_:
        return np.ascontiguousarray(array).reshape(array.shape)
    if array.dtype == np.uint64:
        array = array.astype(np.int64)
    kind = np.int64 if array.dtype.kind in "iu" else array.dtype if array.dtype == np.float64 else np.float32
    return np.ascontiguousarray(array.astype(kind)).reshape(array.shape)


def deciding(case, whole):
    """The inputs of the graph that decide shapes, or where elements go; `whole`: cases of one node, by name. An operator that is written
    out takes what the operator itself takes."""
    node = case.model.graph.node[0] if len(case.model.graph.node) == 1 else None
    names = set()
    if node is None and "_expanded" in case.name:
        twin = whole.get(case.name[: case.name.index("_expanded")])
        if twin is not None:
            names |= {twin.input[k] for k in DECIDING.get(twin.op_type, ()) if k < len(twin.input)}
    for node in case.model.graph.node:
        names |= {node.input[k] for k in DECIDING.get(node.op_type, ()) if k < len(node.input)}
    return names & {v.name for v in case.model.graph.input}


def compare(case, want, got):
    for name, w in want.items():
        if name not in got:
            return f"no result {name}"
        g = got[name]
        if w.shape != g.shape:
            return f"shape {list(g.shape)}, expected {list(w.shape)}"
        floating = w.dtype.kind not in "biu"
        if (w.dtype == np.bool_) != (g.dtype == np.bool_) or floating != (g.dtype.kind == "f"):
            return f"type {g.dtype}, expected {w.dtype}"
        if not floating:
            if w.dtype == np.uint64:
                w = stored(w)
            if not np.array_equal(g, w):
                return "wrong integers"
        else:
            # Both as the result's own type has them.
            g = g.astype(w.dtype).astype(np.float64)
            if not np.allclose(g, w.astype(np.float64), rtol=case.rtol, atol=case.atol, equal_nan=True):
                return "wrong numbers"
    return ""


def operator(case):
    name = case.model.graph.node[0].op_type if len(case.model.graph.node) == 1 else ""
    return name or re.sub(r"^test_|_expanded.*$", "", case.name) + " (expanded)"


def general(reason):
    return re.sub(r"\d+(\.\d+)?", "N", re.sub(r"^error: ", "", reason))


def collect(only):
    """The counted cases whose name has the regular expression, why each other one is left out, and cases of one node, by name."""
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    from onnx.backend.test.case.node import collect_testcases
    left_out, cases, whole = [], [], {}
    for case in collect_testcases(None):
        why = counted(case)
        if why:
            left_out.append(why)
            continue
        if len(case.model.graph.node) == 1:
            whole[case.name] = case.model.graph.node[0]
        if re.search(only, case.name):
            cases.append(case)
    return cases, left_out, whole
