"""Ids that are taken for other ids."""

import posixpath
import unicodedata
from typing import Any
from urllib.parse import unquote

from conformance_tests.broken.defect import (
    Broken,
    BrokenMemory,
    BrokenRuns,
    BrokenToolResults,
    changed,
    defect,
)
from stores_core.memory import MemoryItem

_ALIKE = "test_ids.py::test_ids_that_look_alike_never_collide"
_ODD = "test_ids.py::test_odd_ids_are_taken_exactly_as_they_are"
_LONG = "test_ids.py::test_ids_of_512_bytes_are_told_apart_to_the_last_byte"


class _Renamed(Broken):
    """Keeps what an id names under another id."""

    fields: tuple[str, ...] = ()

    def renamed(self, id: str) -> str:
        raise NotImplementedError

    def _name(self, field: str, value: Any) -> Any:
        if field in ("item", "items") and "key" in self.fields:
            items: tuple[MemoryItem, ...] = value if field == "items" else (value,)
            found = tuple(changed(item, key=self.renamed(item.key) or "-") for item in items)
            return found if field == "items" else found[0]
        return (self.renamed(value) or "-") if field in self.fields and value else value

    def __getattr__(self, name: str) -> Any:
        operation = super().__getattr__(name)

        async def renaming(request: Any) -> Any:
            given = request.__dict__.items()
            return await operation(changed(request, **{f: self._name(f, v) for f, v in given}))

        return renaming


class _Runs(_Renamed, BrokenRuns):
    """Renames runs."""

    fields = ("run_id", "new_run_id")


class _Refs(_Renamed, BrokenToolResults):
    """Renames results."""

    fields = ("ref",)


class _Keys(_Renamed, BrokenMemory):
    """Renames notes."""

    fields = ("key",)


class _Namespaces(_Renamed, BrokenMemory):
    """Renames namespaces."""

    fields = ("namespace",)


@defect("ALL-3", caught_by=_ALIKE)
class RunIdsHaveNoCase(_Runs):
    """Run ids are compared in any case."""

    def renamed(self, id: str) -> str:
        return id.lower()


@defect("ALL-3", caught_by=_ODD)
class RunIdsArePaths(_Runs):
    """A run id is a path, whose dots are resolved."""

    def renamed(self, id: str) -> str:
        return posixpath.normpath(id)


@defect("ALL-3", caught_by=_ALIKE)
class RefsAreTrimmed(_Refs):
    """A ref loses the spaces around it."""

    def renamed(self, id: str) -> str:
        return id.strip()


@defect("ALL-3", caught_by=_LONG)
class RefsAreCutAt255Bytes(_Refs):
    """A ref is told from others by its first 255 bytes, the longest name of a file."""

    def renamed(self, id: str) -> str:
        return id.encode()[:255].decode(errors="ignore")


@defect("ALL-3", caught_by=_ALIKE)
class RefsLoseStrangeSigns(_Refs):
    """Signs that a file name may not have are replaced in a ref, all by one."""

    def renamed(self, id: str) -> str:
        return "".join(sign if sign not in '/\\:*?"<>|' else "_" for sign in id)


@defect("ALL-3", caught_by=_ALIKE)
class KeysAreNormalised(_Keys):
    """Keys of notes are composed (NFC)."""

    def renamed(self, id: str) -> str:
        return unicodedata.normalize("NFC", id)


@defect("ALL-3", caught_by=_ALIKE)
class KeysAreFolded(_Keys):
    """Keys of notes are compared by Unicode case folding."""

    def renamed(self, id: str) -> str:
        return id.casefold()


@defect("ALL-3", caught_by=_ODD)
class KeysAreUnquoted(_Keys):
    """Percent signs in a key are taken for an encoding."""

    def renamed(self, id: str) -> str:
        return unquote(id).replace("\0", "")


@defect(
    "ALL-3", "MEM-5", caught_by="test_namespaces.py::test_namespaces_that_look_alike_share_nothing"
)
class NamespacesAreTrimmed(_Namespaces):
    """A namespace loses the spaces and line ends around it."""

    def renamed(self, id: str) -> str:
        return id.strip()


@defect(
    "ALL-3",
    "MEM-5",
    caught_by="test_namespaces.py::test_namespaces_that_differ_in_case_alone_share_nothing",
)
class NamespacesHaveNoCase(_Namespaces):
    """Namespaces are compared in any case."""

    def renamed(self, id: str) -> str:
        return id.lower()
