"""Large tool results go to the store, and to the model their beginning and a ref."""

import functools
import inspect
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, ParamSpec, TypeVar, cast

from pydantic import Field

from stores_adapters.tools.tool import Tool
from stores_core.backend import Backend
from stores_core.codec import encode_checked
from stores_core.errors import InvalidRequestError
from stores_core.shape import Shape
from stores_core.tool_results import ToolResult
from stores_core.tool_text import text_of

P = ParamSpec("P")
R = TypeVar("R")

THRESHOLD = 4_096
"""Bytes of a result from which on it is kept apart."""

PREVIEW = 400
"""Characters of its text that the model still sees."""


class Offload:
    """Keeps large results of tools in a backend, and gives the model stubs of them.

    A result of ``threshold`` bytes or more is kept apart: those of a text in UTF-8, else those of
    its JSON. ``thresholds`` names other numbers for single tools, or None for one whose results
    always stay. What is no JSON stays inline, and so do errors: a result with ``is_error`` as well
    as what is raised.
    ``labels`` go with every result that is kept, beside the name of its tool as ``tool``.
    """

    def __init__(
        self,
        backend: Backend,
        *,
        threshold: int = THRESHOLD,
        thresholds: Mapping[str, int | None] | None = None,
        preview: int = PREVIEW,
        labels: Mapping[str, str] | None = None,
    ) -> None:
        self._results = backend.tool_results
        self._threshold = threshold
        self._thresholds = dict(thresholds or {})
        self._preview = preview
        self._labels = dict(labels or {})

    def wrap(
        self, tool: Callable[P, Awaitable[R] | R], *, name: str = ""
    ) -> Callable[P, Awaitable[R | str | ToolResult]]:
        """The tool, whose large results are replaced by stubs. It may be asynchronous or not.

        ``name`` is the function's own where it is left out.
        """
        called = name or getattr(tool, "__name__", "tool")

        @functools.wraps(tool)
        async def wrapped(*args: P.args, **kwargs: P.kwargs) -> R | str | ToolResult:
            result = tool(*args, **kwargs)
            given = await result if inspect.isawaitable(result) else result
            return await self.stub(called, cast(R, given))

        return wrapped

    async def stub(self, tool: str, result: R, *, ref: str = "") -> R | str | ToolResult:
        """What goes to the model: the result as it is, or its stub once it is kept.

        The stub of a ToolResult is a ToolResult, with the ref in its ``meta`` as ``ref``; that of
        anything else, a text or a JSON value, is a text. An empty ``ref`` is generated.
        Raises what putting a result raises.
        """
        kept = _kept(result)
        threshold = self._thresholds.get(tool, self._threshold)
        if kept.is_error or threshold is None or _size(result, kept) < threshold:
            return result
        put = await self._results.put_tool_result(
            ref=ref, result=kept, labels={**self._labels, "tool": tool}
        )
        text = self._told(text_of(kept), put.ref)
        if isinstance(result, ToolResult):
            return ToolResult(content=({"type": "text", "text": text},), meta={"ref": put.ref})
        return text

    def tools(self) -> list[Tool[Any]]:
        """The two functions by which the model reads on: read_tool_result, search_tool_result."""
        return [
            Tool(
                "read_tool_result",
                "Read a part of a large tool result that was kept under a ref.",
                ReadArguments,
                self._read,
            ),
            Tool(
                "search_tool_result",
                "Find the lines of a large tool result that contain a text, with their offsets.",
                SearchArguments,
                self._search,
            ),
        ]

    def _told(self, text: str, ref: str) -> str:
        shown = text[: self._preview]
        return (
            f"[A result of {len(text):,} characters, kept under the ref {ref!r}. Its first "
            f"{len(shown):,} follow; read_tool_result and search_tool_result give the rest.]\n"
            f"{shown}"
        )

    async def _read(self, arguments: "ReadArguments") -> str:
        answer = await self._results.read_tool_result(**dict(arguments))
        if not answer.found:
            return GONE
        end = arguments.offset + len(answer.text)
        return (
            f"[characters {arguments.offset:,} to {end:,} of {answer.characters:,}]\n{answer.text}"
        )

    async def _search(self, arguments: "SearchArguments") -> str:
        answer = await self._results.search_tool_result(**dict(arguments))
        if not answer.found:
            return GONE
        lines = [f"{match.offset}: {match.text}" for match in answer.matches]
        if answer.next < answer.characters:
            lines.append(f"[more may follow: search on with start={answer.next}]")
        return "\n".join(lines) or "[no line contains it]"


GONE = "[no result is kept under this ref, or no longer; call the tool again]"


class ReadArguments(Shape):
    ref: str = Field(description="the ref that stands in place of the result")
    offset: int = Field(0, ge=0, description="the first character wanted")
    limit: int = Field(4_000, ge=1, description="how many characters at most")


class SearchArguments(Shape):
    ref: str = Field(description="the ref that stands in place of the result")
    pattern: str = Field(min_length=1, description="the text to find, taken literally")
    ignore_case: bool = Field(False, description="whether upper and lower case are the same")
    start: int = Field(0, ge=0, description="the character from which on to search")
    limit: int = Field(20, ge=1, description="how many lines at most")


def _kept(result: object) -> ToolResult:
    if isinstance(result, ToolResult):
        return result
    if isinstance(result, str):
        return ToolResult(content=({"type": "text", "text": result},))
    return ToolResult(structured_content=result)


def _size(result: object, kept: ToolResult) -> int:
    """In bytes; -1 for what no store could give back equal."""
    try:
        _, encoded = encode_checked(kept)
    except InvalidRequestError:
        return -1
    return len(result.encode()) if isinstance(result, str) else len(encoded)
