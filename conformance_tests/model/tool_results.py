"""Tool results as a plain dict."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, cast

from stores_core.codec import canonical
from stores_core.tool_results import (
    DeleteToolResultRequest,
    DeleteToolResultResponse,
    GetToolResultRequest,
    GetToolResultResponse,
    ListToolResultsRequest,
    PutToolResultRequest,
    PutToolResultResponse,
    ReadToolResultRequest,
    ReadToolResultResponse,
    SearchToolResultRequest,
    ToolResult,
    ToolResultInfo,
)

SLICE, MOST = 4_000, 1_000_000


@dataclass
class Kept:
    """A result. ``generation`` tells it from others that bore its ref."""

    result: ToolResult
    created_at: datetime
    labels: dict[str, str]
    generation: int

    def info(self, ref: str) -> ToolResultInfo:
        return ToolResultInfo(
            ref=ref,
            created_at=self.created_at,
            labels=dict(sorted(self.labels.items())),
            bytes=len(canonical(self.result).encode()),
            characters=len(text_of(self.result)),
        )


class ToolResults:
    """Results by ref. They have no end here: programs open no storage with a retention."""

    def __init__(self) -> None:
        self.kept: dict[str, Kept] = {}
        self._generations = 0

    def put_tool_result(self, request: PutToolResultRequest, at: datetime) -> PutToolResultResponse:
        """``ref`` is not empty: a generated one is only known from the answer."""
        self._generations += 1
        labels = dict(request.labels)
        self.kept[request.ref] = Kept(request.result, at, labels, self._generations)
        return PutToolResultResponse(ref=request.ref)

    def get_tool_result(self, request: GetToolResultRequest) -> GetToolResultResponse:
        kept = self.kept.get(request.ref)
        return GetToolResultResponse(result=kept.result if kept else None, found=kept is not None)

    def read_tool_result(self, request: ReadToolResultRequest) -> ReadToolResultResponse:
        kept = self.kept.get(request.ref)
        if kept is None:
            return ReadToolResultResponse(found=False)
        text, start = text_of(kept.result), request.offset
        end = start + min(request.limit or SLICE, MOST)
        return ReadToolResultResponse(text=text[start:end], characters=len(text), found=True)

    def search_tool_result(self, request: SearchToolResultRequest) -> list[tuple[int, int, int]]:
        """All matches from ``start`` on, one for each line: begin, end, and begin of the line."""
        kept = self.kept.get(request.ref)
        text = text_of(kept.result) if kept else ""
        found: list[tuple[int, int, int]] = []
        begin = request.start
        while begin < len(text):
            end = _end_of_match(text, begin, request.pattern, request.ignore_case)
            if end is None:
                begin += 1
                continue
            found.append((begin, end, text.rfind("\n", 0, begin) + 1))
            next_line = text.find("\n", begin) + 1
            begin = next_line or len(text)
        return found

    def list_tool_results(self, request: ListToolResultsRequest) -> list[ToolResultInfo]:
        """All that have the labels, newest first, then by ref."""
        infos = [
            kept.info(ref)
            for ref, kept in sorted(self.kept.items())
            if all(kept.labels.get(key) == value for key, value in request.labels.items())
        ]
        return sorted(infos, key=lambda info: info.created_at, reverse=True)

    def delete_tool_result(self, request: DeleteToolResultRequest) -> DeleteToolResultResponse:
        return DeleteToolResultResponse(deleted=self.kept.pop(request.ref, None) is not None)


def text_of(result: ToolResult) -> str:
    """The text that slices and searches are of."""
    texts = [text for item in result.content or () if (text := _text_in(item))]
    if texts:
        return "\n".join(texts)
    return "" if result.structured_content is None else canonical(result.structured_content)


def _text_in(item: object) -> str:
    if type(item) is not dict:
        return ""
    held = cast("dict[str, Any]", item)
    text = held.get("text")
    return text if held.get("type") == "text" and type(text) is str else ""


def _end_of_match(text: str, begin: int, pattern: str, ignore_case: bool) -> int | None:
    """Where a match that begins here ends; characters are compared whole."""
    if not ignore_case:
        return begin + len(pattern) if text.startswith(pattern, begin) else None
    wanted, folded, end = pattern.casefold(), "", begin
    while len(folded) < len(wanted) and end < len(text):
        folded += text[end].casefold()
        end += 1
    return end if folded == wanted else None
