#!/usr/bin/env python
# SPDX-License-Identifier: Apache-2.0
"""A Llama of 15M parameters on real text, by a program of thunderc and by PyTorch, side by side, with several seeds.

  python benchmarks/real_text.py DIR [--text FOLDER...] [--steps 300] [--seeds 3] [--thunderc build/thunderc] [--onednn PREFIX]
  python benchmarks/real_text.py DIR --same-rows    one seed, with the same rows in the same order: losses step by step
  python benchmarks/real_text.py DIR --rates 4      how quick both are, in turns of 20 steps, on a machine that does nothing else

Text is what the folders hold (documentation and Python sources of a Debian by default), 24 MB of it, from which a byte-level BPE of
16,384 tokens is trained and which `thunderc data pack` packs; the last of it is never trained on. Each seed begins with weights of
transformers, the same for both, and each side has an order of its own for the data, so that losses are independent of one another but
for these weights: the final validation losses are compared as means of the seeds, with the standard error of their difference. Runs are
in turns, on --threads threads. Leaves DIR/report.html (curves of all runs), DIR/results.json and prints a table. With --rates
nothing is judged but the time of a step: the median of each turn without its first steps. Needs torch, transformers, tokenizers,
safetensors and onnxscript."""
import argparse, gzip, json, math, os, random, statistics, subprocess, sys, time

B, T, VOCABULARY, VALID = 4, 128, 16384, 128  # rows a step, tokens a row; rows of validation
LR, WARMUP, BETAS, EPS, DECAY, CLIP = 1e-3, 30, (0.9, 0.95), 1e-8, 0.1, 1.0


def call(*command, **more):
    done = subprocess.run([str(c) for c in command], text=True, capture_output=True, **more)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
    return done.stdout


def gather(folders, path, valid, megabytes):
    files = sorted(os.path.join(at, f) for folder in folders for at, _, names in os.walk(folder) for f in names
                   if f.endswith((".txt", ".md", ".rst", ".py", ".html", ".gz", "copyright")))
    random.Random(0).shuffle(files)
    seen, bytes_left = set(), megabytes << 20
    with open(path, "w") as out:
        for f in files:
            try:
                with (gzip.open if f.endswith(".gz") else open)(f, "rb") as file:
                    text = file.read(200_000).decode()
            except (OSError, EOFError, UnicodeDecodeError):
                continue
            if len(text) < 500 or text[:300] in seen:
                continue
            seen.add(text[:300])
            if bytes_left < 0:  # behind what is trained on: another file, with other documents
                with open(valid, "a") as held_out:
                    held_out.write(json.dumps({"text": text}) + "\n")
                if os.path.getsize(valid) > 1 << 20:
                    return
                continue
            out.write(json.dumps({"text": text}) + "\n")
            bytes_left -= len(text.encode())
    sys.exit(f"{' '.join(folders)} hold too little text: name others with --text")


