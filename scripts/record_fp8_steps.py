#!/usr/bin/env python
# SPDX-License-Identifier: Apache-2.0
"""Records what the recipes of FP8 do in a whole training run: tests/fixtures/fp8/{steps,recipes}.json. Needs torch 2.13.0.

  python scripts/record_fp8_steps.py [--out tests/fixtures/fp8]

A Llama is written down plainly, with parameters and batches of tests/fixtures/autocast (seed_0, feed_0): tensors in bf16,
rounded where a program stores them, all else in f32. Products of its blocks take Transformer Engine's DelayedScaling, HYBRID:
each tensor is multiplied by its scale, rounded by torch's own types of eight bits, multiplied in f32, and divided by both scales.
A layer whose input is 24 wide stays in bf16, as it does in a program. Queries, keys and values are one product, and so one
weight; gate and up as well. There are the losses of ten steps, and of the same in bf16; for each tensor that is quantised its
amax in each step, and the scale that it has behind the last one.

The other recipes have no states. recipes.json has losses of a Llama of two layers, 32 and 160 wide, so that blocks of 128 end within
a row, by current scaling, in blocks of 128 and in those of MX, each written down by its definition; wide/ has its graph, the
parameters that it begins with, and the batches.
"""
import argparse, collections, json, math, os

import torch
from safetensors.torch import load_file, save_file
from transformers import LlamaConfig, LlamaForCausalLM

from make_fixtures import LanguageLogits, export

BF16, F32 = torch.bfloat16, torch.float32
STEPS, LAYERS, EPS, THETA, VOCABULARY = 10, 2, 1e-5, 10000.0, 48
Shape = collections.namedtuple("Shape", "heads kv_heads size")
NARROW, WIDE = Shape(4, 2, 4), Shape(4, 2, 8)
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


def whole(x, dtype, along=None, square=False):
    """What x becomes by a scale of its own."""
    most, amax = torch.finfo(dtype).max, x.abs().max()
    scale = torch.tensor(most) / amax
    return (x * scale).clamp(-most, most).to(dtype).float() * (1 / scale)


def in_blocks(block, scale_of):
    """What a matrix becomes, of whose elements `block` have one scale, along its rows (1) or columns (0), or square."""
    def quantise(x, dtype, along, square=False):
        out = torch.empty_like(x)
        high, wide = (block, block) if square else (1, block) if along == 1 else (block, 1)
        for i in range(0, x.shape[0], high):
            for j in range(0, x.shape[1], wide):
                part = x[i:i + high, j:j + wide]
                scale = scale_of(part.abs().max())
                out[i:i + high, j:j + wide] = (part / scale).clamp(-448, 448).to(torch.float8_e4m3fn).float() * scale
        return out
    return quantise


def power_below(amax):
    """By 448 / amax, cut to a power of two, x is multiplied."""
    return 2.0 ** -(math.frexp((torch.tensor(448.0) / amax).item())[1] - 1)


def power_above(amax):
    """The least power of two that is not below amax / 448."""
    part, exponent = math.frexp((amax * (torch.tensor(1.0) / 448)).item())
    return 2.0 ** (exponent - 1 if part == 0.5 else exponent)


blockwise, mx = in_blocks(128, power_below), in_blocks(32, power_above)
# How a matrix is quantised, of which type gradients are, and whether weights are cut into squares.
RECIPES = {"current": (whole, torch.float8_e5m2, False), "blockwise": (blockwise, torch.float8_e4m3fn, True),
           "mxfp8": (mx, torch.float8_e4m3fn, False)}


class RecipeProduct(torch.autograd.Function):
    """Each factor of a product is quantised along what is summed over."""

    @staticmethod
    def forward(ctx, x, w, recipe):
        ctx.save_for_backward(x, w)
        ctx.recipe = recipe
        quantise, _, squares = RECIPES[recipe]
        rows, e4m3 = x.float().flatten(0, -2), torch.float8_e4m3fn
        y = quantise(rows, e4m3, 1) @ quantise(w, e4m3, 1, squares).T
        return y.unflatten(0, x.shape[:-1]).to(BF16)

    @staticmethod
    def backward(ctx, dy):
        x, w = ctx.saved_tensors
        quantise, of_gradient, squares = RECIPES[ctx.recipe]
        x_rows, dy_rows, e4m3 = x.float().flatten(0, -2), dy.float().flatten(0, -2), torch.float8_e4m3fn
        dx = quantise(dy_rows, of_gradient, 1) @ quantise(w, e4m3, 0, squares)
        dw = quantise(dy_rows, of_gradient, 0).T @ quantise(x_rows, e4m3, 0)
        return dx.unflatten(0, x.shape[:-1]).to(BF16), dw, None


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


