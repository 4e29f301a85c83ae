"""Reading the good stores past their fronts, for defects that make another answer of what is kept.

Here a limit of 0 is no cap and a cursor is a plain position.
"""

from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from typing import Any

import numpy as np

from conformance_tests.broken.defect import Broken, changed
from stores_core.memory import (
    GetMemoryRequest,
    ListMemoriesRequest,
    ListMemoriesResponse,
    ListNamespacesRequest,
    MemoryStore,
    ScoredMemory,
    StoredMemory,
)
from stores_core.moving import ExportMemoriesRequest, Moving
from stores_core.tool_results import ListToolResultsRequest, ToolResultInfo, ToolResultStore

ALL = 1_000_000

_opening: ContextVar[Mapping[str, Any]] = ContextVar("what the client is being opened with")


class Opened(Broken):
    """A defect that depends on what the client was opened with, which is in ``values``."""

    values: Mapping[str, Any]

    @classmethod
    def opened_with(cls, values: dict[str, Any]) -> dict[str, Any]:
        _opening.set(dict(values))
        return super().opened_with(values)

    def prepare(self) -> None:
        self.values = _opening.get()

    @property
    def embeds(self) -> bool:
        return self.values.get("embedder") is not None


async def note_at(store: MemoryStore, namespace: str, key: str) -> StoredMemory | None:
    """The note that stands at a key."""
    return (await store.get_memory(GetMemoryRequest(key=key, namespace=namespace))).item


async def notes_of(store: MemoryStore, namespace: str) -> Sequence[ScoredMemory]:
    """All notes of a namespace, oldest first."""
    return (await store.list_memories(ListMemoriesRequest(namespace=namespace))).items


async def namespaces(store: MemoryStore, prefix: str = "") -> Sequence[str]:
    """All namespaces that start so."""
    request = ListNamespacesRequest(prefix=prefix, limit=ALL)
    return (await store.list_namespaces(request)).namespaces


async def infos_of(
    store: ToolResultStore, labels: Mapping[str, str] | None = None
) -> list[ToolResultInfo]:
    """All infos of the results with these labels, newest first."""
    request = ListToolResultsRequest(labels=labels or {}, limit=1_000)
    page = await store.list_tool_results(request)
    found = [*page.infos]
    while page.next_cursor:
        page = await store.list_tool_results(changed(request, cursor=page.next_cursor))
        found += page.infos
    return found


async def vectors_of(moving: Moving, namespace: str) -> dict[str, Any]:
    """The stored vectors of a namespace, in double precision, by the key of their note."""
    request, found = ExportMemoriesRequest(limit=1_000), dict[str, Any]()
    while True:
        page = await moving.export_memories(request)
        for one in page.memories:
            if one.namespace == namespace and one.vector is not None:
                found[one.item.key] = np.frombuffer(one.vector, dtype="<f4").astype(float)
        if not page.next_cursor:
            return found
        request = changed(request, cursor=page.next_cursor)


def everything(request: ListMemoriesRequest, **fields: Any) -> ListMemoriesRequest:
    """The request for the whole of what a listing would give page by page."""
    return changed(request, limit=0, cursor="", **fields)


def page_of(items: Sequence[ScoredMemory], request: ListMemoriesRequest) -> ListMemoriesResponse:
    """The page of these notes that a request asks for; its cursors are offsets."""
    start = int(request.cursor or 0)
    end = start + request.limit if request.limit else len(items)
    more = end < len(items) and not request.query
    return ListMemoriesResponse(items=items[start:end], next_cursor=str(end) if more else "")
