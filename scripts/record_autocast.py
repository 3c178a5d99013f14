#!/usr/bin/env python
# SPDX-License-Identifier: Apache-2.0
"""Records how far PyTorch's own bf16 and f16 are from fp64: tests/fixtures/autocast. Needs the versions below.

  python scripts/record_autocast.py [--out tests/fixtures/autocast]

For each seed, the small Llama of tests/fixtures/llama2 with parameters of its own (seed_K.safetensors, in bf16, so that all
see the same) trains ten steps on batches of its own (in the same file, KEY_STEP as a program's --feed takes them) in fp64, in
f32, in f32 under torch.autocast(bfloat16), and under torch.autocast(float16) with a GradScaler. spread.json has the loss of each
step of each of the four ("autocast", "autocast_f16"), and by what the last one scaled it ("scales").
"""
import argparse, json, os

import torch
import transformers
from safetensors.torch import save_file
from transformers import LlamaConfig, LlamaForCausalLM

PINNED = {"torch": "2.13.0", "transformers": "5.23.0"}
SEEDS, STEPS, BATCH, SEQ, VOCABULARY = 8, 10, 2, 8, 48
OPTIMIZER = {"lr": 1e-3, "betas": (0.9, 0.95), "eps": 1e-8, "weight_decay": 0.1}


def make_model(seed):
    torch.manual_seed(seed)
    config = LlamaConfig(vocab_size=VOCABULARY, hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=4,
                         num_key_value_heads=2, max_position_embeddings=64, rms_norm_eps=1e-5, attention_bias=False,
                         tie_word_embeddings=False, rope_theta=10000.0, initializer_range=0.2)
    model = LlamaForCausalLM(config)
    with torch.no_grad():
        for p in model.parameters():
            if p.dim() == 1:
                p += 0.2 * torch.randn_like(p)
            p.copy_(p.bfloat16().float())
    return model


def train(model, batches, dtype, low=None, scales=None):
    model = model.to(dtype)
    model.train(False)  # no dropout; gradients flow all the same
    optimizer = torch.optim.AdamW(model.parameters(), **OPTIMIZER)
    losses = []
    scaler = torch.amp.GradScaler("cpu", enabled=low == torch.float16)
    for ids, labels in batches:
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cpu", low or torch.bfloat16, enabled=low is not None):
            logits = model(input_ids=ids, use_cache=False).logits
        loss = torch.nn.functional.cross_entropy(logits.reshape(-1, VOCABULARY).to(dtype), labels.reshape(-1))
        if scales is not None:
            scales.append(scaler.get_scale())
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.item())
    return losses


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", default="tests/fixtures/autocast")
    out = parser.parse_args().out
    for package, version in PINNED.items():
        found = {"torch": torch, "transformers": transformers}[package].__version__.split("+")[0]
        assert found == version, f"{package} {version} is needed, this is {found}"
    torch.use_deterministic_algorithms(True)
    torch.set_num_threads(1)
    os.makedirs(out, exist_ok=True)
    record = {"torch": PINNED["torch"], "transformers": PINNED["transformers"], "steps": STEPS,
              "optimizer": {**OPTIMIZER, "name": "AdamW", "decay": "all"}, "seeds": []}
    for seed in range(SEEDS):
        model = make_model(seed)
        state = {name: value.bfloat16().contiguous() for name, value in model.state_dict().items()}
        generator = torch.Generator().manual_seed(1000 + seed)
        tokens = torch.randint(0, VOCABULARY, (STEPS, BATCH, SEQ + 1), generator=generator)
        batches = [(t[:, :-1].contiguous(), t[:, 1:].contiguous()) for t in tokens]
        save_file(state, f"{out}/seed_{seed}.safetensors")
        feed = {}
        for step, (ids, labels) in enumerate(batches):
            feed[f"input_ids_{step}"], feed[f"labels_{step}"] = ids, labels
        save_file(feed, f"{out}/feed_{seed}.safetensors")
        entry = {"seed": seed}
        scales = []
        for name, dtype, low in (("f64", torch.float64, None), ("f32", torch.float32, None),
                                 ("autocast", torch.float32, torch.bfloat16)):
            entry[name] = train(make_model(seed), batches, dtype, low)
        entry["autocast_f16"] = train(make_model(seed), batches, torch.float32, torch.float16, scales)
        entry["scales"] = scales
        record["seeds"].append(entry)
    with open(f"{out}/spread.json", "w") as f:
        json.dump(record, f, indent=1)
        f.write("\n")


if __name__ == "__main__":
    main()
