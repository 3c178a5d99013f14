#!/usr/bin/env python
# SPDX-License-Identifier: Apache-2.0
"""Makes tests/fixtures/batch_norm: a small residual network in train() mode, with the numbers PyTorch gets.

  python scripts/make_batch_norm_fixture.py [--out tests/fixtures]

The files are those of make_fixtures.py; the running statistics are among the parameters, but for gradients. A step has two micro-steps of
six images each: a batch norm has the statistics of one of these, and moves its running ones in each. buffers_of_first and
buffers_of_average are what two ranks with a micro-step each come to, the first of them and their mean.
"""
import copy, os, warnings

import torch
import torch.nn.functional as F

from fixture_files import OPTIMIZER, PINNED, adamw, arguments, norm_of_gradients, save_reference, save_tensors, trim_nodes

STEPS, MICRO_STEPS, BATCH, CHANNELS, SIZE, CLASSES, LAYERS = 5, 2, 6, 4, 5, 5, 3


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
    optimizer = adamw(model.parameters())
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
        norms.append(norm_of_gradients(model.parameters()))
        losses.append(total)
        optimizer.step()
    return losses, norms, grads, state(model)


def train_on_ranks(model, batch):
    """Two ranks with a micro-step each: the statistics of each, after the last step. Gradients are summed, so parameters are the same."""
    ranks = [copy.deepcopy(model) for _ in range(MICRO_STEPS)]
    optimizers = [adamw(r.parameters()) for r in ranks]
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
    trim_nodes(path)


def main():
    folder = os.path.join(arguments(__doc__, torch).out, "batch_norm")
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
    save_tensors(folder, params=params, grads=grads, params_after=after, batch=batch)
    first, second = train_on_ranks(model, batch)
    save_tensors(folder, buffers_of_first=first, buffers_of_average={n: (v + second[n]) / 2 for n, v in first.items()})
    save_reference(folder, {"name": "batch_norm", "torch": PINNED["torch"], "prefix": "model.", "steps": STEPS, "inputs": ["image"],
               "loss_graph_inputs": {"image": "image"}, "loss_kind": "cross_entropy", "ignore_index": -100, "optimizer": OPTIMIZER,
               "tied": {}, "frozen": [], "buffers_updated": buffers, "noise_tensors": {},
               "parameters": {n: list(p.shape) for n, p in params.items()}, "loss": losses, "grad_norm": norms, "loss64": losses64,
               "grad_norm64": norms64})
    export(Logits(model), f"{folder}/dyn.logits.onnx", dynamic=True)
    export(Logits(model), f"{folder}/noopt.logits.onnx", dynamic=False)
    export(Logits(copy.deepcopy(model)), f"{folder}/legacy.logits.onnx")  # runs the model, which moves its statistics


if __name__ == "__main__":
    main()
