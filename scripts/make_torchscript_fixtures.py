#!/usr/bin/env python
# SPDX-License-Identifier: Apache-2.0
"""Makes the .pt files of tests/fixtures, as torch.jit.save writes them: of models of which the numbers that PyTorch gets are there
already (make_fixtures.py, make_model_fixtures.py, make_pt2_fixtures.py, make_pt2_operator_fixtures.py). Needs the versions of fixture_files.py.

  python scripts/make_torchscript_fixtures.py [--out tests/fixtures] [--only llama2,vit] [--to DIR]

ts: traced with the batch of the first step; script: scripted. A file keeps code and numbers, deflated, without what torch knows of the
author's files.
"""
import copy, io, json, os, warnings, zipfile

import torch
import torch.nn.functional as F
import transformers

import fixture_files, make_fixtures, make_model_fixtures, make_pt2_operator_fixtures, small_models
from make_pt2_fixtures import FAMILIES, with_parameters
from safetensors.torch import load_file


def trim(saved, path):
    """Writes the archive again with what is read of it."""
    source = zipfile.ZipFile(saved)
    kept = [name for name in source.namelist() if not name.endswith((".debug_pkl", "/.data/serialization_id"))]
    fixture_files.write_archive(path, (("model/" + name.partition("/")[2], source.read(name)) for name in kept))


def save(model, path):
    saved = io.BytesIO()
    torch.jit.save(model, saved)
    trim(saved, path)


def export(model, inputs, path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        statistics = copy.deepcopy(model.state_dict())
        made = torch.jit.trace(model, tuple(inputs.values()), check_trace=False) if "/ts." in path else torch.jit.script(model)
        with torch.no_grad():  # tracing runs the model, which moves running statistics
            for name, tensor in made.state_dict().items():
                if name in statistics:  # traced modules do not know which buffers are persistent
                    tensor.copy_(statistics[name])
    save(made, path)


def language_model(build, folder, kind, path):
    """`kind`: ts.logits, ts.loss."""
    what = kind.split(".")[1]
    model = with_parameters(build().eval(), folder)
    batch = load_file(f"{folder}/batch.safetensors")
    language = "input_ids_0" in batch
    inputs = {"input_ids": batch["input_ids_0"]} if language else {"x": batch["x_0"]}
    if what == "loss":
        inputs["labels"] = batch["hf_labels_0" if language else "labels_0"]
    wrapper = {("logits", True): make_fixtures.LanguageLogits, ("logits", False): make_fixtures.Logits,
               ("loss", True): make_fixtures.LanguageLoss, ("loss", False): make_fixtures.Loss}[what, language]
    export(wrapper(model), inputs, path)


class LoopOfCells(small_models.Cells):
    """As scripts have it: a sum that begins as a number would become one, and lose its gradient."""

    def forward(self, x, y):
        h, missed = x.new_zeros(x.shape[0], 8), torch.zeros([])
        for t in range(x.shape[1]):
            h = self.cell(x[:, t], h)
            missed = missed + F.mse_loss(self.head(h), y[:, t])
        return missed / x.shape[1]


def small_model(name, folder, path):
    fixture = small_models.FIXTURES[name]
    build = LoopOfCells if "/script." in path and name == "gru_cells" else fixture.build
    model = build().train(fixture.train)
    model = with_parameters(model, folder, make_model_fixtures.prefix_of(model))
    batch = load_file(f"{folder}/batch.safetensors")
    names = json.load(open(f"{folder}/reference.json"))["inputs"]
    export(model, {n: batch[f"{n}_0"] for n in names}, path)


# What there are files of; --to makes those of all models.
KINDS = {"mlp": ["ts.logits", "ts.loss"], "llama2": ["ts.logits"], "llama2_tied": ["ts.logits"], "gpt2": ["ts.loss"]}
TRACED = ("bert", "experts", "gpt_heads", "llama_complex", "mamba", "resnet_eval", "resnet_train", "transformer", "vit")
SCRIPTED = ("gru", "gru_cells", "resnet_train", "unet")
# Groups of operators: of the others a trace has no calls, or some on data; of writes nothing says what is a copy, and networks
# have a part without gradients, which a trace does not keep.
OPERATORS = ("elementwise", "activations", "shapes", "reductions", "products", "indices", "losses", "windows", "complex")
# Packed sequences, and experts whose tokens are counted: what tracing leaves of them are operators on data.
UNTRACED = ("lstm_packed", "mixtral")


def main():
    a = fixture_files.arguments(__doc__, torch, transformers, to="another folder for what is made")

    def made(name, folder, kind):
        to = f"{a.to}/{name}" if a.to else folder
        os.makedirs(to, exist_ok=True)
        return f"{to}/{kind}.pt"

    for name, (build, _) in FAMILIES.items():
        for kind in KINDS[name] if a.wants(name) else []:
            language_model(build, f"{a.out}/{name}", kind, made(name, f"{a.out}/{name}", kind))
    for name, (inputs, functions) in make_pt2_operator_fixtures.groups().items():
        if name in OPERATORS and a.wants("pt2_operators"):
            traced = torch.jit.trace(make_pt2_operator_fixtures.Group(inputs, functions), tuple(inputs.values()), check_trace=False, strict=False)
            save(traced, made(f"pt2_operators/{name}", f"{a.out}/pt2_operators", name))
    for name, fixture in small_models.FIXTURES.items():
        traced = ("ts",) if name in TRACED or (a.to and name not in UNTRACED) else ()
        for how in (*traced, *(("script",) if name in SCRIPTED else ())) if a.wants(name) else ():
            folder = f"{a.out}/models/{name}"
            small_model(name, folder, made(name, folder, f"{how}.{fixture.result}"))


if __name__ == "__main__":
    main()
