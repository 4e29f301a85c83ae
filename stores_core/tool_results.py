"""Tool results: full outputs kept out of the conversation, under a ref."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Protocol

from pydantic import AwareDatetime, Field

from stores_core.shape import AsTuple, Request, Response, Shape, Value, WriteRequest
from stores_core.values import Count, Id, IdOrEmpty, Labels, Text


class ToolResult(Value):
    """The full output of one tool call, in the form of the Model Context Protocol.

    ``content`` holds JSON items of any type, as ``{"type": "text", "text": "…"}``; binary ones
    carry base64 text. Any further fields are kept.
    """

    content: Annotated[Sequence[Any], AsTuple()] | None = ()
    structured_content: Any = None
    is_error: bool | None = False
    meta: Any = None


class ToolResultInfo(Shape):
    """What a listing shows of a result: ``bytes`` of its JSON, ``characters`` of its text."""

    ref: str
    created_at: AwareDatetime
    labels: Mapping[str, str] = Field(default_factory=dict[str, str])
    bytes: int
    characters: int


class PutToolResultRequest(WriteRequest):
    """``ref`` empty: one that nobody can guess is generated."""

    ref: IdOrEmpty = ""
    result: ToolResult
    labels: Labels = Field(default_factory=dict[str, str])


class PutToolResultResponse(Response):
    ref: str


class GetToolResultRequest(Request):
    ref: Id


class GetToolResultResponse(Response):
    result: ToolResult | None = None
    found: bool


class ReadToolResultRequest(Request):
    """``offset`` and ``limit`` count code points; ``limit`` 0 is 4,000, at most 1,000,000."""

    ref: Id
    offset: Count = 0
    limit: Count = 0


class ReadToolResultResponse(Response):
    """``characters`` is the length of the whole text."""

    text: str = ""
    characters: int = 0
    found: bool


class SearchToolResultRequest(Request):
    """``start`` is the code point to search from, ``limit`` caps the matches: 0 is 100."""

    ref: Id
    pattern: Annotated[Text, Field(min_length=1)]
    ignore_case: bool = False
    regex: bool = False
    start: Count = 0
    limit: Count = 0


class TextMatch(Shape):
    """The first match in one line: its ``offset``, the line's, and the line cut around it."""

    offset: int
    line_offset: int
    text: str


class SearchToolResultResponse(Response):
    """``next`` is where to search on; it equals ``characters`` when all was searched."""

    matches: Annotated[Sequence[TextMatch], AsTuple()] = ()
    next: int = 0
    characters: int = 0
    found: bool


class ListToolResultsRequest(Request):
    """``limit`` 0 is 50; above 1,000 it counts as 1,000."""

    labels: Labels = Field(default_factory=dict[str, str])
    cursor: str = ""
    limit: Count = 0


class ListToolResultsResponse(Response):
    infos: Annotated[Sequence[ToolResultInfo], AsTuple()] = ()
    next_cursor: str = ""


class DeleteToolResultRequest(WriteRequest):
    ref: Id


class DeleteToolResultResponse(Response):
    deleted: bool


class ToolResultStore(Protocol):
    """Keeps tool results under refs. Text, slices and search are core's ``tool_text``."""

    async def put_tool_result(self, request: PutToolResultRequest, /) -> PutToolResultResponse:
        """Keep a result.

        TOOL-1 What was put comes back equal, binary content items and structure included, at 10
            bytes and at 30 MB.
        TOOL-3 A ref that is put again is replaced whole. A reader sees the old result or the new
            one, never a mix or a part, also across a crash.
        TOOL-5 Retention (age, count, bytes) is set when the backend is opened and is worked off
            by later puts and by sweep. It is no part of what a reader may expect: readers cope
            with found=False. Runs and notes have no expiry of their own.
        """
        ...

    async def get_tool_result(self, request: GetToolResultRequest, /) -> GetToolResultResponse:
        """The whole result.

        TOOL-2 An unknown, evicted, expired or deleted ref answers found=False.
        """
        ...

    async def read_tool_result(self, request: ReadToolResultRequest, /) -> ReadToolResultResponse:
        """A slice of the result's text.

        TOOL-4 The text of a result is its non-empty text items joined by one newline; without
            any, its structured content as compact JSON; else it is empty. A slice counts code
            points of that text; an offset past the end gives "" and the true characters; a limit
            of 0 is 4,000 and the most is 1,000,000. Above 1 MB a slice costs the slice, and
            keeping the text does not double the storage.
        """
        ...

    async def search_tool_result(
        self, request: SearchToolResultRequest, /
    ) -> SearchToolResultResponse:
        """The lines of the text that match.

        TOOL-6 Every character of the pattern is literal; ignore_case compares by Unicode case
            folding. regex=True needs a linear-time engine, an extra, and is refused without it.
            One match per line is given, the line cut to 500 characters around it.
        """
        ...

    async def list_tool_results(
        self, request: ListToolResultsRequest, /
    ) -> ListToolResultsResponse:
        """A page of infos, newest first, then by ref ascending; cursors as in list_runs.

        TOOL-7 Following the cursors gives every result that was there throughout exactly once;
            labels filter by equality on all given.
        """
        ...

    async def delete_tool_result(
        self, request: DeleteToolResultRequest, /
    ) -> DeleteToolResultResponse:
        """Remove a result; deleted says whether it was there."""
        ...
