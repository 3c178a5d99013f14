#!/usr/bin/env python
# SPDX-License-Identifier: Apache-2.0
"""Makes tests/fixtures: small models as PyTorch exports them, with the numbers PyTorch gets. Needs the versions below.

  python scripts/make_fixtures.py [--out tests/fixtures] [--only mlp,llama2]

For each model: VARIANT.{logits,loss}.onnx; params, grads (of step 0), params_after (of all steps) and batch .safetensors;
reference.json with the optimizer, the loss and the gradient norm of each step in f32 and f64. Names are the framework's. Of the
exporter's metadata, the files keep what names modules and parameters (scopes, classes, traced nodes that take a parameter).
"""
import copy, os, types, warnings

import numpy as np
import onnx
import torch
import transformers
from onnx import TensorProto, helper, numpy_helper
from safetensors.torch import save_file
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

import fixture_files
from fixture_files import OPTIMIZER, adamw, arguments, norm_of_gradients, save_reference, save_tensors

STEPS, BATCH, SEQ, VOCABULARY = 5, 2, 8, 48


class MLP(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Sequential(torch.nn.Linear(12, 16), torch.nn.ReLU(), torch.nn.Linear(16, 16), torch.nn.Tanh(),
                                       torch.nn.Linear(16, 5))

    def forward(self, x):
        return self.net(x)


class Chain(torch.nn.Module):
    """What goes into the first layer is the graph's input."""

    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Sequential(torch.nn.Linear(12, 6), torch.nn.Tanh(), torch.nn.Linear(6, 12))
                                          for _ in range(3))
        self.head = torch.nn.Linear(12, 5)

    def forward(self, x):
        for layer in self.layers:
            x = x + layer(x)
        return self.head(x)


class Deep(torch.nn.Module):
    """Each layer makes small numbers smaller: with parameters of N(0, 0.02) nothing of the input reaches the logits."""

    def __init__(self):
        super().__init__()
        linear = lambda i, o: torch.nn.Linear(i, o, bias=False)
        self.net = torch.nn.Sequential(linear(12, 8), torch.nn.Tanh(), linear(8, 8), torch.nn.Tanh(), linear(8, 8), torch.nn.Tanh(),
                                       linear(8, 8), torch.nn.Tanh(), linear(8, 5))

    def forward(self, x):
        return self.net(x)


