# SPDX-License-Identifier: Apache-2.0
"""The way out of Python: export, check and load (docs/python.md). Needs PyTorch 2.10 and Python 3.10; the command `thunderc` needs none."""
from thunderc._check import Check, check, load
from thunderc._export import Exported, ExportError, export

__all__ = ["Check", "ExportError", "Exported", "check", "export", "load"]
