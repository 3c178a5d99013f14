#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A model of models.py trained by PyTorch, as thunderc's program of it is: the same sizes, batch and optimizer.

  peer.py NAME eager|compile [--steps 12] [--device cuda]

Prints one line of JSON: milliseconds of each step, peak memory in bytes, and whether layers had to be recomputed to fit. `lean`
models are bf16 throughout; the others have f32 parameters under autocast to bf16.
"""
import argparse
import json
import time

import torch
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint

import models


def train(name, how, steps, device, recompute):
    model_class = type(models.make("tiny-llama" if models.MODELS[name]["kind"] == "llama" else "tiny-gpt2")[0])
    model_class.run = staticmethod((lambda layer, *given: checkpoint(layer, *given, use_reentrant=False)) if recompute
                                   else (lambda layer, *given: layer(*given)))
    lean = models.MODELS[name]["lean"]
    torch.manual_seed(0)
    torch.set_default_dtype(torch.bfloat16 if lean else torch.float32)
    with torch.device(device):
        model, c = models.make(name)
        tokens = torch.randint(c["vocabulary"], (c["batch"], c["positions"] + 1))
    torch.set_default_dtype(torch.float32)
    x, labels = tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, betas=(0.9, 0.95), weight_decay=0.1, fused=True)

    def loss_of(x, labels):
        with torch.autocast(device, torch.bfloat16, enabled=not lean):
            logits = model(x)
        return F.cross_entropy(logits.flatten(0, 1).float(), labels.flatten())
    forward = torch.compile(loss_of) if how == "compile" else loss_of

    def wait():
        if device == "cuda":
            torch.cuda.synchronize()
    taken = []
    for _ in range(steps):
        wait()
        begin = time.perf_counter()
        loss = forward(x, labels)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        wait()
        taken.append(1e3 * (time.perf_counter() - begin))
    peak = torch.cuda.max_memory_reserved() if device == "cuda" else 0
    return {"step_ms": taken, "peak_bytes": peak, "recomputed": recompute, "loss": float(loss.detach()),
            "tokens": c["batch"] * c["positions"], "torch": torch.__version__}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", choices=list(models.MODELS))
    parser.add_argument("how", choices=["eager", "compile"])
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--device", default="cuda")
    args = parser.parse_args()
    result = None
    for recompute in (False, True):
        try:
            result = train(args.name, args.how, args.steps, args.device, recompute)
            break
        except torch.OutOfMemoryError:  # what the failed try held goes with its frame
            pass
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    print(json.dumps(result or {"error": "out of memory, with layers recomputed too"}))


if __name__ == "__main__":
    main()
