#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs clang-tidy over the compiler, the code generator, the command line and the runtime; any finding fails.
#
#   scripts/tidy.sh [FOLDER|FILE …]     default: all of them
#   THUNDERC_JOBS=N                     how many at once; default: one for each core
#
# Half an hour on two cores for everything: for before a release, not for each build.
set -euo pipefail
cd "$(dirname "$0")/.."
build=build-tidy
cmake --preset release -B "$build" -DCMAKE_EXPORT_COMPILE_COMMANDS=ON -DTHUNDER_UNITY=OFF >/dev/null
targets=("$@")
((${#targets[@]})) || targets=(compiler codegen tokenizers packing cli runtime-lib)
# tile.cpp speaks g++'s vector extensions, which clang's front end lacks.
find "${targets[@]}" -name '*.cpp' ! -name tile.cpp -print0 | sort -z |
    xargs -0 -n 4 -P "${THUNDERC_JOBS:-$(nproc)}" clang-tidy -p "$build" --quiet --extra-arg=-Wno-unknown-warning-option 2>/dev/null
echo "clang-tidy found nothing"
