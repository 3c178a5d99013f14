#!/usr/bin/env python
# SPDX-License-Identifier: Apache-2.0
"""Makes tests/fixtures/aten/samples.zip: calls of ATen's operators, each a program of torch.export of its own, with PyTorch's numbers in fp64
and gradients. Needs the versions of fixture_files.py, and expecttest.

  python scripts/make_aten_fixtures.py [--out tests/fixtures/aten/samples.zip] [--only REGEX]

Of each operator that has a line in compiler/frontend/aten, and of each of core ATen (torch.Tag.core), the first and the last small sample of
PyTorch's own (OpInfo), in f32, or of integers or booleans where the operator takes nothing else. Some are taken apart into core ATen as well
(run_decompositions). CALLS has those of which PyTorch has no samples.

  NAME/models/model.json, …   the program, as an archive has it, without what is the same in all of them
  NAME/numbers.safetensors    in.INPUT, out.RESULT, and grad.INPUT of the sum of each result times cos(0), cos(1), … (booleans as integers)
  core.json                   the version of PyTorch, and the operators of core ATen
"""
import glob, io, json, logging, os, pathlib, re, warnings, zipfile, zlib

import torch
from safetensors.torch import save
from torch.testing._internal.common_methods_invocations import op_db

import fixture_files

ROOT = pathlib.Path(__file__).parents[1]
MOST = 500  # numbers that go into a sample and come out of it: what is larger tells no more
# Operators that core ATen has in other forms.
APART = ("log_softmax", "softmax", "conv1d", "conv2d", "conv_transpose2d", "batch_norm", "native_batch_norm", "group_norm", "layer_norm", "pad", "constant_pad_nd",
         "max_pool2d", "max_pool3d", "adaptive_avg_pool2d", "adaptive_avg_pool3d", "embedding_bag", "grid_sample", "grid_sampler_2d", "reflection_pad1d", "to", "full_like",
         "fill", "copy", "select_scatter", "slice_scatter", "pdist", "contiguous", "linear", "var", "mean", "fft_rfft2", "fft_irfft2", "fft_fft")
# What they give is random, or nobody's to know.
RANDOM = ("dropout", "bernoulli", "multinomial", "normal", "rand", "rrelu", "uniform", "exponential", "cauchy", "geometric", "empty")
G = torch.Generator().manual_seed(7)
A = torch.ops.aten


def normal(*shape):
    return torch.randn(*shape, generator=G)


def windows(x):
    """What max_pool2d_with_indices gives, as its gradient takes it."""
    return A.max_pool2d_with_indices(x, [2, 2], [2, 2], [1, 1])


