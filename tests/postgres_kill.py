"""``python -m tests.postgres_kill --kills 100``: SIGKILL Postgres, all of it, under writers."""

import argparse
import asyncio
import sys
from functools import partial

from conformance_tests.faults.command import add_number, conclude
from conformance_tests.faults.server import Open, kill_server
from stores_core import open_backend
from tests.postgres_embedded import embedded_postgres
from tests.postgres_server import new_database


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.postgres_kill", description=__doc__)
    add_number(parser, "kills")
    options = parser.parse_args()
    with embedded_postgres() as server:

        async def storage() -> Open:
            return partial(open_backend, await new_database(server.url))

        tally = asyncio.run(kill_server(server, storage, options.number, options.seed))
        return conclude(options, "kills", tally)


if __name__ == "__main__":
    sys.exit(main())
