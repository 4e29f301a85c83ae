"""The text of tool results composed, cut or searched wrongly."""

import json
import re
from typing import Any

from conformance_tests.broken.defect import BrokenToolResults, changed, defect
from stores_core.tool_results import (
    GetToolResultRequest,
    ReadToolResultRequest,
    ReadToolResultResponse,
    SearchToolResultRequest,
    SearchToolResultResponse,
    TextMatch,
    ToolResult,
)
from stores_core.tool_text import text_of

_COMPOSED = "test_tool_text.py::test_the_text_is_the_text_items_or_else_the_structure"
_SLICES = "test_tool_text.py::test_a_slice_counts_code_points"
_PAST = "test_tool_text.py::test_past_the_end_a_slice_is_empty_and_still_tells_the_length"
_LITERAL = "test_tool_text.py::test_every_character_of_a_pattern_is_literal"
_GOES_ON = "test_tool_text.py::test_a_search_goes_on_where_it_stopped"
_ONCE = "test_tool_text.py::test_a_match_tells_its_offset_and_its_line_once"
_FOLDED = "test_tool_text.py::test_ignoring_case_folds_by_unicode_and_keeps_true_offsets"
_LONG = "test_tool_text.py::test_a_long_line_is_cut_to_500_characters_around_the_match"
_NOTHING = "test_tool_text.py::test_a_search_without_matches_says_that_all_was_searched"


def _texts(result: ToolResult) -> list[str]:
    """The texts of the text items, empty ones too."""
    items: list[Any] = [item for item in result.content or () if isinstance(item, dict)]
    texts = [item.get("text") for item in items if item.get("type") == "text"]
    return [text for text in texts if isinstance(text, str)]


class _Composed(BrokenToolResults):
    """Makes the text of a result, and slices of it, in a way of its own."""

    def text(self, result: ToolResult) -> str:
        return text_of(result)

    def slice(self, text: str, offset: int, limit: int) -> ReadToolResultResponse:
        part = text[offset : offset + limit]
        return ReadToolResultResponse(text=part, characters=len(text), found=True)

    async def read_tool_result(self, request: ReadToolResultRequest) -> ReadToolResultResponse:
        got = await self.good.get_tool_result(GetToolResultRequest(ref=request.ref))
        if got.result is None:
            return ReadToolResultResponse(found=False)
        return self.slice(self.text(got.result), request.offset, request.limit)


@defect("TOOL-4", caught_by=_COMPOSED)
class TextsAreTwoLinesApart(_Composed):
    """Text items are joined by an empty line."""

    def text(self, result: ToolResult) -> str:
        return "\n\n".join(filter(None, _texts(result))) or text_of(result)


@defect("TOOL-4", caught_by=_COMPOSED)
class EmptyTextsMakeLines(_Composed):
    """Text items that are empty make a line, too."""

    def text(self, result: ToolResult) -> str:
        return "\n".join(_texts(result)) if any(_texts(result)) else text_of(result)


@defect("TOOL-4", caught_by=_COMPOSED)
class StructureFollowsTheText(_Composed):
    """The text ends with the structured content, whether there is other text or not."""

    def text(self, result: ToolResult) -> str:
        structure = text_of(changed(result, content=()))
        return "\n".join(filter(None, [*_texts(result), structure]))


@defect("TOOL-4", caught_by=_COMPOSED)
class StructureHasSpaces(_Composed):
    """Structured content becomes text with spaces after commas and colons."""

    def text(self, result: ToolResult) -> str:
        if any(_texts(result)) or result.structured_content is None:
            return text_of(result)
        return json.dumps(result.structured_content, ensure_ascii=False)


@defect("TOOL-4", caught_by=_COMPOSED)
class AnyTextFieldIsText(_Composed):
    """The field "text" of an item of any type is taken for text."""

    def text(self, result: ToolResult) -> str:
        items: list[Any] = [item for item in result.content or () if isinstance(item, dict)]
        return "\n".join(str(item["text"]) for item in items if item.get("text")) or text_of(result)


