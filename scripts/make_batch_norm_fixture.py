#!/usr/bin/env python
# SPDX-License-Identifier: Apache-2.0
"""Makes tests/fixtures/batch_norm: a small residual network in train() mode, with the numbers PyTorch gets.

  python scripts/make_batch_norm_fixture.py [--out tests/fixtures]

The files are those of make_fixtures.py; the running statistics are among the parameters, but for gradients. A step has two micro-steps of
six images each: a batch norm has the statistics of one of these, and moves its running ones in each. buffers_of_first and
buffers_of_average are what two ranks with a micro-step each come to, the first of them and their mean.
"""
import argparse, copy, json, os, warnings

import onnx
import torch
import torch.nn.functional as F
from safetensors.torch import save_file

PINNED = "2.13.0"
KEPT = ("pkg.torch.onnx.name_scopes", "pkg.torch.onnx.class_hierarchy", "pkg.torch.onnx.fx_node")
STEPS, MICRO_STEPS, BATCH, CHANNELS, SIZE, CLASSES, LAYERS = 5, 2, 6, 4, 5, 5, 3
OPTIMIZER = {"name": "AdamW", "lr": 1e-3, "betas": [0.9, 0.95], "eps": 1e-8, "weight_decay": 0.1, "decay_all": True,
             "clip": None, "schedule": "constant"}


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv2d(CHANNELS, CHANNELS, 3, padding=1, bias=False)
        self.bn = torch.nn.BatchNorm2d(CHANNELS, momentum=0.3)

    def forward(self, x):
        return x + F.relu(self.bn(self.conv(x)))


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = torch.nn.Conv2d(2, CHANNELS, 2, stride=2, bias=False)
        self.bn = torch.nn.BatchNorm2d(CHANNELS, eps=1e-3)
        self.layers = torch.nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm = torch.nn.BatchNorm1d(CHANNELS)
        self.head = torch.nn.Linear(CHANNELS, CLASSES)

    def forward(self, image):
        x = F.relu(self.bn(self.stem(image)))
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x.mean((2, 3))))


class Logits(torch.nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, image):
        return self.model(image)


def state(model):
    """Parameters, and the buffers that are of floating point."""
    return {n: v.detach().clone() for n, v in model.state_dict().items() if v.is_floating_point()}


def train(model, batch, dtype):
    model = copy.deepcopy(model).to(dtype)
    o = OPTIMIZER
    optimizer = torch.optim.AdamW(model.parameters(), lr=o["lr"], betas=o["betas"], eps=o["eps"], weight_decay=o["weight_decay"])
    losses, norms, grads = [], [], {}
    for k in range(STEPS):
        optimizer.zero_grad()
        total = 0.0
        for rows in range(0, MICRO_STEPS * BATCH, BATCH):
            image, labels = (batch[f"{what}_{k}"][rows:rows + BATCH] for what in ("image", "labels"))
            loss = F.cross_entropy(model(image.to(dtype)), labels, reduction="sum") / (MICRO_STEPS * BATCH)
            loss.backward()
            total += loss.item()
        grads = grads or {n: p.grad.detach().clone() for n, p in model.named_parameters()}
        norms.append(float(torch.sqrt(sum((p.grad.double() ** 2).sum() for p in model.parameters()))))
        losses.append(total)
        optimizer.step()
    return losses, norms, grads, state(model)


def train_on_ranks(model, batch):
    """Two ranks with a micro-step each: the statistics of each, after the last step. Gradients are summed, so parameters are the same."""
    ranks = [copy.deepcopy(model) for _ in range(MICRO_STEPS)]
    o = OPTIMIZER
    optimizers = [torch.optim.AdamW(r.parameters(), lr=o["lr"], betas=o["betas"], eps=o["eps"], weight_decay=o["weight_decay"]) for r in ranks]
    for k in range(STEPS):
        for r, rank in enumerate(ranks):
            optimizers[r].zero_grad()
            image, labels = (batch[f"{what}_{k}"][r * BATCH:(r + 1) * BATCH] for what in ("image", "labels"))
            (F.cross_entropy(rank(image), labels, reduction="sum") / (MICRO_STEPS * BATCH)).backward()
        for parameters in zip(*(rank.parameters() for rank in ranks)):
            gradient = sum(p.grad for p in parameters)
            for p in parameters:
                p.grad = gradient.clone()
        for optimizer in optimizers:
            optimizer.step()
    return [{n: v for n, v in state(rank).items() if "running" in n} for rank in ranks]


