#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Whether each source says its licence in the first line, or in the second behind `#!`.
set -euo pipefail
cd "$(dirname "$0")/../.."
found=0
while IFS= read -r -d '' file; do
    head -n 2 "$file" | grep -qx '\(//\|#\) SPDX-License-Identifier: Apache-2.0' && continue
    echo "$file: the first line is not \"SPDX-License-Identifier: Apache-2.0\""
    found=1
done < <(find CMakeLists.txt benchmarks cli cmake codegen compiler runtime-lib samples scripts templates tests \
    \( -path 'tests/goldens/*/*' -o -path tests/fixtures \) -prune -o -type f \( -name '*.h' -o -name '*.cpp' -o -name '*.cu' \
    -o -name '*.cuh' -o -name '*.py' -o -name '*.sh' -o -name '*.cmake' -o -name CMakeLists.txt \) -print0)
exit $found
