#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs what is missing, builds thunderc and runs its tests: as users build it, then under the address and
# undefined-behaviour sanitizers what these find things in, on small input (tests/CMakeLists.txt).
#
#   tests/run.sh            what CI runs
#   tests/run.sh --quick    without the sanitizers
#   tests/run.sh --full     with the long form of every sweep, all of it under sanitizers, and two million damaged models
#   THUNDERC_BUILD=DIR      where to build; default: build in this repository. The sanitizers' build is DIR-sanitize
#   THUNDERC_JOBS=N         how many jobs at once; default: one for each core
#   THUNDERC_PYTHON=PATH    the Python of tests/python; default: one that is made in the build's folder, with torch by --full. Where
#                           PyPI does not answer, or not within minutes, these tests are skipped
set -euo pipefail
cd "$(dirname "$0")/.."
quick=0 full=OFF
case "${1:-}" in
    --quick) quick=1 ;;
    --full) full=ON; export THUNDERC_TEST_EVERY_CPU=1 ;;
    "") ;;
    *) echo "usage: tests/run.sh [--quick | --full]" >&2; exit 2 ;;
esac
# Tests of thunderc itself run once, under the sanitizers, where these are built (tests/CMakeLists.txt).
once=ON
((quick)) || [ "$full" = ON ] && once=OFF
jobs=${THUNDERC_JOBS:-$(nproc)}
build=${THUNDERC_BUILD:-build}
scripts/install_dependencies.sh --tests

# Packages of Python come while the build runs.
python_of_tests=
if [ -z "${THUNDERC_PYTHON:-}" ]; then
    with_torch=() patience=180
    [ "$full" = OFF ] || with_torch=(--torch) patience=1800
    mkdir -p "$build"
    timeout "$patience" scripts/make_python_environment.sh "$build/python" "${with_torch[@]}" >"$build/python.log" 2>&1 &
    python_of_tests=$!
fi

# Tests are told of the Python that came meanwhile.
choose_python() {  # PRESET FOLDER
    [ -n "$python_of_tests" ] || return 0
    if wait "$python_of_tests"; then
        THUNDERC_PYTHON=$(cd "$build" && pwd)/python/bin/python
        export THUNDERC_PYTHON
        cmake --preset "$1" -B "$2" >/dev/null
    else
        echo "tests/python are skipped: $build/python could not be made ($(tail -n 1 "$build/python.log"))"
    fi
    python_of_tests=
}

run() {  # PRESET FOLDER
    local begin=$SECONDS
    echo "== $1: build"
    cmake --preset "$1" -B "$2" -DTHUNDERC_FULL="$full" -DTHUNDERC_TESTS_ONCE="$once" >/dev/null
    cmake --build "$2" -j "$jobs"
    choose_python "$1" "$2"
    echo "== $1: tests, after $((SECONDS - begin)) s"
    # One more than there are cores: tests of ranks and of commands wait for a part of their time.
    ctest --test-dir "$2" -j $((jobs + 1)) --output-on-failure --no-tests=error
    echo "== $1: the slowest tests, in seconds"
    # sed reads to the end: head would leave, and sort would die of the broken pipe.
    sed '/^---/,$d' "$2/Testing/Temporary/CTestCostData.txt" | awk '{ print $3, $1 }' | sort -rn | sed -n '1,20p'
    echo "== $1: passed in $((SECONDS - begin)) s"
}

run release "$build"
if [ "$full" = ON ]; then
    echo "== damaged models: a million of ONNX, more than a million of .pt2 and .pt"
    FUZZ_ROUNDS=2400 "$build/tests/fuzz/test_fuzz" --gtest_filter='-*ThatGrow:*CutAnywhere' --gtest_brief=1
fi
((quick)) || run sanitize "$build-sanitize"
# Whoever goes on with this folder finds all tests in it.
cmake -B "$build" -DTHUNDERC_TESTS_ONCE=OFF >/dev/null
echo "all tests passed"
