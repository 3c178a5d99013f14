# SPDX-License-Identifier: Apache-2.0
"""What thunderc ckpt writes, transformers loads: the same model, by its loss; with adapters merged as PEFT merges them.

  THUNDERC=build/thunderc python tests/python/ckpt_test.py [-k PATTERN]

Exits with 77 where torch, safetensors or transformers is absent."""
import importlib.util, json, os, shutil, subprocess, sys, tempfile, unittest, warnings
from pathlib import Path

try:
    import safetensors.torch, torch, transformers
except ModuleNotFoundError as missing:
    print(f"skipped: {missing.name} is not installed for {sys.executable}; THUNDERC_PYTHON=PATH names a Python that has it")
    sys.exit(77)

THUNDERC = os.environ.get("THUNDERC", "thunderc")
transformers.utils.logging.set_verbosity_error()

SIZES = dict(vocab_size=320, hidden_size=64, intermediate_size=96, num_hidden_layers=3, num_attention_heads=4,
             num_key_value_heads=2, max_position_embeddings=64)
CONFIGS = {
    "llama": transformers.LlamaConfig(**SIZES, tie_word_embeddings=False),
    "llama_tied": transformers.LlamaConfig(**SIZES, tie_word_embeddings=True),
    "gpt2": transformers.GPT2Config(vocab_size=320, n_embd=64, n_layer=3, n_head=4, n_positions=64),
    "gemma": transformers.GemmaConfig(**SIZES, head_dim=16),
}


def ckpt(*arguments):
    return subprocess.run([THUNDERC, "ckpt", *map(str, arguments)], check=True, capture_output=True, text=True).stdout


def loss_of(model, ids):
    with torch.no_grad():
        return model(input_ids=ids, labels=ids).loss.double().item()


class RoundTrips(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="thunderc-ckpt-"))
        torch.manual_seed(3)

    def tearDown(self):
        shutil.rmtree(self.folder)

    def trained(self, config, untie=False):
        """A model and its folder as it was before it was trained; and a checkpoint of three ranks behind that."""
        for f in self.folder.iterdir():  # of the model before
            shutil.rmtree(f) if f.is_dir() else f.unlink()
        model = transformers.AutoModelForCausalLM.from_config(config).float().eval()
        model.save_pretrained(self.folder / "before")
        with torch.no_grad():
            for parameter in model.parameters():
                parameter += 0.05 * torch.randn_like(parameter)
        head = model.get_output_embeddings().weight
        state = {name: p.detach().clone().contiguous() for name, p in model.named_parameters()}
        if untie:  # a program trained embedding and head apart
            config.tie_word_embeddings = False
            model.config.tie_word_embeddings = False
            model.lm_head.weight = torch.nn.Parameter(head + 0.1)
            state["lm_head.weight"] = model.lm_head.weight.detach().clone()
        states = {f"optimizer.m.{name}": torch.ones_like(t) for name, t in state.items()}
        safetensors.torch.save_file({**state, **states}, self.folder / "step-00000007.safetensors",
                                    {"format": "thunder-checkpoint", "version": "1", "step": "7"})
        ckpt("reshard", self.folder / "step-00000007.safetensors", "--ranks", 3, "-o", self.folder / "kept")
        return model

    def converted(self, *options):
        out = self.folder / "after"
        shutil.rmtree(out, ignore_errors=True)
        said = ckpt("convert", self.folder / "kept", "--to", "hf", "--like", self.folder / "before", "-o", out, *options)
        model, info = transformers.AutoModelForCausalLM.from_pretrained(out, output_loading_info=True, dtype="auto")
        for what in ("missing_keys", "unexpected_keys", "mismatched_keys"):
            self.assertFalse(info[what], what)
        return model.eval(), out, said

    def test_the_loss_is_the_same(self):
        ids = torch.randint(0, 320, (2, 24))
        for name, config in CONFIGS.items():
            with self.subTest(name):
                model = self.trained(config)
                want = loss_of(model, ids)
                self.assertGreater(abs(want - loss_of(transformers.AutoModelForCausalLM.from_pretrained(
                    self.folder / "before").eval(), ids)), 1e-4)  # the test would see an untrained one
                one, out, _ = self.converted()
                self.assertEqual(one.dtype, torch.float32)
                self.assertEqual(loss_of(one, ids), want)
                self.assertFalse((out / "model.safetensors.index.json").exists())
                # bf16: what torch rounds to.
                narrow, out, _ = self.converted("--dtype", "bf16")
                self.assertEqual(narrow.dtype, torch.bfloat16)
                for parameter in model.parameters():  # of tables that no file has, nothing is rounded
                    parameter.data = parameter.data.bfloat16()
                self.assertEqual(loss_of(narrow, ids), loss_of(model, ids))

    def test_several_files(self):
        config = transformers.LlamaConfig(**{**SIZES, "hidden_size": 256, "intermediate_size": 512})
        model = self.trained(config)
        ids = torch.randint(0, 320, (2, 24))
        many, out, said = self.converted("--file-mb", 2)
        index = json.loads((out / "model.safetensors.index.json").read_text())
        files = sorted(set(index["weight_map"].values()))
        self.assertGreater(len(files), 3)
        self.assertEqual(files, sorted(f.name for f in out.glob("*.safetensors")))
        for f in files:
            self.assertLessEqual((out / f).stat().st_size, 2_000_000 + 10_000)
        self.assertEqual(index["metadata"]["total_size"], 4 * sum(p.numel() for p in model.parameters()))
        self.assertEqual(loss_of(many, ids), loss_of(model, ids))

    def test_a_head_that_was_trained_apart(self):
        for name in ("llama_tied", "gpt2", "gemma"):
            with self.subTest(name):
                model = self.trained(CONFIGS[name], untie=True)
                ids = torch.randint(0, 320, (2, 24))
                apart, out, said = self.converted()
                self.assertIn("was trained apart", said)
                self.assertEqual(loss_of(apart, ids), loss_of(model, ids))


