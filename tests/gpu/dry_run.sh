#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# prepare.sh and run.sh on a CPU, with the small programs: all parts that need no GPU run, numbers that are wrong are found, and what is
# left out is said.
#
#   tests/gpu/dry_run.sh THUNDERC RUNTIME FOLDER     RUNTIME: a runtime that was built before
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
thunderc=$1 runtime=$2 folder=$3
fail() { echo "FAIL: $*"; exit 1; }

"$here/prepare.sh" --thunderc "$thunderc" --out "$folder" --tiny
run() { "$folder/run.sh" --dry-run --no-peers --runtime "$runtime" --results "$folder/$1" >"$folder/$1.log" 2>&1; }
run first || { cat "$folder/first.log"; fail "the dry run"; }
with_mpi=no
if grep -q thunder_comm_mpi "$runtime/thunder_runtimeTargets.cmake"; then with_mpi=yes; fi
python3 -W error - "$folder/first/results.json" $with_mpi <<'PYTHON'
import json, sys
with open(sys.argv[1]) as f:
    r = json.load(f)
parts = {p["part"]: p["good"] for p in r["parts"]}
for part in ("parity-mlp-f32", "parity-llama2-f32", "parity-mlp-bf16", "parity-llama2-bf16", "tiny-llama, ours"):
    assert parts.get(part), (part, parts)
if sys.argv[2] == "yes":
    (note,) = [p["note"] for p in r["parts"] if p["part"] == "ranks-llama2-f32" and p["good"]]
    assert note.startswith("its collectives by MPI, against PyTorch in fp64, "), note
else:
    assert any(what.startswith("ranks-llama2-f32: ") for what in r["left_out"]), r["left_out"]
(row,) = [row for row in r["table"] if row["by"] == "ours"]
assert row["tokens_per_second"] > 0 and row["peak_bytes"] > 1e6 and "mfu" not in row, row
assert {"products", "attention", "fused", "optimizer", "cross_entropy", "embedding"} <= set(row["kernels"]), row["kernels"]
assert all(k["ms"] > 0 and k["roof_ms"] is None for k in row["kernels"].values()), row["kernels"]
assert any("compute-sanitizer" in what for what in r["left_out"]), r["left_out"]
PYTHON

# Another loss than PyTorch's, by ten times the tolerance: in that program's part alone.
find "$folder/programs" -mindepth 1 -maxdepth 1 ! -name parity-mlp-f32 -exec rm -r {} +
reference=$folder/programs/parity-mlp-f32/reference.json
python3 -W error - "$reference" <<'PYTHON'
import json, sys
with open(sys.argv[1]) as f:
    r = json.load(f)
r["loss64"][0] *= 1 + 1e-4
with open(sys.argv[1], "w") as f:
    json.dump(r, f)
PYTHON
if run second; then fail "a wrong loss was not found"; fi
grep -q '^FAIL parity-mlp-f32' "$folder/second.log" || { cat "$folder/second.log"; fail "the wrong loss is not named"; }

# A folder of somebody else's stays.
mkdir -p "$folder.other" && touch "$folder.other/mine"
if "$here/prepare.sh" --thunderc "$thunderc" --out "$folder.other" --tiny >"$folder/other.log"; then fail "a foreign folder was taken"; fi
[ -e "$folder.other/mine" ] || fail "a foreign folder was thrown away"
rm -r "$folder.other"
echo "the dry run: $(grep -c '^ok' "$folder/first.log") parts"
