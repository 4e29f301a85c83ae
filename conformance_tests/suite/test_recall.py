"""Substring recall: a plain, literal, case-folded search in keys and values."""

import asyncio
import time
from typing import NamedTuple

import pytest

from conformance_tests.compare import assert_same
from conformance_tests.lab import Lab
from conformance_tests.proves import proves
from conformance_tests.suite.notes import fill, fill_many, listed, note, write
from stores_core import MemoryItem

MEMORY = ("memory",)


class Case(NamedTuple):
    """A text, a query that it contains, or does not."""

    name: str
    text: str
    query: str


def name_of(case: Case) -> str:
    return case.name


FOUND = [
    Case("the whole", "hello", "hello"),
    Case("the start", "hello world", "hello w"),
    Case("the end", "hello world", "world"),
    Case("across words", "hello world", "lo wo"),
    Case("one letter", "hello", "l"),
    Case("two letters", "hello", "el"),
    Case("a space", "hello world", " "),
    Case("a trailing space", "hello world", "hello "),
    Case("a line break", "one\ntwo", "e\nt"),
    Case("upper in lower", "hello", "HELLO"),
    Case("lower in upper", "HELLO", "hello"),
    Case("mixed", "hElLo", "HeLLo"),
    Case("accents", "École", "éCOLE"),
    Case("Cyrillic", "Червоний", "червоний"),
    Case("Cyrillic, upper in lower", "червоний", "ЧЕРВ"),
    Case("sharp s as SS", "straße", "STRASSE"),
    Case("SS as sharp s", "STRASSE", "straße"),
    Case("capital sharp s", "STRAẞE", "strasse"),
    Case("half a sharp s", "ß", "s"),
    Case("final sigma", "οδός", "ΟΔΌΣ"),
    Case("final sigma inside", "ΟΔΌΣ", "δός"),
    Case("dotted capital I", "İstanbul", "i\u0307stanbul"),
    Case("the i in dotted capital I", "İstanbul", "i"),
    Case("the Kelvin sign", "300 \u212a", "300 k"),
    Case("long s", "ſet", "SET"),
    Case("a ligature", "ﬁne", "FIN"),
    Case("Cherokee, which folds upwards", "\uab70", "\u13a0"),
    Case("Deseret, beyond 16 bits", "\U00010400", "\U00010428"),
    Case("Chinese", "我喜欢红色", "欢红"),
    Case("an emoji", "look 👩‍👩‍👧 there", "👩‍👧"),
    Case("a combining accent by itself", "e\u0301", "e"),
    Case("a long query", "x" + "ab" * 5_000, "AB" * 5_000),
]

NOT_FOUND = [
    Case("another word", "hello", "help"),
    Case("the query is longer", "hell", "hello"),
    Case("words in another order", "hello world", "world hello"),
    Case("words that are apart", "hello big world", "hello world"),
    Case("a space too many", "hello world", "hello  world"),
    Case("a space for a line break", "one\ntwo", "one two"),
    Case("a leading space", "hello", " hello"),
    Case("no accents dropped", "cafe", "café"),
    Case("no normalising of the text", "café", "cafe\u0301"),
    Case("no normalising of the query", "cafe\u0301", "é"),
    Case("dotless i", "ı", "I"),
    Case("full width letters", "ＡＢＣ", "abc"),
    Case("no stemming", "connection", "connected"),
]

LITERAL = [
    Case("percent", "100% sure", "100x sure"),
    Case("underscore", "a_b", "axb"),
    Case("backslash", "C:\\temp", "C:temp"),
    Case("escaped percent", "a\\%b", "a%b"),
    Case("star", "a*b", "axxb"),
    Case("question mark", "a?b", "axb"),
    Case("brackets", "[ab]", "a"),
    Case("dot", "a.b", "axb"),
    Case("caret", "^a", "a"),
    Case("dollar", "a$", "a"),
    Case("bar", "a|b", "b"),
    Case("plus", "a+", "aa"),
    Case("parentheses", "(a)", "a"),
    Case("an open parenthesis", "f(", "f"),
    Case("braces", "a{2}", "aa"),
    Case("a class", "\\d", "7"),
    Case("single quote", "it's", "its"),
    Case("double quote", '"unclosed', "unclosed"),
    Case("a comment", "a -- b", "a"),
    Case("a statement", "'; DROP TABLE x; --", "'"),
    Case("a placeholder", "$1", "1"),
    Case("percent s", "%s", "s"),
    Case("prefix search", "ab*", "abc"),
    Case("boolean search", "a AND b", "b a"),
    Case("minus", "-a", "a"),
    Case("near", "NEAR(", "near"),
    Case("a field", "@key:x", "x"),
    Case("NUL", "a\0b", "ab"),
    Case("a line end", "a\r\nb", "a\nb"),
]


@pytest.mark.parametrize("case", FOUND, ids=name_of)
@proves("SUB-1", needs=MEMORY, look_at="how text and query are folded before they are compared")
async def test_a_note_that_contains_the_query_is_found(lab: Lab, case: Case) -> None:
    space = await fill(lab, [("1", "zzz"), ("2", f"zz{case.text}zz"), ("3", case.text)])
    assert await listed(lab.reader, space, query=case.query) == ["2", "3"]


@pytest.mark.parametrize("case", FOUND[:-1], ids=name_of)
@proves("SUB-1", needs=MEMORY, look_at="whether keys are searched as values are")
async def test_a_key_that_contains_the_query_is_found(lab: Lab, case: Case) -> None:
    space = await fill(lab, [("7", "zzz"), (case.text, "zzz")])
    assert await listed(lab.reader, space, query=case.query) == [case.text]


