#!/usr/bin/env python
# SPDX-License-Identifier: Apache-2.0
"""How many of ONNX's operators have the right gradient in compiled programs, by the ONNX project's own numeric tests.

  python tests/onnx_node/gradients.py --thunderc build/thunderc --runtime build/runtime-lib [--only REGEX] [--list FILE] [--to DIR]
      [--again] [-- -DONEDNN_ROOT=DIR]

Needs the Python packages onnx and numpy, CMake and Ninja; run by hand (all cases take an hour on two cores). Of each case that
count.py counts, and that has inputs of floats, `thunderc emit` writes the forward pass, and the forward pass with gradients where it
gives floats; all of them are compiled in one build. Outputs are held against the case's, within its tolerances, and the gradient of
each input of floats against differences of an independent forward pass in fp64 (slopes.py), along random directions and for random
cotangents. Where a case's point has a kink, or all is flat there, it is moved. Outputs without elements are left out by --output.
"""
import argparse, concurrent.futures, os, sys, tempfile, time

import numpy as np

from cases import FLOATS, collect, compare, deciding, operator, plain_array
from compiled import build, emit, keep, kept
from slopes import OTHERWISE, Evaluator, Interpreter, slope
from verdicts import Gradients, Row

DIRECTIONS = 3
# (factor, move): where gradients are looked at, in this order: the case's own point, then others, until one is smooth and not flat.
POINTS = ((1, 0), (1, 0.02), (1, 0.05), (1, 0.1), (1, 0.2), (0.1, 0.05), (0.1, 0.2))
TOLERANCE = 1e-4  # of the sum of absolute terms: some hundred roundings of f32 in a row, in sums of up to thousands of terms
# Of cotangents times directions: where slopes are small beside what they are the difference of (1 - y² of a saturated tanh, a loss
# less its mean), it is that which is rounded. A point where all slopes of an input are below a hundred times this says little.
ROUNDING = 1e-6


def float_names(values):
    return [v.name for v in values if v.type.tensor_type.elem_type in FLOATS]


class Case:
    def __init__(self, case, whole):
        self.case, self.name, self.operator = case, case.name, operator(case)
        graph = case.model.graph
        inputs, outputs = case.data_sets[0]
        self.inputs = {v.name: plain_array(x) for v, x in zip(graph.input, inputs)}
        want = {v.name: plain_array(x) for v, x in zip(graph.output, outputs)}
        self.want = {k: v for k, v in want.items() if v.size}
        self.chosen = ["--output", ",".join(self.want)] if len(self.want) < len(want) else []  # programs give no others
        self.floats, self.results = float_names(graph.input), [k for k in float_names(graph.output) if k in self.want]
        fixed = deciding(case, whole)
        numbers = fixed - set(self.floats)
        # Sets of inputs to give by --bind: none, whole numbers that decide shapes or places, all that do. Places from the end are
        # taken where they are known.
        self.choices = [] if any((self.inputs[k] < 0).any() for k in numbers) else [set()]
        self.choices += [some for k, some in enumerate((numbers, fixed)) if some and (k == 0 or some != numbers)]
        self.forward = self.gradient = None  # functions


def emitted(args, c, folder):
    def of(transform):
        options = ["--transform", transform] + c.chosen
        return emit(args.thunderc, f"{c.name}_{transform}", c.case.model, c.inputs, c.choices, options, folder)

    c.forward = of("forward")
    c.gradient = of("vjp") if c.results and not c.forward.failure else None
    return c


def reference_of(args, c, bound, scratch):
    """What differences are taken of: the evaluator where it gives the case's own outputs in double."""
    try:
        evaluator = Evaluator(c.case.model)
        got = evaluator.values(c.inputs)
        if c.operator not in OTHERWISE and all(got[k].dtype == np.float64 for k in c.results):
            if not compare(c.case, c.want, {k: got[k] for k in c.want}):
                return evaluator
    except Exception:
        pass
    return Interpreter(args.thunderc, c.case.model, bound, scratch)


def point_of(c, names, factor, move, random):
    """The case's inputs as f32 has them, `names` of them elsewhere."""
    point = dict(c.inputs)
    for k in c.floats:
        x = point[k].astype(np.float64)
        if k in names and (factor, move) != (1, 0):
            with np.errstate(invalid="ignore"):
                moved = factor * x + move * (0.2 + factor * np.abs(x)) * random.uniform(-1, 1, x.shape)
            x = np.where(np.isfinite(x), moved, x)
        point[k] = x.astype(np.float32).astype(np.float64)
    return point


