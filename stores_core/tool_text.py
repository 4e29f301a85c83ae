"""The text of a tool result: what it is, how to keep it only once, slices, search.

A backend keeps two things for a result, both from :func:`split`: the text, from which slices and
searches are served, and the rest, which holds lengths where the text was. :func:`join` makes the
result of them again.
"""

import sys
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from stores_core.codec import decode_json, decode_tool_result, encode, encode_json
from stores_core.errors import CorruptRecordError, InvalidRequestError, StoreError
from stores_core.extras import need
from stores_core.shape import replaced
from stores_core.tool_results import TextMatch, ToolResult

LINE_CHARACTERS = 500

_STRUCTURED = "structured"
_WINDOW = 4_096

Span = tuple[int, int]


def text_of(result: ToolResult) -> str:
    """The text of a result, as TOOL-4 has it."""
    texts = [text for _, text in _texts(result)]
    if texts or result.structured_content is None:
        return "\n".join(texts)
    return encode_json(result.structured_content).decode()


def split(result: ToolResult) -> tuple[str, bytes]:
    """The text, and the rest as two lines of JSON.

    The second line is the result without its text. The first says where the text belongs: the
    index and length in characters of each text item, or "structured".
    """
    texts = list(_texts(result))
    if texts:
        content = list(result.content or ())
        for index, _ in texts:
            content[index] = {**content[index], "text": None}
        places: object = [[index, len(text)] for index, text in texts]
        hollow = replaced(result, {"content": tuple(content)})
    elif result.structured_content is not None:
        places, hollow = _STRUCTURED, replaced(result, {"structured_content": None})
    else:
        places, hollow = [], result
    return text_of(result), encode_json(places) + b"\n" + encode(hollow)


def join(text: str, rest: bytes, *, ref: str = "") -> ToolResult:
    """The result that was split into these two.

    Raises CorruptRecordError, with this ``ref``, when they are damaged or do not belong together.
    """
    places, _, body = rest.partition(b"\n")
    try:
        return _filled(decode_tool_result(body), decode_json(places), text)
    except (StoreError, ValueError, TypeError, LookupError) as error:
        raise CorruptRecordError(store="tool_results", id=ref) from error


def _texts(result: ToolResult) -> Iterator[tuple[int, str]]:
    for index, item in enumerate(result.content or ()):
        if type(item) is dict:
            held = cast("dict[str, Any]", item)
            text = held.get("text")
            if held.get("type") == "text" and type(text) is str and text:
                yield index, text


def _filled(hollow: ToolResult, places: Any, text: str) -> ToolResult:
    if places == _STRUCTURED:
        return replaced(hollow, {"structured_content": decode_json(text)})
    content, position = list(hollow.content or ()), 0
    for index, length in places:
        content[index]["text"] = text[position : position + length]
        position += length + 1
    if position != (len(text) + 1 if places else len(text)):
        raise ValueError("the text does not have the length that the rest speaks of")
    return replaced(hollow, {"content": tuple(content)}) if places else hollow


def read_slice(text: str, offset: int, limit: int) -> str:
    """Up to ``limit`` code points from ``offset`` on; "" past the end."""
    return text[offset : offset + limit]


def search(
    text: str, pattern: str, *, ignore_case: bool, regex: bool, start: int, limit: int
) -> tuple[list[TextMatch], int]:
    """Up to ``limit`` matches from ``start`` on, one for each line, and where to go on.

    A match belongs to the line it begins in, and the first one there that is not before ``start``
    is given. Where to go on is the start of a line, or the length of the text when all was
    searched. A line ends at a newline; a literal match that crosses lines shows them all. Ignoring
    case folds by Unicode and never finds a part of a character, so "s" is not in "ß", while "ss"
    is. A regex is matched within lines, ^ and $ stand for their ends, and ignoring case it folds
    character by character. The cost is linear in the text, whatever the pattern.

    Raises InvalidRequestError for a bad regex and where the engine is not installed.
    """
    if regex:
        find = _regex_finder(text, pattern, ignore_case)
    elif ignore_case:
        find = _folding_finder(text, pattern)
    else:
        find = _literal_finder(text, pattern)
    matches: list[TextMatch] = []
    position = start
    while position < len(text) and len(matches) < limit:
        span = find(position)
        if span is None:
            return matches, len(text)
        begin, end = span
        line_start = text.rfind("\n", 0, begin) + 1
        line = _cut(text, (line_start, _line_end(text, max(begin, end - 1))), span)
        matches.append(TextMatch(offset=begin, line_offset=line_start, text=line))
        position = _line_end(text, begin) + 1
    return matches, min(position, len(text))