@unittest.skipUnless(importlib.util.find_spec("peft"), "peft is not installed")
class Merged(unittest.TestCase):
    def check(self, name, dtype=torch.float32, **lora):
        import peft
        torch.manual_seed(5)
        ids = torch.randint(0, 320, (2, 24))
        with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            folder = Path(folder)
            base = transformers.AutoModelForCausalLM.from_config(CONFIGS[name]).to(dtype)
            base.save_pretrained(folder / "base")
            adapted = peft.get_peft_model(base, peft.LoraConfig(r=4, init_lora_weights=False, **lora))
            with torch.no_grad():
                for parameter_name, parameter in adapted.named_parameters():
                    if "modules_to_save" in parameter_name:
                        parameter += 0.05 * torch.randn_like(parameter)
            adapted.save_pretrained(folder / "adapter")
            said = ckpt("convert", folder / "base", "--merge", folder / "adapter", "--to", "hf", "--like", folder / "base", "-o",
                        folder / "merged")
            self.assertIn("merged", said)
            model, info = transformers.AutoModelForCausalLM.from_pretrained(folder / "merged", output_loading_info=True, dtype="auto")
            for what in ("missing_keys", "unexpected_keys", "mismatched_keys"):
                self.assertFalse(info[what], what)
            self.assertEqual(model.dtype, dtype)
            before = transformers.AutoModelForCausalLM.from_pretrained(folder / "base", dtype="auto").eval()
            wanted = adapted.merge_and_unload().eval()
            # PEFT rounds the product to the weight's type before it adds it, and what is added again: two roundings, where
            # there is one here.
            tolerance = 2.0 ** (-8 if dtype == torch.bfloat16 else -23)
            theirs = dict(wanted.named_parameters())
            for parameter_name, parameter in model.named_parameters():
                w = theirs[parameter_name].float()
                self.assertLessEqual((parameter.float() - w).abs().max().item(), 2 * tolerance * w.abs().max().item(),
                                     parameter_name)
            self.assertGreater(abs(loss_of(model, ids) - loss_of(before, ids)), 1e-3)
            if dtype == torch.float32:
                self.assertLess(abs(loss_of(model, ids) - loss_of(wanted, ids)), 1e-5)

    def test_llama(self):
        self.check("llama", lora_alpha=8, target_modules="all-linear")

    def test_llama_in_bf16(self):
        self.check("llama", torch.bfloat16, lora_alpha=8, target_modules="all-linear")

    def test_rank_stabilised_beside_a_head_that_is_trained_whole(self):
        self.check("llama", lora_alpha=3, use_rslora=True, target_modules=["q_proj", "v_proj"], modules_to_save=["lm_head"])

    def test_conv1d(self):
        self.check("gpt2", lora_alpha=16, target_modules=["c_attn", "c_proj"], fan_in_fan_out=True)


if __name__ == "__main__":
    unittest.main(verbosity=2)
