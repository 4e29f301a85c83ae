"""LangGraph's store on working memory: an item is a note, its value the note's metadata."""

import asyncio
import math
from collections import defaultdict
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import aclosing
from typing import Any

from langgraph.store.base import (
    BaseStore,
    GetOp,
    ListNamespacesOp,
    Op,
    PutOp,
    Result,
    SearchOp,
    TTLConfig,
    validate_op_namespace,
)

from stores_adapters.langgraph.filters import matches, where_of
from stores_adapters.langgraph.items import (
    Found,
    Notes,
    item_of,
    kept_of,
    notes_of,
    refreshed_note,
    search_item,
    text_key,
    value_of,
)
from stores_adapters.langgraph.namespaces import (
    ROOT,
    beside,
    fixed_prefix,
    flat,
    labels_of,
    meets,
)
from stores_adapters.langgraph.recalling import recalled
from stores_adapters.langgraph.threads import HomeLoop
from stores_core.backend import Backend
from stores_core.errors import InvalidRequestError
from stores_core.limits import PAGE_ENTRIES
from stores_core.memory import ScoredMemory, StoredMemory
from stores_core.walking import pages


class BackendStore(BaseStore):
    """Keeps LangGraph's items in the working memory of a backend.

    What a search with a query looks at are the texts at ``fields`` in the item's value (paths as
    LangGraph writes them; ``$`` is all of it as JSON), or at the paths of the put, each by itself;
    the best one counts. It ranks by embedding where the backend was opened with an embedder, and
    finds substrings where not. Items put with ``index=False`` have no text: they come last in a
    ranking, without a score. A value must be plain JSON.

    ``ttl`` is LangGraph's: ``default_ttl`` in minutes, ``refresh_on_read``, ``omit_expired``. An
    expired item is gone from every read at once; with ``omit_expired`` a namespace that has no
    other item is too, at a read for each namespace listed. `sweep_ttl` frees their storage, and
    the host calls it when it likes. Make the store in the event loop of the backend; the
    synchronous methods work from other threads while that loop runs.
    """

    supports_ttl = True

    def __init__(
        self,
        backend: Backend,
        *,
        fields: Sequence[str] = ("$",),
        ttl: TTLConfig | None = None,
    ) -> None:
        self.ttl_config = ttl
        self._memory = backend.memory
        self._now = backend.opened.clock
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
                puts[op.namespace, op.key] = op
        notes = {of: self._notes(op) for of, op in puts.items() if op.value is not None}
        results = list(await asyncio.gather(*(self._read(op) for op in ops)))
        for namespace, key in (of for of in puts if of not in notes):
            await self._delete(flat(namespace), key)
        await self._write(notes)
        return results

    async def sweep_ttl(self) -> int:
        """Delete what is expired, and say how many items that were. It reads every item.

        An item that is put again meanwhile stays.
        """
        swept = 0
        async for namespace in self._namespaces(ROOT):
            async for scored in self._notes_in(namespace, {}):
                note, now = scored.item, self._now()
                if kept_of(note).is_expired(now):
                    swept += await self._delete(namespace, note.key, note)
        return swept

    async def _read(self, op: Op) -> Result:
        match op:
            case GetOp():
                namespace = flat(op.namespace)
                note = (await self._memory.get_memory(key=op.key, namespace=namespace)).item
                if note is None or kept_of(note).is_expired(self._now()):
                    return None
                if op.refresh_ttl:
                    await self._refresh([(namespace, note)])
                return item_of(op.namespace, note)
            case SearchOp():
                found = await self._search(op)
                if op.refresh_ttl:
                    await self._refresh((of.namespace, of.note) for of in found)
                return [search_item(of) for of in found]
            case ListNamespacesOp():
                return await self._list_namespaces(op)
            case PutOp():
                return None

    def _notes(self, op: PutOp) -> Notes:
        return notes_of(op, self._fields, self._now())

    async def _write(self, notes: Mapping[tuple[tuple[str, ...], str], Notes]) -> None:
        """The further texts first: they count only once the item bears their mark."""
        spaces: defaultdict[str, list[Notes]] = defaultdict(list)
        for (namespace, _), of_item in notes.items():
            spaces[flat(namespace)].append(of_item)
        for namespace, of_items in spaces.items():
            before = await asyncio.gather(
                *(self._texts(namespace, of_item.item.key) for of_item in of_items)
            )
            texts = [text for of_item in of_items for text in of_item.texts]
            if texts:
                await self._memory.put_memories(items=texts, namespace=beside(namespace))
            await self._memory.put_memories(
                items=[of_item.item for of_item in of_items], namespace=namespace
            )
            for of_item, count in zip(of_items, before, strict=True):
                await self._delete_texts(
                    namespace, of_item.item.key, range(1 + len(of_item.texts), count)
                )

    async def _texts(self, namespace: str, key: str) -> int:
        """How many texts have a note of the item that is there now."""
        note = (await self._memory.get_memory(key=key, namespace=namespace)).item
        return kept_of(note).texts if note else 0

    async def _delete(self, namespace: str, key: str, seen: StoredMemory | None = None) -> bool:
        """Delete an item with its texts; where it was ``seen``, only if it is still that one."""
        count = kept_of(seen).texts if seen else await self._texts(namespace, key)
        answer = await self._memory.delete_memory(
            key=key, namespace=namespace, expected_version=seen.version if seen else None
        )
        if answer.deleted:
            await self._delete_texts(namespace, key, range(1, count))
        return answer.deleted

    async def _delete_texts(self, namespace: str, key: str, numbers: range) -> None:
        for number in numbers:
            await self._memory.delete_memory(key=text_key(key, number), namespace=beside(namespace))

    async def _refresh(self, used: Iterable[tuple[str, StoredMemory]]) -> None:
        for namespace, note in used:
            now = self._now()
            if kept_of(note).is_worth_a_refresh(now):
                # One that was put or refreshed meanwhile lives on anyway.
                await self._memory.put_memory(
                    item=refreshed_note(note, now),
                    namespace=namespace,
                    expected_version=note.version,
                )

    async def _search(self, op: SearchOp) -> list[Found]:
        for field, number in (("limit", op.limit), ("offset", op.offset)):
            if type(number) is not int or number < 0:
                raise InvalidRequestError(field=field, found=repr(number)[:40], allowed="0 or more")
        end = op.offset + op.limit
        found: list[Found] = []
        if not op.query:
            async for of in self._listed(op):
                found.append(of)
                if len(found) >= end:
                    break
            return found[op.offset : end]
        async for namespace in self._namespaces(flat(op.namespace_prefix)):
            found += await self._recalled(op, op.query, namespace)
        found.sort(key=lambda of: -math.inf if of.score is None else of.score, reverse=True)
        return found[op.offset : end]

    async def _listed(self, op: SearchOp) -> AsyncGenerator[Found]:
        filter = op.filter or {}
        async for namespace in self._namespaces(flat(op.namespace_prefix)):
            page = min(op.offset + op.limit, PAGE_ENTRIES) or 1
            async for scored in self._notes_in(namespace, where_of(filter), page):
                if self._passes(scored.item, filter):
                    yield Found(namespace, scored.item, None)

    async def _recalled(self, op: SearchOp, query: str, namespace: str) -> list[Found]:
        filter = op.filter or {}
        where = where_of(filter)
        return await recalled(
            self._memory,
            namespace,
            query,
            where=where,
            usable=lambda note: self._passes(note, filter),
            # What is left of the filter is applied afterwards, so then no cap may come before it.
            limit=op.offset + op.limit if len(where) == len(filter) else 0,
        )

    def _passes(self, note: StoredMemory, filter: Mapping[str, Any]) -> bool:
        return not kept_of(note).is_expired(self._now()) and matches(value_of(note), filter)

    async def _notes_in(
        self, namespace: str, where: Mapping[str, Any], limit: int = PAGE_ENTRIES
    ) -> AsyncGenerator[ScoredMemory]:
        listing = pages(self._memory.list_memories, limit=limit, namespace=namespace, where=where)
        async for page in listing:
            for scored in page.items:
                yield scored

    async def _list_namespaces(self, op: ListNamespacesOp) -> list[tuple[str, ...]]:
        conditions = op.match_conditions or ()
        names = self._namespaces(fixed_prefix(conditions))
        omitting = (self.ttl_config or {}).get("omit_expired", False)
        found: set[tuple[str, ...]] = set()
        async for name in names:
            labels = labels_of(name)
            if not all(meets(labels, condition) for condition in conditions):
                continue
            if not omitting or await self._has_a_live_item(name):
                found.add(labels[: op.max_depth])
        return sorted(found)[op.offset : op.offset + op.limit]

    async def _has_a_live_item(self, namespace: str) -> bool:
        async with aclosing(self._notes_in(namespace, {}, 10)) as notes:
            async for scored in notes:
                if not kept_of(scored.item).is_expired(self._now()):
                    return True
        return False

    async def _namespaces(self, prefix: str) -> AsyncGenerator[str]:
        async for page in pages(self._memory.list_namespaces, prefix=prefix):
            for name in page.namespaces:
                yield name
