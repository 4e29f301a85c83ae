"""How an item stands in working memory: its note, and a note for each further text of it."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from secrets import token_hex
from typing import Any, NamedTuple, cast

from langgraph.store.base import Item, PutOp, SearchItem, get_text_at_path
from pydantic import ValidationError

from stores_adapters.langgraph.namespaces import labels_of
from stores_core.errors import InvalidRequestError
from stores_core.memory import MemoryItem, StoredMemory
from stores_core.shape import refusal

KEPT = "\ue000langgraph"
"""The key, in the metadata of a note, of what this store notes beside the item's value."""


LONGEST = 525_600_000
"""The longest time to live, in minutes: a thousand years."""


class Kept(NamedTuple):
    """What stands beside an item's value, where there is any of it.

    ``texts`` is how many texts of the item have a note, this one's included, and ``mark`` what the
    notes of one put share. ``expires`` is when the item is gone and ``minutes`` how long it stays
    after each use; ``updated`` is when it was put, as a use writes the note anew. Times are texts
    of ISO 8601.
    """

    texts: int = 1
    mark: str = ""
    minutes: float | None = None
    expires: str = ""
    updated: str = ""

    def is_expired(self, now: datetime) -> bool:
        return bool(self.expires) and datetime.fromisoformat(self.expires) <= now

    def is_worth_a_refresh(self, now: datetime) -> bool:
        """Whether a tenth of the time has gone: before that, a use moves nothing."""
        if self.minutes is None:
            return False
        left = datetime.fromisoformat(self.expires) - now
        return left < timedelta(minutes=0.9 * self.minutes)

    def refreshed(self, now: datetime) -> "Kept":
        later = now + timedelta(minutes=self.minutes or 0)
        return self._replace(expires=later.isoformat())


class Found(NamedTuple):
    """An item that a search found, by its note; without a score where none was ranked."""

    namespace: str
    note: StoredMemory
    score: float | None


class Notes(NamedTuple):
    """The notes of one item: its own, and those of its further texts."""

    item: MemoryItem
    texts: list[MemoryItem]


def notes_of(op: PutOp, fields: Sequence[str], now: datetime) -> Notes:
    """What a put writes. Raises InvalidRequestError for a value that is no plain JSON."""
    value = cast("dict[str, Any]", op.value)
    if KEPT in value:
        raise InvalidRequestError(field="value", found=repr(KEPT), allowed="any other key")
    paths = fields if op.index is None else op.index or ()
    texts: list[str] = []
    # A value that is no JSON is refused with its path when it is put.
    with suppress(TypeError):
        texts = [text for path in paths for text in get_text_at_path(value, path)]
    kept = Kept(texts=len(texts), mark=token_hex(8) if len(texts) > 1 else "")
    if op.ttl is not None:
        kept = kept._replace(minutes=_minutes(op.ttl), updated=now.isoformat()).refreshed(now)
    beside = {KEPT: kept._asdict()} if kept.mark or kept.minutes is not None else {}
    return Notes(
        _note(op.key, texts[0] if texts else "", {**value, **beside}),
        [
            _note(text_key(op.key, number), text, {KEPT: kept.mark})
            for number, text in enumerate(texts[1:], 1)
        ],
    )


def text_key(key: str, number: int) -> str:
    """The key of the note of an item's text ``number``, from 1 on."""
    return f"{key}/{number}"


def item_key(key: str) -> str:
    """The inverse of :func:`text_key`."""
    return key.rpartition("/")[0]


def mark_of(text: StoredMemory) -> str:
    return str(text.metadata[KEPT])


def kept_of(note: StoredMemory) -> Kept:
    return Kept(**note.metadata[KEPT]) if KEPT in note.metadata else Kept()


def value_of(note: StoredMemory) -> dict[str, Any]:
    return {key: value for key, value in note.metadata.items() if key != KEPT}


def refreshed_note(note: StoredMemory, now: datetime) -> MemoryItem:
    """The same note with a later end."""
    kept = kept_of(note).refreshed(now)
    return _note(note.key, note.value, {**note.metadata, KEPT: kept._asdict()})


def item_of(namespace: tuple[str, ...], note: StoredMemory) -> Item:
    return Item(
        value=value_of(note),
        key=note.key,
        namespace=namespace,
        created_at=note.created_at,
        updated_at=_updated_at(note),
    )


def search_item(found: Found) -> SearchItem:
    note = found.note
    return SearchItem(
        namespace=labels_of(found.namespace),
        key=note.key,
        value=value_of(note),
        created_at=note.created_at,
        updated_at=_updated_at(note),
        score=found.score,
    )


def _minutes(ttl: object) -> float:
    if isinstance(ttl, int | float) and not isinstance(ttl, bool) and 0 < ttl <= LONGEST:
        return float(ttl)
    raise InvalidRequestError(
        field="ttl", found=repr(ttl)[:40], allowed=f"minutes, above 0 and up to {LONGEST:,}"
    )


def _updated_at(note: StoredMemory) -> datetime:
    updated = kept_of(note).updated
    return datetime.fromisoformat(updated) if updated else note.updated_at


def _note(key: str, text: str, metadata: Mapping[str, Any]) -> MemoryItem:
    try:
        return MemoryItem(key=key, value=text, metadata=dict(metadata))
    except ValidationError as error:
        raise refusal(error, MemoryItem) from None
