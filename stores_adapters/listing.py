"""All runs with certain labels, page after page."""

from collections.abc import AsyncGenerator, Mapping
from datetime import datetime

from stores_core.backend import Backend
from stores_core.runs import RunInfo
from stores_core.walking import pages


async def runs_with(
    backend: Backend, labels: Mapping[str, str], *, updated_before: datetime | None = None
) -> AsyncGenerator[RunInfo]:
    """The runs that have all these labels, newest first; with a time, those idle since then."""
    listing = pages(backend.runs.list_runs, labels=labels, updated_before=updated_before)
    async for page in listing:
        for info in page.runs:
            yield info
