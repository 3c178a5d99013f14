# SPDX-License-Identifier: Apache-2.0
"""Adapters that a program writes, read by PEFT: a model with them gives what it gives with those that PEFT trained.

  THUNDERC=build/thunderc python tests/python/adapters_test.py

Exits with 77 where peft, torch or transformers is absent."""
import os, shlex, subprocess, sys, tempfile, unittest, warnings
from pathlib import Path

try:
    import peft, torch, transformers
    from safetensors.torch import load_file, save_file
except ModuleNotFoundError as missing:
    print(f"skipped: {missing.name} is not installed for {sys.executable}; THUNDERC_PYTHON=PATH names a Python that has it")
    sys.exit(77)

FIXTURES = Path(__file__).resolve().parent.parent / "fixtures"
warnings.simplefilter("ignore")


def llama():
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(
        vocab_size=48, hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
        max_position_embeddings=32, rms_norm_eps=1e-5, tie_word_embeddings=False))


def gpt2():
    return transformers.GPT2LMHeadModel(transformers.GPT2Config(
        vocab_size=48, n_positions=16, n_embd=16, n_layer=2, n_head=2, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0,
        bos_token_id=0, eos_token_id=0))


def with_weights(build, fixture):
    model = build()
    model.load_state_dict(load_file(fixture / "params.safetensors"), strict=False)
    model.tie_weights()
    return model.eval()


class Adapters(unittest.TestCase):
    def check(self, build, base, graph, case, lora, options=""):
        fixture, case = FIXTURES / base, FIXTURES / "adapters" / case
        batch = load_file(fixture / "batch.safetensors")
        with tempfile.TemporaryDirectory() as folder:
            def run(command):
                done = subprocess.run(shlex.split(command), cwd=folder, capture_output=True, text=True)
                self.assertEqual(done.returncode, 0, f"{command}\n{done.stdout}{done.stderr}")

            labels = "hf_labels" if "loss" in graph else "labels"
            feed = {f"input_ids_{k}": batch[f"input_ids_{k}"] for k in range(5)}
            feed |= {f"labels_{k}": batch[f"{labels}_{k}"] for k in range(5)}
            save_file(feed, f"{folder}/feed.safetensors")
            run(f"{os.environ.get('THUNDERC', 'thunderc')} train {fixture / graph} --batch 2 --seq 8 --device cpu --lora '{lora}' "
                f"-o out --quiet {options}")
            run(f"cmake -S out -B out/build {os.environ.get('THUNDERC_CMAKE', '')}")
            run("cmake --build out/build")
            eps = 1e-3 if base == "gpt2" else 1e-8
            run("out/build/train --feed feed.safetensors --steps 10 --lr 1e-3 --schedule constant --warmup 0 --weight-decay 0.1 "
                f"--decay all --beta1 0.9 --beta2 0.95 --eps {eps} --grad-clip 0 --init {fixture / 'params.safetensors'} "
                f"--init-adapter {case / 'before'} --save-adapter saved --quiet")
            ids = batch["input_ids_0"]
            with torch.no_grad():
                plain = with_weights(build, fixture)(input_ids=ids).logits
                ours, theirs = (peft.PeftModel.from_pretrained(with_weights(build, fixture), str(path)).eval()
                                for path in (f"{folder}/saved", case / "after"))
                mine, wanted = ours(input_ids=ids).logits, theirs(input_ids=ids).logits
                merged = ours.merge_and_unload()(input_ids=ids).logits
            # Ten steps of Adam are off PEFT's by 1e-3 of what they moved at most (tests/programs/adapters_test.cpp), and
            # the adapters moved the logits by some 1.
            self.assertLess((mine - wanted).abs().max().item(), 1e-4)
            self.assertGreater((mine - plain).abs().max().item(), 0.05)
            self.assertLess((merged - mine).abs().max().item(), 1e-5)

    def test_llama(self):
        self.check(llama, "llama2", "dyn.logits.onnx", "llama", "r=4,alpha=8")

    def test_modules_that_are_trained_whole(self):
        self.check(llama, "llama2", "dyn.logits.onnx", "llama_saved",
                   "r=2,alpha=3,rslora,targets=q_proj|v_proj,modules_to_save=lm_head")

    def test_conv1d(self):
        self.check(gpt2, "gpt2", "ep_dyn.loss.pt2", "gpt2", "r=2,alpha=8,targets=c_attn|mlp.c_proj")


if __name__ == "__main__":
    unittest.main()
