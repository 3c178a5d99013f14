#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Kernels of random graphs in large numbers: printed, compiled, and run on the emulated GPU and the CPU against the fp64
# evaluator. The test emulation.RandomKernels does the same with the first 80 seeds; a seed has some four kernels.
#
#   tests/emulation/random_kernels.sh                   10,000 kernels, from seed 80 on
#   tests/emulation/random_kernels.sh --first SEED --kernels COUNT
#   --jobs N       batches at once; default: one for each core
#   --batch SEEDS  how many graphs are compiled at once; default: 40, which take g++ half a gigabyte
#   --level N      what g++ optimizes: -ON. Default: 0, as almost all of the time is g++'s, which takes twice as long
#                  for 1. With that, what the compiler makes of promises (no two operands overlap) is tested as well
#   --build DIR    the build folder; default: build
#   --out DIR      where failures are kept; default: DIR/random_kernels of the build folder
#
# A batch that fails is taken apart: each seed that fails by itself keeps its graphs, its kernels' text and what was said
# of it in OUT/SEED. Ends with 0 where there is none, with 1 where there are some.
set -euo pipefail
cd "$(dirname "$0")/../.."

usage() { sed -n '/^# Kernels/,/^set/{/^set/d;s/^# \{0,1\}//;p;}' tests/emulation/random_kernels.sh; }
wrong() { echo "error: $1" >&2; echo "help: tests/emulation/random_kernels.sh --help" >&2; exit 2; }

first=80 kernels=10000 jobs=$(nproc) batch=40 level=0 build=build out=
while (($#)); do
    case "$1" in
        --help) usage; exit 0 ;;
        --first | --kernels | --jobs | --batch | --level)
            [[ ${2:-} =~ ^[0-9]{1,15}$ ]] || wrong "$1 takes a number"
            declare "${1#--}=$((10#$2))" ;;
        --build | --out)
            [[ -n ${2:-} ]] || wrong "$1 takes a folder"
            declare "${1#--}=$2" ;;
        *) wrong "there is no option $1" ;;
    esac
    shift 2
done
((kernels > 0 && jobs > 0 && batch > 0)) || wrong "--kernels, --jobs and --batch are at least 1"
[[ -f $build/build.ninja || -f $build/Makefile ]] || wrong "$build is no build folder: cmake --preset release -B $build"
out=${out:-$build/random_kernels}
mkdir -p "$out"
out=$(realpath "$out")

cmake --build "$build" -j "$jobs" --target print_emulated_kernels test_random_kernels >"$out/build.log" || {
    cat "$out/build.log"
    exit 1
}
compile=$(sed -n 's/.*"command": "\(.*\) -o [^ ]*random_kernels_1\.cpp\.o .*/\1/p' "$build/compile_commands.json")
[[ -n $compile ]] || wrong "$build/compile_commands.json does not say how random_kernels_1.cpp is compiled"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# Copies: the build folder may be at other work long before the last batch.
cp "$build/tests/emulation/print_emulated_kernels" "$build/tests/emulation/test_random_kernels" "$work"
export CCACHE_DISABLE=1 OMP_NUM_THREADS=2

# The kernels of COUNT graphs from SEED on, in FOLDER. Each step's messages are in FOLDER/log.
print() {  # SEED COUNT FOLDER
    mkdir -p "$3"
    THUNDERC_RANDOM_KERNELS="$1 $2" "$work/print_emulated_kernels" --random "$3/kernels.cpp" >"$3/log" 2>&1
}
count() { grep -c 'list_kernel("gpu\.dense\.' "$1/kernels.cpp" || true; }
run() {  # SEED COUNT FOLDER
    $compile "-O$level" -fPIC -shared "$3/kernels.cpp" -o "$3/kernels.so" >"$3/log" 2>&1 &&
        THUNDERC_RANDOM_KERNELS="$1 $2" "$work/test_random_kernels" "$3/kernels.so" --gtest_brief=1 >"$3/log" 2>&1
}
# One batch to its end: FOLDER/failed has the seeds that fail by themselves, or all where only the whole does.
finish() {  # SEED COUNT FOLDER STATUS, which is 0 where it was printed
    local seed status=$4
    : >"$3/failed.unfinished"
    ((status != 0)) || run "$1" "$2" "$3" || status=$?
    if ((status != 0)); then
        # Cases are named after their seeds. Where the test did not come to its end, any may be the one.
        for seed in $( ((status == 1)) &&
            sed -nE 's/^\[ *FAILED *\].*\/(values|step)_([0-9]+).*\(.* ms\)$/\2/p' "$3/log" | sort -nu | grep . ||
            seq "$1" "$(($1 + $2 - 1))"); do
            print "$seed" 1 "$3/$seed" && run "$seed" 1 "$3/$seed" && continue
            THUNDERC_RANDOM_KERNELS="$seed 1" "$work/print_emulated_kernels" --graphs >"$3/$seed/graphs.txt" 2>&1 || true
            rm -rf "${out:?}/$seed" "$3/$seed/kernels.so"
            cp -r "$3/$seed" "$out/$seed"
            echo "$seed" >>"$3/failed.unfinished"
        done
        [[ -s $3/failed.unfinished ]] || {
            mkdir -p "$out/$1-$(($1 + $2 - 1))"
            cp "$3/kernels.cpp" "$3/log" "$out/$1-$(($1 + $2 - 1))"
            echo "$1-$(($1 + $2 - 1))" >>"$3/failed.unfinished"
        }
    fi
    rm -f "$3/kernels.cpp" "$3/kernels.so"
    mv "$3/failed.unfinished" "$3/failed"
}

begin=$SECONDS seed=$first started=0 done=0
declare -A printed=()  # by batch: its kernels
declare -a failed=()
collect() {  # what batches have ended meanwhile
    local at one
    for at in "${!printed[@]}"; do
        [[ -f $work/$at/failed ]] || continue
        ((done += printed[$at])) || true
        while read -r one; do
            failed+=("$one")
            echo "FAILED: $one, see $out/$one/log"
        done <"$work/$at/failed"
        unset "printed[$at]"
        rm -rf "${work:?}/$at"
        echo "$done of $kernels kernels, $((SECONDS - begin)) s, ${#failed[@]} failures; seeds $at to $((at + batch - 1)) done"
    done
}
stop() {
    echo "stopped"
    kill $(jobs -p) 2>/dev/null || true
    kernels=0
    stopped=1
}
stopped=0
trap stop INT TERM
while ((started < kernels)) || ((${#printed[@]})); do
    if ((started < kernels && ${#printed[@]} < jobs)); then
        bad=0
        print "$seed" "$batch" "$work/$seed" || bad=1
        printed[$seed]=$(count "$work/$seed")
        ((started += printed[$seed] > 0 ? printed[$seed] : batch)) || true
        finish "$seed" "$batch" "$work/$seed" "$bad" &
        ((seed += batch))
    else
        wait -n || true
        collect
        ((kernels)) || break
    fi
done
echo "$done kernels of seeds $first to $((seed - 1)) at -O$level in $((SECONDS - begin)) s with $jobs jobs: ${#failed[@]} failures${failed[*]:+: seeds ${failed[*]}, in $out}"
((stopped == 0)) || exit 130
((${#failed[@]} == 0))