@pytest.mark.parametrize("case", NOT_FOUND, ids=name_of)
@proves("SUB-1", needs=MEMORY, look_at="matching that does more than fold case")
async def test_a_note_that_only_resembles_the_query_is_not_found(lab: Lab, case: Case) -> None:
    space = await fill(lab, [("1", case.text), (case.text, "2"), ("3", case.query)])
    assert await listed(lab.reader, space, query=case.query) == ["3"]


@pytest.mark.parametrize("case", LITERAL, ids=name_of)
@proves("SUB-1", needs=MEMORY, look_at="where the query becomes a pattern or query text")
async def test_every_character_of_a_query_is_literal(lab: Lab, case: Case) -> None:
    sign, plain = case.text, case.query
    space = await fill(lab, [("1", f"zz{plain}zz"), ("2", f"zz{sign}zz"), ("3", "zzz")])
    assert await listed(lab.reader, space, query=sign) == ["2"]


@pytest.mark.parametrize("joint", ["", " ", "\n", "\0", "\t", ":", "\x1f", ","], ids=ascii)
@proves("SUB-2", needs=MEMORY, look_at="recall over one text that joins key and value")
async def test_a_query_never_matches_across_key_and_value(lab: Lab, joint: str) -> None:
    space = await fill(lab, [("left", "right"), ("right", "left")])
    assert await listed(lab.reader, space, query=f"ft{joint}ri") == []
    assert await listed(lab.reader, space, query=f"left{joint}right") == []
    assert await listed(lab.reader, space, query="left") == ["left", "right"]


@proves("SUB-1", needs=MEMORY, look_at="what else of a note is searched besides key and value")
async def test_neither_metadata_nor_namespace_is_searched(lab: Lab) -> None:
    space = lab.new_id("needle")
    await write(lab.backend, space, "k", "v", {"needle": "needle", "a": 1})
    assert await listed(lab.reader, space, query="needle") == []
    assert await listed(lab.reader, space, query="metadata") == []


@proves("SUB-1", needs=MEMORY, look_at="text after a NUL, or beyond some length, in the search")
async def test_the_whole_value_is_searched(lab: Lab) -> None:
    long = "x" * 1_000_000
    space = await fill(lab, [("nul", "a\0needle"), ("long", long + "needle"), ("none", long)])
    assert await listed(lab.reader, space, query="NEEDLE") == ["nul", "long"]
    assert await listed(lab.reader, space, query="\0") == ["nul"]


@proves("SUB-2", "MEM-7", needs=MEMORY, look_at="score and order of substring matches")
async def test_every_match_scores_1_and_the_oldest_comes_first(lab: Lab) -> None:
    space = await fill(
        lab, [("a", "one match"), ("match", "match match match"), ("c", "x"), ("b", "Match")]
    )
    await write(lab.backend, space, "a", "one match, put again")
    answer = await lab.reader.memory.list_memories(namespace=space, query="match")
    found = [(scored.item.key, scored.score) for scored in answer.items]
    assert_same(found, [("a", 1.0), ("match", 1.0), ("b", 1.0)], "matches")
    assert answer.next_cursor == ""


@proves("MEM-7", "SUB-2", needs=MEMORY, look_at="an order that only chance decides")
async def test_equal_recalls_give_equal_answers(lab: Lab) -> None:
    space = lab.new_id("notes")
    order = [f"k{n * 37 % 100:02}" for n in range(100)]
    await fill_many(lab.backend, space, [MemoryItem(key=key, value="same") for key in order])
    for client in (lab.backend, lab.reader, lab.backend):
        assert await listed(client, space, query="SAME") == order


@proves("MEM-4", "SUB-2", needs=MEMORY, look_at="a limit that is applied before the match")
async def test_a_limit_keeps_the_oldest_matches(lab: Lab) -> None:
    space = await fill(lab, [(f"k{n:02}", "needle" if n % 3 == 0 else "straw") for n in range(30)])
    matches = [f"k{n:02}" for n in range(0, 30, 3)]
    assert await listed(lab.reader, space, query="needle") == matches
    for limit in (1, 4, 10, 11, 1_000):
        assert await listed(lab.reader, space, query="needle", limit=limit) == matches[:limit]


@proves("SUB-1", "MEM-1", "ALL-6", needs=MEMORY, look_at="a folded copy that a put leaves behind")
async def test_recall_follows_a_put_at_once(lab: Lab) -> None:
    space = await fill(lab, [("a", "apple"), ("b", "pear")])
    await write(lab.backend, space, "a", "Plum")
    assert await listed(lab.reader, space, query="apple") == []
    assert await listed(lab.reader, space, query="plum") == ["a"]
    assert (await note(lab.reader, space, "a")).value == "Plum", "the folded text came back"
    assert await listed(lab.reader, space, query="p") == ["a", "b"]


@proves("SUB-1", needs=MEMORY, look_at="matching whose cost explodes with the query")
async def test_a_query_that_looks_like_a_slow_pattern_costs_no_more_than_others(lab: Lab) -> None:
    space = await fill(lab, [("k", "a" * 200_000 + "!")])
    begun = time.monotonic()
    answers = await asyncio.gather(
        listed(lab.reader, space, query="(a+)+$"),
        listed(lab.reader, space, query="a" * 20_000 + "b"),
        listed(lab.reader, space, query="%a" * 500),
    )
    assert answers == [[], [], []]
    assert time.monotonic() - begun < 10
