#!/usr/bin/env python
# SPDX-License-Identifier: Apache-2.0
"""Makes the fixtures of what the exporter's optimizer takes from models whose parameters begin at zeros or ones:

  python scripts/make_restored_fixtures.py [--out tests/fixtures] [--only fresh_gpt2,seedling,shared_layers,shared_table,smoothed,restored] [--cases NAME,...]

fresh_gpt2, seedling: as scripts/make_fixtures.py makes its models, but as they are initialised, exported by torch's defaults
(dynamo=True, optimize=True), with the traced program's signature kept. seedling has one of each layer that begins at zeros or ones.
shared_layers, shared_table: what the exporter copies for each of its uses. smoothed: the cross entropies whose label smoothing it drops.
restored: NAME.onnx, a graph for each way to write a layer, exported by the same defaults, and NAME.noopt.onnx with optimize=False;
cases.json has the parameters of each and their shapes.
"""
import json, os, warnings
from types import SimpleNamespace

import onnx
import torch
import torch.nn.functional as F
import transformers
from torch import nn
from transformers import GPT2Config, GPT2LMHeadModel
from transformers.pytorch_utils import Conv1D

import fixture_files
import make_fixtures as base
from fixture_files import SIGNATURE, arguments, keep_of_graph, keep_of_node, save_reference, save_tensors
from make_fixtures import LanguageLogits, Logits, batches, named, train

C, T = 4, 5
# A bias of keys cancels in the softmax: its gradient is rounding, of which Adam makes whole steps where epsilon is smaller.
OPTIMIZER = {**fixture_files.OPTIMIZER, "eps": 1e-5}


def fresh_gpt2():
    return GPT2LMHeadModel(GPT2Config(vocab_size=base.VOCABULARY, n_positions=16, n_embd=16, n_layer=2, n_head=2, resid_pdrop=0, embd_pdrop=0,
                                      attn_pdrop=0, bos_token_id=0, eos_token_id=0))


class Lora(nn.Module):
    def __init__(self):
        super().__init__()
        self.base, self.lora_A, self.lora_B = nn.Linear(C, C), nn.Linear(C, 2, bias=False), nn.Linear(2, C, bias=False)
        nn.init.zeros_(self.lora_B.weight)

    def forward(self, x):
        return self.base(x) + 2 * self.lora_B(self.lora_A(x))


class Attention(nn.Module):
    def __init__(self, **kwargs):
        super().__init__()
        self.attention = nn.MultiheadAttention(C, 2, batch_first=True, **kwargs)

    def forward(self, x):
        return self.attention(x, x, x, need_weights=False)[0]


class Own(nn.Module):
    """A hand-written module: its parameters, and what it computes of them."""

    def __init__(self, compute, **members):
        super().__init__()
        for name, member in members.items():
            setattr(self, name, member if isinstance(member, nn.Module) else nn.Parameter(member))
        self.compute = compute

    def forward(self, x):
        return self.compute(self, x)


