"""Opens a broken store on the URL that the environment names, for the suite to fail on."""

import os
from contextlib import AbstractAsyncContextManager
from typing import Any

from conformance_tests.broken.defect import defects
from stores_core import Backend

DEFECT, URL = "CANARY_DEFECT", "CANARY_URL"


def open_backend(**values: Any) -> AbstractAsyncContextManager[Backend]:
    """A client of that storage, spoiled."""
    return defects()[os.environ[DEFECT]].opener(os.environ[URL]).call(**values)