def calls():
    """Name -> function, tensors. What is random is asked for what is true of all its numbers."""
    x, image, wide = normal(3, 4), normal(2, 3, 5, 6), normal(1, 2, 4, 4, 4)
    bits = torch.randint(0, 16, (3, 4), generator=G)
    return {
        "_embedding_bag": (lambda w, i, o: A._embedding_bag(w, i, o, False, 1)[0], (normal(6, 3), torch.tensor([1, 0, 4, 4, 2]), torch.tensor([0, 2, 2]))),
        "_local_scalar_dense": (lambda x: x * torch.tensor(3).item(), (x,)),
        "_native_batch_norm_legit_no_training": (lambda x, w, m, v: A._native_batch_norm_legit_no_training(x, w, None, m.detach(), v.detach(), 0.1, 1e-5)[0],
                                                 (image, normal(3), normal(3), normal(3).abs() + 0.5)),
        "_adaptive_avg_pool2d_backward": (lambda g, x: A._adaptive_avg_pool2d_backward(g, x), (normal(2, 3, 3, 2), image)),
        "alias": (lambda x: A.alias(x) * 2, (x,)),
        "avg_pool2d_backward": (lambda g, x: A.avg_pool2d_backward(g, x, [2, 3], [2, 2], [1, 1], True, False, None), (normal(2, 3, 3, 4), image)),
        "avg_pool2d_backward.divisor": (lambda g, x: A.avg_pool2d_backward(g, x, [2, 2], [2, 2], [0, 0], False, True, 3), (normal(2, 3, 2, 3), image)),
        "bitwise_and": (lambda n, m: n & m, (bits, bits.flip(0))), "bitwise_or": (lambda n, m: n | m, (bits, bits.flip(0))),
        "bitwise_xor": (lambda n, m: n ^ m, (bits, bits.flip(0))),
        "convolution_backward": (lambda g, x, w: A.convolution_backward(g, x, w, [4], [2, 1], [1, 0], [1, 2], False, [0, 0], 1, [True, True, True]),
                                 (normal(2, 4, 3, 2), image, normal(4, 3, 3, 3))),
        "convolution_backward.groups": (lambda g, x, w: A.convolution_backward(g, x, w, [6], [1, 1], [1, 1], [1, 1], False, [0, 0], 3, [True, True, True]),
                                        (normal(2, 6, 5, 6), image, normal(6, 1, 3, 3))),
        "convolution_backward.transposed": (lambda g, x, w: A.convolution_backward(g, x, w, [4], [2, 2], [1, 1], [1, 1], True, [1, 0], 1, [True, True, True]),
                                            (normal(2, 4, 10, 11), image, normal(3, 4, 3, 3))),
        "empty": (lambda x: torch.empty(3, 4).fill_(2) * x, (x,)), "empty_strided": (lambda x: torch.empty_strided((3, 4), (1, 3)).fill_(2) * x, (x,)),
        "max_pool2d_with_indices_backward": (lambda g, x: A.max_pool2d_with_indices_backward(g, x, [2, 2], [2, 2], [1, 1], [1, 1], False, windows(x)[1]),
                                             (normal(2, 3, 3, 4), image)),
        "native_dropout": (lambda x: A.native_dropout(x, 0.0, True)[0], (x,)),
        "native_dropout.eval": (lambda x: A.native_dropout(x, 0.5, False)[0], (x,)),
        "rand": (lambda x: (torch.rand(50) >= 0) & (torch.rand(50) < 1) & (x[0, 0] < 100), (x,)),
        "randn": (lambda x: (torch.randn(50).abs() < 9) & (x[0, 0] < 100), (x,)),
        "randperm": (lambda x: torch.randperm(12).sort()[0] + x.flatten(), (x,)),
        "reflection_pad1d": (lambda x: A.reflection_pad1d(x, [2, 3]), (x,)), "reflection_pad2d": (lambda x: A.reflection_pad2d(x, [2, 3, 1, 0]), (image,)),
        "reflection_pad3d": (lambda x: A.reflection_pad3d(x, [1, 2, 1, 0, 2, 1]), (wide,)),
        "replication_pad2d": (lambda x: A.replication_pad2d(x, [2, 3, 1, 0]), (image,)),
        "replication_pad3d": (lambda x: A.replication_pad3d(x, [1, 2, 1, 0, 2, 1]), (wide,)),
        "scalar_tensor": (lambda x: A.scalar_tensor(2.5) * x, (x,)),
        "matmul.complex": (lambda x, y: torch.matmul(torch.view_as_complex(x), torch.view_as_complex(y)), (normal(2, 3, 4, 2), normal(2, 4, 5, 2))),
        "matmul.half_complex": (lambda x, y: torch.matmul(x.to(torch.cfloat if x.dtype == torch.float32 else torch.cdouble), torch.view_as_complex(y)),
                                (normal(3, 4), normal(4, 5, 2))),
        "einsum.complex": (lambda x, y: torch.einsum("bim,iom->bom", torch.view_as_complex(x), torch.view_as_complex(y)), (normal(2, 3, 4, 2), normal(3, 2, 4, 2))),
        "cat.complex": (lambda x, y: torch.cat([torch.view_as_complex(x), y]), (normal(2, 3, 2), normal(1, 3))),
        "where.complex": (lambda x, y: torch.where(y > 0, torch.view_as_complex(x), torch.view_as_complex(x) * 2), (normal(2, 3, 2), normal(2, 3))),
        "sum.complex": (lambda x: torch.view_as_complex(x).sum(1), (normal(2, 3, 2),)), "mean.complex": (lambda x: torch.view_as_complex(x).mean(), (normal(2, 3, 2),)),
        "square.complex": (lambda x: torch.view_as_complex(x).square(), (normal(2, 3, 2),)),
        "reciprocal.complex": (lambda x: torch.view_as_complex(x).reciprocal(), (normal(2, 3, 2),)),
        "_fft_r2c": (lambda x: A._fft_r2c(x, [0, 1], 1, True), (normal(4, 5),)),
        "_fft_r2c.whole": (lambda x: A._fft_r2c(x, [1], 0, False), (normal(3, 6),)),
        "_fft_c2r": (lambda x: A._fft_c2r(torch.view_as_complex(x), [0, 1], 2, 7), (normal(4, 4, 2),)),
    }


