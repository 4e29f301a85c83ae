"""Working memory for the model: three tool functions, and two blocks of text before a turn."""

from collections.abc import Iterable
from typing import Any

from pydantic import Field

from stores_adapters.tools.tool import Tool
from stores_core.backend import Backend
from stores_core.errors import InvalidRequestError
from stores_core.memory import MemoryItem, StoredMemory
from stores_core.shape import Shape
from stores_core.walking import pages

FLOOR = 0.25
"""The score from which on a note counts as relevant: a cosine, or 1 for a substring."""


class RememberArguments(Shape):
    key: str = Field(min_length=1, description="a short name; a known one replaces its note")
    value: str = Field(description="what to remember")


class RecallArguments(Shape):
    query: str = Field(description="what to look for; empty for all notes, oldest first")
    limit: int = Field(5, ge=1, description="how many notes at most")


class ForgetArguments(Shape):
    key: str = Field(min_length=1, description="the name of the note")


def memory_tools(backend: Backend, *, namespace: str = "") -> list[Tool[Any]]:
    """The tool functions remember, recall and forget, over the notes of one namespace.

    The namespace is the host's to choose: the model neither names nor sees it.
    """
    memory = backend.memory

    async def remember(arguments: RememberArguments) -> str:
        item = MemoryItem(key=arguments.key, value=arguments.value)
        put = await memory.put_memory(item=item, namespace=namespace)
        return "remembered" if put.created else "remembered, in place of the note that was there"

    async def recall(arguments: RecallArguments) -> str:
        found = await memory.list_memories(
            query=arguments.query, limit=arguments.limit, namespace=namespace
        )
        return "\n".join(map(_line, (scored.item for scored in found.items))) or "nothing found"

    async def forget(arguments: ForgetArguments) -> str:
        gone = await memory.delete_memory(key=arguments.key, namespace=namespace)
        return "forgotten" if gone.deleted else "there is no note of that name"

    return [
        Tool("remember", "Keep a note for later turns.", RememberArguments, remember),
        Tool("recall", "Look notes up by what they say.", RecallArguments, recall),
        Tool("forget", "Delete a note.", ForgetArguments, forget),
    ]


async def memory_summary(
    backend: Backend, *, namespace: str = "", items: int = 20, characters: int = 2_000
) -> str:
    """The notes of a namespace as a block of text, the one written last first, a line each.

    At most ``items`` lines and ``characters`` characters; a note that would exceed them is cut and
    is the last. Empty where there is no note. It reads the whole namespace.
    Raises InvalidRequestError for a budget that is no whole number above 0.
    """
    _check(items=items, characters=characters)
    notes: list[StoredMemory] = []
    async for page in pages(backend.memory.list_memories, namespace=namespace):
        notes += [scored.item for scored in page.items]
        notes = sorted(notes, key=lambda note: note.updated_at, reverse=True)[:items]
    return _block(notes, characters)


async def recall_relevant(
    backend: Backend,
    query: str,
    *,
    namespace: str = "",
    items: int = 5,
    floor: float = FLOOR,
    characters: int = 2_000,
) -> str:
    """The notes that answer ``query`` best as a block of text, best first, a line each.

    At most ``items`` of them, none that scores below ``floor``, in at most ``characters``
    characters as in :func:`memory_summary`. Empty where nothing is relevant, or asked.
    """
    _check(items=items, characters=characters)
    if not query:
        return ""
    found = await backend.memory.list_memories(query=query, limit=items, namespace=namespace)
    return _block((one.item for one in found.items if one.score >= floor), characters)


def _block(notes: Iterable[StoredMemory], characters: int) -> str:
    block = ""
    for line in map(_line, notes):
        longer = f"{block}\n{line}" if block else line
        if len(longer) > characters:
            return longer[: characters - 1] + "…"
        block = longer
    return block


def _line(note: StoredMemory) -> str:
    # One line, so that no note can look like several, or like the host's own words after them.
    return " ".join(f"- {note.key}: {note.value}".split())


def _check(**budgets: int) -> None:
    for field, budget in budgets.items():
        if type(budget) is not int or budget < 1:
            raise InvalidRequestError(
                field=field, found=repr(budget)[:40], allowed="a whole number above 0"
            )
