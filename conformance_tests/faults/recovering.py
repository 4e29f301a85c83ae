"""What a storage has to hold after a crash of the machine, and that it goes on from there."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from conformance_tests.faults.acting import (
    OPERATIONS,
    TURN,
    Expected,
    Operation,
    note,
    prepare,
    preparing,
    shortened,
)
from conformance_tests.faults.killing import ChildError, Open, in_child, result_of
from stores_core.backend import Backend
from stores_core.errors import StoreError
from stores_core.tool_results import ToolResult


@dataclass(frozen=True, slots=True)
class Stages:
    """What is seen of an operation: ``earlier`` while it was being prepared, before and after."""

    earlier: Sequence[str]
    expected: Expected

    def whole(self, *, acting: bool, told: bool) -> Sequence[str]:
        """What may be seen: after it was told, while it was acting, or at any moment till then."""
        before, after = self.expected.before, self.expected.after
        if told:
            return [after]
        return [before, after] if acting else [*self.earlier, before, after]


async def stages_of(operation: Operation, backend: Backend, id: str) -> Stages:
    """Prepare an id that is new, do it undisturbed, and look each time."""
    seen = [await operation.sees(backend, id)]
    async for _ in preparing(backend, id):
        seen.append(await operation.sees(backend, id))
    *earlier, before = seen
    await operation.act(backend, id)
    return Stages(earlier, Expected(before, await operation.sees(backend, id)))


def stages(open: Open, prefix: str) -> dict[str, Stages]:
    """Of all operations that change something. Raises ChildError if it cannot be opened."""

    async def work() -> dict[str, tuple[Sequence[str], str, str]]:
        found: dict[str, tuple[Sequence[str], str, str]] = {}
        async with open() as backend:
            for name, operation in OPERATIONS.items():
                if operation.store in backend.offered and not operation.reads:
                    of = await stages_of(operation, backend, f"{prefix} {name} ")
                    found[name] = of.earlier, of.expected.before, of.expected.after
        return found

    found = result_of(in_child(work))
    return {name: Stages(earlier, Expected(*texts)) for name, (earlier, *texts) in found.items()}


class Left(NamedTuple):
    """What is wrong with what was left, and whether the storage itself says that it is damaged."""

    faults: Sequence[str]
    says_so: bool = False


@dataclass(frozen=True, slots=True)
class Recovery:
    """Looks at what is left of an operation on ``id``, in a process of its own each time."""

    open: Open
    operation: Operation
    stages: Stages
    id: str

    def look(self, whole: Sequence[str], *, thoroughly: bool) -> Left:
        """See that what ``open`` opens goes on, and that one of ``whole`` is seen of it.

        ``thoroughly``: it is opened twice, and the operation is sent again.
        """

        async def work() -> Left:
            try:
                return await self._left(whole, thoroughly=thoroughly)
            except Exception as error:
                return Left([f"{type(error).__name__}: {error}"], isinstance(error, StoreError))

        try:
            return Left(*result_of(in_child(work)))
        except ChildError as error:
            return Left([str(error)])

    async def _left(self, whole: Sequence[str], *, thoroughly: bool) -> Left:
        async with self.open() as backend:
            seen = await self.operation.sees(backend, self.id)
            if seen not in whole:
                return Left([self._said(seen, whole)])
            if not thoroughly:
                return await self._goes_on(backend)
        async with self.open() as backend:
            again = await self.operation.sees(backend, self.id)
            if again != seen:
                return Left([f"opened once more it holds something else: {shortened(again)}"])
            await self._send_again(backend, seen)
            return await self._goes_on(backend)

    def _said(self, seen: str, whole: Sequence[str]) -> str:
        if seen == self.stages.expected.before and self.stages.expected.after in whole:
            return "what was told done is not there"
        part = "in part" if self.stages.expected.before in whole else "not, or in part"
        return f"it is there {part}: {shortened(seen)}"

    async def _send_again(self, backend: Backend, seen: str) -> None:
        expected, id = self.stages.expected, self.id
        if seen not in (expected.before, expected.after):
            id = f"{id} again "
            await prepare(backend, id)
        if self.operation.repeatable or seen != expected.after:
            await self.operation.act(backend, id)
        await expected.happened(self.operation, backend, id, "sent again")

    async def _goes_on(self, backend: Backend) -> Left:
        """Write to all that was written to: what was cut off may lie there till then."""
        if "runs" in backend.offered:
            for run_id in (self.id, f"{self.id} new"):
                await backend.runs.append_messages(run_id=run_id, messages=TURN)
        if "memory" in backend.offered:
            await backend.memory.put_memory(namespace=self.id, item=note("more", "more"))
        if "tool_results" in backend.offered:
            await backend.tool_results.put_tool_result(ref=self.id, result=ToolResult())
        if "admin" not in backend.offered:
            return Left(())
        problems = (await backend.admin.verify(timeout=300)).problems
        found = [f"{one.store} {one.id}: {one.what}" for one in problems]
        return Left(found, bool(found))
