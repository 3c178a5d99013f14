#!/usr/bin/env bash
# Rewrites docs/ops.md from the definitions of ops.
# usage: scripts/generate_docs.sh [BUILD]     (default: build, a configured build folder)
set -euo pipefail
cd "$(dirname "$0")/.."
build=${1:-build}
cmake --build "$build" --target test_ops
THUNDERC_UPDATE=1 "$build/tests/ops/test_ops" --gtest_filter='Docs.*'
