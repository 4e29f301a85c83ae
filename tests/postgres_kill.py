"""``python -m tests.postgres_kill --kills 100``: SIGKILL Postgres, all of it, under writers
(tests/server_killing.py).

The exit code is 0 only if nothing was found. A run whose writers were told too little is no proof
and fails too.
"""

import asyncio
import sys

from tests.killing import arguments, conclude
from tests.postgres_embedded import embedded_postgres
from tests.postgres_server import new_database
from tests.server_killing import play


def main() -> int:
    options = arguments("tests.postgres_kill")
    with embedded_postgres() as server:
        played = play(server, lambda: new_database(server.url), options.kills, options.seed)
        return conclude(options, *asyncio.run(played))


if __name__ == "__main__":
    sys.exit(main())
