# SPDX-License-Identifier: Apache-2.0
"""Event files, read back by TensorBoard's own package: the numbers are those of the log, and where a run goes on, what it
did before behind its last checkpoint is gone.

  WORDS_TRAIN=build/.../words_train python tests/python/tensorboard_test.py

Exits with 77 where tensorboard is absent."""
import json, os, shutil, struct, subprocess, sys, tempfile, unittest
from pathlib import Path

try:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
except ModuleNotFoundError as missing:
    print(f"skipped: {missing.name} is not installed for {sys.executable}; THUNDERC_PYTHON=PATH names a Python that has it")
    sys.exit(77)

TAGS = {"train/loss": "loss", "train/learning_rate": "lr", "train/grad_norm": "grad_norm",
        "train/tokens_per_second": "tokens_per_second"}


def safetensors(path, tensors):
    """name: (type, shape, format of struct, numbers)"""
    header, data = {}, b""
    for name, (dtype, shape, letter, numbers) in sorted(tensors.items()):
        part = struct.pack(f"<{len(numbers)}{letter}", *numbers)
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(part)]}
        data += part
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


class EventFiles(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name)
        ids = [k % 11 for k in range(24)]
        safetensors(self.path / "feed.safetensors",
                    {"input_ids_0": ("I64", [4, 6], "q", ids), "labels_0": ("I64", [4, 6], "q", ids[1:] + [0])})
        safetensors(self.path / "constants.safetensors", {"table": ("F32", [8], "f", [0.05 * d for d in range(8)])})

    def tearDown(self):
        self.folder.cleanup()

    def train(self, *arguments):
        subprocess.run([os.environ["WORDS_TRAIN"], "--feed", "feed.safetensors", "--quiet", "--lr", "0.1", *arguments],
                       cwd=self.path, check=True)

    def read(self):
        accumulator = EventAccumulator(str(self.path / "runs"), size_guidance={"scalars": 0})
        return accumulator.Reload()

    def log(self, kind):
        lines = [json.loads(line) for line in (self.path / "run.jsonl").read_text().splitlines()]
        return [line for line in lines if kind in line]

    def expect(self, events, tag, numbers):
        scalars = events.Scalars(tag)
        self.assertEqual([event.step for event in scalars], [step for step, _ in numbers], tag)
        for event, (_, number) in zip(scalars, numbers):
            self.assertAlmostEqual(event.value, number, delta=1e-6 * abs(number), msg=tag)  # a float of nine digits

    def test_numbers_are_those_of_the_log(self):
        self.train("--steps", "30", "--log", "run.jsonl", "--tensorboard", "runs", "--eval-feed", "feed.safetensors",
                   "--eval-every", "10", "--peak-tflops", "0.001")
        events = self.read()
        for tag, key in TAGS.items():
            self.expect(events, tag, [(line["step"], line[key]) for line in self.log("loss")])
        self.expect(events, "eval/loss", [(line["step"], line["eval_loss"]) for line in self.log("eval_loss")])
        self.assertEqual(len(events.Scalars("train/mfu")), 30)

    def test_a_run_goes_on(self):
        files = ["--log", "run.jsonl", "--tensorboard", "runs", "--checkpoint", "c", "--checkpoint-every", "5"]
        self.train("--steps", "12", *files)
        for path in (self.path / "c").iterdir():  # as where it had been killed before its end
            if "12" in path.name:
                shutil.rmtree(path)
        self.train("--steps", "20", "--resume", *files)
        self.assertEqual(len(self.log("loss")), 20)
        self.expect(self.read(), "train/loss", [(line["step"], line["loss"]) for line in self.log("loss")])


if __name__ == "__main__":
    unittest.main()