class Head(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.k, self.v = (torch.nn.Linear(12, 2, bias=False) for _ in range(3))

    def forward(self, x):
        return torch.tanh(self.q(x)) * self.k(x) + self.v(x)


class Heads(torch.nn.Module):
    """Products of one input, three of each head: 201 of them."""

    def __init__(self):
        super().__init__()
        self.heads = torch.nn.ModuleList(Head() for _ in range(67))
        self.out = torch.nn.Linear(134, 5)

    def forward(self, x):
        return self.out(torch.cat([head(x) for head in self.heads], -1))


class Rung(torch.nn.Module):
    def __init__(self, shared):
        super().__init__()
        self.shared, self.own = shared, torch.nn.Linear(8, 8, bias=False)

    def forward(self, h, e):
        t = torch.tanh(self.shared(h))
        return h + self.own(t) * e, t


class Ladder(torch.nn.Module):
    """What goes into the first layer is read in every layer and behind the last; so is what each layer keeps; layers share
    a weight with each other and with what stands behind them."""

    def __init__(self):
        super().__init__()
        self.embed = torch.nn.Embedding(VOCABULARY, 8)
        shared = torch.nn.Linear(8, 8)
        self.rungs = torch.nn.ModuleList(Rung(shared) for _ in range(4))
        self.mix = torch.nn.Linear(32, 8, bias=False)
        self.again = shared
        self.head = torch.nn.Linear(8, VOCABULARY)

    def forward(self, input_ids, use_cache=False):
        e = h = self.embed(input_ids)
        kept = []
        for rung in self.rungs:
            h, t = rung(h, e)
            kept.append(t)
        h = self.again(h + e + self.mix(torch.cat(kept, -1)))
        return types.SimpleNamespace(logits=self.head(h))


def llama(layers, tied=False):
    return LlamaForCausalLM(LlamaConfig(
        vocab_size=VOCABULARY, hidden_size=16, intermediate_size=24, num_hidden_layers=layers, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=32, rms_norm_eps=1e-5, tie_word_embeddings=tied))


class Logits(torch.nn.Module):
    """What is exported: the model, giving its logits alone."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, x):
        return self.model(x)


class LanguageLogits(Logits):
    def forward(self, input_ids):
        return self.model(input_ids=input_ids, use_cache=False).logits


class Loss(Logits):
    def forward(self, x, labels):
        return torch.nn.functional.cross_entropy(self.model(x), labels)


class LanguageLoss(Logits):
    def forward(self, input_ids, labels):
        return self.model(input_ids=input_ids, labels=labels, use_cache=False).loss


def randomized(model):
    """Moves every parameter off its initial value, so that no two are equal by initialisation."""
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for p in model.parameters():
            p.add_(0.1 * torch.randn(p.shape, generator=generator))
    return model


def batches(language, rows=BATCH):
    g = torch.Generator().manual_seed(2)
    out = {}
    for k in range(STEPS):
        if not language:
            out[f"x_{k}"] = torch.randn(4, 12, generator=g)
            out[f"labels_{k}"] = torch.randint(0, 5, (4,), generator=g)
            continue
        ids = torch.randint(0, VOCABULARY, (rows, SEQ), generator=g)
        own = ids.clone()
        own[0, 3] = -100                       # a token that no loss is taken on
        shifted = torch.cat([own[:, 1:], torch.full((rows, 1), -100)], 1)
        out[f"input_ids_{k}"], out[f"hf_labels_{k}"], out[f"labels_{k}"] = ids, own, shifted
    return {k: v.contiguous() for k, v in out.items()}


def named(model):
    """Parameters under the first of their names; the other names of tied ones."""
    first, out, tied = {}, {}, {}
    for name, p in model.named_parameters(remove_duplicate=False):
        if id(p) in first:
            tied[name] = first[id(p)]
        else:
            first[id(p)] = name
            out[name] = p
    return out, tied


def train(model, batch, language, dtype, recipe=OPTIMIZER):
    model = copy.deepcopy(model).to(dtype)
    optimizer = adamw(model.parameters(), recipe)
    losses, norms, grads = [], [], {}
    for k in range(STEPS):
        if language:
            logits = model(input_ids=batch[f"input_ids_{k}"], use_cache=False).logits
        else:
            logits = model(batch[f"x_{k}"].to(dtype))
        loss = torch.nn.functional.cross_entropy(logits.reshape(-1, logits.shape[-1]), batch[f"labels_{k}"].reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        params, _ = named(model)
        if k == 0:
            grads = {n: p.grad.detach().clone() for n, p in params.items()}
        norms.append(norm_of_gradients(params.values()))
        losses.append(float(loss))
        optimizer.step()
    return losses, norms, grads, {n: p.detach().clone() for n, p in named(model)[0].items()}


def trim(path, strip=False):
    fixture_files.trim(path, **({"kept": lambda *_: False} if strip else {}))


def unname(path):
    """Takes from a stripped graph what else tells of the model: names of initializers, nodes and values."""
    model = onnx.load(path)
    graph = model.graph
    kept = {v.name for v in list(graph.input) + list(graph.output)}
    renamed = {t.name: f"t_{k}" for k, t in enumerate(graph.initializer)}
    for node in graph.node:
        for output in node.output:
            if output and output not in kept:
                renamed[output] = f"v_{len(renamed)}"
    for k, node in enumerate(graph.node):
        if any(a.HasField("g") for a in node.attribute):
            raise SystemExit("a subgraph has values of its own")
        node.name = f"n_{k}"
        node.input[:] = [renamed.get(v, v) for v in node.input]
        node.output[:] = [renamed.get(v, v) for v in node.output]
    for t in graph.initializer:
        t.name = renamed[t.name]
    onnx.save(model, path)


def export(model, args, names, output, path, opset=20, optimize=True, dynamic=None, legacy=False):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if legacy:
            torch.onnx.export(model.eval(), args, path, input_names=names, output_names=[output], opset_version=opset, dynamo=False)
        else:
            torch.onnx.export(model.eval(), args, path, input_names=names, output_names=[output], opset_version=opset, dynamo=True,
                              optimize=optimize, dynamic_shapes=dynamic, external_data=False, verbose=False)
    trim(path)


def variants(name, model, fresh, folder, wanted, batch, language):
    names = ["input_ids"] if language else ["x"]
    inputs = (batch["input_ids_0"],) if language else (batch["x_0"],)
    labels = (batch["hf_labels_0" if language else "labels_0"],)
    for variant in wanted:
        kind, what = variant.split(".")
        nameless = kind.startswith("nameless")
        kind = kind.removeprefix("nameless").removeprefix("_") or "dynamo" if nameless else kind
        base = fresh if kind == "fresh" else copy.deepcopy(model).bfloat16() if kind == "bf16" else model
        wrap = {("logits", True): LanguageLogits, ("logits", False): Logits, ("loss", True): LanguageLoss,
                ("loss", False): Loss}[what, language](base)
        args, n = (inputs, names) if what == "logits" else (inputs + labels, names + ["labels"])
        dynamic = None
        if kind == "dyn":
            b, s = torch.export.Dim("batch"), torch.export.Dim("seq")
            dynamic = tuple({0: b, 1: s} if language else {0: b} for _ in n)
        export(wrap, args, n, what if what == "loss" else "logits", f"{folder}/{variant}.onnx",
               opset={"dynamo18": 18, "dynamo23": 23}.get(kind, 20), optimize=kind != "noopt", dynamic=dynamic, legacy=kind == "legacy")
        if kind == "stripped" or nameless:
            trim(f"{folder}/{variant}.onnx", strip=True)
        if nameless:
            unname(f"{folder}/{variant}.onnx")


def make(out, name, build, language, wanted, rows=BATCH):
    folder = f"{out}/{name}"
    os.makedirs(folder, exist_ok=True)
    torch.manual_seed(0)
    fresh = build().eval()
    model = randomized(copy.deepcopy(fresh)).eval()
    if isinstance(model, LlamaForCausalLM):
        model.tie_weights()
        fresh.tie_weights()
    batch = batches(language, rows)
    losses, norms, grads, after = train(model, batch, language, torch.float32)
    losses64, norms64, _, _ = train(model, batch, language, torch.float64)
    params, tied = named(model)
    save_tensors(folder, params=params, grads=grads, params_after=after, batch=batch)
    save_reference(folder, {"name": name, "torch": torch.__version__.split("+")[0], "transformers": transformers.__version__, "prefix": "model.",
               "steps": STEPS, "inputs": ["input_ids"] if language else ["x"],
               "loss_graph_inputs": {"input_ids": "input_ids", "labels": "hf_labels"} if language else {"x": "x", "labels": "labels"},
               "loss_kind": "cross_entropy", "ignore_index": -100, "optimizer": OPTIMIZER, "tied": tied, "frozen": [],
               "buffers_updated": [], "noise_tensors": {}, "parameters": {n: list(p.shape) for n, p in params.items()},
               "loss": losses, "grad_norm": norms, "loss64": losses64, "grad_norm64": norms64})
    variants(name, model, fresh, folder, wanted, batch, language)


# ---- models for several ranks ---------------------------------------------------------------------------------------------


class OddMLP(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Sequential(torch.nn.Linear(11, 13), torch.nn.ReLU(), torch.nn.Linear(13, 7), torch.nn.Tanh(), torch.nn.Linear(7, 5))

    def forward(self, x):
        return self.net(x)


RANKS_ROWS, RANKS_SEQ, RANKS_VOCABULARY = 24, 5, 31


def ranks_llama():
    return LlamaForCausalLM(LlamaConfig(
        vocab_size=RANKS_VOCABULARY, hidden_size=14, intermediate_size=9, num_hidden_layers=5, num_attention_heads=7, num_key_value_heads=1,
        head_dim=4, max_position_embeddings=8, rms_norm_eps=1e-5, tie_word_embeddings=False))


def ranks_gpt2():
    return GPT2LMHeadModel(GPT2Config(
        vocab_size=RANKS_VOCABULARY, n_positions=RANKS_SEQ, n_embd=14, n_layer=3, n_head=2, n_inner=9, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0,
        tie_word_embeddings=True))


def ranks_models(out):
    """Batches of any size, since each rank has a part of the same rows, and no tensor of which every world has an equal part. There
    are no numbers of PyTorch's: the judge is the program of one rank."""
    for name, build, language in [("ranks_llama", ranks_llama, True), ("ranks_gpt2", ranks_gpt2, True), ("ranks_mlp", OddMLP, False)]:
        folder = f"{out}/{name}"
        os.makedirs(folder, exist_ok=True)
        torch.manual_seed(0)
        model = randomized(build().eval())
        if language:
            model.tie_weights()
        params, _ = named(model)
        save_tensors(folder, params=params)
        rows = torch.zeros(RANKS_ROWS, RANKS_SEQ, dtype=torch.int64) if language else torch.zeros(RANKS_ROWS, 11)
        export((LanguageLogits if language else Logits)(model), (rows,), ["input_ids" if language else "x"], "logits", f"{folder}/dyn.logits.onnx",
               optimize=name != "ranks_gpt2", dynamic=({0: torch.export.Dim("batch")},))  # which folds the positions


# ---- graphs that test the frontend alone ----------------------------------------------------------------------------------


def graph(nodes, inputs, outputs, initializers=(), functions=(), opset=20, domains=()):
    g = helper.make_graph(nodes, "graph", inputs, outputs, initializers)
    imports = [helper.make_opsetid("", opset)] + [helper.make_opsetid(d, 1) for d in domains]
    return helper.make_model(g, opset_imports=imports, functions=list(functions), ir_version=10)


def tensor(name, dims, kind=TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, kind, dims)


def scoped(node, scopes, classes):
    node.metadata_props.add(key="pkg.torch.onnx.name_scopes", value=repr(scopes))
    node.metadata_props.add(key="pkg.torch.onnx.class_hierarchy", value=repr(classes))
    return node


def frontend_graphs(out):
    folder = f"{out}/frontend"
    os.makedirs(folder, exist_ok=True)
    save = lambda name, model: onnx.save(model, f"{folder}/{name}.onnx")
    x, y = tensor("x", [2, 3]), tensor("y", [2, 3])
    unknown = scoped(helper.make_node("Sofmax", ["x"], ["y"], name="node_7"), ["", "model", "model.mlp", "act"],
                     ["Root", "pkg.Model", "pkg.MLP", "aten.act"])
    save("unknown_operator", graph([unknown], [x], [y]))
    save("unknown_domain", graph([helper.make_node("FancyOp", ["x"], ["y"], name="fancy", domain="com.example")], [x], [y], domains=["com.example"]))
    save("opset_12", graph([helper.make_node("Relu", ["x"], ["y"], name="r")], [x], [y], opset=12))
    save("layer_norm_before_17", graph([helper.make_node("LayerNormalization", ["x", "w"], ["y"], name="norm")], [x], [y],
                                 [numpy_helper.from_array(np.ones(3, np.float32), "w")], opset=16))
    save("data_dependent", graph([helper.make_node("Expand", ["x", "s"], ["y"], name="expand")], [x, tensor("s", [2], TensorProto.INT64)], [y]))
    save("bad_reshape", graph([helper.make_node("Reshape", ["x", "shape"], ["y"], name="view")], [x], [tensor("y", [4, 2])],
                              [numpy_helper.from_array(np.array([4, 2], np.int64), "shape")]))
    save("string_input", graph([helper.make_node("Identity", ["x"], ["y"])], [tensor("x", [2], TensorProto.STRING)], [tensor("y", [2], TensorProto.STRING)]))
    save("half", graph([helper.make_node("Add", ["x", "layer.bias"], ["y"], name="add")],
                       [tensor("x", [2, 3], TensorProto.FLOAT16)], [tensor("y", [2, 3], TensorProto.FLOAT16)],
                       [numpy_helper.from_array(np.array([0.5, -2, 65504], np.float16), "layer.bias")]))
    save("bfloat16", graph([helper.make_node("Add", ["x", "layer.bias"], ["y"], name="add")],
                           [tensor("x", [2, 3], TensorProto.BFLOAT16)], [tensor("y", [2, 3], TensorProto.BFLOAT16)],
                           [helper.make_tensor("layer.bias", TensorProto.BFLOAT16, [3], [0.5, -2, 65536])]))
    # A model-local function with an attribute of its own, called twice.
    body = [helper.make_node("Mul", ["a", "a"], ["square"]), helper.make_node("ReduceSum", ["square", "axes"], ["b"])]
    body[1].attribute.append(onnx.AttributeProto(name="keepdims", ref_attr_name="keep", type=onnx.AttributeProto.INT))
    square = helper.make_function("local", "SquareSum", ["a", "axes"], ["b"], body, [helper.make_opsetid("", 20)], ["keep"])
    axes = numpy_helper.from_array(np.array([1], np.int64), "axes")
    calls = [helper.make_node("SquareSum", ["x", "axes"], ["p"], name="first", domain="local", keep=1),
             helper.make_node("SquareSum", ["x", "axes"], ["q"], name="second", domain="local", keep=0)]
    save("local_function", graph(calls, [x], [tensor("p", [2, 1]), tensor("q", [2])], [axes], [square], domains=["local"]))
    # Operators that ONNX itself defines by a function body.
    save("schema_function", graph([helper.make_node("HardSwish", ["x"], ["h"], name="hard_swish"),
                                   helper.make_node("Celu", ["h"], ["y"], name="celu", alpha=2.0)], [x], [y]))
    save("if_constant", graph([helper.make_node("Constant", [], ["c"], value=numpy_helper.from_array(np.array(True))),
                               helper.make_node("If", ["c"], ["y"], name="branch",
                                                then_branch=helper.make_graph([helper.make_node("Neg", ["x"], ["t"])], "then", [], [y_named("t")]),
                                                else_branch=helper.make_graph([helper.make_node("Abs", ["x"], ["e"])], "else", [], [y_named("e")]))], [x], [y]))
    # Shape arithmetic over a symbol, as exporters write it.
    sx = tensor("x", ["batch", "seq", 6])
    arithmetic = [helper.make_node("Shape", ["x"], ["b"], start=0, end=1), helper.make_node("Shape", ["x"], ["s"], start=1, end=2),
                  helper.make_node("Concat", ["b", "s", "heads", "minus"], ["to"], axis=0),
                  helper.make_node("Reshape", ["x", "to"], ["split"]), helper.make_node("Transpose", ["split"], ["y"], perm=[0, 2, 1, 3]),
                  helper.make_node("Squeeze", ["s"], ["n"]), helper.make_node("Range", ["zero", "n", "one"], ["positions"])]
    save("dynamic", graph(arithmetic, [sx], [tensor("y", None), tensor("positions", None, TensorProto.INT64)],
                          [numpy_helper.from_array(np.array([2], np.int64), "heads"), numpy_helper.from_array(np.array([-1], np.int64), "minus"),
                           numpy_helper.from_array(np.array(0, np.int64), "zero"), numpy_helper.from_array(np.array(1, np.int64), "one")]))
    save("three_symbols", graph([helper.make_node("Relu", ["x"], ["y"])], [tensor("x", ["n", "t", "channels"])], [tensor("y", ["n", "t", "channels"])]))
    save("nll", graph([helper.make_node("LogSoftmax", ["x"], ["p"], axis=1), helper.make_node("NegativeLogLikelihoodLoss", ["p", "t"], ["y"])],
                      [x, tensor("t", [2], TensorProto.INT64)], [tensor("y", [])]))
    # Where a function has a kink, what its gradient is there is the framework's convention.
    number = lambda name, value: numpy_helper.from_array(np.array(value, np.float32), name)
    kinks = [helper.make_node("Clip", ["v", "low", "high"], ["c"]), helper.make_node("Elu", ["v"], ["e"], alpha=0.5),
             helper.make_node("HardSigmoid", ["v"], ["h"], alpha=0.25), helper.make_node("Mul", ["e", "ten"], ["e10"]),
             helper.make_node("Mul", ["h", "hundred"], ["h100"]), helper.make_node("Sum", ["c", "e10", "h100"], ["s"]),
             helper.make_node("ReduceSum", ["s"], ["loss"], keepdims=0)]
    save("kinks", graph(kinks, [tensor("v", [8])], [tensor("loss", [])], [number("low", -1), number("high", 0.5), number("ten", 10), number("hundred", 100)]))
    # Fewer indices than data along the other axis, as torch.gather has it.
    save("gather_fewer", graph([helper.make_node("GatherElements", ["x", "i"], ["y"], axis=0)], [tensor("x", [3, 4]), tensor("i", [2, 3], TensorProto.INT64)],
                               [tensor("y", [2, 3])]))
    # Ids that are cut and shifted before they are looked up, labels that are chosen.
    shifted = [helper.make_node("Slice", ["input_ids", "zero", "minus", "one"], ["cut"], name="cut"), helper.make_node("Add", ["cut", "two"], ["ids"], name="shift"),
               helper.make_node("Gather", ["embed.weight", "ids"], ["logits"], name="embed")]
    whole = lambda name, value: numpy_helper.from_array(np.array(value, np.int64), name)
    save("shifted_ids", graph(shifted, [tensor("input_ids", [2, 5], TensorProto.INT64)], [tensor("logits", [2, 4, 6])],
                              [whole("zero", [0]), whole("minus", [-1]), whole("one", [1]), whole("two", 2),
                               numpy_helper.from_array(np.random.default_rng(0).normal(size=(11, 6)).astype(np.float32), "embed.weight")]))
    save("unbounded_ids", graph([helper.make_node("Cast", ["x"], ["ids"], name="cast", to=TensorProto.INT64), helper.make_node("Gather", ["embed.weight", "ids"], ["logits"], name="embed")],
                                [tensor("x", [2, 4])], [tensor("logits", [2, 4, 6])],
                                [numpy_helper.from_array(np.random.default_rng(0).normal(size=(11, 6)).astype(np.float32), "embed.weight")]))
    # An attention whose first position may read nothing.
    attend = [helper.make_node("MatMul", ["x", w], [w[0]], name=w[0]) for w in ("q.weight", "k.weight", "v.weight")]
    attend += [helper.make_node("Attention", ["q", "k", "v", "seen"], ["y"], name="attention", q_num_heads=1, kv_num_heads=1)]
    weights = np.random.default_rng(0).normal(size=(3, 4, 4)).astype(np.float32)
    save("nothing_to_read", graph(attend, [tensor("x", [1, 3, 4])], [tensor("y", [1, 3, 4])],
                                  [numpy_helper.from_array(weights[k], f"{'qkv'[k]}.weight") for k in range(3)] +
                                  [numpy_helper.from_array(np.array([[0, 0, 0], [1, 1, 0], [1, 1, 1]], bool), "seen")], opset=23))
    # A loss that is flat wherever it does not jump.
    flat = [helper.make_node("MatMul", ["x", "layer.weight"], ["h"], name="layer"), helper.make_node("Floor", ["h"], ["f"], name="floor"),
            helper.make_node("ReduceMean", ["f"], ["loss"], name="mean", keepdims=0)]
    save("no_gradient", graph(flat, [x], [tensor("loss", [])], [numpy_helper.from_array(np.ones((3, 4), np.float32) / 7, "layer.weight")]))
    # Weights in a file beside the graph.
    weight = np.arange(12, dtype=np.float32).reshape(4, 3) / 7
    external = graph([helper.make_node("Gemm", ["x", "layer.weight"], ["y"], name="gemm", transB=1)], [x], [tensor("y", [2, 4])],
                     [numpy_helper.from_array(weight, "layer.weight")])
    if os.path.exists(f"{folder}/external.onnx.data"):
        os.remove(f"{folder}/external.onnx.data")       # it would be appended to
    onnx.save(external, f"{folder}/external.onnx", save_as_external_data=True, location="external.onnx.data", size_threshold=0)


def odd_graph(out):
    """A model of operators that no composite is made of, with names and scopes that mean nothing to anybody, and a loss that is
    no mean: what is written for it, is written for any graph."""
    os.makedirs(f"{out}/odd", exist_ok=True)
    def node(op, inputs, output, scope="", **attributes):
        made = helper.make_node(op, inputs, [output], name=f"node_{output}", **attributes)
        return scoped(made, ["", scope] if scope else [""], ["Tides", "Basin" if scope else "Tides"])
    g = np.random.default_rng(3)
    array = lambda name, *dims: numpy_helper.from_array((0.5 + 0.2 * g.standard_normal(dims)).astype(np.float32), name)
    number = lambda name, value: numpy_helper.from_array(np.array(value, np.float32), name)
    basin = lambda i, x, y: [
        node("Mul", [x, f"basins.{i}.period"], f"phase_{i}", f"basins.{i}"), node("Sin", [f"phase_{i}"], f"swell_{i}", f"basins.{i}"),
        node("Sub", [f"swell_{i}", f"basins.{i}.level"], f"height_{i}", f"basins.{i}"),
        node("Softplus", [f"height_{i}"], f"depth_{i}", f"basins.{i}"),
        node("ReduceMax", [x, "rows"], f"crest_{i}", f"basins.{i}", keepdims=1),
        node("Div", [f"depth_{i}", f"crest_{i}"], f"ratio_{i}", f"basins.{i}"), node("Add", [x, f"ratio_{i}"], y, f"basins.{i}")]
    nodes = basin(0, "gauge", "second") + basin(1, "second", "third") + [
        node("Abs", ["third"], "size"), node("Add", ["size", "one"], "above"), node("Log", ["above"], "logarithm"),
        node("Transpose", ["logarithm"], "turned", perm=[1, 0]), node("Mul", ["turned", "shore.slope"], "sloped", "shore"),
        node("Greater", ["sloped", "half"], "dry", "shore"), node("Reciprocal", ["turned"], "inverse", "shore"),
        node("Where", ["dry", "sloped", "inverse"], "line", "shore"), node("Cos", ["line"], "tide"),
        node("ReduceSum", ["tide", "columns"], "total", keepdims=0), node("ReduceLogSumExp", ["total"], "flood", keepdims=0)]
    weights = [array("basins.0.period", 10), array("basins.0.level", 6, 1), array("basins.1.period", 10),
               array("basins.1.level", 6, 1), array("shore.slope", 10, 6)]
    onnx.save(graph(nodes, [tensor("gauge", [6, 10])], [tensor("flood", [])], weights + [number("one", 1), number("half", 0.5),
        numpy_helper.from_array(np.array([1], np.int64), "rows"), numpy_helper.from_array(np.array([0], np.int64), "columns")]),
        f"{out}/odd/tides.loss.onnx")

    def flood(p, x):    # the same in PyTorch
        for i in range(2):
            depth = torch.nn.functional.softplus(torch.sin(x * p[f"basins.{i}.period"]) - p[f"basins.{i}.level"])
            x = x + depth / x.amax(1, keepdim=True)
        turned = torch.log(x.abs() + 1).T
        sloped = turned * p["shore.slope"]
        return torch.logsumexp(torch.cos(torch.where(sloped > 0.5, sloped, 1 / turned)).sum(0), 0)

    params = {w.name: torch.from_numpy(numpy_helper.to_array(w).copy()) for w in weights}
    batch = {f"gauge_{k}": torch.from_numpy(g.uniform(0.5, 2, (6, 10)).astype(np.float32)) for k in range(STEPS)}
    def train_odd(dtype):
        p = {n: w.clone().to(dtype).requires_grad_() for n, w in params.items()}
        optimizer = adamw(p.values())
        losses, norms, grads = [], [], {}
        for k in range(STEPS):
            loss = flood(p, batch[f"gauge_{k}"].to(dtype))
            optimizer.zero_grad()
            loss.backward()
            grads = grads or {n: w.grad.clone() for n, w in p.items()}
            norms.append(norm_of_gradients(p.values()))
            losses.append(loss.item())
            optimizer.step()
        return losses, norms, grads, {n: w.detach() for n, w in p.items()}
    losses, norms, grads, after = train_odd(torch.float32)
    losses64, norms64, _, _ = train_odd(torch.float64)
    save_tensors(f"{out}/odd", params=params, grads=grads, params_after=after, batch=batch)
    save_reference(f"{out}/odd", {"name": "odd", "torch": torch.__version__.split("+")[0], "prefix": "model.", "steps": STEPS, "inputs": ["gauge"],
               "loss_graph_inputs": {"gauge": "gauge"}, "optimizer": OPTIMIZER, "tied": {}, "frozen": [], "buffers_updated": [],
               "noise_tensors": {}, "parameters": {n: list(p.shape) for n, p in params.items()}, "loss": losses,
               "grad_norm": norms, "loss64": losses64, "grad_norm64": norms64})


# ---- operators, against ONNX's own reference implementation ---------------------------------------------------------------


def operator_cases(opset):
    """(operator, inputs, attributes): an array is an input of the graph, a Const an initializer, None is absent."""
    r = np.random.default_rng(3)
    f = lambda *dims: (r.random(dims, np.float32) * 4 - 2).astype(np.float32)
    i = lambda low, high, *dims: r.integers(low, high, dims).astype(np.int64)
    c = lambda *values: Const(np.array(values, np.int64))
    s = lambda value, kind=np.int64: Const(np.array(value, kind))
    x, y = f(2, 3, 4), f(3, 1)
    cases = [(op, [x], {}) for op in "Abs Neg Sign Exp Sin Cos Tanh Sigmoid Erf Relu Floor Ceil Round Softplus Reciprocal HardSigmoid LeakyRelu Elu Selu".split()]
    cases += [(op, [np.abs(x) + 0.1], {}) for op in ("Log", "Sqrt")]
    cases += [(op, [x, y], {}) for op in "Add Sub Mul Div Less LessOrEqual Greater GreaterOrEqual Max Min".split()]
    cases += [("Max", [x, y, f(4)], {}), ("Min", [x, y, f(4)], {}), ("Sum", [x, y, f(4)], {}), ("Mean", [x, y, f(4)], {})]
    cases += [("Equal", [i(0, 2, 3, 2), i(0, 2, 2)], {}), ("Pow", [np.abs(x), y], {}), ("Pow", [x, s(3)], {})]
    cases += [("Mod", [i(-9, 9, 2, 5), s(4)], {}), ("Div", [i(-9, 9, 2, 5), s(4)], {}), ("IsNaN", [np.array([1, np.nan, np.inf], np.float32)], {})]
    cases += [("Where", [x > 0, x, y], {}), ("Clip", [x, s(-1, np.float32), s(0.5, np.float32)], {}), ("Clip", [x, None, s(0.5, np.float32)], {})]
    cases += [("Not", [x > 0], {}), ("And", [x > 0, y > 0], {}), ("Or", [x > 0, y > 0], {}), ("Xor", [x > 0, y > 0], {})]
    cases += [("Cast", [x], {"to": TensorProto.INT64}), ("Cast", [x], {"to": TensorProto.BOOL}), ("Cast", [i(0, 3, 4)], {"to": TensorProto.FLOAT})]
    cases += [("MatMul", [f(2, 3, 4), f(4, 5)], {}), ("MatMul", [f(4), f(2, 4, 3)], {}), ("MatMul", [f(2, 3, 4), f(4)], {}), ("MatMul", [f(4), f(4)], {})]
    cases += [("Gemm", [f(3, 2), f(4, 3), f(4)], {"transA": 1, "transB": 1, "alpha": 0.5, "beta": 2.0}), ("Gemm", [f(2, 3), f(3, 4)], {})]
    cases += [("Reshape", [x, c(0, -1)], {}), ("Flatten", [x], {"axis": 2}), ("Flatten", [x], {"axis": -2}), ("Unsqueeze", [x, c(0, -1)], {})]
    cases += [("Squeeze", [f(1, 3, 1), c(0)], {}), ("Squeeze", [f(1, 3, 1)], {}), ("Transpose", [x], {}), ("Transpose", [x], {"perm": [1, 2, 0]})]
    cases += [("Expand", [y, c(2, 1, 4)], {}), ("Tile", [f(2, 3), c(2, 3)], {}), ("Concat", [x, x], {"axis": -1})]
    cases += [("Slice", [x, c(1), c(9), c(-1)], {}), ("Slice", [x, c(-1, 0), c(-4, 2), c(2, 1), c(-2, 1)], {}), ("Slice", [x, c(0), c(3), c(2), c(2)], {})]
    cases += [("Slice", [x, c(-1), c(np.iinfo(np.int64).min), c(1), c(-1)], {})]
    cases += [("Gather", [f(5, 3), i(0, 5, 2, 2)], {}), ("Gather", [x, c(-1, 0)], {"axis": 1}), ("Gather", [x, s(-2)], {"axis": 2})]
    cases += [("GatherND", [x, c2([[0, 1], [1, 2]])], {}), ("GatherND", [x, i(0, 3, 2, 1)], {"batch_dims": 1})]
    cases += [("GatherElements", [x, i(0, 4, 2, 3, 1)], {"axis": 2}), ("Pad", [x, c(0, 1, 0, 2, 0, 3), s(1.5, np.float32)], {})]
    cases += [("Trilu", [f(3, 4)], {}), ("Trilu", [f(3, 4), s(-1)], {"upper": 0}), ("OneHot", [i(0, 3, 2, 2), s(3), Const(np.array([-1, 2], np.float32))], {"axis": 1})]
    cases += [("EyeLike", [f(3, 4)], {"k": 1}), ("ConstantOfShape", [c(2, 3)], {"value": numpy_helper.from_array(np.array([7], np.int64))})]
    cases += [("Range", [s(1), s(8), s(3)], {}), ("Range", [s(5.0, np.float32), s(1.0, np.float32), s(-1.5, np.float32)], {}), ("Shape", [x], {}), ("Size", [x], {})]
    cases += [("ReduceSum", [x, c(1)], {"keepdims": 0}), ("ReduceSum", [x], {}), ("ReduceSum", [x], {"noop_with_empty_axes": 1})]
    names = "ReduceMean ReduceMax ReduceMin ReduceL1 ReduceL2 ReduceSumSquare ReduceLogSumExp".split()
    for name in names:
        cases += [(name, [x, c(-1, 0)], {"keepdims": 0}) if opset >= 18 else (name, [x], {"axes": [-1, 0], "keepdims": 0})]
    cases += [("ReduceLogSum", [np.abs(x)], {}), ("CumSum", [x, s(1)], {}), ("CumSum", [x, s(2)], {"exclusive": 1, "reverse": 1})]
    cases += [("Softmax", [x], {"axis": 1}), ("LogSoftmax", [x], {}), ("Dropout", [x, s(0.3, np.float32)], {})]
    cases += [("SoftmaxCrossEntropyLoss", [f(4, 5), i(0, 5, 4)], {"reduction": how}) for how in ("mean", "sum", "none")]
    cases += [("SoftmaxCrossEntropyLoss", [f(2, 5, 3), i(0, 5, 2, 3)], {}), ("SoftmaxCrossEntropyLoss", [f(4, 5), np.array([1, -100, 3, 0])], {"ignore_index": -100})]
    cases += [("NegativeLogLikelihoodLoss", [f(4, 5), i(0, 5, 4)], {}), ("SoftmaxCrossEntropyLoss", [f(4, 5), i(0, 5, 4), np.abs(f(5))], {})]
    if opset >= 17:
        cases += [("LayerNormalization", [x, f(4), f(4)], {}), ("LayerNormalization", [x, f(3, 4)], {"axis": 1, "epsilon": 1e-3})]
    if opset >= 18:
        cases += [("Pad", [x, c(1, 2), s(0.0, np.float32), c(-1)], {})]
    if opset >= 20:
        cases += [("Gelu", [x], {}), ("Gelu", [x], {"approximate": "tanh"})]
    if opset >= 23:
        q, k, v = f(2, 4, 3, 8), f(2, 4, 5, 8), f(2, 4, 5, 8)
        cases += [("RMSNormalization", [x, f(4)], {"epsilon": 1e-4}), ("Attention", [q, k, v], {}), ("Attention", [q, k[:, :2], v[:, :2]], {"scale": 0.3})]
        cases += [("Attention", [q, k, v, f(3, 5)], {}), ("Attention", [q, k, v, Const(np.tri(3, 5).astype(bool))], {}), ("Attention", [q, k, v], {"is_causal": 1})]
        cases += [("Attention", [f(2, 3, 16), f(2, 5, 8), f(2, 5, 8)], {"q_num_heads": 4, "kv_num_heads": 2}), ("Attention", [q, k, v], {"softcap": 0.7})]
    # Indices that count from the end, several along an axis.
    cases += [("GatherElements", [x, i(-3, 3, 2, 5, 4)], {"axis": 1}), ("GatherElements", [f(3, 2), c2([[-1, 0], [2, -3]])], {})]
    cases += [("Gather", [f(5, 3), i(-5, 5, 2, 2)], {})]
    cases += [("GatherND", [x, i(-2, 2, 3, 2)], {}), ("GatherND", [x, c2([[-1, -3], [0, 2]])], {})]
    cases += [("OneHot", [i(-4, 5, 2, 5), s(3), Const(np.array([-1, 2], np.float32))], {}), ("OneHot", [i(-3, 3, 4), s(3), c(7, -7)], {"axis": 0})]
    cases += [("Slice", [x, c(1), c(1), c(1), c(2)], {}), ("Slice", [x, c(2), c(1), c(1), c(3)], {}), ("Slice", [x, c(3), c(0), c(2), c(-2)], {})]
    # A bound that is met, bounds that cross, what is no number, integers.
    edges = np.array([-1, -1.5, 0, 0.5, 0.75, np.nan, np.inf, -np.inf], np.float32)
    cases += [("Clip", [edges, s(-1, np.float32), s(0.5, np.float32)], {}), ("Clip", [edges, s(1, np.float32), s(-1, np.float32)], {})]
    cases += [("Clip", [i(-9, 9, 3, 4), s(-2), s(5)], {}), ("Clip", [edges, None, None], {})]
    ties = np.array([[1, 3, 3, -1], [-2, np.nan, 5, np.nan], [np.inf, 1, np.inf, -np.inf]], np.float32)
    for name in ("ArgMax", "ArgMin"):
        cases += [(name, [ties], {"axis": -1}), (name, [ties], {"axis": 1, "select_last_index": 1, "keepdims": 0}), (name, [x], {}),
                  (name, [i(-3, 3, 4, 6)], {"axis": 1}), (name, [np.array([5, np.iinfo(np.int64).min, 7, np.iinfo(np.int64).max])], {})]
    axes = lambda *a, **more: ([c(*a)], more) if opset >= 18 else ([], {"axes": list(a), **more})
    for args, more in (axes(1), axes(-1, 0, keepdims=0)):
        cases += [("ReduceProd", [x] + args, more)]
    cases += [("ReduceProd", [i(-3, 4, 2, 3)], {}), ("Pow", [i(-4, 5, 2, 3), s(2.0, np.float32)], {}), ("Pow", [s([4, 9, 10]), s([0.5, 0.5, 1.5], np.float32)], {})]
    # Scales and biases that differ from row to row; the cap is below masks; a position without a key gets 0.
    if opset >= 17:
        cases += [("LayerNormalization", [f(2, 2), f(2, 1)], {}), ("LayerNormalization", [f(2, 2), f(2), f(2, 1)], {}), ("LayerNormalization", [f(2, 3), f(2, 1)], {})]
        cases += [("LayerNormalization", [f(2, 2, 2), f(1, 1, 2), f(2, 2, 2)], {"axis": 1}), ("LayerNormalization", [f(2, 3, 4), f(3, 1), f(1)], {"axis": 1})]
        cases += [("LayerNormalization", [f(2, 3), f(1, 3), f(3)], {})]
    if opset >= 23:
        cases += [("RMSNormalization", [f(2, 2), f(2, 1)], {}), ("RMSNormalization", [f(2, 2, 2), f(2, 1, 2)], {"axis": 1}), ("RMSNormalization", [f(2, 3, 4), f(3, 4)], {})]
        square, some = (q, k[:, :, :3], v[:, :, :3]), np.array([[0, 0, 0], [1, 1, 0], [1, 1, 1]], bool)
        cases += [("Attention", [*square], {"softcap": 1.0, "is_causal": 1}), ("Attention", [*square, np.tri(3, dtype=bool)], {"softcap": 1.0})]
        cases += [("Attention", [*square, some], {}), ("Attention", [*square, Const(some)], {}), ("Attention", [*square, np.where(some, f(3, 3), np.float32(-np.inf))], {"softcap": 2.0})]
        cases += [("Attention", [*square, some.T.copy()], {"is_causal": 1})]
    # Integers that no double is.
    odd = 2**53 + 1
    cases += [("ConstantOfShape", [c(2, 3)], {"value": numpy_helper.from_array(np.array([v], np.int64))}) for v in (odd, -odd)]
    cases += [("OneHot", [i(0, 3, 4), s(3), c(0, odd)], {}), ("OneHot", [i(-3, 3, 4), s(3), c(-odd, 5)], {"axis": 0})]
    cases += [("Range", [s(a), s(b), s(d)], {}) for a, b, d in ((odd - 1, odd + 3, 1), (2**62 + 3, 2**62 - 4, -2), (-odd, -odd - 2, -1), (2**63 - 4, 2**63 - 1, 2), (odd, odd - 1, -1))]
    # Integers that are narrower than any type of the compiler's wrap around.
    for kind in (TensorProto.INT8, TensorProto.UINT8, TensorProto.INT16, TensorProto.UINT16, TensorProto.UINT32):
        cases += [("Cast", [np.array([0, 1, -1, 127, 128, 255, 256, -129, 32768, 65535, 70000, -40000, 5000000000, -5000000000])], {"to": kind})]
    for kind in (np.int8, np.uint8, np.int16, np.uint16):
        a, b = (np.array(v).astype(kind) for v in ([100, 200, -3, 30000, 60000, 3, 7], [100, 100, 5, 30000, 60000, 5, 2]))
        cases += [(op, [a, b], {}) for op in (["Add", "Sub", "Mul"] if opset >= 14 else [])] + [("Concat", [a, b], {"axis": 0})]
    # Integers of 32 bits are held in 64 while compiling, and wrap around there, too.
    least, most, large = -2**31, 2**31 - 1, [2**40 + 5, -2**40 - 5, 2**31, -2**31 - 1]
    for a in (lambda v: np.array(v, np.int32), lambda v: s(v, np.int32)):
        cases += [("Add", [a([most, least]), a([1, -1])], {}), ("Sub", [a([least, most]), a([1, -1])], {}), ("Neg", [a([least, 3])], {})]
        cases += [("Mul", [a([60000, most]), a([60000, most])], {}), ("Abs", [a([least, -3])], {}), ("CumSum", [a([most, most, 5]), s(0)], {})]
        cases += [("ReduceSum", [a([most, most, 7]), c(0)], {})]
    cases += [("Cast", [np.array(large)], {"to": TensorProto.INT32}), ("Cast", [s(large)], {"to": TensorProto.INT32})]
    if opset >= 14:
        cases += [("Add", [s([200, 100], np.uint8), s([100, 7], np.uint8)], {}), ("Cast", [x > 0], {"to": TensorProto.UINT8})]
    return cases


class Const:
    def __init__(self, value):
        self.value = value


def c2(value):
    return Const(np.array(value, np.int64))


def operator_graphs(out):
    from onnx.reference import ReferenceEvaluator
    for opset in (13, 17, 20, 23):
        nodes, inputs, outputs, initializers, feeds = [], [], [], [], {}
        for n, (op, args, attributes) in enumerate(operator_cases(opset)):
            if op == "Trilu" and opset < 14:
                continue
            names = []
            for j, a in enumerate(args):
                name = "" if a is None else f"{n}_{op}_in{j}"
                names.append(name)
                if isinstance(a, Const):
                    initializers.append(numpy_helper.from_array(a.value, name))
                elif a is not None:
                    inputs.append(tensor(name, list(a.shape), helper.np_dtype_to_tensor_dtype(a.dtype)))
                    feeds[name] = a
            nodes.append(helper.make_node(op, names, [f"{n}_{op}"], name=f"{n}_{op}", **attributes))
            outputs.append(helper.make_empty_tensor_value_info(f"{n}_{op}"))
        model = graph(nodes, inputs, outputs, initializers, opset=opset)
        results = ReferenceEvaluator(model).run(None, feeds)
        onnx.save(model, f"{out}/frontend/operators_{opset}.onnx")
        arrays = dict(feeds) | {o.name: np.asarray(v) for o, v in zip(outputs, results)}
        arrays = {k: torch.from_numpy(v.astype(np.float32 if v.dtype.kind == "f" else np.int64).copy()) for k, v in arrays.items()}
        save_file(arrays, f"{out}/frontend/operators_{opset}.safetensors")


def y_named(name):
    return tensor(name, [2, 3])


MODELS = {
    "mlp": (MLP, False, "dynamo.logits dynamo.loss noopt.loss dyn.logits dyn.loss legacy.logits".split()),
    "llama1": (lambda: llama(1), True, "dynamo.logits noopt.logits".split()),
    "llama2": (lambda: llama(2), True, "dynamo.logits dynamo.loss bf16.logits dynamo18.logits dynamo23.logits dynamo23.loss dyn.logits dyn.loss "
                                       "fresh.logits noopt.logits noopt.loss stripped.logits nameless.logits nameless_noopt.logits "
                                       "nameless_fresh.logits".split()),
    "llama2_tied": (lambda: llama(2, tied=True), True, "dynamo.logits fresh.logits nameless.logits".split()),
    "chain": (Chain, False, ["dynamo.logits"]),
    "deep": (Deep, False, ["dynamo.logits"]),
    "ladder": (Ladder, True, ["dynamo.logits"]),
    "heads": (Heads, False, ["stripped.logits"]),
    "llama5": (lambda: llama(5), True, "dynamo.logits nameless.logits".split()),
}


def main():
    a = arguments(__doc__, torch, transformers)
    for model, (build, language, wanted) in MODELS.items():
        if a.wants(model):
            make(a.out, model, build, language, wanted)
    if a.wants("frontend"):
        frontend_graphs(a.out)
        operator_graphs(a.out)
    if a.wants("odd"):
        odd_graph(a.out)
    if a.wants("ranks"):
        ranks_models(a.out)


if __name__ == "__main__":
    main()
