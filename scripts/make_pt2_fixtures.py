#!/usr/bin/env python
# SPDX-License-Identifier: Apache-2.0
"""Makes the .pt2 files of tests/fixtures, as torch.export.save writes them: of models of which the numbers that PyTorch gets are
there already (make_fixtures.py, make_model_fixtures.py), and of a GPT-2. Needs the versions of fixture_files.py.

  python scripts/make_pt2_fixtures.py [--out tests/fixtures] [--only llama2,vit]

A file keeps the program, weights and constants, deflated; of lines of code their last one alone, without a folder.
"""
import copy, io, json, os, re, unittest.mock, warnings, zipfile

import torch
import transformers
from safetensors.torch import load_file

import fixture_files, make_fixtures, make_model_fixtures, small_models

LINE = re.compile(r'File "[^"]*?([^/"]+)", line (\d+)')


def trim_trace(trace):
    """The last line that is none of torch's own, as its file and number."""
    lines = [m for m in re.finditer(r'File "([^"]*)", line \d+', trace) if "/torch/" not in m.group(1)]
    return LINE.sub(r'File "\1", line \2', lines[-1].group(0)) if lines else ""


def trim_graph(graph):
    for node in graph["nodes"]:
        metadata = node["metadata"]
        trace = trim_trace(metadata.get("stack_trace", ""))
        node["metadata"] = {k: metadata[k] for k in ("nn_module_stack",) if k in metadata} | ({"stack_trace": trace} if trace else {})
        for argument in node["inputs"]:
            if "as_graph" in argument["arg"]:
                trim_graph(argument["arg"]["as_graph"]["graph"])


def trim(saved, path):
    """Writes the archive again with what is read of it."""
    source, kept = zipfile.ZipFile(saved), []
    for name in source.namelist():
        if "/sample_inputs/" in name or name.endswith("/.data/serialization_id"):
            continue
        content = source.read(name)
        if name.endswith("/models/model.json"):
            program = json.loads(content)
            trim_graph(program["graph_module"]["graph"])
            content = json.dumps(program, separators=(",", ":")).encode()
        kept.append(("model/" + name.partition("/")[2], content))
    fixture_files.write_archive(path, kept)


def export(model, inputs, path, dynamic=None):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = torch.export.export(model, tuple(inputs.values()), dynamic_shapes=dynamic)
    saved = io.BytesIO()
    torch.export.save(program, saved)
    trim(saved, path)


def with_parameters(model, folder, prefix=""):
    """The model as the fixture's numbers begin."""
    tensors = load_file(f"{folder}/params.safetensors")
    own = dict([*model.named_parameters(), *model.named_buffers()])
    with torch.no_grad():
        for name, tensor in tensors.items():
            own[prefix + name].copy_(tensor)
    return model


def language_model(build, folder, kind, path):
    """`kind`: ep.logits, ep_dyn.loss, ..."""
    how, what = kind.split(".")
    model = with_parameters(build().eval(), folder)
    batch = load_file(f"{folder}/batch.safetensors")
    language = "input_ids_0" in batch
    inputs = {"input_ids": batch["input_ids_0"]} if language else {"x": batch["x_0"]}
    if what == "loss":
        inputs["labels"] = batch["hf_labels_0" if language else "labels_0"]
    wrapper = {("logits", True): make_fixtures.LanguageLogits, ("logits", False): make_fixtures.Logits,
               ("loss", True): make_fixtures.LanguageLoss, ("loss", False): make_fixtures.Loss}[what, language]
    dynamic = None
    if "dyn" in how:
        b, s = torch.export.Dim("batch"), torch.export.Dim("seq", max=32)
        dynamic = tuple({0: b, 1: s} if language else {0: b} for _ in inputs)
    export(wrapper(model), inputs, path, dynamic)


def small_model(name, folder, kind, path):
    fixture = small_models.FIXTURES[name]
    model = fixture.build().train(fixture.train)
    model = with_parameters(model, folder, make_model_fixtures.prefix_of(model))
    batch = load_file(f"{folder}/batch.safetensors")
    names = json.load(open(f"{folder}/reference.json"))["inputs"]
    batch_of = torch.export.Dim("batch")
    dynamic = tuple({0: batch_of} for _ in names) if "dyn" in kind else None
    export(copy.deepcopy(model), {n: batch[f"{n}_0"] for n in names}, path, dynamic)


def gpt2():
    return transformers.GPT2LMHeadModel(transformers.GPT2Config(
        vocab_size=make_fixtures.VOCABULARY, n_positions=16, n_embd=16, n_layer=2, n_head=2, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0,
        tie_word_embeddings=True))


FAMILIES = {
    "mlp": (make_fixtures.MLP, ["ep.logits", "ep_dyn.loss"]),
    "llama2": (lambda: make_fixtures.llama(2), ["ep.logits", "ep_dyn.loss"]),
    "llama2_tied": (lambda: make_fixtures.llama(2, tied=True), ["ep.logits"]),
    "gpt2": (gpt2, ["ep_dyn.loss"]),
}
# Trained once more on batches that can be divided among micro-batches and ranks.
SIX_ROWS = ("llama2", "gpt2")
# torch.export takes no packed sequences.
DYNAMIC = ("resnet_eval", "vit")
MODELS = [name for name in small_models.FIXTURES if name != "lstm_packed"]


def main():
    a = fixture_files.arguments(__doc__, torch, transformers, to="another folder for what is made")

    def made(name, folder, kind):
        to = f"{a.to}/{name}" if a.to else folder
        os.makedirs(to, exist_ok=True)
        return f"{to}/{kind}.pt2"

    # A third of the bias of q, k and v has a gradient of rounding alone, of which an update says nothing.
    with unittest.mock.patch.dict(make_fixtures.OPTIMIZER, eps=1e-3):
        if a.wants("gpt2"):
            make_fixtures.make(a.out, "gpt2", gpt2, True, ["noopt.loss"])
        for name in filter(a.wants, SIX_ROWS):
            make_fixtures.make(a.out, f"{name}/six_rows", FAMILIES[name][0], True, [], rows=6)
    for name, (build, kinds) in FAMILIES.items():
        for kind in kinds if a.wants(name) else []:
            language_model(build, f"{a.out}/{name}", kind, made(name, f"{a.out}/{name}", kind))
    for name in filter(a.wants, MODELS):
        folder = f"{a.out}/models/{name}"
        kind = f"{'ep_dyn' if name in DYNAMIC else 'ep'}.{small_models.FIXTURES[name].result}"
        small_model(name, folder, kind, made(name, folder, kind))


if __name__ == "__main__":
    main()