class Seedling(nn.Module):
    """One of each layer that begins at zeros or ones, and that the exporter's optimizer merges or cuts."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(12, C * T)           # a product of rows: its bias is dropped
        self.positions = nn.Parameter(torch.zeros(1, T, C))
        self.norm_1, self.norm_2 = nn.LayerNorm(C), nn.LayerNorm(C)
        self.rms = nn.RMSNorm(C)
        self.attention = nn.MultiheadAttention(C, 2, batch_first=True)
        self.conv1d = Conv1D(C, C)
        self.lora = Lora()
        self.scale, self.shift = nn.Parameter(torch.ones(C)), nn.Parameter(torch.zeros(C))
        self.gate = nn.Parameter(torch.zeros(()))   # ReZero's
        self.temperature = nn.Parameter(torch.ones(1))
        self.shared = nn.Linear(C * T, C * T)       # called twice
        self.head = nn.Linear(C * T, 5)
        for linear in (self.inner, self.shared, self.head):
            nn.init.zeros_(linear.bias)

    def forward(self, x):
        h = self.inner(x).unflatten(1, (T, C)) + self.positions
        n = self.norm_1(h)
        h = h + self.attention(n, n, n, need_weights=False)[0]
        h = h + self.lora(self.norm_2(h)) * self.scale + self.shift
        h = h + self.gate * torch.tanh(self.conv1d(self.rms(h)))
        h = h.flatten(1) + self.shared(torch.tanh(self.shared(h.flatten(1))))
        return self.head(h) * self.temperature


class SharedLayers(nn.Module):
    """ALBERT's way: one layer applied three times, heads as wide as the exporter does not merge equal tensors; norms without weights."""

    def __init__(self, width=36, classes=5):
        super().__init__()
        self.inner = nn.Linear(12, 3 * width)
        # without biases: that of the keys cancels in the softmax, and its gradient is rounding alone
        self.query, self.key, self.value = (nn.Linear(width, width, bias=False) for _ in range(3))
        self.dense = nn.Linear(width, width)
        self.scaled, self.norm = nn.LayerNorm(width), nn.LayerNorm(width, elementwise_affine=False)
        self.head = nn.Linear(width, classes)

    def forward(self, x):
        h = self.inner(x).unflatten(1, (3, -1))
        for _ in range(3):
            n = self.norm(h)
            attended = F.scaled_dot_product_attention(self.query(n)[:, None], self.key(n)[:, None], self.value(n)[:, None])[:, 0]
            h = self.scaled(h + self.dense(attended))
        return self.head(h.mean(1))


class SharedTable(nn.Module):
    """T5's way: one table for two sorts of ids and, transposed by hand, for the head."""

    def __init__(self, width=20):
        super().__init__()
        self.shared = nn.Embedding(base.VOCABULARY, width)
        self.up = nn.Linear(width, width)

    def forward(self, input_ids, use_cache=False):
        h = torch.tanh(self.up(self.shared(input_ids))) + self.shared(input_ids.flip(1))
        return SimpleNamespace(logits=(h * 0.25) @ self.shared.weight.t())


def zero_bias(module):
    for name, p in module.named_parameters():
        if "bias" in name:
            nn.init.zeros_(p)
    return module


def moved(module):
    with torch.no_grad():
        for p in module.parameters():
            p.add_(torch.randn(p.shape))
    return module