# Numbers of sizes that torch.export itself computes in another way: x times one of it, by its arguments behind x.
SIZES = {"sym_numel": (), "sym_stride": (0,), "sym_storage_offset": ()}


def with_size(program, name, arguments):
    """The program of x * x.size(1), with another number in the place of the size."""
    graph = program.graph_module.graph
    size = next(node for node in graph.nodes if node.target == A.sym_size.int)
    x = size.args[0].meta["val"]
    with graph.inserting_before(size):
        number = graph.call_function(getattr(A, name).int if arguments else getattr(A, name).default, (size.args[0], *arguments))
    number.meta["val"] = {"sym_numel": x.numel, "sym_stride": lambda: x.stride(0), "sym_storage_offset": x.storage_offset}[name]()
    size.replace_all_uses_with(number)
    graph.erase_node(size)
    return program


def table():
    names = set()
    for path in glob.glob(str(ROOT / "compiler/frontend/aten/ops_*.cpp")):
        for lines in re.findall(r"constexpr OpImporter \w+\[\] = \{(.*?)\n\};", open(path).read(), re.S):
            names.update(re.findall(r'\{"([^"]+)",', lines))
    return {name.split(".")[0] for name in names if not re.match(r"(higher_order|_operator|torch|math|builtins|transformers)\.", name)}


def core():
    packets = [getattr(A, name) for name in dir(A)]
    return {p.__name__ for p in packets if hasattr(p, "overloads") and any(torch.Tag.core in getattr(p, o).tags for o in p.overloads())}


