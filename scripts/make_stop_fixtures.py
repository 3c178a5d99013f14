#!/usr/bin/env python
# SPDX-License-Identifier: Apache-2.0
"""Makes the fixtures of what the operators of an export do not tell: where gradients stop, and whether a model was in training mode.

  python scripts/make_stop_fixtures.py [--out tests/fixtures]

stops, byol, padded: models with detach() in many places, and one whose embedding, which is its head as well, has a row that pads, exported with and without the exporter's optimizer, with PyTorch's numbers of five
steps as in make_fixtures.py. modes: graphs of single layers in training mode and in eval() mode. Of the metadata the files keep what
make_fixtures.py keeps, the traced call of every node, the program's signature, and of stack traces the first and the last line.
"""
import copy, os, re, warnings

import onnx
import torch
from torch.nn import functional as F

from fixture_files import KEPT, OPTIMIZER, SIGNATURE, adamw, arguments, keep_of_graph, norm_of_gradients, save_reference, save_tensors
from make_fixtures import STEPS, named, randomized

TRACE = "pkg.torch.onnx.stack_trace"


class Gated(torch.nn.Module):
    """A layer of which gradients go through the one factor alone."""

    def __init__(self, width):
        super().__init__()
        self.up, self.down = torch.nn.Linear(width, 2 * width), torch.nn.Linear(2 * width, width)

    def forward(self, h):
        return h + self.down(torch.tanh(self.up(h))) * torch.sigmoid(3 * h.detach())


class Stops(torch.nn.Module):
    """detach() inside of layers that repeat, on activations (a probe), in a straight-through estimator, and in a loss."""

    def __init__(self):
        super().__init__()
        self.embed = torch.nn.Linear(12, 8)
        self.layers = torch.nn.ModuleList(Gated(8) for _ in range(4))
        self.head, self.probe = torch.nn.Linear(8, 5), torch.nn.Linear(8, 5)

    def forward(self, x, labels):
        h = self.embed(x)
        for layer in self.layers:
            h = layer(h)
        rounded = h + (torch.round(4 * h) / 4 - h).detach()
        logits = self.head(rounded)
        error = -F.log_softmax(logits, -1).gather(1, labels[:, None])
        weight = 1 - torch.exp(-error.detach())
        probe = F.cross_entropy(self.probe(h.detach()), labels)
        return (weight * error).mean() + 0.5 * probe + 0.1 * (h * h.detach()).mean()


class Byol(torch.nn.Module):
    """Two views by one encoder; gradients go through the prediction and not through its target."""

    def __init__(self):
        super().__init__()
        self.embed = torch.nn.Linear(12, 8)
        self.layers = torch.nn.ModuleList(torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Tanh()) for _ in range(3))
        self.predictor = torch.nn.Linear(8, 8)

    def encode(self, x):
        h = self.embed(x)
        for layer in self.layers:
            h = h + layer(h)
        return h

    def forward(self, x, labels):
        a, b = self.encode(x), self.encode(labels)
        one = ((self.predictor(a) - b.detach()) ** 2).sum(-1).mean()
        other = ((self.predictor(b) - a.detach()) ** 2).sum(-1).mean()
        return one + other


class Padded(torch.nn.Module):
    """Ids are made of the input: a row of the table pads, and has a gradient as a row of the head alone."""

    def __init__(self):
        super().__init__()
        self.embed, self.mix = torch.nn.Embedding(5, 8, padding_idx=2), torch.nn.Linear(8, 8)

    def forward(self, x, labels):
        ids = (4 * x.abs()).long().clamp(0, 4)
        h = torch.tanh(self.mix(self.embed(ids).mean(1)))
        return F.cross_entropy(h @ self.embed.weight.t(), labels)


