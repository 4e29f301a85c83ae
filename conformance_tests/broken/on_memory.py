"""Broken stores by name, as openers, to see what the suite says about one:

``python -m conformance_tests conformance_tests.broken.on_memory:ForkTakesOneTooFew``
"""

from typing import Any

from conformance_tests.broken.defect import defect_named, function_of


def __getattr__(name: str) -> Any:
    try:
        return function_of(defect_named(name).opener(f"memory:{name}"))
    except KeyError:
        raise AttributeError(name) from None
