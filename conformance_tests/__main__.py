"""``python -m conformance_tests MODULE:OPENER [pytest options]``, or ``--url URL``.

The exit code is 0 only for a conformant backend, 1 when a guarantee failed, 2 when the suite
could not run, 3 when only a part of it ran.
"""

import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from stores_core.errors import InvalidRequestError
from stores_core.extras import need


def main(arguments: Sequence[str] | None = None, **how: Any) -> int:
    """Run the suite and print the verdict; the exit code. See ``conformance_tests.run.run``."""
    try:
        need("pytest", extra="conformance", field="conformance_tests")
    except InvalidRequestError as error:
        print(f"could not run: {error}", file=sys.stderr)
        return 2
    run = import_module("conformance_tests.run").run  # it imports pytest
    return int(run(sys.argv[1:] if arguments is None else arguments, **how))


if __name__ == "__main__":
    sys.exit(main())
