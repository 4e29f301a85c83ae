"""Imports out of databases: LangGraph checkpoints, sessions of SDKs, stores of the Go SDK."""

import asyncio
import json
import pickle
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from agents import SQLiteSession
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from stores_cli.importing import Report, import_sessions
from stores_core import Backend, open_backend
from tests.command_line import run as command
from tests.importing_databases import Trap, loaded, make, taken, texts
from tests.postgres_server import asyncpg

SERDE = JsonPlusSerializer()
redis_client: Any = import_module("redis.asyncio").from_url
HUMAN, AI = HumanMessage("Which berth?", id="h1"), AIMessage("Four.", id="a1")
CALL = AIMessage("", id="a0", tool_calls=[{"name": "berth", "args": {"ship": "Emma"}, "id": "c1"}])
RESULT = ToolMessage("four", tool_call_id="c1", id="t1")
OTHER = HumanMessage("Is it deep?", id="h2")

CHECKPOINTS: list[tuple[str, str | None, list[Any], dict[str, Any]]] = [
    ("c1", None, [HUMAN], {"title": "Berths"}),
    ("c2", "c1", [HUMAN, CALL, RESULT], {"title": "Berths"}),
    ("c3", "c2", [HUMAN, CALL, RESULT, AI], {"title": "Berth four"}),
    ("c4", "c2", [HUMAN, CALL, RESULT, OTHER], {"title": "Depth"}),  # a branch: c3 follows c2 too
    ("c5", "c4", [HUMAN, OTHER], {"title": "Depth"}),  # two messages were removed
]


def langgraph_sqlite(path: Path, *rows: tuple[str, tuple[Any, ...]], thread: str = "t") -> str:
    insert = "INSERT INTO checkpoints VALUES (?, '', ?, ?, ?, ?, ?)"
    held: list[tuple[str, tuple[Any, ...]]] = []
    for identity, parent, messages, values in CHECKPOINTS:
        checkpoint = {
            "id": identity,
            "ts": "2026-03-01T10:00:00+00:00",
            "channel_values": {"messages": messages, **values},
        }
        kind, data = SERDE.dumps_typed(checkpoint)
        held.append((insert, (thread, identity, parent, kind, data, b'{"step": 1}')))
    return make(
        path,
        "CREATE TABLE checkpoints (thread_id TEXT, checkpoint_ns TEXT, checkpoint_id TEXT,"
        " parent_checkpoint_id TEXT, type TEXT, checkpoint BLOB, metadata BLOB)",
        "CREATE TABLE writes (thread_id TEXT, checkpoint_ns TEXT, checkpoint_id TEXT,"
        " task_id TEXT, idx INTEGER, channel TEXT, type TEXT, value BLOB)",
        "INSERT INTO writes VALUES ('t', '', 'c1', 'x', 0, 'messages', 'msgpack', X'80')",
        rows=[*held, *rows],
    )


async def check_threads(backend: Backend, report: Report) -> None:
    main = await loaded(backend, "langgraph-checkpoints:t")
    assert texts(main) == ["Which berth?", "", "four", "Four."]
    assert [message.role for message in main.messages] == ["user", "assistant", "tool", "assistant"]
    (made,) = list(main.messages[1].tool_calls or ())
    assert (made.id, made.name, made.args) == ("c1", "berth", {"ship": "Emma"})
    assert main.messages[2].tool_call_id == "c1"
    branch = await loaded(backend, "langgraph-checkpoints:t/c4")
    assert (branch.parent_id, branch.fork_point) == (main.id, 3)
    assert texts(branch)[3:] == ["Is it deep?"]
    kinds = [event.kind for event in branch.events]
    assert kinds == ["checkpoint", "messages-removed", "checkpoint"]
    first = (main.events[0].__pydantic_extra__ or {})["source"]
    assert first["values"] == {"title": "Berths"}
    second = (main.events[1].__pydantic_extra__ or {})["source"]
    assert second["values"] == {}, "a channel that did not change is not kept again"
    assert sum(report.files[0].left_out.values()) == 1  # the pending write


