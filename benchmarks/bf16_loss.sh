#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Trains the small Llama of the quickstart on real text in f32 and in bf16, three seeds each, and prints both curves and how far
# apart they end.
#
#   benchmarks/bf16_loss.sh [FOLDER]       where programs and logs go; default: build/bf16_loss
#   THUNDERC=PATH                          default: build/thunderc
#   STEPS=500 SEEDS="1 2 3" BATCH=8 SEQ=64
set -euo pipefail
cd "$(dirname "$0")/.."
out=${1:-build/bf16_loss}
thunderc=$(realpath "${THUNDERC:-build/thunderc}")
steps=${STEPS:-500}
mkdir -p "$out"

texts=(README.md docs/*.md)
[ -d /usr/share/common-licenses ] && texts+=($(find /usr/share/common-licenses -type f | sort))
"$thunderc" data pack "${texts[@]}" -o "$out/corpus.bin"
for dtype in f32 bf16; do
    "$thunderc" train samples/llama_small/model.onnx --batch "${BATCH:-8}" --seq "${SEQ:-64}" --dtype $dtype -o "$out/$dtype"
    cmake -S "$out/$dtype" -B "$out/$dtype/build" -G Ninja -DCMAKE_BUILD_TYPE=Release >/dev/null
    cmake --build "$out/$dtype/build"
done
for seed in ${SEEDS:-1 2 3}; do
    for dtype in f32 bf16; do
        rm -f "$out/$dtype.$seed.jsonl"
        "$out/$dtype/build/train" --data "$out/corpus.bin" --init random --seed "$seed" --steps "$steps" --lr 2e-3 --warmup 20 \
            --quiet --log "$out/$dtype.$seed.jsonl"
    done
done

# A point of a curve is the mean over the seeds and the last 50 steps.
awk -F'[:,]' -v steps="$steps" '
    FNR == 1 { split(FILENAME, part, "/"); name = part[length(part)]; dtype = substr(name, 1, index(name, ".") - 1) }
    { if (FNR > 0) { block = int($2 / 50) * 50 + 50; sum[dtype, block] += $4; count[dtype, block]++ } }
    END {
        print "| steps | loss, f32 | loss, bf16 | difference |\n|---:|---:|---:|---:|"
        for (b = 50; b <= steps; b += 50)
            if (count["f32", b] && count["bf16", b]) {
                f = sum["f32", b] / count["f32", b]; h = sum["bf16", b] / count["bf16", b]
                printf "| %d to %d | %.4f | %.4f | %+.2f%% |\n", b - 49, b, f, h, 100 * (h / f - 1)
            }
    }' "$out"/f32.*.jsonl "$out"/bf16.*.jsonl
