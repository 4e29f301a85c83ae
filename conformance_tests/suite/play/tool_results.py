"""Steps on tool results."""

from collections.abc import Sequence
from typing import Any

from conformance_tests import samples
from conformance_tests.compare import assert_same
from conformance_tests.suite.play.stage import Seat, Stage, sorted_labels
from conformance_tests.suite.play.walks import Walk, whole
from stores_core import ToolResult, ToolResultInfo
from stores_core.tool_results import (
    DeleteToolResultRequest,
    GetToolResultRequest,
    ListToolResultsRequest,
    PutToolResultRequest,
    ReadToolResultRequest,
    SearchToolResultRequest,
)

RESULTS = {sample.name: sample.value for sample in samples.tool_results}
TEXTS = {sample.name: sample.value for sample in samples.texts}
LINE = 500


class ResultSteps:
    """Each method is a step. A ref is named by a sample of ids or as it is.

    A result is named by its sample; any other name is the text of one, or names a sample of texts.
    """

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._used: set[str] = set()
        stage.parts["tool_results"] = self

    def _ref(self, seat: Seat, name: str) -> str:
        self._used.add(name)
        return self._stage.real(name, seat.tenant)

    async def put(
        self,
        *,
        client: int = 0,
        ref: str = "",
        result: str = "nothing-given",
        labels: dict[str, str] | None = None,
        name: str = "",
    ) -> None:
        """Put a result; without a ref one is generated, which ``name`` stands for then."""
        seat, now = self._stage.seat(client), self._stage.clock()
        results = seat.tenant.world.tool_results
        content = [{"type": "text", "text": TEXTS.get(result, result)}]
        request = PutToolResultRequest(
            ref=self._ref(seat, ref),
            result=RESULTS.get(result) or ToolResult(content=content),
            labels={**(labels or {}), **self._stage.mark},
        )

        def oracle(answer: Any) -> Any:
            told = request.ref or self._stage.named(seat, name, answer and answer.ref)
            assert request.ref or told not in results.kept, f"the generated ref {told!r} was taken"
            return results.put_tool_result(request.model_copy(update={"ref": told}), now)

        await self._stage.ask(seat.backend.tool_results.put_tool_result, request, oracle)

    async def get(self, *, client: int = 0, ref: str) -> None:
        """Get a result."""
        seat = self._stage.seat(client)
        request = GetToolResultRequest(ref=self._ref(seat, ref))
        results = seat.tenant.world.tool_results
        await self._stage.ask(
            seat.backend.tool_results.get_tool_result,
            request,
            lambda _: results.get_tool_result(request),
        )

    async def read(self, *, client: int = 0, ref: str, offset: int = 0, limit: int = 0) -> None:
        """Read a slice of the text."""
        seat = self._stage.seat(client)
        request = ReadToolResultRequest(ref=self._ref(seat, ref), offset=offset, limit=limit)
        results = seat.tenant.world.tool_results
        await self._stage.ask(
            seat.backend.tool_results.read_tool_result,
            request,
            lambda _: results.read_tool_result(request),
        )

    async def search(
        self,
        *,
        client: int = 0,
        ref: str,
        pattern: str,
        ignore_case: bool = False,
        start: int = 0,
        limit: int = 0,
    ) -> None:
        """Search the text, and on from where the answer says, to the end."""
        seat = self._stage.seat(client)
        results = seat.tenant.world.tool_results
        request = SearchToolResultRequest(
            ref=self._ref(seat, ref),
            pattern=pattern,
            ignore_case=ignore_case,
            start=start,
            limit=limit,
        )
        read = ReadToolResultRequest(ref=request.ref, limit=1_000_000)
        held = results.read_tool_result(read)
        expected = results.search_tool_result(request)
        most = limit or 100
        while True:
            answer = await seat.backend.tool_results.search_tool_result(request)
            told = (answer.found, answer.characters)
            assert told == (held.found, held.characters), f"a search says {told}"
            now, expected = expected[:most], expected[most:]
            spots = [(match.offset, match.line_offset) for match in answer.matches]
            wanted = [(begin, line) for begin, _, line in now]
            assert spots == wanted, f"matches at {spots}, where they are at {wanted}"
            for match, (begin, end, line) in zip(answer.matches, now, strict=True):
                _check_line(held.text, match.text, (begin, end), line)
            if answer.next == held.characters:
                assert not expected, f"all was searched, they say, and {len(expected)} are missing"
                return
            assert len(now) == most, "it goes on, with fewer matches than the limit"
            last, following = now[-1][0], expected[0][0] if expected else held.characters
            assert last < answer.next <= following, f"it goes on at {answer.next}"
            request = request.model_copy(update={"start": answer.next})

    async def list(
        self,
        *,
        client: int = 0,
        limit: int = 1,
        labels: dict[str, str] | None = None,
        pages: int = 0,
    ) -> None:
        """List by pages of ``limit``: to the end, or so many ``pages`` and on with `list_on`."""
        seat = self._stage.seat(client)
        results = seat.tenant.world.tool_results
        request = ListToolResultsRequest(limit=limit, labels={**(labels or {}), **self._stage.mark})

        async def fetch(cursor: str) -> tuple[Sequence[ToolResultInfo], str]:
            asked = request.model_copy(update={"cursor": cursor})
            answer = await seat.backend.tool_results.list_tool_results(asked)
            return [sorted_labels(info) for info in answer.infos], answer.next_cursor

        def standing() -> dict[str, int]:
            infos = results.list_tool_results(request)
            return {info.ref: results.kept[info.ref].generation for info in infos}

        if pages:
            seat.tenant.walks["list_tool_results"] = Walk(fetch, standing)
            await self.list_on(client=client, pages=pages)
        else:
            found = await whole(fetch, limit, full=not request.labels)
            expected = results.list_tool_results(request)
            assert_same(found, expected, "the listing of tool results")

    async def list_on(self, *, client: int = 0, pages: int = 1) -> None:
        """So many further pages of the listing that is under way."""
        walks = self._stage.seat(client).tenant.walks
        for _ in range(pages):
            walk = walks.get("list_tool_results")
            if walk is not None and await walk.go_on(lambda info: info.ref):
                del walks["list_tool_results"]

    async def delete(self, *, client: int = 0, ref: str) -> None:
        """Delete a result."""
        seat = self._stage.seat(client)
        request = DeleteToolResultRequest(ref=self._ref(seat, ref))
        results = seat.tenant.world.tool_results
        await self._stage.ask(
            seat.backend.tool_results.delete_tool_result,
            request,
            lambda _: results.delete_tool_result(request),
        )

    async def compare(self, seat: Seat) -> None:
        """Result by result, whole and as text, by listing, and what is gone."""
        client = self._stage.seats.index(seat)
        for name in sorted(self._used - {""}):
            await self.get(client=client, ref=name)
            await self.read(client=client, ref=name)
        await self.list(client=client, limit=3)


def _check_line(text: str, shown: str, match: tuple[int, int], line: int) -> None:
    """The whole line if it is short, else a part of it with the match in it."""
    begin, end = match
    close = text.find("\n", max(begin, end - 1))
    whole_line = text[line : close if close >= 0 else len(text)]
    if len(whole_line) <= LINE:
        assert_same(shown, whole_line, "the line of a match")
    else:
        assert text[begin:end][:LINE] in shown, "the line is shown without its match"
        assert shown in whole_line, "another line is shown"
        assert len(shown) <= LINE, f"{len(shown)} characters of a line are shown"
