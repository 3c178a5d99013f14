#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Whether each source says its licence in the first line, or in the second behind `#!`.
set -euo pipefail
cd "$(dirname "$0")/../.."
find CMakeLists.txt benchmarks cli cmake codegen compiler packing python runtime-lib samples scripts templates tests tokenizers \
    \( -path 'tests/goldens/*/*' -o -path tests/fixtures \) -prune -o -type f \( -name '*.h' -o -name '*.cpp' -o -name '*.cu' \
    -o -name '*.cuh' -o -name '*.py' -o -name '*.sh' -o -name '*.cmake' -o -name CMakeLists.txt \) -print0 |
    xargs -0 awk '
        FNR == 1 { said = 0 }
        /^(\/\/|#) SPDX-License-Identifier: Apache-2.0$/ { said = 1 }
        FNR == 2 && !said { print FILENAME ": the first line is not \"SPDX-License-Identifier: Apache-2.0\""; missing = 1 }
        FNR == 2 { nextfile }
        END { exit missing }'