def loss_of(p, ids, labels, product, shape):
    def linear(x, names, module):
        return product(x, torch.cat([p[n + ".weight"] for n in names]), module)

    heads, kv_heads, size = shape
    b, t = ids.shape
    x = p["model.embed_tokens.weight"].to(BF16)[ids]
    angles = torch.arange(t, dtype=F32)[:, None] * THETA ** (-torch.arange(0, size, 2, dtype=F32) / size)
    cos, sin = torch.cat([angles, angles], -1).cos(), torch.cat([angles, angles], -1).sin()
    for layer in range(LAYERS):
        at = f"model.layers.{layer}."
        h = norm(x, p[at + "input_layernorm.weight"])
        qkv = linear(h, [at + f"self_attn.{k}_proj" for k in "qkv"], at + "self_attn.qkv_proj")
        q, k, v = qkv.split([heads * size, kv_heads * size, kv_heads * size], -1)
        q, k, v = (z.view(b, t, -1, size).transpose(1, 2) for z in (q, k, v))
        q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        k, v = (z.repeat_interleave(heads // kv_heads, 1) for z in (k, v))
        scores = q.float() @ k.float().transpose(-1, -2) / size ** 0.5
        scores = scores.masked_fill(torch.ones(t, t).triu(1).bool(), float("-inf"))
        a = (scores.softmax(-1) @ v.float()).to(BF16).transpose(1, 2).reshape(b, t, -1)
        x = x + linear(a, [at + "self_attn.o_proj"], at + "self_attn.o_proj")
        h = norm(x, p[at + "post_attention_layernorm.weight"])
        gate, up = linear(h, [at + "mlp.gate_proj", at + "mlp.up_proj"], at + "mlp.gate_up_proj").chunk(2, -1)
        h = (torch.nn.functional.silu(gate.float()) * up.float()).to(BF16)
        x = x + linear(h, [at + "mlp.down_proj"], at + "mlp.down_proj")
    logits = Bf16Product.apply(norm(x, p["model.norm.weight"]), p["lm_head.weight"]).float()
    return torch.nn.functional.cross_entropy(logits.flatten(0, -2), labels.flatten())


def train(recipe, state, feed, shape):
    p = {name: value.float().clone().requires_grad_() for name, value in state.items()}
    optimizer = torch.optim.AdamW(p.values(), **OPTIMIZER)
    scalings, losses = {}, []

    def product(x, w, module):
        if recipe is None or w.shape[1] % 16 != 0:
            return Bf16Product.apply(x, w)
        if recipe != "delayed":
            return RecipeProduct.apply(x, w.to(BF16).float(), recipe)
        for role, dtype in TYPES.items():
            scalings.setdefault(f"{module}.{role}", Scaling(dtype))
        return Product.apply(x, w.to(BF16).float(), {role: scalings[f"{module}.{role}"] for role in TYPES})

    for step in range(STEPS):
        optimizer.zero_grad()
        loss = loss_of(p, feed[f"input_ids_{step}"], feed[f"labels_{step}"], product, shape)
        loss.backward()
        optimizer.step()
        for scaling in scalings.values():
            scaling.update()
        losses.append(loss.item())
    return losses, scalings


def write(path, record):
    with open(path, "w") as f:
        json.dump({"torch": "2.13.0", **record}, f, indent=1)
        f.write("\n")


def make_wide(folder):
    """The graph, with what it begins with; its batches."""
    os.makedirs(folder, exist_ok=True)
    torch.manual_seed(0)
    model = LlamaForCausalLM(LlamaConfig(
        vocab_size=VOCABULARY, hidden_size=32, intermediate_size=160, num_hidden_layers=LAYERS, num_attention_heads=WIDE.heads,
        num_key_value_heads=WIDE.kv_heads, max_position_embeddings=16, rms_norm_eps=EPS, rope_theta=THETA, initializer_range=0.2))
    tokens = torch.randint(0, VOCABULARY, (STEPS, 4, 17), generator=torch.Generator().manual_seed(1))
    feed = {}
    for step, t in enumerate(tokens):
        feed[f"input_ids_{step}"], feed[f"labels_{step}"] = t[:, :-1].contiguous(), t[:, 1:].contiguous()
    save_file(feed, f"{folder}/feed.safetensors")
    export(LanguageLogits(model), (feed["input_ids_0"],), ["input_ids"], "logits", f"{folder}/dynamo.logits.onnx")
    write(f"{folder}/reference.json", {})
    return model.state_dict(), feed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", default="tests/fixtures/fp8")
    out = parser.parse_args().out
    assert torch.__version__.split("+")[0] == "2.13.0", f"torch 2.13.0 is needed, this is {torch.__version__}"
    torch.set_num_threads(1)
    state, feed = load_file("tests/fixtures/autocast/seed_0.safetensors"), load_file("tests/fixtures/autocast/feed_0.safetensors")
    losses, scalings = train("delayed", state, feed, NARROW)
    write(f"{out}/steps.json", {"losses": losses, "bf16": train(None, state, feed, NARROW)[0], "tensors": {
        name: {"amaxes": s.history, "scale": s.scale.item()} for name, s in sorted(scalings.items())}})
    state, feed = make_wide(f"{out}/wide")
    write(f"{out}/recipes.json", {name or "bf16": train(name, state, feed, WIDE)[0] for name in (None, "delayed", *RECIPES)})


if __name__ == "__main__":
    main()
