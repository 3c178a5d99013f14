#!/usr/bin/env python
# SPDX-License-Identifier: Apache-2.0
"""Records what PyTorch trains with losses of all kinds: tests/fixtures/losses. Needs the versions below.

  python scripts/record_losses.py [--out tests/fixtures/losses]

One small model with a head for each kind of loss trains five steps of twelve rows (batches.safetensors, from
params.safetensors). LOSS.onnx is it with a loss of its own, or with the head alone for what --loss adds; one that is there is
kept, so that a new loss changes no other's graph: remove it to export it again. reference.json says
of each loss whether it is a mean over the whole batch; the loss and the gradient's norm of each step in fp64, with the twelve
rows as one batch and, where that is another number, as the mean over 2, 3 and 6 parts of it; and the same under
torch.autocast(bfloat16) as one batch. after.safetensors has the parameters after the last step: LOSS/PARTS/NAME in fp64's
numbers, LOSS/autocast/NAME.
"""
import argparse, json, os, warnings

import onnx
import torch
import torch.nn.functional as F
from safetensors.torch import save_file

PINNED = {"torch": "2.13.0"}
KEPT = ("pkg.torch.onnx.name_scopes", "pkg.torch.onnx.class_hierarchy", "pkg.torch.onnx.fx_node")
STEPS, ROWS, POSITIONS, WIDTH, CLASSES, OUTPUTS = 5, 12, 5, 6, 4, 3
OPTIMIZER = {"lr": 1e-2, "betas": (0.9, 0.95), "eps": 1e-8, "weight_decay": 0.1}


class Net(torch.nn.Module):
    def __init__(self, loss=None):
        super().__init__()
        self.body, self.a, self.b = torch.nn.Linear(WIDTH, 8), torch.nn.Linear(8, CLASSES), torch.nn.Linear(8, CLASSES)
        self.r, self.temperature = torch.nn.Linear(8, OUTPUTS), torch.nn.Parameter(torch.tensor(0.3))
        self.register_buffer("class_weights", torch.tensor([0.5, 1.0, 2.0, 1.5]))
        self.layers = torch.nn.ModuleList(torch.nn.Linear(8, 8) for _ in range(3))  # of the losses that read their weights
        self.loss, self.term = loss, None  # of a loss of two terms: which one is asked for, None: both

    def forward(self, x, *targets):
        terms = self.loss(self, torch.tanh(self.body(x)), *targets)
        if not isinstance(terms, tuple):
            return terms
        return terms[0] + terms[1] if self.term is None else terms[self.term]


def ce(logits, labels, **options):
    return F.cross_entropy(logits.flatten(0, 1), labels.flatten(), **options)


def deep(m, h, scale=lambda w: 1):
    for layer in m.layers:
        h = h + torch.tanh(layer(h) * scale(layer.weight))
    return m.a(h)


def weighted_mean(values, weights):
    return (values * weights).sum() / weights.sum()


