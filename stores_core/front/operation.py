"""One operation of a front: from keywords or a request to the store's answer."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Generic, ParamSpec, TypeVar, cast, overload

from stores_core.errors import (
    InvalidRequestError,
    OutcomeUnknownError,
    StoreError,
    StoreUnavailableError,
)
from stores_core.front import cursors
from stores_core.front.completing import complete
from stores_core.front.opened import Opened
from stores_core.interceptors import Call, Proceed, chain, retry_with
from stores_core.sending import Sending, current
from stores_core.shape import Request, Response, WriteRequest, replaced

P = ParamSpec("P")
Req = TypeVar("Req", bound=Request)
Resp = TypeVar("Resp", bound=Response)


class Front:
    """Stands before one store; its operations are class attributes made by `operation`."""

    kind = ""

    def __init__(self, opened: Opened, store: object) -> None:
        self.opened = opened
        self.store = store

    def __repr__(self) -> str:
        return f"<{self.kind} of {self.opened.name}>"


class Bound(Generic[P, Req, Resp]):
    """An operation of one front. Takes a request, or the request's fields as keywords."""

    __slots__ = ("_front", "_name", "_request")

    def __init__(self, front: Front, name: str, request: type[Req]) -> None:
        self._front, self._name, self._request = front, name, request

    @overload
    async def __call__(self, request: Req, /) -> Resp: ...
    @overload
    async def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Resp: ...
    async def __call__(self, *args: Any, **fields: Any) -> Any:
        front = self._front
        opened = front.opened
        opened.ensure_usable()
        ready = complete(opened, self._made(args, fields))
        cursor = cursors.of(ready)
        if cursor:
            ready = replaced(ready, {"cursor": cursors.opened(cursor, self._seal(ready))})
        response = await self._answer(ready)
        following = cursors.next_of(response)
        if following:
            sealed = cursors.sealed(following, self._seal(ready))
            response = replaced(response, {"next_cursor": sealed})
        return response

    def _made(self, args: Sequence[Any], fields: dict[str, Any]) -> Request:
        if not args:
            return self._request(**fields)
        request = args[0]
        if fields or len(args) > 1 or type(request) is not self._request:
            raise InvalidRequestError(
                field="request",
                found=", ".join([type(arg).__name__ for arg in args] + ["keywords"] * bool(fields)),
                allowed=f"one {self._request.__name__}, or its fields as keywords",
            )
        # Made anew, and so checked anew: model_copy and model_construct check nothing.
        return self._request(**request.__dict__)

    def _seal(self, request: Request) -> bytes:
        opened = self._front.opened
        return cursors.seal_of(f"{opened.identity}\0{self._front.kind}.{self._name}", request)

    async def _answer(self, request: Request) -> Response:
        front, writes = self._front, isinstance(request, WriteRequest)
        opened = front.opened
        handler: Proceed = getattr(front.store, self._name)
        sending = Sending()
        token = current.set(sending)
        limit = asyncio.timeout(opened.timeout if request.timeout is None else request.timeout)
        try:
            async with limit:
                sending.ends_at = limit.when()
                if opened.interceptors:
                    call = Call(opened.name, front.kind, self._name, request, writes)
                    return await chain(opened.interceptors, call, sending.counted(handler))
                return await handler(request)
        except OutcomeUnknownError as error:
            error.retry_with = error.retry_with or retry_with(request)
            raise
        except StoreError:
            raise
        except Exception as error:
            raise self._as_ours(request, error, limit.expired(), sending) from error
        finally:
            current.reset(token)

    def _as_ours(
        self, request: Request, error: Exception, expired: bool, sending: Sending
    ) -> StoreError:
        what = f"{self._front.kind}.{self._name} on {self._front.opened.name}"
        happened = "ran into its timeout" if expired else f"failed with {type(error).__name__}"
        if not isinstance(request, WriteRequest) or sending.nothing_left:
            return StoreUnavailableError(f"{what} {happened}; nothing was applied")
        return OutcomeUnknownError(
            f"{what} {happened}; it may or may not have been applied",
            retry_with=retry_with(request),
        )


class Declared(Generic[P, Req, Resp]):
    """An operation on the class of a front, which gives each front its own bound one."""

    def __init__(self, request: type[Req], response: type[Resp]) -> None:
        self.request, self.response = request, response

    def __set_name__(self, owner: type[Front], name: str) -> None:
        self._name = name

    def __get__(self, front: Front | None, owner: type[Front]) -> Any:
        if front is None:
            return self
        bound: Bound[P, Req, Resp] = Bound(front, self._name, self.request)
        front.__dict__[self._name] = bound  # looked up without this descriptor from now on
        return bound


def operation(request: Callable[P, Req], response: type[Resp]) -> Bound[P, Req, Resp]:
    """Declares an operation of a front by its request and response.

    To a type checker its keywords are those of the request's constructor.
    """
    declared: Any = Declared(cast("type[Req]", request), response)
    return declared
