"""What is given up by itself: too late, too early, or the wrong end of it."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from conformance_tests.broken.defect import (
    BrokenMemory,
    BrokenToolResults,
    changed,
    defect,
)
from conformance_tests.broken.reading import Opened, infos_of, notes_of
from stores_core.memory import (
    DeleteMemoryRequest,
    GetMemoryRequest,
    GetMemoryResponse,
    PutMemoryRequest,
    PutMemoryResponse,
)
from stores_core.tool_results import (
    DeleteToolResultRequest,
    PutToolResultRequest,
    PutToolResultResponse,
    ToolResultInfo,
)

_CAP = "test_retention.py::test_a_new_key_beyond_the_cap_drops_the_oldest_others"
_COUNT = "test_retention.py::test_beyond_the_count_the_oldest_results_go"
_BYTES = "test_retention.py::test_beyond_the_bytes_the_oldest_results_go"
_AGE = "test_retention.py::test_beyond_the_age_results_go_and_younger_ones_stay"


class _Option:
    """Reads an option as something else."""

    option = ""

    @classmethod
    def read(cls, number: Any) -> Any:
        raise NotImplementedError

    @classmethod
    def opened_with(cls, values: dict[str, Any]) -> dict[str, Any]:
        given = values.get(cls.option)
        return values | {cls.option: cls.read(given)} if given else values


@defect("MEM-11", caught_by=_CAP)
class CapLeavesOneMore(_Option, BrokenMemory):
    """A namespace keeps one note more than its cap."""

    option = "notes_per_namespace"

    @classmethod
    def read(cls, number: Any) -> Any:
        return number + 1


@defect("TOOL-5", caught_by=_COUNT)
class CountLeavesOneMore(_Option, BrokenToolResults):
    """One result more is kept than the count allows."""

    option = "result_max_count"

    @classmethod
    def read(cls, number: Any) -> Any:
        return number + 1


@defect("TOOL-5", caught_by=_BYTES)
class BytesAreKib(_Option, BrokenToolResults):
    """The most bytes of results are taken for kibibytes."""

    option = "result_max_bytes"

    @classmethod
    def read(cls, number: Any) -> Any:
        return number * 1024


@defect("TOOL-5", caught_by=_AGE)
class AgeIsInMinutes(_Option, BrokenToolResults):
    """The age of results is counted in minutes."""

    option = "result_max_age"

    @classmethod
    def read(cls, number: Any) -> Any:
        return number * 60.0


@defect("TOOL-5", caught_by=_AGE)
class AgeIsInMilliseconds(_Option, BrokenToolResults):
    """The age of results is counted in milliseconds."""

    option = "result_max_age"

    @classmethod
    def read(cls, number: Any) -> Any:
        return number / 1000


class _Capped(Opened, BrokenMemory):
    """Keeps to the cap in a way of its own, after each put of a note."""

    @classmethod
    def opened_with(cls, values: dict[str, Any]) -> dict[str, Any]:
        opened = super().opened_with(values)
        return {name: value for name, value in opened.items() if name != "notes_per_namespace"}

    async def surplus(self, request: PutMemoryRequest, keys: list[str], more: int) -> list[str]:
        raise NotImplementedError

    async def put_memory(self, request: PutMemoryRequest) -> PutMemoryResponse:
        answer = await self.good.put_memory(request)
        cap: int = self.values.get("notes_per_namespace", 0)
        keys = [one.item.key for one in await notes_of(self.good, request.namespace)] if cap else []
        if len(keys) > cap > 0:
            for key in await self.surplus(request, keys, len(keys) - cap):
                delete = DeleteMemoryRequest(key=key, namespace=request.namespace)
                await self.good.delete_memory(changed(delete, at=request.at))
        return answer


@defect("MEM-11", caught_by=_CAP)
class CapDropsTheNewest(_Capped):
    """A new key beyond the cap drops the newest of the others."""

    async def surplus(self, request: PutMemoryRequest, keys: list[str], more: int) -> list[str]:
        return [key for key in keys if key != request.item.key][-more:]


@defect("MEM-11", caught_by=_CAP)
class CapDropsTheNewNote(_Capped):
    """A new note that is older than all others is dropped at once."""

    async def surplus(self, request: PutMemoryRequest, keys: list[str], more: int) -> list[str]:
        return keys[:more]


class _Kept(Opened, BrokenToolResults):
    """Keeps to the count of results in a way of its own, after each put."""

    @classmethod
    def opened_with(cls, values: dict[str, Any]) -> dict[str, Any]:
        opened = super().opened_with(values)
        return {name: value for name, value in opened.items() if name != "result_max_count"}

    def surplus(self, infos: list[ToolResultInfo], most: int) -> Sequence[ToolResultInfo]:
        raise NotImplementedError

    async def put_tool_result(self, request: PutToolResultRequest) -> PutToolResultResponse:
        answer = await self.good.put_tool_result(request)
        most: int = self.values.get("result_max_count", 0)
        for info in self.surplus(await infos_of(self.good), most) if most else ():
            delete = DeleteToolResultRequest(ref=info.ref)
            await self.good.delete_tool_result(changed(delete, at=request.at))
        return answer


@defect("TOOL-5", "TOOL-2", caught_by=_COUNT)
class RetentionDropsTheNewest(_Kept):
    """Beyond the count the newest of the other results go."""

    def surplus(self, infos: list[ToolResultInfo], most: int) -> Sequence[ToolResultInfo]:
        return infos[1 : 1 + max(0, len(infos) - most)]


@defect("TOOL-5", caught_by=_COUNT)
class RetentionDropsAllButTheLast(_Kept):
    """When the count is exceeded all older results go."""

    def surplus(self, infos: list[ToolResultInfo], most: int) -> Sequence[ToolResultInfo]:
        return infos[1:] if len(infos) > most else ()


@defect("TOOL-5", caught_by="test_retention.py::test_runs_and_notes_never_expire")
class NotesExpireAsResultsDo(Opened, BrokenMemory):
    """The age of results holds for notes, too."""

    async def get_memory(self, request: GetMemoryRequest) -> GetMemoryResponse:
        answer = await self.good.get_memory(request)
        age = timedelta(seconds=self.values.get("result_max_age") or 10**9)
        clock = self.values.get("clock")
        if answer.item and clock and answer.item.updated_at < clock() - age:
            return changed(answer, item=None, found=False)
        return answer
