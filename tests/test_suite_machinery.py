"""The conformance suite examined: nothing it says is green by accident.

It is given a suite of a few lines in the place of its own, and openers to match.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from conformance_tests.contract import guarantees
from tests.host import ALL_PROVED, Host


@pytest.fixture
def host(tmp_path: Path, root: Path) -> Host:
    return Host(tmp_path, root)


def words(text: str) -> str:
    """``text`` without its line breaks."""
    return " ".join(text.split())


def test_a_backend_that_passes_everything_is_conformant(host: Host) -> None:
    host.tests(ALL_PROVED)
    ran = host.examine("openers:whole")
    assert ran.code == 0, ran.said
    assert ran.verdict["conformant"] is True
    assert ran.verdict["checks"]["passed"] == 1
    assert ran.verdict["states"]["proved"] == len(guarantees()) - 1
    assert ran.state("RUN-F10") == "unprovable"
    assert "conformant: every guarantee that applies was proved, by 1 checks" in ran.said


@pytest.mark.long
def test_a_defect_fails_with_the_guarantee_and_the_place_to_look_at(host: Host) -> None:
    host.tests(
        ALL_PROVED,
        """
        @proves("RUN-F3", needs=("runs",), look_at="where the fork point is computed")
        async def test_fork_point(lab: Lab) -> None:
            run = (await lab.backend.runs.create_run()).run_id
            answer = await lab.backend.runs.fork_run(run_id=run)
            assert answer.fork_point == 0
        """,
    )
    assert host.examine("openers:whole").code == 0
    ran = host.examine("openers:wrong_fork_point")
    assert ran.code == 1
    assert ran.verdict["verdict"] == "failed"
    assert ran.verdict["conformant"] is False
    assert ran.state("RUN-F3") == "failed"
    assert ran.of("RUN-F3")["failed"] == ["test_sample.py::test_fork_point"]
    said = words(ran.said)
    assert said.count(words(guarantees()["RUN-F3"].text)) == 2, "with the failure, in the verdict"
    assert "If this fails, look at where the fork point is computed." in said


@pytest.mark.long
def test_the_real_suite_catches_a_wrong_fork_point(host: Host) -> None:
    ran = host.examine("openers:wrong_fork_point", "--quick", "-k", "test_fork", real=True)
    assert ran.code == 1
    assert ran.state("RUN-F3") == "failed"


EACH_OF_ITS_OWN = {
    "MEM-1": ("pytest.skip('no time')", "partly run", "the test skipped itself"),
    "MEM-2": ("lab.not_applicable('it may lack that')", "proved", "it may lack that"),
    "MEM-3": ("pytest.xfail('known')", "partly run", "the test is marked as expected to fail"),
    "MEM-4": ("assert lab.backend.name == ''", "failed", ""),
    "MEM-5": ("warnings.warn('deprecated')", "failed", ""),
    "MEM-6": ("asyncio.sleep(0)", "failed", ""),  # a coroutine that is never awaited
    "MEM-7": ("await lab.open(tenant='x', no_such_option=1)", "failed", ""),
    "MEM-8": ("await asyncio.get_running_loop().create_future()", "failed", ""),
}


def test_what_a_check_does_decides_about_its_guarantee_alone(host: Host) -> None:
    host.tests(
        ALL_PROVED,
        *(
            f"""
            @proves("{number}", look_at="nothing", within=0.3)
            async def test_{index}(lab: Lab) -> None:
                {body}
            """
            for index, (number, (body, _, _)) in enumerate(EACH_OF_ITS_OWN.items())
        ),
        """
        @pytest.mark.xfail(reason="known")
        @proves("MEM-9", look_at="nothing")
        async def test_that_should_fail(lab: Lab) -> None: ...
        """,
    )
    ran = host.examine("openers:whole")
    assert ran.code == 1
    for number, (_, state, why) in EACH_OF_ITS_OWN.items():
        assert (ran.state(number), ran.of(number)["why"]) == (state, [why] if why else [])
    assert ran.state("MEM-9") == "failed", "it was expected to fail, strictly, and passed"
    assert ran.state("MEM-10") == "proved"
    assert "took longer than 0.3 seconds" in ran.said


def test_a_client_that_fails_to_close_after_its_test_is_a_failure(host: Host) -> None:
    host.write(
        "closing.py",
        """
        from openers import *

        @asynccontextmanager
        async def opener(*, tenant=""):
            async with open_memory() as backend:
                yield backend
            if tenant:
                raise OSError
        """,
    )
    host.tests(
        ALL_PROVED,
        """
        @proves("ALL-12", needs=("tenant",), look_at="closing")
        async def test_more(lab: Lab) -> None:
            await lab.open(tenant="x")
        """,
    )
    ran = host.examine("closing:opener")
    assert ran.code == 1
    assert ran.state("ALL-12") == "failed"


def test_what_a_backend_lacks_is_not_applicable_unless_it_may_not_lack_it(host: Host) -> None:
    needs = {
        "RUN-C1": ("runs", "the backend has no store `runs`"),
        "MEM-1": ("memory", "the backend has no store `memory`"),
        "EMB-1": ("embeddings", "the backend does not declare EMBEDDINGS"),
        "MOVE-1": ("moving", "the backend does not declare MOVABLE"),
        "ALL-6": ("shared", "the backend does not declare SHARED"),
        "RUN-F12": ("admin", "the backend offers no `admin`"),
        "TOOL-5": ("option:result_max_age", "the opener has no option `result_max_age`"),
    }
    rest = f"set(guarantees()) - set(UNPROVABLE) - {set(needs)}"
    host.tests(
        ALL_PROVED.replace("set(guarantees()) - set(UNPROVABLE)", rest),
        *(
            f"""
            @proves("{number}", needs=("{need}",), look_at="nothing")
            async def test_{index}(lab: Lab) -> None:
                raise AssertionError
            """
            for index, (number, (need, _)) in enumerate(needs.items())
        ),
    )
    ran = host.examine("openers:without_tenants")
    assert ran.code == 0, ran.said
    for number, (_, why) in needs.items():
        assert ran.state(number) == "not applicable"
        assert ran.of(number)["why"] == [why]
        assert f"not applicable  {why}" in ran.said


@pytest.mark.long
def test_an_opener_without_tenants_is_not_conformant(host: Host) -> None:
    host.tests(
        ALL_PROVED.replace("set(UNPROVABLE)", "set(UNPROVABLE) - {'ALL-10'}"),
        """
        @proves("ALL-10", needs=("tenant",), look_at="nothing")
        async def test_tenants(lab: Lab) -> None:
            await lab.open(tenant=lab.new_id("tenant"))
        """,
    )
    assert host.examine("openers:whole").code == 0
    ran = host.examine("openers:without_tenants")
    assert ran.code == 3
    assert ran.state("ALL-10") == "not run"
    assert "the opener takes no `tenant`" in ran.said
    assert "partial: 1 of" in ran.said


TWO_TESTS = """
@proves("MEM-1", look_at="nothing")
async def test_first(lab: Lab) -> None:
    pass

