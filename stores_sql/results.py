"""Tool results: as they are stored without their text, and on their way in."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from stores_core.codec import encode
from stores_core.errors import CorruptRecordError
from stores_core.tool_results import ToolResult
from stores_core.tool_text import split
from stores_core.values import micros
from stores_sql.catalog import Place, decode_labels


class StoredResult(NamedTuple):
    """A result's row, without its tenant and the rest of its JSON."""

    number: int
    ref: str
    age: int
    size: int
    characters: int
    labels: bytes | str

    @property
    def place(self) -> Place:
        return self.age, self.ref

    def named(self) -> dict[str, str]:
        """The labels."""
        try:
            return decode_labels(self.labels)
        except ValueError as error:
            raise CorruptRecordError(store="tool_results", id=self.ref) from error


@dataclass(frozen=True, slots=True)
class NewResult:
    """A result on its way in, already taken apart. ``created`` is in microseconds."""

    ref: str
    created: int
    labels: Mapping[str, str]
    text: str
    rest: bytes
    bytes: int

    @classmethod
    def of(
        cls, ref: str, created: datetime, labels: Mapping[str, str], result: ToolResult
    ) -> "NewResult":
        text, rest = split(result)
        return cls(ref, micros(created), labels, text, rest, len(encode(result)))
