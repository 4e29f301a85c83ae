"""The stage of a program: tenants, their clients, the oracle's world of each, one clock."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

import pytest

from conformance_tests import samples
from conformance_tests.compare import assert_same
from conformance_tests.lab import Lab
from conformance_tests.model import Refused, World
from conformance_tests.suite.play.walks import Walk
from conformance_tests.suite.spelled import Spelled
from conformance_tests.suite.steps import StoppedClock, sweep_all
from stores_core import (
    Backend,
    Capability,
    InvalidRequestError,
    MemoryItem,
    StoreClosedError,
    ToolResult,
)

Answer = TypeVar("Answer")

STORES = ("runs", "memory", "tool_results")
SUFFIXES = {sample.name: sample.value for sample in samples.ids}


class Embedding(Spelled):
    """Gives a text that spells no vector one by its length."""

    def vector(self, text: str) -> list[float]:
        try:
            return super().vector(text) if "|" in text else [1.0, float(len(text))]
        except ValueError:
            return [1.0, -1.0]


@dataclass
class Tenant:
    """One tenant. ``names`` are ids that the stores generated, by the name a program gives them.

    ``walks`` are listings under way, by the name of their operation.
    """

    name: str | None
    world: World
    names: dict[str, str] = field(default_factory=dict[str, str])
    walks: dict[str, Walk] = field(default_factory=dict[str, Walk])


@dataclass
class Seat:
    """A client of a tenant."""

    tenant: Tenant
    backend: Backend
    embedder: Spelled | None


class Part(Protocol):
    """The steps of one store."""

    async def compare(self, seat: Seat) -> None:
        """Compare all that the tenant has in this store with the oracle's world."""
        ...


