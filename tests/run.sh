#!/usr/bin/env bash
# Installs what is missing, builds thunderc and runs all its tests; the compiler's also under the address and
# undefined-behaviour sanitizers.
#
#   tests/run.sh            everything
#   tests/run.sh --quick    without the sanitizers
#   THUNDERC_BUILD=DIR      where to build; default: build in this repository
set -euo pipefail
cd "$(dirname "$0")/.."
quick=0
case "${1:-}" in
    --quick) quick=1 ;;
    "") ;;
    *) echo "usage: tests/run.sh [--quick]" >&2; exit 2 ;;
esac
jobs=$(nproc)
scripts/install_dependencies.sh
build=${THUNDERC_BUILD:-build}

echo "== build"
cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release >/dev/null
cmake --build "$build" -j "$jobs"
echo "== tests"
ctest --test-dir "$build" -j "$jobs" --output-on-failure --no-tests=error

if ((!quick)); then
    echo "== build with sanitizers"
    cmake -S . -B "$build-sanitize" -G Ninja -DCMAKE_BUILD_TYPE=Debug -DCMAKE_CXX_FLAGS_DEBUG="-O1 -g1" \
        -DTHUNDERC_SANITIZE=address,undefined >/dev/null
    cmake --build "$build-sanitize" -j "$jobs"
    echo "== tests with sanitizers"
    ctest --test-dir "$build-sanitize" -j "$jobs" --output-on-failure --no-tests=error
fi
echo "all tests passed"