def export(model, path, dynamic=None):
    image = torch.zeros(BATCH, 2, 2 * SIZE, 2 * SIZE)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if dynamic is None:
            torch.onnx.export(model, (image,), path, input_names=["image"], output_names=["logits"], opset_version=17, dynamo=False,
                              training=torch.onnx.TrainingMode.TRAINING, do_constant_folding=False)
        else:
            torch.onnx.export(model, (image,), path, input_names=["image"], output_names=["logits"], opset_version=20, dynamo=True,
                              optimize=False, external_data=False, verbose=False,
                              dynamic_shapes=({0: torch.export.Dim("batch", min=2)},) if dynamic else None)
    graph = onnx.load(path)
    for node in graph.graph.node:
        kept = [(p.key, p.value) for p in node.metadata_props if p.key in KEPT]
        del node.metadata_props[:]
        for key, value in kept:
            node.metadata_props.add(key=key, value=value)
        node.doc_string = ""
    del graph.metadata_props[:]
    onnx.save(graph, path)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", default="tests/fixtures")
    folder = os.path.join(parser.parse_args().out, "batch_norm")
    found = torch.__version__.split("+")[0]
    assert found == PINNED, f"torch {PINNED} expected, {found} found"
    os.makedirs(folder, exist_ok=True)
    torch.manual_seed(0)
    model = Model().train()
    for name, p in model.named_parameters():
        torch.nn.init.normal_(p, 1.0 if p.dim() == 1 and "bias" not in name else 0.0, 0.4)
    for name, buffer in model.named_buffers():
        if buffer.is_floating_point():
            torch.nn.init.uniform_(buffer, 0.5, 1.5)
    batch = {}
    for k in range(STEPS):
        batch[f"image_{k}"] = torch.randn(MICRO_STEPS * BATCH, 2, 2 * SIZE, 2 * SIZE)
        batch[f"labels_{k}"] = torch.randint(0, CLASSES, (MICRO_STEPS * BATCH,))
    params, buffers = state(model), [n for n, b in model.named_buffers() if b.is_floating_point()]
    losses, norms, grads, after = train(model, batch, torch.float32)
    losses64, norms64, _, _ = train(model, batch, torch.float64)
    for what, tensors in {"params": params, "grads": grads, "params_after": after, "batch": batch}.items():
        save_file({k: v.contiguous() for k, v in tensors.items()}, f"{folder}/{what}.safetensors")
    first, second = train_on_ranks(model, batch)
    save_file(first, f"{folder}/buffers_of_first.safetensors")
    save_file({n: (v + second[n]) / 2 for n, v in first.items()}, f"{folder}/buffers_of_average.safetensors")
    json.dump({"name": "batch_norm", "torch": found, "prefix": "model.", "steps": STEPS, "inputs": ["image"],
               "loss_graph_inputs": {"image": "image"}, "loss_kind": "cross_entropy", "ignore_index": -100, "optimizer": OPTIMIZER,
               "tied": {}, "frozen": [], "buffers_updated": buffers, "noise_tensors": {},
               "parameters": {n: list(p.shape) for n, p in params.items()}, "loss": losses, "grad_norm": norms, "loss64": losses64,
               "grad_norm64": norms64}, open(f"{folder}/reference.json", "w"), indent=1)
    export(Logits(model), f"{folder}/dyn.logits.onnx", dynamic=True)
    export(Logits(model), f"{folder}/noopt.logits.onnx", dynamic=False)
    export(Logits(copy.deepcopy(model)), f"{folder}/legacy.logits.onnx")  # runs the model, which moves its statistics


if __name__ == "__main__":
    main()
