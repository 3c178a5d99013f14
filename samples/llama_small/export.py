#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Exports the small Llama of samples/quickstart.sh: model.onnx, with dynamic batch and sequence axes and without weights.

    pip install torch==2.13.0 transformers==5.23.0 onnx==1.23.2 onnxscript==0.7.2
    samples/llama_small/export.py

Tokens are bytes, so that any text can be trained on. The weights lie in a file beside the graph, which is thrown away: a program
trains from random ones. optimize=False leaves the graph as the model's author wrote it; of what the exporter writes beside it, stays what
thunderc asks for: scopes, classes, which call a node comes from, the parameters' names.
"""
import os
import tempfile

import onnx
import torch
import transformers

HERE = os.path.dirname(os.path.abspath(__file__))
CALL = "pkg.torch.onnx.fx_node"
KEPT = ("pkg.torch.onnx.name_scopes", "pkg.torch.onnx.class_hierarchy", CALL)
SIGNATURE = "pkg.torch.export.ExportedProgram.graph_signature"


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
        torch.onnx.export(model, (torch.zeros(2, 16, dtype=torch.int64),), path, dynamo=True, optimize=False, external_data=True,
                          input_names=["input_ids"], output_names=["logits"], dynamic_shapes=({0: batch, 1: seq},))
        graph = onnx.load(path, load_external_data=False)
    for node in graph.graph.node:
        kept = [(p.key, p.value) for p in node.metadata_props if p.key in KEPT]
        del node.metadata_props[:]
        for key, value in kept:
            if key != CALL or "%p_" in value or "%b_" in value:  # calls that read a parameter or a buffer
                node.metadata_props.add(key=key, value=value)
    for value in graph.graph.value_info:
        del value.metadata_props[:]
    signature = [p.value for p in graph.graph.metadata_props if p.key == SIGNATURE]
    for metadata in (graph.metadata_props, graph.graph.metadata_props):
        del metadata[:]
    for value in signature:
        graph.graph.metadata_props.add(key=SIGNATURE, value=value)
    onnx.save(graph, os.path.join(HERE, "model.onnx"))


if __name__ == "__main__":
    main()
