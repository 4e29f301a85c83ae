"""Cuts at bytes of replies find nothing on our servers. What they find is in test_broken_faults."""

import asyncio

import pytest

from conformance_tests.faults.cutting import cut_everywhere
from conformance_tests.opener import UnusableOpenerError, find

CUTS = 60


@pytest.mark.long
@pytest.mark.parametrize("kind", ["postgres_url", "own_redis"])
def test_cuts_find_nothing_on_a_server_of_ours(request: pytest.FixtureRequest, kind: str) -> None:
    url: str = request.getfixturevalue(kind)
    tally = asyncio.run(cut_everywhere(find(None, url), CUTS, seed=3))
    assert tally.faults == []
    assert tally.made > CUTS * 0.9


async def test_a_storage_without_a_server_is_said_to_have_none() -> None:
    with pytest.raises(UnusableOpenerError, match="names no server"):
        await cut_everywhere(find(None, "memory:"), 1)