async def test_langgraph_threads_of_sqlite_with_their_branches(tmp_path: Path) -> None:
    async with taken(langgraph_sqlite(tmp_path / "graph.db")) as (backend, report):
        await check_threads(backend, report)


def test_langgraph_threads_of_postgres_with_their_branches(postgres_url: str) -> None:
    async def fill() -> None:
        connection = await asyncpg.connect(postgres_url)
        await connection.execute(
            "CREATE TABLE checkpoints (thread_id TEXT, checkpoint_ns TEXT, checkpoint_id TEXT,"
            " parent_checkpoint_id TEXT, type TEXT, checkpoint JSONB, metadata JSONB);"
            "CREATE TABLE checkpoint_blobs (thread_id TEXT, checkpoint_ns TEXT, channel TEXT,"
            " version TEXT, type TEXT, blob BYTEA);"
            "CREATE TABLE checkpoint_writes (thread_id TEXT, checkpoint_ns TEXT,"
            " checkpoint_id TEXT, task_id TEXT, idx INT, channel TEXT, type TEXT, blob BYTEA);"
            "INSERT INTO checkpoint_writes VALUES ('t', '', 'c1', 'x', 0, 'm', 'msgpack', 'x')"
        )
        for number, (identity, parent, messages, values) in enumerate(CHECKPOINTS):
            kind, data = SERDE.dumps_typed(messages)
            await connection.execute(
                "INSERT INTO checkpoint_blobs VALUES ('t', '', 'messages', $1, $2, $3)",
                f"{number}.5", kind, data,
            )  # fmt: skip
            checkpoint = {
                "id": identity,
                "channel_values": values,
                "channel_versions": {"messages": f"{number}.5"},
            }
            await connection.execute(
                "INSERT INTO checkpoints VALUES ('t', '', $1, $2, NULL, $3, '{}')",
                identity, parent, json.dumps(checkpoint),
            )  # fmt: skip
        await connection.close()
        async with taken(postgres_url) as (backend, report):
            assert report.files[0].format == "langgraph-checkpoints"
            await check_threads(backend, report)

    asyncio.run(fill())


async def test_nothing_that_a_checkpoint_names_is_run(tmp_path: Path) -> None:
    sprung = tmp_path / "sprung"
    insert = "INSERT INTO checkpoints VALUES (?, '', ?, NULL, ?, ?, '{}')"
    constructor: Any = {"lc": 1, "type": "constructor", "id": ["pathlib", "Path"], "kwargs": {}}
    traps = [
        (insert, ("p", "c1", "pickle", pickle.dumps(Trap(sprung)))),
        (insert, ("q", "c1", "json", json.dumps({"channel_values": {"x": constructor}}).encode())),
        (insert, ("r", "c1", *SERDE.dumps_typed({"channel_values": {"x": sprung}}))),
        (insert, ("s", "c1", "msgpack", b"\xc1 no msgpack")),
    ]
    async with taken(langgraph_sqlite(tmp_path / "graph.db", *traps)) as (backend, report):
        assert not sprung.exists()
        account = report.files[0]
        assert [damage.at for damage in account.damaged] == ["checkpoint 'c1'"]
        assert any("refused" in why for why in account.left_out)
        (event,) = (await loaded(backend, "langgraph-checkpoints:r")).events
        kept = (event.__pydantic_extra__ or {})["source"]["values"]["x"]
        assert kept["constructor"][0] == type(sprung).__module__


