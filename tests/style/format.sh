#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Whether all sources are formatted as .clang-format says; --fix formats them. By the version that Debian 12 has: others
# break lines elsewhere, and the test is skipped.
set -euo pipefail
cd "$(dirname "$0")/../.."
tool=$(command -v clang-format-14 || command -v clang-format) || { echo "there is no clang-format"; exit 77; }
[[ $("$tool" --version) == *"version 14."* ]] || { echo "not version 14: $("$tool" --version)"; exit 77; }
how=(--dry-run --Werror)
[ "${1:-}" != --fix ] || how=(-i)
find benchmarks cli codegen compiler packing runtime-lib templates tests tokenizers \( -path tests/goldens -o -path tests/fixtures \) -prune \
    -o -type f \( -name '*.h' -o -name '*.cpp' -o -name '*.cu' -o -name '*.cuh' \) -print0 |
    xargs -0 -n 50 "$tool" "${how[@]}"
