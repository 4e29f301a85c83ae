"""Copies at size: a large family through each pair of backends and back, and the memory it took.

``python -m tests.copying_at_size pairs`` fills each kind of backend with a family of ``--messages``
messages and ``--forks`` forks, copies it to every other kind and back into an empty storage of the
first, lets ``verify`` compare all three, and measures what the copy takes on the disk against the
source. ``python -m tests.copying_at_size peaks`` runs each command that moves data in a process of
its own, on a tenth of the messages and on all, and gives the peak of its memory; ``sessions`` does
so with `import --from` of files of such a length. ``--from`` and ``--to``, repeatable, choose
kinds. A line of JSON for each; ends with 1 where something differs or fails.
"""

import argparse
import asyncio
import json
import os
import secrets
import subprocess
import sys
import tempfile
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from itertools import product
from pathlib import Path
from random import Random
from typing import Any

from stores_core import Event, MemoryItem, Message, ToolResult, open_backend
from tests.command_line import BACKENDS, Ran, run
from tests.postgres_server import new_database, postgres_server
from tests.redis_cluster import redis_cluster
from tests.redis_server import redis_server

NewUrl = Callable[[str], str]

KINDS = (*BACKENDS, "redis-cluster")

BATCH = 500
OWN = 10
"""So many messages each fork has of its own."""

WORDS = ("tea", "Oslo", "train", "night", "seat", "window", "blue", "seven", "früh", "日本")


