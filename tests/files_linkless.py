"""Opens a folder as if on a disk that gives no file a second name.

For the suite: ``STORES_TEST_FOLDER=folder python -m conformance_tests
tests.files_linkless:open_backend``.
"""

import errno
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from stores_core import Backend, Clock, Embedder
from stores_files.backend import open_files
from stores_files.disk import Disk


def without_links(code: int = errno.EPERM) -> None:
    """Let no disk in this process make a link from now on."""

    def link(self: Disk, folder: int, name: str, to: int, to_name: str) -> None:
        raise OSError(code, os.strerror(code))

    Disk.link = link


@asynccontextmanager
async def open_backend(
    *, tenant: str = "", embedder: Embedder | None = None, clock: Clock | None = None
) -> AsyncGenerator[Backend]:
    without_links()
    url = f"file:{os.environ['STORES_TEST_FOLDER']}"
    async with open_files(url, tenant=tenant, embedder=embedder, clock=clock) as backend:
        yield backend
