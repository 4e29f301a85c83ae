"""One run of the suite: what is examined, pytest with settings of the suite's own, the verdict."""

import argparse
import importlib.util
import json
import os
import sys
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from conformance_tests.contract import guarantees
from conformance_tests.lab import Bench
from conformance_tests.opener import Opener, UnusableOpenerError, explained, find
from conformance_tests.record import Record
from conformance_tests.report import as_badge, as_json, as_markdown, table
from conformance_tests.verdict import COULD_NOT_RUN, Facts, Verdict
from stores_core.backend import Backend
from stores_core.errors import StoreError

HERE = Path(__file__).resolve().parent
SUITE = HERE / "suite"

_DESCRIPTION = """\
Examine a backend: MODULE:OPENER is a function that gives an async context manager of a
stores_core.Backend and may take `tenant`, `embedder`, `clock` and options of its own, and `server`:
the HOST:PORT to connect to in place of that of --server, which is a proxy then.
All further options go to pytest: -k, -x, -v, -n 2 and so on."""

# What a host project may have set to bring plugins and options into every pytest run.
_HOST_SETTINGS = ("PYTEST_ADDOPTS", "PYTEST_PLUGINS", "PYTEST_DISABLE_PLUGIN_AUTOLOAD")


def run(arguments: Sequence[str], suite: Path = SUITE) -> int:
    """Run the suite and print the verdict; the exit code."""
    given = list(arguments)
    opener = given.pop(0) if given and not given[0].startswith("-") else None
    parser = argparse.ArgumentParser(
        prog="python -m conformance_tests",
        usage="%(prog)s (MODULE:OPENER [--server HOST:PORT] | --url URL) [--quick] [--seed N] "
        "[--json FILE] [--markdown FILE] [--badge FILE] [pytest options]",
        description=_DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--url", help="open by URL, as memory:NAME")
    parser.add_argument(
        "--server", metavar="HOST:PORT", help="the server behind MODULE:OPENER, to be cut off"
    )
    parser.add_argument("--quick", action="store_true", help="a few samples of each test")
    parser.add_argument("--seed", type=int, default=0, help="where random sequences start from")
    parser.add_argument("--json", type=Path, metavar="FILE", help="the verdict as JSON")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="a section for a README")
    parser.add_argument("--badge", type=Path, metavar="FILE", help="a picture for it, as SVG")
    options, for_pytest = parser.parse_known_args(given)
    try:
        facts = _look_at(opener, options.url, options.server)
        if _wants_xdist(for_pytest) and importlib.util.find_spec("xdist") is None:
            raise UnusableOpenerError("-n needs pytest-xdist: pip install pytest-xdist")
    except UnusableOpenerError as error:
        print(f"could not run: {error}", file=sys.stderr)
        failed = {"verdict": "could not run", "conformant": False, "why": str(error)}
        _write(options.json, _json(failed))
        return COULD_NOT_RUN
    subject = [f"--url={options.url}"] if options.url else [f"--opener={opener}"]
    if options.server:
        subject.append(f"--server={options.server}")
    profile = [f"--seed={options.seed}", *(["--quick"] if options.quick else [])]
    record, started, begin = Record(), datetime.now(UTC), time.monotonic()
    with _host_kept_out():
        code = pytest.main(
            [*_settings(suite, for_pytest), *subject, *profile, *for_pytest, str(suite)],
            plugins=[record],
        )
    verdict = Verdict(
        facts,
        record,
        guarantees(),
        modules=[path.name for path in suite.glob("test_*.py")],
        pytest_code=int(code),
        quick=options.quick,
        seed=options.seed,
        started=started,
        seconds=time.monotonic() - begin,
    )
    print(f"\n{table(verdict)}", flush=True)
    _write(options.json, _json(as_json(verdict)))
    _write(options.markdown, as_markdown(verdict))
    _write(options.badge, as_badge(verdict))
    return verdict.exit_code


def _look_at(opener: str | None, url: str | None, server: str | None) -> Facts:
    """Open the storage once, so that what cannot be opened is said before any test runs."""
    found = find(opener, url, server)
    bench = Bench(found)
    try:
        facts = Facts.of(found.name, bench.backend, bench.run(_versions(bench.backend)))
    finally:
        _close(bench, found)
    return facts


async def _versions(backend: Backend) -> Mapping[str, str]:
    """What the backend's admin says of its server and format; a fault there is for the tests."""
    if "admin" not in backend.offered:
        return {}
    try:
        return (await backend.admin.check()).versions
    except StoreError:
        return {}


def _close(bench: Bench, found: Opener) -> None:
    try:
        bench.close()
    except Exception as error:
        raise explained(found, error, "closing") from error


def _settings(suite: Path, for_pytest: Sequence[str]) -> list[str]:
    settings = [
        "-q",
        f"--rootdir={suite}",
        f"--confcutdir={suite}",
        "-c",
        str(HERE / "suite.ini"),
        "-p",
        "no:cacheprovider",
        "-p",
        "conformance_tests.plugin",
    ]
    return [*settings, "-p", "xdist.plugin"] if _wants_xdist(for_pytest) else settings


def _wants_xdist(for_pytest: Sequence[str]) -> bool:
    return any(
        option.startswith("--numprocesses")
        or (option.startswith("-n") and not option.startswith("--"))
        for option in for_pytest
    )


@contextmanager
def _host_kept_out() -> Generator[None]:
    before = {name: os.environ.pop(name) for name in _HOST_SETTINGS if name in os.environ}
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    try:
        yield
    finally:
        del os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"]
        os.environ.update(before)


def _json(verdict: Mapping[str, object]) -> str:
    return json.dumps(verdict, indent=2, ensure_ascii=False)


def _write(path: Path | None, text: str) -> None:
    if path is not None:
        path.write_text(text, encoding="utf-8")
