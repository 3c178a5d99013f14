# SPDX-License-Identifier: Apache-2.0
"""The way out of Python: `export` writes a model as thunderc reads it, `check` trains the model and the program that thunderc
wrote side by side, `load` brings trained weights back. Needs PyTorch 2.10 and Python 3.10 or newer; the command `thunderc` needs no Python."""
try:
    import torch as _torch
except ModuleNotFoundError as missing:
    raise ImportError("the Python package thunderc works on PyTorch's models, and torch is not installed: pip install torch "
                      "(the command thunderc does without)") from missing

from thunderc._check import Check, check, load
from thunderc._export import Exported, ExportError, export

__all__ = ["Check", "ExportError", "Exported", "check", "export", "load"]
