"""A mutant for other processes: faults are made in processes of their own, which open it by name.

``tests.mutants.elsewhere:m_HEX`` is the name of an opener, as :func:`named` makes it.
"""

import json
from dataclasses import asdict
from typing import Any

from conformance_tests.broken.defect import function_of
from conformance_tests.opener import from_url
from tests.mutants.installing import install
from tests.mutants.mutating import Mutant


def named(mutant: Mutant, package: str, url: str) -> str:
    """The MODULE:OPENER of a mutant on this storage."""
    told = json.dumps({"mutant": asdict(mutant), "package": package, "url": url})
    return f"{__name__}:m_{told.encode().hex()}"


def __getattr__(attribute: str) -> Any:
    try:
        told = json.loads(bytes.fromhex(attribute.removeprefix("m_")))
    except ValueError:
        raise AttributeError(attribute) from None
    install(Mutant(**told["mutant"]), told["package"])
    return function_of(from_url(told["url"]))
