#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Exports the model of this sample, model.onnx, and records what PyTorch trains of it: batch.safetensors and reference.json.

    pip install torch==2.13.0 onnx==1.23.2 onnxscript==0.7.2 safetensors
    samples/user_executor/export.py

`Snake` is an operator of a domain of our own, which neither ONNX nor thunderc has heard of; torch.onnx.ops.symbolic writes its node.
What it computes is said once here, in PyTorch, for the numbers that the sample is held against. `Squareplus` is one of that domain as
well, and the model has a function for it: a body in ONNX's own operators, which thunderc takes where it is given no other.
"""
import json
import os
import tempfile

import onnx
import torch
from safetensors.torch import save_file

HERE = os.path.dirname(os.path.abspath(__file__))
KEPT = ("pkg.torch.onnx.name_scopes", "pkg.torch.onnx.class_hierarchy")
STEPS, ROWS = 5, 16


class Snake(torch.nn.Module):
    def __init__(self, columns):
        super().__init__()
        self.alpha = torch.nn.Parameter(torch.linspace(0.5, 1.5, columns))

    def forward(self, x):
        if torch.compiler.is_exporting():
            return torch.onnx.ops.symbolic("com.example::Snake", (x, self.alpha), dtype=x.dtype, shape=x.shape, version=1)
        return x + torch.sin(self.alpha * x) ** 2 / self.alpha


class LearnedSwish(torch.nn.Module):
    def __init__(self, columns):
        super().__init__()
        self.beta = torch.nn.Parameter(torch.linspace(0.5, 2, columns))

    def forward(self, x):
        return x * torch.sigmoid(x * self.beta)


class Squareplus(torch.nn.Module):
    bend = 0.5

    def forward(self, x):
        if torch.compiler.is_exporting():
            return torch.onnx.ops.symbolic("com.example::Squareplus", (x,), {"bend": self.bend}, dtype=x.dtype, shape=x.shape,
                                           version=1)
        return (x + torch.sqrt(x * x + self.bend)) / 2


def squareplus_function():
    bend = onnx.helper.make_node("Constant", [], ["bend"])
    reference = bend.attribute.add()
    reference.name, reference.ref_attr_name, reference.type = "value_float", "bend", onnx.AttributeProto.FLOAT
    nodes = [
        bend,
        onnx.helper.make_node("Mul", ["x", "x"], ["square"]),
        onnx.helper.make_node("Add", ["square", "bend"], ["sum"]),
        onnx.helper.make_node("Sqrt", ["sum"], ["root"]),
        onnx.helper.make_node("Add", ["x", "root"], ["twice"]),
        onnx.helper.make_node("Constant", [], ["half"], value_float=0.5),
        onnx.helper.make_node("Mul", ["twice", "half"], ["y"]),
    ]
    return onnx.helper.make_function("com.example", "Squareplus", ["x"], ["y"], nodes, [onnx.helper.make_opsetid("", 20)], ["bend"])


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.up = torch.nn.Linear(6, 24)
        self.snake = Snake(24)
        self.mix = torch.nn.Linear(24, 20)
        self.swish = LearnedSwish(20)
        self.bend = torch.nn.Linear(20, 18)
        self.squareplus = Squareplus()
        self.down = torch.nn.Linear(18, 3)

    def forward(self, x):
        return self.down(self.squareplus(self.bend(self.swish(self.mix(self.snake(self.up(x)))))))


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = Model()
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.onnx")
        torch.onnx.export(model.eval(), (torch.zeros(2, 6),), path, dynamo=True, optimize=False, external_data=False,
                          input_names=["x"], output_names=["y"], dynamic_shapes=({0: torch.export.Dim("batch", min=1)},))
        graph = onnx.load(path)
    for node in graph.graph.node:
        kept = [p for p in node.metadata_props if p.key in KEPT]
        del node.metadata_props[:]
        node.metadata_props.extend(kept)
    del graph.metadata_props[:]
    graph.functions.append(squareplus_function())
    onnx.save(graph, os.path.join(HERE, "model.onnx"))

    # Mean squared error of a wave, five steps of AdamW on one batch; in fp64, from the f32 weights of the export.
    x = torch.randn(ROWS, 6)
    target = torch.sin(3 * x[:, :3]) + 0.1 * x[:, 3:]
    save_file({"x_0": x, "labels_0": target}, os.path.join(HERE, "batch.safetensors"))
    model = model.double()
    x, target = x.double(), target.double()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=0.0)
    losses, gradients = [], {}
    for step in range(STEPS):
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(x), target)
        loss.backward()
        losses.append(loss.item())
        if step == 0:
            gradients = {name: p.grad.flatten()[:4].tolist() for name, p in model.named_parameters()}
        optimizer.step()
    with open(os.path.join(HERE, "reference.json"), "w") as out:
        json.dump({"loss": losses, "first_gradients": gradients}, out, indent=1)
        out.write("\n")


if __name__ == "__main__":
    main()
