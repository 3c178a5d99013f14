#!/usr/bin/env python
# SPDX-License-Identifier: Apache-2.0
"""Makes tests/fixtures/adapters: what PEFT trains beside the frozen weights of two other fixtures. Needs peft 0.18.0 and the versions
of fixture_files.py.

  python scripts/make_lora_fixtures.py [--out tests/fixtures]

For each case, of the model and the batches of the fixture `base`: before/ and after/, the adapters as PEFT saves them, with a B that
is not 0 from the start on, so that both factors have gradients; grads.safetensors of step 0; reference.json: the loss and the norm of
the gradients of each of ten steps, in f32 and f64, and the option of `thunderc train` that makes the same adapters; `eval_loss64`, the
mean loss of all batches behind them, in f64. Where adapters have dropout, PEFT's is replaced by masks as a program draws them
(make_dropout_fixture.py), and the evaluation is without.
"""
import copy, json, os, shutil

import peft
import torch
import transformers
from safetensors.torch import load_file, save_file

import make_pt2_fixtures
from fixture_files import OPTIMIZER, adamw, arguments, norm_of_gradients
from make_dropout_fixture import Draws
from make_fixtures import llama

PEFT, STEPS = "0.18.0", 10
CASES = {
    "llama": ("llama2", lambda: llama(2), "r=4,alpha=8", dict(r=4, lora_alpha=8, target_modules="all-linear")),
    "llama_saved": ("llama2", lambda: llama(2), "r=2,alpha=3,rslora,targets=q_proj|v_proj,modules_to_save=lm_head",
                    dict(r=2, lora_alpha=3, use_rslora=True, target_modules=["q_proj", "v_proj"], modules_to_save=["lm_head"])),
    "llama_dropout": ("llama2", lambda: llama(2), "r=4,alpha=8,dropout=0.3",
                      dict(r=4, lora_alpha=8, lora_dropout=0.3, target_modules="all-linear")),
    "gpt2": ("gpt2", make_pt2_fixtures.gpt2, "r=2,alpha=8,targets=c_attn|mlp.c_proj",
             dict(r=2, lora_alpha=8, target_modules=["c_attn", "mlp.c_proj"], fan_in_fan_out=True)),
}


class Drawn(torch.nn.Module):
    """A dropout by masks that are drawn for the samples of the forward pass; none where there are no draws."""

    def __init__(self, rate):
        super().__init__()
        self.rate, self.draws = rate, None

    def forward(self, x):
        return x if self.draws is None else self.draws.dropout(x, self.rate)


def draw_for(model, draws):
    for module in model.modules():
        if isinstance(module, Drawn):
            module.draws = draws


def in_files(name):
    """The name that an adapter's file has for a parameter of the model with adapters."""
    return name.replace(".modules_to_save.default", "").replace(".default", "")


def adapted(build, base, config):
    model = build()
    missing = model.load_state_dict(load_file(f"{base}/params.safetensors"), strict=False).missing_keys
    if not set(missing) <= {"lm_head.weight"}:
        raise SystemExit(f"the fixture lacks {missing}")
    model.tie_weights()
    model = peft.get_peft_model(model.eval(), peft.LoraConfig(**config))
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for name, p in model.named_parameters():
            if "lora_" in name:
                p.copy_(0.2 * torch.randn(p.shape, generator=generator))
    for module in list(model.modules()):
        for name, dropout in getattr(module, "lora_dropout", {}).items():
            if isinstance(dropout, torch.nn.Dropout):
                module.lora_dropout[name] = Drawn(dropout.p)
    return model.eval()


def evaluate(model, batch):
    """The mean over the labels of all batches."""
    loss, count = 0.0, 0
    for k in range(len(batch) // 3):
        labels = batch[f"labels_{k}"].reshape(-1)
        with torch.no_grad():
            logits = model(input_ids=batch[f"input_ids_{k}"], use_cache=False).logits
        loss += torch.nn.functional.cross_entropy(logits.reshape(-1, logits.shape[-1]), labels, reduction="sum").item()
        count += int((labels != -100).sum())
    return loss / count


def train(model, batch, dtype, recipe):
    model = copy.deepcopy(model).to(dtype)
    trained = {in_files(n): p for n, p in model.named_parameters() if p.requires_grad}
    optimizer = adamw(trained.values(), recipe)
    losses, norms, grads = [], [], {}
    for step in range(STEPS):
        k = step % (len(batch) // 3)
        rows = batch[f"input_ids_{k}"].shape[0]
        draw_for(model, Draws(range(step * rows, (step + 1) * rows)))
        logits = model(input_ids=batch[f"input_ids_{k}"], use_cache=False).logits
        loss = torch.nn.functional.cross_entropy(logits.reshape(-1, logits.shape[-1]), batch[f"labels_{k}"].reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        grads = grads or {n: p.grad.detach().clone() for n, p in trained.items()}
        norms.append(norm_of_gradients(trained.values()))
        losses.append(loss.item())
        optimizer.step()
    draw_for(model, None)
    return losses, norms, grads, model


def save_adapter(model, folder):
    model.save_pretrained(folder, save_embedding_layers=False)
    os.remove(f"{folder}/README.md")
    with open(f"{folder}/adapter_config.json") as f:
        config = json.load(f)
    config["target_modules"].sort()  # a set, which has another order in each run
    with open(f"{folder}/adapter_config.json", "w") as f:
        json.dump(config, f, indent=1)
        f.write("\n")


def main():
    out = arguments(__doc__, torch, transformers).out
    if peft.__version__ != PEFT:
        raise SystemExit(f"peft {PEFT} is pinned, {peft.__version__} is installed")
    for name, (base, build, option, config) in CASES.items():
        folder = f"{out}/adapters/{name}"
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(folder)
        model, batch = adapted(build, f"{out}/{base}", config), load_file(f"{out}/{base}/batch.safetensors")
        recipe = json.load(open(f"{out}/{base}/reference.json"))["optimizer"]
        save_adapter(model, f"{folder}/before")
        losses, norms, grads, after = train(model, batch, torch.float32, recipe)
        losses64, norms64, _, after64 = train(model, batch, torch.float64, recipe)
        save_adapter(after, f"{folder}/after")
        save_file({n: g.contiguous() for n, g in grads.items()}, f"{folder}/grads.safetensors")
        with open(f"{folder}/reference.json", "w") as f:
            json.dump({"base": base, "peft": PEFT, "lora": option, "steps": STEPS, "loss": losses, "grad_norm": norms,
                       "loss64": losses64, "grad_norm64": norms64, "eval_loss64": evaluate(after64, batch)}, f, indent=1)
            f.write("\n")


if __name__ == "__main__":
    main()
