"""Faults that processes of their own make, by a module of `conformance_tests.faults`."""

import asyncio
import json
import os
import sys
from dataclasses import asdict
from typing import Any

import pytest

from conformance_tests.lab import Lab


async def told_by(lab: Lab, module: str, made: str, count: int, seed: int, *more: str) -> Any:
    """What came of so many faults, as the module's command prints it; none was found.

    ``made`` is what the command calls them. For an opener that another process can import.
    """
    source = lab.opener.source
    assert source is not None
    child = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", module, "-"),
        *(f"--{made}", str(count), "--seed", str(seed), *more),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    said, errors = await child.communicate(json.dumps(asdict(source)).encode() + b"\n")
    if not said:
        pytest.fail(f"no fault could be made: {errors.decode(errors='replace')[-2000:]}")
    told = json.loads(said)
    assert told["faults"] == [], told["faults"]
    return told
