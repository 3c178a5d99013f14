#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Exports the small Llama of samples/quickstart.sh: model.onnx, with dynamic batch and sequence axes and without weights.

    pip install torch==2.13.0 transformers==5.23.0 onnx==1.23.2 onnxscript==0.7.2
    samples/llama_small/export.py

Tokens are bytes, so that any text can be trained on. The weights lie in a file beside the graph, which is thrown away: a program
trains from random ones. Stack traces that the exporter writes into nodes are dropped; scopes and classes stay.
"""
import os
import tempfile

import onnx
import torch
import transformers

HERE = os.path.dirname(os.path.abspath(__file__))
KEPT = ("pkg.torch.onnx.name_scopes", "pkg.torch.onnx.class_hierarchy")


class Logits(torch.nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, input_ids):
        return self.model(input_ids, use_cache=False).logits


def main():
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=256, hidden_size=128, intermediate_size=344, num_hidden_layers=4, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=512, tie_word_embeddings=False, attn_implementation="sdpa")
    model = Logits(transformers.LlamaForCausalLM(config)).eval()
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.onnx")
        batch, seq = torch.export.Dim("batch", min=1), torch.export.Dim("seq", min=2, max=512)
        torch.onnx.export(model, (torch.zeros(2, 16, dtype=torch.int64),), path, dynamo=True, external_data=True,
                          input_names=["input_ids"], output_names=["logits"], dynamic_shapes=({0: batch, 1: seq},))
        graph = onnx.load(path, load_external_data=False)
    for node in graph.graph.node:
        kept = [p for p in node.metadata_props if p.key in KEPT]
        del node.metadata_props[:]
        node.metadata_props.extend(kept)
    del graph.metadata_props[:]
    onnx.save(graph, os.path.join(HERE, "model.onnx"))


if __name__ == "__main__":
    main()
