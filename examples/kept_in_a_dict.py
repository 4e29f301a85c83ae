"""A backend of one store, whole: tool results kept in a dict.

From this folder: ``python -m conformance_tests kept_in_a_dict:open_backend``. The other stores are
left out, so the verdict is about tool results alone. A dict needs no locks and loses everything
when the process ends; the rest is what any backend does.
"""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from stores_core import (
    Backend,
    DeleteToolResultRequest,
    DeleteToolResultResponse,
    Durability,
    GetToolResultRequest,
    GetToolResultResponse,
    ListToolResultsRequest,
    ListToolResultsResponse,
    PutToolResultRequest,
    PutToolResultResponse,
    ReadToolResultRequest,
    ReadToolResultResponse,
    SearchToolResultRequest,
    SearchToolResultResponse,
    ToolResultInfo,
)
from stores_core.codec import encode
from stores_core.tool_text import join, read_slice, search, split
from stores_core.values import micros


@dataclass(frozen=True)
class Kept:
    info: ToolResultInfo
    text: str
    rest: bytes

    @property
    def place(self) -> tuple[int, str]:
        """Newest first, then by ref."""
        return -micros(self.info.created_at), self.info.ref


class DictToolResultStore:
    """A ToolResultStore. Requests come from the front: valid, complete, with limits filled in."""

    def __init__(self, results: dict[str, Kept]) -> None:
        self._results = results

    async def put_tool_result(self, request: PutToolResultRequest) -> PutToolResultResponse:
        text, rest = split(request.result)
        info = ToolResultInfo(
            ref=request.ref,
            created_at=request.at,
            labels=dict(request.labels),
            bytes=len(encode(request.result)),
            characters=len(text),
        )
        self._results[request.ref] = Kept(info, text, rest)
        return PutToolResultResponse(ref=request.ref)

    async def get_tool_result(self, request: GetToolResultRequest) -> GetToolResultResponse:
        kept = self._results.get(request.ref)
        if kept is None:
            return GetToolResultResponse(found=False)
        # Decoded anew each time, so that what a caller gets is the caller's.
        result = join(kept.text, kept.rest, ref=request.ref)
        return GetToolResultResponse(result=result, found=True)

    async def read_tool_result(self, request: ReadToolResultRequest) -> ReadToolResultResponse:
        kept = self._results.get(request.ref)
        if kept is None:
            return ReadToolResultResponse(found=False)
        text = read_slice(kept.text, request.offset, request.limit)
        return ReadToolResultResponse(text=text, characters=kept.info.characters, found=True)

    async def search_tool_result(
        self, request: SearchToolResultRequest
    ) -> SearchToolResultResponse:
        kept = self._results.get(request.ref)
        if kept is None:
            return SearchToolResultResponse(found=False)
        matches, following = search(
            kept.text,
            request.pattern,
            ignore_case=request.ignore_case,
            regex=request.regex,
            start=request.start,
            limit=request.limit,
        )
        return SearchToolResultResponse(
            matches=matches, next=following, characters=kept.info.characters, found=True
        )

    async def list_tool_results(self, request: ListToolResultsRequest) -> ListToolResultsResponse:
        fitting = sorted(
            kept.place
            for kept in self._results.values()
            if request.labels.items() <= kept.info.labels.items()
        )
        if request.cursor:
            moment, _, ref = request.cursor.partition(" ")
            fitting = [place for place in fitting if place > (int(moment), ref)]
        page = fitting[: request.limit]
        return ListToolResultsResponse(
            infos=[self._results[ref].info.model_copy(deep=True) for _, ref in page],
            next_cursor="{} {}".format(*page[-1]) if len(fitting) > len(page) else "",
        )

    async def delete_tool_result(
        self, request: DeleteToolResultRequest
    ) -> DeleteToolResultResponse:
        return DeleteToolResultResponse(deleted=self._results.pop(request.ref, None) is not None)


_tenants: dict[str, dict[str, Kept]] = {}


@asynccontextmanager
async def open_backend(*, tenant: str = "") -> AsyncGenerator[Backend]:
    yield Backend(
        name="dict",
        tool_results=DictToolResultStore(_tenants.setdefault(tenant, {})),
        durability=Durability.NONE,
        identity=f"dict of {tenant}",
        loop_bound=False,
    )
