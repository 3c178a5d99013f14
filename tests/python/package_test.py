# SPDX-License-Identifier: Apache-2.0
"""The Python package, on PyTorch: what is exported is the model, what is not is said, and programs train as models do.

  THUNDERC=build/thunderc python tests/python/package_test.py [-k PATTERN]

Exits with 77 where torch or safetensors is absent. Programs are built with the options of cmake in THUNDERC_CMAKE."""
import dataclasses, importlib.util, os, shlex, subprocess, sys, tempfile, types, unittest
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parents[2] / "python"))
try:
    import safetensors.torch, torch
except ModuleNotFoundError as missing:
    print(f"skipped: {missing.name} is not installed for {sys.executable}; THUNDERC_PYTHON=PATH names a Python that has it")
    sys.exit(77)
import torch.nn.functional as F
from torch import nn
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

import thunderc
from thunderc import _check, _export

THUNDERC = os.environ.get("THUNDERC", "thunderc")


class Small(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.norm, self.last = nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Linear(8, 3)
        self.first.bias.requires_grad_(False)

    def forward(self, x):
        return self.last(torch.relu(self.norm(self.first(x))))


class Words(nn.Module):
    def __init__(self):
        super().__init__()
        self.table, self.head = nn.Embedding(11, 6), nn.Linear(6, 11, bias=False)
        self.head.weight = self.table.weight

    def forward(self, input_ids):
        return self.head(torch.tanh(self.table(input_ids)))


class Branching(Small):
    def forward(self, x):
        y = self.first(x)
        return y if y.sum() > 0 else -y  # this line is named


class Tripled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        return 3 * gradient


class OwnBackward(Small):
    def forward(self, x):
        return Tripled.apply(self.first(x))


class FixedRows(Small):
    def forward(self, x):
        return self.first(x.reshape(2, 2, 4)).sum(1)


class Parts(NamedTuple):
    squares: torch.Tensor
    scores: torch.Tensor


@dataclasses.dataclass
class Result:
    loss: torch.Tensor
    parts: Parts


class Nested(nn.Module):
    """Tensors within a tuple and a dictionary go in, and come out within a class and a named tuple; a name in capitals; sizes that
    have to be even."""

    def __init__(self):
        super().__init__()
        self.left, self.right = nn.Linear(3, 4), nn.Linear(5, 4)

    def forward(self, Pair, batch, factor=2.0):
        a, b = Pair
        y = torch.tanh(self.left(a) + self.right(b)) * factor
        y = y + batch["offset"].reshape(a.shape[0], -1, 2).sum((1, 2), keepdim=True)[..., 0]
        squares = (y - batch["y"]) ** 2
        return Result(squares.mean(), Parts(squares, y))


class Attention(nn.Module):
    """Biases of keys have no gradient but rounding, beside those of queries and values in the same tensor; nor has one in front of a
    norm over the batch."""

    def __init__(self):
        super().__init__()
        self.table, self.block = nn.Embedding(11, 8), nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True, norm_first=True)
        self.mix, self.norm = nn.Linear(8, 8), nn.BatchNorm1d(8)

    def forward(self, ids):
        x = self.norm(self.mix(self.block(self.table(ids))).mT).mT
        return x @ self.table.weight.T


class Flexible(nn.Module):
    """A causal mask within documents, made in forward(); a mask from outside; a function of the score; heads that share keys."""

    def __init__(self, how):
        super().__init__()
        self.how, self.project = how, nn.Linear(8, 48)
        self.window = create_block_mask(lambda b, h, q, k: (q >= k) & (q - k < 9), None, None, 128, 128, device="cpu")

    def forward(self, x, documents):
        rows, places, _ = x.shape
        q, k, v = self.project(x).view(rows, places, 3, 2, 8).permute(2, 0, 3, 1, 4)
        if self.how == "documents":
            mask = create_block_mask(lambda b, h, i, j: (i >= j) & (documents[b, i] == documents[b, j]), rows, None, places, places, device="cpu")
            return flex_attention(q, k, v, block_mask=mask)
        if self.how == "window":
            return flex_attention(q, k, v, block_mask=self.window)
        if self.how == "score":
            return flex_attention(q, k, v, score_mod=lambda s, b, h, i, j: s - 0.1 * (i - j).abs() * (h + 1))
        return flex_attention(q, k[:, :1], v[:, :1], enable_gqa=True, scale=0.5)


