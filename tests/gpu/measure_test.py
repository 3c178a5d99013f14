# SPDX-License-Identifier: Apache-2.0
"""What measure.py reads and judges, without any program."""
import json
import os
import struct
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import measure  # noqa: E402

# As runtime-lib/device/profiler.cpp prints it: two layers, three steps; the first call of each name is not in it.
PROFILE = """step 0/3  loss 5.5
call                                           calls         ms   share    us/call   MB/call  GFLOP/call     GB/s  TFLOP/s  of roof
linear_forward y bf16 (16, 48), x bf16 (16, 16), weight bf16 (48, 16)       5     10.000   50.0%    2000.00     0.004      0.0000     51.2    2.500    40.0%
attention_forward out bf16 (1, 8, 2, 4), q bf16 (1, 8, 2, 4), causal       5      5.000   25.0%    1000.00         -           -        -        -        -
copy_from_host                                       3     99.000   90.0%   33000.00     0.050           -    100.0        -     0.1%
copy                                                 1      1.500    1.0%    1500.00     0.050           -    100.0        -     0.1%
swiglu_forward                                       5      2.500   12.5%     500.00     0.050      0.0001    100.0    0.010    80.0%
adamw of 100 parameters in 2 segments                2      2.000   10.0%    1000.00     3.000      0.0014   3000.0    0.100    90.0%
all                                                        19.500
"""


class Measure(unittest.TestCase):
    def test_a_profile_is_read_by_group(self):
        groups = measure.read_profile(PROFILE, 3)
        # 10 ms in 5 of 6 calls, two of them a step. What comes from the host is no part of a step.
        self.assertEqual(groups, {"products": 4.0, "attention": 2.0, "fused": 1.0, "optimizer": 1.0, "copy": 1.0})

    def test_nccl_tells_its_version(self):
        self.assertEqual(measure.nccl_version("NCCL version 2.27.3+cuda12.9\nmore\n"), "NCCL 2.27.3")
        self.assertEqual(measure.nccl_version("NCCL version 2.18.1\n"), "NCCL 2.18.1")
        self.assertIn("did not say", measure.nccl_version("step 0"))

    def test_the_memory_of_a_program_is_said(self):
        lean = "--batch 1 --dtype bf16 --master none --grad-dtype bf16 --optim-dtype bf16"
        self.assertEqual(measure.memory_text(lean),
                         f"products in bf16; parameters, gradients and the optimizer's states in bf16 alone ({lean})")
        self.assertEqual(measure.memory_text("--dtype bf16"),
                         "products in bf16; masters, gradients and the optimizer's states in f32 (--dtype bf16)")
        self.assertEqual(measure.memory_text("--batch 2"), "all in f32 (--batch 2)")

    def test_errors_may_grow_as_steps_do(self):
        self.assertTrue(measure.within([1e-5, 3e-5, 1e-4], 1e-5, 1e-4))
        self.assertFalse(measure.within([1.1e-5, 0, 0], 1e-5, 1e-4))
        self.assertFalse(measure.within([0, 4e-5, 0], 1e-5, 1e-4))
        self.assertFalse(measure.within([0, 0, 1.1e-4], 1e-5, 1e-4))

    def test_no_number_is_never_within(self):
        for losses in ([2.0, float("nan")], [2.0, float("inf")], [2.0]):
            errors = measure.relative_errors([2.0, 1.0], losses)
            self.assertFalse(measure.within(errors, 1e9, 1e9), losses)
        self.assertEqual(measure.relative_errors([2.0, -1.0], [2.5, -1.0]), [0.25, 0.0])

    def test_a_feed_is_safetensors(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "feed.safetensors")
            measure.write_i64(path, {"a_0": ([2, 2], [1, 2, 3, 4]), "b_0": ([1], [-5])})
            with open(path, "rb") as f:
                data = f.read()
        size = struct.unpack("<Q", data[:8])[0]
        header = json.loads(data[8:8 + size])
        self.assertEqual(size % 8, 0)
        begin, end = header["b_0"]["data_offsets"]
        self.assertEqual(struct.unpack("<q", data[8 + size + begin:8 + size + end]), (-5,))
        self.assertEqual(header["a_0"], {"dtype": "I64", "shape": [2, 2], "data_offsets": [0, 32]})


if __name__ == "__main__":
    unittest.main()
