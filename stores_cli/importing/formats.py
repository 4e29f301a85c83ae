"""The formats that can be imported: name, how a file of it is recognised, reader."""

from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass

from stores_cli.importing.sessions import Found
from stores_cli.importing.sources import Source

Reader = Callable[[Source], Iterator[Found]] | Callable[[Source], AsyncIterator[Found]]


@dataclass(frozen=True)
class Format:
    """``recognises`` is asked of a source whose format nobody named; it must not raise.

    ``copies_history`` says that a session which continues another one begins with a copy of it.
    """

    name: str
    title: str
    recognises: Callable[[Source], bool]
    read: Reader
    copies_history: bool = False
