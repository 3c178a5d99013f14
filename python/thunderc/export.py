# SPDX-License-Identifier: Apache-2.0
"""`python -m thunderc.export`. Imported, `thunderc.export` is the function, whichever way it is spelled."""
import sys

if __name__ == "__main__":
    from thunderc._command import main

    sys.exit(main())

from thunderc._export import export

sys.modules[__name__] = export  # type: ignore[assignment]
