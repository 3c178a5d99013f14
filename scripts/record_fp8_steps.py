#!/usr/bin/env python
# SPDX-License-Identifier: Apache-2.0
"""Records what delayed scaling does in a whole training run: tests/fixtures/fp8/steps.json. Needs torch 2.13.0.

  python scripts/record_fp8_steps.py [--out tests/fixtures/fp8/steps.json]

A Llama is written down plainly, with parameters and batches of tests/fixtures/autocast (seed_0, feed_0): tensors in bf16,
rounded where a program stores them, all else in f32. Products of its blocks take Transformer Engine's DelayedScaling, HYBRID:
each tensor is multiplied by its scale, rounded by torch's own types of eight bits, multiplied in f32, and divided by both scales.
A layer whose input is 24 wide stays in bf16, as it does in a program. Queries, keys and values are one product, and so one
weight; gate and up as well. There are the losses of ten steps, and of the same in bf16; for each tensor that is quantised its
amax in each step, and the scale that it has behind the last one.
"""
import argparse, json

import torch
from safetensors.torch import load_file

BF16, F32 = torch.bfloat16, torch.float32
STEPS, LAYERS, HEADS, KV_HEADS, SIZE, EPS, THETA = 10, 2, 4, 2, 4, 1e-5, 10000.0
OPTIMIZER = {"lr": 1e-3, "betas": (0.9, 0.95), "eps": 1e-8, "weight_decay": 0.1}
TYPES = {"input": torch.float8_e4m3fn, "weight": torch.float8_e4m3fn, "gradient": torch.float8_e5m2}


class Scaling:
    """Of one tensor: the scale by which it is quantised, and the amaxes so far."""

    def __init__(self, dtype):
        self.dtype, self.scale, self.history, self.now = dtype, torch.tensor(1.0), [], None

    def quantise(self, x):
        self.now = x.detach().float().abs().max()
        most = torch.finfo(self.dtype).max
        return (x.detach().float() * self.scale).clamp(-most, most).to(self.dtype).float()

    def update(self):
        self.history.append(self.now.item())
        self.scale = torch.tensor(torch.finfo(self.dtype).max) / torch.tensor(max(self.history))


class Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w, of):
        xq, wq = of["input"].quantise(x), of["weight"].quantise(w)
        ctx.save_for_backward(xq, wq)
        ctx.of, ctx.inverses = of, (1 / of["input"].scale, 1 / of["weight"].scale)
        return (xq @ wq.T * (ctx.inverses[0] * ctx.inverses[1])).to(BF16)

    @staticmethod
    def backward(ctx, dy):
        xq, wq = ctx.saved_tensors
        gradient = ctx.of["gradient"]
        dyq, inverse = gradient.quantise(dy), 1 / gradient.scale
        dw = dyq.flatten(0, -2).T @ xq.flatten(0, -2) * (inverse * ctx.inverses[0])
        return (dyq @ wq * (inverse * ctx.inverses[1])).to(BF16), dw, None


class Bf16Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return (x.float() @ w.to(BF16).float().T).to(BF16)

    @staticmethod
    def backward(ctx, dy):
        x, w = ctx.saved_tensors
        return (dy.float() @ w.to(BF16).float()).to(BF16), dy.float().flatten(0, -2).T @ x.float().flatten(0, -2)


def norm(x, w):
    wide = x.float()
    return (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + EPS) * w).to(BF16)


def rotate(x, cos, sin):
    wide = x.float()
    first, second = wide.chunk(2, -1)
    return (wide * cos + torch.cat([-second, first], -1) * sin).to(BF16)


def loss_of(p, ids, labels, product):
    def linear(x, names, module):
        return product(x, torch.cat([p[n + ".weight"] for n in names]), module)

    b, t = ids.shape
    x = p["model.embed_tokens.weight"].to(BF16)[ids]
    angles = torch.arange(t, dtype=F32)[:, None] * THETA ** (-torch.arange(0, SIZE, 2, dtype=F32) / SIZE)
    cos, sin = torch.cat([angles, angles], -1).cos(), torch.cat([angles, angles], -1).sin()
    for layer in range(LAYERS):
        at = f"model.layers.{layer}."
        h = norm(x, p[at + "input_layernorm.weight"])
        qkv = linear(h, [at + f"self_attn.{k}_proj" for k in "qkv"], at + "self_attn.qkv_proj")
        q, k, v = qkv.split([HEADS * SIZE, KV_HEADS * SIZE, KV_HEADS * SIZE], -1)
        q, k, v = (z.view(b, t, -1, SIZE).transpose(1, 2) for z in (q, k, v))
        q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        k, v = (z.repeat_interleave(HEADS // KV_HEADS, 1) for z in (k, v))
        scores = q.float() @ k.float().transpose(-1, -2) / SIZE ** 0.5
        scores = scores.masked_fill(torch.ones(t, t).triu(1).bool(), float("-inf"))
        a = (scores.softmax(-1) @ v.float()).to(BF16).transpose(1, 2).reshape(b, t, -1)
        x = x + linear(a, [at + "self_attn.o_proj"], at + "self_attn.o_proj")
        h = norm(x, p[at + "post_attention_layernorm.weight"])
        gate, up = linear(h, [at + "mlp.gate_proj", at + "mlp.up_proj"], at + "mlp.gate_up_proj").chunk(2, -1)
        h = (torch.nn.functional.silu(gate.float()) * up.float()).to(BF16)
        x = x + Bf16Product.apply(h, p[at + "mlp.down_proj.weight"])
    logits = Bf16Product.apply(norm(x, p["model.norm.weight"]), p["lm_head.weight"]).float()
    return torch.nn.functional.cross_entropy(logits.flatten(0, -2), labels.flatten())


def train(quantised):
    state, feed = load_file("tests/fixtures/autocast/seed_0.safetensors"), load_file("tests/fixtures/autocast/feed_0.safetensors")
    p = {name: value.float().requires_grad_() for name, value in state.items()}
    optimizer = torch.optim.AdamW(p.values(), **OPTIMIZER)
    scalings, losses = {}, []

    def product(x, w, module):
        if not quantised:
            return Bf16Product.apply(x, w)
        for role, dtype in TYPES.items():
            scalings.setdefault(f"{module}.{role}", Scaling(dtype))
        return Product.apply(x, w.to(BF16).float(), {role: scalings[f"{module}.{role}"] for role in TYPES})

    for step in range(STEPS):
        optimizer.zero_grad()
        loss = loss_of(p, feed[f"input_ids_{step}"], feed[f"labels_{step}"], product)
        loss.backward()
        optimizer.step()
        for scaling in scalings.values():
            scaling.update()
        losses.append(loss.item())
    return losses, scalings


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", default="tests/fixtures/fp8/steps.json")
    out = parser.parse_args().out
    assert torch.__version__.split("+")[0] == "2.13.0", f"torch 2.13.0 is needed, this is {torch.__version__}"
    torch.set_num_threads(1)
    losses, scalings = train(True)
    record = {"torch": "2.13.0", "losses": losses, "bf16": train(False)[0],
              "tensors": {name: {"amaxes": s.history, "scale": s.scale.item()} for name, s in sorted(scalings.items())}}
    with open(out, "w") as f:
        json.dump(record, f, indent=1)
        f.write("\n")


if __name__ == "__main__":
    main()
