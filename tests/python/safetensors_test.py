# SPDX-License-Identifier: Apache-2.0
"""What programs write, read by the `safetensors` package: a file of --save and the parts of a checkpoint; and what `thunderc
ckpt convert` makes of that checkpoint is what --save wrote, to the bit.

  THUNDERC=build/thunderc WORDS_TRAIN=build/.../words_train python tests/python/safetensors_test.py

Exits with 77 where safetensors or numpy is absent."""
import os, subprocess, sys, tempfile, unittest
from pathlib import Path

try:
    import numpy
    from safetensors.numpy import load_file, save_file
except ModuleNotFoundError as missing:
    print(f"skipped: {missing.name} is not installed for {sys.executable}; THUNDERC_PYTHON=PATH names a Python that has it")
    sys.exit(77)


class Files(unittest.TestCase):
    def test_the_package_reads_what_is_written(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder)
            ids = numpy.arange(24, dtype=numpy.int64).reshape(4, 6) % 11
            save_file({"input_ids_0": ids, "labels_0": numpy.roll(ids, -1)}, path / "feed.safetensors")
            save_file({"table": numpy.arange(8, dtype=numpy.float32) * 0.05}, path / "constants.safetensors")
            subprocess.run([os.environ["WORDS_TRAIN"], "--feed", "feed.safetensors", "--quiet", "--lr", "0.1", "--steps", "4",
                            "--checkpoint", "kept", "--save", "saved.safetensors"], cwd=path, check=True)
            subprocess.run([os.environ["THUNDERC"], "ckpt", "convert", "kept", "-o", "converted.safetensors"], cwd=path, check=True,
                           stdout=subprocess.DEVNULL)
            saved, converted = load_file(path / "saved.safetensors"), load_file(path / "converted.safetensors")
            self.assertTrue(saved)
            self.assertEqual(sorted(saved), sorted(converted))
            for name, tensor in saved.items():
                self.assertTrue(numpy.isfinite(tensor).all(), name)
                numpy.testing.assert_array_equal(tensor, converted[name], name)
            parts = sorted(path.glob("kept/step-*/*.safetensors"))
            self.assertTrue(parts)
            held = {name: tensor for part in parts for name, tensor in load_file(part).items()}
            for name, tensor in saved.items():  # beside states of the optimizer, under names of their own
                found = [other for other in held.values() if other.size == tensor.size and (other.ravel() == tensor.ravel()).all()]
                self.assertTrue(found, f"{name} of {sorted(held)}")


if __name__ == "__main__":
    unittest.main()
