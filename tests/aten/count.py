#!/usr/bin/env python
# SPDX-License-Identifier: Apache-2.0
"""Which of ATen's operators thunderc takes from .pt2 files, by PyTorch's own samples of its operators (OpInfo), in f32.

  python tests/aten/count.py --thunderc build/thunderc [--only REGEX] [--samples 1] [--page docs/aten.md]

Run by hand, with the version of PyTorch that scripts/fixture_files.py pins, safetensors and expecttest: the project's tests need none. Of each operator that has a
line in compiler/frontend/aten and of each of core ATen (torch.Tag.core) the first samples are exported. A sample is evaluated where
`thunderc run` gives PyTorch's numbers, compiled where `thunderc emit --transform forward` writes a program of it, and differentiable where
`--transform vjp` does, which compares no gradients: those of tests/fixtures/pt2_operators are held against PyTorch's in every run of the
tests. What these have and OpInfo has not counts by them.
"""
import argparse, collections, glob, logging, pathlib, re, subprocess, tempfile, warnings, zipfile

import torch
from safetensors.torch import load_file, save_file
from torch.testing._internal.common_methods_invocations import op_db

ROOT = pathlib.Path(__file__).parents[2]
TOLERANCE = 2e-4  # of the largest number: PyTorch computes in f32, and the samples' largest sums have some thousand terms
# Operators that core ATen has in other forms: samples of these are tried taken apart as well.
APART = ("log_softmax", "softmax", "conv1d", "conv2d", "conv_transpose2d", "batch_norm", "native_batch_norm", "group_norm", "layer_norm", "pad", "constant_pad_nd",
         "max_pool2d", "max_pool3d", "adaptive_avg_pool2d", "adaptive_avg_pool3d", "embedding_bag", "grid_sample", "grid_sampler_2d", "reflection_pad1d", "to", "full_like",
         "fill", "copy", "select_scatter", "slice_scatter", "pdist", "contiguous", "linear", "var", "mean")
RANDOM = ("dropout", "bernoulli", "multinomial", "normal", "rand", "rrelu", "uniform", "exponential", "cauchy", "geometric", "empty")


def table():
    names = set()
    for path in glob.glob(str(ROOT / "compiler/frontend/aten/ops_*.cpp")):
        for lines in re.findall(r"constexpr OpImporter \w+\[\] = \{(.*?)\n\};", open(path).read(), re.S):
            names.update(re.findall(r'\{"([^"]+)",', lines))
    return {name.split(".")[0] for name in names if not re.match(r"(higher_order|_operator|torch|math|builtins|transformers)\.", name)}


def core():
    packets = [getattr(torch.ops.aten, name) for name in dir(torch.ops.aten)]
    return {p.__name__ for p in packets if hasattr(p, "overloads") and any(torch.Tag.core in getattr(p, o).tags for o in p.overloads())}


def called(path):
    """Operators that a program calls."""
    with zipfile.ZipFile(path) as archive:
        model = next(name for name in archive.namelist() if name.endswith("models/model.json"))
        return {t.split(".")[3] for t in re.findall(r'"target": ?"(torch\.ops\.aten\.[^"]+)"', archive.read(model).decode())}


