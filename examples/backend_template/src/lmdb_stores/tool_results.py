"""The store of tool results. Texts are kept in pieces, so that a slice reads only its own."""

from typing import Any

from stores_core import (
    CorruptRecordError,
    DeleteToolResultRequest,
    DeleteToolResultResponse,
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
from stores_core.values import from_micros, micros

from lmdb_stores.listing import Order, filters_of
from lmdb_stores.storage import Storage, Transaction, name_key

PIECE = 65_536
"""Characters of text in one record."""


class LmdbToolResultStore:
    """A ToolResultStore. Requests come from the front: valid, complete, with limits filled in."""

    def __init__(self, storage: Storage, tenant: bytes) -> None:
        self._storage, self._tenant = storage, tenant
        self._order = Order("result_order", tenant)

    def _info(self, t: Transaction, ref: str) -> ToolResultInfo | None:
        held: Any = t.record("results", self._tenant + name_key(ref), "tool_results", ref)
        return held and ToolResultInfo(**held | {"created_at": from_micros(held["created_at"])})

    def _text(self, t: Transaction, ref: str, begin: int, end: int) -> str:
        """The text from the piece that holds ``begin`` to the one that holds ``end``."""
        home, parts = self._tenant + name_key(ref), list[str]()
        for number, piece in t.walk("texts", home, (begin // PIECE).to_bytes(8)):
            if int.from_bytes(number) * PIECE >= end:
                break
            parts.append(piece.decode())
        return "".join(parts)

    def _remove(self, t: Transaction, ref: str) -> bool:
        info, home = self._info(t, ref), self._tenant + name_key(ref)
        if info is None:
            return False
        self._order.remove(t, micros(info.created_at), ref, filters_of(info.labels))
        t.delete("results", home)
        t.delete("rests", home)
        t.clear("texts", home)
        return True

    async def put_tool_result(self, request: PutToolResultRequest) -> PutToolResultResponse:
        text, rest = split(request.result)
        info = {
            "ref": request.ref,
            "created_at": micros(request.at),
            "labels": dict(request.labels),
            "bytes": len(encode(request.result)),
            "characters": len(text),
        }

        def put(t: Transaction) -> None:
            self._remove(t, request.ref)
            home = self._tenant + name_key(request.ref)
            t.put_record("results", home, info)
            t.put("rests", home, rest)
            for number, begin in enumerate(range(0, len(text), PIECE)):
                piece = text[begin : begin + PIECE].encode()
                t.put("texts", home + number.to_bytes(8), piece)
            self._order.add(t, micros(request.at), request.ref, filters_of(request.labels))

        await self._storage.write(put)
        return PutToolResultResponse(ref=request.ref)

    async def get_tool_result(self, request: GetToolResultRequest) -> GetToolResultResponse:
        def get(t: Transaction) -> tuple[str, bytes] | None:
            rest = t.get("rests", self._tenant + name_key(request.ref))
            info = self._info(t, request.ref)
            if info is None or rest is None:
                return None
            return self._text(t, request.ref, 0, info.characters), rest

        held = await self._storage.read(get)
        if held is None:
            return GetToolResultResponse(found=False)
        return GetToolResultResponse(result=join(*held, ref=request.ref), found=True)

    async def read_tool_result(self, request: ReadToolResultRequest) -> ReadToolResultResponse:
        end = request.offset + request.limit

        def read(t: Transaction) -> tuple[str, int] | None:
            info = self._info(t, request.ref)
            return info and (self._text(t, request.ref, request.offset, end), info.characters)

        held = await self._storage.read(read)
        if held is None:
            return ReadToolResultResponse(found=False)
        text = read_slice(held[0], request.offset % PIECE, request.limit)
        return ReadToolResultResponse(text=text, characters=held[1], found=True)

    async def search_tool_result(
        self, request: SearchToolResultRequest
    ) -> SearchToolResultResponse:
        def whole(t: Transaction) -> str | None:
            info = self._info(t, request.ref)
            return None if info is None else self._text(t, request.ref, 0, info.characters)

        text = await self._storage.read(whole)
        if text is None:
            return SearchToolResultResponse(found=False)
        matches, following = search(
            text,
            request.pattern,
            ignore_case=request.ignore_case,
            regex=request.regex,
            start=request.start,
            limit=request.limit,
        )
        return SearchToolResultResponse(
            matches=matches, next=following, characters=len(text), found=True
        )

    async def list_tool_results(self, request: ListToolResultsRequest) -> ListToolResultsResponse:
        def page(t: Transaction) -> ListToolResultsResponse:
            def fits(ref: str) -> bool:
                return request.labels.items() <= self._found(t, ref).labels.items()

            filters = filters_of(request.labels)
            keep = fits if filters else None
            refs, following = self._order.page(t, request.cursor, request.limit, filters, keep)
            infos = [self._found(t, ref) for ref in refs]
            return ListToolResultsResponse(infos=infos, next_cursor=following)

        return await self._storage.read(page)

    def _found(self, t: Transaction, ref: str) -> ToolResultInfo:
        info = self._info(t, ref)
        if info is None:
            raise CorruptRecordError(store="tool_results", id=ref)
        return info

    async def delete_tool_result(
        self, request: DeleteToolResultRequest
    ) -> DeleteToolResultResponse:
        deleted = await self._storage.write(lambda t: self._remove(t, request.ref))
        return DeleteToolResultResponse(deleted=deleted)
