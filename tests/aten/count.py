#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Which of ATen's operators thunderc takes from .pt2 files, by the samples of tests/fixtures/aten (scripts/make_aten_fixtures.py).

  python3 tests/aten/count.py --thunderc build/thunderc --runtime build/runtime-lib [--only REGEX] [--page docs/aten.md] [-- -DONEDNN_ROOT=DIR]

A sample is evaluated where `thunderc run` gives PyTorch's numbers. Of each operator of core ATen one sample is compiled: the program that `thunderc emit
--transform forward` writes of it gives its numbers, and the one of `--transform vjp` PyTorch's gradients. All programs are compiled in one build, which takes ten
minutes on two cores. Needs numpy and safetensors, CMake and Ninja. The tests hold numbers and gradients of each sample in fp64 (tests/frontend/aten_samples_test.cpp),
and that those fail which the page lists.
"""
import argparse, array, json, math, pathlib, re, struct, subprocess, sys, tempfile, zipfile

import numpy as np

ROOT = pathlib.Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests/support"))
from function_libraries import Function, build, emit

TOLERANCE = 2e-5  # of the largest number: `run` gives f32
COMPILED = 1e-4  # of the largest number: some hundred roundings of f32 in a row
SAME = {"archive_format": "pt2", "archive_version": "0", "byteorder": "little",
        "data/weights/model_weights_config.json": '{"config": {}}', "data/constants/model_constants_config.json": '{"config": {}}'}


def read_tensors(content):
    """Name -> (shape, numbers, dtype)."""
    length, = struct.unpack("<Q", content[:8])
    out = {}
    for name, entry in json.loads(content[8:8 + length]).items():
        if name != "__metadata__":
            begin, end = (8 + length + k for k in entry["data_offsets"])
            out[name] = entry["shape"], array.array({"F32": "f", "I64": "q", "BOOL": "b", "I32": "i"}[entry["dtype"]], content[begin:end]), entry["dtype"]
    return out


def write_tensors(path, tensors):
    header, data = {}, b""
    for name, (shape, numbers, dtype) in tensors.items():
        content = numbers.tobytes()
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(content)]}
        data += content
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def difference(found, wanted, tolerance=TOLERANCE, gradients=False):
    """What is wrong; where a gradient is a quotient of zeros with PyTorch, any number will do."""
    for name, (shape, numbers, _) in wanted.items():
        if name not in found or list(found[name][0]) != shape:
            return f"{name} is of another shape"
        size = max([1.0] + [abs(v) for v in numbers if abs(v) < float("inf")])
        for a, b in zip(found[name][1], numbers):
            if not (a == b or (b != b and (gradients or a != a)) or abs(a - b) <= tolerance * size):
                return "wrong numbers"
    return ""


def called(function, numbers, scratch):
    """What the built program gives, as files have tensors, or why it gives nothing."""
    given = {n[3:]: np.array(v).reshape(shape) for n, (shape, v, _) in numbers.items() if n.startswith("in.")}
    for n, (shape, v, _) in numbers.items():  # cotangents as the samples were recorded with them
        if n.startswith("out."):
            given["d" + n[4:]] = np.cos(np.arange(math.prod(shape), dtype=np.float64)).reshape(shape)
    # What is drawn is drawn by these; a sample makes nothing of it but its shape.
    spec = (pathlib.Path(function.folder) / "spec.cpp").read_text()
    for n, shape in re.findall(r'\{"(sample_numbers|seed)", DType::i64, (?:SHAPE_([0-9_]+)|\{\})', spec):
        dims = [int(d) for d in shape.split("_") if d]
        given[n] = np.arange(math.prod(dims)).reshape(dims)
    if missing := function.missing(given):
        return f"it takes {missing}"
    got = function.call(given, scratch)
    return got if isinstance(got, str) else {n: (t.shape, t.ravel().tolist()) for n, t in got.items()}


def judge(function, numbers, kind, scratch):
    """Why a built program does not give PyTorch's numbers ("out.") or gradients ("grad."); "" where it does."""
    if function.failure:
        return function.failure
    got = called(function, numbers, scratch)
    if isinstance(got, str):
        return got
    if kind == "grad.":
        got = {n[1:]: t for n, t in got.items()}
    return difference(got, {n.removeprefix(kind): t for n, t in numbers.items() if n.startswith(kind) and math.prod(t[0])}, COMPILED, kind == "grad.")


def run(*command):
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    except subprocess.TimeoutExpired:
        return "no end after 60 s"
    if done.returncode == 0:
        return ""
    return next((line for line in done.stderr.splitlines() if line.startswith("error: ")), f"exit {done.returncode}").removeprefix("error: ")


def called_in(program):
    return {target.split(".")[3] for target in re.findall(r'"target":"(torch\.ops\.aten\.[^"]+)"', program)}


def sample_files(archive, name, folder):
    """Writes the sample's program; gives what is recorded of it, and the operators that it calls."""
    inside = {entry.removeprefix(name + "/"): archive.read(entry) for entry in archive.namelist() if entry.startswith(name + "/")}
    numbers = read_tensors(inside.pop("numbers.safetensors"))
    with zipfile.ZipFile(folder / "model.pt2", "w") as model:
        for entry, content in {**SAME, **inside}.items():
            model.writestr("model/" + entry, content)
    program = inside["models/model.json"].decode()
    return numbers, called_in(program)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--thunderc", default="build/thunderc")
    parser.add_argument("--runtime", type=pathlib.Path, default=pathlib.Path("build/runtime-lib"), help="of a build, for the programs")
    parser.add_argument("--only", default="")
    parser.add_argument("--page", type=pathlib.Path)
    parser.add_argument("--to", type=pathlib.Path, help="keeps the programs there")
    parser.add_argument("-j", "--jobs", type=int, default=2)
    parser.add_argument("cmake", nargs="*")
    a = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        a.to = (a.to or pathlib.Path(temporary)).resolve()
        a.to.mkdir(parents=True, exist_ok=True)
        count_all(a)


class Sample:
    """Numbers and a program of PyTorch's, and what thunderc makes of it."""

    def __init__(self, name, numbers, model, options, to):
        self.name, self.numbers, self.model, self.options, self.to = name, numbers, model, options, to
        self.called, self.refused, self.compiled, self.differentiable, self.functions = set(), "", None, None, []

    def emit(self, thunderc, scratch):
        """Its programs; what they give has elements."""
        results = [n[4:] for n, (shape, *_) in self.numbers.items() if n.startswith("out.") and math.prod(shape)]
        for transform in ("forward", "vjp") if self.has_gradients() else ("forward",):
            function = Function(f"{re.sub('[^A-Za-z0-9]', '_', self.name)}_{transform}", str(self.to / f"{self.name}_{transform}"))
            taken = ["loss"] if transform == "vjp" and "loss" in results else results
            emit(thunderc, str(self.model), function, [*self.options, "--transform", transform, "--output", ",".join(taken)], scratch)
            self.functions.append(function)

    def judge(self, scratch):
        self.compiled = judge(self.functions[0], self.numbers, "out.", scratch)
        if self.has_gradients():
            self.differentiable = judge(self.functions[1], self.numbers, "grad.", scratch)

    def has_gradients(self):
        return any(n.startswith("grad.") for n in self.numbers)


def samples_of(archive, only, folder):
    for name in sorted({entry.split("/")[0] for entry in archive.namelist() if "/" in entry}):
        if re.search(only, name):
            at = folder / name
            at.mkdir(exist_ok=True)
            numbers, called = sample_files(archive, name, at)
            out = Sample(name, numbers, at / "model.pt2", ["--seq", "4"] if name.endswith(".size") else [], folder)
            out.called = called | {name.split(".")[0]}
            yield out


def groups_of(folder):
    """Calls that are held against PyTorch's numbers and gradients by tests/frontend/pt2_operators_test.cpp."""
    for path in sorted((ROOT / "tests/fixtures/pt2_operators").glob("*.pt2")):
        with zipfile.ZipFile(path) as archive:
            program = json.loads(archive.read("model/models/model.json"))
        inputs = [i["user_input"]["arg"]["as_tensor"]["name"] for i in program["graph_module"]["signature"]["input_specs"] if "user_input" in i]
        named = {f"inputs_{k}": name for k, name in enumerate(inputs)}
        numbers = {}
        for name, tensor in read_tensors(path.with_suffix(".safetensors").read_bytes()).items():
            kind, _, rest = name.partition(".")
            numbers[f"{kind}.{rest if kind == 'out' else named[rest]}"] = tensor
        out = Sample(path.stem, numbers, path, [], folder)
        out.called = called_in(json.dumps(program, separators=(",", ":")))
        yield out


def count_all(a):
    with zipfile.ZipFile(ROOT / "tests/fixtures/aten/samples.zip") as archive:
        about = json.loads(archive.read("core.json"))
        samples = list(samples_of(archive, a.only, a.to))
    groups = list(groups_of(a.to))
    for sample in samples:
        at = sample.model.parent
        write_tensors(at / "in.safetensors", {n[3:]: t for n, t in sample.numbers.items() if n.startswith("in.")})
        sample.refused = run(a.thunderc, "run", sample.model, *sample.options, "--in", at / "in.safetensors", "--out", at / "out.safetensors")
        if not sample.refused:
            found = read_tensors((at / "out.safetensors").read_bytes())
            sample.refused = difference(found, {n[4:]: t for n, t in sample.numbers.items() if n.startswith("out.")})
        if sample.refused:
            print(f"{sample.name}: {sample.refused}", flush=True)
    # Of each operator one sample, of its own where there is one, with gradients if any has them.
    chosen = {}
    for name in about["core"]:
        own = [s for s in samples if s.name.split(".")[0] == name]
        known = [s for s in own or samples + groups if not s.refused and {name, name + "_copy"} & s.called]
        if known:
            chosen[name] = next((s for s in known if s.has_gradients()), known[0])
    built = list({s.name: s for s in chosen.values()}.values())
    for sample in built:
        sample.emit(a.thunderc, str(a.to))
    build([f for s in built for f in s.functions], str(a.to), a.runtime.resolve(), a.jobs, a.cmake)
    for sample in built:
        sample.judge(str(a.to))
        if sample.compiled or sample.differentiable:
            print(f"{sample.name}, built: {sample.compiled or sample.differentiable}", flush=True)
    marks = {name: [name in chosen, name in chosen and not chosen[name].compiled, name in chosen and chosen[name].differentiable == ""] for name in about["core"]}
    for name, sample in chosen.items():
        marks[name][2] = "—" if sample.differentiable is None else marks[name][2]
    spelled = {True: "yes", False: "no"}
    totals = {word: sum(of[k] is True for of in marks.values()) for k, word in enumerate(("evaluated", "compiled", "differentiable"))}
    passed, operators = sum(not s.refused for s in samples), {s.name.split(".")[0] for s in samples}
    print(f"{passed} of {len(samples)} samples of {len(operators)} operators; core: {len(marks)}, {totals}, without gradients: "
          f"{sum(of[2] == '—' for of in marks.values())}; programs built: {sum(len(s.functions) for s in built)}")
    print({name: of for name, of in marks.items() if False in of})
    if a.page:
        a.page.write_text(PAGE.format(version=about["torch"], core=len(marks), passed=passed, samples=len(samples), share=100 * passed / max(len(samples), 1),
                                      rows="\n".join(f"| {name} | " + " | ".join(spelled.get(m, m) for m in of) + " |" for name, of in marks.items()),
                                      operators=len(operators), failed="\n".join(f"| {s.name} | {s.refused} |" for s in samples if s.refused), **totals))


PAGE = """\
<!-- Written by tests/aten/count.py --page; not by hand. -->
# Operators of ATen

What `.pt2` files hold, by samples that are PyTorch's own (OpInfo), and some calls of which it has none, in `tests/fixtures/aten`. Of the {core}
operators of core ATen (`torch.Tag.core`, PyTorch {version}; overloads together) {evaluated} are evaluated and {compiled} compiled.
*Evaluated*: thunderc gives PyTorch's numbers; *compiled*: the program that it writes of a sample of the operator, built and run, gives them; *differentiable*: one
with gradients gives PyTorch's (—: it has none). Operators without a sample stand in one of another's, as it is or as core ATen (`run_decompositions`), or in
tests/fixtures/pt2_operators. Each sample's numbers and gradients are held against PyTorch's by the project's tests.

Of {samples} samples of {operators} operators that thunderc has {passed} ({share:.1f}%) are evaluated as PyTorch does.

| operator | evaluated | compiled | differentiable |
|---|---|---|---|
{rows}

Samples that fail:

| sample | because |
|---|---|
{failed}
"""

if __name__ == "__main__":
    main()
