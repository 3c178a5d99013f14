#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Rewrites the goldens with what thunderc writes now; a commit that changes them says why.
#
#   tests/goldens/update.sh [NAME...]        no name: all of them
#   THUNDERC=PATH                            default: build/thunderc
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
exec "$here/check.sh" --update "${THUNDERC:-$here/../../build/thunderc}" "$@"
