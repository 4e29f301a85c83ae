"""Which runtimes the adapters were tested with: the README's table, made from test results.

``python -m tests.runtimes`` runs the tests of every adapter, its runtime's own among them, writes
what passed to docs/runtimes.json, and the table of the README from that; with names, those of these
runtimes alone. ``--check`` says whether table, results and pinned versions agree. The tests of a
runtime are those in the files ``tests/test_<its name below>_*.py``; the backend of a test stands in
its parameters.
"""

import json
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Sequence
from importlib.metadata import version
from typing import Any, NamedTuple

import pytest

from tests.conftest import ROOT
from tests.storages import BACKENDS

README = ROOT / "README.md"
RESULTS = ROOT / "docs" / "runtimes.json"
TABLE = re.compile(r"(?<=<!-- runtimes -->\n).*?(?=<!-- /runtimes -->)", re.DOTALL)
SHOWN = {"postgres": "Postgres", "redis": "Redis", "sqlite": "SQLite", "file": "files"}


class Runtime(NamedTuple):
    """A runtime, the distribution it comes in, and what of it we are."""

    title: str
    distribution: str
    interfaces: str


RUNTIMES = {
    "langgraph": Runtime("LangGraph", "langgraph", "`BaseCheckpointSaver`, `BaseStore`"),
    "openai_agents": Runtime("OpenAI Agents SDK", "openai-agents", "`Session`"),
    "claude_agent": Runtime("Claude Agent SDK", "claude-agent-sdk", "`SessionStore`"),
    "pydantic_ai": Runtime(
        "Pydantic AI", "pydantic-ai-slim", "`ConversationStore`, message history"
    ),
    "google_adk": Runtime("Google ADK", "google-adk", "session, memory and artifact services"),
    "a2a": Runtime(
        "Agent2Agent", "a2a-sdk", "`TaskStore`, versioned and followed; push-notification configs"
    ),
    "mcp": Runtime("Model Context Protocol", "mcp", "`EventStore`"),
    "agent_framework": Runtime(
        "Agent Framework", "agent-framework-core", "history provider, checkpoint storage"
    ),
}


class Tally:
    """A pytest plugin that counts the tests that passed, of each runtime on each backend."""

    def __init__(self) -> None:
        self.passed: defaultdict[str, Counter[str]] = defaultdict(Counter)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" and report.passed:
            self.passed[runtime_of(report.nodeid)][backend_of(report.nodeid)] += 1


def runtime_of(nodeid: str) -> str:
    """The runtime whose test this is. Raises LookupError where it is no runtime's."""
    name = re.search(r"test_(\w+)\.py", nodeid)
    return next(runtime for runtime in RUNTIMES if name and name[1].startswith(runtime))


def backend_of(nodeid: str) -> str:
    """The backend in the parameters of a test; memory where there is none."""
    parameters = re.search(r"\[(.*)\]$", nodeid)
    words = parameters[1].split("-") if parameters else []
    return next((word for word in words if word in BACKENDS), "memory")


def table(results: dict[str, Any]) -> str:
    lines = ["| runtime | version | what it is to it | passed on |", "| --- | --- | --- | --- |"]
    for name, runtime in RUNTIMES.items():
        if found := results.get(name):
            on = ", ".join(
                f"{SHOWN.get(backend, backend)} {found['passed'][backend]}"
                for backend in BACKENDS
                if backend in found["passed"]
            )
            title = f"[{runtime.title}](docs/runtimes/{name.replace('_', '-')}.md)"
            lines.append(f"| {title} | {found['version']} | {runtime.interfaces} | {on} |")
    return "\n".join(lines) + "\n"


def write(names: Sequence[str]) -> int:
    files = [str(path) for name in names for path in ROOT.glob(f"tests/test_{name}_*.py")]
    tally = Tally()
    options = ["-q", "-n", "2", "-m", "probe or not probe"]
    failed = pytest.main([*options, *sorted(files)], plugins=[tally])
    if failed:
        return int(failed)
    results: dict[str, Any] = json.loads(RESULTS.read_text("utf-8")) if RESULTS.exists() else {}
    for name, passed in sorted(tally.passed.items()):
        results[name] = {
            "version": version(RUNTIMES[name].distribution),
            "passed": dict(sorted(passed.items())),
        }
    RESULTS.write_text(json.dumps(results, indent=2) + "\n", "utf-8")
    README.write_text(TABLE.sub(table(results), README.read_text("utf-8")), "utf-8")
    return 0


def check() -> int:
    """0 where all agrees; else what does not is printed."""
    results = json.loads(RESULTS.read_text("utf-8"))
    pinned = (ROOT / "constraints.txt").read_text("utf-8")
    wrong = [
        f"docs/runtimes.json: {name} was tested as {found['version']}, which is not pinned"
        for name, found in results.items()
        if f"{RUNTIMES[name].distribution}=={found['version']}\n" not in pinned
    ]
    if table(results) not in README.read_text("utf-8"):
        wrong.append("README.md: its table of runtimes is not that of docs/runtimes.json")
    print(*wrong, sep="\n", end="\n" if wrong else "")
    return len(wrong)


def main(arguments: Sequence[str]) -> int:
    match arguments:
        case ["--check"]:
            return check()
        case names if {*names} <= {*RUNTIMES}:
            return write(names or [*RUNTIMES])
        case _:
            print(f"usage: python -m tests.runtimes [--check | {' | '.join(RUNTIMES)}]")
            return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