@defect("TOOL-4", caught_by=_SLICES)
class SlicesCountBytes(_Composed):
    """A slice counts bytes of UTF-8."""

    def slice(self, text: str, offset: int, limit: int) -> ReadToolResultResponse:
        data = text.encode()
        part = data[offset : offset + limit].decode(errors="ignore")
        return ReadToolResultResponse(text=part, characters=len(data), found=True)


@defect("TOOL-4", caught_by=_SLICES)
class SlicesCount16Bits(_Composed):
    """A slice counts UTF-16 units."""

    def slice(self, text: str, offset: int, limit: int) -> ReadToolResultResponse:
        data = text.encode("utf-16-le")
        part = data[2 * offset : 2 * (offset + limit)].decode("utf-16-le", errors="ignore")
        return ReadToolResultResponse(text=part, characters=len(data) // 2, found=True)


@defect("TOOL-4", caught_by=_SLICES)
class LastCharacterIsMissing(_Composed):
    """A slice that reaches the end lacks the last character."""

    def slice(self, text: str, offset: int, limit: int) -> ReadToolResultResponse:
        end = min(offset + limit, len(text) - 1)
        return ReadToolResultResponse(text=text[offset:end], characters=len(text), found=True)


@defect("TOOL-4", caught_by=_SLICES)
class CharactersOfTheSlice(_Composed):
    """A slice tells its own length where it should tell that of the whole text."""

    def slice(self, text: str, offset: int, limit: int) -> ReadToolResultResponse:
        part = text[offset : offset + limit]
        return ReadToolResultResponse(text=part, characters=len(part), found=True)


@defect(
    "TOOL-4",
    caught_by="test_tool_text.py::test_slices_of_a_long_text_are_right_at_every_border",
)
class SlicesEndWithTheirPiece(_Composed):
    """A text is kept in pieces of 65,536 characters, and a slice ends with its first piece."""

    def slice(self, text: str, offset: int, limit: int) -> ReadToolResultResponse:
        return super().slice(text, offset, min(limit, 65_536 - offset % 65_536))


@defect("TOOL-4", caught_by=_PAST)
class PastTheEndIsTheTail(_Composed):
    """An offset past the end gives the end of the text."""

    def slice(self, text: str, offset: int, limit: int) -> ReadToolResultResponse:
        return super().slice(text, min(offset, max(0, len(text) - limit)), limit)


class _Searched(BrokenToolResults):
    """Searches the text in a way of its own."""

    async def searched(
        self, request: SearchToolResultRequest, text: str
    ) -> SearchToolResultResponse:
        raise NotImplementedError

    async def search_tool_result(
        self, request: SearchToolResultRequest
    ) -> SearchToolResultResponse:
        got = await self.good.get_tool_result(GetToolResultRequest(ref=request.ref))
        if got.result is None or request.regex:
            return await self.good.search_tool_result(request)
        return await self.searched(request, text_of(got.result))


@defect("TOOL-6", caught_by=_GOES_ON)
class SearchStartsAnew(_Searched):
    """A search begins at the start of the text, wherever it was told to."""

    async def searched(
        self, request: SearchToolResultRequest, text: str
    ) -> SearchToolResultResponse:
        return await self.good.search_tool_result(changed(request, start=0))


@defect("TOOL-6", caught_by=_GOES_ON)
class SearchNeverGoesOn(_Searched):
    """A search that reached its limit says that all was searched."""

    async def searched(
        self, request: SearchToolResultRequest, text: str
    ) -> SearchToolResultResponse:
        return changed(await self.good.search_tool_result(request), next=len(text))


@defect("TOOL-6", caught_by=_NOTHING)
class SearchWithoutMatchesStays(_Searched):
    """A search that finds nothing tells its start as the place to go on from."""

    async def searched(
        self, request: SearchToolResultRequest, text: str
    ) -> SearchToolResultResponse:
        answer = await self.good.search_tool_result(request)
        return answer if answer.matches else changed(answer, next=request.start)


@defect("TOOL-6", caught_by=_LITERAL)
class SearchTakesRegexes(_Searched):
    """A pattern is taken for a regular expression where it is one."""

    async def searched(
        self, request: SearchToolResultRequest, text: str
    ) -> SearchToolResultResponse:
        try:
            found = re.search(request.pattern, text[request.start :])
        except re.error:
            found = None
        pattern = (found and found[0]) or request.pattern
        return await self.good.search_tool_result(changed(request, pattern=pattern))


@defect("TOOL-6", caught_by=_FOLDED)
class SearchMindsCase(_Searched):
    """ignore_case lowers the pattern alone."""

    async def searched(
        self, request: SearchToolResultRequest, text: str
    ) -> SearchToolResultResponse:
        if request.ignore_case:
            request = changed(request, ignore_case=False, pattern=request.pattern.lower())
        return await self.good.search_tool_result(request)


@defect("TOOL-6", caught_by=_FOLDED)
class SearchNeverMindsCase(_Searched):
    """A search ignores case without being asked to."""

    async def searched(
        self, request: SearchToolResultRequest, text: str
    ) -> SearchToolResultResponse:
        return await self.good.search_tool_result(changed(request, ignore_case=True))


@defect("TOOL-6", caught_by=_FOLDED)
class SearchTellsPlacesOfFoldedText(_Searched):
    """Ignoring case, a search tells offsets in the folded text, which may be longer."""

    async def searched(
        self, request: SearchToolResultRequest, text: str
    ) -> SearchToolResultResponse:
        answer = await self.good.search_tool_result(request)
        if not request.ignore_case:
            return answer
        moved = [changed(m, offset=len(text[: m.offset].casefold())) for m in answer.matches]
        return changed(answer, matches=tuple(moved))


@defect("TOOL-6", caught_by=_ONCE)
class SearchTellsBytes(_Searched):
    """A search tells its offsets in bytes of UTF-8."""

    async def searched(
        self, request: SearchToolResultRequest, text: str
    ) -> SearchToolResultResponse:
        answer = await self.good.search_tool_result(request)
        moved = [changed(m, offset=len(text[: m.offset].encode())) for m in answer.matches]
        return changed(answer, matches=tuple(moved))


@defect("TOOL-6", caught_by=_ONCE)
class SearchTellsALineTwice(_Searched):
    """A line with two matches is given twice."""

    async def searched(
        self, request: SearchToolResultRequest, text: str
    ) -> SearchToolResultResponse:
        answer = await self.good.search_tool_result(request)
        matches: list[TextMatch] = []
        for match in answer.matches:
            times = 1 if request.ignore_case else max(1, match.text.count(request.pattern))
            matches += [match] * times
        return changed(answer, matches=tuple(matches[: request.limit]))


@defect("TOOL-6", caught_by=_ONCE)
class LineOffsetIsTheMatch(_Searched):
    """The offset of the line is that of the match."""

    async def searched(
        self, request: SearchToolResultRequest, text: str
    ) -> SearchToolResultResponse:
        answer = await self.good.search_tool_result(request)
        moved = [changed(match, line_offset=match.offset) for match in answer.matches]
        return changed(answer, matches=tuple(moved))


@defect("TOOL-6", caught_by=_LONG)
class LongLinesAreWhole(_Searched):
    """A long line is given whole."""

    async def searched(
        self, request: SearchToolResultRequest, text: str
    ) -> SearchToolResultResponse:
        answer = await self.good.search_tool_result(request)
        lines = [text[match.line_offset :].partition("\n")[0] for match in answer.matches]
        pairs = zip(answer.matches, lines, strict=True)
        return changed(answer, matches=tuple(changed(match, text=line) for match, line in pairs))


@defect("TOOL-6", caught_by=_LONG)
class LongLinesAreCutAtTheStart(_Searched):
    """Of a long line the first 500 characters are given, wherever the match is."""

    async def searched(
        self, request: SearchToolResultRequest, text: str
    ) -> SearchToolResultResponse:
        answer = await self.good.search_tool_result(request)
        lines = [text[match.line_offset :].partition("\n")[0][:500] for match in answer.matches]
        pairs = zip(answer.matches, lines, strict=True)
        return changed(answer, matches=tuple(changed(match, text=line) for match, line in pairs))
