#!/usr/bin/env python
# SPDX-License-Identifier: Apache-2.0
"""Makes tests/fixtures/dropout: a small GPT in train() mode, with the numbers PyTorch gets where the same is dropped.

  python scripts/make_dropout_fixture.py [--out tests/fixtures]

The files are those of make_fixtures.py. PyTorch's own dropout draws other numbers than a program does: what is recorded is trained with
masks that are drawn here, by Philox as Salmon et al. define it, and multiplied by. What is exported are PyTorch's own layers.
"""
import copy, os, warnings

import numpy as np
import torch
import torch.nn.functional as F

from fixture_files import OPTIMIZER, PINNED, adamw, arguments, norm_of_gradients, save_reference, save_tensors, trim_nodes

STEPS, BATCH, SEQ, VOCABULARY, WIDTH, HEADS, LAYERS = 5, 2, 8, 48, 16, 2, 2
EMBEDDING_RATE, ATTENTION_RATE, LAYER_RATE = 0.1, 0.25, 0.2
SEED = 0  # a program's own default


def philox(counter, key):
    """Philox4x32-10 of arrays of 32-bit words, held in 64 bits."""
    c, k, mask = [np.asarray(x, np.uint64) for x in counter], [np.uint64(x) for x in key], np.uint64(0xFFFFFFFF)
    for _ in range(10):
        a, b = np.uint64(0xD2511F53) * c[0], np.uint64(0xCD9E8D57) * c[2]
        c = [(b >> np.uint64(32)) ^ c[1] ^ k[0], b & mask, (a >> np.uint64(32)) ^ c[3] ^ k[1], a & mask]
        k = [(k[0] + np.uint64(0x9E3779B9)) & mask, (k[1] + np.uint64(0xBB67AE85)) & mask]
    return c


assert [int(w) for w in philox([0, 0, 0, 0], [0, 0])] == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]  # Random123's known answers