@proves("MEM-1", look_at="nothing")
async def test_second(lab: Lab) -> None:
    pass
"""


@pytest.mark.long
def test_a_run_that_leaves_tests_out_is_partial(host: Host) -> None:
    host.tests(ALL_PROVED)
    host.tests(TWO_TESTS, name="test_more.py")
    assert host.examine("openers:whole").code == 0
    for options in (["-k", "not second"], ["--deselect", "test_more.py::test_second"]):
        ran = host.examine("openers:whole", *options)
        assert (ran.code, ran.state("MEM-1")) == (3, "partly run"), ran.said
        assert ran.verdict["conformant"] is False
    ran = host.examine("openers:whole", "--ignore-glob=*test_more.py")
    assert ran.code == 3
    assert ran.verdict["modules_left_out"] == ["test_more.py"]
    assert "left out: test_more.py" in ran.said


def test_a_run_that_stopped_early_failed_and_says_what_was_not_run(host: Host) -> None:
    host.tests(TWO_TESTS.replace("pass", "raise AssertionError", 1), ALL_PROVED)
    ran = host.examine("openers:whole", "-x")
    assert ran.code == 1
    assert ran.state("MEM-1") == "failed"
    assert ran.state("MEM-2") == "not run"


@pytest.mark.parametrize("options", [["-k", "no_such_test"], ["--setup-only"]])
def test_a_run_without_a_single_check_is_an_error(host: Host, options: list[str]) -> None:
    host.tests(ALL_PROVED)
    ran = host.examine("openers:whole", *options)
    assert ran.code == 2
    assert ran.verdict["verdict"] == "could not run"
    assert ran.verdict["conformant"] is False


def test_an_empty_suite_is_an_error(host: Host) -> None:
    assert host.examine("openers:whole").code == 2


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("import no_such_module", "no_such_module"),
        ("async def test_it(lab: Lab) -> None: ...", "proves nothing: put @proves"),
        ("@proves('RUN-X9', look_at='x')\nasync def test_it(lab): ...", "proves RUN-X9, which is"),
    ],
)
def test_a_suite_that_does_not_hold_together_is_an_error(host: Host, text: str, said: str) -> None:
    host.tests(ALL_PROVED)
    host.tests(text, name="test_torn.py")
    ran = host.examine("openers:whole")
    assert ran.code == 2
    assert said in ran.said
    assert ran.verdict["conformant"] is False


SAMPLES = """
@pytest.mark.parametrize("n", range(10))
@proves("MEM-1", look_at="nothing")
async def test_samples(lab: Lab, n: int) -> None:
    assert not lab.quick or n == 0 or n == 9
