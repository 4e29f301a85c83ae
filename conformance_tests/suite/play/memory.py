"""Steps on notes."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from conformance_tests import samples
from conformance_tests.compare import assert_same
from conformance_tests.suite.play.stage import SUFFIXES, Seat, Stage
from conformance_tests.suite.play.walks import whole
from stores_core import MemoryItem, ScoredMemory
from stores_core.memory import (
    ClearNamespaceRequest,
    DeleteMemoryRequest,
    GetMemoryRequest,
    ListMemoriesRequest,
    ListNamespacesRequest,
    PutMemoriesRequest,
    PutMemoryRequest,
)

TEXTS = {sample.name: sample.value for sample in samples.texts}
METADATA = {sample.name: sample.value for sample in samples.metadata}
TOLERANCE = 1e-6


class NoteSteps:
    """Each method is a step. Namespaces and keys are named by samples of ids or as they are.

    A value is named by a sample of texts or as it is; metadata by a sample, or given. The first
    namespace has no name where the tenant is ours alone.
    """

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._used: set[tuple[str, str]] = set()
        stage.parts["memory"] = self

    def _space(self, seat: Seat, name: str) -> str:
        return (
            self._stage.real(name, seat.tenant) if name or self._stage.alone else self._stage.token
        )

    def _item(
        self, space: str, key: str, value: str, metadata: str | dict[str, Any], age: float | None
    ) -> MemoryItem:
        self._used.add((space, key))
        created = None if age is None else self._stage.clock() - timedelta(seconds=age)
        held = METADATA[metadata] if isinstance(metadata, str) else metadata
        return MemoryItem(
            key=SUFFIXES.get(key, key),
            value=TEXTS.get(value, value),
            metadata=held,
            created_at=created,
        )

    async def put(
        self,
        *,
        client: int = 0,
        space: str = "",
        key: str,
        value: str = "",
        metadata: str | dict[str, Any] = "empty",
        age: float | None = None,
        expect: int | None = None,
    ) -> None:
        """Put a note, created ``age`` seconds ago if given; ``expect``: how far off the version."""
        seat, now = self._stage.seat(client), self._stage.clock()
        memory, namespace = seat.tenant.world.memory, self._space(seat, space)
        item = self._item(space, key, value, metadata, age)
        note = memory.spaces.get(namespace, {}).get(item.key)
        version = note.item.version if note else 0
        request = PutMemoryRequest(
            item=item,
            namespace=namespace,
            expected_version=None if expect is None else max(0, version + expect),
        )
        await self._stage.ask(
            seat.backend.memory.put_memory,
            request,
            lambda told: memory.put_memory(request, now, told),
        )

    async def put_many(
        self, *, client: int = 0, space: str = "", notes: Sequence[tuple[str, str]] = ()
    ) -> None:
        """Put several notes of these keys and values in one batch."""
        seat, now = self._stage.seat(client), self._stage.clock()
        memory = seat.tenant.world.memory
        items = [self._item(space, key, value, "empty", None) for key, value in notes]
        request = PutMemoriesRequest(items=items, namespace=self._space(seat, space))
        await self._stage.ask(
            seat.backend.memory.put_memories,
            request,
            lambda told: memory.put_memories(request, now, told),
        )

    async def get(self, *, client: int = 0, space: str = "", key: str) -> None:
        """Get a note."""
        seat = self._stage.seat(client)
        memory = seat.tenant.world.memory
        request = GetMemoryRequest(key=SUFFIXES.get(key, key), namespace=self._space(seat, space))
        await self._stage.ask(
            seat.backend.memory.get_memory, request, lambda _: memory.get_memory(request)
        )

    async def list(
        self,
        *,
        client: int = 0,
        space: str = "",
        limit: int = 0,
        where: dict[str, Any] | None = None,
    ) -> None:
        """List a namespace, by pages of ``limit`` if given."""
        seat = self._stage.seat(client)
        memory = seat.tenant.world.memory
        request = ListMemoriesRequest(
            limit=limit, namespace=self._space(seat, space), where=where or {}
        )

        async def fetch(cursor: str) -> tuple[Sequence[ScoredMemory], str]:
            asked = request.model_copy(update={"cursor": cursor})
            answer = await seat.backend.memory.list_memories(asked)
            return answer.items, answer.next_cursor

        found = await whole(fetch, limit or 1_000, full=not where)
        assert_same(found, memory.list_memories(request), "the listing of notes")

    async def recall(
        self,
        *,
        client: int = 0,
        space: str = "",
        query: str,
        limit: int = 0,
        where: dict[str, Any] | None = None,
    ) -> None:
        """Recall notes: by embedding where the client has an embedder, else by substring."""
        seat = self._stage.seat(client)
        request = ListMemoriesRequest(
            query=TEXTS.get(query, query),
            limit=limit,
            namespace=self._space(seat, space),
            where=where or {},
        )
        answer = await seat.backend.memory.list_memories(request)
        assert answer.next_cursor == "", "a recall has no cursor"
        if seat.embedder is None:
            expected = seat.tenant.world.memory.list_memories(request)
            assert_same(answer.items, expected, "what was recalled")
        else:
            _assert_ranked(seat, request, answer.items)

    async def delete(self, *, client: int = 0, space: str = "", key: str) -> None:
        """Delete a note."""
        seat = self._stage.seat(client)
        memory = seat.tenant.world.memory
        request = DeleteMemoryRequest(
            key=SUFFIXES.get(key, key), namespace=self._space(seat, space)
        )
        await self._stage.ask(
            seat.backend.memory.delete_memory, request, lambda _: memory.delete_memory(request)
        )

    async def clear(self, *, client: int = 0, space: str = "") -> None:
        """Clear a namespace."""
        seat = self._stage.seat(client)
        memory = seat.tenant.world.memory
        request = ClearNamespaceRequest(namespace=self._space(seat, space))
        await self._stage.ask(
            seat.backend.memory.clear_namespace, request, lambda _: memory.clear_namespace(request)
        )

    async def list_namespaces(self, *, client: int = 0, prefix: str = "", limit: int = 1) -> None:
        """List the namespaces that begin so, by pages of ``limit``."""
        seat = self._stage.seat(client)
        request = ListNamespacesRequest(prefix=self._space(seat, prefix), limit=limit)

        async def fetch(cursor: str) -> tuple[Sequence[str], str]:
            asked = request.model_copy(update={"cursor": cursor})
            answer = await seat.backend.memory.list_namespaces(asked)
            return answer.namespaces, answer.next_cursor

        found = await whole(fetch, limit, full=True)
        expected = seat.tenant.world.memory.list_namespaces(request)
        assert_same(found, expected, "the listing of namespaces")

    async def compare(self, seat: Seat) -> None:
        """All namespaces by listing and note by note, and what is gone."""
        client = self._stage.seats.index(seat)
        for space, key in sorted(self._used):
            await self.get(client=client, space=space, key=key)
        for space in sorted({space for space, _ in self._used}):
            await self.list(client=client, space=space, limit=3)
        await self.list_namespaces(client=client, limit=3)


def _assert_ranked(seat: Seat, request: ListMemoriesRequest, found: Sequence[ScoredMemory]) -> None:
    """Exactly the best, each with its cosine, ties oldest first.

    Cosines that are equal but for rounding may come in either order, if their scores say so.
    """
    memory = seat.tenant.world.memory
    items = memory.matching(request.namespace, request.where)
    places = {item.key: place for place, item in enumerate(items)}
    scores = {item.key: memory.score(item, request.query) for item in items}
    keys = [scored.item.key for scored in found]
    most = min(request.limit or len(items), len(items))
    assert len(found) == most, f"{len(found)} of {len(items)} notes were recalled, not {most}"
    assert len(set(keys)) == len(keys), "a note was recalled twice"
    for scored in found:
        key = scored.item.key
        assert key in places, f"{key!r} does not match"
        assert_same(scored.item, items[places[key]], f"the note {key!r}")
        assert abs(scored.score - scores[key]) <= TOLERANCE, (
            f"{key!r} scores {scored.score}, where its cosine is {scores[key]}"
        )
    order = [(-scored.score, places[scored.item.key]) for scored in found]
    assert order == sorted(order), f"the best do not come first: {order}"
    least = min((scored.score for scored in found), default=0.0)
    for key in places.keys() - set(keys):
        assert scores[key] <= least + TOLERANCE, f"{key!r} is better than what was recalled"