def cases():
    """NAME: (model, example): each as it begins, where the optimizer can take something away."""
    x, rows, ids, image = torch.randn(2, T, C), torch.randn(4, C), torch.randint(0, 9, (2, T)), torch.randn(2, C, 5, 5)
    z, o, linear = torch.zeros, torch.ones, lambda: nn.Linear(C, C)
    return {
        # torch's layers
        "linear_rows": (nn.Sequential(zero_bias(linear()), zero_bias(linear())), rows),
        "linear": (nn.Sequential(zero_bias(linear()), zero_bias(linear())), x),
        "linear_one": (nn.Sequential(zero_bias(nn.Linear(C, 1)), zero_bias(nn.Linear(1, 1))), rows),
        "linear_one_of_one": (nn.Sequential(zero_bias(nn.Linear(C, 1)), zero_bias(nn.Linear(1, 1))), x),
        "conv1d_of_transformers": (nn.Sequential(Conv1D(6, C), Conv1D(3, 6)), x),
        "layer_norm": (nn.Sequential(nn.LayerNorm(C), nn.LayerNorm(C)), x),
        "layer_norm_zero": (nn.Sequential(Own(lambda m, x: F.layer_norm(x, (C,), m.weight, m.bias), weight=z(C), bias=z(C)), linear()), x),
        "layer_norm_two": (nn.Sequential(nn.LayerNorm([T, C]), linear()), x),
        "rms_norm": (nn.Sequential(nn.RMSNorm(C), linear(), nn.RMSNorm(C)), x),
        "embedding": (nn.Sequential(nn.Embedding(9, C), nn.LayerNorm(C), linear()), ids),
        "attention": (Attention(), x),
        "attention_bias_kv": (Attention(add_bias_kv=True), x),
        "encoder": (nn.TransformerEncoder(nn.TransformerEncoderLayer(C, 2, 6, batch_first=True), 2, enable_nested_tensor=False), x),
        "rnn": (Own(lambda m, x: m.rnn(x)[0], rnn=nn.RNN(C, 3, batch_first=True)), x),
        "bilinear": (Own(lambda m, x: m.pair(x, x), pair=zero_bias(nn.Bilinear(C, C, 3))), rows),
        "batch_norm": (nn.Sequential(linear(), nn.BatchNorm1d(C)), rows),
        "batch_norm_zero": (nn.Sequential(zero_bias(linear()), nn.BatchNorm1d(C)), rows),
        "prelu": (nn.Sequential(linear(), nn.PReLU(), linear()), x),
        "weight_norm": (nn.Sequential(nn.utils.parametrizations.weight_norm(linear()), linear()), x),
        "conv": (zero_bias(nn.Conv2d(C, 3, 3)), image),
        "conv_transposed": (zero_bias(nn.ConvTranspose2d(C, 6, 3, groups=2)), image),
        "conv_batch_norm": (nn.Sequential(zero_bias(nn.Conv2d(C, 3, 3)), nn.BatchNorm2d(3)), image),
        # by hand
        "added": (Own(lambda m, x: m.fc(x + m.b), b=z(C), fc=linear()), x),
        "multiplied": (Own(lambda m, x: m.fc(x * m.g), g=o(C), fc=linear()), x),
        "layer_scale": (Own(lambda m, x: x + m.g * m.fc(x), g=torch.full((C,), 1e-4), fc=linear()), x),
        "number_one": (Own(lambda m, x: m.fc(x) * m.g, g=o(1), fc=linear()), x),
        "scalar_one": (Own(lambda m, x: torch.relu(m.fc(x) * m.g), g=o(()), fc=linear()), x),
        "scalar_one_last": (Own(lambda m, x: m.fc(x) * m.g, g=o(()), fc=linear()), x),
        "scalar_divides": (Own(lambda m, x: torch.relu(m.fc(x) / m.g), g=o(()), fc=linear()), x),
        "scalar_zero": (Own(lambda m, x: torch.relu(m.fc(x) + m.g), g=z(()), fc=linear()), x),
        "rezero": (Own(lambda m, x: x + m.g * m.fc(x), g=z(()), fc=linear()), x),
        "scalar_exp": (Own(lambda m, x: torch.relu(m.fc(x) * m.g.exp()), g=z(()), fc=linear()), x),
        "lora": (Lora(), x),
        "lora_merged": (Own(lambda m, x: F.linear(x, m.weight + m.B @ m.A), weight=torch.randn(C, C), A=torch.randn(2, C), B=z(C, 2)), x),
        "positions": (Own(lambda m, x: m.fc(x + m.pos), pos=z(1, T, C), fc=linear()), x),
        "positions_by_ids": (Own(lambda m, x: m.fc(x + m.pos(torch.arange(T))), pos=nn.Embedding(9, C), fc=linear()), x),
        "linear_by_hand": (Own(lambda m, x: F.linear(x, m.w, m.b), w=torch.randn(3, C), b=z(3)), rows),
        "addmm_by_hand": (Own(lambda m, x: torch.addmm(m.b, x, m.w), w=torch.randn(C, 3), b=z(4, 3)), rows),
        "tied": (Own(lambda m, x: F.linear(m.e(x), m.e.weight, m.b), e=nn.Embedding(9, C), b=z(9)), ids),
        "joined": (Own(lambda m, x: m.fc(F.linear(x, torch.cat([m.a, m.b]))), a=torch.randn(2, C), b=torch.randn(2, C), fc=linear()), x),
        "unused": (Own(lambda m, x: m.fc(x), u=torch.randn(C), fc=linear()), x),
        # what tracing lifts
        "lifted": (Own(lambda m, x: m.fc(x * torch.tensor([1.0, 2.0, 3.0, 4.0])), fc=linear()), x),
        "lifted_attribute": (with_table(linear(), "table", torch.tensor([1.0, 2.0, 3.0, 4.0]), lambda m, x: m.fc(x * m.table)), x),
        "complex_table": (with_table(linear(), "freqs_cis", torch.polar(o(T, 2), torch.arange(2.0 * T).reshape(T, 2)), rotated), x),
        # what is evaluated
        "positions_cut": (Own(lambda m, x: m.fc(x + m.pos[:, :T]), pos=z(1, 9, C), fc=linear()), x),
        "class_token": (Own(lambda m, x: m.fc(torch.cat([m.token.expand(2, -1, -1), x], 1)), token=z(1, 1, C), fc=linear()), x),
        "one_plus": (Own(lambda m, x: m.fc(x * (1 + m.w)), w=z(C), fc=linear()), x),
        "buffer_minus_one": (with_buffer(linear(), torch.tensor([3.0, 5.0, 7.0, 9.0]), lambda m, x: m.fc(x) * (m.table - 1)), x),
        "buffer_multiplied": (with_buffer(linear(), torch.randn(C, C), lambda m, x: m.fc(x) @ (m.table - 1)), x),
        "buffer_transposed": (with_buffer(linear(), torch.randn(C, C), lambda m, x: m.fc(x) @ m.table.T), x),
        "ones": (Own(lambda m, x: m.fc(x) + (torch.tril(o(40, 40)) * m.fc(x).sum()).sum(), fc=linear()), x),
        "scaled_table": (Own(lambda m, x: m.e(x) @ (m.e.weight * 0.5).T, e=nn.Embedding(9, C)), ids),
        "tied_by_hand": (Own(lambda m, x: m.e(x) @ m.e.weight.T, e=nn.Embedding(9, C)), ids),
        "clamped_twice": (Own(lambda m, x: m.fc(x).clamp(min=m.low).clamp(max=m.high), fc=linear(), low=torch.tensor([-0.2, 0.1, 0.0, -0.1]),
                              high=torch.tensor([0.3, 0.1, 0.2, -0.2])), x),
        "transposed_by_hand": (nn.Sequential(Own(lambda m, x: x @ m.weight.T, weight=torch.randn(3, C)), nn.Linear(3, C)), x),
        # norms of groups, which are written out: as they begin, with numbers of their own, without weights, called twice; one group
        "group_norm": (nn.Sequential(nn.Conv2d(C, 4, 3), nn.GroupNorm(2, 4), nn.Conv2d(4, 4, 1), nn.GroupNorm(2, 4)), image),
        "group_norm_moved": (nn.Sequential(nn.Conv2d(C, 6, 3), moved(nn.GroupNorm(3, 6)), nn.Conv2d(6, 6, 1), moved(nn.GroupNorm(3, 6))), image),
        "group_norm_plain": (nn.Sequential(nn.Conv2d(C, 4, 3), nn.GroupNorm(2, 4, affine=False)), image),
        "group_norm_twice": (Own(lambda m, x: m.norm(m.conv(m.norm(x))), norm=moved(nn.GroupNorm(2, C)), conv=nn.Conv2d(C, C, 1)), image),
        "group_norm_one": (nn.Sequential(nn.Conv2d(C, 4, 3), moved(nn.GroupNorm(1, 4))), image),
        "group_norm_rows": (nn.Sequential(linear(), moved(nn.GroupNorm(2, C))), rows),
        # slopes, of channels and one
        "prelu_channels": (nn.Sequential(nn.Conv2d(C, 4, 3), nn.PReLU(4), nn.Conv2d(4, 4, 1), nn.PReLU(4)), image),
        "prelu_one": (nn.Sequential(nn.Conv2d(C, 4, 3), nn.PReLU(), nn.Conv2d(4, 4, 1), nn.PReLU()), image),
    }