class Call(torch.nn.Module):
    """The tensors of a call are inputs, all else is fixed; complex ones are pairs of real numbers."""

    def __init__(self, function, *arguments, **named):
        super().__init__()
        self.function = function
        leaves, self.spec = torch.utils._pytree.tree_flatten((arguments, named))
        self.leaves = [None if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
        tensors = [leaf.detach().clone().contiguous() for leaf in leaves if isinstance(leaf, torch.Tensor)]
        self.complex = [t.is_complex() for t in tensors]
        self.inputs = [torch.view_as_real(t) if t.is_complex() else t for t in tensors]

    def forward(self, *tensors):
        given = iter(torch.view_as_complex(t) if c else t for t, c in zip(tensors, self.complex))
        leaves = [next(given) if leaf is None else leaf for leaf in self.leaves]
        arguments, named = torch.utils._pytree.tree_unflatten(leaves, self.spec)
        results = torch.utils._pytree.tree_leaves(self.function(*arguments, **named))
        return {f"r{k}": torch.view_as_real(torch.resolve_conj(r)) if r.is_complex() else r.clone() for k, r in enumerate(results) if isinstance(r, torch.Tensor)}


class Sized(Call):
    """x times a number: as it is exported one of x's sizes, else the one that is meant."""

    def __init__(self, number, x):
        super().__init__(lambda x: x * (x.size(1) if torch.compiler.is_exporting() else number), x)


def exact(call):
    """Results in fp64, and gradients."""
    inputs = [t.double().requires_grad_() if t.is_floating_point() else t for t in call.inputs]
    torch.set_default_dtype(torch.float64)
    try:
        results = call(*inputs)
        loss = sum((r * torch.cos(torch.arange(r.numel(), dtype=r.dtype)).reshape(r.shape)).sum() for r in results.values() if r.is_floating_point() and r.requires_grad)
    finally:
        torch.set_default_dtype(torch.float32)
    gradients = [None] * len(inputs)
    if isinstance(loss, torch.Tensor) and loss.requires_grad:
        wanted = [t for t in inputs if t.requires_grad]
        found = iter(torch.autograd.grad(loss, wanted, allow_unused=True))
        gradients = [next(found) if t.requires_grad else None for t in inputs]
    return results, gradients


def kept(t):
    return t.detach().float().contiguous() if t.is_floating_point() else t.detach().long().contiguous()


def counts_from_the_end(call):
    """Negative indices: a program takes those that are data from 0 on."""
    return call.inputs[0].is_floating_point() and any(t.dtype == torch.int64 and bool((t < 0).any()) for t in call.inputs[1:])


def recorded(call, apart=False, size=None, most=MOST):
    """Entries of a sample, without its name; None where PyTorch does not export it, or there is nothing to compare."""
    narrow = (torch.float64, torch.float16, torch.bfloat16, torch.uint8, torch.int8, torch.int16, torch.int32)
    if not call.inputs or counts_from_the_end(call) or any(t.numel() == 0 or t.dtype in narrow for t in call.inputs):
        return None
    try:
        plain = call(*call.inputs)
        numbers = sum(t.numel() for t in [*call.inputs, *plain.values()])
        if not plain or numbers > most or any(t.numel() == 0 or t.dtype in narrow for t in plain.values()):
            return None
        results, gradients = exact(call)
        sequence = (({1: torch.export.Dim("sequence")},),) if size else None
        program = torch.export.export(call, tuple(call.inputs), dynamic_shapes=sequence)
        program = with_size(program, size, SIZES[size]) if size else program
        program = program.run_decompositions() if apart else program
        saved = io.BytesIO()
        torch.export.save(program, saved)
        names = program.graph_signature.user_inputs
        tensors = {f"in.{n}": kept(t) for n, t in zip(names, call.inputs)} | {f"out.{n}": kept(t) for n, t in results.items()}
        tensors |= {f"grad.{n}": kept(g) for n, g in zip(names, gradients) if g is not None}
    except Exception:  # its shape depends on data, or it is no operator, or its tensors are of another layout
        return None
    if any(results[n].shape != plain[n].shape for n in plain):
        return None
    entries = {"numbers.safetensors": save(tensors)}
    with zipfile.ZipFile(saved) as archive:
        for path in archive.namelist():
            name = path.partition("/")[2]
            if name == "models/model.json":
                model = json.loads(archive.read(path))
                for node in model["graph_module"]["graph"]["nodes"]:
                    node["metadata"] = {}
                entries[name] = json.dumps(model, separators=(",", ":")).encode()
            elif name.startswith("data/constants/") and archive.read(path) != b'{"config": {}}':
                entries[name] = archive.read(path)
    return entries


def samples(only):
    wanted = table() | core()
    for name, (function, tensors) in calls().items():
        if re.search(only, name):
            yield (name if "." in name else name + ".call"), recorded(Call(function, *tensors), most=6 * MOST)
    for name in SIZES:
        if re.search(only, name):
            wanted_number = {"sym_numel": 12, "sym_stride": 4, "sym_storage_offset": 0}[name]
            yield name + ".size", recorded(Sized(wanted_number, normal(3, 4)), size=name)
    for op in sorted(op_db, key=lambda op: (op.name, op.variant_test_name)):
        name = (op.aten_name or op.name).split(".")[-1]
        dtype = next((d for d in (torch.float32, torch.int64, torch.bool) if d in op.dtypes), None)
        if name not in wanted or any(word in name for word in RANDOM) or not re.search(only, name) or dtype is None:
            continue
        label = name + (f".{op.variant_test_name}" if op.variant_test_name else "")
        torch.manual_seed(zlib.crc32(label.encode()))  # whatever else is made
        try:
            of_op = [Call(op.op, s.input, *s.args, **s.kwargs) for _, s in zip(range(40), op.sample_inputs("cpu", dtype, requires_grad=False))]
        except Exception:  # some samples are no tensors
            continue
        first = next(((k, made) for k, made in ((k, recorded(call)) for k, call in enumerate(of_op)) if made), None)
        if first is None:  # the smallest there is
            first = min(((k, made) for k, made in ((k, recorded(call, most=4 * MOST)) for k, call in enumerate(of_op)) if made),
                        key=lambda one: len(one[1]["numbers.safetensors"]), default=None)
        if first is None:
            continue
        yield f"{label}.{first[0]}", first[1]
        if name in APART:
            yield f"{label}.{first[0]}.core", recorded(of_op[first[0]], apart=True)
        last = next(((k, made) for k, made in ((k, recorded(of_op[k])) for k in range(len(of_op) - 1, first[0], -1)) if made), None)
        if last:
            yield f"{label}.{last[0]}", last[1]


def main():
    a = fixture_files.arguments(__doc__, torch, out="tests/fixtures/aten/samples.zip")
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    os.makedirs(os.path.dirname(a.out), exist_ok=True)

    def recorded():
        yield "core.json", json.dumps({"torch": torch.__version__.split("+")[0], "core": sorted(core())})
        taken = set()  # operators by several names have the same samples
        for name, entries in samples(a.only):
            if name in taken:
                continue
            taken.add(name)
            if entries is None:
                print("not recorded:", name, flush=True)
            for entry, content in (entries or {}).items():
                yield f"{name}/{entry}", content

    fixture_files.write_archive(a.out, recorded())


if __name__ == "__main__":
    main()
