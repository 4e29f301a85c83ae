"""The steps that programs are drawn from: how often each comes, and what its arguments may be.

Values stand in the order in which a failing program is made simpler, and as often as they are
wanted. An argument that is drawn as ``DEFAULT`` is left out.
"""

from dataclasses import dataclass
from typing import Any

from conformance_tests import samples
from conformance_tests.suite.spelled import spell

Values = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Name:
    """One of the few names that a program has for ids, keys and namespaces."""

    number: int


@dataclass(frozen=True, slots=True)
class Standing:
    """A run that is there, as far as the program tells, or else the name of this number."""

    number: int


@dataclass(frozen=True, slots=True)
class Kind:
    """A step: its part and method, how often it comes, the values of each argument."""

    part: str
    name: str
    weight: int
    fields: dict[str, Values]


class Default:
    """Leaves an argument out."""


DEFAULT = Default()

_ids = samples.ids
POOLS = tuple(
    (*(sample.name for sample in _ids[start : start + 4]), f"{_ids[start].value}0")
    for start in range(0, len(_ids) - 3, 4)
)
"""The names that a program may have: neighbours among the samples, and one that begins as another.

They are what is easily taken for each other.
"""

_NAME: Values = tuple(map(Name, range(5)))
_CLIENT: Values = (*[DEFAULT] * 4, 1, 2, 3)
_RUN: Values = (*map(Standing, range(5)), *map(Standing, range(5)), *_NAME[:3])
_OFF: Values = (DEFAULT,) * 8 + (0, 0, 0, 0, 1, -1, 10**30)
_KEY: Values = (DEFAULT,) * 4 + ("k", "k", "dot-dot")
_LABELS: Values = (
    DEFAULT,
    {"a": "x"},
    {"a": "y"},
    {"a": "x", "A": "x", " ": "é"},
    {"é": "e\u0301"},
)
_LIMIT: Values = (1, 2, 3, 1_000)
_COUNT: Values = (DEFAULT, 0, 1, 2, 5, 10**30)

_messages = [sample.name for sample in samples.messages]
_events = [sample.name for sample in samples.events]
_MESSAGES: Values = (
    *[("m",), ("m",) * 3, ("m",) * 9, ()] * 5,
    ("m",) * 30, ("user", "user"),
    *(("m", name, "m") for name in _messages),
)  # fmt: skip
_EVENTS: Values = (
    *[("e",), ("e",) * 4, ()] * 4,
    ("e",) * 30, ("text-delta", "text-delta"),
    *((name, "e") for name in _events),
)  # fmt: skip

_RUNS = (
    Kind("runs", "create", 7, {
        "client": _CLIENT, "run": (*_NAME, DEFAULT), "labels": _LABELS, "name": ("made",),
    }),
    Kind("runs", "append", 10, {
        "client": _CLIENT, "run": _RUN, "messages": _MESSAGES,
        "events": (DEFAULT,) * 20 + _EVENTS,
        "expect_messages": _OFF, "expect_events": _OFF, "key": _KEY,
    }),
    Kind("runs", "append_events", 4, {
        "client": _CLIENT, "run": _RUN, "events": _EVENTS,
        "expect_messages": _OFF, "expect_events": _OFF, "key": _KEY,
    }),
    Kind("runs", "append_again", 5, {
        "client": _CLIENT, "run": _RUN, "of": (DEFAULT,) * 15 + _RUN,
        "back": (DEFAULT, DEFAULT, 1, 2, 127),
        "more": (DEFAULT, DEFAULT, ("e",)), "expect_messages": _OFF,
    }),
    Kind("runs", "append_many", 1, {"client": _CLIENT, "run": _RUN, "count": (2, 2, 3, 5, 128)}),
    Kind("runs", "load", 3, {
        "client": _CLIENT, "run": _RUN, "last_messages": _COUNT, "last_events": _COUNT,
    }),
    Kind("runs", "read", 4, {
        "client": _CLIENT, "run": _RUN, "log": (DEFAULT, "events"),
        "start": (DEFAULT, 1, 3, -1, -2, -3, 10**30), "limit": (DEFAULT, 1, 2, 7),
    }),
    Kind("runs", "fork", 8, {
        "client": _CLIENT, "run": _RUN, "to": (*_NAME, DEFAULT),
        "at": (DEFAULT, DEFAULT, 1, 2, 3, 5, 9, -1, 10**30), "labels": (*_LABELS, {}),
        "name": ("made",),
    }),
    Kind("runs", "descend", 1, {
        "client": _CLIENT, "run": _RUN, "generations": (2, 2, 3, 5, 66), "name": ("leaf",),
    }),
    Kind("runs", "list", 3, {
        "client": _CLIENT, "limit": _LIMIT, "labels": (DEFAULT, *_LABELS),
        "parent": (DEFAULT,) * 10 + _RUN, "before": (DEFAULT,) * 4 + (1, 0, -1, 1e-6),
        "pages": (DEFAULT, 1, 2),
    }),
    Kind("runs", "list_on", 2, {"client": _CLIENT, "pages": (1, 2)}),
    Kind("runs", "update", 3, {
        "client": _CLIENT, "run": _RUN,
        "labels": ({"a": "x"}, {"a": "y"}, {"a": None}, {"A": "x", " ": None}, {"é": "e\u0301"}),
        "many": (DEFAULT,) * 6 + (61, 62),
    }),
    Kind("runs", "delete", 4, {
        "client": _CLIENT, "run": _RUN, "expect_messages": _OFF, "expect_events": _OFF,
    }),
)  # fmt: skip

