#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The models of docs/performance.md: exported for thunderc, and their training step as PyTorch runs it.

  benchmarks/pytorch.py export NAME DIR              DIR/model.onnx, its weights, and DIR/feed.safetensors with the batch
  benchmarks/pytorch.py step NAME [--compile]        the step in milliseconds, and the process's peak memory
  benchmarks/pytorch.py bound NAME                   the step's matrix products alone, each timed on its own

  --threads N (default 2), --steps N (default 20; the first two are left out, the others' median counts)
moe is a block of eight experts of which each of 1024 tokens takes two, as transformers has Mixtral's: PyTorch loops over
the experts, thunderc gets its batched_mm form; moe-dense computes all experts for all tokens.

  --bf16             the step under torch.autocast, as thunderc train --dtype bf16 has it: f32 parameters, products in bf16
  --dropout P        of a Llama: behind the embedding, of attention's probabilities, and of what each layer adds

f32 unless --bf16 is given, AdamW without decay and clipping, one seeded batch for every step. Needs the packages of samples/llama_small/export.py and
safetensors; --compile needs g++ too.
"""
import argparse
import os
import resource
import statistics
import time

SHAPES = {  # width, layers, heads, width inside the MLP, vocabulary, tied head; sequences, positions
    "llama-tiny": (64, 2, (4, 2), 172, 256, False, 4, 64),
    "llama-15m": (288, 6, (6, 6), 768, 32000, True, 4, 256),
    "llama-110m": (768, 12, (12, 12), 2048, 32000, True, 2, 256),
}

IMAGES = {"resnet18": 16, "vit-small": 16, "convnext-tiny": 8}  # how many, of (3, 64, 64), with one of 1000 classes each

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("what", choices=["export", "step", "bound"])
parser.add_argument("name", choices=[*SHAPES, *IMAGES, "lstm-512", "mlp", "moe", "moe-dense"])
parser.add_argument("folder", nargs="?")
parser.add_argument("--compile", action="store_true")
parser.add_argument("--steps", type=int, default=20)
parser.add_argument("--threads", type=int, default=2)
parser.add_argument("--bf16", action="store_true")
parser.add_argument("--dropout", type=float, default=0.0)
args = parser.parse_args()
if (args.what == "export") != (args.folder is not None):
    parser.error("export takes a folder, the others take none")
os.environ["OMP_NUM_THREADS"] = os.environ["MKL_NUM_THREADS"] = str(args.threads)

import torch  # noqa: E402  (its threads are set before)


class Logits(torch.nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, input_ids):
        return self.model(input_ids, use_cache=False).logits


class ImageLogits(torch.nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, pixel_values):
        return self.model(pixel_values).logits


class Sequence(torch.nn.Module):
    """An LSTM over 64 positions, with a score for each of 256 classes at each."""

    def __init__(self):
        super().__init__()
        self.lstm = torch.nn.LSTM(512, 512, batch_first=True)
        self.head = torch.nn.Linear(512, 256)

    def forward(self, x):
        return self.head(self.lstm(x)[0])


class Experts(torch.nn.Module):
    """Two layers of Mixtral's experts over 1024 tokens of width 256, with a score for each of 256 classes."""

    def __init__(self, dense):
        super().__init__()
        from transformers.models.mixtral.modeling_mixtral import MixtralConfig, MixtralSparseMoeBlock
        config = MixtralConfig(hidden_size=256, intermediate_size=512, num_local_experts=8, num_experts_per_tok=2)
        config._experts_implementation = "batched_mm" if args.what == "export" else "eager"
        self.dense = dense
        self.layers = torch.nn.ModuleList(MixtralSparseMoeBlock(config) for _ in range(2))
        self.head = torch.nn.Linear(256, 256)
        for p in self.parameters():
            torch.nn.init.normal_(p, std=0.05)

    def forward(self, x):
        for layer in self.layers:
            x = x + (self.all_experts(layer, x) if self.dense else layer(x))
        return self.head(x)

    @staticmethod
    def all_experts(layer, x):
        tokens = x.reshape(-1, 256)
        _, weights, chosen = layer.gate(tokens)
        share = torch.zeros(tokens.shape[0], 8).scatter(1, chosen, weights)
        gate, up = torch.einsum("td,ehd->teh", tokens, layer.experts.gate_up_proj).chunk(2, dim=-1)
        y = torch.einsum("teh,edh->ted", torch.nn.functional.silu(gate) * up, layer.experts.down_proj)
        return (y * share.unsqueeze(-1)).sum(1).reshape(x.shape)


def image_model(t):
    if args.name == "resnet18":
        return t.ResNetForImageClassification(t.ResNetConfig(
            embedding_size=64, hidden_sizes=[64, 128, 256, 512], depths=[2, 2, 2, 2], layer_type="basic", num_labels=1000))
    if args.name == "vit-small":
        return t.ViTForImageClassification(t.ViTConfig(
            hidden_size=384, num_hidden_layers=12, num_attention_heads=6, intermediate_size=1536, image_size=64, patch_size=8,
            hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, num_labels=1000))
    return t.ConvNextForImageClassification(t.ConvNextConfig(image_size=64, num_labels=1000))


def make():
    """The model in training mode, its input, its labels, and the input's name."""
    torch.manual_seed(0)
    if args.name == "mlp":
        sizes = (784, 512, 512, 10)
        layers = [m for a, b in zip(sizes, sizes[1:]) for m in (torch.nn.Linear(a, b), torch.nn.ReLU())][:-1]
        return torch.nn.Sequential(*layers), torch.randn(128, 784), torch.randint(10, (128,)), "x"
    if args.name == "lstm-512":
        return Sequence().train(), torch.randn(16, 64, 512), torch.randint(256, (16, 64)), "x"
    if args.name in ("moe", "moe-dense"):
        return Experts(args.name == "moe-dense").train(), torch.randn(4, 256, 256), torch.randint(256, (4, 256)), "x"
    import transformers
    if args.name in IMAGES:
        batch = IMAGES[args.name]
        return (ImageLogits(image_model(transformers)).train(), torch.randn(batch, 3, 64, 64),
                torch.randint(1000, (batch,)), "pixel_values")
    width, layers, (heads, kv_heads), inner, vocabulary, tied, batch, positions = SHAPES[args.name]
    config = transformers.LlamaConfig(
        vocab_size=vocabulary, hidden_size=width, intermediate_size=inner, num_hidden_layers=layers,
        num_attention_heads=heads, num_key_value_heads=kv_heads, max_position_embeddings=1024, tie_word_embeddings=tied,
        attention_dropout=args.dropout, attn_implementation="sdpa")
    model = transformers.LlamaForCausalLM(config)
    if args.dropout > 0:
        def dropped(module):
            return torch.nn.Sequential(module, torch.nn.Dropout(args.dropout))
        model.model.embed_tokens = dropped(model.model.embed_tokens)
        for layer in model.model.layers:
            layer.self_attn.o_proj = dropped(layer.self_attn.o_proj)
            layer.mlp.down_proj = dropped(layer.mlp.down_proj)
    tokens = torch.randint(vocabulary, (batch, positions + 1))
    return (Logits(model).train(), tokens[:, :-1].contiguous(),
            tokens[:, 1:].contiguous(), "input_ids")


def median_ms(run, times):
    taken = []
    for _ in range(times):
        begin = time.perf_counter()
        run()
        taken.append(1e3 * (time.perf_counter() - begin))
    return statistics.median(taken[2:])


def export(model, x, labels, name):
    from safetensors.torch import save_file
    os.makedirs(args.folder, exist_ok=True)
    # The exporter's optimizer folds batch norms as if they were in eval mode.
    torch.onnx.export(model, (x,), os.path.join(args.folder, "model.onnx"), dynamo=True, external_data=True,
                      input_names=[name], output_names=["logits"], optimize=args.name != "resnet18")
    save_file({f"{name}_0": x, "labels_0": labels}, os.path.join(args.folder, "feed.safetensors"))


def step(model, x, labels):
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, betas=(0.9, 0.999), weight_decay=0.0, fused=True)

    def loss_of(x, labels):
        with torch.autocast("cpu", torch.bfloat16, enabled=args.bf16):
            return torch.nn.functional.cross_entropy(model(x).flatten(0, -2), labels.flatten())
    forward = torch.compile(loss_of, fullgraph=True) if args.compile else loss_of

    def run():
        optimizer.zero_grad()
        forward(x, labels).backward()
        optimizer.step()
    ms = median_ms(run, args.steps)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{args.name}: {ms:.2f} ms a step, peak {peak:.0f} MB")


def bound(model, x):
    shapes = []  # of each linear layer: rows, in, out, whether what it reads needs a gradient
    for module in model.modules():
        if isinstance(module, torch.nn.Linear):
            module.register_forward_hook(lambda m, given, y: shapes.append(
                (y.numel() // m.out_features, m.in_features, m.out_features, given[0].requires_grad)))
    model(x)
    known, total = {}, 0.0
    for shape in shapes:
        if shape not in known:
            rows, width, out, needs_dx = shape
            a, w, dy = torch.randn(rows, width), torch.randn(out, width), torch.randn(rows, out)
            products = [lambda: torch.mm(a, w.T), lambda: torch.mm(dy.T, a)] + [lambda: torch.mm(dy, w)] * needs_dx
            known[shape] = sum(median_ms(product, args.steps) for product in products)
        total += known[shape]
    print(f"{args.name}: {total:.2f} ms for the products of {len(shapes)} linear layers")


torch.set_num_threads(args.threads)
made_model, made_x, made_labels, input_name = make()
if args.what == "export":
    export(made_model, made_x, made_labels, input_name)
elif args.what == "step":
    step(made_model, made_x, made_labels)
else:
    bound(made_model, made_x)
