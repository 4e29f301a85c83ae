"""The suite's pytest plugin: its options, the `lab` of each test, the guarantee in each failure."""

import textwrap
from collections.abc import Generator
from typing import Any

import pytest

from conformance_tests.contract import guarantees
from conformance_tests.lab import Bench, Lab, leave_out
from conformance_tests.opener import UnusableOpenerError, find
from conformance_tests.record import Record, the_proof_of

WIDTH = 100


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("conformance")
    group.addoption("--opener", help="MODULE:OPENER that opens the storage under examination")
    group.addoption("--url", help="the URL of the storage under examination")
    group.addoption("--server", help="HOST:PORT of the server behind the opener")
    group.addoption("--quick", action="store_true", help="a few samples of each test")
    group.addoption("--seed", type=int, default=0, help="where sequences at random start from")
    group.addoption("--examples", type=int, default=0, help="so many sequences at random a test")


def pytest_configure(config: pytest.Config) -> None:
    if hasattr(config, "workerinput"):
        config.pluginmanager.register(Record())


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    known = guarantees()
    for item in items:
        for number in the_proof_of(item).numbers:
            if number not in known:
                raise pytest.UsageError(f"{item.nodeid} proves {number}, which is no guarantee")


@pytest.fixture(scope="session")
def bench(request: pytest.FixtureRequest) -> Generator[Bench]:
    """The event loop and the clients that all tests of this process share."""
    option = request.config.option
    try:
        opener = find(option.opener, option.url, option.server)
        bench = Bench(opener, quick=option.quick, seed=option.seed, examples=option.examples)
    except UnusableOpenerError as error:
        pytest.exit(str(error), returncode=2)
    yield bench
    bench.close()


@pytest.fixture
def lab(bench: Bench, request: pytest.FixtureRequest) -> Generator[Lab]:
    """The lab of one test; a test whose needs are not met is skipped here, with the reason."""
    item: pytest.Item = request.node
    for need in the_proof_of(item).needs:
        unmet = bench.unmet(need)
        if unmet is not None:
            leave_out(unmet, item.user_properties)
    lab = Lab(bench, item.user_properties)
    yield lab
    lab.end()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[Any]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.failed:
        report.sections.insert(0, ("What this test proves", _explained(item)))
    return report


def _explained(item: pytest.Item) -> str:
    proof, known = the_proof_of(item), guarantees()
    said = [f"{number} ({known[number].home}) {known[number].text}" for number in proof.numbers]
    paragraphs = [*said, f"If this fails, look at {proof.look_at}."]
    return "\n".join(textwrap.fill(paragraph, WIDTH) for paragraph in paragraphs)