_SPACE: Values = (DEFAULT,) * 5 + _NAME[:2]
_NOTE: Values = (*_NAME[:1] * 4, *_NAME[:2], *_NAME)
_texts = [sample.name for sample in samples.texts]
_vectors = [(1, 0), (0, 1), (-1, 0), (1, 1), (2, 2), (3, -4), (0, 0), (1e-20, 1e-20), (1e30, 0)]
_words = ["word", "Straße", "STRASSE", "a_b%c", "x", "İstanbul", "ſ", "", "K", "\u212a"]
_VALUES: Values = (*["word"] * 40, *_words, *(spell(*vector) for vector in _vectors), *_texts)
_metadata = [sample.name for sample in samples.metadata]
_SCALARS: Values = (2, 2.0, 1, True, 0, False, -0.0, None, "2", "", 2**53 + 1, float(2**53), 0.1)
_METADATA: Values = (DEFAULT,) * 30 + ({"n": 2},) * 8 + (*({"n": n} for n in _SCALARS), *_metadata)
_WHERE: Values = (
    (DEFAULT,) * 13
    + ({"n": 2},) * 8
    + (*({"n": n} for n in _SCALARS), {"n": 2, "m": 1}, {"text": "a"})
)
_VERSION: Values = (DEFAULT,) * 4 + (0, 0, 1, -1, -(10**30), 10**30)

_MEMORY = (
    Kind("memory", "put", 10, {
        "client": _CLIENT, "space": _SPACE, "key": _NOTE, "value": _VALUES,
        "metadata": _METADATA, "age": (DEFAULT,) * 4 + (0, 1, -1, 1e-6), "expect": _VERSION,
    }),
    Kind("memory", "put_many", 3, {
        "client": _CLIENT, "space": _SPACE,
        "notes": (
            ((Name(0), "one"), (Name(1), "two")),
            ((Name(3), spell(1, 1)), (Name(2), spell(3, 3)), (Name(4), spell(0, 1))),
            ((Name(2), "word"), (Name(0), "\0"), (Name(1), "")),
            (),
            ((Name(1), "x"), (Name(0), "x"), (Name(1), "again")),
            tuple((f"n{n}", spell(n, 7 - n)) for n in range(8)),
            tuple((f"n{n}", "word" * n) for n in range(8)),
        ),
    }),
    Kind("memory", "get", 3, {"client": _CLIENT, "space": _SPACE, "key": _NOTE}),
    Kind("memory", "list", 4, {
        "client": _CLIENT, "space": _SPACE, "limit": (DEFAULT, 1, 2, 5, 10**6), "where": _WHERE,
    }),
    Kind("memory", "recall", 8, {
        "client": _CLIENT, "space": _SPACE,
        "query": (
            "w", "strasse", "ẞ", "_", "%", "İ", "s", "k", "\0", "| 1", "a b", "quotes",
            *(spell(*vector) for vector in _vectors), Name(0), Name(1),
        ),
        "limit": (DEFAULT, 1, 2, 3), "where": _WHERE,
    }),
    Kind("memory", "delete", 4, {"client": _CLIENT, "space": _SPACE, "key": _NOTE}),
    Kind("memory", "clear", 1, {"client": _CLIENT, "space": _SPACE}),
    Kind("memory", "list_namespaces", 2, {
        "client": _CLIENT, "prefix": (DEFAULT, *_NAME[:2]), "limit": (1, 2, 1_000),
    }),
)  # fmt: skip

_results = [sample.name for sample in samples.tool_results]
_short_texts = [sample.name for sample in samples.texts if len(sample.value) < 1_000]
_LINES: Values = (
    "one\ntwo\n\nthree", "Straße\nSTRASSE\nſtrasse", "aaaa\naa", "\n\n",
    "x" * 700 + "İ" + "y" * 700,
)  # fmt: skip

_TOOL_RESULTS = (
    Kind("tool_results", "put", 10, {
        "client": _CLIENT, "ref": (*_NAME, *_NAME, DEFAULT),
        "result": (*_LINES, *_results, *_short_texts), "labels": _LABELS, "name": ("made",),
    }),
    Kind("tool_results", "get", 3, {"client": _CLIENT, "ref": (*_NAME, "made")}),
    Kind("tool_results", "read", 4, {
        "client": _CLIENT, "ref": (*_NAME, "made"), "offset": (DEFAULT, 1, 2, 7, 10**30),
        "limit": (DEFAULT, 1, 3, 1_000_000, 10**30),
    }),
    Kind("tool_results", "search", 6, {
        "client": _CLIENT, "ref": (*_NAME, "made"),
        "pattern": ("a", "aa", "\n", "e\n", "ss", "S", "ß", "i", "İ", "y", "\0", "t", "."),
        "ignore_case": (DEFAULT, True), "start": (DEFAULT, DEFAULT, 1, 3, 10**30),
        "limit": (DEFAULT, 1, 2),
    }),
    Kind("tool_results", "list", 3, {
        "client": _CLIENT, "limit": _LIMIT, "labels": (DEFAULT, *_LABELS),
        "pages": (DEFAULT, 1, 2),
    }),
    Kind("tool_results", "list_on", 2, {"client": _CLIENT, "pages": (1, 2)}),
    Kind("tool_results", "delete", 4, {"client": _CLIENT, "ref": (*_NAME, "made")}),
)  # fmt: skip

_STAGE = (
    Kind("stage", "tick", 6, {"seconds": (1, 0.000001, 60, -30)}),
    Kind("stage", "reopen", 1, {"client": _CLIENT, "all": (DEFAULT, DEFAULT, True)}),
    Kind("stage", "sweep", 1, {"client": _CLIENT, "budget": (DEFAULT, 1, 5)}),
    Kind("stage", "compare", 1, {"client": _CLIENT}),
)  # fmt: skip

KINDS = {"runs": _RUNS, "memory": _MEMORY, "tool_results": _TOOL_RESULTS, "stage": _STAGE}
