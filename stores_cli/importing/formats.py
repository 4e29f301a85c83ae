"""The formats that can be imported: name, how a file of it is recognised, reader."""

from collections.abc import AsyncGenerator, Callable, Generator
from dataclasses import dataclass

from stores_cli.importing.sessions import Found
from stores_cli.importing.sources import Source

Readings = Generator[Found] | AsyncGenerator[Found]
Reader = Callable[[Source], Readings]


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
