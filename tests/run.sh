#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs what is missing, builds thunderc and runs all its tests: as users build it, then everything again under the
# address and undefined-behaviour sanitizers, with fewer whole programs and, of tables of cases, a list that has
# each kind.
#
#   tests/run.sh            everything
#   tests/run.sh --quick    without the sanitizers
#   tests/run.sh --full     with the long form of every sweep
#   THUNDERC_BUILD=DIR      where to build; default: build in this repository. The sanitizers' build is DIR-sanitize
#   THUNDERC_JOBS=N         how many jobs at once; default: one for each core
set -euo pipefail
cd "$(dirname "$0")/.."
quick=0 full=OFF
case "${1:-}" in
    --quick) quick=1 ;;
    --full) full=ON ;;
    "") ;;
    *) echo "usage: tests/run.sh [--quick | --full]" >&2; exit 2 ;;
esac
jobs=${THUNDERC_JOBS:-$(nproc)}
build=${THUNDERC_BUILD:-build}
scripts/install_dependencies.sh --tests

run() {  # PRESET FOLDER
    local begin=$SECONDS
    echo "== $1: build"
    cmake --preset "$1" -B "$2" -DTHUNDERC_FULL="$full" >/dev/null
    cmake --build "$2" -j "$jobs"
    echo "== $1: tests, after $((SECONDS - begin)) s"
    ctest --test-dir "$2" -j "$jobs" --output-on-failure --no-tests=error
    echo "== $1: the slowest tests, in seconds"
    # sed reads to the end: head would leave, and sort would die of the broken pipe.
    sed '/^---/,$d' "$2/Testing/Temporary/CTestCostData.txt" | awk '{ print $3, $1 }' | sort -rn | sed -n '1,20p'
    echo "== $1: passed in $((SECONDS - begin)) s"
}

run release "$build"
((quick)) || run sanitize "$build-sanitize"
echo "all tests passed"
