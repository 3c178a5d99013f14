#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds programs of tests/goldens for GPUs, from what thunderc writes to a program that can be started, and starts them on
# machines that have none: what they say there.
#
#   build_cuda.sh THUNDERC NVCC BUILD_FOLDER DRIVER_STUB NAME...      NVCC empty: says that it is not here, exit 77
#
# DRIVER_STUB is the folder of tests/runtime/cuda's libcuda.so.1. BUILD_FOLDER is kept: what did not change is not built again.
# One runtime serves all programs: with the optimizer of the first alone, as programs have it, or, where the first NAME is
# all-optimizers, with each, which takes minutes.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
thunderc=$1 nvcc=$2 folder=$3 stub=$4
shift 4
[ -n "$nvcc" ] || { echo "skipped: there is no nvcc here, which would compile programs for GPUs"; exit 77; }
thunderc=$(realpath "$thunderc")
thunderc() { "$thunderc" "$@"; }
mkdir -p "$folder"
folder=$(realpath "$folder")
flags=(-G Ninja -DDEVICE=cuda -DCMAKE_CUDA_COMPILER="$nvcc" -DCMAKE_CUDA_ARCHITECTURES=90a -DCMAKE_CXX_FLAGS=-Werror)

no_warnings() {
    ! grep -E -A5 "warning[:#]" "$1" || exit 1
}

fails() {  # fails MESSAGE COMMAND...: exit status 1, and a text that begins with MESSAGE
    local message=$1 text status=0
    shift
    text=$("$@" 2>&1) || status=$?
    text=$(sed '/^error: /,$!d' <<<"$text")
    [ $status = 1 ] && [[ $text == "$message"* ]] && return
    echo "$*: exit $status, said"; echo "$text"; echo "expected"; echo "$message"
    exit 1
}

sources=$(realpath "$here/../../runtime-lib") optimizers=$1 runtime=$folder/runtime
if [ "$optimizers" = all-optimizers ]; then shift; runtime=$folder/runtime-of-all; fi
for name in "$@"; do
    work=$folder/$name
    mkdir -p "$work"
    rm -rf "$work/out"
    (cd "$work" && ln -sfn "$here/.." tests && . "$here/$name/command" 2>messages) || { cat "$work/messages"; exit 1; }
done

if [ "$optimizers" != all-optimizers ]; then
    flags+=(-DCMAKE_CUDA_FLAGS="-Xcicc -O1 -Xptxas -O1")  # what is linked here runs nowhere; it takes half the time
    rm -rf "$folder/runtime-sources"
    cp -r "$sources" "$folder/runtime-sources"
    sources=$folder/runtime-sources
    cp "$folder/$1/out/runtime/optim/rules/list.h" "$sources/optim/rules/list.h"
fi
mkdir -p "$runtime"
cmake -S "$sources" -B "$runtime" "${flags[@]}" >"$folder/log" 2>&1 &&
    cmake --build "$runtime" -j2 >>"$folder/log" 2>&1 || { cat "$folder/log"; exit 1; }
no_warnings "$folder/log"

for name in "$@"; do
    work=$folder/$name
    cmake -S "$work/out" -B "$work/build" "${flags[@]}" -DTHUNDERC_RUNTIME="$runtime" >"$work/log" 2>&1 &&
        cmake --build "$work/build" -j2 >>"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
    no_warnings "$work/log"
    train=$work/build/train
    [ -e "$train" ] || continue  # a function library
    printf 'error' >"$work/feed"  # never read
    if ! ldconfig -p | grep libcuda.so.1 >/dev/null; then
        fails "error: the driver of an NVIDIA GPU is not there: no libcuda.so.1 is found
help: on a machine without a GPU, build the program for the CPU: cmake -DDEVICE=cpu" "$train" --feed "$work/feed"
    fi
    fails "error: the program was built for sm_90a, and NVIDIA A100 is sm_80
help: build it with -DCMAKE_CUDA_ARCHITECTURES=80" \
        env LD_LIBRARY_PATH="$stub" STUB_ARCHITECTURE=80 STUB_NAME="NVIDIA A100" "$train" --feed "$work/feed"
    fails "error: the GPU's driver is too old: it knows CUDA up to 11.8" \
        env LD_LIBRARY_PATH="$stub" STUB_DRIVER=11080 "$train" --feed "$work/feed"
    "$train" --help >/dev/null  # asks for no GPU
done
