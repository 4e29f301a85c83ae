"""notes.json: what holds for all notes of a tenant."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from stores_core.errors import CorruptRecordError
from stores_core.moving import EmbedderInfo
from stores_files import places
from stores_files.layout import NOTES, NOTES_STATE
from stores_files.places import Place, read_json
from stores_files.storage import Tenant


@dataclass(frozen=True, slots=True)
class NotesState:
    """notes.json. ``embedder`` is the one whose vectors recall uses, None until there are some.

    ``filling`` are those that a re-embedding writes vectors of. No new note has a version that is
    not above ``floor``.
    """

    embedder: EmbedderInfo | None = None
    filling: tuple[EmbedderInfo, ...] = ()
    floor: int = 0

    @property
    def embedders(self) -> tuple[EmbedderInfo, ...]:
        """Those whose vectors are kept."""
        return (*self.filling, self.embedder) if self.embedder else self.filling

    def admitting(self, info: EmbedderInfo) -> "NotesState":
        """The same with this embedder among those whose vectors are kept."""
        if self.embedder is None:
            return replace(self, embedder=info)
        return self if info in self.embedders else replace(self, filling=(*self.filling, info))

    def as_json(self) -> dict[str, Any]:
        fields: dict[str, Any] = {"floor": self.floor}
        if self.embedder:
            fields["embedder"] = _as_row(self.embedder)
        if self.filling:
            fields["filling"] = [_as_row(info) for info in self.filling]
        return fields


def read_state(place: Place) -> NotesState:
    """What holds for all notes of a tenant. Raises CorruptRecordError."""
    try:
        fields = read_json(place.disk, place.folder, NOTES_STATE)
        return NotesState(
            embedder=_of_row(fields["embedder"]) if "embedder" in fields else None,
            filling=tuple(_of_row(row) for row in fields.get("filling", ())),
            floor=int(fields["floor"]),
        )
    except FileNotFoundError:
        return NotesState()
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise CorruptRecordError(f"{NOTES_STATE} does not say what it should") from error


def change_state(place: Place, tenant: Tenant, change: Callable[[NotesState], NotesState]) -> None:
    """Replace notes.json, unless the change leaves it as it is."""
    with place.locked(NOTES, tenant.storage.lock_timeout):
        state = read_state(place)
        changed = change(state)
        if changed != state:
            places.replace(place.disk, place.folder, NOTES_STATE, changed.as_json())
        else:
            place.disk.sync_folder(place.folder)  # its writer may have been killed


def raise_floor(place: Place, tenant: Tenant, floor: int) -> None:
    """Let no new note start at a version up to ``floor``."""
    change_state(place, tenant, lambda state: replace(state, floor=max(state.floor, floor)))


def _as_row(info: EmbedderInfo) -> dict[str, Any]:
    return {"name": info.name, "dimensions": info.dimensions}


def _of_row(row: Any) -> EmbedderInfo:
    return EmbedderInfo(name=str(row["name"]), dimensions=int(row["dimensions"]))
