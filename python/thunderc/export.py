# SPDX-License-Identifier: Apache-2.0
"""python -m thunderc.export FOLDER -o llama.pt2: a model of a Hugging Face folder. Imported, this is the function of the same name."""
import argparse
import sys
from pathlib import Path
from typing import Any, Sequence

import torch

from thunderc._export import ExportError, export


def example_of(model: Any, batch: int, seq: int, logits: bool, image_size: int | None = None) -> dict[str, torch.Tensor]:
    """Inputs of the model's kind, with labels where it has a loss of its own."""
    config, kind, main = model.config, type(model).__name__, getattr(model, "main_input_name", "input_ids")
    text = config.get_text_config()
    if main == "input_ids" and hasattr(text, "vocab_size"):
        out = {main: torch.randint(0, text.vocab_size, (batch, seq))}
    elif main == "pixel_values" and hasattr(config, "num_channels") and (image_size or hasattr(config, "image_size")):
        size = image_size or config.image_size
        out = {main: torch.randn(batch, config.num_channels, *(size if isinstance(size, (list, tuple)) else (size, size)))}
    else:
        raise ExportError(f"what {kind} takes as {main} is not known here\nhelp: --image-size N for images; thunderc.export in Python takes any inputs")
    # What the ends of Hugging Face's class names say of labels: one for each row, one for each token.
    by_row = kind.endswith(("ForSequenceClassification", "ForImageClassification"))
    by_token = main == "input_ids" and kind.endswith(("ForCausalLM", "LMHeadModel", "ForMaskedLM", "ForTokenClassification",
                                                      "ForConditionalGeneration", "ForPreTraining"))
    if not logits and (by_row or by_token):
        classes = config.num_labels if kind.endswith("Classification") else text.vocab_size
        # Of a decoder behind an encoder another length, so that the two are not taken for one.
        tokens = max(seq // 2, 2) if getattr(config, "is_encoder_decoder", False) else seq
        out["labels"] = torch.randint(0, classes, (batch,) if by_row else (batch, tokens))
    return out


def main(arguments: Sequence[str] | None = None) -> int:
    import transformers

    parser = argparse.ArgumentParser(prog="python -m thunderc.export", description="Writes the model of a Hugging Face folder as a .pt2 file "
                                     "that `thunderc train` reads, and holds it against the model.")
    parser.add_argument("folder", type=Path, help="config.json, weights and tokenizer, as save_pretrained() writes them")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="FILE.pt2")
    parser.add_argument("--logits", action="store_true", help="end in logits, to which thunderc adds a loss, instead of the model's own loss")
    parser.add_argument("--eval", action="store_true", help="in eval() mode: no dropout")
    parser.add_argument("--static", action="store_true", help="with the sizes of --batch and --seq alone")
    for name, default in (("batch", 2), ("seq", 16)):
        parser.add_argument(f"--{name}", type=int, default=default, help=f"size of the example (default: {default})")
    parser.add_argument("--image-size", type=int, metavar="N", help="height and width of images (default: the configuration's)")
    given = parser.parse_args(arguments)
    if not (given.folder / "config.json").is_file():  # transformers would look for it on the network
        parser.error(f"{given.folder} has no config.json")
    try:
        architecture = next(iter(transformers.AutoConfig.from_pretrained(given.folder).architectures or []), "")
        if not hasattr(transformers, architecture):
            raise ExportError(f"{given.folder}/config.json names no class of transformers: {architecture or 'none'}\n"
                              "help: load the model in Python, and give it to thunderc.export")
        model = getattr(transformers, architecture).from_pretrained(given.folder)
        made = export(model, example_of(model, given.batch, given.seq, given.logits, given.image_size), given.output, dynamic=not given.static,
                      mode="eval" if given.eval else "train", source=given.folder)
    except ExportError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(*(f"note: {note}" for note in made.notes), f"{made.path}: results and gradients are the model's, to {made.difference:.1e}",
          f"next: {made.command}", sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

sys.modules[__name__] = export  # type: ignore[assignment]
