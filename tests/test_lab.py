"""What a test of the suite is given to work with, and what it has to say about itself."""

from pathlib import Path
from typing import Any, cast

import pytest

from conformance_tests.lab import Lab
from conformance_tests.proves import Proof, proof_of, proves
from tests.host import Host


@pytest.fixture
def host(tmp_path: Path, root: Path) -> Host:
    return Host(tmp_path, root)


def test_a_test_has_to_say_what_it_proves_and_where_to_look() -> None:
    async def test(lab: Lab) -> None: ...

    def plain(lab: Lab) -> None: ...

    with pytest.raises(ValueError, match="luck"):
        proves("RUN-F1", needs=("luck",), look_at="x")
    with pytest.raises(ValueError, match="a place to look at"):
        proves("RUN-F1", look_at="")
    with pytest.raises(ValueError, match="guarantee's number"):
        proves(look_at="x")
    with pytest.raises(TypeError, match="async def"):
        proves("RUN-F1", look_at="x")(cast("Any", plain))
    assert proof_of(proves("RUN-F1", look_at="x")(test)) == Proof(
        ("RUN-F1",), (), "x", thorough=False
    )


LAB_TESTS = """
SEEN = []

@pytest.mark.parametrize("n", range(5))
@proves("ALL-3", look_at="nothing")
async def test_ids_are_never_the_same(lab: Lab, n: int) -> None:
    SEEN.extend(lab.new_id("x") for _ in range(10))
    assert len(set(SEEN)) == len(SEEN)
    # Nor are they with something before or behind them, as tests like to put there.
    assert not any(a != b and (a.startswith(b) or a.endswith(b)) for a in SEEN for b in SEEN)

@proves("ALL-6", needs=("shared",), look_at="nothing")
async def test_the_reader_is_another_client_of_the_same_storage(lab: Lab) -> None:
    assert lab.reader is not lab.backend
    run = (await lab.backend.runs.create_run()).run_id
    assert (await lab.reader.runs.get_run(run_id=run)).found

CLIENTS = []

@proves("ALL-12", needs=("tenant",), look_at="nothing")
async def test_clients_of_a_test(lab: Lab) -> None:
    CLIENTS.append(await lab.open(tenant="a"))
    CLIENTS.append(await lab.open(tenant="b"))
    await lab.close(CLIENTS[0])
    assert (CLIENTS[0].opened.closed, CLIENTS[1].opened.closed) == (True, False)

@proves("ALL-12", look_at="nothing")
async def test_they_are_closed_when_it_has_ended(lab: Lab) -> None:
    assert [client.opened.closed for client in CLIENTS] == [True, True]
    assert not lab.backend.opened.closed

LOOPS = []

@pytest.mark.parametrize("n", range(2))
@proves("ALL-7", look_at="nothing")
async def test_all_run_on_one_loop(lab: Lab, n: int) -> None:
    LOOPS.append(asyncio.get_running_loop())
    assert LOOPS[0] is LOOPS[-1]
"""


def test_the_lab_keeps_what_it_promises(host: Host) -> None:
    host.tests(LAB_TESTS)
    ran = host.examine("openers:shared")
    assert ran.code == 3, ran.said
    assert (ran.verdict["checks"]["passed"], ran.verdict["checks"]["failed"]) == (10, 0)
