#!/usr/bin/env python
# SPDX-License-Identifier: Apache-2.0
"""Makes tests/fixtures/models: small models of many kinds (small_models.py), with the numbers PyTorch gets.

  python scripts/make_model_fixtures.py [--out tests/fixtures/models] [--only vit,t5]

The files are those of make_fixtures.py, but for batches, of which a run takes each in turn, and names, which are those of the
module that is exported. noise_tensors: parameters whose gradient is nothing but rounding, with what PyTorch's own in
f32 is off; update_spread: what their whole updates are off then.
"""
import copy, os, warnings

import torch
import torch.nn.functional as F
import transformers

import fixture_files
from small_models import FIXTURES, Wrapped

STEPS, BATCHES = 10, 3
# Epsilon is larger than any rounding of a gradient: an update of what is rounding alone says nothing else.
OPTIMIZER = {**fixture_files.OPTIMIZER, "lr": 1e-2, "eps": 1e-3}


def prefix_of(model):
    return "model." if isinstance(model, Wrapped) else ""


def state(model):
    """Parameters, under the first of their names, and statistics of norms; the other names of parameters."""
    first, out, tied = {}, {}, {}
    prefix = prefix_of(model)
    for name, p in [*model.named_parameters(remove_duplicate=False), *((n, b) for n, b in model.named_buffers() if "running" in n)]:
        name = name.removeprefix(prefix)
        if id(p) in first:
            tied[name] = first[id(p)]
        else:
            first[id(p)], out[name] = name, p
    return out, tied


def copied(tensors):
    return {n: t.detach().clone() for n, t in tensors.items()}


def in_type(dtype, tensor):
    return tensor.to(dtype) if tensor.is_floating_point() else tensor


def train(fixture, model, batches, dtype):
    model = copy.deepcopy(model)._apply(lambda t: in_type(dtype, t))  # complex buffers stay what they are
    optimizer = fixture_files.adamw([p for p in model.parameters() if p.requires_grad], OPTIMIZER)
    losses, norms, grads = [], [], {}
    for k in range(STEPS):
        batch = {n: in_type(dtype, t) for n, t in batches[k % BATCHES].items()}
        labels = batch.pop("labels") if fixture.result == "logits" else None
        result = model(*batch.values())
        loss = result if labels is None else F.cross_entropy(result, labels)
        optimizer.zero_grad()
        loss.backward()
        grads = grads or copied({n: p.grad for n, p in state(model)[0].items() if p.grad is not None})
        norms.append(fixture_files.norm_of_gradients(model.parameters()))
        losses.append(loss.item())
        optimizer.step()
    return losses, norms, grads, copied(state(model)[0])


def export(fixture, kind, model, batch, path):
    model = copy.deepcopy(model)  # TorchScript's exporter runs it, which moves statistics
    inputs = {n: t for n, t in batch.items() if n != "labels" or fixture.result == "loss"}
    common = dict(input_names=list(inputs), output_names=[fixture.result])
    how = kind.split("_")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if "legacy" in how:
            mode = torch.onnx.TrainingMode.TRAINING if fixture.train else torch.onnx.TrainingMode.EVAL
            torch.onnx.export(model, tuple(inputs.values()), path, opset_version=17, dynamo=False, training=mode,
                              do_constant_folding=False,  # of parameters as well
                              dynamic_axes={n: {0: "batch"} for n in inputs} if "dyn" in how else None, **common)
        else:
            batch = torch.export.Dim("batch")
            torch.onnx.export(model, tuple(inputs.values()), path, opset_version=20, dynamo=True, optimize="dynamo" in how,
                              dynamic_shapes=tuple({0: batch} for _ in inputs) if "dyn" in how else None,
                              external_data=False, verbose=False, **common)


def trim(path, optimized):
    """What the exporter's optimizer did to parameters is told by the calls that it traced alone, and by their signature."""
    kept = dict(kept=lambda key, _: key in fixture_files.KEPT, of_graph=[fixture_files.SIGNATURE]) if optimized else {}
    fixture_files.trim(path, bare=("Constant", "Shape"), shorter=(r"transformers\.models\.\w+\.\w+", "transformers.models"), **kept)


def make(name, folder, kinds, whole):
    fixture = FIXTURES[name]
    os.makedirs(folder, exist_ok=True)
    torch.manual_seed(0)
    g = torch.Generator().manual_seed(1)
    model = fixture.build().train(fixture.train)
    with torch.no_grad():  # no two are equal by initialisation, and none is zero
        for p in model.parameters():
            if p.requires_grad:
                p.add_(0.2 * torch.randn(p.shape, generator=g))
        for n, b in model.named_buffers():
            if "running" in n:
                b.copy_((0.1 if "mean" in n else 1.0) * (0.5 + torch.rand(b.shape, generator=g)))
    batches = [{n: t.contiguous() for n, t in fixture.batch(g).items()} for _ in range(BATCHES)]
    params, tied = copied(state(model)[0]), state(model)[1]
    losses, norms, grads, after = train(fixture, model, batches, torch.float32)
    losses64, norms64, grads64, after64 = train(fixture, model, batches, torch.float64)
    noise = {n: (grads[n] - w).norm().item() for n, w in grads64.items() if w.norm() <= 1e-9 * norms64[0]}
    assert all(n.endswith(fixture.rounding) for n in noise), f"nothing of the loss reaches {list(noise)}"
    untrained = [n for n in params if n not in grads]
    fixture_files.save_tensors(folder, params=params, grads=grads, params_after=after,
                               batch={f"{n}_{k}": t for k, b in enumerate(batches) for n, t in b.items()})
    inputs = [n for n in batches[0] if n != "labels" or fixture.result == "loss"]
    fixture_files.save_reference(
        folder, dict(name=name, torch=torch.__version__.split("+")[0], transformers=transformers.__version__, prefix=prefix_of(model), steps=STEPS,
        batches=BATCHES, inputs=inputs, loss_graph_inputs={n: n for n in inputs}, optimizer=OPTIMIZER, tied=tied,
        frozen=[n for n in untrained if "running" not in n], buffers_updated=[n for n in untrained if "running" in n], noise_tensors=noise,
        update_spread={n: (after[n] - after64[n]).norm().item() for n in noise},
        parameters={n: list(p.shape) for n, p in params.items()}, loss=losses, grad_norm=norms, loss64=losses64, grad_norm64=norms64))
    for kind in kinds or fixture.exports:
        path = f"{folder}/{kind}.{fixture.result}.onnx"
        export(fixture, kind, model, batches[0], path)
        if not whole:
            trim(path, "dynamo" in kind)


def main():
    a = fixture_files.arguments(__doc__, torch, transformers, out="tests/fixtures/models", whole=None,
                                exports="of noopt, dynamo, legacy, with _dyn of any batch; those of each model")
    for name in filter(a.wants, FIXTURES):
        make(name, f"{a.out}/{name}", a.exports.split(",") if a.exports else (), a.whole)


if __name__ == "__main__":
    main()
