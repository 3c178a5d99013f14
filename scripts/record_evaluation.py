#!/usr/bin/env python
# SPDX-License-Identifier: Apache-2.0
"""Records what PyTorch makes of fixtures in eval() mode: tests/fixtures/evaluation.json.

  python scripts/record_evaluation.py [--out tests/fixtures]

Of each model, with the parameters of `params` and of `params_after`: the mean loss over all batches of the fixture, and the part of
the labels that get the largest score. Reads what make_fixtures.py, make_dropout_fixture.py and make_batch_norm_fixture.py wrote.
"""
import json, os

import torch
import torch.nn.functional as F
from safetensors.torch import load_file

import make_batch_norm_fixture, make_dropout_fixture, make_fixtures
from fixture_files import arguments

MODELS = {"mlp": (make_fixtures.MLP, "x"), "batch_norm": (make_batch_norm_fixture.Model, "image"),
          "dropout": (make_dropout_fixture.Model, "input_ids")}


def evaluate(folder, make, name, parameters):
    model = make().double().eval()
    wanted = load_file(os.path.join(folder, parameters + ".safetensors"))
    missing = model.load_state_dict(wanted, strict=False)
    assert not missing.unexpected_keys and all("num_batches" in key for key in missing.missing_keys), missing
    batch, loss, hits, count = load_file(os.path.join(folder, "batch.safetensors")), 0.0, 0, 0
    for k in range(sum(key.startswith(name + "_") for key in batch)):
        x, labels = batch[f"{name}_{k}"], batch[f"labels_{k}"].reshape(-1)
        with torch.no_grad():
            scores = model(x.double() if x.is_floating_point() else x)
        scores = scores.reshape(-1, scores.shape[-1])
        loss += float(F.cross_entropy(scores, labels, reduction="sum"))
        hits += int((scores.argmax(-1) == labels).sum())
        count += int((labels != -100).sum())
    return {"loss": loss / count, "hits": hits, "labels": count}


def main():
    out = arguments(__doc__, torch).out
    found = {model: {p: evaluate(os.path.join(out, model), make, name, p) for p in ("params", "params_after")}
             for model, (make, name) in MODELS.items()}
    with open(os.path.join(out, "evaluation.json"), "w") as file:
        json.dump(found, file, indent=1)
        file.write("\n")


if __name__ == "__main__":
    main()