def with_table(fc, name, table, compute):
    model = Own(compute, fc=fc)
    object.__setattr__(model, name, table)
    return model


def with_buffer(fc, table, compute):
    model = Own(compute, fc=fc)
    model.register_buffer("table", table)
    return model


def rotated(model, x):
    turned = torch.view_as_complex(model.fc(x).reshape(2, T, 2, 2)) * model.freqs_cis
    return torch.view_as_real(turned).flatten(2)


def export(model, args, path, names, optimize=True, dynamic=None):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(model.eval(), args, path, input_names=names, output_names=["logits"], dynamo=True, optimize=optimize,
                          dynamic_shapes=dynamic, external_data=False, verbose=False)
    model = onnx.load(path)
    for node in model.graph.node:
        keep_of_node(node)
    keep_of_graph(model.graph, [SIGNATURE])
    del model.graph.value_info[:]
    del model.metadata_props[:]
    model.producer_version = ""
    onnx.save(model, path)


def make_trained(out, name, build, language):
    folder = f"{out}/{name}"
    os.makedirs(folder, exist_ok=True)
    torch.manual_seed(0)
    model = build().eval()
    batch = batches(language)
    losses, norms, grads, after = train(model, batch, language, torch.float32, OPTIMIZER)
    losses64, norms64, _, _ = train(model, batch, language, torch.float64, OPTIMIZER)
    params, tied = named(model)
    save_tensors(folder, params=params, grads=grads, params_after=after, batch=batch)
    save_reference(folder, {"name": name, "torch": torch.__version__.split("+")[0], "prefix": "model.", "steps": base.STEPS,
               "inputs": ["input_ids"] if language else ["x"], "loss_kind": "cross_entropy", "ignore_index": -100,
               "optimizer": OPTIMIZER, "tied": tied, "frozen": [], "buffers_updated": [], "noise_tensors": {},
               "parameters": {n: list(p.shape) for n, p in params.items()}, "loss": losses, "grad_norm": norms, "loss64": losses64,
               "grad_norm64": norms64})
    # A static length would have the positions evaluated.
    dynamic = ({0: torch.export.Dim("batch"), 1: torch.export.Dim("seq", max=16)},) if language else None
    wrapped = (LanguageLogits if language else Logits)(model)
    example = (batch["input_ids_0" if language else "x_0"],)
    export(wrapped, example, f"{folder}/fresh.logits.onnx", ["input_ids" if language else "x"], dynamic=dynamic)


