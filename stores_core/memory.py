"""Working memory: labelled notes in namespaces, recalled by substring or by embedding."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Protocol

from pydantic import AwareDatetime, Field

from stores_core.shape import AsDict, AsTuple, Request, Response, Shape, WriteRequest
from stores_core.values import Count, Id, IdOrEmpty, Text, Where

_Metadata = Annotated[Mapping[str, Any], AsDict()]


class MemoryItem(Shape):
    """A note as it is put: ``metadata`` is a JSON object, ``created_at`` is stamped if None."""

    key: Id
    value: Text
    metadata: _Metadata = Field(default_factory=dict[str, Any])
    created_at: AwareDatetime | None = None


class StoredMemory(Shape):
    """A note as it is kept. ``version`` grows by one with each put of its key."""

    key: str
    value: str
    metadata: _Metadata = Field(default_factory=dict[str, Any])
    created_at: AwareDatetime
    updated_at: AwareDatetime
    version: int


class ScoredMemory(Shape):
    """A note and how well it answers the query; higher is better, within one response."""

    item: StoredMemory
    score: float


class PutMemoryRequest(WriteRequest):
    """``expected_version`` 0 means that the key must not exist."""

    item: MemoryItem
    namespace: IdOrEmpty = ""
    expected_version: Count | None = None


class PutMemoryResponse(Response):
    """``version`` is the note's after the put, or for a conflict the one found (0: none)."""

    created: bool = False
    conflict: bool = False
    version: int


class PutMemoriesRequest(WriteRequest):
    items: Annotated[Sequence[MemoryItem], AsTuple()]
    namespace: IdOrEmpty = ""


class PutMemoriesResponse(Response):
    """One entry for each item, in the order of the items."""

    created: Annotated[Sequence[bool], AsTuple()] = ()
    versions: Annotated[Sequence[int], AsTuple()] = ()


class GetMemoryRequest(Request):
    key: Id
    namespace: IdOrEmpty = ""


class GetMemoryResponse(Response):
    item: StoredMemory | None = None
    found: bool


class ListMemoriesRequest(Request):
    """``limit`` 0 is no cap; in a listing, one above 1,000 counts as 1,000 and the cursor goes on.

    A ``cursor`` belongs to a listing, so to an empty ``query``.
    """

    query: Text = ""
    limit: Count = 0
    cursor: str = ""
    namespace: IdOrEmpty = ""
    where: Where = Field(default_factory=dict[str, Any])


class ListMemoriesResponse(Response):
    items: Annotated[Sequence[ScoredMemory], AsTuple()] = ()
    next_cursor: str = ""


class DeleteMemoryRequest(WriteRequest):
    """``expected_version`` is the version that the note must have."""

    key: Id
    namespace: IdOrEmpty = ""
    expected_version: Count | None = None


class DeleteMemoryResponse(Response):
    deleted: bool
    conflict: bool = False


class ClearNamespaceRequest(WriteRequest):
    """``namespace`` has no default: clearing needs a name."""

    namespace: IdOrEmpty


class ClearNamespaceResponse(Response):
    """``deleted`` is the number of notes that were removed."""

    deleted: int


class ListNamespacesRequest(Request):
    """``limit`` 0 is 50; above 1,000 it counts as 1,000."""

    prefix: IdOrEmpty = ""
    cursor: str = ""
    limit: Count = 0


class ListNamespacesResponse(Response):
    namespaces: Annotated[Sequence[str], AsTuple()] = ()
    next_cursor: str = ""


class MemoryStore(Protocol):
    """Keeps notes. Substring and embedding recall are two ways to answer one protocol.

    An implementation receives complete, valid requests. One that recalls by embedding asks core's
    ``NoteEmbedder`` for vectors, before it takes any lock or transaction.
    """

    async def put_memory(self, request: PutMemoryRequest, /) -> PutMemoryResponse:
        """Write a note.

        MEM-1 A put is an upsert by namespace and key. A new value for a known key keeps the note's
            place in listings and its created_at, whatever the item says; the metadata is replaced
            whole; the version grows by one.
        MEM-2 A new note without created_at is stamped; a given one is kept.
        MEM-9 With expected_version (0: must not exist) a note of another version is left alone,
            and the answer is conflict=True with the version found.
        MEM-11 A store built with a cap on notes per namespace drops the oldest others when a new
            key exceeds it.
        """
        ...

    async def put_memories(self, request: PutMemoriesRequest, /) -> PutMemoriesResponse:
        """Write several notes of one namespace.

        MEM-8 A batch is written wholly or not at all; a bad item, or two equal keys, is refused by
            an error that names the indexes.
        """
        ...

    async def get_memory(self, request: GetMemoryRequest, /) -> GetMemoryResponse:
        """One note by its key; found=False for an unknown one."""
        ...

    async def list_memories(self, request: ListMemoriesRequest, /) -> ListMemoriesResponse:
        """List a namespace, or recall the notes that answer a query.

        MEM-3 An empty query lists all notes, oldest first (created_at, then order of arrival) with
            score 0, in pages when cursor or limit is used.
        MEM-4 limit caps the list; 0 means no cap.
        MEM-5 A namespace is a scratchpad of its own and no operation on notes crosses it; "" is one
            like the others.
        MEM-7 A higher score is more relevant in every store; the best come first, ties as in
            MEM-3, and equal calls give equal answers. Scores compare within one response only.
        MEM-10 where keeps the notes whose metadata equals every given value: strings, numbers (2
            equals 2.0), booleans (which are not numbers), null (one that is there). Nested values
            are refused, an unknown key matches nothing, and keys are data, never query text.
        SUB-1 In substring recall a note matches if its key or its value contains the query,
            ignoring case by Unicode case folding. Every character of the query is literal.
        SUB-2 Every match scores 1, oldest first; a query never matches across key and value.
        """
        ...

    async def delete_memory(self, request: DeleteMemoryRequest, /) -> DeleteMemoryResponse:
        """Remove a note.

        MEM-6 Deleting an unknown key answers deleted=False. A put after a delete makes a new note,
            with a version above any that its key had. A deleted note is gone from every kind of
            recall at once.
        MEM-14 With expected_version a note of another version is left alone: the answer is
            deleted=False and conflict=True. So nothing that was put since the caller looked is
            deleted with it. An unknown key is no conflict.
        """
        ...

    async def clear_namespace(self, request: ClearNamespaceRequest, /) -> ClearNamespaceResponse:
        """Remove all notes of one namespace and say how many there were.

        MEM-12 All notes of the namespace are gone, however many, and no other namespace is touched.
        """
        ...

    async def list_namespaces(self, request: ListNamespacesRequest, /) -> ListNamespacesResponse:
        """The namespaces that hold notes.

        MEM-13 Those whose name starts with prefix come in code-point order, each exactly once over
            all pages; a namespace whose last note went is not among them.
        """
        ...
