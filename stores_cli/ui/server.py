"""The pages by their addresses, and what becomes of errors."""

from collections.abc import Awaitable, Callable, Collection, Mapping
from importlib.resources import files
from pathlib import PurePath

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from stores_cli.output import complain
from stores_cli.ui import family, memory, results, runs
from stores_cli.ui.guard import Guard
from stores_cli.ui.markup import element
from stores_cli.ui.page import Page, Query, framed
from stores_cli.urls import redacted, shown
from stores_core.backend import Backend
from stores_core.errors import InvalidRequestError, StoreError, StoreUnavailableError

Handler = Callable[[Backend, Query], Awaitable[Page]]

HANDLERS: Mapping[str, Handler] = {
    "/": runs.list_,
    "/run": runs.show,
    "/entry": runs.entry,
    "/family": family.tree,
    "/namespaces": memory.namespaces,
    "/notes": memory.notes,
    "/note": memory.note,
    "/results": results.list_,
    "/result": results.show,
}


def pages(backend: Backend, url: str, tenant: str, hosts: Collection[str]) -> ASGIApp:
    """The application: the pages of ``backend``, which ``url`` names, for who asks ``hosts``."""
    about = (backend.name, shown(url), *([f"tenant {tenant}"] if tenant else []))

    def html(page: Page) -> Response:
        return HTMLResponse(framed(page, about), page.status)

    def route(path: str, handler: Handler) -> Route:
        async def answer(request: Request) -> Response:
            try:
                return html(await handler(backend, Query(request.query_params.multi_items())))
            except StoreError as error:
                return html(_failed(redacted(str(error), [url]), _status(error)))
            except Exception as error:  # a page that fails takes no other with it
                what = f"{path} failed with {type(error).__name__}"
                complain(f"ui: {what} {_place(error)}")
                return html(_failed(f"{what}; the terminal says where", 500))

        return Route(path, answer, methods=["GET"])

    async def style(_: Request) -> Response:
        text = (files(__package__ or "") / "style.css").read_text("utf-8")
        return Response(text, media_type="text/css")

    async def missing(_: Request, error: Exception) -> Response:
        return html(Page("Not found", element("p", "There is no such page"), 404))

    routes = [route(path, handler) for path, handler in HANDLERS.items()]
    app = Starlette(routes=[*routes, Route("/style.css", style)], exception_handlers={404: missing})
    return Guard(app, hosts)


def _failed(text: str, status: int) -> Page:
    return Page("That did not work", element("p", text, class_="failed"), status)


def _status(error: StoreError) -> int:
    if isinstance(error, InvalidRequestError):
        return 400
    return 503 if isinstance(error, StoreUnavailableError) else 500


def _place(error: Exception) -> str:
    """File and line, and never the message, which may hold what is stored."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None:
        return ""
    return f"at {PurePath(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno}"
