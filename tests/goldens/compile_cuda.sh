#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Compiles a golden's kernels for GPUs with nvcc: no warning, all launchers there. Spilled registers are
# found by thunderc check (tests/commands).
#
#   compile_cuda.sh NVCC NAME ARCHITECTURE...        NVCC empty: says that it is not here, exit 77
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
nvcc=$1 name=$2
shift 2
[ -n "$nvcc" ] || { echo "skipped: there is no nvcc here, which would compile tests/goldens/$name/kernels_cuda.cu"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0
for arch in "$@"; do
    if ! "$nvcc" -std=c++20 -O3 -arch="$arch" -c "$here/$name/kernels_cuda.cu" -o "$work/$arch.o" -I "$here/../../runtime-lib" \
        -Werror all-warnings -Xcompiler -Wall,-Wextra,-Werror >"$work/log" 2>&1; then
        cat "$work/log"
        exit 1
    fi
    # kernels.h and what is defined have the same functions.
    declared=$(tr '\n' ' ' <"$here/$name/kernels.h" | grep -o 'void [a-z0-9_]*(' | sed 's/void //; s/(//' | sort)
    defined=$(nm --demangle --defined-only "$work/$arch.o" | sed -n 's/^[0-9a-f]* T \([a-z0-9_]*\)(.*thunder::Stream&)$/\1/p' | sort)
    if [ "$declared" != "$defined" ]; then
        echo "tests/goldens/$name: kernels.h (<) and kernels_cuda.cu (>) have other functions"
        diff <(echo "$declared") <(echo "$defined") || true
        failed=1
    fi
done
exit $failed