class Package(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(0)
        self.folder = tempfile.TemporaryDirectory()
        self.at = Path(self.folder.name)
        self.addCleanup(self.folder.cleanup)

    def compiled(self, made, *options):
        command = [THUNDERC, *shlex.split(made.command)[1:], *options]
        command[command.index("-o") + 1] = str(self.at / "program")
        done = subprocess.run(command, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        return self.at / "program"

    def check(self, model, folder, **options):
        return thunderc.check(model, folder, cmake=shlex.split(os.environ.get("THUNDERC_CMAKE", "")), **options)

    def test_a_model_is_exported_as_it_is_trained(self):
        model = Small().eval()
        before = model.norm.running_mean.clone()
        made = thunderc.export(model, (torch.randn(5, 4),), self.at / "small.pt2")
        self.assertEqual(made.dynamic, {"x": {0: "batch"}})
        self.assertIn("train() mode", made.notes[0])
        self.assertFalse(model.training)
        self.assertTrue(torch.equal(before, model.norm.running_mean))
        again = torch.export.load(made.path)
        self.assertFalse(dict(again.named_parameters())["first.bias"].requires_grad)
        self.assertIn("batch_norm", str(again.graph))

    def test_the_folder_that_a_model_came_from_stays_as_it_is(self):
        source = self.at / "small"
        source.mkdir()
        (source / "config.json").write_text("{}")
        example = (torch.randn(5, 4),)
        made = thunderc.export(Small(), example, self.at / "small.pt2", source=source)
        self.assertIn("small-trained/model.safetensors", made.notes[-1])
        self.assertTrue((self.at / "small-trained" / "config.json").is_file())
        made = thunderc.export(Small(), example, self.at / "other.pt2", source=source)
        self.assertIn("other/model.safetensors", made.notes[-1])

    def test_the_loss_is_part_of_the_graph(self):
        made = thunderc.export(Small(), (torch.randn(5, 4), torch.randint(0, 3, (5,))), self.at / "small.pt2", loss=nn.CrossEntropyLoss())
        self.assertEqual(made.program.graph_signature.user_inputs, ("x", "target"))
        made = thunderc.export(Small(), {"x": torch.randn(5, 4), "y": torch.randn(5, 3)}, self.at / "small.pt2", loss=lambda r, y: F.mse_loss(r, y))
        self.assertEqual(made.program.graph_signature.user_inputs, ("x", "y"))

    def test_flex_attention_is_exported_as_operators(self):
        inputs = {"x": torch.randn(2, 128, 8), "documents": (torch.arange(128) // 40).expand(2, -1).contiguous()}
        for how in ("documents", "window", "score", "groups"):
            model = Flexible(how).eval()
            with torch.no_grad():
                wanted = model(**inputs)  # by PyTorch's kernel, which has no gradients on CPUs
            made = thunderc.export(model, inputs, self.at / f"{how}.pt2", dynamic=False)
            found = torch.export.load(made.path).module()(**inputs)
            self.assertLess(float((found - wanted).abs().max()), 1e-5, how)
            safetensors.torch.save_file(inputs, self.at / "in.safetensors")
            done = subprocess.run([THUNDERC, "run", made.path, "--in", self.at / "in.safetensors", "--out", self.at / "out.safetensors"],
                                  capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stderr)
            (result,) = safetensors.torch.load_file(self.at / "out.safetensors").values()
            self.assertLess(float((result - wanted).abs().max()), 1e-5, how)

    def test_documents_are_trained_apart(self):
        model = Flexible("documents")
        inputs = {"x": torch.randn(2, 40, 8), "documents": (torch.arange(40) // 15).expand(2, -1).contiguous()}
        program = self.compiled(thunderc.export(model, inputs, self.at / "documents.pt2", loss=lambda y: y.square().mean()))
        self.assertTrue(self.check(model, program, loss=lambda y: y.square().mean(), batches=[inputs]))

    def test_one_row_and_one_tensor_twice(self):
        ids = torch.randint(0, 11, (1, 7))
        made = thunderc.export(Words(), {"input_ids": ids, "labels": ids}, self.at / "words.pt2",
                               loss=lambda r, labels: F.cross_entropy(r.flatten(0, 1), labels.flatten()))
        self.assertEqual(made.dynamic, {"input_ids": {0: "batch", 1: "seq"}, "labels": {0: "batch", 1: "seq"}})
        self.assertIn("--batch 1 --seq 7", made.command)

    def test_ranges_that_torch_suggests_are_taken(self):
        class AtLeastThree(Words):
            def forward(self, input_ids):
                return super().forward(input_ids if input_ids.shape[1] > 2 else input_ids + 1)

        made = thunderc.export(AtLeastThree(), {"input_ids": torch.randint(0, 11, (2, 7))}, self.at / "words.pt2")
        self.assertEqual(made.dynamic, {"input_ids": {0: "batch", 1: "seq"}})

    def test_what_is_fixed_is_said(self):
        made = thunderc.export(FixedRows(), (torch.randn(4, 4),), self.at / "fixed.pt2")
        self.assertEqual(made.dynamic, {"x": {}})
        self.assertTrue(any(note.startswith("batch fixed at the example's size: ") for note in made.notes), made.notes)

        violated = ("Constraints violated (seq)! For more information, run with TORCH_LOGS=\"+dynamic\".\n"
                    "  - Not all values of seq = L['ids'].size()[1] in the specified range seq <= 24 satisfy the generated guard L['ids'].size()[1] != 24.\n")
        self.assertIn("!= 24", _export._said(ValueError(violated))[0])

    def test_the_command_compiles_what_is_open(self):
        class Two(nn.Module):
            def __init__(self):
                super().__init__()
                self.table = nn.Embedding(11, 6)

            def forward(self, ids, other):
                return (self.table(ids).mean(1) * self.table(other).sum(1)).mean()

        inputs = torch.randint(0, 11, (3, 7)), torch.randint(0, 11, (3, 5))
        made = thunderc.export(Two(), inputs, self.at / "two.pt2")
        self.assertEqual(made.dynamic, {"ids": {0: "batch", 1: "seq"}, "other": {0: "batch", 1: "seq_2"}})
        self.compiled(made, "--force")
        auto = torch.export.Dim.AUTO
        made = thunderc.export(Two(), inputs, self.at / "auto.pt2", dynamic={"ids": {0: auto, 1: auto}, "other": {0: auto}})
        self.compiled(made, "--force")

    def test_the_authors_line_is_named(self):
        with self.assertRaises(thunderc.ExportError) as said:
            thunderc.export(Branching(), (torch.randn(5, 4),), self.at / "branching.pt2")
        self.assertRegex(str(said.exception), r"depends on a tensor's numbers\n  .*package_test\.py:\d+: return y if y\.sum\(\) > 0 else -y")
        self.assertIn("help: choose with torch.where", str(said.exception))
        self.assertFalse((self.at / "branching.pt2").exists())

    def test_a_backward_that_an_export_loses(self):
        with self.assertRaisesRegex(thunderc.ExportError, "gradient of first.weight is another in the exported graph, by 6.7e-01"):
            thunderc.export(OwnBackward(), (torch.randn(5, 4),), self.at / "own.pt2")

    def test_a_buffer_that_changes(self):
        class Counting(Small):
            def __init__(self):
                super().__init__()
                self.register_buffer("calls", torch.zeros(()))

            def forward(self, x):
                self.calls += 1
                return super().forward(x) * self.calls

        with self.assertRaisesRegex(thunderc.ExportError, r"cannot be run as the model was: .*\nhelp: leave out what forward\(\) writes to buffers"):
            thunderc.export(Counting(), (torch.randn(5, 4),), self.at / "counting.pt2")

    def test_the_name_is_the_function_however_it_is_imported(self):
        import thunderc.export
        self.assertTrue(callable(thunderc.export))
        self.assertIs(sys.modules["thunderc.export"], thunderc.export)
        said = subprocess.run([sys.executable, "-m", "thunderc.export", "--help"], capture_output=True, text=True,
                              env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2] / "python")})
        self.assertTrue(said.stdout.startswith("usage: python -m thunderc.export"), said.stderr)

    def test_examples_of_the_command(self):
        spec = importlib.util.spec_from_file_location("command", Path(__file__).parents[2] / "python" / "thunderc" / "export.py")
        command = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(command)

        def shapes(kind, takes, asked=None, **config):
            config = types.SimpleNamespace(**config)
            config.get_text_config = lambda: config
            model = type(kind, (), {"main_input_name": takes, "config": config})()
            return {name: list(of.shape) for name, of in command.example_of(model, 2, 16, False, asked).items()}

        images = {"num_channels": 3, "num_labels": 4}
        self.assertEqual(shapes("AnyForImageClassification", "pixel_values", 8, **images), {"pixel_values": [2, 3, 8, 8], "labels": [2]})
        self.assertEqual(shapes("AnyForImageClassification", "pixel_values", image_size=(4, 6), **images)["pixel_values"], [2, 3, 4, 6])
        with self.assertRaisesRegex(thunderc.ExportError, "what AnyForImageClassification takes as pixel_values is not known here\nhelp: --image-size N"):
            shapes("AnyForImageClassification", "pixel_values", **images)
        # Lengths that are equal would be one dimension.
        self.assertEqual(shapes("AnyForConditionalGeneration", "input_ids", vocab_size=11, is_encoder_decoder=True),
                         {"input_ids": [2, 16], "labels": [2, 8]})
        self.assertEqual(shapes("AnyForCausalLM", "input_ids", vocab_size=11), {"input_ids": [2, 16], "labels": [2, 16]})
        for takes in ("input_features", "input_ids", "pixel_values"):
            with self.assertRaisesRegex(thunderc.ExportError, f"what Any takes as {takes} is not known here"):
                shapes("Any", takes)

    def test_names_through_a_wrapper(self):
        own = ["first.weight", "last.weight"]
        self.assertEqual(_check.names_in(own, ["model.first.weight"]), {"model.first.weight": "first.weight"})
        self.assertEqual(_check.names_in(["model.first.weight"], ["first.weight"]), {"first.weight": "model.first.weight"})
        self.assertEqual(_check.names_in(own, own), {name: name for name in own})

    def test_weights_come_back(self):
        model, other = Words(), Words()
        safetensors.torch.save_file({"table.weight": model.table.weight.detach()}, self.at / "weights.safetensors")
        self.assertIs(thunderc.load(other, self.at / "weights.safetensors"), other)  # tied: one name is enough
        self.assertTrue(torch.equal(model.head.weight, other.head.weight))
        with self.assertRaisesRegex(ValueError, "it lacks first.bias.*the model has no table.weight"):
            thunderc.load(Small(), self.at / "weights.safetensors")

    def test_inputs_get_names(self):
        self.assertEqual(list(_export.by_name(Small(), torch.zeros(1), None)[0]), ["x"])
        with self.assertRaisesRegex(TypeError, "2 example inputs are given; forward\\(\\) takes x"):
            _export.by_name(Small(), (torch.zeros(1), torch.zeros(1)), None)

    def test_inputs_and_results_within_others(self):
        model = Nested()
        inputs = {"Pair": (torch.randn(6, 3), torch.randn(6, 5)), "batch": {"y": torch.randn(6, 4), "offset": torch.randint(0, 2, (6, 8))}}
        made = thunderc.export(model, inputs, self.at / "nested.pt2")
        self.assertEqual(made.dynamic, {"pair_0": {0: "batch"}, "pair_1": {0: "batch"}, "batch_y": {0: "batch"}, "batch_offset": {0: "batch", 1: "seq"}})
        done = subprocess.run([THUNDERC, "inspect", made.path, "--batch", "6", "--seq", "7"], capture_output=True, text=True)
        self.assertIn("dimension 1 of the input batch_offset is 7, and the model was exported for others", done.stderr)
        program = self.compiled(made)
        self.assertTrue(self.check(model, program, loss=lambda r: r.loss))
        self.assertTrue(self.check(model, program, loss=lambda r: r.loss, batches=[inputs]))
        done = subprocess.run([THUNDERC, "inspect", made.path, "--batch", "6", "--seq", "8", "--output", "parts.scores", "--loss", "mse"],
                              capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_the_loss_in_a_dictionary_and_numbers_that_are_constants(self):
        class Scaled(Small):
            def forward(self, x, y, scale=1.0, doubled=False):
                scores = super().forward(x) * scale * (2 if doubled else 1)
                return {"loss": F.cross_entropy(scores, y), "scores": scores}

        model, inputs = Scaled(), {"x": torch.randn(6, 4), "y": torch.randint(0, 3, (6,)), "scale": 0.25, "doubled": True}
        program = self.compiled(thunderc.export(model, inputs, self.at / "scaled.pt2"))
        found = self.check(model, program, batches=[inputs])
        self.assertTrue(found, str(found))
        self.assertEqual([row[0] for row in found.rows if row[0].startswith("statistic")],
                         ["statistic norm.running_mean", "statistic norm.running_var"])
        wrong = self.check(model, program, batches=[{**inputs, "scale": 2.0}])
        self.assertIn("loss of step 0", str(wrong))
        model.norm.momentum = 0.2
        wrong = self.check(model, program, batches=[inputs])
        self.assertRegex(str(wrong), "statistic norm.running_mean: .*\nstatistic norm.running_var: .*\n2 of [0-9]+ differ")

    def test_rounding_is_no_difference(self):
        model = Attention()
        program = self.compiled(thunderc.export(model, {"ids": torch.randint(0, 11, (3, 6))}, self.at / "attention.pt2"))
        self.assertTrue(self.check(model, program))

    def test_a_program_trains_as_the_model(self):
        model = Words()
        made = thunderc.export(model, {"input_ids": torch.randint(0, 11, (3, 5))}, self.at / "words.pt2")
        program = self.compiled(made)
        found = self.check(model, program)
        self.assertTrue(found, str(found))
        self.assertEqual(len(found.losses), 5)
        with torch.no_grad():
            model.table.weight.mul_(2)
        wrong = self.check(model, program, loss=lambda r, labels: 1.01 * F.cross_entropy(r.flatten(0, 1), labels.flatten()))
        self.assertFalse(wrong)
        self.assertIn("loss of step 0: 9.9e-03", str(wrong))


if __name__ == "__main__":
    unittest.main(verbosity=1)
