"""Texts, numbers and JSON values: those that come back equal, and those to refuse."""

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import IntEnum
from typing import Any

import numpy as np

from conformance_tests.samples.sample import Sample
from stores_core.entries import Message
from stores_core.values import MAX_DEPTH, MAX_INT_DIGITS


def nested(depth: int, make: Callable[[Any], Any], core: Any) -> Any:
    """``core`` inside ``depth`` levels of ``make``."""
    for _ in range(depth):
        core = make(core)
    return core


def _in_list(inner: Any) -> Any:
    return [inner]


def _in_object(inner: Any) -> Any:
    return {"in": inner}


texts = [
    Sample("empty", ""),
    Sample("blank", " \t "),
    Sample("surrounded-by-space", "  a word \n"),
    Sample("nul", "\0"),
    Sample("nul-inside", "ok\0a\0b"),
    Sample("nul-at-the-end", "Report\0"),
    Sample("written-out-nul", "\\u0000"),
    Sample("windows-path", "C:\\u0000dir\\new"),
    Sample("control-characters", "".join(map(chr, range(1, 32))) + "\x7f\x80\x9f"),
    Sample("line-ends", "a\nb\r\nc\rd\u2028e\u2029f\x85g\v\f"),
    Sample("byte-order-mark", "\ufefftext"),
    Sample("noncharacters", "\ufffe\uffff\U0001fffe\U0010ffff"),
    Sample("private-use", "\ue000\U000f0000"),
    Sample("astral", "\U0001f680 𝒜 𐍈"),
    Sample("joined-emoji", "👩‍👩‍👧‍👦 🏳️‍🌈 👍🏽"),
    Sample("composed", "caf\u00e9 \u212b \ufb01"),
    Sample("decomposed", "cafe\u0301 A\u030a"),
    Sample("many-marks", "Z" + "\u0351\u036b\u0343" * 40),
    Sample("right-to-left", "\u05d0\u05d1 \u202eabc\u202c \u0627\u0644"),
    Sample("odd-case", "İıſßẞΣς ﬃ"),
    Sample("zero-width", "a\u200bb\u200dc\u2060d"),
    Sample("quotes", "' \" ` '' \"\" ''' \\ \\\\ \\\""),
    Sample("sql", "'; DROP TABLE runs; -- %s %(id)s $1 ? :name"),
    Sample("like-pattern", "100% _x_ *?[a-z] \\%"),
    Sample("template", "{0} {name} {{}} ${HOME} %(x)s #{1} <%= 1 %>"),
    Sample("markup", "<b>&amp;</b><!-- --> ]]>"),
    Sample("json-text", '{"a":1}'),
    Sample("json-text-twice", '"{\\"a\\":1}"'),
    Sample("json-word", "null"),
    Sample("number-text", "1e400"),
    Sample("date-text", "2024-02-29T23:59:60Z"),
    Sample("base64-text", "AAECAw=="),
    Sample("redis-protocol", "*1\r\n$4\r\nPING\r\n"),
    Sample("frame-like", "\x00\x00\x00\x10\x1e\x1f0000001f {}\n"),
    Sample("marker-like", "__proto__ $ref __type__ __null__ \x00json:"),
    Sample("key-like", "run:{t}:messages:0"),
    Sample("last-code-point", "\U0010ffff"),
    Sample("long", "ab\U0001f680é\n" * 20_000),
]
"""Texts that come back equal wherever text may stand."""

numbers = [
    Sample("zero", 0),
    Sample("minus-one", -1),
    Sample("2**31", 2**31),
    Sample("2**53+1", 2**53 + 1),
    Sample("an-id-of-18-digits", 750727362669608961),
    Sample("2**63-1", 2**63 - 1),
    Sample("2**63", 2**63),
    Sample("-2**63-1", -(2**63) - 1),
    Sample("2**64", 2**64),
    Sample("10**400", 10**400),
    Sample("4300-digits", 10**MAX_INT_DIGITS - 1),
    Sample("minus-4300-digits", -(10**MAX_INT_DIGITS) + 1),
    Sample("float-zero", 0.0),
    Sample("float-minus-zero", -0.0),
    Sample("float-one", 1.0),
    Sample("0.1", 0.1),
    Sample("0.1+0.2", 0.1 + 0.2),
    Sample("1e16", 1e16),
    Sample("1e22", 1e22),
    Sample("1e23", 1e23),
    Sample("1e308", 1e308),
    Sample("largest", 1.7976931348623157e308),
    Sample("smallest-normal", 2.2250738585072014e-308),
    Sample("smallest", 5e-324),
    Sample("1e-7", 1e-7),
    Sample("float-2**53", 9007199254740992.0),
    Sample("17-digits", 123456.78901234567),
]
"""Numbers that come back bit for bit and of their own type."""

