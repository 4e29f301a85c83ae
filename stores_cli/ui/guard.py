"""What stands before all pages: who may ask, for what, and what a browser may do with an answer."""

from collections.abc import Collection

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

METHODS = ("GET", "HEAD")

HEADERS = {
    # No script, frame, font or address of anybody else, whatever a stored text says.
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'self'; form-action 'self'; base-uri 'none'; "
        "frame-ancestors 'none'"
    ),
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",  # addresses hold ids
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}

_OWN = ("", "none", "same-origin")
"""What a browser says of who asks: nothing (an old one), a person, a page of ours."""


class Guard:
    """Refuses what is not asked by name (``hosts``, each with its port), by a page of ours or by a
    person, and what would be more than reading. Every answer bears `HEADERS`.

    A stranger's page can point a name of its own at 127.0.0.1 and have the browser ask there (DNS
    rebinding); the Host header then bears that name.
    """

    def __init__(self, app: ASGIApp, hosts: Collection[str]) -> None:
        self._app = app
        self._hosts = hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            raise RuntimeError("only HTTP is served")

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        await (self._refusal(scope) or self._app)(scope, receive, guarded)

    def _refusal(self, scope: Scope) -> ASGIApp | None:
        headers = Headers(scope=scope)
        hosts = [host.lower() for host in headers.getlist("host")]
        if len(hosts) != 1 or hosts[0] not in self._hosts:
            allowed = " or ".join(sorted(self._hosts))
            return PlainTextResponse(f"Host: found another; allowed is {allowed}\n", 421)
        if headers.get("sec-fetch-site", "") not in _OWN:
            return PlainTextResponse("asked by a page of somebody else; type the address\n", 403)
        if scope["method"] not in METHODS:
            allow = ", ".join(METHODS)
            return PlainTextResponse(
                f"method: found another; allowed is {allow}\n", 405, {"Allow": allow}
            )
        return None
