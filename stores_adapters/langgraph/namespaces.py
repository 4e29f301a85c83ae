"""LangGraph's namespaces, tuples of labels, as the flat names that working memory has."""

from collections.abc import Sequence

from langgraph.store.base import MatchCondition

ROOT = "langgraph/"
"""What all names begin with, so that notes of others in the same memory stay theirs."""


def flat(labels: Sequence[str]) -> str:
    """The name of a namespace: the root, then each label, escaped, and a slash after it.

    No two tuples share a name. The name of a tuple is a prefix of another's exactly where its
    labels are the first labels of the other, so a prefix never ends inside a label.
    """
    escaped = (label.replace("~", "~0").replace("/", "~1") + "/" for label in labels)
    return ROOT + "".join(escaped)


def labels_of(name: str) -> tuple[str, ...]:
    """The inverse of :func:`flat`."""
    parts = name.removeprefix(ROOT).split("/")[:-1]
    return tuple(part.replace("~1", "/").replace("~0", "~") for part in parts)


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
