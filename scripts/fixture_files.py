# SPDX-License-Identifier: Apache-2.0
"""What the scripts that make tests/fixtures share: the versions that they are made with, what a file keeps of an export, the
recipe of PyTorch's runs, what is written of one, and their command line."""
import argparse, json, logging, os, re, zipfile

import onnx
import torch
from safetensors.torch import save_file

PINNED = {"torch": "2.13.0", "transformers": "5.23.0"}
SCOPES, CLASSES, TRACED = KEPT = ("pkg.torch.onnx.name_scopes", "pkg.torch.onnx.class_hierarchy", "pkg.torch.onnx.fx_node")
SIGNATURE = "pkg.torch.export.ExportedProgram.graph_signature"
OPTIMIZER = {"name": "AdamW", "lr": 1e-3, "betas": [0.9, 0.95], "eps": 1e-8, "weight_decay": 0.1, "decay_all": True,
             "clip": None, "schedule": "constant"}


def arguments(doc, *modules, out="tests/fixtures", **options):
    """The command line of a script that makes fixtures with these modules: --out and --only, which gives wants(name), and `options`:
    NAME="help", or NAME=None for a flag. Versions are checked, one thread computes, and exporters are quiet."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", default=out, help=f"where they go (default: {out})")
    parser.add_argument("--only", default="", help="names with commas between them; else all")
    for name, text in options.items():
        parser.add_argument(f"--{name}", **({"action": "store_true"} if text is None else {"default": "", "help": text}))
    found = parser.parse_args()
    only = set(filter(None, found.only.split(",")))
    found.wants = lambda name: not only or name in only
    check_versions(*modules)
    logging.disable(logging.WARNING)
    torch.set_num_threads(1)
    return found


def check_versions(*modules):
    for module in modules:
        found, wanted = module.__version__.split("+")[0], PINNED[module.__name__]
        if found != wanted:
            raise SystemExit(f"{module.__name__} {wanted} is pinned, {found} is installed")


def adamw(parameters, recipe=OPTIMIZER):
    return torch.optim.AdamW(parameters, lr=recipe["lr"], betas=recipe["betas"], eps=recipe["eps"], weight_decay=recipe["weight_decay"])


def norm_of_gradients(parameters):
    return float(torch.sqrt(sum((p.grad.double() ** 2).sum() for p in parameters if p.grad is not None)))


def write_archive(path, entries):
    """A zip archive of (name, bytes), deflated; the same entries give the same bytes."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as out:
        for name, content in entries:
            entry = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            entry.compress_type = zipfile.ZIP_DEFLATED
            out.writestr(entry, content)


def keep_of_node(node, kept=lambda key, value: key in KEPT):
    """Leaves a node the metadata that `kept` says yes to, and no text."""
    left = [(p.key, p.value) for p in node.metadata_props if kept(p.key, p.value)]
    del node.metadata_props[:]
    for key, value in left:
        node.metadata_props.add(key=key, value=value)
    node.doc_string = ""


def keep_of_graph(graph, keys):
    left = [(p.key, p.value) for p in graph.metadata_props if p.key in keys]
    del graph.metadata_props[:]
    for key, value in left:
        graph.metadata_props.add(key=key, value=value)


def trim_nodes(path):
    """Takes from a file what its exporter tells of itself, and of nodes all but modules and traced calls."""
    model = onnx.load(path)
    for node in model.graph.node:
        keep_of_node(node)
    del model.metadata_props[:]
    onnx.save(model, path)


def trim(path, kept=lambda key, value: key in KEPT and (key != TRACED or "%p_" in value or "%b_" in value), bare=(), shorter=None,
         of_graph=()):
    """Takes from a file all but the graph and what `kept` says yes to: of traced nodes those that take a parameter or a buffer.
    Nodes of the operators `bare` keep nothing; in what others keep, `shorter` is replaced: (pattern, text). `of_graph`: keys that
    the graph keeps. Shapes are inferred by whoever reads the file."""
    model = onnx.load(path)
    for node in model.graph.node:
        keep_of_node(node, kept)
        if node.op_type in bare:
            del node.metadata_props[:]
        for p in node.metadata_props:
            p.value = re.sub(*shorter, p.value) if shorter else p.value
    for value in list(model.graph.value_info) + list(model.graph.input) + list(model.graph.output) + list(model.graph.initializer):
        del value.metadata_props[:]
        value.doc_string = ""
    del model.graph.value_info[:]
    keep_of_graph(model.graph, of_graph)
    del model.metadata_props[:]
    model.doc_string = ""
    model.producer_version = ""
    onnx.save(model, path)


def save_tensors(folder, **files):
    """FILE.safetensors for each FILE={name: tensor}."""
    for what, tensors in files.items():
        save_file({k: v.detach().contiguous() for k, v in tensors.items()}, os.path.join(folder, what + ".safetensors"))


def save_reference(folder, values):
    """reference.json: what a run of PyTorch gave, and what tests have to know of it."""
    with open(os.path.join(folder, "reference.json"), "w") as f:
        json.dump(values, f, indent=1)
