#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Rewrites docs/ops.md from the definitions of ops, the table of kinks in docs/numerics.md from what is recorded of them,
# and the stages of docs/walkthrough.md from what thunderc prints.
# usage: scripts/generate_docs.sh [BUILD]     (default: build, a configured build folder)
set -euo pipefail
cd "$(dirname "$0")/.."
build=${1:-build}
cmake --build "$build" --target test_ops test_kinks thunderc
THUNDERC_UPDATE=1 "$build/tests/ops/test_ops" --gtest_filter='Docs.*'
THUNDERC_UPDATE=1 "$build/tests/test_kinks" --gtest_filter='*TableInTheDocs*'
tests/docs/walkthrough.sh --update "$build/thunderc"
