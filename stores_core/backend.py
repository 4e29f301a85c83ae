"""Backend: the stores of one opened storage, each behind the front."""

from typing import TypeVar

from stores_core.admin import Admin
from stores_core.capabilities import Capability, Durability
from stores_core.errors import InvalidRequestError
from stores_core.front import (
    AdminFront,
    MemoryFront,
    MovingFront,
    NewForkId,
    Opened,
    RunsFront,
    ToolResultsFront,
)
from stores_core.front.operation import Front
from stores_core.memory import MemoryStore
from stores_core.moving import Moving
from stores_core.runs import RunStore
from stores_core.tool_results import ToolResultStore

F = TypeVar("F", bound=Front)


class Backend:
    """What a storage offers, as one client and one tenant see it.

    A backend author passes stores; what users get as ``runs``, ``memory`` and ``tool_results`` is
    core's front before them, typed, taking a request or its fields as keywords. A store that is
    left out is not in ``offered``. ``identity`` is a text that all clients of one storage and
    tenant share and no other has: cursors are bound to it. A backend whose stores work from any
    event loop says ``loop_bound=False``; one that wants forks near their source makes their ids
    by ``new_fork_id``. A store class used without a Backend skips all checks.

    ALL-1 Fidelity. Whatever is accepted comes back equal in type and canonical text, on every
        backend: text with NUL, astral and un-normalised characters, integers of up to 4,300 digits,
        floats bit for bit (-0.0; 1.0 stays a float; true is not 1), the key order of objects, []
        apart from {}, empty strings, further fields, 100 levels of nesting, text that looks like
        our own frames, keys or markers.
    ALL-2 Refusal. What could not come back equal is refused with InvalidRequestError before
        anything is written, naming the path: lone surrogates, NaN, infinities and numbers that
        overflow to them, deeper nesting, keys that are no strings, bytes, sets, tuples, objects,
        times without a zone.
    ALL-3 Ids. Run ids, refs, note keys, namespaces, tenants, labels and idempotency keys are
        compared code point by code point: no trimming, case folding or normalising. Anything goes
        but NUL, lone surrogates and the empty string (which is allowed where it means "default",
        as in the namespace "", or "generate"), up to 512 bytes of UTF-8, and up to 64 labels. No
        id reaches outside its store or collides with another.
    ALL-4 Time. Times are aware, in UTC, with microseconds, from one replaceable clock. The order of
        a log never comes from a clock but from positions that the store assigns: 0, 1, 2 and on,
        without gaps.
    ALL-5 Ownership. What a store returns belongs to the caller and what a caller passed in stays
        the caller's; later changes to either never reach the store.
    ALL-6 Visibility. Once a write is acknowledged, every later read by any client of the storage
        sees it. A batch is seen whole or not at all. Per run, operations are linearisable, as long
        as the backend loses nothing that it acknowledged; after a loss, what is left of each run
        is a prefix of whole batches.
    ALL-7 Concurrency. Any number of tasks of one event loop may share a backend, any number of
        processes may open it where it declares SHARED. From another loop or a forked process it
        refuses at once, unless its stores work from any. No lock is held while a body is encoded
        or an embedder is asked.
    ALL-8 Outcomes. A write returns, and is applied; or raises an error that means not applied; or
        raises OutcomeUnknownError. When the timeout of the backend or of the request ends, that is
        StoreUnavailableError if nothing was sent and OutcomeUnknownError otherwise, at most 0.1 s
        late. What drivers re-send by themselves is off.
    ALL-9 Cancellation. A cancelled write is of unknown outcome: it may still take effect, wholly or
        not at all, within its timeout. When the cancellation surfaces the caller holds no
        connection, lock, transaction or temporary file, no reply of it ever reaches another
        caller, and the store is usable. Whoever may cancel and retry passes a key.
    ALL-10 Tenants. Two tenants of one storage never see, list, overwrite or delete each other's
        data, nor learn that it exists, by id, ref, cursor, key or search.
    ALL-11 Limits. The same everywhere: an entry, note or result of up to 32 MiB of JSON, a batch of
        up to 1,000 entries and 32 MiB, a query of 64 KiB; options raise them to 64 MiB, 10,000 and
        128 MiB. Beyond is RecordTooLargeError before anything is sent. A page has at most 1,000
        entries and ends early at 16 MiB, never before one entry; a load above 256 MiB is refused
        and names read_messages. Negative, boolean and float limits are refused; what 0 means
        stands beside each operation.
    ALL-12 Closing. Closing twice is fine; afterwards operations raise StoreClosedError. A program
        that forgets to close still exits.
    """

    def __init__(
        self,
        *,
        name: str,
        runs: RunStore | None = None,
        memory: MemoryStore | None = None,
        tool_results: ToolResultStore | None = None,
        admin: Admin | None = None,
        moving: Moving | None = None,
        capabilities: frozenset[Capability] = frozenset(),
        durability: Durability = Durability.UNVERIFIED,
        identity: str = "",
        loop_bound: bool = True,
        new_fork_id: NewForkId | None = None,
    ) -> None:
        self.name = name
        self.capabilities = capabilities
        self.durability = durability
        self.opened = Opened(name, identity or name, loop_bound=loop_bound)
        if new_fork_id is not None:
            self.opened.new_fork_id = new_fork_id
        stores = {
            "runs": runs,
            "memory": memory,
            "tool_results": tool_results,
            "admin": admin,
            "moving": moving,
        }
        self.offered = frozenset(kind for kind, store in stores.items() if store is not None)
        self._runs = RunsFront(self.opened, runs)
        self._memory = MemoryFront(self.opened, memory)
        self._tool_results = ToolResultsFront(self.opened, tool_results)
        self._admin = AdminFront(self.opened, admin)
        self._moving = MovingFront(self.opened, moving)

    @property
    def runs(self) -> RunsFront:
        """The run store. Each of these five raises InvalidRequestError if it is not offered."""
        return self._offered(self._runs)

    @property
    def memory(self) -> MemoryFront:
        """Working memory."""
        return self._offered(self._memory)

    @property
    def tool_results(self) -> ToolResultsFront:
        """The store of tool results."""
        return self._offered(self._tool_results)

    @property
    def admin(self) -> AdminFront:
        """The operator's seam."""
        return self._offered(self._admin)

    @property
    def moving(self) -> MovingFront:
        """Export and import."""
        return self._offered(self._moving)

    def _offered(self, front: F) -> F:
        if front.kind in self.offered:
            return front
        raise InvalidRequestError(
            field=front.kind,
            found=f"the backend {self.name!r}, which does not offer it",
            allowed=", ".join(sorted(self.offered)),
        )

    def __repr__(self) -> str:
        return f"<Backend {self.name}: {', '.join(sorted(self.offered))}>"
