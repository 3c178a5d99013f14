#!/usr/bin/env python
# SPDX-License-Identifier: Apache-2.0
"""Writes docs/models.md: small models of Hugging Face's architectures through thunderc.export, thunderc and thunderc.check. Needs the
versions of fixture_files.py, and cmake.

  python scripts/make_models_page.py --thunderc build/thunderc [--only llama,t5] [--page docs/models.md] [-- CMAKE_OPTION...]
"""
import argparse, contextlib, dataclasses, io, logging, pathlib, subprocess, sys, tempfile, warnings
from typing import Any, Callable

import torch
import transformers as hf

import fixture_files

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "python"))
import thunderc

BATCH, SEQ, VOCABULARY = 2, 16, 64
SIZES = dict(vocab_size=VOCABULARY, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4, max_position_embeddings=64)
GROUPED = dict(SIZES, num_key_value_heads=2)
IMAGES = dict(hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4, image_size=16, patch_size=8, num_labels=5,
              hidden_dropout_prob=0, attention_probs_dropout_prob=0)


@dataclasses.dataclass
class Row:
    build: Callable[[], Any]
    inputs: str = "input_ids=ids, labels=ids"
    said: str = ""  # by thunderc: what is trained on


def ids():
    return torch.randint(1, VOCABULARY, (BATCH, SEQ))


MODELS = {
    "llama": Row(lambda: hf.LlamaForCausalLM(hf.LlamaConfig(**GROUPED))),
    "mistral": Row(lambda: hf.MistralForCausalLM(hf.MistralConfig(**GROUPED, sliding_window=8))),
    "qwen3": Row(lambda: hf.Qwen3ForCausalLM(hf.Qwen3Config(**GROUPED, head_dim=8))),
    "gemma2": Row(lambda: hf.Gemma2ForCausalLM(hf.Gemma2Config(**GROUPED, head_dim=8, sliding_window=8))),
    "phi3": Row(lambda: hf.Phi3ForCausalLM(hf.Phi3Config(**GROUPED, pad_token_id=0))),
    "gpt2": Row(lambda: hf.GPT2LMHeadModel(hf.GPT2Config(vocab_size=VOCABULARY, n_positions=64, n_embd=32, n_layer=2, n_head=4, resid_pdrop=0,
                                                         embd_pdrop=0, attn_pdrop=0))),
    "gpt_neox": Row(lambda: hf.GPTNeoXForCausalLM(hf.GPTNeoXConfig(**SIZES))),
    "falcon": Row(lambda: hf.FalconForCausalLM(hf.FalconConfig(vocab_size=VOCABULARY, hidden_size=32, num_hidden_layers=2, num_attention_heads=4))),
    "opt": Row(lambda: hf.OPTForCausalLM(hf.OPTConfig(vocab_size=VOCABULARY, hidden_size=32, ffn_dim=48, num_hidden_layers=2, num_attention_heads=4,
                                                      max_position_embeddings=64, dropout=0, word_embed_proj_dim=32))),
    "mixtral": Row(lambda: hf.MixtralForCausalLM(hf.MixtralConfig(**GROUPED, num_local_experts=4, num_experts_per_tok=2))),
    "bert": Row(lambda: hf.BertForMaskedLM(hf.BertConfig(**SIZES, hidden_dropout_prob=0, attention_probs_dropout_prob=0))),
    "t5": Row(lambda: hf.T5ForConditionalGeneration(hf.T5Config(vocab_size=VOCABULARY, d_model=32, d_kv=8, d_ff=48, num_layers=2, num_heads=4,
                                                                dropout_rate=0, decoder_start_token_id=0))),
    "vit": Row(lambda: hf.ViTForImageClassification(hf.ViTConfig(**IMAGES)), "pixel_values=images, labels=classes"),
}


def example_of(row):
    if "images" in row.inputs:
        return {"pixel_values": torch.randn(BATCH, 3, 16, 16), "labels": torch.randint(0, 5, (BATCH,))}
    one = ids()
    return {"input_ids": one, "labels": one}


def tried(name, row, binary, cmake, folder):
    """A row of the table: what happened, and how far losses and gradients were from PyTorch's."""
    torch.manual_seed(1)
    model = row.build()
    try:
        made = thunderc.export(model, example_of(row), folder / f"{name}.pt2")
    except thunderc.ExportError as error:
        return str(error).splitlines()[0], None
    dims = sorted({dim for of in made.dynamic.values() for dim in of.values()})
    what = f"any {' and '.join(dims)}" if dims else "fixed sizes"
    what += "".join(f"; {note.splitlines()[0]}" for note in made.notes if "fixed at" in note)
    command = [str(binary), *made.command.split()[1:-1], str(folder / f"{name}-train")]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        return f"{what}; {done.stderr.splitlines()[0]}", None
    taken = next((line for line in done.stderr.splitlines() if line.startswith("warning: output, ")), "")
    what += f"; trained on `{taken.split(', ')[1].split(':')[0]}`" if taken else ""
    with contextlib.redirect_stdout(io.StringIO()):
        found = thunderc.check(model, folder / f"{name}-train", cmake=cmake)
    return what, found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--thunderc", type=pathlib.Path, default=pathlib.Path("build/thunderc"))
    parser.add_argument("--only", default="")
    parser.add_argument("--page", type=pathlib.Path)
    parser.add_argument("cmake", nargs="*")
    given = parser.parse_args()
    fixture_files.check_versions(torch, hf)
    logging.disable(logging.WARNING)
    warnings.simplefilter("ignore")
    rows = []
    for name in given.only.split(",") if given.only else MODELS:
        row = MODELS[name]
        with tempfile.TemporaryDirectory() as folder:
            what, found = tried(name, row, given.thunderc.resolve(), given.cmake, pathlib.Path(folder))
        difference = lambda kind: f"{max(d for w, d, _ in found.rows if w.startswith(kind)):.0e}" if found else ""
        verdict = "" if found is None else "the same" if found else "differs"
        rows.append(f"| `{type(row.build()).__name__}` | `{row.inputs}` | {what} | {verdict} | {difference('loss')} | {difference('gradient')} |")
        print(rows[-1], flush=True)
    if given.page:
        given.page.write_text(PAGE.format(torch=torch.__version__.split("+")[0], transformers=hf.__version__, rows="\n".join(rows)))


PAGE = """\
# Models of Hugging Face, in one line

What `scripts/make_models_page.py` wrote, with PyTorch {torch} and transformers {transformers}: a small model of each architecture,
random weights, 2 rows of 16 tokens, exported by

    thunderc.export(model, dict(INPUTS), "model.pt2")

compiled by the command that this gives, built, and trained for five steps beside the model ([python.md](python.md)). *Loss*
is the largest difference of a step's loss from PyTorch's, relative; *gradient* that of a parameter's gradient in the first step,
relative to its norm. Below are rounding errors of f32 where all is well.

| class | inputs | what happened | five steps | loss | gradient |
|---|---|---|---|---:|---:|
{rows}

In plain torch the line is `torch.export.export(model, (), dict(input_ids=ids, labels=ids, use_cache=False))`, with fixed sizes: with
a cache torch's exporter refuses a `DynamicCache`, which is no tensor. Results in dictionaries have their keys as names, those in
dataclasses their fields, those in tuples their positions; of `loss`, `logits` and more the loss is trained on, and a warning
says so. `--output logits` takes another.
"""

if __name__ == "__main__":
    main()
