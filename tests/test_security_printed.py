"""What the suite prints of a storage: never its password, never what users keep there."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from stores_core import Event, MemoryItem, Message, ToolCall, ToolResult, open_backend
from tests.canary_opener import DEFECT, URL
from tests.conftest import ROOT
from tests.storages import BACKENDS, new_url

pytestmark = pytest.mark.timeout(400)
CANARY = "Zq7canaryZq7"
LOUD = ("--quick", "-vv", "--showlocals", "--tb=long", "-rA")
SPOILED = [
    ("ListedHeadersHaveNoCounts", "listing and runs_of_one_moment or full_headers"),
    ("UnknownResultIsEmpty", "an_unknown_ref"),
]


async def _fill(url: str) -> None:
    """What users keep: in the tenant that the suite opens, and in another."""
    for tenant in ("", "theirs"):
        async with open_backend(url, tenant=tenant) as backend:
            await backend.runs.create_run(run_id="users", labels={"who": CANARY})
            said = [
                Message(role="user", text=CANARY, tool_calls=[ToolCall(args={"deep": [CANARY]})])
            ]
            heard = [Event(kind="text-delta", text=CANARY)]
            await backend.runs.append_messages(run_id="users", messages=said, events=heard)
            for namespace in ("", "users"):
                item = MemoryItem(key="users", value=CANARY, metadata={"who": CANARY})
                await backend.memory.put_memory(item=item, namespace=namespace)
            result = ToolResult(content=[{"type": "text", "text": CANARY}])
            await backend.tool_results.put_tool_result(ref="users", result=result)


def _printed(*arguments: str, **environment: str) -> tuple[int, str]:
    """All that a run of the suite prints, and its exit code."""
    ran = subprocess.run(
        [sys.executable, "-X", "dev", "-m", "conformance_tests", *arguments, *LOUD],
        cwd=ROOT,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    return ran.returncode, ran.stdout + ran.stderr


@pytest.fixture(params=[backend for backend in BACKENDS if backend != "memory"])
def filled(request: pytest.FixtureRequest) -> str:
    """A storage that users have filled. (What is in memory is of one process alone.)"""
    url = new_url(request.param, request, alone=True)
    asyncio.run(_fill(url))
    return url


@pytest.mark.long
@pytest.mark.parametrize(("defect", "part"), SPOILED, ids=[one[0] for one in SPOILED])
def test_a_failing_run_at_its_loudest_shows_no_password_and_nothing_of_users(
    filled: str, defect: str, part: str, tmp_path: Path
) -> None:
    report = tmp_path / "report.json"
    opener = ("tests.canary_opener:open_backend", "--json", str(report), "-k", part)
    code, told = _printed(*opener, **{DEFECT: defect, URL: filled})
    assert code == 1, told[-3000:]
    assert "What this test proves" in told, "it failed, and explained itself"
    _check(told + report.read_text("utf-8"), filled)


@pytest.mark.long
def test_a_passing_run_at_its_loudest_shows_no_password_and_nothing_of_users(filled: str) -> None:
    code, told = _printed("--url", filled, "-k", "listing or lifecycle")
    assert " passed" in told
    assert code != 2, told[-3000:]
    _check(told, filled)


@pytest.mark.parametrize("scheme", ["redis", "rediss", "postgresql", "redis+cluster"])
def test_a_storage_that_cannot_be_opened_shows_no_password(scheme: str) -> None:
    code, told = _printed("--url", f"{scheme}://ada:{CANARY}@127.0.0.1:1/0")
    assert code == 2, told[-3000:]
    assert "could not run" in told
    assert CANARY not in told


def _check(told: str, url: str) -> None:
    assert CANARY not in told, "what users keep is printed"
    password = urlsplit(url).password
    assert not password or password not in told, "the password is printed"
