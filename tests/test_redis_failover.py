"""A failover loses nothing that was acknowledged; the long run is ``python -m
tests.redis_failover``."""

import json
from pathlib import Path

import pytest

from stores_core import InvalidRequestError, StoreUnavailableError, open_backend
from tests.conftest import Python


@pytest.mark.long
@pytest.mark.timeout(400)
def test_twenty_failovers_lose_nothing_that_a_replica_had(root: Path, python: Python) -> None:
    ran = python("-m", "tests.redis_failover", "--kills", "20", cwd=root, seconds=380)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert json.loads(ran.stdout.splitlines()[-1])["kills"] == 20


async def test_a_name_is_needed_of_what_is_watched_over() -> None:
    with pytest.raises(InvalidRequestError, match="what the Sentinels watch over") as refused:
        async with open_backend("redis+sentinel://:secret@127.0.0.1:1"):
            pass
    assert "secret" not in str(refused.value)


async def test_without_a_sentinel_nothing_is_sent() -> None:
    with pytest.raises(StoreUnavailableError, match="nothing was applied"):
        async with open_backend("redis+sentinel://:secret@127.0.0.1:1/watched"):
            pass
