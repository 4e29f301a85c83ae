"""Steps that tests of notes share: writing them, reading them back, walking a listing."""

from collections.abc import Iterable, Mapping
from typing import Any

from conformance_tests.lab import Lab
from stores_core import (
    Backend,
    Capability,
    Embedder,
    MemoryItem,
    PutMemoryResponse,
    ScoredMemory,
    StoredMemory,
)

MOST_PAGES = 10_000


async def beside(
    lab: Lab, tenant: str, seen: tuple[str, str], embedder: Embedder | None = None
) -> Backend:
    """One more client of a tenant, which sees the note of this namespace and key.

    Where SHARED is not declared another client may well have a storage of its own; then the test
    does not apply.
    """
    client = await lab.open(tenant=tenant, embedder=embedder)
    namespace, key = seen
    if Capability.SHARED not in client.capabilities:
        answer = await client.memory.get_memory(key=key, namespace=namespace)
        if not answer.found:
            lab.not_applicable("without SHARED a second client has a storage of its own")
    return client


async def write(
    client: Backend,
    namespace: str,
    key: str,
    value: str = "",
    metadata: Mapping[str, Any] | None = None,
) -> PutMemoryResponse:
    """Put one note."""
    note = MemoryItem(key=key, value=value, metadata=metadata or {})
    return await client.memory.put_memory(item=note, namespace=namespace)


async def fill(lab: Lab, values: Iterable[tuple[str, str]], namespace: str = "") -> str:
    """Notes of these keys and values, one put each in this order; their namespace."""
    namespace = namespace or lab.new_id("notes")
    for key, value in values:
        await write(lab.backend, namespace, key, value)
    return namespace


async def fill_many(client: Backend, namespace: str, items: list[MemoryItem]) -> None:
    """The same for many notes: in batches of 1,000."""
    for start in range(0, len(items), 1_000):
        await client.memory.put_memories(items=items[start : start + 1_000], namespace=namespace)


async def reembed_all(client: Backend) -> None:
    """Let the client's embedder take over, however many calls that takes."""
    while not (await client.admin.reembed()).done:
        pass


async def note(client: Backend, namespace: str, key: str) -> StoredMemory:
    """A note that must be there."""
    answer = await client.memory.get_memory(key=key, namespace=namespace)
    assert answer.item is not None, f"the note {key!r} is not there"
    assert answer.found, "found and item contradict each other"
    assert answer.item.key == key, f"asked for {key!r}, got {answer.item.key!r}"
    return answer.item


async def is_missing(client: Backend, namespace: str, key: str) -> bool:
    """Whether the note can be had neither by its key nor in the listing."""
    got = await client.memory.get_memory(key=key, namespace=namespace)
    assert got.found == (got.item is not None), "found and item contradict each other"
    listed = await client.memory.list_memories(namespace=namespace)
    return not got.found and key not in keys(listed.items)


def keys(items: Iterable[ScoredMemory]) -> list[str]:
    return [scored.item.key for scored in items]


async def listed(
    client: Backend,
    namespace: str,
    query: str = "",
    limit: int = 0,
    where: Mapping[str, Any] | None = None,
) -> list[str]:
    """The keys that one listing or recall gives, in order."""
    answer = await client.memory.list_memories(
        namespace=namespace, query=query, limit=limit, where=where or {}
    )
    return keys(answer.items)


async def walk(
    client: Backend, namespace: str, limit: int, where: Mapping[str, Any] | None = None
) -> list[str]:
    """The keys of a whole listing, by following its cursors."""
    found: list[str] = []
    cursor = ""
    for _ in range(MOST_PAGES):
        page = await client.memory.list_memories(
            namespace=namespace, limit=limit, cursor=cursor, where=where or {}
        )
        assert len(page.items) <= limit, f"a page of {limit} gave {len(page.items)} notes"
        found += keys(page.items)
        cursor = page.next_cursor
        if not cursor:
            return found
    raise AssertionError("the cursors of the listing never end")


async def walk_namespaces(client: Backend, prefix: str, limit: int) -> list[str]:
    """The namespaces with this prefix, by following the cursors."""
    found: list[str] = []
    cursor = ""
    for _ in range(MOST_PAGES):
        page = await client.memory.list_namespaces(prefix=prefix, limit=limit, cursor=cursor)
        assert len(page.namespaces) <= limit, f"a page of {limit} gave {len(page.namespaces)}"
        found += page.namespaces
        cursor = page.next_cursor
        if not cursor:
            return found
    raise AssertionError("the cursors of the namespaces never end")
