"""Several names as one: the ids of runs and namespaces that stand for tuples."""

from collections.abc import Iterable


def joined(root: str, names: Iterable[str]) -> str:
    """The root, then each name, escaped, and a slash after it.

    No two tuples of names give the same text. That of a tuple is a prefix of another's exactly
    where its names are the first names of the other, so a prefix never ends inside a name.
    """
    escaped = (name.replace("~", "~0").replace("/", "~1") + "/" for name in names)
    return root + "".join(escaped)


def names_of(root: str, text: str) -> tuple[str, ...]:
    """The inverse of :func:`joined`."""
    parts = text.removeprefix(root).split("/")[:-1]
    return tuple(part.replace("~1", "/").replace("~0", "~") for part in parts)
