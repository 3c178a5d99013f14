#!/usr/bin/env python
# SPDX-License-Identifier: Apache-2.0
"""Records what torch.autocast rounds: tests/fixtures/precision. Needs the versions below; no GPU.

  python scripts/record_precision.py [--out tests/fixtures/precision]

types.json: of each op of thunderc (compiler/ops) that is an operator of PyTorch, the type that it gives for operands in bf16 and
for operands in f32, under the autocast of GPUs and that of CPUs. Fake tensors know it without computing anything.

gradients.json and MODEL_DTYPE.safetensors: models of tests/fixtures, with the parameters and the first batch of these, under
torch.autocast with the lists of GPUs: the loss, how far it is from fp64, the same of each gradient and of all as one vector
(norm of the difference over norm), and the gradients themselves. CPUs compute them: what the lists of GPUs have in f32, and
those of CPUs have not, is cast by a mode around the model. f16 scales the loss by 2^16. Attention is PyTorch's in f32 within
(SDPBackend.MATH), GPT-2's gelu the operator of that name; "usual" has how far off they are as PyTorch has them by default: with
probabilities in the narrow type, and with gelu as transformers writes it.
"""
import argparse, json, os

import torch
import torch.nn.functional as F
import transformers
from safetensors.torch import load_file, save_file
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.overrides import TorchFunctionMode
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

PINNED = {"torch": "2.13.0", "transformers": "5.24.0"}
FIXTURES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "fixtures")


def ids(x, n):
    return torch.zeros(n, dtype=torch.long, device=x.device)


# By thunderc's names, of a matrix x (4, 8).
OPERATORS = {
    "abs": torch.abs, "add": lambda x: x + x, "batch_norm": lambda x: F.batch_norm(x, None, None, training=True),
    "binary_cross_entropy": None,  # PyTorch refuses it under autocast
    "ceil": torch.ceil, "clip": lambda x: x.clamp(-1, 1), "concat": lambda x: torch.cat([x, x]),
    "convolution": lambda x: F.conv1d(x[None], x[:, None, :3].expand(4, 4, 3)), "cos": torch.cos,
    "cross_entropy": lambda x: F.cross_entropy(x, ids(x, 4)), "cumsum": lambda x: x.cumsum(-1), "div": lambda x: x / x,
    "dropout": lambda x: F.dropout(x, 0.5), "embedding": lambda x: F.embedding(ids(x, 3), x), "erf": torch.erf, "exp": torch.exp,
    "floor": torch.floor, "gather": lambda x: x.index_select(0, ids(x, 3)),
    "gather_elements": lambda x: x.gather(0, ids(x, 8)[None]), "gelu": F.gelu,
    "layer_norm": lambda x: F.layer_norm(x, (8,)), "linear": lambda x: F.linear(x, x), "log": torch.log,
    "log_softmax": lambda x: F.log_softmax(x, -1), "log_sum_exp": lambda x: x.logsumexp(-1), "matmul": lambda x: x @ x.T,
    "max": lambda x: torch.maximum(x, x), "min": lambda x: torch.minimum(x, x), "mod": lambda x: torch.remainder(x, x),
    "mul": lambda x: x * x, "neg": torch.neg, "pad": lambda x: F.pad(x, (1, 1)), "pow": lambda x: torch.pow(x, x),
    "reciprocal": torch.reciprocal, "reduce_max": lambda x: x.amax(-1), "reduce_mean": lambda x: x.mean(-1),
    "reduce_min": lambda x: x.amin(-1), "reduce_prod": lambda x: x.prod(-1), "reduce_sum": lambda x: x.sum(-1), "relu": torch.relu,
    "reshape": lambda x: x.reshape(8, 4), "rms_norm": lambda x: F.rms_norm(x, (8,)), "round": torch.round, "rsqrt": torch.rsqrt,
    "scatter_add": lambda x: torch.zeros_like(x).index_add(0, ids(x, 4), x),
    "sdpa": lambda x: F.scaled_dot_product_attention(x[None], x[None], x[None]),
    "select": lambda x: torch.where(x > 0, x, x), "sigmoid": torch.sigmoid, "sign": torch.sign, "silu": F.silu, "sin": torch.sin,
    "slice": lambda x: x[:, 1:5], "softmax": lambda x: F.softmax(x, -1), "softplus": F.softplus, "sqrt": torch.sqrt,
    "sub": lambda x: x - x, "tanh": torch.tanh, "transpose": lambda x: x.T, "trilu": torch.tril,
    "broadcast_to": lambda x: x.expand(2, 4, 8),
}


def types():
    out = {}
    for name, operator in OPERATORS.items():
        row = {}
        for device in ("cuda", "cpu"):
            with FakeTensorMode():
                given = {short: torch.empty(4, 8, device=device, dtype=dtype)
                         for short, dtype in (("bf16", torch.bfloat16), ("f32", torch.float32))}
                torch.set_autocast_enabled(device, True)  # torch.autocast itself asks for a GPU
                torch.set_autocast_dtype(device, torch.bfloat16)
                shorts = {torch.bfloat16: "bf16", torch.float32: "f32"}
                row[device] = {short: shorts[operator(x).dtype] for short, x in given.items()} if operator else None
                torch.set_autocast_enabled(device, False)
        out[name] = row
    return out


