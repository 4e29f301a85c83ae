"""Answering a query in one namespace: every text of an item counts, the best one most."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from stores_adapters.langgraph.items import Found, item_key, kept_of, mark_of
from stores_adapters.langgraph.namespaces import beside
from stores_core.front.stores import MemoryFront
from stores_core.memory import ScoredMemory, StoredMemory

Usable = Callable[[StoredMemory], bool]


async def recalled(
    memory: MemoryFront,
    namespace: str,
    query: str,
    *,
    where: Mapping[str, Any],
    usable: Usable,
    limit: int,
) -> list[Found]:
    """At least the best ``limit`` items that are usable, best first; all with a limit of 0.

    Items without a text come last, without a score.
    """
    own, texts = await asyncio.gather(
        _own(memory, namespace, query, where, usable, limit),
        _of_texts(memory, namespace, query, limit),
    )
    notes = {scored.item.key: scored.item for scored in own}
    scores = {scored.item.key: scored.score for scored in own}
    # Written before the item and deleted after it, a text counts where it bears the item's mark.
    missing = [key for key in texts if key not in notes]
    answers = await asyncio.gather(
        *(memory.get_memory(key=key, namespace=namespace) for key in missing)
    )
    notes |= {answer.item.key: answer.item for answer in answers if answer.item}
    for key, found in texts.items():
        note = notes.get(key)
        if note is None or not usable(note):
            continue
        mark = kept_of(note).mark
        best = max((one.score for one in found if mark_of(one.item) == mark), default=None)
        if best is not None:
            scores[key] = max(best, scores.get(key, best))
    ranked = sorted(
        (key for key in scores if notes[key].value),
        key=lambda key: (-scores[key], notes[key].created_at),
    )
    return [
        *(Found(namespace, notes[key], scores[key]) for key in ranked),
        *(Found(namespace, notes[key], None) for key in scores if not notes[key].value),
    ]


async def _own(
    memory: MemoryFront,
    namespace: str,
    query: str,
    where: Mapping[str, Any],
    usable: Usable,
    limit: int,
) -> list[ScoredMemory]:
    """The items by the first text of each."""

    async def asked(limit: int) -> list[ScoredMemory]:
        answer = await memory.list_memories(
            query=query, namespace=namespace, where=where, limit=limit
        )
        return [*answer.items]

    found = await asked(limit)
    if limit and not all(scored.item.value and usable(scored.item) for scored in found):
        # Those without a text are ranked by their key and may have taken the place of others, as
        # those may that are left out only here.
        found = await asked(0)
    return [scored for scored in found if usable(scored.item)]


async def _of_texts(
    memory: MemoryFront, namespace: str, query: str, limit: int
) -> dict[str, list[ScoredMemory]]:
    """What was found in the further texts, by item; ``limit`` items or more, where there are."""
    asked = limit
    while True:
        answer = await memory.list_memories(query=query, namespace=beside(namespace), limit=asked)
        found: dict[str, list[ScoredMemory]] = {}
        for scored in answer.items:
            found.setdefault(item_key(scored.item.key), []).append(scored)
        if asked == 0 or len(found) >= limit or len(answer.items) < asked:
            return found
        asked *= 4
