#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Which of ATen's operators thunderc takes from .pt2 files, by the samples of tests/fixtures/aten (scripts/make_aten_fixtures.py).

  python3 tests/aten/count.py --thunderc build/thunderc [--only REGEX] [--page docs/aten.md]

A sample is evaluated where `thunderc run` gives PyTorch's numbers, compiled where `thunderc emit --transform forward` writes a program of it, and
differentiable where `--transform vjp` does. The tests hold the numbers and the gradients of each sample against PyTorch's (tests/frontend/aten_samples_test.cpp),
and that those fail which the page lists.
"""
import argparse, array, collections, json, pathlib, re, struct, subprocess, tempfile, zipfile

ROOT = pathlib.Path(__file__).parents[2]
TOLERANCE = 2e-5  # of the largest number: `run` gives f32
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


def difference(found, wanted):
    for name, (shape, numbers, _) in wanted.items():
        if name not in found or found[name][0] != shape:
            return f"{name} is of another shape"
        size = max([1.0] + [abs(v) for v in numbers if abs(v) < float("inf")])
        for a, b in zip(found[name][1], numbers):
            if not (a == b or (a != a and b != b) or abs(a - b) <= TOLERANCE * size):
                return "wrong numbers"
    return ""


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
    """Writes the sample's program and inputs; gives what is recorded of it, and the operators that it calls."""
    inside = {entry.removeprefix(name + "/"): archive.read(entry) for entry in archive.namelist() if entry.startswith(name + "/")}
    numbers = read_tensors(inside.pop("numbers.safetensors"))
    with zipfile.ZipFile(folder / "model.pt2", "w") as model:
        for entry, content in {**SAME, **inside}.items():
            model.writestr("model/" + entry, content)
    write_tensors(folder / "in.safetensors", {n[3:]: t for n, t in numbers.items() if n.startswith("in.")})
    program = inside["models/model.json"].decode()
    return numbers, called_in(program)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--thunderc", default="build/thunderc")
    parser.add_argument("--only", default="")
    parser.add_argument("--page", type=pathlib.Path)
    a = parser.parse_args()
    verdicts, by_others, failures, passed, count = collections.defaultdict(list), collections.defaultdict(list), {}, 0, 0
    with zipfile.ZipFile(ROOT / "tests/fixtures/aten/samples.zip") as archive:
        about = json.loads(archive.read("core.json"))
        core = about["core"]
        names = sorted({entry.split("/")[0] for entry in archive.namelist() if "/" in entry})
        for name in names:
            if not re.search(a.only, name):
                continue
            with tempfile.TemporaryDirectory() as temporary:
                folder = pathlib.Path(temporary)
                numbers, called = sample_files(archive, name, folder)
                model = [folder / "model.pt2"] + (["--seq", "4"] if name.endswith(".size") else [])
                reasons = [run(a.thunderc, "run", *model, "--in", folder / "in.safetensors", "--out", folder / "out.safetensors")]
                if not reasons[0]:
                    found = read_tensors((folder / "out.safetensors").read_bytes())
                    reasons[0] = difference(found, {n[4:]: t for n, t in numbers.items() if n.startswith("out.")})
                for transform, to in (("forward", "f"), ("vjp", "g")):
                    slopes = transform == "forward" or any(n.startswith("grad.") for n in numbers)
                    reasons.append(run(a.thunderc, "emit", *model, "--transform", transform, "-o", folder / to) if slopes else None)
            count += 1
            passed += reasons[0] == ""
            if any(reasons):
                failures[name] = next(r for r in reasons if r)
                print(name, reasons, flush=True)
            operator = name.split(".")[0]
            verdicts[operator].append(reasons)
            for other in called - {operator} if reasons[0] == "" else ():
                by_others[other].append(reasons)
    # What these call is held against PyTorch's numbers and gradients as well (tests/frontend/pt2_operators_test.cpp).
    for path in (ROOT / "tests/fixtures/pt2_operators").glob("*.pt2"):
        with zipfile.ZipFile(path) as archive:
            for name in called_in(archive.read("model/models/model.json").decode()):
                by_others[name].append(["", "", ""])
    marks = {}
    for name in core:
        reasons = verdicts.get(name) or by_others.get(name) or by_others.get(name + "_copy") or []
        none = bool(reasons) and all(r[2] is None for r in reasons)
        marks[name] = [any(r[k] == "" for r in reasons) for k in (0, 1)] + ["—" if none else any(r[2] == "" for r in reasons)]
    spelled = {True: "yes", False: "no"}
    rows = "\n".join(f"| {name} | " + " | ".join(spelled.get(m, m) for m in of) + " |" for name, of in marks.items())
    totals = {word: sum(of[k] is True for of in marks.values()) for k, word in enumerate(("evaluated", "compiled"))}
    print(f"{passed} of {count} samples of {len(verdicts)} operators; core: {len(marks)}, {totals}")
    print({name: of for name, of in marks.items() if False in of})
    if a.page:
        failed = "\n".join(f"| {name} | {reason} |" for name, reason in failures.items())
        a.page.write_text(PAGE.format(version=about["torch"], core=len(marks), rows=rows, passed=passed, samples=count, share=100 * passed / max(count, 1),
                                      operators=len(verdicts), failed=failed, **totals))


PAGE = """\
<!-- Written by tests/aten/count.py --page; not by hand. -->
# Operators of ATen

What `.pt2` files hold, by samples that are PyTorch's own (OpInfo), and some calls of which it has none, in `tests/fixtures/aten`. Of the {core}
operators of core ATen (`torch.Tag.core`, PyTorch {version}; overloads together) {evaluated} are evaluated and {compiled} compiled.
*Evaluated*: thunderc gives PyTorch's numbers; *compiled*: a program is written of it; *differentiable*: one with its gradients is, which are PyTorch's (—: it
has none). Operators without a sample count where one of another's calls them, as it stands or as core ATen (`run_decompositions`), or where tests/fixtures/pt2_operators do. Each
sample's numbers and gradients are held against PyTorch's by the project's tests.

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
