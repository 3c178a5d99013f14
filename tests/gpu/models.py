# SPDX-License-Identifier: Apache-2.0
"""The models that tests/gpu measures, in plain PyTorch: exported for thunderc (export.py) and trained by PyTorch (peer.py)."""
import torch
import torch.nn.functional as F
from torch import nn

# Each with the batch that is measured: sequences, positions. `lean`: parameters, gradients and the optimizer's states are bf16
# alone; else masters, gradients and states are f32, and products are bf16.
MODELS = {
    "llama2-7b": dict(kind="llama", width=4096, layers=32, heads=32, kv_heads=32, inner=11008, vocabulary=32000, batch=1,
                      positions=4096, lean=True),
    "llama-1b": dict(kind="llama", width=2048, layers=22, heads=32, kv_heads=4, inner=5632, vocabulary=32000, batch=2,
                     positions=2048, lean=False),
    "gpt2-124m": dict(kind="gpt2", width=768, layers=12, heads=12, vocabulary=50304, batch=16, positions=1024, lean=False),
    # of docs/sharding.md: 256 GPUs
    "llama3-70b": dict(kind="llama", width=8192, layers=80, heads=64, kv_heads=8, inner=28672, vocabulary=128256, batch=1,
                       positions=2048, lean=False),
    # for dry runs
    "tiny-llama": dict(kind="llama", width=64, layers=2, heads=4, kv_heads=2, inner=172, vocabulary=256, batch=2, positions=32,
                       lean=False),
    "tiny-gpt2": dict(kind="gpt2", width=64, layers=2, heads=4, vocabulary=256, batch=2, positions=32, lean=False),
}


def causal_attention(q, k, v, **options):
    if not torch.compiler.is_exporting():
        return F.scaled_dot_product_attention(q, k, v, is_causal=True, **options)
    # A graph gets the mask as a comparison of positions, as transformers writes it: no (T, T) numbers are folded into it.
    at = torch.arange(q.shape[-2], device=q.device)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=at[None, :] <= at[:, None], **options)


class RMSNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        wide = x.float()
        return self.weight * (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-5)).to(x.dtype)


def rotated(x, cos, sin):
    half = x.shape[-1] // 2
    return x * cos + torch.cat((-x[..., half:], x[..., :half]), -1) * sin


class LlamaAttention(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.heads, self.kv_heads, self.size = c["heads"], c["kv_heads"], c["width"] // c["heads"]
        self.q_proj = nn.Linear(c["width"], c["width"], bias=False)
        self.k_proj = nn.Linear(c["width"], self.kv_heads * self.size, bias=False)
        self.v_proj = nn.Linear(c["width"], self.kv_heads * self.size, bias=False)
        self.o_proj = nn.Linear(c["width"], c["width"], bias=False)

    def forward(self, x, cos, sin):
        batch, positions, _ = x.shape
        q = self.q_proj(x).view(batch, positions, self.heads, self.size).transpose(1, 2)
        k = self.k_proj(x).view(batch, positions, self.kv_heads, self.size).transpose(1, 2)
        v = self.v_proj(x).view(batch, positions, self.kv_heads, self.size).transpose(1, 2)
        y = causal_attention(rotated(q, cos, sin), rotated(k, cos, sin), v, enable_gqa=self.heads != self.kv_heads)
        return self.o_proj(y.transpose(1, 2).reshape(batch, positions, -1))


class LlamaMLP(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.gate_proj = nn.Linear(c["width"], c["inner"], bias=False)
        self.up_proj = nn.Linear(c["width"], c["inner"], bias=False)
        self.down_proj = nn.Linear(c["inner"], c["width"], bias=False)

    def forward(self, x):
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class LlamaLayer(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.input_layernorm, self.self_attn = RMSNorm(c["width"]), LlamaAttention(c)
        self.post_attention_layernorm, self.mlp = RMSNorm(c["width"]), LlamaMLP(c)

    def forward(self, x, cos, sin):
        x = x + self.self_attn(self.input_layernorm(x), cos, sin)
        return x + self.mlp(self.post_attention_layernorm(x))


class Llama(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.embed_tokens = nn.Embedding(c["vocabulary"], c["width"])
        self.layers = nn.ModuleList(LlamaLayer(c) for _ in range(c["layers"]))
        self.norm = RMSNorm(c["width"])
        self.lm_head = nn.Linear(c["width"], c["vocabulary"], bias=False)
        size = c["width"] // c["heads"]
        self.angles = (c["positions"], size)

    def forward(self, input_ids):
        positions, size = self.angles
        x = self.embed_tokens(input_ids)
        rates = 10000.0 ** (-torch.arange(0, size, 2, dtype=torch.float32, device=input_ids.device) / size)
        angles = torch.arange(positions, dtype=torch.float32, device=input_ids.device)[:, None] * rates
        angles = torch.cat((angles, angles), -1)
        cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        for layer in self.layers:
            x = self.run(layer, x, cos, sin)
        return self.lm_head(self.norm(x))

    @staticmethod
    def run(layer, *given):
        return layer(*given)


class GPT2Block(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.heads, width = c["heads"], c["width"]
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.c_attn, self.c_proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.c_fc, self.c_out = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        batch, positions, width = x.shape
        q, k, v = (part.view(batch, positions, self.heads, -1).transpose(1, 2)
                   for part in self.c_attn(self.ln_1(x)).split(width, -1))
        y = causal_attention(q, k, v)
        x = x + self.c_proj(y.transpose(1, 2).reshape(batch, positions, width))
        return x + self.c_out(F.gelu(self.c_fc(self.ln_2(x)), approximate="tanh"))


class GPT2(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(c["vocabulary"], c["width"]), nn.Embedding(c["positions"], c["width"])
        self.h = nn.ModuleList(GPT2Block(c) for _ in range(c["layers"]))
        self.ln_f = nn.LayerNorm(c["width"])

    def forward(self, input_ids):
        x = self.wte(input_ids) + self.wpe(torch.arange(input_ids.shape[1], device=input_ids.device))
        for block in self.h:
            x = self.run(block, x)
        return F.linear(self.ln_f(x), self.wte.weight)

    @staticmethod
    def run(layer, *given):
        return layer(*given)


def make(name):
    """The module, on torch's current default device, and its entry of MODELS."""
    c = MODELS[name]
    return {"llama": Llama, "gpt2": GPT2}[c["kind"]](c), c
