#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Puts all that tests/gpu/run.sh needs on a machine with a GPU into one folder: generated programs, the runtime once, header-only
# dependencies, recorded numbers, and the scripts themselves. The machine needs no thunderc and no network.
#
#   tests/gpu/prepare.sh [--thunderc FILE] [--out DIR] [--graphs DIR]... [--include DIR]... [--tiny]
#
#   --thunderc FILE   default: build/thunderc
#   --out DIR         written anew; default: build-gpu, which git ignores
#   --graphs DIR      where exported graphs lie: llama2-7b.onnx (or llama2-7b.external.onnx), gpt2-124m.onnx, llama-1b.onnx. Graphs
#                     without weights are enough; tests/gpu/export.py makes them where PyTorch is. What is not there is left out.
#   --include DIR     where cudnn_frontend.h lies, if in no usual place: unpack the wheel nvidia-cudnn-frontend, and name its include/
#   --tiny            for a dry run: the small fixtures alone
set -euo pipefail
repository=$(cd "$(dirname "$0")/../.." && pwd)
thunderc=$repository/build/thunderc out=$repository/build-gpu tiny=no graphs=() includes=()
while [ $# -gt 0 ]; do
  case $1 in
    --thunderc) thunderc=$2; shift 2 ;;
    --out) out=$2; shift 2 ;;
    --graphs) graphs+=("$2"); shift 2 ;;
    --include) includes+=("$2"); shift 2 ;;
    --tiny) tiny=yes; shift ;;
    *) sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p}' "$0"; exit 2 ;;
  esac
done
[ -x "$thunderc" ] || { echo "there is no $thunderc: build it, or name it with --thunderc"; exit 1; }
left_out() { echo "left out: $*" | tee -a "$out/left_out"; }

# Only a folder that this script wrote is thrown away.
if [ -e "$out" ] && [ ! -e "$out/.prepared" ] && [ -n "$(ls -A "$out")" ]; then
  echo "$out holds something else: name another folder with --out"; exit 1
fi
rm -rf "$out"
mkdir -p "$out/programs" "$out/include"
touch "$out/.prepared" "$out/left_out"

cp -r "$repository/runtime-lib" "$out/runtime"
cp -r "$repository"/tests/gpu/{run.sh,measure.py,peer.py,models.py,providers} "$out"

