"""All output goes through here: tables and lines for people, JSON for programs.

Ids and texts come from strangers. For people, whatever could steer a terminal (control characters,
escape sequences, marks that turn the direction of text) is shown by its code; nothing is read as
markup. For programs, JSON escapes it.
"""

import json
import os
import sys
import unicodedata
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from stores_core.codec import canonical, decode_json

_STEERING = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
_JOINERS = "\u200c\u200d"  # parts of words and of emoji; they move nothing
_UNCUT = 100_000  # columns where nobody looks: a pipe gets whole cells

Advance = Callable[[int], None]


def printable(text: str, *, lines: bool = False) -> str:
    """``text`` with every character that could steer a terminal shown by its code.

    ``lines`` keeps line ends and tabs.
    """
    if text.isprintable():
        return text
    kept = _JOINERS + ("\n\t" if lines else "")
    return "".join(
        _code(char) if char not in kept and unicodedata.category(char) in _STEERING else char
        for char in text
    )


def _code(char: str) -> str:
    number = ord(char)
    if number < 0x100:
        return f"\\x{number:02x}"
    return f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"


def moment(time: datetime) -> str:
    """A time as people read it: to the second, UTC."""
    return f"{time:%Y-%m-%d %H:%M:%S}"


def json_of(shape: object) -> Any:
    """A model of the contract as plain JSON, with the names of the wire."""
    return decode_json(canonical(shape))


class Output:
    """Where one command writes: to stdout what was asked for, to stderr what is beside it."""

    def __init__(self, *, json: bool) -> None:
        self.json = json

    def document(self, value: object) -> None:
        """The one JSON document of a command, or one line of its stream."""
        # DEL is the one control character that ASCII JSON may hold as it is.
        text = json.dumps(value, ensure_ascii=True).replace("\x7f", "\\u007f")
        _write(text + "\n")

    def flush(self) -> None:
        """Show what was written so far."""
        _write("", flush=True)

    def line(self, text: str = "", *, lines: bool = False) -> None:
        """A line for people; nothing with --json."""
        if not self.json:
            _write(printable(text, lines=lines) + "\n")

    def text(self, text: str) -> None:
        """A piece of a longer text for people, without a line end of its own."""
        _write(printable(text, lines=True))

    def table(self, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
        """A table for people; nothing with --json. Numbers stand to the right."""
        if self.json:
            return
        rows = [list(row) for row in rows]
        table = Table(box=None, pad_edge=False, header_style="bold")
        for index, name in enumerate(columns):
            numbers = bool(rows) and all(isinstance(row[index], int) for row in rows)
            table.add_column(
                Text(printable(name)), justify="right" if numbers else "left", overflow="fold"
            )
        for row in rows:
            table.add_row(*(Text(printable(str(cell))) for cell in row))
        console = _console(sys.stdout)
        with console.capture() as captured:
            console.print(table)
        for line in captured.get().splitlines():
            _write(line.rstrip() + "\n")

    def beside(self, text: str) -> None:
        """A remark, to stderr, so that stdout stays what was asked for."""
        complain(text)

    @contextmanager
    def progress(self, what: str, total: int | None = None) -> Generator[Advance]:
        """A bar on stderr when that is a terminal, else nothing. Give it the steps taken."""
        if not sys.stderr.isatty():
            yield lambda _: None
            return
        columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn()
        bar = Progress(*columns, TimeElapsedColumn(), console=_console(sys.stderr), transient=True)
        with bar:
            task = bar.add_task(what, total=total)
            yield lambda steps: bar.advance(task, steps)


class ReaderGoneError(Exception):
    """Whoever read stdout has stopped."""


def _write(text: str, *, flush: bool = False) -> None:
    try:
        sys.stdout.write(text)
        if flush:
            sys.stdout.flush()
    except BrokenPipeError as error:
        # What the stream still holds has to go somewhere when the process ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise ReaderGoneError from error


def complain(text: str) -> None:
    """A line to stderr."""
    sys.stderr.write(printable(text, lines=True) + "\n")


def _console(file: Any) -> Console:
    width = None if file.isatty() else _UNCUT
    return Console(file=file, markup=False, emoji=False, highlight=False, width=width)