class Sample(torch.nn.Module):
    """The tensors of a sample are inputs, all else is fixed."""

    def __init__(self, function, sample):
        super().__init__()
        self.function = function
        leaves, self.spec = torch.utils._pytree.tree_flatten((sample.input, sample.args, sample.kwargs))
        self.leaves = [None if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
        self.inputs = [leaf.detach().clone().contiguous() for leaf in leaves if isinstance(leaf, torch.Tensor)]

    def forward(self, *tensors):
        given = iter(tensors)
        leaves = [next(given) if leaf is None else leaf for leaf in self.leaves]
        first, args, kwargs = torch.utils._pytree.tree_unflatten(leaves, self.spec)
        results = torch.utils._pytree.tree_leaves(self.function(first, *args, **kwargs))
        return {f"r{k}": r.clone() for k, r in enumerate(results) if isinstance(r, torch.Tensor)}

def run(*command):
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    except subprocess.TimeoutExpired:
        return "no end after 60 s"
    if done.returncode == 0:
        return ""
    return next((line for line in done.stderr.splitlines() if line.startswith("error: ")), f"exit {done.returncode}").removeprefix("error: ")


def difference(found, wanted):
    for name, want in wanted.items():
        if name not in found or found[name].shape != want.shape:
            return f"{name} is of another shape"
        a, b = found[name].double(), want.double()
        finite = torch.isfinite(b)
        if not torch.equal(finite, torch.isfinite(a)) or not torch.equal(a[~finite].nan_to_num(), b[~finite].nan_to_num()):
            return "other numbers are not finite"
        if b[finite].numel() and float((a - b)[finite].abs().max()) > TOLERANCE * max(1.0, float(b[finite].abs().max())):
            return "wrong numbers"
    return ""


def tried(thunderc, function, sample, folder, decomposed=False):
    """Reasons why it is not evaluated, compiled, differentiated, and what is called; None where there is nothing to try. `decomposed`:
    as core ATen, where operators are taken apart."""
    try:
        module = Sample(function, sample)
        inputs = module.inputs
        if not inputs or any(t.is_complex() or t.numel() == 0 or t.dtype in (torch.float64, torch.float16, torch.bfloat16) for t in inputs):
            return None
        wanted = module(*inputs)
        if not wanted or any(t.is_complex() or t.numel() == 0 for t in wanted.values()):
            return None
        program = torch.export.export(module, tuple(inputs))
        program = program.run_decompositions() if decomposed else program
        torch.export.save(program, f"{folder}/model.pt2")
    except Exception:  # torch does not export it: its shape depends on data, or it is no operator
        return None
    names = program.graph_signature.user_inputs
    save_file({name: t.to(torch.int64) if t.dtype not in (torch.float32, torch.bool) else t for name, t in zip(names, inputs)}, f"{folder}/in.safetensors")
    reasons = [run(thunderc, "run", f"{folder}/model.pt2", "--in", f"{folder}/in.safetensors", "--out", f"{folder}/out.safetensors")]
    if not reasons[0]:
        reasons[0] = difference(load_file(f"{folder}/out.safetensors"), {n: t for n, t in wanted.items()})
    reasons.append(run(thunderc, "emit", f"{folder}/model.pt2", "--transform", "forward", "-o", f"{folder}/f", "--force"))
    slopes = any(t.is_floating_point() for t in inputs) and any(t.is_floating_point() for t in wanted.values())
    reasons.append(run(thunderc, "emit", f"{folder}/model.pt2", "--transform", "vjp", "-o", f"{folder}/g", "--force") if slopes else None)
    return reasons, called(f"{folder}/model.pt2")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--thunderc", default="build/thunderc")
    parser.add_argument("--only", default="")
    parser.add_argument("--samples", type=int, default=1)
    parser.add_argument("--page", type=pathlib.Path)
    a = parser.parse_args()
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    torch.manual_seed(0)
    ours, of_core = table(), core()
    verdicts, by_others, count, failures = collections.defaultdict(list), collections.defaultdict(list), [0, 0], {}
    for op in op_db:
        name = (op.aten_name or op.name).split(".")[-1]
        if name not in ours | of_core or any(word in name for word in RANDOM) or not re.search(a.only, name) or torch.float32 not in op.dtypes:
            continue
        samples = [s for _, s in zip(range(a.samples * 4), op.sample_inputs("cpu", torch.float32, requires_grad=False))]
        taken = 0
        for sample in samples:
            with tempfile.TemporaryDirectory() as folder:
                made = tried(a.thunderc, op.op, sample, folder)
                if made is None:
                    continue
                apart = ([], set())
                if name in APART and not taken:
                    apart = tried(a.thunderc, op.op, sample, folder, decomposed=True) or apart
            reasons = made[0]
            for result, names in (made, apart):
                for other in (names & of_core) - {name} if result[:1] == [""] else ():
                    by_others[other].append(result)
            verdicts[name].append(reasons)
            count[0] += 1
            count[1] += reasons[0] == ""
            if reasons[0]:
                failures.setdefault(name, reasons[0])
                print(name, reasons, flush=True)
            taken += 1
            if taken == a.samples:
                break
    print(f"{count[1]} of {count[0]} samples of {len(verdicts)} operators")
    fixtures = set().union(*(called(path) for path in glob.glob(str(ROOT / "tests/fixtures/pt2_operators/*.pt2"))))
    marks = {}
    for name in sorted(of_core):
        reasons = verdicts.get(name) or by_others.get(name)
        if reasons:
            none = all(r[2] is None for r in reasons)
            marks[name] = [any(r[k] == "" for r in reasons) for k in (0, 1)] + ["—" if none else any(r[2] == "" for r in reasons)]
        else:
            marks[name] = [name in fixtures or name.removesuffix("_copy") in fixtures] * 3
            if name in ours and not marks[name][0]:
                marks[name] = ["not tried"] * 3
    spelled = {True: "yes", False: "no"}
    rows = "\n".join(f"| {name} | " + " | ".join(spelled.get(m, m) for m in of) + " |" for name, of in marks.items())
    evaluated, compiled = (sum(of[k] is True for of in marks.values()) for k in (0, 1))
    print(f"core: {len(marks)}, evaluated {evaluated}, compiled {compiled}")
    print({name: of for name, of in marks.items() if of[0] is not True or of[1] is not True})
    if a.page:
        failed = "\n".join(f"| {name} | {reason} |" for name, reason in sorted(failures.items()))
        a.page.write_text(PAGE.format(version=torch.__version__.split("+")[0], core=len(marks), evaluated=evaluated, compiled=compiled, rows=rows, passed=count[1],
                                      samples=count[0], share=100 * count[1] / max(count[0], 1), operators=len(verdicts), failed=failed))


PAGE = """\
<!-- Written by tests/aten/count.py --page; not by hand. -->
# Operators of ATen

What `.pt2` files hold. Of the {core} operators of core ATen (`torch.Tag.core`, PyTorch {version}; overloads together) {evaluated} are evaluated and {compiled} compiled.
*Evaluated*: `thunderc run` gives PyTorch's numbers of one of its own samples (OpInfo) in f32; *compiled*: a program is written of it; *differentiable*: one with its
gradients is (—: it has none). Operators without a sample count where one of another's calls them, as it stands or as core ATen (`run_decompositions`), or where tests/fixtures/pt2_operators call them, whose numbers and gradients are held against PyTorch's by
the project's tests. *not tried*: has an importer, and is in neither.

Of {samples} samples of {operators} operators that thunderc has {passed} ({share:.1f}%) are evaluated as PyTorch does.

| operator | evaluated | compiled | differentiable |
|---|---|---|---|
{rows}

Samples that fail, one for each operator:

| operator | because |
|---|---|
{failed}
"""

if __name__ == "__main__":
    main()
