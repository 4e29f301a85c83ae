"""All runs with certain labels, page after page."""

from collections.abc import AsyncGenerator, Mapping
from datetime import datetime

from stores_core.backend import Backend
from stores_core.limits import PAGE_ENTRIES
from stores_core.runs import RunInfo


async def runs_with(
    backend: Backend, labels: Mapping[str, str], *, updated_before: datetime | None = None
) -> AsyncGenerator[RunInfo]:
    """The runs that have all these labels, newest first; with a time, those idle since then."""
    cursor = ""
    while True:
        page = await backend.runs.list_runs(
            labels=labels, cursor=cursor, limit=PAGE_ENTRIES, updated_before=updated_before
        )
        for info in page.runs:
            yield info
        cursor = page.next_cursor
        if not cursor:
            return