def _line_end(text: str, position: int) -> int:
    end = text.find("\n", position)
    return len(text) if end < 0 else end


def _cut(text: str, line: Span, match: Span) -> str:
    """The line if it is short, else as much of it with the match in its middle."""
    (start, end), (begin, match_end) = line, match
    spare = max(0, LINE_CHARACTERS - (match_end - begin))
    first = max(start, min(begin - spare // 2, end - LINE_CHARACTERS))
    return text[first : min(end, first + LINE_CHARACTERS)]


# A finder gives the first match at or after a position, as (begin, end) in code points. It is
# asked for rising positions.


def _literal_finder(text: str, pattern: str) -> Callable[[int], Span | None]:
    def find(position: int) -> Span | None:
        at = text.find(pattern, position)
        return None if at < 0 else (at, at + len(pattern))

    return find


def _folding_finder(text: str, pattern: str) -> Callable[[int], Span | None]:
    folded_pattern = pattern.casefold()
    length = len(folded_pattern)
    step = max(_WINDOW, length)

    def find(position: int) -> Span | None:
        # Each character folds to one or more, so a match takes no more of the text than `length`.
        while position < len(text):
            span = _in_window(text[position : position + step + length], folded_pattern)
            if span is not None:
                return position + span[0], position + span[1]
            position += step
        return None

    return find


def _in_window(window: str, pattern: str) -> Span | None:
    folded, length = window.casefold(), len(pattern)
    at = folded.find(pattern)
    if at < 0 or len(folded) == len(window):
        return None if at < 0 else (at, at + length)
    # Some characters fold to several, so look for a match that does not cut one of them in two.
    codes = np.frombuffer(window.encode("utf-32-le", "surrogatepass"), np.dtype("<u4"))
    borders = np.zeros(len(folded) + 1, np.bool_)
    borders[0] = True
    borders[np.cumsum(_fold_widths()[codes], dtype=np.intp)] = True
    fitting = (borders[:-length] & borders[length:]).tobytes()
    while at >= 0 and not fitting[at]:
        at = fitting.find(1, at)
        at = folded.find(pattern, at) if at >= 0 else at
    if at < 0:
        return None
    return int(np.count_nonzero(borders[:at])), int(np.count_nonzero(borders[: at + length]))


@cache
def _fold_widths() -> npt.NDArray[np.uint8]:
    """For each code point, how many it folds to."""
    count = sys.maxunicode + 1
    return np.fromiter((len(chr(code).casefold()) for code in range(count)), np.uint8, count)


def _regex_finder(text: str, pattern: str, ignore_case: bool) -> Callable[[int], Span | None]:
    re2 = need("re2", extra="regex", field="regex")
    options = re2.Options()
    options.log_errors = False
    options.never_nl = True
    options.never_capture = True
    options.case_sensitive = not ignore_case
    try:
        compiled = re2.compile("(?m)" + pattern, options)
    except re2.error as error:
        raise InvalidRequestError(
            field="pattern", found="no valid regex", allowed="the syntax of RE2"
        ) from error
    data = text.removesuffix("\n").encode()
    # The last known pair of equal offsets, in characters and in bytes.
    known = [0, 0]

    def to_bytes(position: int) -> int:
        known[1] += len(text[known[0] : position].encode())
        known[0] = position
        return known[1]

    def characters(first: int, last: int) -> int:
        # `ignore`, because \\C matches a single byte of a character.
        return len(data[first:last].decode(errors="ignore"))

    def find(position: int) -> Span | None:
        found = compiled.search(data, to_bytes(position))
        if found is None:
            return None
        begin = position + characters(known[1], found.start())
        return begin, begin + characters(found.start(), found.end())

    return find
