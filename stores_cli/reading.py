"""The two logs of a run, by the words "messages" and "events"."""

from collections.abc import AsyncGenerator, Sequence

from stores_cli.paging import PAGE, Read
from stores_core.codec import encode
from stores_core.entries import Event, Message
from stores_core.errors import InvalidRequestError, StoreError
from stores_core.front import RunsFront
from stores_core.runs import ReadEventsResponse, ReadMessagesResponse, RunInfo


def length_of(info: RunInfo, log: str) -> int:
    """How many entries the log has."""
    return info.message_count if log == "messages" else info.event_count


async def page_of(
    runs: RunsFront, run_id: str, log: str, start: int, limit: int
) -> ReadMessagesResponse | ReadEventsResponse:
    """A page of the log of this name. Raises StoreError where the run is gone."""
    read = runs.read_messages if log == "messages" else runs.read_events
    gone = StoreError("the run was deleted while it was read")
    try:
        page = await read(run_id=run_id, start=start, limit=limit)
    except InvalidRequestError as error:
        if error.field != "start":
            raise
        raise gone from error  # and another one, which is shorter, bears the id now
    if not page.found:
        raise gone
    return page


async def entries(
    runs: RunsFront, run_id: str, log: str, start: int, end: int
) -> AsyncGenerator[tuple[int, Message | Event]]:
    """The entries of one log from ``start`` up to ``end``, with their positions."""
    while start < end:
        page = await page_of(runs, run_id, log, start, min(PAGE, end - start))
        for position, entry in enumerate(page.entries, start):
            yield position, entry
        start = page.next


def read_run(runs: RunsFront, run_id: str, log: str) -> Read:
    """The entries of a log as texts, for comparing."""

    async def read(start: int, limit: int) -> Sequence[bytes]:
        page = await page_of(runs, run_id, log, start, limit)
        return [encode(entry) for entry in page.entries]

    return read
