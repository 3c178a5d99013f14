#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Makes a Python environment in which tests/python run: packages of fixed versions, from PyPI.
#
#   scripts/make_python_environment.sh DIR            what comes in seconds: numpy, safetensors, tensorboard and
#                                                     tokenizers' packages
#   scripts/make_python_environment.sh DIR --torch    and torch, transformers and peft: some gigabytes
#   THUNDERC_PYTHON=DIR/bin/python cmake ...          configures tests with it (tests/python/CMakeLists.txt)
#
# A package that lacks there is one whose tests are skipped. What is there already, of these versions, is left alone.
set -euo pipefail
[ $# -ge 1 ] || { sed -n '3,9s/^# \{0,1\}//p' "$0" >&2; exit 2; }
dir=$1
packages=(numpy==2.4.6 safetensors==0.8.0 tensorboard==2.21.0 protobuf==7.36.2)
alone=(tokenizers==0.23.3 sentencepiece==0.2.3 tiktoken==0.14.0 regex==2026.11.19)  # the rest of what they name is for downloads
if [ "${2:-}" = --torch ]; then
    packages+=(torch==2.13.0 transformers==5.23.0 peft==0.18.0 onnxscript==0.7.2 onnx==1.23.2 regex==2026.11.19 tokenizers==0.23.3 sentencepiece==0.2.3 tiktoken==0.14.0)
    alone=()
fi
wanted="${packages[*]} ${alone[*]}"
[ "$(cat "$dir/.packages" 2>/dev/null)" != "$wanted" ] || exit 0
[ -x "$dir/bin/pip" ] || python3 -m venv "$dir"
install() { "$dir/bin/pip" --disable-pip-version-check install -q --only-binary :all: --retries 1 --timeout 20 "$@"; }
install "${packages[@]}"
[ ${#alone[@]} = 0 ] || install --no-deps "${alone[@]}"
echo "$wanted" >"$dir/.packages"
