"""Broken stores on a storage with a URL, by names that ``defect.named`` makes.

So another process can open one too.
"""

from typing import Any

from conformance_tests.broken.defect import defect_named, function_of


def __getattr__(attribute: str) -> Any:
    name, _, url = attribute.rpartition("_")
    try:
        return function_of(defect_named(name).opener(bytes.fromhex(url).decode()))
    except (KeyError, ValueError):
        raise AttributeError(attribute) from None