async def test_sessions_of_the_openai_agents_sdk(tmp_path: Path) -> None:
    path = tmp_path / "agents.db"
    session = SQLiteSession("ada", path)
    items: list[Any] = [
        {"role": "user", "content": "Which berth?"},
        {"type": "function_call", "call_id": "c1", "name": "berth", "arguments": '{"a": 1}'},
        {"type": "function_call_output", "call_id": "c1", "output": "four"},
    ]
    await session.add_items(items)
    async with open_backend("memory:") as backend:
        report = await import_sessions(backend, [str(path)])
        assert report.files[0].format == "openai-agents"
        await session.add_items([{"role": "assistant", "content": "Four."}])
        grown = await import_sessions(backend, [str(path)])
        assert grown.outcomes() == {"grown": 1}
        run = await loaded(backend, "openai-agents:ada")
        assert texts(run) == ["Which berth?", "", "four", "Four."]
        assert all(message.timestamp for message in run.messages)
    session.close()


MESSAGES: list[Any] = [
    {"role": "user", "text": "Which berth?", "timestamp": "2026-03-01T10:00:00Z"},
    {"role": "assistant", "toolCalls": [{"id": "c1", "name": "berth", "args": {}}]},
    {"role": "tool", "toolCallId": "c1", "text": "four", "own": {"kept": True}},
]
MORE = {"role": "assistant", "text": "Four."}
EVENTS: list[Any] = [
    {"kind": "turn-begin", "step": 1},
    {"kind": "turn-end", "result": {"text": "Four."}},
]
GO_RUNS: dict[str, tuple[Any, ...]] = {
    "berths": ("", 0, "2026-03-01T10:00:00Z", MESSAGES, EVENTS),
    "run-b": ("berths", 2, "2026-03-01T11:00:00Z", [*MESSAGES[:2], MORE], []),
}


async def check_go(backend: Backend, report: Report) -> None:
    assert report.files[0].format == "go-sdk"
    run = await loaded(backend, "berths")
    assert texts(run) == ["Which berth?", "", "four"]
    assert run.messages[2].tool_call_id == "c1"
    assert (run.messages[2].__pydantic_extra__ or {})["own"] == {"kept": True}
    assert [event.kind for event in run.events] == ["turn-begin", "turn-end"]
    fork = await loaded(backend, "run-b")
    assert (fork.parent_id, fork.fork_point, texts(fork)[2:]) == ("berths", 2, ["Four."])
    assert fork.labels["created"].startswith("2026-03-01")
    (damage,) = report.files[0].damaged
    assert damage.at.startswith("messages ")
    assert damage.at.endswith(" of run 'berths'")


RUN = "INSERT INTO agent_runs VALUES (?1, ?2, ?3, ?4)"
ENTRY = {
    "messages": "INSERT INTO agent_run_messages (run_id, body) VALUES (?1, ?2)",
    "events": "INSERT INTO agent_run_events (run_id, body) VALUES (?1, ?2)",
}


def go_rows() -> list[tuple[str, tuple[Any, ...]]]:
    rows: list[tuple[str, tuple[Any, ...]]] = []
    for run_id, (parent, point, created, messages, events) in GO_RUNS.items():
        rows.append((RUN, (run_id, parent, point, created)))
        for kind, entries in (("messages", messages), ("events", events)):
            rows += [(ENTRY[kind], (run_id, json.dumps(entry))) for entry in entries]
    return [*rows, (ENTRY["messages"], ("berths", '{"role": 7}'))]


def go_tables(serial: str, body: str) -> list[str]:
    entries = f"(seq {serial}, run_id TEXT NOT NULL, body {body} NOT NULL)"
    return [
        "CREATE TABLE agent_runs (id TEXT, parent_id TEXT, fork_point INTEGER, created_at TEXT)",
        f"CREATE TABLE agent_run_messages {entries}",
        f"CREATE TABLE agent_run_events {entries}",
    ]


async def test_runs_of_the_go_sdk_in_sqlite(tmp_path: Path) -> None:
    tables = go_tables("INTEGER PRIMARY KEY", "TEXT")
    async with taken(make(tmp_path / "go.db", *tables, rows=go_rows())) as (backend, report):
        await check_go(backend, report)


