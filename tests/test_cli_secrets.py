"""Passwords in URLs, and content that would steer a terminal: neither is ever shown."""

import asyncio
import re
from importlib import import_module
from typing import Any
from urllib.parse import quote

import pytest

from stores_cli.output import printable
from stores_cli.urls import shown
from tests.command_line import run

asyncpg: Any = import_module("asyncpg")  # which brings no types


@pytest.mark.parametrize(
    ("url", "seen"),
    [
        ("postgresql://ada:S3cret@h:5/d", "postgresql://ada:***@h:5/d"),
        ("redis://:S3cret@h/0", "redis://:***@h/0"),
        ("postgresql://ada:S3c/ret@x?#@h/d", "postgresql://ada:***@h/d"),
        ("postgresql://ada:p%40%3AS3cret@h/d", "postgresql://ada:***@h/d"),
        ("redis://h/0?password=S3cret&db=1", "redis://h/0?password=***&db=1"),
        ("redis://h/0?ssl_keyfile=S3cret", "redis://h/0?ssl_keyfile=***"),
        ("postgresql://ada@h:5/d?tenant=a", "postgresql://ada@h:5/d?tenant=a"),
        ("sqlite:agent.db", "sqlite:agent.db"),
    ],
)
def test_a_password_is_never_shown(url: str, seen: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert shown(url) == seen
    if "S3c" in url:
        broken = url.replace("h/", "127.0.0.1:9/").replace("h:5", "127.0.0.1:9")
        for arguments in (
            ("doctor", broken),
            ("doctor", f"nodb{broken}"),
            ("doctor", "memory:", broken),
            ("doctor", f"--tenant={broken}", broken, broken),
            ("runs", "list", "--limit", broken, "memory:"),
            ("copy", broken, "memory:"),
            ("import", broken),
            ("runs", "list", f"--limit={broken}", "memory:"),
            ("runs", "list", f"--{broken}", "memory:"),
        ):
            ran = run(*arguments)
            assert ran.code == 2, arguments
            assert "S3c" not in ran.out + ran.err, arguments
        monkeypatch.setenv("AGENT_STORES_URL", broken)
        assert "S3c" not in run("doctor").err


def test_a_password_with_odd_signs_opens_and_stays_hidden(postgres_url: str) -> None:
    secret = "p%40@:/#%"

    _execute(postgres_url, f"CREATE ROLE odd SUPERUSER LOGIN PASSWORD '{secret}'")
    url = re.sub(r"//[^@]*@", f"//odd:{quote(secret, safe='')}@", postgres_url)
    try:
        for arguments in (("migrate", "up"), ("migrate", "status"), ("doctor",), ("sweep",)):
            ran = run(*arguments, url)
            assert ran.code in (0, 1), ran.err
            assert secret not in ran.out + ran.err
            assert quote(secret, safe="") not in ran.out + ran.err
    finally:
        _execute(postgres_url, "REASSIGN OWNED BY odd TO CURRENT_USER; DROP ROLE odd")


def _execute(url: str, statement: str) -> None:
    async def work() -> None:
        connection = await asyncpg.connect(url)
        try:
            await connection.execute(statement)
        finally:
            await connection.close()

    asyncio.run(work())


def test_what_could_steer_a_terminal_is_shown_by_its_code() -> None:
    assert printable("a\x1b[2Jb\x07\x9b") == "a\\x1b[2Jb\\x07\\x9b"
    assert printable("\u202e\u2028\x7f") == "\\u202e\\u2028\\x7f"
    assert printable("one\ntwo\t") == "one\\x0atwo\\x09"
    assert printable("one\ntwo\r\t", lines=True) == "one\ntwo\\x0d\t"
    assert printable("שלום 🚀 é \u00a0 [red]") == "שלום 🚀 é \u00a0 [red]"
