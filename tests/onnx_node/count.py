#!/usr/bin/env python
# SPDX-License-Identifier: Apache-2.0
"""How many of the ONNX project's own numeric tests of single operators pass through `thunderc run`.

  python tests/onnx_node/count.py --thunderc build/thunderc [--only REGEX] [--names] [--list FILE]
      [--page docs/operators.md --gradients FILE]

Needs the Python packages onnx (which makes the cases) and numpy; run by hand, so that the project's tests need neither. A
case counts where its graph is of ONNX's default domain, of an opset that thunderc has or a later one, and where what goes in
and comes out are tensors of booleans, integers of 8 bits and more, or floats of 16 bits and more. Operators of quantised
tensors are left out. A result is right where it has the case's shape and kind and its numbers within the case's own tolerances.

Each case runs twice where need be: as it stands, with every operand fed; and with the operands that a training program has to
know when it is compiled (a shape, axes, repeats: DECIDING) given by --bind.
"""
import argparse, collections, concurrent.futures, os, re, subprocess, sys, tempfile

import onnx
from safetensors.numpy import load_file, save_file

from cases import FIRST_OPSET, collect, compare, deciding, general, operator, plain_array, stored
from verdicts import Gradients


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


def page(cases, reasons, gradients):
    """The text of docs/operators.md."""
    names = lambda which: ", ".join(sorted(which)) or "none"
    operators = collections.defaultdict(list)
    for case, reason in zip(cases, reasons):
        operators[operator(case)].append(reason)
    whole = {op for op, all_of in operators.items() if not any(r[0] for r in all_of)}
    bound = {op for op, all_of in operators.items() if not any(r[1] for r in all_of)} - whole
    stands, passed = (sum(1 for r in reasons if not r[k]) for k in (0, 1))
    lines = ["<!-- Written by tests/onnx_node/count.py --page; not by hand. -->", "# Operators of ONNX", "", "Those of ATen, which `.pt2` files hold, are in [aten.md](aten.md).", "",
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
    return "\n".join(lines + gradients.section()) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--thunderc", default="build/thunderc")
    parser.add_argument("--only", default="", help="cases whose name has this regular expression")
    parser.add_argument("--names", action="store_true", help="the names of failing cases as well")
    parser.add_argument("--list", help="write a line for each counted case: its name, and why it fails")
    parser.add_argument("--page", help="write what docs/operators.md says: each operator with its cases, and why some fail")
    parser.add_argument("--gradients", help="with --page: the file that gradients.py --list wrote")
    parser.add_argument("--jobs", type=int, default=2)
    args = parser.parse_args()
    if args.page and not args.gradients:
        parser.error("--page needs --gradients")
    cases, left_out, whole = collect(args.only)
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
            out.write(page(cases, reasons, Gradients.read(args.gradients)))
    total = max(1, len(cases))
    stands, constants = (sum(1 for r in reasons if not r[k]) for k in (0, 1))
    wrong = sum(1 for r in reasons if re.match("wrong|shape|type|no result|INTERNAL|no end", r[1]))
    for why, count in sorted(collections.Counter(left_out).items()):
        print(f"left out: {count} {why}")
    print(f"cases: {len(cases)}; pass as they stand: {stands} ({100 * stands / total:.1f}%); with what decides shapes "
          f"bound: {constants} ({100 * constants / total:.1f}%); refused: {len(cases) - constants - wrong}; wrong: {wrong}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