def test_runs_of_the_go_sdk_in_postgres(postgres_url: str) -> None:
    async def fill() -> None:
        connection = await asyncpg.connect(postgres_url)
        for table in go_tables("BIGSERIAL", "JSONB"):
            await connection.execute(table)
        for statement, values in go_rows():
            await connection.execute(statement.replace("?", "$"), *values)
        await connection.close()
        async with taken(postgres_url, format="go-sdk") as (backend, report):
            await check_go(backend, report)

    asyncio.run(fill())


@pytest.mark.parametrize("prefix", ["mcpkit.agent.run", "odd[*]prefix"])
def test_runs_of_the_go_sdk_in_redis(redis: str, prefix: str) -> None:
    async def fill() -> None:
        client: Any = redis_client(redis)
        for run_id, (parent, point, created, messages, events) in GO_RUNS.items():
            meta = {"parentId": parent, "createdAt": created, "forkPoint": point}
            await client.set(f"{prefix}:{run_id}:meta", json.dumps(meta))
            for kind, entries in (("messages", messages), ("events", events)):
                for entry in entries:
                    await client.rpush(f"{prefix}:{run_id}:{kind}", json.dumps(entry))
        await client.rpush(f"{prefix}:berths:messages", '{"role": 7}')
        await client.set(f"{prefix}:other", "not a run")
        place = redis if prefix == "mcpkit.agent.run" else f"{redis}?prefix={prefix}"
        async with taken(place) as (backend, report):
            await check_go(backend, report)
        keys = [key async for key in client.scan_iter(match="*") if key.startswith(prefix.encode())]
        await client.delete(*keys)
        await client.aclose()

    asyncio.run(fill())


async def test_a_redis_without_such_keys_says_which_were_looked_for(redis: str) -> None:
    report = await import_sessions(None, [f"{redis}?prefix=nobody"])
    assert "no run under 'nobody'" in report.files[0].refused


async def test_messages_in_any_form_and_ones_that_come_back(tmp_path: Path) -> None:
    """Removed and put back, in another form, and what is no message at all."""
    plain, odd = {"role": "user", "content": "plain", "id": "p"}, ["user", "a pair"]
    insert = "INSERT INTO checkpoints VALUES ('m', '', ?, ?, ?, ?, '{}')"
    lists: list[list[Any]] = [[HUMAN, AI], [AI], [HUMAN, AI, plain], [HUMAN, AI, plain, odd]]
    rows = [
        (insert, (f"c{n}", f"c{n - 1}", *SERDE.dumps_typed({"channel_values": {"messages": held}})))
        for n, held in enumerate(lists)
    ]
    rows.append(
        (insert, ("c9", "c1", *SERDE.dumps_typed({"channel_values": {"messages": [AI, OTHER]}})))
    )
    async with taken(langgraph_sqlite(tmp_path / "graph.db", *rows)) as (backend, _):
        run = await loaded(backend, "langgraph-checkpoints:m")
        assert texts(run) == ["Which berth?", "Four.", "plain"]
        values = [(event.__pydantic_extra__ or {})["source"].get("values") for event in run.events]
        assert values[-1] == {"messages": [odd]}
        branch = await loaded(backend, "langgraph-checkpoints:m/c9")
        assert texts(branch) == ["Which berth?", "Four.", "Is it deep?"]


def test_a_database_that_cannot_be_read_is_in_the_report_without_its_password(
    tmp_path: Path,
) -> None:
    broken = tmp_path / "broken.db"
    broken.write_bytes(b"SQLite format 3\0" + b"\xff" * 4_000)
    places = "postgresql://u:S3cret@127.0.0.1:1/db", "redis://:S3cret@127.0.0.1:1/0"
    told = command("import", "--from", "auto", *places, broken, "memory:unread", "--json")
    assert told.code == 1
    assert "S3cret" not in told.out + told.err
    assert [bool(file["refused"]) for file in told.document["files"]] == [True, True, True]
