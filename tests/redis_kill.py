"""``python -m tests.redis_kill --kills 300``: SIGKILL Redis under writers.

The server forces each write to the disk before it answers (``appendfsync always``), and the exit
code is 0 only if nothing was found.

With ``--appendfsync everysec`` or ``no`` it is counted how much of what was acknowledged is lost;
only what is there in part, or twice, or damaged, is a fault then.
"""

import argparse
import asyncio
import sys
from functools import partial

from conformance_tests.faults.command import Tally, add_number, conclude
from conformance_tests.faults.server import Open, Server, kill_server
from stores_core import open_backend
from tests.redis_embedded import embedded_redis
from tests.redis_server import with_prefix


def kill_redis(server: Server, url: str, kills: int, seed: int, *, may_lose: bool) -> Tally:
    """Kill it so often under writers to storages of their own."""

    async def storage() -> Open:
        return partial(open_backend, with_prefix(url))

    return asyncio.run(kill_server(server, storage, kills, seed, may_lose=may_lose))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.redis_kill", description=__doc__)
    parser.add_argument("--appendfsync", choices=["always", "everysec", "no"], default="always")
    add_number(parser, "kills")
    options = parser.parse_args()
    # What a kill tore is cut off whole, see docs/redis.md.
    with embedded_redis(appendfsync=options.appendfsync, aof_load_truncated="no") as server:
        may_lose = options.appendfsync != "always"
        tally = kill_redis(server, server.url, options.number, options.seed, may_lose=may_lose)
        return conclude(options, "kills", tally)


if __name__ == "__main__":
    sys.exit(main())