"""

THOROUGH = """
@proves("MEM-1", look_at="nothing", thorough=True)
async def test_at_length(lab: Lab) -> None:
    assert not lab.quick
"""


@pytest.mark.long
def test_the_quick_profile_keeps_one_sample_and_leaves_out_what_is_thorough(host: Host) -> None:
    host.tests(ALL_PROVED, SAMPLES, THOROUGH)
    full, quick = host.examine("openers:whole"), host.examine("openers:whole", "--quick")
    assert (full.code, full.verdict["checks"]["passed"]) == (0, 12)
    assert (quick.code, quick.verdict["checks"]["passed"]) == (0, 2)
    assert quick.verdict["profile"] == "quick"
    assert quick.verdict["checks"]["cut"] == 10
    assert "conformant (quick profile)" in quick.said
    chosen = host.examine("openers:whole", "--quick", "-k", "everything or 9")
    assert chosen.verdict["checks"]["passed"] == 2, "the samples are taken of what -k leaves"


@pytest.mark.long
def test_workers_come_to_the_same_verdict(host: Host) -> None:
    host.tests(
        ALL_PROVED,
        SAMPLES,
        """
        @pytest.mark.parametrize("n", range(4))
        @proves("SUB-1", look_at="nothing")
        async def test_odd_ones(lab: Lab, n: int) -> None:
            assert n != 0

        @proves("SUB-2", needs=("shared",), look_at="nothing")
        async def test_two(lab: Lab) -> None: ...

        @proves("SUB-2", look_at="nothing")
        async def test_three(lab: Lab) -> None:
            pytest.skip()
        """,
    )
    options = ["openers:whole", "-k", "not samples or 1 or 2", "--quick"]
    alone, together = host.examine(*options), host.examine(*options, "-n", "2")
    assert alone.code == together.code == 1, together.said
    for verdict in (alone.verdict, together.verdict):
        del verdict["started"], verdict["duration_seconds"]
        for judged in verdict["guarantees"]:
            judged["why"].sort()
    assert alone.verdict == together.verdict


def make_hostile(host: Host) -> None:
    host.write(
        "pytest.ini",
        """
        [pytest]
        asyncio_mode = auto
        filterwarnings = error
        addopts = -k no_such_test --maxfail=1
        python_functions = never_*
        timeout = 0.001
        """,
    )
    host.write("conftest.py", "raise RuntimeError('the host was loaded')")
    host.write(
        "hostile.py",
        """
        import pytest

        @pytest.hookimpl(tryfirst=True)
        def pytest_runtest_call(item):
            raise RuntimeError("the plugin was loaded")
        """,
    )


@pytest.mark.long
def test_a_host_project_cannot_change_a_verdict(host: Host) -> None:
    host.tests(ALL_PROVED)
    make_hostile(host)
    settings = {"PYTEST_ADDOPTS": "-k no_such_test", "PYTEST_PLUGINS": "hostile"}
    for workers in ([], ["-n", "2"]):
        ran = host.examine("openers:whole", *workers, settings=settings)
        assert ran.code == 0, ran.said


@pytest.mark.long
def test_the_real_suite_runs_in_a_hostile_project(host: Host) -> None:
    options = ["openers:without_tenants", "--quick", "-k", "tool_text or tool_results"]
    friendly = host.examine(*options, real=True)
    make_hostile(host)
    settings = {"PYTEST_ADDOPTS": "-k no_such_test", "PYTEST_PLUGINS": "hostile"}
    ran = host.examine(*options, real=True, settings=settings)
    assert friendly.code == ran.code == 3, ran.said
    assert ran.verdict["checks"] == friendly.verdict["checks"]
    assert ran.verdict["checks"]["passed"] > 20


def test_the_suite_alone_refuses_to_be_run_by_plain_pytest(root: Path) -> None:
    suite = root / "conformance_tests" / "suite"
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-c", os.devnull, "--rootdir", suite, suite],
        cwd=root,
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert ran.returncode == 4
    assert "run the suite with `python -m conformance_tests" in ran.stdout + ran.stderr
