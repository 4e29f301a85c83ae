"""Lua scripts: one atomic operation of one bucket each, in a file of its own.

The head of a file says what it does, its KEYS, its ARGV, its reply and what it guarantees. Two
lines of it are read here: ``-- flags:`` those that Redis 7 and newer want to know before they start
a script, ``-- with:`` the files that stand before it, since Lua in Redis has no modules.

A script checks everything first. Its first write is the claim, and nothing behind that can fail. It
decodes no JSON, unpacks at most 1,000 items and answers in strings and lists of them.
"""

import hashlib
from functools import cache
from importlib.resources import files

UNPACKED = 1_000
"""So many entries a script, or a command, takes at most."""

Arg = bytes | str | int
"""What a key or an argument may be; the server sees their text."""


_FENCE = """
local fence = string.match(KEYS[1], '^[^{]*{[^}]+}')
local there = redis.pcall('EXISTS', fence and fence .. ':none' or KEYS[1])
if type(there) == 'table' and there.err then
  return redis.error_reply('TRYAGAIN the slot is on its way')
end
"""
"""Of a slot that is on its way a server reaches only keys that are there still, so a key that never
is there tells, before a script has written anything."""


class Script:
    """``lua/<name>.lua``, as it is sent. ``prepared`` depends on whether the server knows heads,
    and on whether slots may move."""

    def __init__(self, name: str) -> None:
        self.name = name
        source = _source(name)
        parts = [_source(part) for part in _directive(source, "with").split()]
        self._text = "\n".join([*parts, source])
        flags = _directive(source, "flags")
        self._head = f"#!lua flags={flags}\n" if flags else "#!lua\n"
        self._prepared: dict[tuple[bool, bool], tuple[bytes, bytes]] = {}

    def prepared(self, *, headed: bool, fenced: bool = False) -> tuple[bytes, bytes]:
        """The digest and the text of the script."""
        known = self._prepared.get((headed, fenced))
        if known is None:
            parts = self._head if headed else "", _FENCE if fenced else "", self._text
            text = "".join(parts).encode()
            digest = hashlib.sha1(text, usedforsecurity=False).hexdigest().encode()
            known = self._prepared[headed, fenced] = digest, text
        return known

    def __repr__(self) -> str:
        return f"<Script {self.name}>"


@cache
def _source(name: str) -> str:
    return (files("stores_redis") / "lua" / f"{name}.lua").read_text("utf-8")


def _directive(source: str, name: str) -> str:
    mark = f"-- {name}:"
    found = [line for line in source.splitlines() if line.startswith(mark)]
    return found[0].removeprefix(mark).strip() if found else ""
