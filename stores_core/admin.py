"""The operator's seam: what one asks of a storage rather than of a store in it."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Protocol

from pydantic import Field

from stores_core.capabilities import Durability
from stores_core.shape import AsTuple, Request, Response, Shape, WriteRequest
from stores_core.values import Count, IdOrEmpty

_Strings = Annotated[Sequence[str], AsTuple()]


class CheckRequest(Request):
    pass


class CheckResponse(Response):
    """``schema_state`` is "current", "behind", "ahead", "absent" or "foreign"; ``settings`` are
    the server's that matter, as found; ``warnings`` name what to change and how."""

    versions: Mapping[str, str] = Field(default_factory=dict[str, str])
    schema_state: str
    durability: Durability
    settings: Mapping[str, str] = Field(default_factory=dict[str, str])
    warnings: _Strings = ()


class MeasureRequest(Request):
    pass


class MeasureResponse(Response):
    """``bytes`` that this tenant's data takes, and the ``entries_read`` (headers and log entries
    looked at) by this client since it was opened. None where a backend cannot tell."""

    bytes: int | None = None
    entries_read: int | None = None


class PlanMigrationRequest(Request):
    """``target`` names a revision of the stored format, an older one too; empty is the code's.

    ``sql`` asks for the statements as well.
    """

    target: str = ""
    sql: bool = False


class PlanMigrationResponse(Response):
    """What ``migrate`` would do, a sentence a step; empty when the storage is there already.

    ``advice`` is what to see to before. ``sql`` is a script that does the same, if asked for, where
    the stored format has such a thing.
    """

    steps: _Strings = ()
    advice: _Strings = ()
    sql: str = ""


class MigrateRequest(WriteRequest):
    """``target`` is that of the plan."""

    target: str = ""


class MigrateResponse(Response):
    """The steps that this call took, in order; another client may have taken others."""

    applied: _Strings = ()


class SweepRequest(WriteRequest):
    """``budget`` caps the records looked at or freed, so that a sweep never runs long."""

    budget: Annotated[int, Field(gt=0)] = 10_000


class SweepResponse(Response):
    """What was freed, by kind, and whether more is left for the next sweep."""

    freed: Mapping[str, int] = Field(default_factory=dict[str, int])
    more: bool = False


class VerifyRequest(Request):
    pass


class Problem(Shape):
    """One fault that verify found; ``store``, ``id`` and ``position`` say where."""

    store: str
    id: str
    position: int = -1
    what: str


class VerifyResponse(Response):
    checked: Mapping[str, int] = Field(default_factory=dict[str, int])
    problems: Annotated[Sequence[Problem], AsTuple()] = ()


class ReembedRequest(WriteRequest):
    """``limit`` caps the notes that one call embeds."""

    limit: Annotated[int, Field(gt=0)] = 1_000


class ReembedResponse(Response):
    """``done`` once the vectors of the backend's embedder have taken over."""

    embedded: int = 0
    done: bool = False


class ListTenantsRequest(Request):
    """``limit`` 0 is 50; above 1,000 it counts as 1,000."""

    cursor: str = ""
    limit: Count = 0


class ListTenantsResponse(Response):
    tenants: _Strings = ()
    next_cursor: str = ""


class EraseTenantRequest(WriteRequest):
    """``tenant`` has no default: erasing needs a name."""

    tenant: IdOrEmpty


class EraseTenantResponse(Response):
    erased: bool


class Admin(Protocol):
    """What an operator can ask for. Only this seam sees tenants other than the opened one."""

    async def check(self, request: CheckRequest, /) -> CheckResponse:
        """Versions, state of the stored format, settings and durability as found."""
        ...

    async def measure(self, request: MeasureRequest, /) -> MeasureResponse:
        """Bytes held and entries looked at, so that costs are shown by counting, not by time."""
        ...

    async def plan_migration(self, request: PlanMigrationRequest, /) -> PlanMigrationResponse:
        """The steps from the stored format to the code's, or to another revision."""
        ...

    async def migrate(self, request: MigrateRequest, /) -> MigrateResponse:
        """Take these steps."""
        ...

    async def sweep(self, request: SweepRequest, /) -> SweepResponse:
        """Free what nothing can reach and what retention gives up, within a budget."""
        ...

    async def verify(self, request: VerifyRequest, /) -> VerifyResponse:
        """Read every record of this tenant and list what is damaged; changes nothing.

        What a backend keeps and nothing refers to any more is listed too, where it can tell.
        """
        ...

    async def reembed(self, request: ReembedRequest, /) -> ReembedResponse:
        """Embed notes for this backend's embedder beside the vectors in use.

        The new vectors take over in one step once no note lacks one; until then clients of the
        old embedder read and write as before.
        """
        ...

    async def list_tenants(self, request: ListTenantsRequest, /) -> ListTenantsResponse:
        """The tenants that hold data, in code-point order."""
        ...

    async def erase_tenant(self, request: EraseTenantRequest, /) -> EraseTenantResponse:
        """Remove everything of one tenant."""
        ...
