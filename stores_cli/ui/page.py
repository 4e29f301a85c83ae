"""What all pages have in common: the frame, tables, forms, and the way to the next page."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from stores_cli.options import pairs
from stores_cli.ui.markup import Child, Markup, address, element, field_of, id_of, joined, link
from stores_core.errors import InvalidRequestError

PAGES = (("Runs", "/"), ("Notes", "/namespaces"), ("Tool results", "/results"))
LARGEST = 2**53


class Page(NamedTuple):
    """What one request is answered with."""

    title: str
    body: Markup
    status: int = 200


class Query:
    """What stands behind the ``?`` of an address."""

    def __init__(self, given: Sequence[tuple[str, str]]) -> None:
        self._given = given

    def texts(self, name: str) -> list[str]:
        """All values of a parameter that are not empty."""
        return [value for key, value in self._given if key == name and value]

    def text(self, name: str) -> str:
        """The first value of a parameter; "" without one."""
        return next(iter(self.texts(name)), "")

    def id(self) -> str:
        """What the page is about."""
        return id_of(self.text("id"))

    def number(self, name: str) -> int:
        """A whole number; 0 without one. Raises InvalidRequestError."""
        text = self.text(name)
        if not text:
            return 0
        if not (text.isascii() and text.isdecimal() and len(text) < 17 and int(text) < LARGEST):
            raise InvalidRequestError(
                field=name, found="no such number", allowed="a whole number of 0 or more"
            )
        return int(text)

    def labels(self) -> dict[str, str]:
        """The labels to filter by. Raises InvalidRequestError for what is no pair."""
        return pairs(self.texts("label"), "label")


def framed(page: Page, about: Sequence[str]) -> str:
    """The page as an HTML document; ``about`` says whose data it is."""
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width"),
        element("title", f"{page.title} - agent-stores"),
        element("link", rel="stylesheet", href="/style.css"),
    )
    places = (link(name, path) for name, path in PAGES)
    body = element(
        "body",
        element("header", element("nav", *places), element("p", " · ".join(about), class_="dim")),
        element("main", element("h1", page.title), page.body),
    )
    return "<!doctype html>\n" + element("html", head, body, lang="en").html


def absent(what: str, id: str) -> Page:
    """There is nothing of this id."""
    return Page("Not found", element("p", f"There is no {what} {id}"), 404)


def table(columns: Sequence[str], rows: Sequence[Sequence[Child]], *, empty: str) -> Markup:
    """A table, numbers to the right; ``empty`` is said where there are no rows."""
    if not rows:
        return element("p", empty, class_="dim")
    heads = (element("th", name) for name in columns)
    lines = (element("tr", *(_cell(cell) for cell in row)) for row in rows)
    return element(
        "table", element("thead", element("tr", *heads)), element("tbody", *lines)
    )  # fmt: skip


def fact_list(facts: Mapping[str, Child]) -> Markup:
    """Facts by name; those that are None are left out."""
    shown = (
        joined(element("dt", name), element("dd", fact))
        for name, fact in facts.items()
        if fact is not None
    )
    return element("dl", *shown)


def _cell(cell: Child) -> Markup:
    return element("td", cell, class_="number" if isinstance(cell, int) else None)


def form(path: str, *fields: Markup, id: str | None = None) -> Markup:
    """A form that asks for a page, which is about ``id`` where there is one."""
    about = None if id is None else element("input", type="hidden", name="id", value=field_of(id))
    return element("form", about, *fields, element("button", "Show"), action=path, method="get")


def field(label: str, name: str, value: str = "", *, hint: str = "") -> Markup:
    """One field of a form, to type into."""
    shown = element("input", name=name, value=value, placeholder=hint or None)
    return element("label", f"{label} ", shown)


def label_fields(labels: Sequence[str]) -> list[Markup]:
    """Fields for the labels to filter by, and one more."""
    return [field("Label", "label", label, hint="KEY=VALUE") for label in (*labels, "")]


def none_of(what: str, cursor: str) -> str:
    """What an empty page of a listing says: with filters one may be empty, and others not."""
    return "None on this page; the next may have some." if cursor else f"No {what} here."


def onward(path: str, cursor: str, query: Query, *names: str, id: str | None = None) -> Markup:
    """The way to the next page of a listing, with the same filters, and back to the first."""
    kept = {name: query.texts(name) for name in names}
    first = element("a", "first page", href=address(path, id=id, **kept))
    following = element("a", "next page", href=address(path, id=id, cursor=cursor, **kept))
    here = (first if query.text("cursor") else None, following if cursor else None)
    return element("p", *(joined(one, "  ") for one in here if one is not None), class_="pages")


def stretch(
    path: str, name: str, start: int, size: int, count: int, *, id: str, **query: str | int
) -> Markup:
    """The way through ``count`` things of which ``size`` from ``start`` on are shown.

    ``name`` is the parameter that says where a page starts.
    """
    last = max(0, (count - 1) // size * size)
    places = {
        "first": 0,
        "previous": max(0, start - size),
        "next": min(start + size, last),
        "last": last,
    }
    end = min(start + size, count) - 1
    shown = f"{start:,} to {end:,} of {count:,}  " if start < count else ""
    ways = (
        joined(link(text, path, id=id, **query, **{name: place}), "  ")
        for text, place in places.items()
        if (place < start if text in ("first", "previous") else place > start)
    )
    return element("p", shown, *ways, class_="pages")


def labels_of(labels: Mapping[str, str]) -> Markup:
    """Labels as they are shown."""
    return joined(
        *(element("span", f"{key}={value}", class_="label") for key, value in labels.items())
    )
