"""Notes as plain dicts."""

import copy
import itertools
import math
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from conformance_tests.model.refused import Refused
from stores_core.memory import (
    ClearNamespaceRequest,
    ClearNamespaceResponse,
    DeleteMemoryRequest,
    DeleteMemoryResponse,
    GetMemoryRequest,
    GetMemoryResponse,
    ListMemoriesRequest,
    ListNamespacesRequest,
    MemoryItem,
    PutMemoriesRequest,
    PutMemoriesResponse,
    PutMemoryRequest,
    PutMemoryResponse,
    ScoredMemory,
    StoredMemory,
)

VectorOf = Callable[[str], Sequence[float]]


@dataclass
class Note:
    """A note, and where among its like it arrived."""

    item: StoredMemory
    arrival: int


class Memory:
    """Notes by namespace and key."""

    def __init__(self, vector_of: VectorOf | None = None) -> None:
        self.spaces: dict[str, dict[str, Note]] = {}
        self._floors: dict[tuple[str, str], int] = {}
        self._arrivals = itertools.count()
        self._vector_of = vector_of

    def put_memory(
        self, request: PutMemoryRequest, at: datetime, told: PutMemoryResponse | None
    ) -> PutMemoryResponse:
        """``told`` is the answer; its version of a new note counts, where it is high enough."""
        found = self._version(request.namespace, request.item.key)
        if request.expected_version not in (None, found):
            return PutMemoryResponse(conflict=True, version=found)
        version = self._put(request.namespace, request.item, at, told.version if told else 0)
        return PutMemoryResponse(created=not found, version=version)

    def put_memories(
        self, request: PutMemoriesRequest, at: datetime, told: PutMemoriesResponse | None
    ) -> PutMemoriesResponse:
        """``told`` as in put_memory."""
        keys = [item.key for item in request.items]
        if len(set(keys)) < len(keys):
            raise Refused("a key stands twice in the batch")
        created = [not self._version(request.namespace, key) for key in keys]
        said = list(told.versions) if told else []
        said += [0] * (len(keys) - len(said))
        versions = [
            self._put(request.namespace, item, at, version)
            for item, version in zip(request.items, said, strict=False)
        ]
        return PutMemoriesResponse(created=created, versions=versions)

    def _version(self, namespace: str, key: str) -> int:
        note = self.spaces.get(namespace, {}).get(key)
        return note.item.version if note else 0

    def _put(self, namespace: str, item: MemoryItem, at: datetime, told: int) -> int:
        notes = self.spaces.setdefault(namespace, {})
        old = notes.get(item.key)
        if old is None:
            version = max(told, self._floors.get((namespace, item.key), 0) + 1)
            created, arrival = item.created_at or at, next(self._arrivals)
        else:
            version = old.item.version + 1
            created, arrival = old.item.created_at, old.arrival
        stored = StoredMemory(
            key=item.key,
            value=item.value,
            metadata=copy.deepcopy(dict(item.metadata)),
            created_at=created,
            updated_at=at,
            version=version,
        )
        notes[item.key] = Note(stored, arrival)
        return version

    def get_memory(self, request: GetMemoryRequest) -> GetMemoryResponse:
        note = self.spaces.get(request.namespace, {}).get(request.key)
        return GetMemoryResponse(item=note.item if note else None, found=note is not None)

    def list_memories(self, request: ListMemoriesRequest) -> list[ScoredMemory]:
        """All of a listing, whatever the limit; of substring recall as many as the limit says."""
        notes = self.matching(request.namespace, request.where)
        if not request.query:
            return [ScoredMemory(item=item, score=0.0) for item in notes]
        query = request.query.casefold()
        hits = [
            ScoredMemory(item=item, score=1.0)
            for item in notes
            if query in item.key.casefold() or query in item.value.casefold()
        ]
        return hits[: request.limit or None]

    def matching(self, namespace: str, where: Mapping[str, Any]) -> list[StoredMemory]:
        """The notes that ``where`` keeps, oldest first."""
        notes = list(self.spaces.get(namespace, {}).values())
        notes.sort(key=lambda note: (note.item.created_at, note.arrival))
        return [note.item for note in notes if _has_all(note.item.metadata, where)]

    def score(self, item: StoredMemory, query: str) -> float:
        """The cosine of a note and a query."""
        assert self._vector_of is not None, "this world has no embedder"
        return _cosine(self._vector_of(f"{item.key} {item.value}"), self._vector_of(query))

    def delete_memory(self, request: DeleteMemoryRequest) -> DeleteMemoryResponse:
        return DeleteMemoryResponse(deleted=self._delete(request.namespace, request.key))

    def clear_namespace(self, request: ClearNamespaceRequest) -> ClearNamespaceResponse:
        keys = list(self.spaces.get(request.namespace, {}))
        return ClearNamespaceResponse(
            deleted=sum(self._delete(request.namespace, key) for key in keys)
        )

    def _delete(self, namespace: str, key: str) -> bool:
        notes = self.spaces.get(namespace, {})
        note = notes.pop(key, None)
        if note is None:
            return False
        if not notes:
            del self.spaces[namespace]
        self._floors[namespace, key] = note.item.version
        return True

    def list_namespaces(self, request: ListNamespacesRequest) -> list[str]:
        """All that begin with the prefix."""
        return sorted(name for name in self.spaces if name.startswith(request.prefix))


def _has_all(metadata: Mapping[str, Any], where: Mapping[str, Any]) -> bool:
    return all(key in metadata and _is_equal(metadata[key], value) for key, value in where.items())


def _is_equal(held: object, wanted: object) -> bool:
    """Equality as `where` means it: numbers by value, and a boolean is none."""
    if _is_number(held) and _is_number(wanted):
        return held == wanted
    return type(held) is type(wanted) and held == wanted


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _cosine(one: Sequence[float], other: Sequence[float]) -> float:
    a, b = _in_float32(one), _in_float32(other)
    length = math.hypot(*a) * math.hypot(*b)
    return math.fsum(x * y for x, y in zip(a, b, strict=True)) / length if length else 0.0


def _in_float32(vector: Sequence[float]) -> tuple[float, ...]:
    form = f"{len(vector)}f"
    return struct.unpack(form, struct.pack(form, *vector))
