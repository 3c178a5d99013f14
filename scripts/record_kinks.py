#!/usr/bin/env python
# SPDX-License-Identifier: Apache-2.0
"""Records what PyTorch gives where functions have a pole, a kink or a jump: value and gradient, in f32. Needs the versions below.

  python scripts/record_kinks.py [--out tests/fixtures/kinks]

Each line of CASES is a function at some special places. All of them are one graph, exported with the exporter's optimizer
(dynamo.onnx) and without it (noopt.onnx), since the two leave different operators. in.safetensors has its inputs,
CASE_x, CASE_y, ..., and a cotangent for each result, dCASE; out.safetensors has what PyTorch gives: CASE, dCASE_x, ... Of the
exporter's metadata the files keep which function of torch each node is of.

Beside it, `saturated` is a classifier that is trained where these places are: rows whose probability is exactly 0 or 1, right and
wrong, and rows of zeros, in which relu and a norm stand at their kinks. As in make_fixtures.py: what training reads and gives.

reference.json names them: `op` and `at` say which of an op's kinks (OpDef::kinks) it is, and with `operands` the op alone is
held to these numbers as well. An op that says it has a kink and has no line here fails the tests.
"""
import argparse, copy, json, math, os, warnings

import onnx
import torch
import torch.nn.functional as F
from safetensors.torch import save_file

PINNED = {"torch": "2.13.0"}
KEPT = ("pkg.torch.onnx.fx_node",)
INF, NAN = math.inf, math.nan
TINY = 1e-20


class Input:
    """An operand that is the case's input of this name."""

    def __init__(self, name):
        self.name = name


X, Y, Z = Input("x"), Input("y"), Input("z")


def case(name, torch_text, inputs, op="", at="", operands=None, attributes=None, gives=""):
    """`inputs`: values of x, y, z, nested lists. `operands` of the op: inputs, or numbers. `gives`: what ours is, and why,
    where torch's gradient is infinite and ours is not."""
    return dict(name=name, torch=torch_text, inputs=inputs, op=op, at=at, operands=operands, attributes=attributes or {}, gives=gives)


def unary(name, torch_text, values, at, op=None, attributes=None, **more):
    return case(name, torch_text, [values], op or name, at, [X], attributes, **more)