def at_point(c, reference, point, names, random, scratch):
    """The verdict at a point, whether it is flat there, and what is wrong; None where it has a kink or is not finite."""
    finite = reference.difference(point, point)
    cotangents = {k: random.standard_normal(c.want[k].shape).astype(np.float32).astype(np.float64) for k in c.results}
    for k in cotangents:
        if not np.isfinite(finite[k])[np.isfinite(c.want[k].astype(np.float64))].all():
            return None
        cotangents[k] = np.where(np.isfinite(finite[k]), cotangents[k], 0)
    got = c.gradient.call(point | {"d" + k: v for k, v in cotangents.items()}, scratch)
    if isinstance(got, str):
        return "fail", False, got
    largest = max(np.abs(v).max() for v in cotangents.values())
    whole = all(np.isfinite(v).all() for v in finite.values())
    want = []
    for k in names:
        looked_at = np.isfinite(point[k])
        if not whole and "d" + k in got:  # what is no number has no gradient: 0 times infinity
            looked_at &= np.isfinite(got["d" + k])
        for _ in range(DIRECTIONS):
            direction = np.where(looked_at, random.standard_normal(point[k].shape), 0)
            found = slope(reference, point, k, direction, cotangents)
            if found is None or not looked_at.any():
                return None
            want.append((k, direction, ROUNDING * largest * np.linalg.norm(direction), *found))
    wrong, steep, sloped = {}, set(), set()
    for k, direction, rounding, derivative, size in want:
        if size > rounding / 100:
            sloped.add(k)
        if size > 100 * rounding:
            steep.add(k)
        if "d" + k not in got:
            if k in sloped:
                wrong[k] = f"no gradient of {k}"
            continue
        terms = np.where(direction == 0, 0, got["d" + k].astype(np.float64) * direction)
        error, scale = abs(terms.sum() - derivative), max(size, np.abs(terms).sum())
        if not error <= TOLERANCE * scale + rounding:
            wrong[k] = f"wrong gradient of {k} ({error / max(scale, rounding):.1e})"
    return "fail" if wrong else "pass" if sloped else "constant", bool(sloped - steep), "; ".join(wrong.values())


def judge_gradient(args, c, scratch):
    """Verdict (pass, constant, skip, fail), why, and what it was judged by."""
    if failure := c.forward.failure or c.gradient.failure:
        return "fail", failure, ""
    names = [k for k in c.floats if k not in c.gradient.bound and c.inputs[k].size]
    if not names:
        return "skip", "all inputs of floats are constants of the program, or empty", ""
    if missing := c.gradient.missing({*c.inputs, *("d" + k for k in c.results)}):
        return "skip", f"it draws numbers, by {missing}", ""
    reference, random = reference_of(args, c, c.gradient.bound, scratch), np.random.default_rng(5)
    references = [reference] + [Interpreter(args.thunderc, c.case.model, c.gradient.bound, scratch)] * (reference.name == "evaluator")
    flat, why = None, "a kink or a jump wherever it was tried"
    for reference in references:
        for factor, move in POINTS:
            try:
                found = at_point(c, reference, point_of(c, names, factor, move, random), names, random, scratch)
            except Exception as error:  # the reference refuses the point
                why = f"the reference refuses it: {str(error).splitlines()[0][:160]}"
                continue
            if found is None:
                continue
            verdict = found[0], found[2], reference.name + (f" at {factor} x, moved {move}" if (factor, move) != (1, 0) else "")
            if found[0] == "fail" or not found[1]:
                return verdict
            flat = flat or verdict
        if flat:
            return flat
    return "skip", why, ""


def judged(args, c):
    with tempfile.TemporaryDirectory() as scratch:
        forward = c.forward.failure
        if not forward and (missing := c.forward.missing(c.inputs)):
            forward = f"it draws numbers, by {missing}"
        if not forward:
            got = c.forward.call(c.inputs, scratch)
            forward = got if isinstance(got, str) else compare(c.case, c.want, got)
        return forward, judge_gradient(args, c, scratch) if c.results else ("none", "", "")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--thunderc", default="build/thunderc")
    parser.add_argument("--runtime", default="build/runtime-lib", help="a runtime that was built: -DTHUNDERC_RUNTIME of programs")
    parser.add_argument("--to", default="build/onnx_node", help="the folder for programs")
    parser.add_argument("--only", default="", help="cases whose name has this regular expression")
    parser.add_argument("--list", help="write a line for each case: its name, operator, forward pass, gradient")
    parser.add_argument("--again", action="store_true", help="judge what the last run compiled")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("cmake", nargs="*", help="options of the build: -- -DONEDNN_ROOT=DIR")
    args = parser.parse_args()
    args.thunderc, args.runtime, args.to = map(os.path.abspath, (args.thunderc, args.runtime, args.to))
    os.makedirs(args.to, exist_ok=True)
    found, _, whole = collect(args.only)
    cases = [c for c in (Case(case, whole) for case in found) if c.floats and c.want]
    start = time.monotonic()
    told = lambda what: print(f"{what} after {time.monotonic() - start:.0f} s", file=sys.stderr)
    if args.again:
        functions = kept(args.to)
        for c in cases:
            c.forward, c.gradient = functions[c.name + "_forward"], functions.get(c.name + "_vjp")
    else:
        with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
            list(pool.map(lambda c: emitted(args, c, args.to), cases))
        told(f"{len(cases)} cases: written")
        functions = [f for c in cases for f in (c.forward, c.gradient) if f]
        build(functions, args.to, args.runtime, args.jobs, args.cmake)
        keep(functions, args.to)
        told("compiled")
    with concurrent.futures.ProcessPoolExecutor(args.jobs) as pool:
        verdicts = []
        for verdict in pool.map(judged, [args] * len(cases), cases):
            verdicts.append(verdict)
            if len(verdicts) % 100 == 0 or len(verdicts) == len(cases):
                told(f"{len(verdicts)} judged")
    gradients = Gradients([Row(c.name, c.operator, forward, *gradient) for c, (forward, gradient) in zip(cases, verdicts)])
    if args.list:
        gradients.write(args.list)
    print(gradients.text())
    return 1 if gradients.wrong() else 0


if __name__ == "__main__":
    sys.exit(main())
