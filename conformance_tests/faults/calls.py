"""What a process asked of the system, in all its threads: a log of strace, read call by call.

Strings stand in the log as numbers, byte by byte, and whole, so that what was written is known.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

RECORDED = ("%file", "%desc", "%process", "mprotect", "sync", "io_uring_setup", "sendto")
"""All calls that name a file or a descriptor; what makes threads, or writes without a call; and
what tells others."""

OPTIONS = ("-xx", "-y", "-s", str(1 << 25))
"""Of strace: strings as numbers, the path of each descriptor, no string shortened."""

_PIECE = re.compile(r'"[^"]*"|[\[{(]|[\]})]|,|[^"\[\]{}(),]+')


class NotUnderstoodError(Exception):
    """A call on a file of the storage of which nobody knows what it does; the message names it."""


@dataclass(eq=False)
class Call:
    """One call. ``result`` is what it gave, None where it did not come back."""

    thread: int
    name: str
    arguments: str
    result: int | None = None
    error: str = ""
    began: int = 0
    """How much had been recorded when it began; whoever replays it may use that."""

    @property
    def done(self) -> bool:
        return self.result is not None and not self.error

    @cached_property
    def each(self) -> list[str]:
        """The arguments one by one, as they stand in the log."""
        found, depth = [""], 0
        for piece in _PIECE.findall(self.arguments):
            depth += (piece in "[{(") - (piece in "]})")
            if piece == "," and not depth:
                found.append("")
            else:
                found[-1] += piece
        return [each.strip() for each in found]

    def number(self, n: int) -> int:
        """The n-th argument as a number. Raises NotUnderstoodError."""
        try:
            return int(self.each[n], 0)
        except (IndexError, ValueError):
            raise self.not_understood() from None

    def text(self, n: int) -> str:
        """The n-th argument as a path. Raises NotUnderstoodError."""
        return self.data(n).decode(errors="surrogateescape")

    def data(self, n: int) -> bytes:
        """The n-th argument as bytes, or those of all parts of it. Raises NotUnderstoodError."""
        parts = re.findall(r'"([^"]*)"(\.*)', self.each[n])
        if any(dots for _, dots in parts) or (not parts and self.each[n] != "[]"):
            raise self.not_understood()
        return b"".join(_bytes(part) for part, _ in parts)

    def descriptor(self, n: int) -> int:
        """The n-th argument as a descriptor, -1 for none."""
        found = re.match(r"-?\d+", self.each[n])
        return int(found[0]) if found else -1

    def path_of(self, n: int) -> str:
        """Which path the n-th argument, a descriptor, had when the call began; "" if none."""
        return path_in(self.each[n])

    def not_understood(self) -> NotUnderstoodError:
        shown = re.sub(r'"[^"]*"', '""', re.sub(r"<[^>]*>", "", self.arguments))
        return NotUnderstoodError(f"it is not known what this does: {self.name}({shown[:120]})")


def path_in(text: str) -> str:
    """The path that stands beside a descriptor, "" where there is none."""
    found = re.search(r"<((?:\\x[0-9a-f]{2})+)>", text)
    return _bytes(found[1]).decode(errors="surrogateescape") if found else ""


def in_numbers(text: str) -> str:
    """A text as it stands in the log."""
    return "".join(f"\\x{each:02x}" for each in text.encode(errors="surrogateescape"))


def _bytes(numbers: str) -> bytes:
    return bytes.fromhex(numbers.replace("\\x", ""))


def calls_of(log: str) -> Iterator[tuple[str, Call]]:
    """Each call twice, "begins" and "ends", in the order in which they did.

    A call that was not over when the log ends only begins. Raises NotUnderstoodError for lines that
    are none of strace's.
    """
    under_way: dict[int, tuple[Call, str]] = {}
    for line in log.splitlines():
        found = re.match(r"(\d+) +(.*)", line)
        if found is None:
            raise NotUnderstoodError(f"no line of a log: {line[:80]}")
        thread, text = int(found[1]), found[2]
        if text.startswith(("+++", "---")):
            continue
        if resumed := re.match(r"<\.\.\. (\w+) resumed>", text):
            if thread not in under_way:  # it had begun before anybody looked
                continue
            call, begun = under_way.pop(thread)
            _finish(call, begun + text[resumed.end() :])
            yield "ends", call
            continue
        call = Call(thread, text.partition("(")[0], "")
        if text.endswith("<unfinished ...>"):
            begun = text.removesuffix("<unfinished ...>").rstrip()
            call.arguments = begun.partition("(")[2]
            under_way[thread] = call, begun
            yield "begins", call
        else:
            _finish(call, text)
            yield "begins", call
            yield "ends", call


def _finish(call: Call, text: str) -> None:
    found = re.fullmatch(r"\w+\((.*)\) += (-?(?:0x[0-9a-f]+|\d+)|\?)(.*)", text)
    if found is None:
        raise NotUnderstoodError(f"no call: {text[:80]}")
    vars(call).pop("each", None)  # of what was known of it when it began
    call.arguments = found[1]
    call.result = None if found[2] == "?" else int(found[2], 0)
    call.error = found[3].split()[0] if call.result == -1 and found[3].strip() else ""
