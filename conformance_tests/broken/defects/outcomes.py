"""Outcomes that come late or to the wrong caller."""

import asyncio
from typing import Any

from conformance_tests.broken.defect import BrokenRuns, changed, defect
from stores_core.runs import (
    AppendMessagesRequest,
    AppendMessagesResponse,
    LoadRunRequest,
    LoadRunResponse,
)


@defect("ALL-8", caught_by="test_outcomes.py::test_a_timeout_ends_on_time_and_says_what_is_known")
class TimeoutsAreTenTimesAsLong(BrokenRuns):
    """The timeout of a backend is read in another unit than it is given in."""

    @classmethod
    def opened_with(cls, values: dict[str, Any]) -> dict[str, Any]:
        timeout = values.get("timeout")
        return values | {"timeout": timeout * 10} if timeout else values


@defect(
    "ALL-9",
    caught_by="test_outcomes.py::test_the_reply_of_a_cancelled_call_never_reaches_another_caller",
)
class RepliesWaitInLine(BrokenRuns):
    """Replies wait in line on one connection, where that of a cancelled call stays."""

    def prepare(self) -> None:
        self.replies: list[LoadRunResponse] = []

    async def load_run(self, request: LoadRunRequest) -> LoadRunResponse:
        self.replies.append(await self.good.load_run(request))
        await asyncio.sleep(0)
        return self.replies.pop(0)


@defect(
    "ALL-9",
    "RUN-A4",
    caught_by="test_outcomes.py::"
    "test_cancelled_appends_are_whole_or_absent_and_a_retry_makes_them_once",
)
class CancelledBatchesAreCut(BrokenRuns):
    """A keyed batch is written in two pieces, and a cancellation may come between."""

    async def append_messages(self, request: AppendMessagesRequest) -> AppendMessagesResponse:
        if not request.idempotency_key or len(request.messages) < 3 or request.events:
            return await self.good.append_messages(request)
        first = changed(request, messages=request.messages[:2], idempotency_key="", digest="")
        await self.good.append_messages(first)
        await asyncio.sleep(0)
        rest = changed(request, messages=request.messages[2:])
        return await self.good.append_messages(rest)