json_values = [
    Sample("null", None),
    Sample("true", True),
    Sample("false", False),
    Sample("true-beside-1", [True, 1, 1.0, False, 0, 0.0, -0.0, None, "", "1", "true"]),
    Sample("empty-text", ""),
    Sample("empty-list", []),
    Sample("empty-object", {}),
    Sample(
        "empties-inside", {"list": [], "object": {}, "text": "", "null": None, "lists": [[], {}]}
    ),
    Sample("key-order", {"zeta": 1, "a": {"q": 1, "b": 2}, "mm": 3, "B": 4}),
    Sample("number-like-keys", {"10": "a", "9": "b", "1": "c", "01": "d", "1.0": "e", "-1": "f"}),
    Sample("empty-key", {"": "named by nothing", " ": "named by a space"}),
    Sample(
        "odd-keys",
        {"a\0b": 1, "\U0001f680": 2, "a.b[0]": 3, "$": 4, "'\"\\": 5, "\u00e9": 6, "e\u0301": 7},
    ),
    Sample(
        "marker-keys",
        {"__proto__": 1, "$ref": "#", "__class__": 2, "_encoded": 3, "constructor": 4},
    ),
    Sample(
        "known-names", {"role": 1, "text": 2, "toolCalls": 3, "tool_calls": 4, "model_config": 5}
    ),
    Sample("lists-of-lists", [[1], [[2]], [], [[], [[]]]]),
    Sample("mixed-list", [1, "1", 1.0, None, {"1": 1}, [1]]),
    Sample("all-numbers", [sample.value for sample in numbers]),
    Sample("all-texts", [sample.value for sample in texts[:-1]]),
    Sample("100-lists", nested(MAX_DEPTH - 1, _in_list, ["core"])),
    Sample("100-objects", nested(MAX_DEPTH - 1, _in_object, {"core": 1})),
    Sample("wide-object", {f"key-{n}": n for n in range(2_000)}),
    Sample("long-list", list(range(5_000))),
    *(Sample(f"text-{sample.name}", sample.value) for sample in texts[3:9]),
    *(Sample(f"number-{sample.name}", sample.value) for sample in numbers),
]
"""JSON values that come back equal wherever any JSON value may stand."""


class _Colour(IntEnum):
    RED = 1


class _Text(str):
    __slots__ = ()


class _Object:
    pass


unfit_values = [
    Sample("nan", float("nan"), "JSON has no NaN"),
    Sample("infinity", float("inf"), "JSON has no infinity"),
    Sample("minus-infinity", float("-inf"), "JSON has no infinity"),
    Sample("overflow", 1e308 * 10, "it overflowed to infinity"),
    Sample("nan-deep-inside", {"rows": [{"age": float("nan")}]}, "JSON has no NaN"),
    Sample("4301-digits", 10**MAX_INT_DIGITS, "an integer has up to 4,300 digits"),
    Sample("101-lists", nested(MAX_DEPTH + 1, _in_list, 1), "nesting ends at 100 levels"),
    Sample("101-objects", nested(MAX_DEPTH + 1, _in_object, 1), "nesting ends at 100 levels"),
    Sample("10000-lists", nested(10_000, _in_list, 1), "nesting ends at 100 levels"),
    Sample("lone-surrogate", "ok \udb8d end", "it is no Unicode text"),
    Sample("lone-low-surrogate", ["\udc00"], "it is no Unicode text"),
    Sample("swapped-surrogates", "\ude80\ud83d", "it is no Unicode text"),
    Sample("surrogate-in-a-key", {"\ud800": 1}, "it is no Unicode text"),
    Sample("integer-key", {1: "int", "1": "text"}, "keys are strings"),
    Sample("boolean-key", {True: 1}, "keys are strings"),
    Sample("null-key", {None: 2}, "keys are strings"),
    Sample("float-key", {"in": {1.5: 1}}, "keys are strings"),
    Sample("bytes", bytes([0x89, 0x50, 0, 255]), "bytes are no JSON"),
    Sample("ascii-bytes", b"text", "bytes are no JSON"),
    Sample("bytes-inside", {"inline_data": {"data": b"\x89PNG"}}, "bytes are no JSON"),
    Sample("set", {1, 2}, "a set has no order"),
    Sample("frozenset", frozenset({"a"}), "a set has no order"),
    Sample("tuple", (1, 2), "it would come back as a list"),
    Sample("datetime", datetime(2024, 1, 1, tzinfo=UTC), "it would come back as text"),
    Sample("date", date(2024, 1, 1), "it would come back as text"),
    Sample("timedelta", timedelta(seconds=1), "it would come back as something else"),
    Sample("decimal", Decimal("1.10"), "it would come back as a float or text"),
    Sample("complex", 1j, "it is no JSON"),
    Sample("object", _Object(), "it is no JSON"),
    Sample("type", dict, "it is no JSON"),
    Sample("generator", (n for n in range(2)), "it can be read once only"),
    Sample("enum", _Colour.RED, "it would come back as a plain int"),
    Sample("text-subclass", _Text("a"), "it would come back as a plain str"),
    Sample("numpy-float", np.float64(1.5), "it would come back as a plain float"),
    Sample("numpy-int", np.int64(1), "it is no JSON"),
    Sample("numpy-array", np.zeros(2), "it is no JSON"),
    Sample("message", Message(role="user", text="hi"), "a model is given by its fields"),
    Sample("bytearray", bytearray(b"a"), "bytes are no JSON"),
]
"""Values to refuse wherever any JSON value may stand: none could come back equal."""
