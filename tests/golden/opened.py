"""Golden databases, laid out for a test."""

import gzip
import json
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent


def packed(name: str) -> bytes:
    """A golden file as its code left it."""
    return gzip.decompress((HERE / f"{name}.gz").read_bytes())


def export_of(name: str) -> dict[str, Any]:
    """What the code of its time read in a golden database."""
    return json.loads(packed(f"{name}.json"))
