#!/usr/bin/env python
# SPDX-License-Identifier: Apache-2.0
"""Makes tests/fixtures/lora: a small Llama whose q and v have adapters of low rank, which alone are trained, with the numbers PyTorch gets.

  python scripts/make_lora_fixture.py [--out tests/fixtures]

The files are those of make_fixtures.py. params: all parameters, B of the adapters at zero, as LoRA begins; grads: of the adapters, in step
0; params_after: all parameters behind the last step; "frozen" in reference.json: what has no gradient. Of a large part of the model
nothing changes: what the files hold of it twice is what the program must leave alone.
"""
import copy, os

import torch
import transformers

from fixture_files import OPTIMIZER, PINNED, adamw, arguments, norm_of_gradients, save_reference, save_tensors
from make_fixtures import STEPS, LanguageLogits, batches, export, llama, randomized

RANK, SCALE = 2, 4.0


class LoraLinear(torch.nn.Module):
    """base(x) + scale * B(A(x)), named as peft names them."""

    def __init__(self, base):
        super().__init__()
        self.base_layer = base
        self.lora_A = torch.nn.Linear(base.in_features, RANK, bias=False)
        self.lora_B = torch.nn.Linear(RANK, base.out_features, bias=False)
        torch.nn.init.zeros_(self.lora_B.weight)

    def forward(self, x):
        return self.base_layer(x) + SCALE * self.lora_B(self.lora_A(x))


def build():
    torch.manual_seed(0)
    model = randomized(llama(2))
    for layer in model.model.layers:
        for name in ("q_proj", "v_proj"):
            setattr(layer.self_attn, name, LoraLinear(getattr(layer.self_attn, name)))
    for name, p in model.named_parameters():
        p.requires_grad_("lora_" in name)
    return model.eval()


def train(model, batch, dtype):
    model = copy.deepcopy(model).to(dtype)
    trained = {n: p for n, p in model.named_parameters() if p.requires_grad}
    optimizer = adamw(trained.values())
    losses, norms, grads = [], [], {}
    for k in range(STEPS):
        logits = model(input_ids=batch[f"input_ids_{k}"], use_cache=False).logits
        loss = torch.nn.functional.cross_entropy(logits.reshape(-1, logits.shape[-1]), batch[f"labels_{k}"].reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        grads = grads or {n: p.grad.detach().clone() for n, p in trained.items()}
        norms.append(norm_of_gradients(trained.values()))
        losses.append(loss.item())
        optimizer.step()
    return losses, norms, grads, {n: p.detach().clone() for n, p in model.named_parameters()}


def main():
    folder = f"{arguments(__doc__, torch, transformers).out}/lora"
    os.makedirs(folder, exist_ok=True)
    model, batch = build(), batches(True)
    losses, norms, grads, after = train(model, batch, torch.float32)
    losses64, norms64, _, _ = train(model, batch, torch.float64)
    params = dict(model.named_parameters())
    save_tensors(folder, params=params, grads=grads, params_after=after, batch=batch)
    save_reference(folder, {"name": "lora", "torch": PINNED["torch"], "transformers": PINNED["transformers"], "prefix": "model.", "steps": STEPS,
               "inputs": ["input_ids"], "loss_graph_inputs": {"input_ids": "input_ids", "labels": "hf_labels"}, "loss_kind": "cross_entropy",
               "ignore_index": -100, "optimizer": OPTIMIZER, "tied": {}, "frozen": [n for n, p in params.items() if not p.requires_grad],
               "buffers_updated": [], "noise_tensors": {}, "parameters": {n: list(p.shape) for n, p in params.items()}, "loss": losses,
               "grad_norm": norms, "loss64": losses64, "grad_norm64": norms64})
    rows = torch.export.Dim("batch"), torch.export.Dim("seq")
    # With the optimizer, the exporter would make one tensor of the adapters' zeros.
    export(LanguageLogits(model), (batch["input_ids_0"],), ["input_ids"], "logits", f"{folder}/dyn.logits.onnx", optimize=False,
           dynamic=({0: rows[0], 1: rows[1]},))


if __name__ == "__main__":
    main()
