"""HTML that is escaped by construction.

`element` alone makes `Markup`. Whatever else it is given is text: its special characters are
escaped, and what could turn or hide the words around it is shown by its code, as on a terminal.
"""

from collections.abc import Sequence
from html import escape
from urllib.parse import quote, unquote, urlencode

from stores_cli.output import printable

_VOID = frozenset({"input", "link", "meta"})


class Markup:
    """A piece of HTML. Made by `element` and `joined` only."""

    __slots__ = ("html",)

    def __init__(self, html: str) -> None:
        self.html = html


Child = Markup | str | int | None
Attribute = str | int | bool | None


def element(name: str, /, *children: Child, **attributes: Attribute) -> Markup:
    """An element. A child that is None is left out, as is an attribute that is None or False.

    An attribute's name may end in ``_`` (``class_``); a ``_`` within is a hyphen.
    """
    given = "".join(
        _attribute(key.rstrip("_").replace("_", "-"), value) for key, value in attributes.items()
    )
    if name in _VOID:
        return Markup(f"<{name}{given}>")
    first = "\n" if name == "pre" else ""  # the one line end that HTML drops there
    return Markup(f"<{name}{given}>{first}{joined(*children).html}</{name}>")


def joined(*children: Child) -> Markup:
    """Pieces one after another, without an element around them."""
    return Markup("".join(_child(child) for child in children if child is not None))


def link(text: Child, path: str, *, id: str | None = None, **query: str | int | None) -> Markup:
    """A link to a page of ours; ``id`` is what the page is about."""
    return element("a", text, href=address(path, id=id, **query))


def address(path: str, *, id: str | None = None, **query: str | int | Sequence[str] | None) -> str:
    """The address of a page of ours, without the parameters that are empty."""
    given: dict[str, object] = {} if id is None else {"id": field_of(id)}
    given |= {name: value for name, value in query.items() if value not in (None, "", 0, [])}
    return f"{path}?{urlencode(given, doseq=True)}" if given else path


def field_of(id: str) -> str:
    """An id as it goes through an address and a form, which would change line ends in it."""
    return "".join(
        char if char.isprintable() and char != "%" else quote(char, safe="") for char in id
    )


def id_of(field: str) -> str:
    """The id that `field_of` made a field of."""
    return unquote(field)


def _child(child: Markup | str | int) -> str:
    return child.html if isinstance(child, Markup) else escape(printable(str(child), lines=True))


def _attribute(name: str, value: Attribute) -> str:
    if value is None or value is False:
        return ""
    return f" {name}" if value is True else f' {name}="{escape(str(value))}"'
