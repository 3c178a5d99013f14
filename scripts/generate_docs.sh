#!/usr/bin/env bash
# Rewrites docs/ops.md from the definitions of ops, and the table of kinks in docs/numerics.md from what is recorded of them.
# usage: scripts/generate_docs.sh [BUILD]     (default: build, a configured build folder)
set -euo pipefail
cd "$(dirname "$0")/.."
build=${1:-build}
cmake --build "$build" --target test_ops test_kinks
THUNDERC_UPDATE=1 "$build/tests/ops/test_ops" --gtest_filter='Docs.*'
THUNDERC_UPDATE=1 "$build/tests/test_kinks" --gtest_filter='*TableInTheDocs*'
