#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How long a generated program's steps take on a quiet machine, and while other work keeps one of its cores busy.

    benchmarks/busy.py FEED.safetensors PROGRAM... [--steps N] [--rounds 3] [--threads 2]

Programs of one model (say, of two versions of thunderc) take turns; each round runs each of them quiet, then beside a process that never sleeps. Prints
the median and the 99th percentile of step_ms over all rounds, the first five steps of each run left out.
"""
import argparse, json, os, statistics, subprocess, sys, tempfile

WARMUP = 5


def steps_of(program, a):
    with tempfile.NamedTemporaryFile("r") as log:
        subprocess.run([program, "--feed", a.feed, "--lr", "1e-4", "--weight-decay", "0", "--grad-clip", "0", "--schedule",
                        "constant", "--warmup", "0", "--steps", str(a.steps + WARMUP), "--threads", str(a.threads),
                        "--log", log.name, "--quiet"], check=True)
        return [json.loads(line)["step_ms"] for line in log][WARMUP:]


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("feed"); p.add_argument("programs", nargs="+")
    p.add_argument("--steps", type=int, default=1000); p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--threads", type=int, default=2)
    a = p.parse_args()
    times = {(program, busy): [] for program in a.programs for busy in (False, True)}
    for _ in range(a.rounds):
        for program in a.programs:
            times[program, False] += steps_of(program, a)
        other = subprocess.Popen([sys.executable, "-c", "while True: pass"])
        try:
            for program in a.programs:
                times[program, True] += steps_of(program, a)
        finally:
            other.kill()
            other.wait()
    print("| program | quiet, median ms | p99 | one core busy, median ms | p99 | busy / quiet |\n|---|---:|---:|---:|---:|---:|")
    for program in a.programs:
        quiet, busy = (sorted(times[program, b]) for b in (False, True))
        p99 = [t[min(len(t) - 1, int(0.99 * len(t)))] for t in (quiet, busy)]
        medians = statistics.median(quiet), statistics.median(busy)
        print(f"| {os.path.relpath(program)} | {medians[0]:.2f} | {p99[0]:.2f} | {medians[1]:.2f} | {p99[1]:.2f} | "
              f"{medians[1] / medians[0]:.2f} |")


if __name__ == "__main__":
    main()