async def fill(url: str, *, messages: int, forks: int, seed: int = 1) -> None:
    """Put a family of so many messages in all: one root, and forks of it or of another fork."""
    random = Random(seed)
    async with open_backend(url) as backend:
        runs, own = backend.runs, min(OWN, messages // (2 * forks))
        root = messages - own * forks
        await runs.create_run(run_id="root", labels={"kind": "family"})
        for start in range(0, root, BATCH):
            said = [_message(random) for _ in range(min(BATCH, root - start))]
            events = [Event(kind="turn-end", step=start)]
            await runs.append_messages(
                run_id="root", messages=said, events=events, idempotency_key=f"k{start}"
            )
        for number in range(forks):
            source = "root" if number < 10 or random.random() < 0.8 else f"fork-{number // 2}"
            fork = f"fork-{number}"
            await runs.fork_run(run_id=source, new_run_id=fork, at_message=random.randint(1, root))
            await runs.append_messages(run_id=fork, messages=[_message(random) for _ in range(own)])
        notes = [MemoryItem(key=f"n{n}", value=_text(random)) for n in range(100)]
        await backend.memory.put_memories(items=notes, namespace="family")
        for number in range(20):
            result = ToolResult(content=[{"type": "text", "text": _text(random) * 100}])
            await backend.tool_results.put_tool_result(ref=f"r{number}", result=result)


def _message(random: Random) -> Message:
    return Message(role=random.choice(("user", "assistant")), text=_text(random))


def _text(random: Random) -> str:
    return " ".join(random.choice(WORDS) for _ in range(random.randint(5, 80)))


def there_and_back(first: str, other: str, again: str) -> dict[str, Any]:
    """Copy from ``first`` to ``other`` and from there to ``again``: what ``verify`` says of each
    pair, and the bytes of the last against those of the first."""
    for source, target in ((first, other), (other, again)):
        copied = run("copy", source, target, "--json")
        if copied.code != 0:
            return {"equal": False, "why": copied.err}
    verdicts = [
        run("verify", *pair, "--json") for pair in ((first, other), (other, again), (first, again))
    ]
    return {
        "equal": all(verdict.code == 0 for verdict in verdicts),
        "compared": verdicts[-1].document["compared"] if verdicts[-1].out else None,
        "bytesAgainstSource": round(_bytes(again) / _bytes(first), 3),
    }


def _bytes(url: str) -> int:
    async def work() -> int:
        async with open_backend(url) as backend:
            return (await backend.admin.measure()).bytes or 0

    return asyncio.run(work())


@contextmanager
def storages(kinds: Sequence[str]) -> Generator[NewUrl]:
    """What gives the URL of a new storage of a kind; with the context all are gone."""
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        servers: dict[str, str] = {}
        if "postgres" in kinds:
            servers["postgres"] = stack.enter_context(postgres_server())
        if "redis" in kinds:
            servers["redis"] = stack.enter_context(redis_server())
        if "redis-cluster" in kinds:
            servers["redis-cluster"] = stack.enter_context(redis_cluster(replicas=0)).url

        def new(kind: str) -> str:
            name = secrets.token_hex(4)
            if kind == "memory":
                return f"memory:{name}"
            if kind == "postgres":
                return asyncio.run(new_database(servers[kind]))
            if kind.startswith("redis"):
                return f"{servers[kind]}?prefix=size-{name}"
            return f"{kind}:{Path(folder) / name}"

        yield new


def _pairs(kinds: Sequence[str], others: Sequence[str], size: Mapping[str, int]) -> bool:
    fine = True
    with storages((*kinds, *others)) as new:
        for kind in kinds:
            first = new(kind)
            asyncio.run(fill(first, **size))
            for other_kind in others:
                if other_kind != kind:
                    other, again = new(other_kind), new(kind)
                    found = there_and_back(first, other, again)
                    _say({"from": kind, "by": other_kind, **size, **found})
                    fine = fine and found["equal"]
                    for url in (other, again):
                        _clear(url)
            _clear(first)
    return fine


def _clear(url: str) -> None:
    async def work() -> None:
        async with open_backend(url) as backend:
            await backend.admin.erase_tenant(tenant="", timeout=3_600)
            while (await backend.admin.sweep()).more:
                pass

    asyncio.run(work())


def _peaks(kinds: Sequence[str], others: Sequence[str], size: Mapping[str, int]) -> bool:
    fine = True
    with storages((*kinds, *others)) as new, tempfile.TemporaryDirectory() as folder:
        for kind, other in product(kinds, others):
            found: dict[str, list[int]] = {}
            for messages in (size["messages"] // 10, size["messages"]):
                source, target, again = new(kind), new(other), new(kind)
                asyncio.run(fill(source, messages=messages, forks=size["forks"]))
                archive = str(Path(folder) / secrets.token_hex(4))
                for arguments in (
                    ("copy", source, target),
                    ("verify", source, target),
                    ("export", source, "-o", archive),
                    ("import", archive, again),
                ):
                    ran, peak = _peak(*arguments, "--json")
                    fine = fine and ran.code == 0
                    found.setdefault(arguments[0], []).append(peak)
                Path(archive).unlink()
                for url in (source, target, again):
                    _clear(url)
            _say({"from": kind, "to": other, **size, "peakMiB": found})
    return fine


def _sessions(kinds: Sequence[str], size: Mapping[str, int]) -> bool:
    fine = True
    with storages(kinds) as new, tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "session.jsonl"
        for kind, (name, lines) in product(kinds, SESSIONS.items()):
            found: dict[str, list[int]] = {"fileMiB": [], "peakMiB": [], "peakMiBAgain": []}
            for messages in (size["messages"] // 10, size["messages"]):
                with path.open("w", encoding="utf-8") as file:
                    file.writelines(json.dumps(line) + "\n" for line in lines(messages))
                found["fileMiB"].append(path.stat().st_size >> 20)
                target = new(kind)
                for what, outcome in (("peakMiB", "created"), ("peakMiBAgain", "same")):
                    ran, peak = _peak("import", "--from", name, str(path), target, "--json")
                    fine = fine and ran.code == 0 and ran.document["runs"] == {outcome: 1}
                    found[what].append(peak)
                _clear(target)
            _say({"format": name, "to": kind, **size, **found})
    return fine


def _claude_code(messages: int) -> Iterator[dict[str, Any]]:
    random = Random(1)
    for n in range(messages):
        said = {"role": random.choice(("user", "assistant")), "content": _text(random)}
        yield {
            "type": said["role"],
            "sessionId": "long",
            "uuid": f"00000000-0000-4000-8000-{n:012}",
            "parentUuid": f"00000000-0000-4000-8000-{n - 1:012}" if n else None,
            "timestamp": (_BEGUN + timedelta(seconds=n)).isoformat(),
            "message": said,
        }


def _codex(messages: int) -> Iterator[dict[str, Any]]:
    random = Random(1)
    yield {"type": "session_meta", "payload": {"id": "long"}}
    for n in range(messages):
        content = [{"type": "input_text", "text": f"{n} {_text(random)}"}]
        item = {"type": "message", "role": "user", "content": content}
        at = (_BEGUN + timedelta(seconds=n)).isoformat()
        yield {"timestamp": at, "type": "response_item", "payload": item}


def _openhands(messages: int) -> Iterator[dict[str, Any]]:
    random = Random(1)
    for n in range(messages):
        said = {"role": "user", "content": [{"type": "text", "text": _text(random)}]}
        yield {"kind": "MessageEvent", "id": f"{n}", "source": "user", "llm_message": said}


_BEGUN = datetime(2026, 1, 1, tzinfo=UTC)
SESSIONS = {"claude-code": _claude_code, "codex": _codex, "openhands": _openhands}
"""Long sessions in formats of lines: a tree, one that repeats others, and a plain one."""


def _peak(*arguments: str) -> tuple[Ran, int]:
    """A command in a process of its own, and the most memory that it had, in MiB."""
    command = [sys.executable, "-m", "stores_cli", *arguments]
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        process = subprocess.Popen(command, stdout=out, stderr=err)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        err.seek(0)
        return Ran(process.returncode, out.read(), err.read()), used.ru_maxrss // 1024


def _say(line: Mapping[str, Any]) -> None:
    print(json.dumps(line), flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.copying_at_size")
    parser.add_argument("what", choices=("pairs", "peaks", "sessions"))
    parser.add_argument("--messages", type=int, default=100_000)
    parser.add_argument("--forks", type=int, default=1_000)
    parser.add_argument("--from", dest="first", action="append", choices=KINDS)
    parser.add_argument("--to", dest="other", action="append", choices=KINDS)
    chosen = parser.parse_args()
    firsts, others = (wanted or list(KINDS) for wanted in (chosen.first, chosen.other))
    size = {"messages": chosen.messages, "forks": chosen.forks}
    if chosen.what == "sessions":
        return 0 if _sessions(chosen.other or ["sqlite"], {"messages": chosen.messages}) else 1
    if chosen.what == "peaks":  # what only this process has is no other's
        firsts, others = ([kind for kind in ones if kind != "memory"] for ones in (firsts, others))
    work = _pairs if chosen.what == "pairs" else _peaks
    return 0 if work(firsts, others, size) else 1


if __name__ == "__main__":
    sys.exit(main())