def train_tokenizer(text, path):
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    lines = (json.loads(line)["text"] for line in open(text))
    tokenizer.train_from_iterator(lines, trainers.BpeTrainer(
        vocab_size=VOCABULARY, special_tokens=["<|endoftext|>"], show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    tokenizer.save(path)


def build_model(seed):
    import torch, transformers
    torch.manual_seed(seed)
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(
        vocab_size=VOCABULARY, hidden_size=288, intermediate_size=768, num_hidden_layers=6, num_attention_heads=6,
        num_key_value_heads=6, max_position_embeddings=T, tie_word_embeddings=False, attn_implementation="sdpa"))


def tokens_of(path):
    import numpy as np
    with open(path, "rb") as file:
        head = file.read(64)  # runtime-lib/data/token_file.h: how many ids there are; of 2 bytes each, as of such a vocabulary
    return np.fromfile(path, dtype="<u2", offset=64, count=int.from_bytes(head[16:24], "little"))


def order_of(seed, train):
    import numpy as np
    return np.random.default_rng(seed).permutation((len(train) - 1) // T)


def train_torch(seed, a, log):
    import numpy as np, torch
    torch.set_num_threads(a.threads)
    model = build_model(seed)
    train, valid = (tokens_of(os.path.join(a.dir, f"{name}.bin")) for name in ("train", "valid"))
    order = order_of(seed, train)
    window = lambda data, at: torch.from_numpy(data[at * T:at * T + T + 1].astype(np.int64))
    matrices = [p for p in model.parameters() if p.dim() >= 2]
    vectors = [p for p in model.parameters() if p.dim() < 2]
    optimizer = torch.optim.AdamW([{"params": matrices, "weight_decay": DECAY}, {"params": vectors, "weight_decay": 0.0}],
                                  lr=LR, betas=BETAS, eps=EPS)

    def loss_of(rows):
        rows = torch.stack(rows)
        logits = model(rows[:, :-1], use_cache=False).logits
        return torch.nn.functional.cross_entropy(logits.reshape(-1, VOCABULARY), rows[:, 1:].reshape(-1))

    def evaluate():
        model.eval()
        with torch.no_grad():
            losses = [float(loss_of([window(valid, at + k) for k in range(B)])) for at in range(0, VALID, B)]
        model.train()
        return statistics.mean(losses)

    with open(log, "w") as out:
        for step in range(a.steps):
            lr = LR * (step + 1) / WARMUP if step < WARMUP else LR / 10 + 0.9 * LR * (
                1 + math.cos(math.pi * (step - WARMUP) / (a.steps - WARMUP))) / 2
            for group in optimizer.param_groups:
                group["lr"] = lr
            began = time.perf_counter()
            loss = loss_of([window(train, order[step * B + k]) for k in range(B)])
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            norm = torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
            optimizer.step()
            ms = 1e3 * (time.perf_counter() - began)
            out.write(json.dumps({"step": step, "loss": float(loss), "grad_norm": float(norm), "lr": lr, "tokens": B * T,
                                  "step_ms": ms, "tokens_per_second": B * T / ms * 1e3}) + "\n")
            if (step + 1) % a.every == 0 or step + 1 == a.steps:
                out.write(json.dumps({"step": step + 1, "eval_loss": evaluate(), "eval_batches": VALID // B}) + "\n")
                out.flush()


def run_thunderc(a, seed, log, *options, data=None):
    call(os.path.join(a.dir, "out/build/train"), "--init", os.path.join(a.dir, f"init-{seed}.safetensors"),
         *(data or ("--data", os.path.join(a.dir, "train.bin"))), "--steps", a.steps, "--seed", seed, "--lr", LR, "--warmup", WARMUP, "--schedule", "cosine",
         "--beta1", BETAS[0], "--beta2", BETAS[1], "--eps", EPS, "--weight-decay", DECAY, "--grad-clip", CLIP, "--threads", a.threads,
         "--log", log, "--quiet", *options)


def run_torch(a, seed, name):
    call(sys.executable, __file__, a.dir, "--torch-seed", seed, "--torch-log", name, "--steps", a.steps, "--every", a.every, "--threads",
         a.threads)


def write_weights(a, seed):
    from safetensors.torch import save_file
    path = os.path.join(a.dir, f"init-{seed}.safetensors")
    save_file({k: v.contiguous() for k, v in build_model(seed).state_dict().items()}, path)


def compare_steps(a):
    import numpy as np
    from safetensors.numpy import save_file
    write_weights(a, 1)
    train = tokens_of(os.path.join(a.dir, "train.bin"))
    order, feed = order_of(1, train), {}
    for step in range(a.steps):
        rows = np.stack([train[at * T:at * T + T + 1] for at in order[step * B:step * B + B]]).astype(np.int64)
        feed[f"input_ids_{step}"], feed[f"labels_{step}"] = rows[:, :-1].copy(), rows[:, 1:].copy()
    save_file(feed, os.path.join(a.dir, "rows.safetensors"))
    run_thunderc(a, 1, os.path.join(a.dir, "rows-thunderc.jsonl"), data=("--feed", os.path.join(a.dir, "rows.safetensors")))
    run_torch(a, 1, "rows-torch.jsonl")
    ours, theirs = ({x["step"]: x for x in map(json.loads, open(os.path.join(a.dir, f"rows-{side}.jsonl"))) if "loss" in x}
                    for side in ("thunderc", "torch"))
    for begin in range(0, a.steps, a.every):
        steps = range(begin, min(begin + a.every, a.steps))
        loss = max(abs(ours[k]["loss"] - theirs[k]["loss"]) for k in steps)
        norm = max(abs(ours[k]["grad_norm"] / theirs[k]["grad_norm"] - 1) for k in steps)
        print(f"steps {begin} to {steps[-1]}: losses {theirs[begin]['loss']:.4f} to {theirs[steps[-1]]['loss']:.4f} differ by {loss:.2g} "
              f"at most, norms of gradients by {100 * norm:.2g}%")


def measure_rates(a):
    a.steps, a.every = 20, 20
    write_weights(a, 1)
    turns = {"thunderc": [], "torch": []}
    for turn in range(a.rates):
        run_thunderc(a, 1, os.path.join(a.dir, "rates-thunderc.jsonl"))
        run_torch(a, 1, "rates-torch.jsonl")
        for side, of in turns.items():
            lines = [json.loads(line) for line in open(os.path.join(a.dir, f"rates-{side}.jsonl"))]
            of.append(statistics.median([x["step_ms"] for x in lines if "step_ms" in x][5:]))
        print(f"turn {turn + 1}: " + ", ".join(f"{side} {of[-1]:.0f} ms" for side, of in turns.items()), flush=True)
    for side, of in turns.items():
        print(f"| {side} | {B * T / statistics.median(of) * 1e3:.0f} tokens/s | {statistics.median(of):.0f} ms ({min(of):.0f} to {max(of):.0f}) |")
    print(f"PyTorch takes {statistics.median(turns['torch']) / statistics.median(turns['thunderc']):.2f} times as long")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("dir"); p.add_argument("--text", nargs="+", default=["/usr/share/doc", "/usr/lib/python3", "/usr/lib/python3.11"])
    p.add_argument("--megabytes", type=int, default=24); p.add_argument("--steps", type=int, default=300)
    p.add_argument("--every", type=int, default=100); p.add_argument("--seeds", type=int, default=3)
    p.add_argument("--threads", type=int, default=2); p.add_argument("--thunderc", default="build/thunderc")
    p.add_argument("--onednn"); p.add_argument("--torch-seed", type=int)
    p.add_argument("--torch-log"); p.add_argument("--rates", type=int, default=0)
    p.add_argument("--same-rows", action="store_true")
    a = p.parse_args()
    at = lambda name: os.path.join(a.dir, name)
    if a.torch_seed:  # a process of its own, as the program is
        return train_torch(a.torch_seed, a, at(a.torch_log))
    os.makedirs(a.dir, exist_ok=True)
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # PyTorch's threads do not spin where other work has the cores
    import torch
    if not os.path.exists(at("tokenizer.json")):
        gather(a.text, at("train.jsonl"), at("valid.jsonl"), a.megabytes)
        train_tokenizer(at("train.jsonl"), at("tokenizer.json"))
    for name in ("train", "valid"):
        began = time.perf_counter()
        said = call(a.thunderc, "data", "pack", at(f"{name}.jsonl"), "--tokenizer", at("tokenizer.json"), "--eos",
                    "<|endoftext|>", "-o", at(f"{name}.bin"), "--quiet")
        print(f"{said.splitlines()[0]}, in {time.perf_counter() - began:.1f} s")
    # As many rows as both sides evaluate, all of them.
    tokens_of(at("valid.bin"))[:VALID * T + 1].tofile(at("valid.ids"))
    call(a.thunderc, "data", "pack", at("valid.ids"), "--format", "nanogpt", "--vocab", VOCABULARY, "-o", at("valid.bin"), "--quiet")
    if not os.path.exists(at("out/build/train")):
        model = build_model(0).eval()

        class Logits(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.model = model

            def forward(self, input_ids):
                return self.model(input_ids, use_cache=False).logits

        program = torch.export.export(Logits(), (torch.zeros(B, T, dtype=torch.int64),))
        torch.export.save(program, at("llama.pt2"))
        print(call(a.thunderc, "train", at("llama.pt2"), "-o", at("out"), "--force"), end="")
        call("cmake", "-S", at("out"), "-B", at("out/build"), "-G", "Ninja", *([f"-DONEDNN_ROOT={a.onednn}"] if a.onednn else []))
        call("cmake", "--build", at("out/build"))
    if a.rates:
        return measure_rates(a)
    if a.same_rows:
        return compare_steps(a)
    logs = {"thunderc": [], "torch": []}
    for seed in range(1, a.seeds + 1):
        write_weights(a, seed)
        for side, of in logs.items():
            of.append(at(f"{side}-{seed}.jsonl"))
        # The batches of the evaluation are all of the validation's rows, in some order.
        run_thunderc(a, seed, logs["thunderc"][-1], "--eval-data", at("valid.bin"), "--eval-every", a.every, "--eval-batches", VALID // B)
        run_torch(a, seed, f"torch-{seed}.jsonl")
        print(f"seed {seed}: " + ", ".join(
            f"{side} {[line['eval_loss'] for line in map(json.loads, open(of[-1])) if 'eval_loss' in line][-1]:.4f}"
            for side, of in logs.items()), flush=True)
    results = {}
    print("\n| | validation loss, of each seed | mean | standard error | tokens/s | a step, ms |\n|---|---|---:|---:|---:|---:|")
    for side, of in logs.items():
        lines = [[json.loads(line) for line in open(log)] for log in of]
        losses = [[x["eval_loss"] for x in run if "eval_loss" in x][-1] for run in lines]
        ms = statistics.median(x["step_ms"] for run in lines for x in run if "step_ms" in x)
        results[side] = {"losses": losses, "mean": statistics.mean(losses), "step_ms": ms,
                         "error": statistics.stdev(losses) / math.sqrt(len(losses)) if len(losses) > 1 else 0}
        r = results[side]
        print(f"| {side} | {', '.join(f'{x:.4f}' for x in losses)} | {r['mean']:.4f} | {r['error']:.4f} | {B * T / ms * 1e3:.0f} | {ms:.0f} |")
    error = math.hypot(*(r["error"] for r in results.values()))
    difference = results["thunderc"]["mean"] - results["torch"]["mean"]
    print(f"\nthe means differ by {difference:+.4f}, {abs(difference) / error if error else 0:.1f} standard errors of the difference ({error:.4f})")
    json.dump(results, open(at("results.json"), "w"), indent=1)
    call(a.thunderc, "report", *logs["thunderc"], *logs["torch"], "--program", at("out"), "-o", at("report.html"))


if __name__ == "__main__":
    main()