class Smoothed(nn.Module):
    def __init__(self, **options):
        super().__init__()
        self.options = options

    def forward(self, x, labels):
        return F.cross_entropy(x, labels, **self.options)


def make_smoothed(out):
    folder = f"{out}/smoothed"
    os.makedirs(folder, exist_ok=True)
    torch.manual_seed(0)
    x, labels = 2 * torch.randn(6, 5), torch.tensor([0, 2, 4, 2, 1, 3])
    table = {"x": x.flatten().tolist(), "labels": labels.tolist(), "loss": {}}
    for name, options in {"mean": {}, "sum": {"reduction": "sum"}, "ignored": {"ignore_index": 2}, "weighted": {"weight": torch.rand(5)},
                          "rows": {"reduction": "none"}}.items():
        model = Smoothed(label_smoothing=0.1, **options)
        export(model, (x, labels), f"{folder}/{name}.onnx", ["x", "labels"])
        if name in ("mean", "sum", "ignored"):
            table["loss"][name] = model(x.double(), labels).item()
    json.dump(table, open(f"{folder}/cases.json", "w"), indent=1)


def make_cases(out, only):
    folder = f"{out}/restored"
    os.makedirs(folder, exist_ok=True)
    torch.manual_seed(0)
    table = {}
    for name, (model, example) in cases().items():
        for suffix, optimize in (("", True), (".noopt", False)):
            if only and name not in only:
                continue
            export(model, (example,), f"{folder}/{name}{suffix}.onnx", ["x"], optimize)
        table[name] = {n: list(p.shape) for n, p in model.named_parameters()}
    json.dump(table, open(f"{folder}/cases.json", "w"), indent=1)


def main():
    a = arguments(__doc__, torch, transformers, cases="the graphs of restored to write; all")
    if a.wants("fresh_gpt2"):
        make_trained(a.out, "fresh_gpt2", fresh_gpt2, True)
    if a.wants("seedling"):
        make_trained(a.out, "seedling", Seedling, False)
    if a.wants("shared_layers"):
        make_trained(a.out, "shared_layers", SharedLayers, False)
    if a.wants("shared_table"):
        make_trained(a.out, "shared_table", SharedTable, True)
    if a.wants("smoothed"):
        make_smoothed(a.out)
    if a.wants("restored"):
        make_cases(a.out, [c for c in a.cases.split(",") if c])


if __name__ == "__main__":
    main()