class Stage:
    """Where a program is played. Open one with `Stage.open`; steps name a client by its number.

    Where the opener takes tenants, each tenant is a new one, ids are the samples' own and whole
    listings are compared. Otherwise ids begin with an unused one, and everything that is listed
    bears a label of ours.
    """

    def __init__(self, lab: Lab, stores: tuple[str, ...]) -> None:
        self.lab, self.stores = lab, stores
        self.clock = StoppedClock()
        self.alone = lab.meets("tenant")
        self.token = lab.new_id("play")
        self.mark = {} if self.alone else {"of": self.token}
        self.seats: list[Seat] = []
        self.parts: dict[str, Part] = {}

    @classmethod
    async def open(
        cls,
        lab: Lab,
        *stores: str,
        tenants: int = 1,
        clients: int = 1,
        embedding: bool = False,
    ) -> "Stage":
        """A stage with so many tenants, and clients of each, as far as the opener allows.

        With ``embedding`` the first client of a tenant recalls by embedding, the others by
        substring.
        """
        stage = cls(lab, stores)
        for n in range(tenants if stage.alone else 1):
            name = lab.new_id(f"tenant-{n}") if stage.alone else None
            tenant = Tenant(name, World(Embedding().vector))
            first = await stage._enter(tenant, Embedding() if embedding else None)
            for _ in range(clients - 1):
                other = await stage._enter(tenant, None)
                if not await stage._sees(other, first):
                    await lab.close(stage.seats.pop().backend)
        return stage

    async def _enter(self, tenant: Tenant, embedder: Spelled | None) -> Seat:
        seat = Seat(tenant, await self._client(tenant, embedder), embedder)
        self.seats.append(seat)
        return seat

    async def _client(self, tenant: Tenant, embedder: Spelled | None) -> Backend:
        return await self.lab.open(tenant=tenant.name, embedder=embedder, clock=self.clock)

    async def _sees(self, other: Seat, first: Seat) -> bool:
        """Whether both are clients of one storage, as SHARED promises and others may."""
        if Capability.SHARED in first.backend.capabilities:
            return True
        name, (one, two) = self.lab.new_id("probe"), (first.backend, other.backend)
        if "runs" in self.stores:
            await one.runs.create_run(run_id=name)
            found = (await two.runs.get_run(run_id=name)).found
            await one.runs.delete_run(run_id=name)
        elif "tool_results" in self.stores:
            await one.tool_results.put_tool_result(ref=name, result=ToolResult())
            found = (await two.tool_results.get_tool_result(ref=name)).found
            await one.tool_results.delete_tool_result(ref=name)
        else:
            note = MemoryItem(key=name, value="")
            await one.memory.put_memory(item=note, namespace=name)
            found = (await two.memory.get_memory(key=name, namespace=name)).found
            await one.memory.delete_memory(key=name, namespace=name)
        return found

    def seat(self, client: int) -> Seat:
        return self.seats[client % len(self.seats)]

    def tenants(self) -> list[Tenant]:
        return list({id(seat.tenant): seat.tenant for seat in self.seats}.values())

    def real(self, name: str, tenant: Tenant) -> str:
        """The id that a program's name stands for."""
        if name in tenant.names or not name:
            return tenant.names.get(name, "")
        suffix = SUFFIXES.get(name, name)
        return suffix if self.alone else self.token + suffix

    def named(self, seat: Seat, name: str, generated: str | None) -> str:
        """A generated id, which a program's name stands for from now on."""
        assert generated, "nothing was generated where no id was given"
        if name:
            seat.tenant.names[name] = generated
        return generated

    async def ask(
        self,
        call: Callable[..., Awaitable[Answer]],
        request: Any,
        oracle: Callable[[Answer | None], Any],
    ) -> Answer | None:
        """Call a store and compare its answer with the oracle's, which may look at it.

        None where the oracle says that it is to be refused, and it was.
        """
        what = type(request).__name__.removesuffix("Request")
        answer, refusal = None, None
        try:
            answer = await call(request)
        except InvalidRequestError as error:
            refusal = error
        try:
            expected = oracle(answer)
        except Refused as why:
            if refusal is not None:
                return None
            raise AssertionError(f"{what} was to be refused: {why}") from None
        if refusal is not None:
            raise AssertionError(f"{what} was refused") from refusal
        self._keep_up()
        assert_same(tidy(answer), expected, f"the answer to {what}")
        return answer

    def _keep_up(self) -> None:
        # What listings under way need no longer give.
        for tenant in self.tenants():
            for walk in tenant.walks.values():
                walk.keep_up()

    # The steps

    async def tick(self, *, seconds: float = 1.0) -> None:
        """Move the clock, back too."""
        self.clock.move(seconds)

    async def reopen(self, *, client: int = 0, all: bool = False) -> None:
        """Close a client, or all of its tenant, and open it again, where others see the same."""
        seat = self.seat(client)
        family = [other for other in self.seats if other.tenant is seat.tenant]
        if len(family) < 2:
            return
        going = family if all else [seat]
        for one in going:
            await self.lab.close(one.backend)
            with pytest.raises(StoreClosedError):
                await self._look(one.backend)
        for one in going:
            one.backend = await self._client(one.tenant, one.embedder)

    async def _look(self, backend: Backend) -> None:
        if "runs" in self.stores:
            await backend.runs.get_run(run_id="x")
        elif "memory" in self.stores:
            await backend.memory.get_memory(key="x")
        else:
            await backend.tool_results.get_tool_result(ref="x")

    async def sweep(self, *, client: int = 0, budget: int = 0) -> None:
        """Sweep once within a budget, or until nothing is left to free."""
        backend = self.seat(client).backend
        if "admin" not in backend.offered:
            return
        if budget:
            await backend.admin.sweep(budget=budget)
        else:
            await sweep_all(backend)

    async def compare(self, *, client: int = 0) -> None:
        """Compare all that a tenant has with the oracle's world."""
        seat = self.seat(client)
        for part in self.parts.values():
            await part.compare(seat)

    async def end(self) -> None:
        """The last step: compare by every client, verify each tenant, close all."""
        for n in range(len(self.seats)):
            await self.compare(client=n)
        firsts = {id(seat.tenant): seat.backend for seat in self.seats} if self.alone else {}
        for backend in firsts.values():
            if "admin" in backend.offered:
                problems = (await backend.admin.verify()).problems
                assert problems == (), f"verify finds {problems!r}"
        await self.close()

    async def close(self) -> None:
        while self.seats:
            await self.lab.close(self.seats.pop().backend)


def tidy(answer: Any) -> Any:
    """An answer whose labels are sorted, since their order means nothing."""
    for name in ("info", "run"):
        held = getattr(answer, name, None)
        if held is not None:
            return answer.model_copy(update={name: sorted_labels(held)})
    return answer


def sorted_labels(held: Any) -> Any:
    labels: Mapping[str, str] = held.labels
    return held.model_copy(update={"labels": dict(sorted(labels.items()))})
