"""Ids of any kind, ids to refuse, limits to refuse."""

from conformance_tests.samples.sample import Sample
from stores_core.values import MAX_ID_BYTES


def long_id(start: str, unit: str = "x") -> str:
    """An id of exactly the longest size, beginning with ``start`` and filled with ``unit``."""
    room = MAX_ID_BYTES - len(start.encode())
    filler = unit * (room // len(unit.encode()))
    return start + filler + "x" * (room - len(filler.encode()))


ids = [
    Sample("plain", "thread-7"),
    Sample("one-character", "a"),
    Sample("space", " "),
    Sample("spaces-around", "  x  "),
    Sample("dot", "."),
    Sample("dot-dot", ".."),
    Sample("slash", "/"),
    Sample("slash-inside", "a/b"),
    Sample("colon-inside", "a:b"),
    Sample("underscore-inside", "a_b"),
    Sample("space-inside", "a b"),
    Sample("up-and-out", "../../private"),
    Sample("absolute", "/etc/passwd"),
    Sample("down-and-up", "a/../../b"),
    Sample("backslashes", "..\\x\\y"),
    Sample("url", "https://h/p?q=1#f"),
    Sample("percent-encoded", "%00%2e%2e%2f"),
    Sample("percent", "100%"),
    Sample("newline", "a\nb\r\n"),
    Sample("control-characters", "\x01\x1b[31m\x7f\x1c\x1f"),
    Sample("device-con", "CON"),
    Sample("device-nul", "nul.txt"),
    Sample("device-com", "COM1"),
    Sample("device-superscript", "lpt\u00b9"),
    Sample("trailing-dot", "name."),
    Sample("trailing-space", "name "),
    Sample("leading-dash", "-rf"),
    Sample("leading-dot", ".hidden"),
    Sample("tilde", "~/x"),
    Sample("line-user", "line:U123"),
    Sample("agent-path", "agent:1:main"),
    Sample("uuid", "550e8400-e29b-41d4-a716-446655440000"),
    Sample("upper", "RUN"),
    Sample("lower", "run"),
    Sample("composed", "caf\u00e9"),
    Sample("decomposed", "cafe\u0301"),
    Sample("dotted-capital-i", "İ"),
    Sample("long-s", "ſ"),
    Sample("sharp-s", "ß"),
    Sample("ligature", "ﬁ"),
    Sample("emoji", "\U0001f680"),
    Sample("joined-emoji", "👩‍👩‍👧‍👦"),
    Sample("hebrew", "\u05d0\u05d1"),
    Sample("right-to-left-mark", "a\u200fb\u202e"),
    Sample("zero-width", "a\u200bb"),
    Sample("byte-order-mark", "\ufeffa"),
    Sample("last-code-point", "\U0010ffff"),
    Sample("hash-tag", "{a}b"),
    Sample("hash-tag-behind", "a{}"),
    Sample("braces-turned", "}x{"),
    Sample("braces", "{}"),
    Sample("star", "*"),
    Sample("glob", "[a-z]?*"),
    Sample("pipe", "x|y"),
    Sample("like-pattern", "a_%"),
    Sample("quotes", "'\"`"),
    Sample("sql", "x'; DROP TABLE runs; --"),
    Sample("comma-and-tag", "a,b @tag:{x} -y ~z"),
    Sample("own-key", "run:messages"),
    Sample("own-file", "id.log"),
    Sample("own-suffix", "id:messages"),
    Sample("proto", "__proto__"),
    Sample("null-word", "null"),
    Sample("number", "0"),
    Sample("negative-number", "-1"),
    Sample("json", '{"id":"x"}'),
    Sample("255-bytes", "f" * 255),
    Sample("256-bytes", "f" * 256),
    Sample("257-bytes", "f" * 257),
    Sample("440-bytes-of-emoji", "\U0001f680" * 110),
]
"""Ids of any kind that are as good as any other, and all different."""

unfit_ids = [
    Sample("nul", "a\0b", "NUL is no part of an id"),
    Sample("nul-alone", "\0", "NUL is no part of an id"),
    Sample("lone-surrogate", "a\ud800", "it is no Unicode text"),
    Sample("513-bytes", "x" * (MAX_ID_BYTES + 1), "an id has up to 512 bytes"),
    Sample("514-bytes-of-257-letters", "é" * 257, "an id has up to 512 bytes"),
    Sample("3000-characters", "x" * 3_000, "an id has up to 512 bytes"),
    Sample("null", None, "an id is text"),
    Sample("number", 7, "an id is text"),
    Sample("true", True, "an id is text"),
    Sample("bytes", b"x", "an id is text"),
    Sample("list", ["x"], "an id is text"),
]
"""Ids to refuse. The empty one is not here: it is allowed where it means default or generate."""

unfit_limits = [
    Sample("negative", -1, "a limit counts"),
    Sample("boolean", True, "a boolean is no number"),
    Sample("float", 2.0, "a limit is an integer"),
    Sample("text", "1", "a limit is an integer"),
]
"""Limits to refuse; so are starts, offsets and expected counts."""