def trim(path, whole_traces=False):
    model = onnx.load(path)
    for node in model.graph.node:
        kept = [(p.key, p.value) for p in node.metadata_props if p.key in KEPT]
        for p in node.metadata_props:
            if p.key == TRACE:  # of files their names, which differ from machine to machine
                if whole_traces:
                    kept.append((p.key, re.sub(r'File "(?:[^"]*/)?(torch/nn/[^"]*|[^"/]*)"', r'File "\1"', p.value)))
                    continue
                lines = p.value.split("\n")
                first = lines[0] if "<eval_with_key>" in lines[0] else 'File "model.py"'
                kept.append((p.key, first + "\n" + lines[-1]))
        del node.metadata_props[:]
        for key, value in kept:
            node.metadata_props.add(key=key, value=value)
        node.doc_string = ""
    for value in list(model.graph.input) + list(model.graph.output) + list(model.graph.initializer):
        del value.metadata_props[:]
        value.doc_string = ""
    del model.graph.value_info[:]
    keep_of_graph(model.graph, [SIGNATURE])
    del model.metadata_props[:]
    model.doc_string = model.producer_version = ""
    onnx.save(model, path)


def export(model, args, names, path, optimize, outputs=("loss",), whole_traces=False):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(model, args, path, input_names=names, output_names=list(outputs), opset_version=20, dynamo=True, optimize=optimize,
                          external_data=False, verbose=False)
    trim(path, whole_traces)


def train(model, batch, dtype):
    model = copy.deepcopy(model).to(dtype)
    optimizer = adamw(model.parameters())
    losses, norms, grads = [], [], {}
    for k in range(STEPS):
        labels = batch[f"labels_{k}"]
        loss = model(batch[f"x_{k}"].to(dtype), labels.to(dtype) if labels.is_floating_point() else labels)
        optimizer.zero_grad()
        loss.backward()
        if k == 0:
            grads = {n: p.grad.detach().clone() for n, p in model.named_parameters()}
        norms.append(norm_of_gradients(model.parameters()))
        losses.append(float(loss))
        optimizer.step()
    return losses, norms, grads, {n: p.detach().clone() for n, p in model.named_parameters()}


def trained(out, name, build, two_views):
    folder = f"{out}/{name}"
    os.makedirs(folder, exist_ok=True)
    torch.manual_seed(0)
    model = randomized(build())
    g = torch.Generator().manual_seed(2)
    batch = {}
    for k in range(STEPS):
        batch[f"x_{k}"] = torch.randn(4, 12, generator=g)
        batch[f"labels_{k}"] = batch[f"x_{k}"] + 0.3 * torch.randn(4, 12, generator=g) if two_views else torch.randint(0, 5, (4,), generator=g)
    losses, norms, grads, after = train(model, batch, torch.float32)
    losses64, norms64, _, _ = train(model, batch, torch.float64)
    params, tied = named(model)
    save_tensors(folder, params=params, grads=grads, params_after=after, batch=batch)
    save_reference(folder, {"name": name, "torch": torch.__version__.split("+")[0], "prefix": "", "steps": STEPS, "inputs": ["x"],
               "loss_graph_inputs": {"x": "x", "labels": "labels"}, "optimizer": OPTIMIZER, "tied": tied, "frozen": [],
               "parameters": {n: list(p.shape) for n, p in params.items()}, "loss": losses, "grad_norm": norms, "loss64": losses64,
               "grad_norm64": norms64})
    args = (batch["x_0"], batch["labels_0"])
    for variant in ("noopt", "dynamo"):
        export(model, args, ["x", "labels"], f"{folder}/{variant}.loss.onnx", variant == "dynamo")


# ---- single layers ----------------------------------------------------------------------------------------------------------


class Between(torch.nn.Module):
    """Something between two products."""

    def __init__(self, what, layer=None):
        super().__init__()
        self.a, self.b, self.what, self.layer = torch.nn.Linear(4, 8), torch.nn.Linear(8, 4), what, layer

    def forward(self, x):
        return (self.b(self.what(self, self.a(x))) ** 2).mean()


def attention(m, h):
    q = h.view(1, 2, -1, 4)
    return F.scaled_dot_product_attention(q, q, q, dropout_p=0.2 if m.training else 0.0).reshape(-1, 8)


def no_grad(m, h):
    with torch.no_grad():
        return torch.tanh(m.layer(h))


class Noise(torch.nn.Module):
    def forward(self, h):
        return F.dropout(h, 0.1, self.training)


