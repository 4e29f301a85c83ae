"""A store of no kind, which keeps the requests that the front lets through."""

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

from stores_core import Backend, GetRunResponse

NOW = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)


class RecordingStore:
    """Stands in for every store: keeps the requests that reach it, answers what it was told to."""

    def __init__(self, answer: Callable[[Any], Awaitable[Any]] | None = None) -> None:
        self.requests: list[Any] = []
        self._answer = answer

    def __getattr__(self, name: str) -> Callable[[Any], Awaitable[Any]]:
        async def handler(request: Any) -> Any:
            self.requests.append(request)
            if self._answer is not None:
                return await self._answer(request)
            return GetRunResponse(found=False)

        return handler


def recording(answer: Callable[[Any], Awaitable[Any]] | None = None) -> tuple[Backend, Any]:
    """A backend with that store for runs, notes and results, at ``NOW``; and the store."""
    store: Any = RecordingStore(answer)
    backend = Backend(name="recording", runs=store, memory=store, tool_results=store)
    backend.opened.clock = lambda: NOW
    return backend, store
