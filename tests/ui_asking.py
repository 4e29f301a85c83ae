"""The pages of `ui` as tests ask for them, and what a page says once a browser's parser read it."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from html.parser import HTMLParser
from urllib.parse import parse_qs, urlsplit

import httpx

from stores_cli.ui.server import pages
from stores_core import Embedder, open_backend

HOST = "127.0.0.1:8787"

ATTRIBUTES = frozenset(
    (
        "action", "charset", "class", "content", "cx", "cy", "d", "height", "href", "lang",
        "method", "name", "placeholder", "r", "rel", "role", "type", "value", "viewbox", "width",
        "x", "x1", "x2", "y", "y1", "y2",
    )
)  # fmt: skip
TAGS = frozenset(
    (
        "a", "article", "b", "body", "button", "circle", "dd", "details", "div", "dl", "dt", "form",
        "g", "h1", "h2", "head", "header", "html", "input", "label", "line", "link", "main", "meta",
        "nav", "p", "path", "pre", "span", "summary", "svg", "table", "tbody", "td", "text", "th",
        "thead", "title", "tr",
    )
)  # fmt: skip


class Seen(HTMLParser):
    """A page, read: its text, its links, its blocks. Refuses what no page of ours has."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.text = ""
        self.links: list[str] = []
        self.tags: list[str] = []
        self.blocks: list[str] = []
        self.hidden: dict[str, str] = {}
        self._open = ""
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        assert tag in TAGS
        assert given.keys() <= ATTRIBUTES
        assert given.get("href", "/").startswith("/")
        self.tags.append(tag)
        self._open = tag
        if tag == "pre":
            self.blocks.append("")
        if tag == "a":
            self.links.append(given["href"])
        if given.get("type") == "hidden":
            self.hidden[given["name"]] = given["value"]
        self.text += "\n" if tag in ("tr", "p", "article", "pre") else ""

    def handle_endtag(self, tag: str) -> None:
        self._open = ""

    def handle_data(self, data: str) -> None:
        self.text += data
        if self._open == "pre":
            self.blocks[-1] += data if self.blocks[-1] else data.removeprefix("\n")

    def link(self, path: str, **parts: str) -> str:
        """The link to ``path`` with these parameters."""
        (found,) = {
            one
            for one in self.links
            if urlsplit(one).path == path
            and parts.items()
            <= {key: value[0] for key, value in parse_qs(urlsplit(one).query).items()}.items()
        }
        return found


class Browsing:
    """Asks for pages of one backend."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self.client = client

    async def get(self, address: str, status: int = 200) -> Seen:
        """The page there."""
        answer = await self.client.get(address)
        assert answer.status_code == status, answer.text
        return Seen(answer.text)


@asynccontextmanager
async def browsing(
    url: str, *, embedder: Embedder | None = None, shown: str = ""
) -> AsyncGenerator[Browsing]:
    """The pages of ``url``, without a server between; they say ``shown`` in its place."""
    async with open_backend(url, embedder=embedder) as backend:
        app = pages(backend, shown or url, "", frozenset({HOST}))
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url=f"http://{HOST}") as client:
            yield Browsing(client)
