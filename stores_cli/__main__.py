"""``agent-stores``, or ``python -m stores_cli``."""

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec

NEEDED = ("typer", "rich", "zstandard")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; the exit code. See ``stores_cli.app.main``."""
    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing:
        sys.stderr.write(
            f"agent-stores: found no package {missing[0]!r}; allowed is it once "
            "`pip install 'agent-stores[cli]'` has run\n"
        )
        return 2
    try:
        return int(import_module("stores_cli.app").main(arguments))  # it imports what is needed
    except KeyboardInterrupt:  # so early that the command has not begun
        return 130


if __name__ == "__main__":
    sys.exit(main())
