"""What holds for every command: help, exit codes, the environment, passwords, ends."""

import asyncio
import json
import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from stores_cli.app import main
from stores_cli.output import Output
from stores_cli.reference import helps, page
from stores_core import Message, open_backend
from tests.command_line import fill, run, sqlite, start
from tests.conftest import ROOT, Python

__all__ = ["sqlite"]  # a fixture

COMMANDS = {name: text for name, text in helps() if "\nCommands:" not in text}


def test_the_page_is_the_help_of_this_code() -> None:
    written = (ROOT / "docs" / "command-line.md").read_text("utf-8")
    assert written == page(), "run: python -m stores_cli.reference > docs/command-line.md"


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_has_an_example_and_json(name: str) -> None:
    assert f"\n  Example: {name} " in COMMANDS[name]
    assert "--json" in COMMANDS[name]
    assert run(*name.split()[1:], "--help").code == 0


def test_the_exit_codes_are_in_the_help() -> None:
    text = " ".join(run("--help").out.split())
    assert "0 fine, 1 found something or failed, 2 bad usage or unreachable, 130 stopped" in text


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("nonsense",), "No such command 'nonsense'"),
        (("runs",), "Usage: agent-stores runs"),
        (("runs", "list", "--nonsense"), "No such option: --nonsense"),
        (("runs", "show"), "Missing argument 'RUN'"),
        (("runs", "list", "--limit", "0", "memory:"), "--limit"),
        (("runs", "list"), "AGENT_STORES_URL"),
        (("runs", "list", "nodb:x"), "no installed package offers"),
        (("runs", "list", "sqlite:x.db?nonsense=1"), "nonsense"),
        (("runs", "list", "memory:", "--idle-for", "soon"), "--idle-for"),
        (("copy", "memory:a", "memory:b", "--since", "soon"), "--since"),
        (("copy", "memory:a"), "Missing argument 'DST'"),
        (("import", "nowhere.zst", "memory:"), "No such file"),
        (("import", "memory:"), "url: found none"),
        (("import", "a", "memory:", "--label", "a=b"), "--from"),
        (("conform", "nowhere:opener"), "cannot import 'nowhere'"),
    ],
)
def test_bad_usage_ends_with_2_and_says_what_to_do(
    arguments: tuple[str, ...], says: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("AGENT_STORES_URL", raising=False)
    ran = run(*arguments)
    assert ran.code == 2
    assert ran.out == ""
    assert says in ran.err
    assert "Traceback" not in ran.err


@pytest.mark.parametrize(
    ("begun", "offered"),
    [
        ("agent-stores ru", ["runs"]),
        ("agent-stores memory re", ["recall", "reembed"]),
        ("agent-stores copy --al", ["--all-tenants"]),
        ("agent-stores import --from openai-r", ["openai-responses"]),
    ],
)
def test_a_shell_completes_commands_options_and_formats(
    begun: str,
    offered: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("_AGENT_STORES_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", begun)
    monkeypatch.setenv("COMP_CWORD", str(len(begun.split()) - 1))
    with pytest.raises(SystemExit):
        main([])
    assert capsys.readouterr().out.split() == offered


@pytest.mark.parametrize("scheme", ["postgresql", "redis"])
def test_what_cannot_be_reached_ends_with_2(scheme: str) -> None:
    for command in ("doctor", "verify", "tenants"):
        ran = run(command, f"{scheme}://ada:S3cret@127.0.0.1:9/0")
        assert (ran.code, ran.out) == (2, "")
        assert "Traceback" not in ran.err
        assert "S3cret" not in ran.err


def test_the_url_may_come_from_the_environment(
    sqlite: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(sqlite, forks=0)
    monkeypatch.setenv("AGENT_STORES_URL", sqlite)
    assert run("runs", "show", "root").code == 0
    assert run("memory", "put", "a", "b").code == 0
    assert run("results", "grep", "r1", "two").out == "4: two\n"
    assert run("verify").code == 0


def test_there_is_no_bar_where_nobody_looks(sqlite: str) -> None:
    fill(sqlite, forks=0)
    ran = run("copy", sqlite, f"{sqlite}.copy")
    assert ran.err == ""
    with Output(json=False).progress("working") as step:
        step(1)


@pytest.mark.long
def test_a_terminal_gets_a_bar_and_is_asked(sqlite: str) -> None:
    fill(sqlite)
    copied, seen = on_terminal("copy", sqlite, f"{sqlite}.copy")
    assert copied == 0
    assert "copying" in seen
    assert "created" in seen
    for answer, code in (("n", 1), ("y", 0)):
        deleted, seen = on_terminal("runs", "delete", "root", sqlite, says=f"{answer}\n")
        assert "Delete the run root? [y/N]" in seen
        assert deleted == code
    assert run("runs", "show", "root", sqlite).code == 1


def on_terminal(*arguments: str, says: str = "") -> tuple[int, str]:
    """The command with a terminal as its three streams: the exit code, and what stood there."""
    ours, its = os.openpty()
    command = [sys.executable, "-m", "stores_cli", *arguments]
    with subprocess.Popen(command, stdin=its, stdout=its, stderr=its) as process:
        os.close(its)
        os.write(ours, says.encode())
        seen = b""
        while process.poll() is None or select.select([ours], [], [], 0)[0]:
            try:
                seen += os.read(ours, 65_536)
            except OSError:  # the other end is closed
                break
    os.close(ours)
    return process.returncode, seen.decode()


@pytest.mark.long
def test_every_end_leaves_nothing_open(sqlite: str) -> None:
    """The process ends at once, with a code, after success and after a failure half-way."""
    fill(sqlite)
    for arguments, code in (
        (("runs", "show", "root", sqlite), 0),
        (("runs", "show", "nobody", sqlite), 1),
        (("copy", sqlite, "postgresql://127.0.0.1:9/x"), 2),
    ):
        process = start(*arguments)
        _, err = process.communicate(timeout=90)
        assert process.returncode == code, err
        assert "Traceback" not in err
    assert not Path(f"{sqlite.partition(':')[2]}-wal").exists()


def test_a_reader_that_stops_reading_is_no_failure(sqlite: str) -> None:
    fill(sqlite, forks=0, messages=3_000)
    command = [sys.executable, "-m", "stores_cli", "runs", "show", "root", sqlite]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.wait(15) == 0
        assert process.stderr.read() == b""


@pytest.mark.long
def test_a_tail_follows_and_stops(sqlite: str) -> None:
    fill(sqlite, forks=0)
    process = start("runs", "tail", "root", sqlite, "--last", "1", "--every", "0.05", "--json")
    assert process.stdout is not None
    assert "word 5" in process.stdout.readline()

    async def say() -> None:
        async with open_backend(sqlite) as backend:
            said = [Message(role="user", text="just now")]
            await backend.runs.append_messages(run_id="root", messages=said)

    asyncio.run(say())
    assert "just now" in process.stdout.readline()
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=90)
    assert process.returncode == 130
    assert "Traceback" not in err

    again = start("runs", "tail", "root", sqlite, "--last", "1", "--every", "0.05", "--json")
    assert again.stdout is not None
    again.stdout.readline()
    assert run("runs", "delete", "root", sqlite, "--yes").code == 0
    _, err = again.communicate(timeout=90)
    assert again.returncode == 1
    assert "deleted" in err


def test_sessions_of_others_are_imported_and_damage_is_named(sqlite: str, tmp_path: Path) -> None:
    said = {"messages": [{"role": "user", "content": "hello"}], "model": "any"}
    fine, odd = tmp_path / "chat.json", tmp_path / "odd.bin"
    fine.write_text(json.dumps(said))
    odd.write_bytes(b"\0\1")
    assert run("import", "--from", "openai-chat", "--dry-run", fine).code == 0
    ran = run("import", "--from", "openai-chat", fine, sqlite, "--label", "a=b", "--json")
    assert ran.code == 0, ran.err
    (made,) = ran.document["files"][0]["runs"]
    assert "hello" in run("runs", "show", made["runId"], sqlite).out
    assert len(run("runs", "list", sqlite, "--label", "a=b", "--json").document["runs"]) == 1
    again = run("import", "--from", "openai-chat", fine, sqlite, "--json").document
    assert again["runs"] == {"same": 1}
    assert run("import", "--from", "auto", odd, sqlite).code == 1
    assert run("import", "--from", "nonsense", fine, sqlite).code == 2


def test_the_missing_extra_is_named(python: Python) -> None:
    program = (
        "import sys, importlib.util as u\n"
        "real = u.find_spec\n"
        "u.find_spec = lambda name, *rest: None if name == 'typer' else real(name, *rest)\n"
        "from stores_cli.__main__ import main\n"
        "sys.exit(main(['doctor']))"
    )
    ran = python("-c", program)
    assert ran.returncode == 2
    assert "pip install 'agent-stores[cli]'" in ran.stderr
