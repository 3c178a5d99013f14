#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds, checks and measures what prepare.sh put into this script's folder. See measure.py for options.
#
#   run.sh [--dry-run] [--seconds 600] [--results DIR]
here=$(cd "$(dirname "$0")" && pwd)
if [ ! -e "$here/.prepared" ]; then
  [ -e "$here/../../build-gpu/.prepared" ] || { echo "tests/gpu/prepare.sh comes first"; exit 1; }
  here=$here/../../build-gpu
fi
exec python3 "$here/measure.py" --folder "$here" "$@"