class Steps(torch.nn.Module):
    """A counter, which moves in any mode."""

    def __init__(self):
        super().__init__()
        self.register_buffer("steps", torch.zeros(()))

    def forward(self, h):
        self.steps += 1
        return torch.tanh(h)


class Tokens(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.head = torch.nn.Embedding(16, 8), torch.nn.Linear(8, 16)

    def forward(self, input_ids, labels):
        logits = self.head(self.embed(input_ids))
        return F.cross_entropy(logits.view(-1, 16), labels.view(-1)), logits


def modes(out):
    folder = f"{out}/modes"
    os.makedirs(folder, exist_ok=True)
    x = torch.randn(6, 4, generator=torch.Generator().manual_seed(3))
    layer = lambda m, h: m.layer(h)
    models = {
        "batch_norm": lambda: Between(layer, torch.nn.BatchNorm1d(8)),
        "dropout": lambda: Between(layer, torch.nn.Dropout(0.25)),
        "functional_dropout": lambda: Between(layer, Noise()),
        "attention": lambda: Between(attention),
    }
    for name, build in models.items():
        for mode in ("train", "eval"):
            for variant in ("noopt", "dynamo"):
                torch.manual_seed(0)
                model = randomized(build()).train(mode == "train")
                if name == "batch_norm":
                    g = torch.Generator().manual_seed(4)
                    model.layer.running_mean.copy_(0.3 * torch.randn(8, generator=g))
                    model.layer.running_var.copy_(1 + torch.rand(8, generator=g))
                export(model, (x,), ["x"], f"{folder}/{name}.{mode}.{variant}.onnx", variant == "dynamo")
    # What is lost where, of detach() and no_grad().
    places = {
        "no_grad": Between(no_grad, torch.nn.Linear(8, 8)),
        "same_value": Between(lambda m, h: h * 2 - h.detach() * h),
        "split": Between(lambda m, h: torch.cat(h.detach().chunk(2, 1)[::-1], 1)),
        "clone": Between(lambda m, h: h.detach().clone() + h),
        "cat": Between(lambda m, h: torch.cat([h, h.detach()], 1)[:, 4:12]),
    }
    for name, model in places.items():
        for variant in ("noopt", "dynamo"):
            export(randomized(model), (x,), ["x"], f"{folder}/{name}.{variant}.onnx", variant == "dynamo")
    ids = torch.zeros(2, 5, dtype=torch.int64)
    export(Tokens(), (ids, ids), ["input_ids", "labels"], f"{folder}/one_tensor.onnx", True, ("loss", "logits"))
    # By the batch's statistics in either mode; what moves or is drawn; layers that torch takes apart.
    images = lambda m, h: m.layer(h.view(-1, 2, 2, 2)).reshape(-1, 8)
    for name, mode, model in [("batch_norm_of_the_batch", "eval", Between(layer, torch.nn.BatchNorm1d(8, track_running_stats=False))),
                              ("dropout_2d", "train", Between(images, torch.nn.Dropout2d(0.25))),
                              ("alpha_dropout", "train", Between(layer, torch.nn.AlphaDropout(0.25))),
                              ("instance_norm", "train", Between(lambda m, h: m.layer(h.view(-1, 2, 4)).reshape(-1, 8),
                                                                 torch.nn.InstanceNorm1d(2, track_running_stats=True))),
                              ("steps", "eval", Between(layer, Steps())),
                              ("noise", "eval", Between(lambda m, h: h + 0.1 * torch.randn_like(h)))]:
        export(randomized(model).train(mode == "train"), (x,), ["x"], f"{folder}/{name}.{mode}.onnx", True)
    by_frequency = torch.nn.Sequential(torch.nn.Embedding(5, 4, scale_grad_by_freq=True), torch.nn.Linear(4, 3))
    for variant in ("noopt", "dynamo"):
        export(randomized(by_frequency), (torch.tensor([[0, 1, 1]]),), ["x"], f"{folder}/by_frequency.{variant}.onnx", variant == "dynamo")


def main():
    out = arguments(__doc__, torch).out
    trained(out, "stops", Stops, False)
    trained(out, "byol", Byol, True)
    trained(out, "padded", Padded, False)
    modes(out)


if __name__ == "__main__":
    main()
