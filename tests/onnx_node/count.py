#!/usr/bin/env python
# SPDX-License-Identifier: Apache-2.0
"""How many of the ONNX project's own numeric tests of single operators pass through `thunderc run`.

  python tests/onnx_node/count.py --thunderc build/thunderc [--only REGEX] [--names] [--list FILE] [--page docs/operators.md]

Needs the Python packages onnx (which makes the cases) and numpy; run by hand, so that the project's tests need neither. A
case counts where its graph is of ONNX's default domain, of an opset that thunderc has or a later one, and where what goes in
and comes out are tensors of booleans, integers of 8 bits and more, or floats of 16 bits and more. Operators of quantised
tensors are left out. A result is right where it has the case's shape and kind and its numbers within the case's own tolerances.

Each case runs twice where need be: as it stands, with every operand fed; and with the operands that a training program has to
know when it is compiled (a shape, axes, repeats: DECIDING) given by --bind.
"""
import argparse, collections, concurrent.futures, os, re, subprocess, sys, tempfile, warnings

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper
from safetensors.numpy import load_file, save_file

FIRST_OPSET = 13
TYPES = {TensorProto.BOOL, TensorProto.INT8, TensorProto.UINT8, TensorProto.INT16, TensorProto.UINT16, TensorProto.INT32,
         TensorProto.UINT32, TensorProto.INT64, TensorProto.UINT64, TensorProto.FLOAT16, TensorProto.BFLOAT16,
         TensorProto.FLOAT, TensorProto.DOUBLE}
QUANTISED = {"QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear", "QLinearMatMul", "QLinearConv", "MatMulInteger",
             "ConvInteger"}
REDUCTIONS = ("Max", "Mean", "Min", "Prod", "Sum", "L1", "L2", "LogSum", "LogSumExp", "SumSquare")
# Operands that decide shapes, or which element goes where, by operator.
DECIDING = {"Reshape": {1}, "Expand": {1}, "Tile": {1}, "Unsqueeze": {1}, "Squeeze": {1}, "Slice": {1, 2, 3, 4}, "Pad": {1, 2, 3},
            "Split": {1}, "CumSum": {1}, "CumProd": {1}, "TopK": {1}, "OneHot": {1, 2}, "Range": {0, 1, 2}, "Trilu": {1},
            "ConstantOfShape": {0}, "Resize": {1, 2, 3}, "CenterCropPad": {1}, "AffineGrid": {1}, "Dropout": {1, 2},
            "BlackmanWindow": {0}, "HammingWindow": {0}, "HannWindow": {0}, "DFT": {1, 2}, "STFT": {1, 3}, "Col2Im": {1, 2},
            "MelWeightMatrix": {0, 1, 2, 3, 4}, "MaxUnpool": {2}, "Upsample": {1}, "If": {0}, "Compress": {1},
            "Loop": {0, 1}, "NonZero": {0}, "Unique": {0}} | {"Reduce" + r: {1} for r in REDUCTIONS}


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


def run_one(thunderc, case, inputs, bound, want, folder):
    paths = [os.path.join(folder, name) for name in ("model.onnx", "in.safetensors", "out.safetensors", "bound.safetensors")]
    if os.path.exists(paths[2]):
        os.remove(paths[2])
    onnx.save(case.model, paths[0])
    save_file({k: stored(v) for k, v in inputs.items() if k not in bound}, paths[1])
    save_file({k: stored(v) for k, v in inputs.items() if k in bound}, paths[3])
    try:
        done = subprocess.run([thunderc, "run", paths[0], "--in", paths[1], "--out", paths[2]] + ["--bind", paths[3]] * bool(bound),
                              capture_output=True, text=True, timeout=120)
    except subprocess.TimeoutExpired:
        return "no end after 120 s"
    if done.returncode != 0:
        lines = [l for l in done.stderr.splitlines() if "error" in l] or [f"exit {done.returncode}"]
        return ("INTERNAL " if done.returncode not in (1, 2) else "") + lines[0].replace(folder, "")
    return compare(case, want, load_file(paths[2]))


def run_case(thunderc, case, whole):
    """The reason why it fails as it stands, and with constants; empty where it passes."""
    graph = case.model.graph
    worst = ["", ""]
    with tempfile.TemporaryDirectory() as folder:
        for inputs, outputs in case.data_sets:
            inputs = {v.name: plain_array(x) for v, x in zip(graph.input, inputs)}
            want = {v.name: plain_array(x) for v, x in zip(graph.output, outputs)}
            plain = run_one(thunderc, case, inputs, set(), want, folder)
            constant = plain
            if plain and (bound := deciding(case, whole)):
                constant = run_one(thunderc, case, inputs, bound, want, folder)
            worst = [worst[0] or plain, worst[1] or constant]
    return worst