CASES = [
    # ---- elementwise ops of one operand
    unary("abs", "torch.abs(x)", [0.0, -0.0, -1.0, 1.0], "x = 0"),
    unary("sign", "torch.sign(x)", [0.0, -0.0, -1.0, 1.0], "x = 0"),
    unary("log", "torch.log(x)", [0.0, 1.0, -1.0, INF], "x = 0"),
    unary("sqrt", "torch.sqrt(x)", [0.0, 4.0, -1.0, INF], "x = 0"),
    case("rsqrt", "torch.rsqrt(x)", [[0.0, 4.0, -1.0]], "rsqrt", "x = 0", [X]),
    unary("reciprocal", "torch.reciprocal(x)", [0.0, -2.0, INF], "x = 0"),
    unary("relu", "torch.relu(x)", [0.0, -0.0, -1.0, 1.0, TINY], "x = 0"),
    unary("floor", "torch.floor(x)", [0.0, 1.0, -1.0, 0.5], "x whole"),
    unary("ceil", "torch.ceil(x)", [0.0, 1.0, -1.0, 0.5], "x whole"),
    unary("round", "torch.round(x)", [0.5, 1.5, -0.5, 2.5, 1.0], "x halfway between whole numbers"),
    # ---- of two
    case("div", "x / y", [[1.0, 0.0, -2.0, 3.0], [0.0, 0.0, -0.0, INF]], "div", "b = 0", [X, Y]),
    case("pow_base_0", "x ** y", [[0.0] * 6, [0.0, 0.5, 1.0, 2.0, 3.0, -1.0]], "pow", "a = 0", [X, Y]),
    case("pow_exponent_0", "x ** y", [[2.0, -2.0, 0.5], [0.0] * 3], "pow", "b = 0", [X, Y]),
    case("pow_base_negative", "x ** y", [[-2.0, -2.0, -2.0, -3.0], [2.0, 3.0, -1.0, 1.0]], "pow", "a < 0", [X, Y]),
    case("max", "torch.maximum(x, y)", [[1.0, 0.0, -0.0, 2.0, INF, -INF], [1.0, 0.0, 0.0, 3.0, INF, 0.0]], "max", "a = b", [X, Y]),
    case("min", "torch.minimum(x, y)", [[1.0, 0.0, -0.0, 2.0, INF, -INF], [1.0, 0.0, 0.0, 3.0, INF, 0.0]], "min", "a = b", [X, Y]),
    case("mod", "torch.remainder(x, y)", [[6.0, -6.0, 0.0, 7.0], [2.0, 2.0, 3.0, -2.0]], "mod", "a a multiple of b", [X, Y]),
    case("select", "torch.where(torch.tensor([True, False, True]), x, y)", [[1.0, NAN, INF], [NAN, 2.0, -INF]], "select",
         "no number in the branch not taken", [[True, False, True], X, Y]),
    case("where_of_log", "torch.where(x > 0, torch.log(x), x)", [[0.0, 1.0, -1.0]]),
    case("where_of_safe_log", "torch.where(x > 0, torch.log(torch.where(x > 0, x, 1.0)), x)", [[0.0, 1.0, -1.0]]),
    # ---- bounds
    case("clip", "torch.clamp(x, -0.5, 0.5)", [[-0.5, 0.5, 0.0, -1.0, 1.0, INF, -INF]], "clip", "x = low or x = high", [X, -0.5, 0.5]),
    case("clip_low", "torch.clamp(x, min=0.0)", [[0.0, -0.0, 1.0, -1.0]], "clip", "x = low or x = high", [X, 0.0]),
    case("clip_open", "F.hardtanh(x)", [[-1.0, 1.0, 0.0, -2.0, 2.0]], "clip", "x = low or x = high, open", [X, -1.0, 1.0],
         dict(open_low=True, open_high=True)),
    case("clip_tensors", "torch.clamp(x, y, z)", [[0.0, 1.0, 2.0, -1.0, 0.5], [0.0, 0.0, 0.0, 0.0, 0.5], [1.0, 1.0, 1.0, 1.0, 0.5]],
         "clip", "low = high", [X, Y, Z]),
    case("clip_crossed", "torch.clamp(x, y, z)", [[0.0, 1.0, 2.0, -1.0], [1.0] * 4, [0.0] * 4], "clip", "low > high", [X, Y, Z]),
    case("clamp_min_tensor", "torch.clamp(x, min=y)", [[0.0, 1.0, -1.0], [0.0, 1.0, 0.0]]),
    case("clamp_max_tensor", "torch.clamp(x, max=y)", [[0.0, 1.0, -1.0], [0.0, 0.5, 0.0]]),
    case("relu6", "F.relu6(x)", [[0.0, 6.0, -1.0, 3.0, 7.0]]),
    case("min_of_max", "torch.minimum(torch.maximum(x, torch.tensor(-0.5)), torch.tensor(0.5))", [[-0.5, 0.5, 0.0, 1.0]]),
    case("max_of_min", "torch.maximum(torch.minimum(x, torch.tensor(0.5)), torch.tensor(-0.5))", [[-0.5, 0.5, 0.0, 1.0]]),
    case("clamp_of_relu", "torch.relu(x).clamp(max=0.5)", [[0.0, 0.5, -1.0, 1.0]]),
    case("relu_of_clamp", "torch.relu(x.clamp(-0.5, 0.5))", [[0.0, 0.5, -1.0, 1.0]]),
    case("hardtanh_of_relu", "F.hardtanh(torch.relu(x))", [[0.0, 1.0, -1.0, 0.5]]),
    # ---- activations
    case("hardsigmoid", "F.hardsigmoid(x)", [[-3.0, 3.0, 0.0, -4.0, 4.0]]),
    case("hardswish", "F.hardswish(x)", [[-3.0, 3.0, 0.0, -4.0, 4.0]]),
    case("leaky_relu", "F.leaky_relu(x, 0.25)", [[0.0, -0.0, -1.0, 1.0]]),
    case("prelu", "F.prelu(x, y)", [[[0.0], [-0.0], [-1.0], [1.0]], [0.25]]),
    case("elu", "F.elu(x, 0.75)", [[0.0, -0.0, -1.0, 1.0, -200.0, 200.0]]),
    case("selu", "F.selu(x)", [[0.0, -0.0, -1.0, 1.0, -200.0, 200.0]]),
    case("celu", "F.celu(x, 0.75)", [[0.0, -0.0, -1.0, 1.0, -200.0, 200.0]]),
    case("softplus_threshold", "F.softplus(x, beta=2.0, threshold=3.0)", [[1.5, 1.0, 2.0, -200.0, 200.0]]),
    case("softplus_far", "F.softplus(x)", [[0.0, -200.0, 200.0, 20.0]]),
    case("mish", "F.mish(x)", [[0.0, -200.0, 200.0]]),
    case("gelu_far", "F.gelu(x)", [[0.0, -200.0, 200.0, -1e20, 1e20]]),
    case("gelu_tanh_far", "F.gelu(x, approximate='tanh')", [[0.0, -200.0, 200.0]]),
    case("silu_far", "F.silu(x)", [[0.0, -200.0, 200.0]]),
    case("sigmoid_far", "torch.sigmoid(x)", [[0.0, -200.0, 200.0, INF, -INF]]),
    case("tanh_far", "torch.tanh(x)", [[0.0, -200.0, 200.0, INF, -INF]]),
    case("softsign", "F.softsign(x)", [[0.0, -0.0, 1.0]]),
    case("softshrink", "F.softshrink(x, 0.5)", [[0.0, 0.5, -0.5, 1.0]]),
    case("hardshrink", "F.hardshrink(x, 0.5)", [[0.0, 0.5, -0.5, 1.0]]),
    case("threshold", "F.threshold(x, 0.5, 20.0)", [[0.0, 0.5, 1.0]]),
    case("trunc", "torch.trunc(x) * x", [[0.0, 1.0, -1.0, 1.5]]),
    case("frac", "torch.frac(x)", [[0.0, 1.0, -1.0, 1.5]]),
    case("sinc", "torch.sinc(x)", [[0.0, 0.5, 1.0]]),
    case("logit", "torch.logit(x, eps=0.25)", [[0.25, 0.75, 0.0, 1.0, 0.5]]),
    case("linear", "torch.relu(F.linear(x, y))", [[[0.0, 0.0], [1.0, 2.0]], [[1.0, 1.0], [0.0, 0.0], [2.0, -1.0]]], "linear", "relu of 0",
         [X, Y], dict(activation="relu")),
    case("convolution", "torch.relu(F.conv1d(x, y))", [[[[0.0, 0.0]], [[1.0, 2.0]]], [[[1.0, 1.0]], [[0.0, 0.0]], [[2.0, -1.0]]]], "convolution", "relu of 0",
         [X, Y], dict(activation="relu", strides=[1], dilations=[1], before=[0], groups=1, steps=[1])),
    case("convolution_turned_round", "torch.relu(F.conv_transpose1d(x, y))", [[[[0.0], [0.0]], [[1.0], [2.0]]], [[[1.0, 2.0]], [[-0.5, -1.0]]]],
         "convolution_backward_input", "relu of 0",
         [X, Y], dict(activation="relu", strides=[1], dilations=[1], before=[0], groups=1, image=[2])),
    # ---- logarithms and powers
    case("log1p", "torch.log1p(x)", [[-1.0, 0.0, 1.0]]),
    case("log2", "torch.log2(x)", [[0.0, 1.0]]),
    case("square", "x ** 2", [[0.0, -1.0, 2.0]]),
    case("power_0", "x ** 0", [[0.0, -1.0, 2.0]]),
    case("power_1", "x ** 1", [[0.0, -1.0, 2.0]]),
    case("power_half", "x ** 0.5", [[0.0, 4.0]]),
    case("power_3", "x ** 3", [[0.0, -1.0, 2.0]]),
    case("power_minus_1", "x ** -1", [[0.0, -2.0]]),
    case("log_sigmoid", "F.logsigmoid(x)", [[0.0, -200.0, 200.0, -90.0, 5.0]]),
    case("log_of_sigmoid", "torch.log(torch.sigmoid(x))", [[0.0, -200.0, 5.0]], gives="as logsigmoid"),
    case("xlogy", "torch.xlogy(y, x)", [[0.0, 2.0, 1.0, 0.5], [0.0, 0.0, 3.0, 2.0]]),
    case("logaddexp", "torch.logaddexp(x, y)", [[0.0, 200.0, -200.0, 1.0], [0.0, 200.0, 200.0, 2.0]]),
    # ---- reductions
    unary("reduce_max", "torch.amax(x, -1)", [[1.0, 1.0, 0.0], [0.0, 0.0, 0.0], [INF, 1.0, INF]], "ties",
          attributes=dict(axes=[-1], keep_dims=False)),
    unary("reduce_max_first", "torch.max(x, -1)[0]", [[1.0, 1.0, 0.0], [0.0, 0.0, 0.0], [-1.0, 2.0, 2.0]], "ties, first", "reduce_max",
          dict(axes=[-1], keep_dims=False, first=True)),
    unary("reduce_min", "torch.amin(x, -1)", [[1.0, 1.0, 2.0], [0.0, 0.0, 0.0], [-INF, 1.0, -INF]], "ties",
          attributes=dict(axes=[-1], keep_dims=False)),
    unary("reduce_min_first", "torch.min(x, -1)[0]", [[1.0, 1.0, 2.0], [0.0, 0.0, 0.0], [3.0, 2.0, 2.0]], "ties, first", "reduce_min",
          dict(axes=[-1], keep_dims=False, first=True)),
    case("max_of_all", "torch.max(x)", [[1.0, 3.0, 3.0]]),
    unary("reduce_prod", "torch.prod(x, -1)", [[0.0, 2.0, 3.0], [0.0, 0.0, 3.0], [1.0, -2.0, 4.0]], "factors of 0",
          attributes=dict(axes=[-1], keep_dims=False)),
    unary("softmax", "torch.softmax(x, -1)", [[-INF, 1.0, 2.0], [0.0, 0.0, -INF]], "-inf beside numbers", attributes=dict(axis=-1)),
    unary("softmax_nothing", "torch.softmax(x, -1)", [[-INF, -INF], [0.0, 1.0]], "a row of -inf", "softmax", dict(axis=-1)),
    unary("log_softmax", "torch.log_softmax(x, -1)", [[-INF, 1.0, 2.0], [0.0, 0.0, -INF]], "-inf beside numbers", attributes=dict(axis=-1)),
    unary("log_softmax_nothing", "torch.log_softmax(x, -1)", [[-INF, -INF], [0.0, 1.0]], "a row of -inf", "log_softmax", dict(axis=-1)),
    unary("log_sum_exp", "torch.logsumexp(x, -1, keepdim=True)", [[-INF, 1.0, 2.0], [0.0, 0.0, -INF], [200.0, 200.0, 199.0]],
          "-inf beside numbers", attributes=dict(axes=[-1])),
    unary("log_sum_exp_nothing", "torch.logsumexp(x, -1, keepdim=True)", [[-INF, -INF], [0.0, 1.0]], "a row of -inf", "log_sum_exp",
          dict(axes=[-1])),
    # ---- norms and deviations
    case("norm", "torch.linalg.vector_norm(x, dim=-1)", [[[0.0, 0.0], [3.0, 4.0], [0.0, -1.0]]], "sqrt", "x = 0, flat"),
    case("norm_of_all", "x.norm()", [[0.0, 0.0, 0.0]]),
    case("norm_3", "torch.linalg.vector_norm(x, ord=3, dim=-1)", [[[0.0, 0.0], [3.0, 4.0], [0.0, -1.0]]]),
    case("norm_half", "torch.linalg.vector_norm(x, ord=0.5, dim=-1)", [[[0.0, 0.0], [3.0, 4.0], [0.0, -1.0]]]),
    case("norm_1", "torch.linalg.vector_norm(x, ord=1, dim=-1)", [[[0.0, 0.0], [3.0, 4.0], [0.0, -1.0]]]),
    case("norm_inf", "torch.linalg.vector_norm(x, ord=float('inf'), dim=-1)", [[[0.0, 0.0], [3.0, -4.0], [1.0, -1.0]]]),
    case("root_of_squares", "torch.sqrt((x * x).sum(-1))", [[[0.0, 0.0], [3.0, 4.0]]]),
    case("std", "torch.std(x, -1)", [[[2.0, 2.0, 2.0], [1.0, 2.0, 4.0]]]),
    case("std_biased", "torch.std(x, -1, unbiased=False)", [[[2.0, 2.0, 2.0], [1.0, 2.0, 4.0]]]),
    case("normalize", "F.normalize(x, dim=-1)", [[[0.0, 0.0], [3.0, 4.0]]]),
    case("cosine_similarity", "F.cosine_similarity(x, y, dim=-1)", [[[0.0, 0.0], [3.0, 4.0], [0.0, 0.0]], [[1.0, 2.0], [0.0, 0.0], [0.0, 0.0]]]),
    case("pairwise_distance", "F.pairwise_distance(x, y, eps=0.0)", [[[1.0, 2.0], [3.0, 4.0]], [[1.0, 2.0], [0.0, 0.0]]]),
    case("layer_norm", "F.layer_norm(x, (3,))", [[[2.0, 2.0, 2.0], [0.0, 0.0, 0.0]]]),
    case("rms_norm", "F.rms_norm(x, (3,), eps=1e-5)", [[[0.0, 0.0, 0.0], [1.0, 2.0, 3.0]]]),
    # ---- losses
    case("binary_cross_entropy", "F.binary_cross_entropy(x, y, reduction='none')", [[0.0, 0.0, 0.5], [0.0, 1.0, 0.25]],
         "binary_cross_entropy", "p = 0", [X, Y], gives="by the target: the difference of logarithms not below -100"),
    case("binary_cross_entropy_1", "F.binary_cross_entropy(x, y, reduction='none')", [[1.0, 1.0, 0.5], [0.0, 1.0, 0.25]],
         "binary_cross_entropy", "p = 1", [X, Y], gives="by the target: the difference of logarithms not below -100"),
    case("binary_cross_entropy_near", "F.binary_cross_entropy(x, y, reduction='none')", [[TINY, 1e-13, 1e-5], [1.0, 1.0, 1.0]],
         "binary_cross_entropy", "(1 - p) p < 1e-12", [X, Y]),
    case("saturated", "F.binary_cross_entropy(torch.sigmoid(x), y)", [[-200.0, 200.0, -200.0, 200.0, 30.0, -30.0, 0.0], [1.0, 0.0, 0.0, 1.0, 0.0, 1.0, 0.5]],
         gives="by the target: the difference of logarithms not below -100"),
    case("weighted_saturated", "F.binary_cross_entropy(torch.sigmoid(x), torch.tensor([1.0, 0.0]), torch.tensor([2.0, 3.0]), reduction='sum')",
         [[-200.0, 200.0]]),
    case("with_logits", "F.binary_cross_entropy_with_logits(x, y)", [[0.0, -200.0, 200.0, -200.0, 200.0], [0.25, 1.0, 0.0, 0.0, 1.0]]),
    case("with_logits_weighted", "F.binary_cross_entropy_with_logits(x, y, pos_weight=torch.tensor(2.0))", [[0.0, -200.0, 200.0], [0.25, 1.0, 0.0]]),
    case("multilabel_soft_margin", "F.multilabel_soft_margin_loss(x, y)", [[[0.0, -200.0, 200.0]], [[1.0, 1.0, 0.0]]]),
    case("cross_entropy", "F.cross_entropy(x, torch.tensor([1, 0]), reduction='sum')", [[[-INF, 1.0, 2.0], [200.0, -200.0, 0.0]]], "cross_entropy",
         "a logit of -inf", [X, [1, 0]]),
    case("kl_div", "F.kl_div(x, torch.tensor([0.0, 0.5, 1.0]), reduction='sum')", [[-1.0, -2.0, -200.0]]),
    case("huber", "F.huber_loss(x, y, delta=0.5)", [[0.0, 0.5, -0.5, 1.0], [0.0, 0.0, 0.0, 0.0]]),
    case("smooth_l1", "F.smooth_l1_loss(x, y, beta=0.5)", [[0.0, 0.5, -0.5, 1.0], [0.0, 0.0, 0.0, 0.0]]),
    case("l1", "F.l1_loss(x, y)", [[0.0, 0.5, -0.5], [0.0, 0.5, 0.0]]),
    case("hinge", "F.margin_ranking_loss(x, y, torch.tensor([1.0, -1.0, 1.0]))", [[0.0, 1.0, 2.0], [0.0, 1.0, 1.0]]),
    case("triplet", "F.triplet_margin_loss(x, y, z, margin=1.0, eps=0.0)", [[[0.0, 0.0], [1.0, 0.0]], [[0.0, 0.0], [0.0, 0.0]], [[0.0, 0.0], [3.0, 0.0]]]),
]


