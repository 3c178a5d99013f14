#!/usr/bin/env python
# SPDX-License-Identifier: Apache-2.0
"""A small Llama (4 layers, 256 wide) on real text, in every precision that a program may have: curves of the evaluated loss.

  python benchmarks/precision_curves.py DIR [--text FOLDER...] [--steps 500] [--seeds 3] [--thunderc build/thunderc] [--onednn PREFIX]

Text is what the folders hold, each byte a token; the last of it is never trained on. A seed chooses weights and the order of rows, the
same ones for all precisions, so that a difference is theirs alone. A precision is as good as f32 where its mean evaluated loss after the
last step is within two standard errors of the difference, taken seed by seed, or within 1% of f32's. What is there of an earlier
call is not run again. Prints two tables, leaves DIR/results.json and DIR/report.html; exits with 1 where a precision is not as good.
Needs torch, transformers and onnxscript, once, to export the graph."""
import argparse, json, math, os, statistics, sys

from real_text import call, gather

B, T, BYTES, VALID = 8, 128, 256, 256  # rows a step, tokens a row; rows of validation
PRECISIONS = {"f32": [], "bf16": ["--dtype", "bf16"], "f16": ["--dtype", "f16"],
              **{f"FP8 {recipe}": ["--dtype", "bf16", "--fp8", recipe] for recipe in ("delayed", "current", "blockwise", "mxfp8")}}
RECIPE = ["--lr", "1e-3", "--warmup", "30", "--schedule", "cosine", "--beta1", "0.9", "--beta2", "0.95", "--weight-decay", "0.1",
          "--grad-clip", "1"]


def export(path):
    import torch, transformers
    torch.manual_seed(0)
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(
        vocab_size=BYTES, hidden_size=256, intermediate_size=704, num_hidden_layers=4, num_attention_heads=4, num_key_value_heads=4,
        max_position_embeddings=T, tie_word_embeddings=False, attn_implementation="sdpa")).eval()

    class Logits(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, input_ids):
            return self.model(input_ids, use_cache=False).logits

    torch.export.save(torch.export.export(Logits(), (torch.zeros(B, T, dtype=torch.int64),)), path)


def evaluations(log):
    """Evaluated losses by step, of a run that came to its end; none of another."""
    if not os.path.exists(log):
        return {}
    lines = [json.loads(line) for line in open(log)]
    return {x["step"]: x["eval_loss"] for x in lines if "eval_loss" in x}


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("dir"); p.add_argument("--text", nargs="+", default=["/usr/share/doc", "/usr/lib/python3", "/usr/lib/python3.11"])
    p.add_argument("--megabytes", type=int, default=16); p.add_argument("--steps", type=int, default=500)
    p.add_argument("--every", type=int, default=100); p.add_argument("--seeds", type=int, default=3)
    p.add_argument("--threads", type=int, default=2); p.add_argument("--thunderc", default="build/thunderc"); p.add_argument("--onednn")
    a = p.parse_args()
    at = lambda name: os.path.join(a.dir, name)
    os.makedirs(a.dir, exist_ok=True)
    if not os.path.exists(at("valid.bin")):
        gather(a.text, at("train.jsonl"), at("valid.jsonl"), a.megabytes)
        for name in ("train", "valid"):
            with open(at(f"{name}.txt"), "w") as out:
                out.writelines(json.loads(line)["text"] for line in open(at(f"{name}.jsonl")))
            print(call(a.thunderc, "data", "pack", at(f"{name}.txt"), "-o", at(f"{name}.bin"), "--quiet").splitlines()[0])
    if not os.path.exists(at("llama.pt2")):
        export(at("llama.pt2"))
    logs = {}
    for precision, options in PRECISIONS.items():
        folder = at(precision.replace(" ", "-"))
        if not os.path.exists(os.path.join(folder, "build/train")):
            call(a.thunderc, "train", at("llama.pt2"), "-o", folder, "--force", "--quiet", *options)
            call("cmake", "-S", folder, "-B", os.path.join(folder, "build"), "-G", "Ninja", *([f"-DONEDNN_ROOT={a.onednn}"] if a.onednn else []))
            call("cmake", "--build", os.path.join(folder, "build"))
        logs[precision] = [f"{folder}-{seed}.jsonl" for seed in range(1, a.seeds + 1)]
    for seed in range(1, a.seeds + 1):
        for precision, of in logs.items():
            if a.steps not in evaluations(of[seed - 1]):
                if os.path.exists(of[seed - 1]):
                    os.remove(of[seed - 1])
                call(at(precision.replace(" ", "-")) + "/build/train", "--init", "random", "--seed", seed, "--data", at("train.bin"), "--eval-data",
                     at("valid.bin"), "--eval-every", a.every, "--eval-batches", VALID // B, "--steps", a.steps, "--threads", a.threads,
                     "--log", of[seed - 1], "--quiet", *RECIPE)
            print(f"seed {seed}, {precision}: {evaluations(of[seed - 1])[a.steps]:.4f}", flush=True)
    curves = {precision: [evaluations(log) for log in of] for precision, of in logs.items()}
    steps = sorted(set.intersection(*(set(run) for of in curves.values() for run in of)))
    print("\n| evaluated loss after | " + " | ".join(str(step) for step in steps) + " steps |\n|---" + "|---:" * len(steps) + "|")
    for precision, of in curves.items():
        print(f"| {precision} | " + " | ".join(f"{statistics.mean(run[step] for run in of):.4f}" for step in steps) + " |")
    print("\n| after the last | of each seed | mean | above f32's | standard error of that | of f32's | as good |\n|---|---|---:|---:|---:|---:|---|")
    results, good = {}, True
    base = [run[a.steps] for run in curves["f32"]]
    for precision, of in curves.items():
        losses = [run[a.steps] for run in of]
        differences = [x - y for x, y in zip(losses, base)]
        more, error = statistics.mean(differences), statistics.stdev(differences) / math.sqrt(len(of)) if len(of) > 1 else 0
        share = more / statistics.mean(base)
        as_good = abs(more) <= 2 * error or abs(share) <= 0.01
        good = good and as_good
        results[precision] = {"losses": losses, "mean": statistics.mean(losses), "above": more, "error": error}
        print(f"| {precision} | {', '.join(f'{x:.4f}' for x in losses)} | {statistics.mean(losses):.4f} | {more:+.4f} | {error:.4f} | "
              f"{100 * share:+.2f}% | {'yes' if as_good else 'NO'} |")
    json.dump({"steps": a.steps, "results": results, "curves": curves}, open(at("results.json"), "w"), indent=1)
    call(a.thunderc, "report", *(log for of in logs.values() for log in of), "-o", at("report.html"))
    sys.exit(not good)


if __name__ == "__main__":
    main()
