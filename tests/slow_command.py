"""The command with pauses, so that a test can stop it half-way however little there is to move.

``python -m tests.slow_command ...`` waits before each piece of a log that it reads, each window of
runs and each batch that it writes, and ends a frame of an archive after some kB.
"""

import asyncio
import sys
from functools import partial

from stores_cli import archiving, urls
from stores_cli.app import main
from stores_core import open_backend
from stores_core.interceptors import Call, Proceed
from stores_core.shape import Response

PAUSES = {"export_entries": 0.05, "import_run": 0.5, "append_messages": 0.3}
"""Seconds before each; the runs of a window wait together."""

FRAME_BYTES = 10_000


async def pause(call: Call, proceed: Proceed) -> Response:
    await asyncio.sleep(PAUSES.get(call.operation, 0))
    return await proceed(call.request)


if __name__ == "__main__":
    archiving.FRAME_BYTES = FRAME_BYTES
    urls.open_backend = partial(open_backend, interceptors=[pause])
    sys.exit(main())