class All(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.functions = [eval("lambda x=None, y=None, z=None: " + c["torch"]) for c in CASES]

    def forward(self, inputs):
        return {c["name"]: f(*inputs[c["name"]]) for c, f in zip(CASES, self.functions)}


def flat(value):
    return torch.tensor(value, dtype=torch.float32)


def recorded():
    """Inputs and cotangents by name, and what PyTorch gives."""
    model, inputs, given, out = All(), {}, {}, {}
    for c in CASES:
        inputs[c["name"]] = tuple(flat(v).requires_grad_() for v in c["inputs"])
    results = model(inputs)
    for c in CASES:
        name, y = c["name"], results[c["name"]]
        # No cotangent is 1 or 0, and neighbours differ: what is dropped, doubled or moved shows.
        dy = (1.5 - 0.25 * (torch.arange(y.numel()) % 5)).reshape(y.shape) * (-1.0) ** torch.arange(y.numel()).reshape(y.shape)
        for letter, x in zip("xyz", inputs[name]):
            given[f"{name}_{letter}"] = x.detach().clone()
        given["d" + name] = dy
        out[name] = y.detach().clone()
        grads = torch.autograd.grad(y, inputs[name], dy, allow_unused=True)
        for letter, x, g in zip("xyz", inputs[name], grads):
            out[f"d{name}_{letter}"] = torch.zeros_like(x) if g is None else g.clone()
    return given, out


def renamed(graph, names):
    for node in graph.node:
        for field in (node.input, node.output):
            for k, name in enumerate(field):
                field[k] = names.get(name, name)
    for value in list(graph.input) + list(graph.output) + list(graph.value_info):
        value.name = names.get(value.name, value.name)
    for tensor in graph.initializer:
        tensor.name = names.get(tensor.name, tensor.name)


def trimmed(model):
    for node in model.graph.node:
        kept = [(p.key, p.value) for p in node.metadata_props if p.key in KEPT]
        del node.metadata_props[:]
        for key, value in kept:
            node.metadata_props.add(key=key, value=value)
        node.doc_string = ""
    for thing in [model, model.graph, *model.graph.input, *model.graph.output, *model.graph.initializer]:
        del thing.metadata_props[:]
    del model.graph.value_info[:]
    model.producer_version = ""
    return model


def export(path, optimize, given):
    inputs = {c["name"]: tuple(given[f"{c['name']}_{l}"] for l, _ in zip("xyz", c["inputs"])) for c in CASES}
    program = torch.onnx.export(All().eval(), (), kwargs={"inputs": inputs}, dynamo=True, optimize=optimize, verbose=False)
    model = trimmed(program.model_proto)
    graph = model.graph
    # The exporter names inputs and results after its own traversal: in the order of the dictionary.
    wanted = [f"{c['name']}_{l}" for c in CASES for l, _ in zip("xyz", c["inputs"])]
    assert len(wanted) == len(graph.input), (len(wanted), len(graph.input))
    assert len(CASES) == len(graph.output)
    names = {i.name: n for i, n in zip(graph.input, wanted)} | {o.name: c["name"] for o, c in zip(graph.output, CASES)}
    assert len(names) == len(graph.input) + len(graph.output)
    # Values within the graph that happen to be called like a case step aside.
    inner = {o for node in graph.node for o in node.output} | {t.name for t in graph.initializer}
    renamed(graph, {n: n + "_inner" for n in inner & set(names.values())} | names)
    onnx.checker.check_model(model)
    onnx.save(model, path)


def description(c):
    operands = None if c["operands"] is None else [{"input": o.name} if isinstance(o, Input) else {"value": o} for o in c["operands"]]
    return {k: v for k, v in dict(name=c["name"], torch=c["torch"], op=c["op"], at=c["at"], operands=operands,
                                  attributes=c["attributes"], gives=c["gives"]).items() if v}


# ---- a model that trains there
# ---------------------------------------------------------------------------------------------------------------------------

STEPS = 5
OPTIMIZER = {"name": "AdamW", "lr": 1e-3, "betas": [0.9, 0.95], "eps": 1e-8, "weight_decay": 0.1, "decay_all": True, "clip": None,
             "schedule": "constant"}


class Classifier(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = torch.nn.Linear(12, 16, bias=False), torch.nn.Linear(16, 1)

    def forward(self, x):
        h = torch.relu(self.first(x))
        return self.second(h).squeeze(-1), h


class Loss(torch.nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, x, labels):
        z, h = self.model(x)
        return F.binary_cross_entropy(torch.sigmoid(z), labels) + 0.01 * h.norm(dim=-1).clamp(max=1.0).mean()


def saturated(folder):
    os.makedirs(folder, exist_ok=True)
    torch.manual_seed(0)
    start = Classifier()
    generator = torch.Generator().manual_seed(1)
    batch = {}
    for k in range(STEPS):
        x = torch.randn(10, 12, generator=generator)
        with torch.no_grad():
            for row in range(6):  # so far out that no step brings them back
                x[row] *= 500 / start(x)[0][row].sub(start.second.bias).abs()
            x[9] = 0.0
            z = start(x)[0]
        labels = (torch.rand(10, generator=generator) < 0.5).float()
        labels[:6] = torch.tensor([0.0, 1.0, 0.0, 1.0, 0.25, 0.75])
        batch[f"x_{k}"], batch[f"labels_{k}"] = x, labels
        assert (z[:6].abs() > 400).all() and (z[6:].abs() < 5).all(), z

    def train(dtype):
        model = copy.deepcopy(start).to(dtype)
        o = OPTIMIZER
        optimizer = torch.optim.AdamW(model.parameters(), lr=o["lr"], betas=o["betas"], eps=o["eps"], weight_decay=o["weight_decay"])
        losses, norms, first = [], [], {}
        for k in range(STEPS):
            loss = Loss(model)(batch[f"x_{k}"].to(dtype), batch[f"labels_{k}"].to(dtype))
            optimizer.zero_grad()
            loss.backward()
            grads = {n: p.grad.detach().clone() for n, p in model.named_parameters()}
            first = first or grads
            losses.append(float(loss.detach()))
            norms.append(float(torch.sqrt(sum((g.double() ** 2).sum() for g in grads.values()))))
            optimizer.step()
        return losses, norms, first, {n: p.detach().clone() for n, p in model.named_parameters()}

    losses, norms, grads, after = train(torch.float32)
    losses64, norms64, _, _ = train(torch.float64)
    params = {n: p.detach().clone() for n, p in start.named_parameters()}
    for what, tensors in [("params", params), ("grads", grads), ("params_after", after), ("batch", batch)]:
        save_file({n: t.contiguous() for n, t in tensors.items()}, os.path.join(folder, what + ".safetensors"))
    with open(os.path.join(folder, "reference.json"), "w") as f:
        json.dump({"name": "saturated", "torch": PINNED["torch"], "prefix": "model.", "steps": STEPS, "inputs": ["x"],
                   "loss_graph_inputs": {"x": "x", "labels": "labels"}, "optimizer": OPTIMIZER, "tied": {}, "frozen": [],
                   "buffers_updated": [], "noise_tensors": {}, "parameters": {n: list(p.shape) for n, p in params.items()},
                   "loss": losses, "grad_norm": norms, "loss64": losses64, "grad_norm64": norms64}, f, indent=1)
    for variant, optimize in [("dynamo", True), ("noopt", False)]:
        program = torch.onnx.export(Loss(start).eval(), (batch["x_0"], batch["labels_0"]), input_names=["x", "labels"],
                                    output_names=["loss"], dynamo=True, optimize=optimize, verbose=False)
        onnx.save(trimmed(program.model_proto), os.path.join(folder, variant + ".loss.onnx"))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", default=os.path.join(os.path.dirname(__file__), "..", "tests", "fixtures", "kinks"))
    folder = parser.parse_args().out
    assert torch.__version__.split("+")[0] == PINNED["torch"], torch.__version__
    warnings.filterwarnings("ignore")
    os.makedirs(folder, exist_ok=True)
    given, out = recorded()
    save_file(given, os.path.join(folder, "in.safetensors"))
    save_file(out, os.path.join(folder, "out.safetensors"))
    export(os.path.join(folder, "dynamo.onnx"), True, given)
    export(os.path.join(folder, "noopt.onnx"), False, given)
    saturated(os.path.join(folder, "..", "saturated"))
    with open(os.path.join(folder, "reference.json"), "w") as f:
        f.write('{"name": "kinks", "torch": "%s", "cases": [\n' % PINNED["torch"] + ",\n".join(json.dumps(description(c)) for c in CASES) + "\n]}\n")


if __name__ == "__main__":
    main()
