"""What cannot be examined is said plainly, before any test runs."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from conformance_tests.__main__ import main
from tests.host import ALL_PROVED, Host


@pytest.fixture
def host(tmp_path: Path, root: Path) -> Host:
    return Host(tmp_path, root)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "name what to examine"),
        (["openers:whole", "--url", "memory:"], "name what to examine"),
        (["openers"], "write MODULE:OPENER"),
        (["no_such_module:opener"], "no module 'no_such_module'; install it"),
        (["openers:no_such_opener"], "has nothing at 'no_such_opener'"),
        (["openers:number"], "has a int at 'number'"),
        (["openers:forgot_the_decorator"], "put @asynccontextmanager above"),
        (["openers:yields_a_store"], "yields a stores_core.Backend"),
        (["openers:fails_to_open"], "opening openers:fails_to_open failed: OSError"),
        (["openers:fails_to_close"], "closing openers:fails_to_close failed: OSError"),
        (["openers:opens_once"], "as a second client beside the first, which SHARED promises"),
        (["--url", "nowhere:x"], "a scheme that no installed package offers"),
        (["--url", "memory:x?no_such_option=1"], "no_such_option"),
    ],
)
def test_what_cannot_be_opened_is_said_plainly(
    host: Host,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    said: str,
) -> None:
    # In this process: no inner pytest may get as far as to start.
    monkeypatch.setattr(sys, "path", [str(host.folder), *sys.path])
    monkeypatch.delitem(sys.modules, "openers", raising=False)
    report = host.folder / "verdict.json"
    assert main([*arguments, "--json", str(report)], suite=host.suite) == 2
    printed = capsys.readouterr()
    assert said in printed.err
    assert printed.out == ""
    assert "hunter2" not in printed.err
    verdict: dict[str, Any] = json.loads(report.read_text("utf-8"))
    assert verdict["conformant"] is False
    assert said in verdict["why"]


def test_an_unknown_option_is_an_error(host: Host) -> None:
    host.tests(ALL_PROVED)
    ran = host.examine("openers:whole", "--no-such-option")
    assert ran.code == 2
    assert "--no-such-option" in ran.said
