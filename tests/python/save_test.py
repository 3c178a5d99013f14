# SPDX-License-Identifier: Apache-2.0
"""What a program's --save DIR/ writes, transformers loads: the model that was trained, by its loss; of one rank and of two.

  THUNDERC=build/thunderc python tests/python/save_test.py

Exits with 77 where torch or transformers is absent."""
import json, os, shlex, shutil, subprocess, sys, tempfile, unittest
from pathlib import Path

try:
    import torch, transformers
    from safetensors.torch import load_file, save_file
except ModuleNotFoundError as missing:
    print(f"skipped: {missing.name} is not installed for {sys.executable}; THUNDERC_PYTHON=PATH names a Python that has it")
    sys.exit(77)

FIXTURES = Path(__file__).resolve().parent.parent / "fixtures"
transformers.utils.logging.set_verbosity_error()


def llama():
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(
        vocab_size=48, hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
        max_position_embeddings=32, rms_norm_eps=1e-5, tie_word_embeddings=False))


def gpt2():
    return transformers.GPT2LMHeadModel(transformers.GPT2Config(
        vocab_size=48, n_positions=16, n_embd=16, n_layer=2, n_head=2, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0,
        bos_token_id=0, eos_token_id=0))


class Saved(unittest.TestCase):
    def check(self, build, base, graph, options="", ranks=1):
        fixture = FIXTURES / base
        batch = load_file(fixture / "batch.safetensors")
        own_loss = ".loss" in graph
        with tempfile.TemporaryDirectory() as folder:
            def run(command):
                done = subprocess.run(shlex.split(command), cwd=folder, capture_output=True, text=True)
                self.assertEqual(done.returncode, 0, f"{command}\n{done.stdout}{done.stderr}")
                return done

            feed = {f"input_ids_{k}": batch[f"input_ids_{k}"] for k in range(5)}
            feed |= {f"labels_{k}": batch[f"{'hf_labels' if own_loss else 'labels'}_{k}"] for k in range(5)}
            save_file(feed, f"{folder}/feed.safetensors")
            model = build()
            model.load_state_dict(load_file(fixture / "params.safetensors"), strict=False)
            model.tie_weights()
            model.save_pretrained(f"{folder}/base")
            Path(folder, "base/tokenizer.json").write_text("{}")
            run(f"{os.environ.get('THUNDERC', 'thunderc')} train {fixture / graph} --batch {2 // ranks} --seq 8 --device cpu -o out --quiet "
                f"{options}")
            run(f"cmake -S out -B out/build {os.environ.get('THUNDERC_CMAKE', '')}")
            run("cmake --build out/build")
            program = "out/build/train --feed feed.safetensors --quiet" if ranks == 1 else (
                f"mpirun --allow-run-as-root --oversubscribe -np {ranks} out/build/train --feed feed.safetensors --quiet --threads 1")
            run(f"{program} --init base --steps 5 --lr 1e-2 --checkpoint kept --save tuned/")
            evaluated = run(f"{program} --checkpoint kept --resume --eval-feed feed.safetensors --eval-only")
            want = json.loads(evaluated.stdout)["eval_loss"]
            self.assertEqual(Path(folder, "tuned/tokenizer.json").read_text(), "{}")
            for dtype in ("f32", "bf16"):
                if dtype != "f32":
                    shutil.rmtree(f"{folder}/tuned")
                    run(f"{program} --init base --steps 5 --lr 1e-2 --save tuned/ --save-dtype {dtype}")
                tuned, info = transformers.AutoModelForCausalLM.from_pretrained(f"{folder}/tuned", output_loading_info=True, dtype="auto")
                for what in ("missing_keys", "unexpected_keys", "mismatched_keys"):
                    self.assertFalse(info[what], what)
                self.assertEqual(tuned.dtype, {"f32": torch.float32, "bf16": torch.bfloat16}[dtype])
                if dtype == "bf16":  # the rounding of torch
                    for name, parameter in tuned.named_parameters():
                        self.assertTrue(torch.equal(parameter, whole[name].bfloat16()), name)
                    continue
                whole = {name: parameter.detach().clone() for name, parameter in tuned.named_parameters()}
                loss, count = 0.0, 0
                for k in range(5):
                    labels = batch[f"labels_{k}"]
                    with torch.no_grad():
                        logits = tuned.eval()(input_ids=batch[f"input_ids_{k}"]).logits
                    loss += torch.nn.functional.cross_entropy(logits.reshape(-1, logits.shape[-1]), labels.reshape(-1),
                                                              reduction="sum").item()
                    count += int((labels != -100).sum())
                # In f32, or by products of bf16: of some tens of roundings of 2^-9 of a loss of 4.
                self.assertLess(abs(loss / count - want), 2e-2 if "bf16" in options else 2e-5)
                self.assertGreater(abs(want - json.loads(run(f"{program} --init base --eval-feed feed.safetensors --eval-only").stdout)
                                       ["eval_loss"]), 1e-2)  # the test would see an untrained one

    def test_llama(self):
        self.check(llama, "llama2", "dyn.logits.onnx")

    def test_llama_of_shards_in_bf16(self):
        self.check(llama, "llama2", "dyn.logits.onnx", "--fsdp 2 --dtype bf16", 2)

    def test_gpt2(self):
        self.check(gpt2, "gpt2", "ep_dyn.loss.pt2")

    def test_gpt2_of_copies(self):
        self.check(gpt2, "gpt2", "ep_dyn.loss.pt2", "--dp 2", 2)


if __name__ == "__main__":
    unittest.main()
