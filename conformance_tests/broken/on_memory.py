"""Broken stores by name, as openers, to see what the suite says about one:

``python -m conformance_tests conformance_tests.broken.on_memory:ForkTakesOneTooFew``
"""

from contextlib import AbstractAsyncContextManager
from inspect import Parameter, Signature
from typing import Any

from conformance_tests.broken.defect import defects
from stores_core.backend import Backend


def __getattr__(name: str) -> Any:
    known = defects()
    if name not in known:
        raise AttributeError(name)
    opener = known[name].opener(f"memory:{name}")

    def open_broken(**values: Any) -> AbstractAsyncContextManager[Backend]:
        return opener.call(**values)

    keywords = [Parameter(one, Parameter.KEYWORD_ONLY) for one in sorted(opener.keywords or ())]
    open_broken.__dict__["__signature__"] = Signature(keywords)
    return open_broken
