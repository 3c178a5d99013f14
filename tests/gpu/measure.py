#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Builds, checks and measures the folder that prepare.sh made; run.sh starts it. Needs no package of Python's.

  measure.py --folder DIR [options]

  --seconds 600      all of it takes no longer: what is worth most comes first, and what no time is left for is said to be left out
  --results DIR      results.json and results.txt, written again after each part (default: FOLDER/results)
  --dry-run          on the CPU: every part that needs no GPU, with the programs that there are; nothing is a claim about speed
  --runtime DIR      a runtime that was built before, instead of building FOLDER/runtime
  --no-peers         without PyTorch
  --parts LIST       of parity,providers,sanitizer,speed those alone, in that order (default: all)

Exit status: 0 where all that ran was right, 1 where a build failed, numbers differ from PyTorch's or a sanitizer found something.
"""
import argparse
import json
import math
import os
import random
import re
import shutil
import statistics
import struct
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

# Relative tolerances of a fixture's losses, at the first step and at the last; the gradients' norm, a sum of squares, has ten times
# that. f32: orders of summation differ, and Adam's first steps turn relative errors of small gradients into whole updates
# (tests/programs/pytorch_numbers.h). bf16 keeps 8 bits: a stored number is off by 2^-8 at most, the few that a loss goes through by some 2^-7.
# fp8: against a naive computation that quantises the same (tests/programs/fp8_test.cpp has the reason).
TOLERANCES = {"f32": (1e-5, 1e-4), "bf16": (2.0**-6, 2.0**-5), "fp8": (2.0**-6, 2.0**-6)}

# What is measured, by worth. Least seconds: no run of it is started that could not end.
# PyTorch adds the gradients of attention as they come; ours in a fixed order, unless asked not to.
FAST = "ours, attention summed as it comes"
BEHIND = "ours, updates behind the backward pass"
IN_TURN = "ours, each kernel behind the one before"
OURS = {"ours": [], FAST: ["--attention-backward", "fast"], BEHIND: ["--no-overlap"], IN_TURN: ["--no-early-start"]}
ORDER = [("llama2-7b", "ours", 40), ("llama2-7b", IN_TURN, 30), ("llama2-7b", BEHIND, 30), ("llama2-7b", FAST, 30), ("llama2-7b-fp8", FAST, 40),
         ("llama2-7b-2", FAST, 50), ("llama2-7b", "eager", 60), ("gpt2-124m", "ours", 20), ("gpt2-124m", FAST, 15),
         ("llama2-7b", "compile", 100), ("gpt2-124m", "eager", 25), ("gpt2-124m", "compile", 60), ("llama-1b", "ours", 25),
         ("llama-1b", FAST, 20), ("llama-1b", "compile", 70), ("llama-1b", "eager", 30)]
DRY_ORDER = [("tiny-llama", "ours", 5), ("tiny-llama", "eager", 20)]


def read_json(path):
    with open(path) as f:
        return json.load(f)


def write_i64(path, tensors):
    """A safetensors file of {name: (shape, numbers)}."""
    header, blobs, at = {}, [], 0
    for name, (shape, numbers) in tensors.items():
        blob = struct.pack(f"<{len(numbers)}q", *numbers)
        header[name] = {"dtype": "I64", "shape": shape, "data_offsets": [at, at + len(blob)]}
        blobs.append(blob)
        at += len(blob)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + b"".join(blobs))


def relative_errors(expected, actual):
    """Of each step; infinite where there is no number."""
    actual = actual + [math.nan] * (len(expected) - len(actual))
    return [abs(a - e) / abs(e) if math.isfinite(a) else math.inf for e, a in zip(expected, actual)]


def within(errors, first, last):
    """What is allowed grows from step to step by one factor."""
    steps = max(len(errors) - 1, 1)
    return all(e <= first * (last / first) ** (k / steps) for k, e in enumerate(errors))


GROUPS = {"linear": "products", "matmul": "products", "fp8": "quantise", "attention": "attention", "cross": "cross_entropy", "embedding": "embedding",
          "gather": "embedding", "scatter": "embedding", "global": "optimizer",
          "clip": "optimizer", "copy": "copy", "fill": "copy"}


def read_profile(text, steps):
    """Milliseconds of a step by group, from the table of --profile, which leaves the first call of each name out."""
    groups = {}
    for line in text.splitlines():
        fields = line.split()
        # name..., calls, ms, share, and of a call: us, MB, GFLOP, GB/s, TFLOP/s, share of the roof
        if len(fields) < 10 or not fields[-7].endswith("%") or not fields[-9].isdigit():
            continue
        if fields[0] in ("copy_from_host", "copy_to_host"):
            continue  # weights as the run begins
        timed, ms = int(fields[-9]), float(fields[-8])
        word = "linear" if fields[0] in ("fp8_product", "fp8_block_product") else fields[0].split("_")[0]
        # One word that no call of the runtime API begins with is a kernel of the program's own, but for an optimizer's name.
        group = "optimizer" if re.match(r"\w+ of \d+ parameters? in ", line) else GROUPS.get(word, "fused")
        groups[group] = groups.get(group, 0.0) + ms / timed * (timed + 1) / steps
    return groups


def nccl_version(output):
    """"NCCL 2.27.3", as NCCL_DEBUG=VERSION has it tell when its first communicator is made."""
    words = output.split("NCCL version ", 1)
    return "NCCL " + words[1].split("+")[0].split()[0] if len(words) > 1 else "NCCL, which did not say its version"


def memory_text(options):
    """What is kept in which type, of a program's options; PyTorch's run has the same."""
    words = options.split()
    if "--dtype" not in words:
        return f"all in f32 ({options})"
    lean = "--master none" in options
    kept = "parameters, gradients and the optimizer's states in bf16 alone" if lean else "masters, gradients and the optimizer's states in f32"
    return f"products in bf16; {kept} ({options})"


class Run:
    def __init__(self, args):
        self.args, self.begin = args, time.monotonic()
        self.folder = os.path.abspath(args.folder)
        self.build_folder = os.path.join(self.folder, "build")
        self.results = {"dry_run": args.dry_run, "machine": self.machine(), "parts": [], "table": [], "left_out": []}
        self.good = True
        left_out = os.path.join(self.folder, "left_out")
        if os.path.exists(left_out):
            with open(left_out) as f:
                self.results["left_out"] = [line.split(": ", 1)[-1] for line in f.read().splitlines()]
        self.cases = {}
        programs = os.path.join(self.folder, "programs")
        for name in sorted(os.listdir(programs)):
            if os.path.exists(os.path.join(programs, name, "case.json")):
                self.cases[name] = read_json(os.path.join(programs, name, "case.json"))

    def machine(self):
        if self.args.dry_run:
            return "CPU"
        try:
            out = subprocess.run(["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"], capture_output=True, text=True)
        except OSError:
            sys.exit("there is no nvidia-smi, so no GPU: --dry-run runs what needs none")
        if out.returncode != 0:
            sys.exit(f"nvidia-smi finds no GPU: {out.stdout}{out.stderr}")
        return out.stdout.splitlines()[0]

    def left(self):
        return self.args.seconds - (time.monotonic() - self.begin)

    def leave_out(self, what):
        print(f"left out: {what}", flush=True)
        self.results["left_out"].append(what)

    def part(self, name, good, **more):
        self.good = self.good and good
        self.results["parts"].append({"part": name, "good": good, **more})
        print(f"{'ok  ' if good else 'FAIL'} {name}  {more.get('note', '')}", flush=True)
        self.write()

    def run(self, command, folder=None, limit=None, env=None):
        """Status, output and errors; status 124 where it took too long."""
        try:
            done = subprocess.run(command, cwd=folder, capture_output=True, text=True, env=env,
                                  timeout=max(1.0, min(limit or self.args.seconds, self.left())))
            return done.returncode, done.stdout, done.stderr
        except subprocess.TimeoutExpired as late:
            errors = late.stderr or b""
            return 124, "", (errors.decode(errors="replace") if isinstance(errors, bytes) else errors) + "\ntook too long"

    # ---- builds

    def build(self):
        device = "cpu" if self.args.dry_run else "cuda"
        flags = [f"-DDEVICE={device}", "-DCMAKE_BUILD_TYPE=Release"]
        if shutil.which("ninja"):
            flags.append("-GNinja")
        include = os.path.join(self.folder, "include")
        if os.path.exists(os.path.join(include, "rapidjson")):
            flags.append(f"-DRAPIDJSON_INCLUDE_DIR={include}")
        if os.path.exists(os.path.join(include, "cudnn_frontend.h")) and device == "cuda":
            flags.append(f"-DCUDNN_FRONTEND_INCLUDE_DIR={include}")
        if os.path.exists(os.path.join(include, "nccl.h")) and device == "cuda":
            flags.append(f"-DNCCL_INCLUDE_DIR={include}")
        runtime = self.args.runtime
        if not runtime:
            runtime = os.path.join(self.build_folder, "runtime")
            if not self.make("runtime", os.path.join(self.folder, "runtime"), runtime, flags):
                return False
        self.runtime = os.path.abspath(runtime)
        flags.append(f"-DTHUNDERC_RUNTIME={self.runtime}")
        ranks = self.ranks = self.ranks_by(runtime)

        def one(name):
            comm = ranks if self.cases[name]["kind"] == "ranks" else "none"
            return self.make(name, os.path.join(self.folder, "programs", name, "program"), self.program_build(name), [*flags, f"-DCOMM={comm}"])
        with ThreadPoolExecutor(max(1, min(4, (os.cpu_count() or 2) // 2))) as pool:
            built = dict(zip(self.cases, pool.map(one, self.cases)))
        self.cases = {name: case for name, case in self.cases.items() if built[name]}
        return bool(self.cases)

    def ranks_by(self, runtime):
        """Who carries what ranks communicate: nccl on a GPU, mpi in a dry run. Their programs are left out where the runtime was built
        without, for want of a header."""
        comm = "mpi" if self.args.dry_run else "nccl"
        targets = os.path.join(runtime, "thunder_runtimeTargets.cmake")
        if os.path.exists(targets) and f"thunder_comm_{comm}" in open(targets).read():
            return comm
        for name in [name for name, case in self.cases.items() if case["kind"] == "ranks"]:
            self.leave_out(f"{name}: the runtime was built without {comm.upper()}")
            del self.cases[name]
        return "none"

    def program_build(self, name):
        return os.path.join(self.build_folder, name)

    def make(self, name, source, build, flags):
        begin = time.monotonic()
        jobs = str(os.cpu_count() or 2)
        for command in (["cmake", "-S", source, "-B", build, *flags], ["cmake", "--build", build, "-j", jobs]):
            status, out, errors = self.run(command)
            if status != 0:
                self.part(f"build {name}", False, note=" ".join(command), output=(out + errors)[-4000:])
                print((out + errors)[-2000:])
                return False
        self.part(f"build {name}", True, note=f"{time.monotonic() - begin:.1f} s")
        return True

    # ---- checks

    def train(self, name, flags, limit=None, before=(), watch=False, env=None):
        """Runs a program in its case's folder: status, errors, its log's lines, peak memory."""
        folder = os.path.join(self.folder, "programs", name)
        log = os.path.join(self.program_build(name), "run.jsonl")
        if os.path.exists(log):
            os.remove(log)
        command = [*before, os.path.join(self.program_build(name), "train"), "--quiet", "--log", log, *flags]
        peak = Peak(self.args.dry_run) if watch else None
        status, out, errors = self.run(command, folder, limit, env)
        bytes_ = peak.stop() if peak else 0
        lines = []
        if os.path.exists(log):
            with open(log) as f:
                lines = [json.loads(line) for line in f]
        return status, out + errors, lines, bytes_

    def recipe(self, name):
        o = read_json(os.path.join(self.folder, "programs", name, "reference.json"))
        optimizer = o["optimizer"]
        # A program of torch.export has its weights with it.
        init = ["--init", "params.safetensors"] if os.path.exists(os.path.join(self.folder, "programs", name, "params.safetensors")) else []
        return o, ["--feed", "batch.safetensors", *init, "--steps", str(o["steps"]), "--lr",
                   str(optimizer["lr"]), "--schedule", "constant", "--warmup", "0", "--weight-decay", str(optimizer["weight_decay"]),
                   "--decay", "all", "--beta1", str(optimizer["betas"][0]), "--beta2", str(optimizer["betas"][1]), "--eps",
                   str(optimizer["eps"]), "--grad-clip", "0"]

    def parity(self):
        for name, case in self.cases.items():
            if case["kind"] not in ("parity", "ranks"):
                continue
            reference, flags = self.recipe(name)
            env = {**os.environ, "NCCL_DEBUG": "VERSION"} if case["kind"] == "ranks" else None
            status, errors, lines, _ = self.train(name, flags, limit=60, env=env)
            if status != 0 and "error: NCCL is not there" in errors:
                self.leave_out(f"{name}: there is no libnccl.so.2 (package libnccl2, or the wheel nvidia-nccl-cu13 in LD_LIBRARY_PATH)")
                continue
            if status != 0:
                self.part(f"{name}", False, note=f"exit status {status}", output=errors[-2000:])
                print(errors[-2000:])
                continue
            first, last = TOLERANCES[case["dtype"]]
            loss = relative_errors(reference["loss64"], [line["loss"] for line in lines])
            norm = relative_errors(reference["grad_norm64"], [line["grad_norm"] for line in lines]) if "grad_norm64" in reference else [0.0]
            good = within(loss, first, last) and within(norm, 10 * first, 10 * last)
            by = {"mpi": "its collectives by MPI, ", "nccl": f"its collectives by {nccl_version(errors)}, "}[self.ranks] if case["kind"] == "ranks" else ""
            against = "PyTorch in fp64" if "grad_norm64" in reference else "a naive computation in PyTorch"
            note = f"{by}against {against}, {len(loss)} steps: loss within {max(loss):.1e}"
            if "grad_norm64" in reference:
                note += f", gradient norm within {max(norm):.1e}"
            self.part(name, good, note=note)

    def providers(self):
        """Libraries and kernels of our own against fp64: attention, of which the fixtures' small heads say nothing, convolutions, and products
        of FP8."""
        if self.args.dry_run:
            self.leave_out("providers against fp64: they need a GPU")
            return
        build = self.program_build("providers")
        if not self.make("providers", os.path.join(self.folder, "providers"), build,
                         [f"-DTHUNDERC_RUNTIME={self.runtime}", "-DCMAKE_BUILD_TYPE=Release"]):
            return
        for check in ("attention", "convolution", "fp8"):
            status, out, errors = self.run([os.path.join(build, check)], limit=100)
            print(out + errors, flush=True)
            self.results[check] = (out + errors).splitlines()
            self.part(f"{check} against fp64", status == 0, output="" if status == 0 else out + errors)

    def sanitize(self):
        tool = shutil.which("compute-sanitizer") or next((p for p in ("/usr/local/cuda/bin/compute-sanitizer",) if os.path.exists(p)), None)
        if self.args.dry_run or tool is None:
            self.leave_out("compute-sanitizer on one step: " + ("it needs a GPU" if self.args.dry_run else "it was not found"))
            return
        for name, case in self.cases.items():
            if case["kind"] != "parity" or case["model"] != "llama2":
                continue
            _, flags = self.recipe(name)
            flags[flags.index("--steps") + 1] = "1"
            for check in ("memcheck", "racecheck"):
                if self.left() < 90:
                    self.leave_out(f"{check} of {name}: no time is left")
                    continue
                status, errors, _, _ = self.train(name, [*flags, "--no-cuda-graph"], limit=80,
                                                  before=[tool, "--tool", check, "--error-exitcode", "77"])
                if status == 124:
                    self.leave_out(f"{check} of {name}: it took longer than 80 s")
                    continue
                self.part(f"{check} of a step of {name}", status == 0, output="" if status == 0 else errors[-4000:])

    # ---- speed

    def ours(self, name, how):
        folder = os.path.join(self.folder, "programs", name)
        plan = read_json(os.path.join(folder, "plan-h200.json" if "H200" in self.machine_name() else "plan-h100.json"))
        random.seed(0)
        feed = {f"{i['name']}_0": (i["dims"], [random.randrange(i["entries"]) for _ in range(math.prod(i["dims"]))])
                for i in plan["inputs"]}
        write_i64(os.path.join(self.program_build(name), "feed.safetensors"), feed)
        flags = ["--feed", os.path.join(self.program_build(name), "feed.safetensors"), "--init", "random", "--seed", "1", "--lr", "1e-5",
                 "--schedule", "constant", "--warmup", "0"]
        if not self.args.dry_run:
            flags.append("--autotune")
        flags += OURS[how]
        # First each kernel by itself: products are tuned then, which heats the GPU, and memory is watched, which disturbs.
        profiled = steps = 3
        status, errors, lines, peak = self.train(name, [*flags, "--steps", str(profiled), "--profile"], watch=True)
        if status == 0 and len(lines) == profiled:
            roofs, expected, profile = {}, {}, errors
            for kernel in plan["kernels"] if not self.args.dry_run else []:
                for sums, key in ((roofs, "roof_ms"), (expected, "expected_ms")):
                    sums[kernel["group"]] = sums.get(kernel["group"], 0.0) + kernel[key]
            kernels = {group: {"ms": ms, "roof_ms": roofs.get(group), "expected_ms": expected.get(group),
                               "of_roof": roofs[group] / ms if group in roofs and ms else None}
                       for group, ms in sorted(read_profile(profile, profiled).items(), key=lambda item: -item[1])}
            # Some seconds of steps.
            steps = 4 if self.args.dry_run else max(12, min(100, round(4000 / plan["expected_ms"])))
            status, errors, lines, _ = self.train(name, [*flags, "--steps", str(steps)])
        if status != 0 or len(lines) < steps:
            self.part(f"{name}, {how}", False, note=f"exit status {status}", output=errors[-3000:])
            print(errors[-2000:])
            return
        self.row(name, how, [line["step_ms"] for line in lines], plan, peak, loss=lines[-1]["loss"], kernels=kernels, profile=profile[-20000:])
        # Another provider than the one that is measured here would be a number about something else.
        if "cuDNN has no plan" in errors or not self.args.dry_run and not os.path.exists(os.path.join(self.folder, "include", "cudnn_frontend.h")):
            self.part(f"{name}, {how}: attention by cuDNN", False, output=errors[-3000:])
        self.write()

    def peer(self, name, how):
        command = [sys.executable, os.path.join(self.folder, "peer.py"), name, how, "--device", "cpu" if self.args.dry_run else "cuda",
                   "--steps", "4" if self.args.dry_run else "12"]
        status, out, errors = self.run(command, limit=200)
        lines = [line for line in out.splitlines() if line.startswith("{")]
        if status != 0 or not lines or "error" in json.loads(lines[-1]):
            self.leave_out(f"{name}, {how}: " + (json.loads(lines[-1])["error"] if lines else f"exit status {status}: {errors[-300:]}"))
            return
        result = json.loads(lines[-1])
        plan_path = os.path.join(self.folder, "programs", name, "plan-h200.json" if "H200" in self.machine_name() else "plan-h100.json")
        plan = read_json(plan_path) if os.path.exists(plan_path) else None
        self.row(name, how, result["step_ms"], plan, result["peak_bytes"], tokens=result["tokens"], recomputed=result["recomputed"],
                 torch=result["torch"])
        self.write()

    def machine_name(self):
        return self.results["machine"]

    def row(self, name, how, step_ms, plan, peak, tokens=None, **more):
        # Plans, captures and compilations are in the first ones. The mean, since our steps do not wait for one another: the time
        # that one is late is another's.
        ms = statistics.fmean(step_ms[len(step_ms) // 3:])
        tokens = tokens or plan["tokens"]
        row = {"model": name, "by": how, "step_ms": ms, "steps_ms": step_ms, "tokens_per_second": 1e3 * tokens / ms, "peak_bytes": peak, **more}
        known = any(chip in self.machine_name() for chip in ("H100", "H200"))
        if plan and known and tokens == plan["tokens"]:
            # As published numbers count: attention as if nothing were masked. PyTorch's run in bf16 too.
            row["mfu"] = plan["full_model_flops"] / (ms / 1e3) / plan["bf16_flops"]
            beside = plan["overlapped_ms"] if how in OURS and how != BEHIND else 0
            row["expected_ms"], row["roof_ms"] = plan["expected_ms"] - beside, plan["roof_ms"]
        self.results["table"].append(row)
        self.part(f"{name}, {how}", True, note=f"{ms:.2f} ms a step, {row['tokens_per_second']:.0f} tokens/s")
        return row

    def measure(self):
        for name, how, least in DRY_ORDER if self.args.dry_run else ORDER:
            ours = how in OURS
            if ours and name not in self.cases:
                if not any(what.startswith(name) for what in self.results["left_out"]):
                    self.leave_out(f"{name}: there is no program of it")
            elif not ours and self.args.no_peers:
                self.leave_out(f"{name}, {how}: --no-peers")
            elif self.left() < least:
                self.leave_out(f"{name}, {how}: {self.left():.0f} s are left")
            elif ours:
                self.ours(name, how)
            else:
                self.peer(name, how)
        self.compare_losses()

    # A kernel that did not wait for the one before it would compute something else, now and then.
    def compare_losses(self):
        losses = {(row["model"], row["by"]): row.get("loss") for row in self.results["table"]}
        for (name, how), loss in losses.items():
            if how == IN_TURN and (name, "ours") in losses:
                early = losses[name, "ours"]
                self.part(f"{name}: the last loss where kernels start early and where they do not", early == loss, note=f"{early} and {loss}")

    # ---- what is kept

    def write(self):
        os.makedirs(self.args.results, exist_ok=True)
        self.results["seconds"] = time.monotonic() - self.begin
        for name, text in (("results.json", json.dumps(self.results, indent=1) + "\n"), ("results.txt", self.text())):
            path = os.path.join(self.args.results, name)
            with open(path + ".new", "w") as f:
                f.write(text)
            os.replace(path + ".new", path)

    def text(self):
        r = self.results
        out = [f"machine: {r['machine']}" + (" (a dry run: no claim about speed)" if r["dry_run"] else ""), ""]
        out += [f"{'ok  ' if p['good'] else 'FAIL'} {p['part']}  {p.get('note', '')}" for p in r["parts"]] + [""]
        out.append("| model | by | ms a step | tokens/s | MFU | peak memory, GB |")
        out.append("|---|---|---:|---:|---:|---:|")
        for row in r["table"]:
            mfu = f"{100 * row['mfu']:.1f}%" if "mfu" in row else "-"
            by = row["by"] + (", layers recomputed" if row.get("recomputed") else "")
            peak = "-" if row["peak_bytes"] is None else f"{row['peak_bytes'] / 1e9:.1f}"
            out.append(f"| {row['model']} | {by} | {row['step_ms']:.2f} | {row['tokens_per_second']:.0f} | {mfu} | {peak} |")
        if any("--fp8" in case.get("options", "") for case in self.cases.values()):
            out += ["", "MFU is of the peak in bf16, where products are of FP8 as well"]
        out += [""] + [f"{name}: {memory_text(case['options'])}" for name, case in self.cases.items() if case["kind"] == "speed"]
        for row in r["table"]:
            if row.get("kernels"):
                out += ["", f"{row['model']}, {row['by']}: a step's kernels, one by one, without graphs", "", "| kernels | ms | expected, ms | roof, ms | of roof |",
                        "|---|---:|---:|---:|---:|"]
                for group, k in row["kernels"].items():
                    roof, expected = ("-" if k[key] is None else f"{k[key]:.3f}" for key in ("roof_ms", "expected_ms"))
                    share = "-" if k["of_roof"] is None else f"{100 * k['of_roof']:.0f}%"
                    out.append(f"| {group} | {k['ms']:.3f} | {expected} | {roof} | {share} |")
        out += [""] + [f"left out: {what}" for what in r["left_out"]] + [f"{r['seconds']:.0f} s", ""]
        return "\n".join(out)


class Peak:
    """The most memory of the GPU (in a dry run: of this process's children) while something runs, above what was in use before."""

    def __init__(self, dry_run):
        self.dry_run, self.most, self.stopped = dry_run, 0, threading.Event()
        self.before = self.used()
        self.thread = threading.Thread(target=self.watch)
        self.thread.start()

    def used(self):
        if self.dry_run:
            return 0
        out = subprocess.run(["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits"], capture_output=True, text=True)
        return int(out.stdout.split()[0]) << 20

    def watch(self):
        while not self.stopped.wait(0.2):
            self.most = max(self.most, self.used())

    def stop(self):
        self.stopped.set()
        self.thread.join()
        if self.dry_run:
            import resource
            return resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss << 10
        return max(0, self.most - self.before)


PARTS = {"parity": Run.parity, "providers": Run.providers, "sanitizer": Run.sanitize, "speed": Run.measure}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", required=True)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--results")
    parser.add_argument("--dry-run", action="store_true")
    parser.add_argument("--runtime")
    parser.add_argument("--no-peers", action="store_true")
    parser.add_argument("--parts", default=",".join(PARTS))
    args = parser.parse_args()
    if unknown := [part for part in args.parts.split(",") if part not in PARTS]:
        parser.error(f"no part is called {', '.join(unknown)}: there are {', '.join(PARTS)}")
    args.results = args.results or os.path.join(args.folder, "results")
    run = Run(args)
    if run.build():
        for part, do in PARTS.items():
            if part in args.parts.split(","):
                do(run)
    else:
        run.good = False
    run.write()
    print("\n" + run.text())
    sys.exit(0 if run.good else 1)


if __name__ == "__main__":
    main()
