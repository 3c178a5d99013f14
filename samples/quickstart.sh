#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# From nothing to a trained model: installs what is missing, builds thunderc, compiles a small Llama that PyTorch exported, builds the
# program, and trains it on real text: the licence texts that every Debian has, and thunderc's own documentation.
#
#   samples/quickstart.sh [FOLDER]      where the program goes; default: build/quickstart
#   STEPS=300                           how long to train
set -euo pipefail
cd "$(dirname "$0")/.."
out=${1:-build/quickstart}
steps=${STEPS:-300}

echo "== dependencies"
scripts/install_dependencies.sh

echo "== thunderc"
cmake -S . -B build -G Ninja -DCMAKE_BUILD_TYPE=Release >/dev/null
cmake --build build --target thunderc

echo "== the program"
mkdir -p "$out"
build/thunderc train samples/llama_small/model.onnx --batch 8 --seq 128 -o "$out/llama"
cmake -S "$out/llama" -B "$out/llama/build" -G Ninja >/dev/null
cmake --build "$out/llama/build"

echo "== training on text"
texts=(README.md docs/*.md)
[ -d /usr/share/common-licenses ] && texts+=($(find /usr/share/common-licenses -type f | sort))
build/thunderc data pack "${texts[@]}" -o "$out/corpus.bin"
"$out/llama/build/train" --data "$out/corpus.bin" --steps "$steps" --lr 2e-3 --seed 1 --log "$out/run.jsonl" --save "$out/weights.safetensors"

echo "== a page about it"
build/thunderc plan samples/llama_small/model.onnx --batch 8 --seq 128 --machine h100 --timeline "$out/step.json" >/dev/null
build/thunderc report "$out/run.jsonl" --program "$out/llama" --timeline "$out/step.json" -o "$out/report.html"

echo "== the loss"
awk -F'[:,]' '{ if (NR == 1 || NR % (int('"$steps"' / 10)) == 0) { n = int($4 * 8); printf "step %4d  loss %6.3f  ", $2, $4; for (i = 0; i < n; ++i) printf "#"; print "" } }' "$out/run.jsonl"
echo
echo "the program: $out/llama (begin with model.cpp and blocks.cpp)"
echo "the weights: $out/weights.safetensors"
echo "the page: $out/report.html (open it in a browser; the step in time is that of an H100)"