# ---- header-only dependencies
find_header() { # HEADER: the folder that holds it
  local folder
  for folder in ${includes[@]+"${includes[@]}"} /usr/include /usr/local/include \
    $(python3 -c 'import sys; print(*(p for p in sys.path if p.endswith("-packages")), sep="\n")' 2>/dev/null |
      while read -r p; do ls -d "$p"/nvidia/*/include "$p/include" 2>/dev/null; done); do
    if [ -e "$folder/$1" ]; then echo "$folder"; return; fi
  done
}
json=$(find_header rapidjson/reader.h)
if [ -n "$json" ]; then cp -r "$json/rapidjson" "$out/include/"; else left_out "RapidJSON's headers, which the machine must have then"; fi
frontend=$(find_header cudnn_frontend.h)
if [ -n "$frontend" ]; then
  cp -r "$frontend"/cudnn_frontend* "$out/include/"
  # Newer versions bring what they declare of cuDNN with them.
  if [ -e "$frontend/cudnn_backend_base.h" ]; then cp "$frontend/cudnn_backend_base.h" "$out/include/"; fi
elif [ $tiny = no ]; then
  left_out "the headers of cuDNN's frontend: attention and convolutions are kernels of our own unless the machine has them (--include)"
fi

# Of NCCL the header: its library is looked for where the programs run.
nccl=$(find_header nccl.h)
if [ -n "$nccl" ]; then cp "$nccl/nccl.h" "$out/include/"; else left_out "the header of NCCL: collectives run where the machine has it"; fi

# ---- programs. Each folder holds program/, case.json, and what a run reads.
program() { # NAME GRAPH OPTIONS...
  local folder=$out/programs/$1 graph=$2
  shift 2
  mkdir -p "$folder"
  "$thunderc" train "$graph" -o "$folder/program" --quiet "$@" 2>"$folder/messages" || { cat "$folder/messages"; return 1; }
  local sharded=no
  if [ -e "$folder/program/runtime/comm/ranks" ]; then sharded=yes; fi
  rm -rf "$folder/program/runtime" "$folder/program/tests"  # its own test is not run here
  # cmake finds the CUDA parts of the runtime's build beside the program.
  mkdir -p "$folder/program/runtime" && cp -r "$repository/runtime-lib/cmake" "$folder/program/runtime/"
  # and by the sources for several ranks that it communicates.
  if [ $sharded = yes ]; then mkdir -p "$folder/program/runtime/comm" && cp -r "$repository/runtime-lib/comm/ranks" "$folder/program/runtime/comm/"; fi
}
parity() { # FIXTURE DTYPE OPTIONS...
  local fixture=$1 dtype=$2 name=parity-$1-$2
  shift 2
  program "$name" "$repository/tests/fixtures/$fixture/dynamo.logits.onnx" --loss cross-entropy "$@"
  cp "$repository/tests/fixtures/$fixture"/{batch,params}.safetensors "$repository/tests/fixtures/$fixture/reference.json" "$out/programs/$name"
  echo "{\"kind\": \"parity\", \"model\": \"$fixture\", \"dtype\": \"$dtype\"}" >"$out/programs/$name/case.json"
}
for fixture in mlp llama2; do
  parity $fixture f32
  parity $fixture bf16 --dtype bf16
done

# Models of many kinds: those whose programs tests/programs/models_test.cpp has, in f32.
model() { # FIXTURE EXPORT OPTIONS...
  local fixture=$1 export=$2 name=parity-model-$1 own_loss=--own-loss loss=
  shift 2
  case $export in *.logits) own_loss= loss="--loss cross-entropy" ;; esac
  program "$name" "$repository/tests/fixtures/models/$fixture/$export.pt2" $loss "$@"
  python3 "$repository/tests/gpu/fixture.py" "$repository/tests/fixtures/models/$fixture" "$out/programs/$name" $own_loss
  echo "{\"kind\": \"parity\", \"model\": \"$fixture\", \"dtype\": \"f32\"}" >"$out/programs/$name/case.json"
}
if [ $tiny = no ]; then
  for fixture in resnet_train convnext whisper bert lstm_masked gru; do model $fixture ep.logits; done
  for fixture in resnet_eval vit; do model $fixture ep_dyn.logits --batch 4; done
  for fixture in unet vae clip mamba gpt_heads llama_complex transformer t5 gru_cells mixtral experts dlrm graph_net; do model $fixture ep.loss; done
fi

# Products of FP8, as tests/programs/fp8_test.cpp has them, against the same recorded numbers.
program parity-llama2-fp8 "$repository/tests/fixtures/llama2/noopt.logits.onnx" --loss cross-entropy --dtype bf16 --fp8 delayed --fp8-weights once
python3 - "$repository/tests/fixtures" "$out/programs/parity-llama2-fp8" <<'PYTHON'
import json, shutil, sys
fixtures, to = sys.argv[1:]
with open(f"{fixtures}/fp8/steps.json") as f:
    losses = json.load(f)["losses"]
with open(f"{to}/reference.json", "w") as f:
    json.dump({"steps": len(losses), "loss64": losses, "optimizer": {"lr": 1e-3, "weight_decay": 0.1, "betas": [0.9, 0.95], "eps": 1e-8}}, f)
with open(f"{to}/case.json", "w") as f:
    json.dump({"kind": "parity", "model": "llama2", "dtype": "fp8"}, f)
shutil.copy(f"{fixtures}/autocast/feed_0.safetensors", f"{to}/batch.safetensors")
shutil.copy(f"{fixtures}/autocast/seed_0.safetensors", f"{to}/params.safetensors")
PYTHON

# One rank that gathers its parameters, scatters its gradients and sums them over copies, all with itself: what NCCL can be held to where
# there is one GPU.
program ranks-llama2-f32 "$repository/tests/fixtures/llama2/dynamo.logits.onnx" --hsdp 1x1
cp "$repository"/tests/fixtures/llama2/{batch,params}.safetensors "$repository/tests/fixtures/llama2/reference.json" "$out/programs/ranks-llama2-f32"
echo '{"kind": "ranks", "model": "llama2", "dtype": "f32"}' >"$out/programs/ranks-llama2-f32/case.json"

speed() { # NAME GRAPH OPTIONS...: what is measured
  local name=$1 graph=$2 machine
  shift 2
  program "$name" "$graph" --no-weights "$@"
  for machine in h100 h200; do "$thunderc" plan "$graph" "$@" --machine $machine --json >"$out/programs/$name/plan-$machine.json" 2>"$out/programs/$name/messages"; done
  echo "{\"kind\": \"speed\", \"model\": \"$name\", \"options\": \"$*\"}" >"$out/programs/$name/case.json"
}
graph() { # NAME: its file
  local folder file
  for folder in ${graphs[@]+"${graphs[@]}"}; do
    for file in "$folder/$1.onnx" "$folder/$1.external.onnx"; do
      if [ -e "$file" ]; then echo "$file"; return; fi
    done
  done
}
if [ $tiny = yes ]; then
  speed tiny-llama "$repository/samples/llama_small/model.onnx" --batch 2 --seq 32
else
  for name in llama2-7b gpt2-124m llama-1b; do
    file=$(graph $name)
    if [ -z "$file" ]; then left_out "$name: no folder of --graphs has $name.onnx (tests/gpu/export.py makes it)"; continue; fi
    case $name in
      # As lean as the peers: parameters, gradients and the optimizer's states in bf16 alone.
      llama2-7b)
        speed $name "$file" --batch 1 --seq 4096 --dtype bf16 --master none --grad-dtype bf16 --optim-dtype bf16
        speed $name-fp8 "$file" --batch 1 --seq 4096 --dtype bf16 --fp8 delayed --master none --grad-dtype bf16 --optim-dtype bf16
        speed $name-2 "$file" --batch 2 --seq 4096 --dtype bf16 --master none --grad-dtype bf16 --optim-dtype bf16
        ;;
      *) speed $name "$file" --dtype bf16 ;;
    esac
  done
fi

bytes=$(du -sb "$out" | cut -f1)
echo "$out: $(ls "$out/programs" | wc -l) programs, $((bytes / 1000)) kB"
[ "$bytes" -lt 50000000 ] || { echo "that is more than the 50 MB that it may have"; exit 1; }