class ListsOfGPUs(TorchFunctionMode):
    """What types.json says is f32 on GPUs and bf16 on CPUs, as functions and methods of tensors."""

    NAMES = ("exp", "log", "pow", "__pow__", "rsqrt", "reciprocal", "softmax", "log_softmax", "logsumexp", "layer_norm", "rms_norm",
             "sum", "prod", "cumsum", "softplus")

    def __torch_function__(self, function, kinds, args=(), kwargs=None):
        if getattr(function, "__name__", "") in self.NAMES:
            args = [x.float() if isinstance(x, torch.Tensor) and x.is_floating_point() and x.dtype != torch.float64 else x for x in args]
        return function(*args, **(kwargs or {}))


def llama2():
    return LlamaForCausalLM(LlamaConfig(vocab_size=48, hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=4,
                                        num_key_value_heads=2, max_position_embeddings=64, rms_norm_eps=1e-5, attention_bias=False,
                                        tie_word_embeddings=False, rope_theta=10000.0))


def gpt2(usual=False):
    return GPT2LMHeadModel(GPT2Config(vocab_size=48, n_positions=16, n_embd=16, n_layer=2, n_head=2, resid_pdrop=0, embd_pdrop=0,
                                      attn_pdrop=0, activation_function="gelu_new" if usual else "gelu_pytorch_tanh"))


def mlp():
    return torch.nn.ModuleDict({"net": torch.nn.Sequential(torch.nn.Linear(12, 16), torch.nn.ReLU(), torch.nn.Linear(16, 16),
                                                           torch.nn.Tanh(), torch.nn.Linear(16, 5))})


MODELS = {
    "llama2": (llama2, lambda model, batch: model(input_ids=batch["input_ids"], use_cache=False).logits),
    "gpt2": (gpt2, lambda model, batch: model(input_ids=batch["input_ids"], use_cache=False).logits),
    "mlp": (mlp, lambda model, batch: model["net"](batch["x"])),
}


def read(name):
    parameters = load_file(f"{FIXTURES}/{name}/params.safetensors")
    batch = load_file(f"{FIXTURES}/{name}/batch.safetensors")
    return parameters, {key[:-2]: value for key, value in batch.items() if key.endswith("_0")}


def step(name, dtype, low=None, scale=1.0, usual=False):
    """The loss, and the gradients in f64, by the names of the fixture."""
    build, logits_of = MODELS[name]
    parameters, batch = read(name)
    model = build(usual) if name == "gpt2" else build()
    missing, unknown = model.load_state_dict(parameters, strict=False)
    assert not unknown and set(missing) <= {"lm_head.weight"}, (missing, unknown)
    model = model.to(dtype)
    model.train(False)  # no dropout; gradients flow all the same
    batch = {key: value.to(dtype) if value.is_floating_point() else value for key, value in batch.items()}
    backends = [SDPBackend.MATH] + [SDPBackend.FLASH_ATTENTION] * usual
    with sdpa_kernel(backends[-1:]), torch.autocast("cpu", low or torch.bfloat16, enabled=low is not None):
        if low is None:
            logits = logits_of(model, batch)
        else:
            with ListsOfGPUs():
                logits = logits_of(model, batch)
    # As autocast has it, in f32: HF's losses convert the logits themselves.
    loss = F.cross_entropy(logits.reshape(-1, logits.shape[-1]).to(dtype), batch["labels"].reshape(-1))
    with sdpa_kernel(backends[-1:]):
        (loss * scale).backward()
    return loss.item(), {key: model.get_parameter(key).grad.double() / scale for key in parameters}


def relative(a, b):
    return (torch.linalg.vector_norm(a - b) / torch.linalg.vector_norm(b)).item()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", default="tests/fixtures/precision")
    out = parser.parse_args().out
    for package, version in PINNED.items():
        found = {"torch": torch, "transformers": transformers}[package].__version__.split("+")[0]
        assert found == version, f"{package} {version} is needed, this is {found}"
    torch.use_deterministic_algorithms(True)
    torch.set_num_threads(1)
    os.makedirs(out, exist_ok=True)
    with open(f"{out}/types.json", "w") as f:
        json.dump({"torch": PINNED["torch"], "operators": types()}, f, indent=1)
        f.write("\n")
    record = {"torch": PINNED["torch"], "transformers": PINNED["transformers"], "models": {}}
    for name in MODELS:
        exact_loss, exact = step(name, torch.float64)
        with open(f"{FIXTURES}/{name}/reference.json") as f:
            known = json.load(f)["loss64"][0]
        assert abs(exact_loss - known) < 1e-12 * known, (name, exact_loss, known)
        record["models"][name] = {"loss": exact_loss}
        for short, low, scale in (("bf16", torch.bfloat16, 1.0), ("f16", torch.float16, 65536.0)):
            for usual in (True, False):
                loss, gradients = step(name, torch.float32, low, scale, usual)
                record["models"][name][short if not usual else f"{short}_usual"] = {
                    "loss": loss,
                    "gradients": relative(torch.cat([gradients[k].reshape(-1) for k in exact]),
                                          torch.cat([exact[k].reshape(-1) for k in exact]))}
            save_file({key: value.float() for key, value in gradients.items()}, f"{out}/{name}_{short}.safetensors")
    with open(f"{out}/gradients.json", "w") as f:
        json.dump(record, f, indent=1)
        f.write("\n")


if __name__ == "__main__":
    main()