def operator(case):
    name = case.model.graph.node[0].op_type if len(case.model.graph.node) == 1 else ""
    return name or re.sub(r"^test_|_expanded.*$", "", case.name) + " (expanded)"


def general(reason):
    return re.sub(r"\d+(\.\d+)?", "N", re.sub(r"^error: ", "", reason))


def page(cases, reasons):
    """The text of docs/operators.md."""
    names = lambda which: ", ".join(sorted(which)) or "none"
    operators = collections.defaultdict(list)
    for case, reason in zip(cases, reasons):
        operators[operator(case)].append(reason)
    whole = {op for op, all_of in operators.items() if not any(r[0] for r in all_of)}
    bound = {op for op, all_of in operators.items() if not any(r[1] for r in all_of)} - whole
    stands, passed = (sum(1 for r in reasons if not r[k]) for k in (0, 1))
    lines = ["<!-- Written by tests/onnx_node/count.py --page; not by hand. -->", "# Operators of ONNX", "",
             f"Of the {len(cases)} numeric cases that the ONNX project (version {onnx.__version__}, opset {FIRST_OPSET} and later) has of the "
             f"operators of its default domain, {stands} pass through `thunderc run` as they stand, and {passed} "
             f"({100 * passed / max(1, len(cases)):.1f}%) where what decides shapes is given by `--bind`. Cases of strings, sequences and "
             "optionals at the interface, of quantised tensors and of types of less than 8 bits are not counted.", "",
             "All cases pass as they stand:", "", names(whole) + ".", "",
             "All cases pass where shapes, axes and the like are given by `--bind`:", "", names(bound) + ".", "",
             "Some cases fail:", "", "| operator | cases | fail | because |", "|---|---:|---:|---|"]
    for op, all_of in sorted(operators.items()):
        for reason, count in sorted(collections.Counter(general(r[1]) for r in all_of if r[1]).items()):
            lines.append(f"| {op} | {len(all_of)} | {count} | {reason.replace('|', '/')} |")
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--thunderc", default="build/thunderc")
    parser.add_argument("--only", default="", help="cases whose name has this regular expression")
    parser.add_argument("--names", action="store_true", help="the names of failing cases as well")
    parser.add_argument("--list", help="write a line for each counted case: its name, and why it fails")
    parser.add_argument("--page", help="write what docs/operators.md says: each operator with its cases, and why some fail")
    parser.add_argument("--jobs", type=int, default=2)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    from onnx.backend.test.case.node import collect_testcases
    left_out, cases = collections.Counter(), []
    for case in collect_testcases(None):
        why = counted(case)
        left_out[why] += 1
        if not why and re.search(args.only, case.name):
            cases.append(case)
    whole = {c.name: c.model.graph.node[0] for c in cases if len(c.model.graph.node) == 1}
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        reasons = list(pool.map(lambda c: run_case(args.thunderc, c, whole), cases))
    groups = collections.defaultdict(list)
    for case, (_, reason) in zip(cases, reasons):
        if reason:
            groups[(operator(case), general(reason))].append(case.name)
    for (op, reason), names in sorted(groups.items(), key=lambda g: (-len(g[1]), g[0])):
        print(f"{len(names):4} {op}: {reason}")
        if args.names:
            print("     " + " ".join(sorted(names)))
    if args.list:
        with open(args.list, "w") as out:
            out.writelines(f"{c.name}\t{r[0]}\t{r[1]}\n" for c, r in sorted(zip(cases, reasons), key=lambda p: p[0].name))
    if args.page:
        with open(args.page, "w") as out:
            out.write(page(cases, reasons))
    total = max(1, len(cases))
    stands, constants = (sum(1 for r in reasons if not r[k]) for k in (0, 1))
    wrong = sum(1 for r in reasons if re.match("wrong|shape|type|no result|INTERNAL|no end", r[1]))
    for why, count in sorted(left_out.items()):
        if why:
            print(f"left out: {count} {why}")
    print(f"cases: {len(cases)}; pass as they stand: {stands} ({100 * stands / total:.1f}%); with what decides shapes "
          f"bound: {constants} ({100 * constants / total:.1f}%); refused: {len(cases) - constants - wrong}; wrong: {wrong}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