class Draws:
    """The masks of a forward pass, in order: of each the number of the draw, of each row that of the sample."""

    def __init__(self, samples):
        self.samples, self.draw = samples, 0

    def dropout(self, x, rate):
        width = x[0].numel()
        place = np.arange(width, dtype=np.uint64)
        rows = []
        for sample in self.samples:
            words = philox([place // np.uint64(4), np.zeros(width, np.uint64), np.full(width, sample, np.uint64),
                            np.zeros(width, np.uint64)], [self.draw, SEED])
            word = np.choose((place % np.uint64(4)).astype(np.int64), words)
            rows.append((word >> np.uint64(8)).astype(np.float64) * 2.0 ** -24 < 1 - rate)
        self.draw += 1
        return x * torch.from_numpy(np.stack(rows)).reshape(x.shape) / (1 - rate)


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.ln_1, self.ln_2 = torch.nn.LayerNorm(WIDTH), torch.nn.LayerNorm(WIDTH)
        self.qkv, self.out = torch.nn.Linear(WIDTH, 3 * WIDTH, bias=False), torch.nn.Linear(WIDTH, WIDTH, bias=False)
        self.fc, self.proj = torch.nn.Linear(WIDTH, 2 * WIDTH, bias=False), torch.nn.Linear(2 * WIDTH, WIDTH, bias=False)
        self.drop = torch.nn.Dropout(LAYER_RATE)

    def forward(self, x, draws=None):
        batch, length, width = x.shape
        heads = lambda t: t.view(batch, length, HEADS, width // HEADS).transpose(1, 2)
        q, k, v = (heads(t) for t in self.qkv(self.ln_1(x)).split(width, 2))
        if draws is None:
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True, dropout_p=ATTENTION_RATE if self.training else 0.0)
        else:
            scores = q @ k.transpose(2, 3) / (width // HEADS) ** 0.5
            hidden = torch.ones(length, length, dtype=torch.bool).triu(1)
            y = draws.dropout(torch.softmax(scores.masked_fill(hidden, -torch.inf), 3), ATTENTION_RATE) @ v
        y = self.out(y.transpose(1, 2).reshape(batch, length, width))
        x = x + (self.drop(y) if draws is None else draws.dropout(y, LAYER_RATE))
        y = self.proj(F.gelu(self.fc(self.ln_2(x))))
        return x + (self.drop(y) if draws is None else draws.dropout(y, LAYER_RATE))


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.wte, self.wpe = torch.nn.Embedding(VOCABULARY, WIDTH), torch.nn.Parameter(torch.zeros(SEQ, WIDTH))
        self.drop = torch.nn.Dropout(EMBEDDING_RATE)
        self.h = torch.nn.ModuleList(Block() for _ in range(LAYERS))
        self.ln_f, self.head = torch.nn.LayerNorm(WIDTH), torch.nn.Linear(WIDTH, VOCABULARY, bias=False)

    def forward(self, input_ids, draws=None):
        x = self.wte(input_ids) + self.wpe
        x = self.drop(x) if draws is None else draws.dropout(x, EMBEDDING_RATE)
        for block in self.h:
            x = block(x, draws)
        return self.head(self.ln_f(x))


class Logits(torch.nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, input_ids):
        return self.model(input_ids)


def train(model, batch, dtype):
    model = copy.deepcopy(model).to(dtype)
    optimizer = adamw(model.parameters())
    losses, norms, grads = [], [], {}
    for k in range(STEPS):
        logits = model(batch[f"input_ids_{k}"], Draws(range(k * BATCH, (k + 1) * BATCH)))
        loss = F.cross_entropy(logits.reshape(-1, VOCABULARY), batch[f"labels_{k}"].reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        grads = grads or {n: p.grad.detach().clone() for n, p in model.named_parameters()}
        norms.append(norm_of_gradients(model.parameters()))
        losses.append(loss.item())
        optimizer.step()
    return losses, norms, grads, {n: p.detach() for n, p in model.named_parameters()}


def export(model, path, optimize=None):
    ids = torch.zeros(BATCH, SEQ, dtype=torch.int64)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if optimize is None:
            torch.onnx.export(model, (ids,), path, input_names=["input_ids"], output_names=["logits"], opset_version=17, dynamo=False,
                              training=torch.onnx.TrainingMode.TRAINING, do_constant_folding=False)
        else:
            torch.onnx.export(model, (ids,), path, input_names=["input_ids"], output_names=["logits"], opset_version=20, dynamo=True,
                              optimize=optimize, external_data=False, verbose=False,
                              dynamic_shapes=None if optimize else ({0: torch.export.Dim("batch")},))
    trim_nodes(path)


def main():
    folder = os.path.join(arguments(__doc__, torch).out, "dropout")
    os.makedirs(folder, exist_ok=True)
    torch.manual_seed(0)
    model = Model().train()
    for p in model.parameters():
        torch.nn.init.normal_(p, 1.0 if p.dim() == 1 else 0.0, 0.3)
    rows = torch.randint(0, VOCABULARY, (STEPS, BATCH, SEQ + 1))
    batch = {}
    for k in range(STEPS):
        batch[f"input_ids_{k}"], batch[f"labels_{k}"] = rows[k, :, :-1].contiguous(), rows[k, :, 1:].contiguous()
    params = {n: p.detach().clone() for n, p in model.named_parameters()}
    losses, norms, grads, after = train(model, batch, torch.float32)
    losses64, norms64, _, _ = train(model, batch, torch.float64)
    save_tensors(folder, params=params, grads=grads, params_after=after, batch=batch)
    save_reference(folder, {"name": "dropout", "torch": PINNED["torch"], "prefix": "model.", "steps": STEPS, "inputs": ["input_ids"],
               "loss_graph_inputs": {"input_ids": "input_ids"}, "loss_kind": "cross_entropy", "ignore_index": -100, "optimizer": OPTIMIZER,
               "tied": {}, "frozen": [], "buffers_updated": [], "noise_tensors": {},
               "parameters": {n: list(p.shape) for n, p in params.items()}, "loss": losses, "grad_norm": norms, "loss64": losses64,
               "grad_norm64": norms64})
    export(Logits(model), f"{folder}/dyn.logits.onnx", optimize=False)
    export(Logits(model), f"{folder}/dynamo.logits.onnx", optimize=True)
    export(Logits(model), f"{folder}/legacy.logits.onnx")


if __name__ == "__main__":
    main()
