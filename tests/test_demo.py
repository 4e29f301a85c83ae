"""The demo plays to its end, and its exit code is the suite's."""

import json
import re
from pathlib import Path

import pytest

from tests.conftest import Python

pytestmark = pytest.mark.timeout(200)


def test_the_transcript_is_real_shaped(root: Path) -> None:
    lines = (root / "examples" / "transcript.jsonl").read_text("utf-8").splitlines()
    messages = [json.loads(line) for line in lines]
    assert 55 <= len(messages) <= 65
    texts = [message["text"] for message in messages]
    assert max(len(text.encode()) for text in texts) > 40_000
    assert any(len(message.get("toolCalls", ())) > 1 for message in messages)
    assert {"system", "user", "assistant", "tool"} == {message["role"] for message in messages}
    for sample in ("日本語", "👩\u200d✈\ufe0f", "Cafe\u0301", "Ä"):
        assert any(sample in text for text in texts)
    parents = [message["parentId"] for message in messages]
    assert len(parents) - len(set(parents)) == 1, "one message has two answers: the branch"
    answered = {message["toolCallId"] for message in messages if message["role"] == "tool"}
    called = {call["id"] for message in messages for call in message.get("toolCalls", ())}
    assert answered == called


@pytest.mark.long
def test_the_demo_shows_every_step_and_ends_with_a_verdict(root: Path, python: Python) -> None:
    ran = python(root / "examples" / "demo.py", seconds=150)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    for shown in (
        "not applied, still 49 messages",
        "a tool result of 42,276 characters",
        "page 1 of 106",
        "tests/test_table.py:58: AssertionError",
        "Resumed by a new client at message 49",
        "no new package: 26 messages, the first 15 shared",
        "substring “häfen” 1.00",
        "language: change notes in English and German",
        "packages: adding a package needs a yes",
        "conformant (quick profile): every guarantee that applies was proved",
    ):
        assert shown in ran.stdout
    assert ran.stdout.count("\n") < 60
    assert not re.search(r"Traceback|Error\b", ran.stderr)


def test_the_demo_fails_with_a_backend_that_is_not_conformant(root: Path, python: Python) -> None:
    # The suite opens the same URL in another process, where it is refused.
    program = f"import sys; sys.path.insert(0, {str(root / 'examples')!r})\n"
    program += "from rich.console import Console; from verdict import examine\n"
    program += "sys.exit(examine('memory:x?no_such_option=1', Console()))"
    ran = python("-c", program)
    assert ran.returncode == 2
    assert "no_such_option" in ran.stdout


@pytest.mark.long
def test_the_backend_to_start_from_is_conformant(root: Path, python: Python) -> None:
    command = ("-m", "conformance_tests", "kept_in_a_dict:open_backend", "--quick")
    ran = python(*command, cwd=root / "examples", seconds=150)
    assert ran.returncode == 0, ran.stdout[-2000:] + ran.stderr
    assert "offers tool_results\n" in ran.stdout
