#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What several ranks on this machine take of memory and of time, of docs/sharding.md.

  benchmarks/ranks.py memory FOLDER           what each of 1, 2 and 4 ranks took, beside thunderc plan
  benchmarks/ranks.py overlap FOLDER          communication that nothing hides, with overlap and with --no-overlap
  benchmarks/ranks.py timeline FILE...        the same of timelines that programs wrote (--timeline)

FOLDER takes programs, their builds and their runs; what is built already is built no second time. Needs thunderc, MPI and no package of
Python's.

  --thunderc FILE     default: build/thunderc
  --model FILE        default: samples/llama_small/model.onnx
  --batch N --seq N   of a rank's micro-batch; default: 32 and 256
  --transport US,MB   what a collective takes at least, in microseconds and MB/s of what a rank sends (THUNDER_SLOW_TRANSPORT); default:
                      10000,50, beside which the real exchange and a busy machine's turns are little
  --modes "MODES"     commas between; default: --dp 2 --bucket-mb 1, --fsdp 2, --hsdp 2x2
  --steps N           default: 8; the first two are left out
  --rounds N          of overlap: how often both are run, in turns; default: 3
"""
import argparse
import json
import os
import random
import shlex
import statistics
import struct
import subprocess
import sys

REPOSITORY = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
COLLECTIVES = ("all-gather of ", "all-reduce of ", "reduce-scatter of ", "sum of ")
# Between steps, of a few numbers: they are in no plan.
HOSTS = ("the step's loss", "the weight of the step's loss")


def run(command, folder=None, env=None):
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, env=env)
    if done.returncode != 0:
        sys.exit(f"{shlex.join(command)}\nexit status {done.returncode}\n{(done.stdout + done.stderr)[-3000:]}")
    return done.stdout


# ---- timelines

def exposed_of(path):
    """Of each step of each rank, but for the first two: milliseconds in which the stream that computes stood and waited for ranks,
    and milliseconds of all collectives. A step ends with its update."""
    with open(path) as f:
        events = json.load(f)["traceEvents"]
    compute = {(e["pid"], e["tid"]) for e in events if e["name"] == "thread_name" and e["args"]["name"] == "compute"}
    exposed, together = [], []
    for rank in sorted({pid for pid, _ in compute}):
        spans = [e for e in events if e["ph"] == "X" and e["pid"] == rank]
        ends = sorted(e["ts"] + e["dur"] for e in spans if e["name"] == "update")
        waits, collectives = [0.0] * len(ends), [0.0] * len(ends)
        for e in spans:
            step = sum(1 for end in ends if end < e["ts"])
            is_collective = e["name"].startswith(COLLECTIVES)
            if step == len(ends) or e["name"].endswith(HOSTS) or not (is_collective or e["name"] == "waits"):
                continue
            if is_collective:
                collectives[step] += e["dur"] / 1e3
            if (rank, e["tid"]) in compute:  # a wait there, or a collective that is issued there
                waits[step] += e["dur"] / 1e3
        exposed += waits[2:]
        together += collectives[2:]
    return exposed, together


# ---- programs

class Program:
    def __init__(self, args, mode):
        self.args, self.mode = args, mode
        self.folder = os.path.join(os.path.abspath(args.folder), mode.replace("--", "").replace(" ", "_") or "one")
        words = mode.split()
        self.ranks = 1
        if words:
            self.ranks = 1
            for n in words[1].split("x"):
                self.ranks *= int(n)
        self.options = ["--batch", str(args.batch), "--seq", str(args.seq), *words]
        self.plan_options = [args.model, *self.options]

    def build(self):
        program, build = os.path.join(self.folder, "program"), os.path.join(self.folder, "build")
        os.makedirs(self.folder, exist_ok=True)
        if not os.path.exists(os.path.join(build, "train")):
            run([self.args.thunderc, "train", self.args.model, "-o", program, "--quiet", *self.options])
            run(["cmake", "-S", program, "-B", build, "-DDEVICE=cpu"])
            run(["cmake", "--build", build])
        if not os.path.exists(os.path.join(self.folder, "feed.safetensors")):
            self.write_feed()
        return self

    def write_feed(self):
        """One batch of the whole step, drawn from what each input takes."""
        plan = json.loads(run([self.args.thunderc, "plan", *self.plan_options, "--machine", "cpu", "--json"]))
        draw = random.Random(1)
        header, blobs, at = {}, [], 0
        for i in plan["inputs"]:
            dims = [i["dims"][0] * self.ranks, *i["dims"][1:]]
            n = 1
            for d in dims:
                n *= d
            blob = struct.pack(f"<{n}q", *(draw.randrange(max(i["entries"], 1)) for _ in range(n)))
            header[i["name"] + "_0"] = {"dtype": "I64", "shape": dims, "data_offsets": [at, at + len(blob)]}
            blobs.append(blob)
            at += len(blob)
        text = json.dumps(header).encode()
        with open(os.path.join(self.folder, "feed.safetensors"), "wb") as f:
            f.write(struct.pack("<Q", len(text)) + text + b"".join(blobs))

    def train(self, flags, transport=None):
        command = [os.path.join(self.folder, "build", "train"), "--feed", "feed.safetensors", "--init", "random", "--seed", "1", "--steps",
                   str(self.args.steps), "--threads", "1", "--quiet", *flags]
        if self.ranks > 1:
            command = ["mpirun", "-np", str(self.ranks), "--oversubscribe", "--allow-run-as-root", *command]
        run(command, self.folder, {**os.environ, **({"THUNDER_SLOW_TRANSPORT": transport} if transport else {})})

    def plan(self):
        """Bytes of a rank by arena."""
        rows = {}
        for line in run([self.args.thunderc, "plan", *self.plan_options]).splitlines():
            cells = [cell.strip() for cell in line.split("|")]
            if len(cells) > 3 and cells[2].isdigit():
                rows[cells[1]] = int(cells[2])
        return rows


def read_lines(path):
    with open(path) as f:
        return [json.loads(line) for line in f]


# ---- tables

def memory(args):
    def mb(n):
        return f"{n / 1e6:.2f}"
    print("| | parameters | gradients | optimizer | gathered, and gradients of whole units | activations and all else | together | planned | "
          "process at its peak |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|---:|")
    for mode in ("", "--fsdp 2", "--fsdp 4"):
        program = Program(args, mode).build()
        program.train(["--memory", "memory.jsonl"])
        ranks, plan = read_lines(os.path.join(program.folder, "memory.jsonl")), program.plan()
        differing = [(r["rank"], k, r[k], v) for r in ranks for k, v in plan.items() if r["arenas" if k == "together" else k] != v]
        if differing:
            sys.exit(f"{mode}: a rank took something else than is planned: {differing}")
        r = ranks[0]
        lasting = r["parameters"], r["gradients"], r["optimizer"]
        units = r["gathered"] + r["unit_gradients"]
        peak = max(line["process_peak"] for line in ranks)
        print("| " + " | ".join([mode or "one rank", *map(mb, lasting), mb(units), mb(r["arenas"] - sum(lasting) - units), mb(r["arenas"]),
                                 mb(plan["together"]), mb(peak)]) + " |")


def overlap(args):
    print("| | collectives, ms | exposed without overlap, ms | exposed, ms | hidden | a step without overlap, ms | a step, ms |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    for mode in args.modes.split(","):
        program = Program(args, mode.strip()).build()
        with_overlap, together, without, steps = [], [], [], ([], [])
        for _ in range(args.rounds):  # in turns, since other work comes and goes
            for k, name in enumerate(("overlap", "no_overlap")):
                program.train(["--timeline", name + ".json", "--log", name + ".jsonl", *(["--no-overlap"] if k else [])], args.transport)
                exposed, all_of_it = exposed_of(os.path.join(program.folder, name + ".json"))
                (without if k else with_overlap).extend(exposed)
                together += [] if k else all_of_it
                steps[k].extend(line["step_ms"] for line in read_lines(os.path.join(program.folder, name + ".jsonl"))[2:])
        a, c, b = (statistics.median(x) for x in (with_overlap, together, without))
        print(f"| `{mode.strip()}` | {c:.0f} | {b:.0f} | {a:.0f} | {100 * (1 - a / b):.0f}% | {statistics.median(steps[1]):.0f} | "
              f"{statistics.median(steps[0]):.0f} |", flush=True)


def timeline(args):
    for path in args.files:
        exposed, together = exposed_of(path)
        print(f"{path}: {statistics.median(exposed):.3f} ms a step are exposed, of {statistics.median(together):.3f} ms of collectives")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["memory", "overlap", "timeline"])
    parser.add_argument("files", nargs="+", metavar="FOLDER|FILE")
    parser.add_argument("--thunderc", default=os.path.join(REPOSITORY, "build", "thunderc"))
    parser.add_argument("--model", default=os.path.join(REPOSITORY, "samples", "llama_small", "model.onnx"))
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--seq", type=int, default=256)
    parser.add_argument("--transport", default="10000,50")
    parser.add_argument("--modes", default="--dp 2 --bucket-mb 1,--fsdp 2,--hsdp 2x2")
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    args.folder = args.files[0]
    {"memory": memory, "overlap": overlap, "timeline": timeline}[args.what](args)


if __name__ == "__main__":
    main()