def twenty_means(m, h, y, z):
    values = ce(m.a(h), y, reduction="none")
    means = [weighted_mean(values, torch.exp((i // OUTPUTS + 1) / 5 * z[..., i % OUTPUTS].flatten())) for i in range(20)]
    return sum((i + 1) / 100 * mean for i, mean in enumerate(means)) + F.mse_loss(m.r(h), z)


def nll(logits, labels):
    return F.nll_loss(F.log_softmax(logits, -1).flatten(0, 1), labels.flatten())


def weighted_z(x, y, weight=None, z_loss=0.0, **options):
    """Cross entropy with PaLM's z-loss, which torch has not: the square of log Z, weighted as the label is."""
    counts = (torch.ones(x.shape[-1], dtype=x.dtype) if weight is None else weight)[y.clamp(min=0)] * (y != -100)
    return ce(x, y, weight=weight, **options) + z_loss * weighted_mean(x.logsumexp(-1)**2, counts)


def class_weights(x):
    return torch.tensor([0.5, 1.0, 2.0, 1.5], dtype=x.dtype)


# name: (loss, its inputs beside x, whether it is a mean over the whole batch). With --loss: (head, its inputs and what they are
# in the batches, True, what --loss says, definition). A loss of "terms" gives two: it is the mean over the whole batch of the
# first, and the mean over parts of the second. A head that gives a dict has several results.
LOSSES = {
    "added_cross_entropy": (lambda m, h: m.a(h), {"labels": "labels"}, True, "cross-entropy", ce),
    "added_mse": (lambda m, h: m.r(h), {"labels": "target"}, True, "mse", F.mse_loss),
    "ce_mean": (lambda m, h, y: ce(m.a(h), y), ["labels"], True),
    "ce_sum": (lambda m, h, y: ce(m.a(h), y, reduction="sum"), ["labels"], False),
    "ce_none": (lambda m, h, y: ce(m.a(h), y, reduction="none").mean(), ["labels"], True),
    "ce_masked": (lambda m, h, y, k: (ce(m.a(h), y, reduction="none") * k.flatten()).sum() / k.sum(), ["labels", "mask"], True),
    "ce_mask_means": (lambda m, h, y, k: (ce(m.a(h), y, reduction="none") * k.flatten()).mean() / k.mean(), ["labels", "mask"], True),
    "ce_valid": (lambda m, h, y: ce(m.a(h), y, reduction="sum") / (y != -100).sum().clamp(min=1), ["labels"], True),
    "ce_ignore_index": (lambda m, h, y: ce(m.a(h), y, ignore_index=0), ["classes"], True),
    "ce_class_weights": (lambda m, h, y: ce(m.a(h), y, weight=m.class_weights), ["labels"], True),
    "ce_class_weights_sum": (lambda m, h, y: ce(m.a(h), y, weight=m.class_weights, reduction="sum"), ["labels"], False),
    "label_smoothing": (lambda m, h, y: ce(m.a(h), y, label_smoothing=0.1), ["labels"], True),
    "label_smoothing_sum": (lambda m, h, y: ce(m.a(h), y, label_smoothing=0.1, reduction="sum"), ["labels"], False),
    "nll": (lambda m, h, y: nll(m.a(h), y), ["labels"], True),
    "mse_mean": (lambda m, h, y: F.mse_loss(m.r(h), y), ["target"], True),
    "mse_sum": (lambda m, h, y: F.mse_loss(m.r(h), y, reduction="sum"), ["target"], False),
    "l1": (lambda m, h, y: F.l1_loss(m.r(h), y), ["target"], True),
    "smooth_l1": (lambda m, h, y: F.smooth_l1_loss(m.r(h), y), ["target"], True),
    "bce": (lambda m, h, y: F.binary_cross_entropy(torch.sigmoid(m.r(h)), torch.sigmoid(y)), ["target"], True),
    "bce_with_logits": (lambda m, h, y: F.binary_cross_entropy_with_logits(m.r(h), torch.sigmoid(y)), ["target"], True),
    "two_means": (lambda m, h, y, z: ce(m.a(h), y) + 0.5 * ce(m.b(h), z), ["labels", "others"], True),
    "means_of_two_kinds": (lambda m, h, y, z: 0.3 * F.mse_loss(m.r(h), z) - (-ce(m.a(h), y)), ["labels", "target"], True),
    "mean_and_sum": (lambda m, h, y, z: (ce(m.a(h), y), 0.1 * F.mse_loss(m.r(h), z, reduction="sum")), ["labels", "target"], "terms"),
    "product": (lambda m, h, y, z: ce(m.a(h), y) * (1 + F.mse_loss(m.r(h), z)), ["labels", "target"], False),
    "square_root": (lambda m, h, y: F.mse_loss(m.r(h), y).sqrt(), ["target"], False),
    "scaled": (lambda m, h, y: torch.exp(m.temperature) * ce(m.a(h), y), ["labels"], True),
    "penalty": (lambda m, h, y: ce(m.a(h), y) + 0.01 * m.a.weight.pow(2).sum(), ["labels"], True),
    "penalty_on_layers": (lambda m, h, y: ce(deep(m, h), y) + 0.01 * sum(layer.weight.pow(2).sum() for layer in m.layers), ["labels"], True),
    "weights_in_layers": (lambda m, h, y: ce(deep(m, h, lambda w: 1 / (1 + w.pow(2).mean())), y), ["labels"], True),
    "twenty_means": (twenty_means, ["classes", "target"], True),
    "sum_over_rows_first": (lambda m, h, y: (ce(m.a(h), y), 0.1 * m.r(h).mean((0, 1)).pow(2).sum()), ["labels"], "terms"),
    "added_l1": (lambda m, h: m.r(h), {"labels": "target"}, True, "l1", F.l1_loss),
    "added_huber": (lambda m, h: m.r(h), {"labels": "target"}, True, "huber:delta=0.5", lambda x, y: F.huber_loss(x, y, delta=0.5)),
    "added_smooth_l1": (lambda m, h: m.r(h), {"labels": "target"}, True, "smooth-l1:beta=0.5",
                        lambda x, y: F.smooth_l1_loss(x, y, beta=0.5)),
    "added_bce_with_logits": (lambda m, h: m.r(h), {"labels": "shares"}, True, "bce-with-logits",
                              F.binary_cross_entropy_with_logits),
    "added_nll": (lambda m, h: F.log_softmax(m.a(h), -1), {"labels": "labels"}, True, "nll",
                  lambda x, y: F.nll_loss(x.flatten(0, 1), y.flatten())),
    "added_nll_weighted": (lambda m, h: F.log_softmax(m.a(h), -1), {"labels": "labels"}, True, "nll:class_weights=0.5,1,2,1.5",
                           lambda x, y: F.nll_loss(x.flatten(0, 1), y.flatten(), weight=class_weights(x))),
    "added_kl_div": (lambda m, h: F.log_softmax(m.a(h), -1), {"labels": "probabilities"}, True, "kl-div",
                     lambda x, y: F.kl_div(x, y, reduction="batchmean")),
    "added_kl_div_of_logarithms": (lambda m, h: F.log_softmax(m.a(h), -1), {"labels": "logarithms"}, True, "kl-div:log_target=1",
                                   lambda x, y: F.kl_div(x, y, reduction="batchmean", log_target=True)),
    "added_cosine_embedding": (lambda m, h: m.r(h), {"other_embeddings": "target", "signs": "signs"}, True,
                               "cosine-embedding:margin=0.25",
                               lambda x, y, z: F.cosine_embedding_loss(x.flatten(0, 1), y.flatten(0, 1), z.flatten(), margin=0.25)),
    "added_label_smoothing": (lambda m, h: m.a(h), {"labels": "labels"}, True, "cross-entropy:label_smoothing=0.125",
                              lambda x, y: ce(x, y, label_smoothing=0.125)),
    "added_z_loss": (lambda m, h: m.a(h), {"labels": "labels"}, True, "cross-entropy:z_loss=0.0625",
                     lambda x, y: weighted_z(x, y, z_loss=0.0625)),
    "added_class_weights": (lambda m, h: m.a(h), {"labels": "labels"}, True, "cross-entropy:class_weights=0.5,1,2,1.5",
                            lambda x, y: ce(x, y, weight=class_weights(x))),
    "added_all_options": (lambda m, h: m.a(h), {"labels": "labels"}, True,
                          "cross-entropy:class_weights=0.5,1,2,1.5,label_smoothing=0.125,z_loss=0.0625",
                          lambda x, y: weighted_z(x, y, weight=class_weights(x), z_loss=0.0625, label_smoothing=0.125)),
    "added_poisson_nll": (lambda m, h: m.r(h), {"labels": "shares"}, True, "poisson-nll", F.poisson_nll_loss),
    "added_sum_of_two_heads": (lambda m, h: {"logits": m.a(h), "value": m.r(h)}, {"logits_labels": "labels", "value_labels": "target"},
                               True, "cross-entropy@logits+0.5*mse@value",
                               lambda x, y, z: ce(x["logits"], y) + 0.5 * F.mse_loss(x["value"], z)),
    "added_sum_of_two_weights": (lambda m, h: {"a": m.a(h), "b": m.b(h)}, {"a_labels": "labels", "b_labels": "others"}, True,
                                 "cross-entropy@a+0.5*cross-entropy@b:label_smoothing=0.125",
                                 lambda x, y, z: ce(x["a"], y) + 0.5 * ce(x["b"], z, label_smoothing=0.125)),
    "added_sum_with_own": (lambda m, h: {"logits": m.a(h), "aux": torch.exp(m.temperature) * m.r(h).pow(2).mean()}, {"labels": "labels"},
                           True, "cross-entropy@logits+0.1*own@aux", lambda x, y: ce(x["logits"], y) + 0.1 * x["aux"]),
    "added_sum_of_one_input": (lambda m, h: m.r(h), {"labels": "target"}, True, "mse+0.25*l1",
                               lambda x, y: F.mse_loss(x, y) + 0.25 * F.l1_loss(x, y)),
    "added_factor": (lambda m, h: m.a(h), {"labels": "labels"}, True, "2*cross-entropy", lambda x, y: 2 * ce(x, y)),
}


def make_model(loss=None):
    torch.manual_seed(3)
    model = Net(loss)
    with torch.no_grad():
        for p in model.parameters():
            p.copy_(p.bfloat16().float())  # so that all types see the same
    return model


def make_batches():
    g = torch.Generator().manual_seed(5)
    out = []
    for _ in range(STEPS):
        shape = (ROWS, POSITIONS)
        classes = torch.randint(0, CLASSES, shape, generator=g)
        classes[:, 0] = 1  # no two rows without a label
        labels, others = classes.clone(), torch.randint(0, CLASSES, shape, generator=g)
        for ignored, share in ((labels, 0.1), (others, 0.6)):
            # of the first rows almost all count, of the last few: micro-batches weigh differently
            odds = torch.linspace(share, 0.9, ROWS)[:, None]
            drop = torch.rand(shape, generator=g) < odds
            drop[:, 0] = False
            ignored[drop] = -100
        mask = (torch.rand(shape, generator=g) < torch.linspace(0.9, 0.3, ROWS)[:, None]).float()
        mask[:, 0] = 0.5
        out.append({"x": torch.randn(ROWS, POSITIONS, WIDTH, generator=g), "labels": labels, "others": others, "classes": classes,
                    "mask": mask, "target": torch.randn(ROWS, POSITIONS, OUTPUTS, generator=g)})
    g = torch.Generator().manual_seed(6)  # what came later: the numbers above stay as they are
    for batch in out:
        logarithms = torch.log_softmax(torch.randn(ROWS, POSITIONS, CLASSES, generator=g), -1)
        probabilities = torch.softmax(torch.randn(ROWS, POSITIONS, CLASSES, generator=g), -1)
        probabilities[:, 0] = torch.eye(CLASSES)[torch.randint(0, CLASSES, (ROWS,), generator=g)]  # some are exactly 0 and 1
        batch.update({"logarithms": logarithms, "probabilities": probabilities,
                      "shares": torch.rand(ROWS, POSITIONS, OUTPUTS, generator=g),
                      "signs": torch.randint(0, 2, (ROWS, POSITIONS), generator=g).float() * 2 - 1})
    return out


def train(entry, batches, parts, dtype, autocast=False):
    definition = entry[4] if len(entry) > 3 else None
    model = make_model(entry[0]).to(dtype)
    parameters = list(model.parameters())
    optimizer = torch.optim.AdamW(parameters, **OPTIMIZER)
    losses, norms = [], []
    for batch in batches:
        optimizer.zero_grad(set_to_none=True)
        total = 0
        two_terms = entry[2] == "terms"
        cuts = [(slice(part * ROWS // parts, (part + 1) * ROWS // parts), 1 if two_terms else None, parts) for part in range(parts)]
        if two_terms:
            cuts.append((slice(0, ROWS), 0, 1))
        for rows, model.term, share in cuts:
            t = {k: v[rows].to(dtype) if v.is_floating_point() else v[rows] for k, v in batch.items()}
            with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
                targets = [t[name] for name in (entry[1] if definition is None else entry[1].values())]
                if definition is None:
                    loss = model(t["x"], *targets)
                else:
                    results = model(t["x"])
                    several = isinstance(results, dict)
                    results = {k: v.to(dtype) for k, v in results.items()} if several else results.to(dtype)
                    loss = definition(results, *targets)
            loss = loss / share
            loss.backward()
            total += loss.item()
        losses.append(total)
        norms.append(torch.sqrt(sum((p.grad.double()**2).sum() for p in parameters if p.grad is not None)).item())
        optimizer.step()
    used = {n: p.detach().clone() for n, p in model.named_parameters() if p.grad is not None}
    return losses, norms, used


def export(name, entry, batch, path):
    model = make_model(entry[0]).eval()
    inputs = [] if len(entry) > 3 else entry[1]
    results = model(batch["x"]) if len(entry) > 3 else None
    names = list(results) if isinstance(results, dict) else None
    dim = torch.export.Dim("batch", min=1)
    two = {k: v[:2].contiguous() for k, v in batch.items()}
    shapes = {"x": {0: dim}, **({"targets": tuple({0: dim} for _ in inputs)} if inputs else {})}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = torch.onnx.export(model, (two["x"], *(two[i] for i in inputs)), dynamo=True, optimize=False, verbose=False,
                                    input_names=["x", *inputs], output_names=names, dynamic_shapes=shapes)
    proto = program.model_proto
    for owner in [proto, proto.graph, *proto.graph.node, *proto.graph.value_info, *proto.graph.input, *proto.graph.output,
                  *proto.graph.initializer]:
        kept = [p for p in owner.metadata_props if p.key in KEPT]
        kept = [p for p in kept if p.key != KEPT[2] or any(w in p.value for w in ("%p_", "%b_", "cross_entropy_loss"))]
        del owner.metadata_props[:]
        owner.metadata_props.extend(kept)
        if hasattr(owner, "doc_string"):
            owner.doc_string = ""
    for function in proto.functions:
        del function.metadata_props[:]
    onnx.save(proto, path)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", default="tests/fixtures/losses")
    out = parser.parse_args().out
    assert torch.__version__.split("+")[0] == PINNED["torch"], f"torch {PINNED['torch']} is needed"
    torch.use_deterministic_algorithms(True)
    torch.set_num_threads(1)
    os.makedirs(out, exist_ok=True)
    batches = make_batches()
    save_file({f"{k}_{s}": v.contiguous() for s, b in enumerate(batches) for k, v in b.items()}, f"{out}/batches.safetensors")
    save_file({n: p.detach().clone() for n, p in make_model().named_parameters()}, f"{out}/params.safetensors")
    record = {"torch": PINNED["torch"], "rows": ROWS, "steps": STEPS, "optimizer": {**OPTIMIZER, "name": "AdamW", "decay": "all"},
              "losses": []}
    after = {}
    for name, entry in LOSSES.items():
        row = {"name": name, "whole": entry[2] is True, "option": entry[3] if len(entry) > 3 else "",
               "inputs": {"x": "x", **(entry[1] if len(entry) > 3 else {i: i for i in entry[1]})}, "parts": {}}
        for parts in (1,) if entry[2] is True else (1, 2, 3, 6):
            losses, norms, parameters = train(entry, batches, parts, torch.float64)
            row["parts"][str(parts)] = {"loss": losses, "grad_norm": norms}
            after.update({f"{name}/{parts}/{n}": p.float() for n, p in parameters.items()})
        losses, norms, parameters = train(entry, batches, 1, torch.float32, autocast=True)
        row["autocast"] = {"loss": losses, "grad_norm": norms}
        after.update({f"{name}/autocast/{n}": p for n, p in parameters.items()})
        record["losses"].append(row)
        if not os.path.exists(f"{out}/{name}.onnx"):
            export(name, entry, batches[0], f"{out}/{name}.onnx")
    save_file(after, f"{out}/after.safetensors")
    with open(f"{out}/reference.json", "w") as f:
        json.dump(record, f, indent=1)
        f.write("\n")


if __name__ == "__main__":
    main()
