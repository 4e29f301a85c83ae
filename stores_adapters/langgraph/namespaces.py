"""LangGraph's namespaces, tuples of labels, as the flat names that working memory has."""

from collections.abc import Sequence

from langgraph.store.base import MatchCondition

from stores_adapters.paths import joined, names_of

ROOT = "langgraph/"
"""What all names begin with, so that notes of others in the same memory stay theirs."""

TEXTS = "langgraph-texts/"
"""The same for the namespaces of the notes that hold the further texts of items."""


def flat(labels: Sequence[str]) -> str:
    """The name of a namespace; prefixes of names are names of prefixes."""
    return joined(ROOT, labels)


def beside(name: str) -> str:
    """The namespace of the further texts of the items in the namespace ``name``."""
    return TEXTS + name.removeprefix(ROOT)


def labels_of(name: str) -> tuple[str, ...]:
    """The inverse of :func:`flat`."""
    return names_of(ROOT, name)


def fixed_prefix(conditions: Sequence[MatchCondition]) -> str:
    """The name that all namespaces that meet ``conditions`` begin with."""
    fixed: list[str] = []
    for condition in conditions:
        if condition.match_type == "prefix":
            path = list(condition.path)
            before_wildcard = path[: path.index("*")] if "*" in path else path
            fixed = max(fixed, before_wildcard, key=len)
    return flat(fixed)


def meets(labels: tuple[str, ...], condition: MatchCondition) -> bool:
    """Whether the labels begin or end with the condition's path, where "*" is any one label."""
    path = tuple(condition.path)
    part = labels[: len(path)] if condition.match_type == "prefix" else labels[-len(path) :]
    if not path:
        return True
    return len(part) == len(path) and all(
        wanted in ("*", label) for label, wanted in zip(part, path, strict=True)
    )
