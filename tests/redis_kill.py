"""``python -m tests.redis_kill --kills 300``: SIGKILL Redis under writers
(tests/server_killing.py).

The server forces each write to the disk before it answers (``appendfsync always``), and the exit
code is 0 only if nothing was found. A run whose writers were told too little is no proof and fails
too.

With ``--appendfsync everysec`` or ``no`` it is measured how much of what was acknowledged is lost;
only what is there in part, or twice, or damaged, is a fault then.
"""

import argparse
import asyncio
import random
import re
import sys

from stores_core import open_backend
from tests.killing import HOT, Told, arguments, conclude, look
from tests.redis_embedded import embedded_redis
from tests.redis_server import with_prefix
from tests.server_killing import Server, play, play_round

LOSSES = re.compile(r"was acknowledged|is forgotten|was deleted and is there|is not what was ack")
"""What a weaker setting may bring about."""


async def measure(server: Server, url: str, kills: int, seed: int) -> tuple[int, int, list[str]]:
    """As ``play``, for a server that may lose something; prints how much it was."""
    rng, acknowledged, lost = random.Random(seed), 0, 0
    faults: list[str] = []
    for _ in range(kills):
        storage, told = with_prefix(url), Told()
        async with open_backend(storage) as backend:
            for id in HOT:
                await backend.runs.create_run(run_id=id)
        await play_round(server, storage, told, rng)
        async with open_backend(storage) as backend:
            found = await look(backend, told)
        acknowledged += told.count
        losses = [fault for fault in found if LOSSES.search(fault)]
        lost += len(losses)
        faults += [fault for fault in found if fault not in losses]
    print(f"{lost} of {acknowledged} acknowledged operations were lost over {kills} kills")
    return kills, acknowledged, faults


def main() -> int:
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--appendfsync", choices=["always", "everysec", "no"], default="always")
    own, rest = parser.parse_known_args()
    options = arguments("tests.redis_kill", rest)
    # What a kill tore is cut off whole, see docs/redis.md.
    with embedded_redis(appendfsync=own.appendfsync, aof_load_truncated="no") as server:
        if own.appendfsync == "always":

            async def new_storage() -> str:
                return with_prefix(server.url)

            played = play(server, new_storage, options.kills, options.seed)
        else:
            played = measure(server, server.url, options.kills, options.seed)
        return conclude(options, *asyncio.run(played))


if __name__ == "__main__":
    sys.exit(main())
