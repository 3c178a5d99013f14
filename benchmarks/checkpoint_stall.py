#!/usr/bin/env python
# SPDX-License-Identifier: Apache-2.0
"""How long a checkpoint stops training, beside how long its writing takes: a program with about 1 GB of state.

  python benchmarks/checkpoint_stall.py DIR [--thunderc build/thunderc] [--onednn PREFIX] [--width 4096] [--layers 5]
  python benchmarks/checkpoint_stall.py DIR --prepare    builds the program alone; the line above then measures at once

Writes an MLP as ONNX (needs the packages onnx and safetensors), compiles it, and trains it twice: with checkpoints that are written
beside the steps, and with such that steps wait for. The log goes through a pipe, and a step is the time from one of its lines to the
next, whatever happens in between; when a checkpoint's folder appears and when it gets its name is looked at every millisecond. From the
one to the other, the stall is the longest time between two lines in which no step ran (step_ms), and the longest step is told beside
the median and the longest elsewhere: what it takes more is that the thread that writes shares the cores. Prints rows of a table."""
import argparse, json, os, shutil, statistics, subprocess, threading, time

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from safetensors.numpy import save_file


def write_model(path, width, layers):
    random, nodes, weights, x = np.random.default_rng(0), [], [], "x"
    for k in range(layers):
        weight = (random.standard_normal((width, width), dtype=np.float32) / np.float32(np.sqrt(width)))
        weights.append(numpy_helper.from_array(weight, f"layers.{k}.weight"))
        nodes += [helper.make_node("MatMul", [x, f"layers.{k}.weight"], [f"h{k}"]), helper.make_node("Tanh", [f"h{k}"], [f"y{k}"])]
        x = f"y{k}"
    shape = lambda name: helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", width])
    graph = helper.make_graph(nodes, "mlp", [shape("x")], [shape(x)], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)]), path)


class Folders(threading.Thread):
    """When each checkpoint was begun, and when it was there."""

    def __init__(self, folder):
        super().__init__(daemon=True)
        self.folder, self.begun, self.there, self.ended = folder, {}, {}, False

    def run(self):
        while not self.ended:
            now = time.monotonic()
            for name in os.listdir(self.folder) if os.path.isdir(self.folder) else []:
                if name.startswith("step-"):
                    step = int(name[5:13])
                    self.begun.setdefault(step, now)
                    if name[13:] == "":
                        self.there.setdefault(step, now)
            time.sleep(0.001)


def train(folder, steps, every, background):
    kept, pipe = os.path.join(folder, "kept"), os.path.join(folder, "log.pipe")
    shutil.rmtree(kept, ignore_errors=True)
    if os.path.exists(pipe):
        os.unlink(pipe)
    os.mkfifo(pipe)
    folders, ends = Folders(kept), {}
    folders.start()
    of_steps = {}
    run = subprocess.Popen([os.path.join(folder, "out/build/train"), "--feed", os.path.join(folder, "feed.safetensors"), "--steps",
                            str(steps), "--lr", "1e-4", "--log", pipe, "--quiet", "--checkpoint", kept, "--checkpoint-every", str(every),
                            "--keep", "1", "--checkpoint-async", "on" if background else "off"])
    with open(pipe) as log:
        for line in log:
            step = json.loads(line)
            ends[step["step"]], of_steps[step["step"]] = time.monotonic(), step["step_ms"] / 1e3
    folders.ended = True
    if run.wait() != 0:
        raise SystemExit("the program failed")
    intervals = {k: ends[k] - ends[k - 1] for k in range(2, steps)}  # the first ones warm caches up
    rows, around = [], set()
    for step in range(every, steps, every):  # the last one is written where the state lies: nothing goes on beside it
        begun, there = folders.begun[step], folders.there[step]
        inside = [k for k in intervals if ends[k] >= begun and ends[k] - intervals[k] <= there]
        around.update(inside)
        rows.append((max(intervals[k] - of_steps[k] for k in inside), max(intervals[k] for k in inside), there - begun))
    quiet = [t for k, t in intervals.items() if k not in around]
    size = sum(os.path.getsize(os.path.join(path, f)) for path, _, files in os.walk(kept) for f in files)
    return quiet, rows, size


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--thunderc", default="build/thunderc")
    parser.add_argument("--onednn")
    parser.add_argument("--width", type=int, default=4096)
    parser.add_argument("--layers", type=int, default=5)
    parser.add_argument("--rows", type=int, default=64)
    parser.add_argument("--steps", type=int, default=81)
    parser.add_argument("--every", type=int, default=20)
    parser.add_argument("--prepare", action="store_true")
    o = parser.parse_args()
    os.makedirs(o.folder, exist_ok=True)
    model, out = os.path.join(o.folder, "mlp.onnx"), os.path.join(o.folder, "out")
    if not os.path.exists(os.path.join(out, "build/train")):
        write_model(model, o.width, o.layers)
        subprocess.run([o.thunderc, "train", model, "--loss", "mse", "--batch", str(o.rows), "--device", "cpu", "-o", out, "--quiet"],
                       check=True)
        subprocess.run(["cmake", "-S", out, "-B", out + "/build", "-G", "Ninja", *([f"-DONEDNN_ROOT={o.onednn}"] if o.onednn else [])],
                       check=True, stdout=subprocess.DEVNULL)
        subprocess.run(["cmake", "--build", out + "/build"], check=True, stdout=subprocess.DEVNULL)
        random = np.random.default_rng(1)
        save_file({f"{name}_0": random.standard_normal((o.rows, o.width), dtype=np.float32) for name in ("x", "labels")},
                  os.path.join(o.folder, "feed.safetensors"))
    if o.prepare:
        return
    print("| checkpoints | state, MB | a step, ms | longest | around a checkpoint | stall, ms | writing, ms | stall / writing |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|")
    for background in (True, False):
        quiet, rows, size = train(o.folder, o.steps, o.every, background)
        stall, longest, writing = (1e3 * statistics.median(column) for column in zip(*rows))
        print(f"| {'beside the steps' if background else 'waited for'} | {size / 1e6:.0f} | {1e3 * statistics.median(quiet):.0f} | "
              f"{1e3 * max(quiet):.0f} | {longest:.0f} | {stall:.0f} | {writing:.0f} | {stall / writing:.3f} |", flush=True)


if __name__ == "__main__":
    main()
