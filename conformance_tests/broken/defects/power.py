"""What only shows when the power fails: syncs that are left out, or come too late or too early.

They change the system calls of this process while an operation is under way, so they spoil backends
that make those from Python.
"""

import os
from collections.abc import Callable, Generator
from contextlib import contextmanager

from conformance_tests.broken.defect import BrokenMemory, BrokenRuns, BrokenToolResults, defect
from stores_core.memory import PutMemoryRequest, PutMemoryResponse
from stores_core.runs import (
    AppendMessagesRequest,
    AppendMessagesResponse,
    CreateRunRequest,
    CreateRunResponse,
    ForkRunRequest,
    ForkRunResponse,
)
from stores_core.tool_results import PutToolResultRequest, PutToolResultResponse

POWER = "test_disk.py::test_when_the_power_fails_what_was_told_is_there_and_nothing_in_part"


@contextmanager
def instead(**calls: Callable[..., object]) -> Generator[None]:
    """Other functions in the place of those of ``os``."""
    good = {name: getattr(os, name) for name in calls}
    for name, call in calls.items():
        setattr(os, name, call)
    try:
        yield
    finally:
        for name, call in good.items():
            setattr(os, name, call)


def nothing(_descriptor: int) -> None:
    """A sync that is none."""


@contextmanager
def synced_later() -> Generator[None]:
    """Files are synced, but behind all else that is done to them."""
    sync, waiting = os.fdatasync, list[int]()

    def wait(file: int) -> None:
        waiting.append(os.dup(file))

    with instead(fdatasync=wait):
        yield
    for file in waiting:
        sync(file)
        os.close(file)


@defect("TOOL-3", "ALL-6", caught_by=POWER)
class ResultsAreRenamedBeforeTheyAreSynced(BrokenToolResults):
    """A result takes the place of the one before, and is synced then, before it is acknowledged."""

    async def put_tool_result(self, request: PutToolResultRequest) -> PutToolResultResponse:
        with synced_later():
            return await self.good.put_tool_result(request)


@defect("ALL-6", "RUN-F7", caught_by=POWER)
class NewNamesAreNotSynced(BrokenRuns):
    """The files of a new run are synced, the folders that hold their names are not."""

    async def create_run(self, request: CreateRunRequest) -> CreateRunResponse:
        with instead(fsync=nothing):
            return await self.good.create_run(request)

    async def fork_run(self, request: ForkRunRequest) -> ForkRunResponse:
        with instead(fsync=nothing):
            return await self.good.fork_run(request)


@defect("ALL-6", caught_by=POWER)
class WhatCameBeforeIsSynced(BrokenRuns):
    """An append syncs the log and writes to it then, so that the next one syncs this one."""

    async def append_messages(self, request: AppendMessagesRequest) -> AppendMessagesResponse:
        sync, write = os.fdatasync, os.pwrite

        def synced_first(file: int, data: bytes, offset: int) -> int:
            sync(file)
            return write(file, data, offset)

        with instead(fdatasync=nothing, pwrite=synced_first):
            return await self.good.append_messages(request)


@defect("ALL-6", caught_by=POWER)
class NotesAreWrittenAndNotSynced(BrokenMemory):
    """A note is put into its file, whose folder alone is synced."""

    async def put_memory(self, request: PutMemoryRequest) -> PutMemoryResponse:
        with instead(fdatasync=nothing):
            return await self.good.put_memory(request)
