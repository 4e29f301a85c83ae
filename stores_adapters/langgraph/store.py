"""LangGraph's store on working memory: an item is a note, its value the note's metadata."""

import asyncio
import math
from collections import defaultdict
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Literal

from langgraph.store.base import (
    BaseStore,
    GetOp,
    Item,
    ListNamespacesOp,
    Op,
    PutOp,
    Result,
    SearchItem,
    SearchOp,
    get_text_at_path,
    validate_op_namespace,
)
from pydantic import ValidationError

from stores_adapters.langgraph.filters import matches, where_of
from stores_adapters.langgraph.namespaces import fixed_prefix, flat, labels_of, meets
from stores_adapters.langgraph.threads import HomeLoop
from stores_core.backend import Backend
from stores_core.errors import InvalidRequestError
from stores_core.memory import MemoryItem, ScoredMemory, StoredMemory
from stores_core.shape import refusal

PAGE = 1_000


class BackendStore(BaseStore):
    """Keeps LangGraph's items in the working memory of a backend.

    The text of a note, which recall searches, is what stands at ``fields`` in the item's value
    (paths as LangGraph writes them; ``$`` is all of it as JSON), a line each, or at the paths of
    the put. A search with a query ranks by embedding where the backend was opened with an
    embedder, and finds substrings where not. Items put with ``index=False`` have no text: they
    come last in a ranking, without a score. A value must be plain JSON.

    Items do not expire: a time to live is refused. Make it in the event loop of the backend;
    the synchronous methods work from other threads while that loop runs.
    """

    def __init__(self, backend: Backend, *, fields: Sequence[str] = ("$",)) -> None:
        self._memory = backend.memory
        self._fields = tuple(fields)
        self._home = HomeLoop()

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        return self._home.wait_for(self.abatch(ops))

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """Reads see what was there before the batch; of two puts of one key the last one counts.

        The puts of one namespace are applied in one step, those of several are not.
        """
        ops = list(ops)
        puts: dict[tuple[tuple[str, ...], str], PutOp] = {}
        for op in ops:
            validate_op_namespace(op)
            if isinstance(op, PutOp):
                if op.ttl is not None:
                    raise InvalidRequestError(
                        field="ttl", found="a time to live", allowed="None: items do not expire"
                    )
                puts[op.namespace, op.key] = op
        results = list(await asyncio.gather(*(self._read(op) for op in ops)))
        await self._write(puts.values())
        return results

    async def _read(self, op: Op) -> Result:
        match op:
            case GetOp():
                answer = await self._memory.get_memory(key=op.key, namespace=flat(op.namespace))
                return _item(op.namespace, answer.item) if answer.item else None
            case SearchOp():
                return await self._search(op)
            case ListNamespacesOp():
                return await self._list_namespaces(op)
            case PutOp():
                return None

    async def _write(self, puts: Iterable[PutOp]) -> None:
        gone: list[PutOp] = []
        items: defaultdict[str, list[MemoryItem]] = defaultdict(list)
        for op in puts:
            if op.value is None:
                gone.append(op)
            else:
                items[flat(op.namespace)].append(self._note(op.key, op.value, op.index))
        for op in gone:
            await self._memory.delete_memory(key=op.key, namespace=flat(op.namespace))
        for namespace, notes in items.items():
            await self._memory.put_memories(items=notes, namespace=namespace)

    def _note(
        self, key: str, value: Mapping[str, Any], index: Sequence[str] | Literal[False] | None
    ) -> MemoryItem:
        paths = self._fields if index is None else index or ()
        texts: list[str] = []
        # A value that is no JSON is refused with its path when it is put.
        with suppress(TypeError):
            texts = [text for path in paths for text in get_text_at_path(value, path)]
        try:
            return MemoryItem(key=key, value="\n".join(texts), metadata=dict(value))
        except ValidationError as error:
            raise refusal(error, MemoryItem) from None

    async def _search(self, op: SearchOp) -> list[SearchItem]:
        for field, number in (("limit", op.limit), ("offset", op.offset)):
            if type(number) is not int or number < 0:
                raise InvalidRequestError(field=field, found=repr(number)[:40], allowed="0 or more")
        end = op.offset + op.limit
        found: list[SearchItem] = []
        if not op.query:
            async for item in self._listed(op):
                found.append(item)
                if len(found) >= end:
                    break
            return found[op.offset : end]
        async for namespace in self._namespaces(flat(op.namespace_prefix)):
            found += await self._recalled(op, namespace)
        found.sort(key=lambda item: -math.inf if item.score is None else item.score, reverse=True)
        return found[op.offset : end]

    async def _listed(self, op: SearchOp) -> AsyncGenerator[SearchItem]:
        filter = op.filter or {}
        async for namespace in self._namespaces(flat(op.namespace_prefix)):
            cursor = ""
            while True:
                page = await self._memory.list_memories(
                    namespace=namespace,
                    where=where_of(filter),
                    cursor=cursor,
                    limit=min(op.offset + op.limit, PAGE) or 1,
                )
                for scored in page.items:
                    if matches(scored.item.metadata, filter):
                        yield _found(namespace, scored, ranked=False)
                cursor = page.next_cursor
                if not cursor:
                    break

    async def _recalled(self, op: SearchOp, namespace: str) -> list[SearchItem]:
        filter = op.filter or {}
        where = where_of(filter)
        # What is left of the filter is applied afterwards, so then no cap may come before it.
        limit = op.offset + op.limit if len(where) == len(filter) else 0
        query = op.query or ""
        answer = await self._memory.list_memories(
            query=query, namespace=namespace, where=where, limit=limit
        )
        if limit and not all(scored.item.value for scored in answer.items):
            # Notes without a text are ranked by their key and may have taken the place of others.
            answer = await self._memory.list_memories(query=query, namespace=namespace, where=where)
        return [
            _found(namespace, scored, ranked=True)
            for scored in answer.items
            if matches(scored.item.metadata, filter)
        ]

    async def _list_namespaces(self, op: ListNamespacesOp) -> list[tuple[str, ...]]:
        conditions = op.match_conditions or ()
        names = self._namespaces(fixed_prefix(conditions))
        found = {
            labels[: op.max_depth]
            async for labels in _split(names)
            if all(meets(labels, condition) for condition in conditions)
        }
        return sorted(found)[op.offset : op.offset + op.limit]

    async def _namespaces(self, prefix: str) -> AsyncGenerator[str]:
        cursor = ""
        while True:
            page = await self._memory.list_namespaces(prefix=prefix, cursor=cursor, limit=PAGE)
            for name in page.namespaces:
                yield name
            cursor = page.next_cursor
            if not cursor:
                return


async def _split(names: AsyncGenerator[str]) -> AsyncGenerator[tuple[str, ...]]:
    async for name in names:
        yield labels_of(name)


def _item(namespace: tuple[str, ...], note: StoredMemory) -> Item:
    return Item(
        value=dict(note.metadata),
        key=note.key,
        namespace=namespace,
        created_at=note.created_at,
        updated_at=note.updated_at,
    )


def _found(namespace: str, scored: ScoredMemory, *, ranked: bool) -> SearchItem:
    note = scored.item
    return SearchItem(
        namespace=labels_of(namespace),
        key=note.key,
        value=dict(note.metadata),
        created_at=note.created_at,
        updated_at=note.updated_at,
        score=scored.score if ranked and note.value else None,
    )
