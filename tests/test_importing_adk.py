"""Sessions of Google's ADK: as its own services wrote them, into SQLite, Postgres and JSON."""

import asyncio
import json
import pickle
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from google.adk.events import Event as AdkEvent
from google.adk.sessions import DatabaseSessionService

from stores_cli.importing.google_adk_tables import PICKLED, SHARED
from tests.importing_databases import Trap, loaded, make, taken, texts
from tests.postgres_server import asyncpg


@pytest.mark.parametrize("whole", [True, False], ids=["event data", "columns"])
async def test_sessions_of_the_adk_in_sqlite(tmp_path: Path, whole: bool) -> None:
    content = {"role": "user", "parts": [{"text": "Which berth?"}]}
    sprung = tmp_path / "sprung"
    tables = [
        "CREATE TABLE sessions (app_name TEXT, user_id TEXT, id TEXT, state TEXT)",
        "INSERT INTO sessions VALUES ('harbour', 'ada', 's1', '{\"berth\": 4}')",
    ]
    common = ("e1", "harbour", "ada", "s1", "i1", "2026-03-01 10:00:00.5")
    events = (
        "CREATE TABLE events (id TEXT, app_name TEXT, user_id TEXT, session_id TEXT,"
        " invocation_id TEXT, timestamp TEXT"
    )
    if whole:
        data = {"author": "user", "content": content, "timestamp": 1772359200.5}
        row = "INSERT INTO events VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)", (*common, json.dumps(data))
        tables.append(f"{events}, event_data TEXT)")
    else:
        values = *common, "user", json.dumps(content), pickle.dumps(Trap(sprung))
        row = "INSERT INTO events VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)", values
        tables.append(f"{events}, author TEXT, content TEXT, actions BLOB)")
    place = make(tmp_path / "adk.db", *tables, rows=[row])
    async with taken(place) as (backend, report):
        run = await loaded(backend, "google-adk:harbour/ada/s1")
        assert texts(run) == ["Which berth?"]
        assert not sprung.exists()
        assert report.files[0].left_out.total() == (0 if whole else 1)


async def adk_sessions(url: str) -> None:
    """Two sessions as the ADK's own service writes them, one of them still empty."""
    service = DatabaseSessionService(db_url=url)
    ids: dict[str, Any] = {"app_name": "harbour", "user_id": "ada/b"}
    await service.create_session(**ids, session_id="empty", state={"berth": 4})
    session = await service.create_session(**ids, session_id="s1", state={"app:tide": "high"})
    for number, (author, part) in enumerate(
        (
            ("user", {"text": "Which berth?"}),
            ("pilot", {"function_call": {"id": "c1", "name": "berth", "args": {"ship": "Emma"}}}),
            ("pilot", {"function_response": {"id": "c1", "name": "berth",
                                             "response": {"result": "four"}}}),
            ("pilot", {"text": "Four."}),
        )
    ):  # fmt: skip
        role = "user" if author == "user" else "model"
        content = {"role": role, "parts": [part]}
        event = {"author": author, "invocation_id": "i1", "content": content,
                 "timestamp": 1772359200.25 + number}  # fmt: skip
        await service.append_event(session, AdkEvent.model_validate(event))
    await service.db_engine.dispose()


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_sessions_that_the_service_of_the_adk_wrote(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    place, driver = str(tmp_path / "adk.db"), f"sqlite+aiosqlite:///{tmp_path / 'adk.db'}"
    if kind == "postgres":
        place = request.getfixturevalue("postgres_url")
        driver = place.replace("postgresql:", "postgresql+asyncpg:")

    async def check() -> None:
        await adk_sessions(driver)
        async with taken(place) as (backend, report):
            assert report.files[0].format == "google-adk"
            assert report.files[0].left_out == {SHARED: 2}
            run = await loaded(backend, "google-adk:harbour/ada%2Fb/s1")
            assert texts(run) == ["Which berth?", "", "four", "Four."]
            assert [message.role for message in run.messages] == [
                "user", "assistant", "tool", "assistant"
            ]  # fmt: skip
            assert run.messages[2].tool_call_id == "c1"
            assert run.messages[0].timestamp == datetime(2026, 3, 1, 10, 0, 0, 250_000, UTC)
            empty = await loaded(backend, "google-adk:harbour/ada%2Fb/empty")
            assert [event.kind for event in empty.events] == ["session-state"]

    asyncio.run(check())


def test_pickled_actions_of_the_adk_in_postgres_are_refused(
    postgres_url: str, tmp_path: Path
) -> None:
    sprung = tmp_path / "sprung"
    content = {"role": "user", "parts": [{"text": "Which berth?"}]}

    async def check() -> None:
        connection = await asyncpg.connect(postgres_url)
        await connection.execute(
            "CREATE TABLE sessions (app_name TEXT, user_id TEXT, id TEXT, state JSONB);"
            "CREATE TABLE events (id TEXT, app_name TEXT, user_id TEXT, session_id TEXT,"
            " invocation_id TEXT, timestamp TIMESTAMP, author TEXT, content JSONB, actions BYTEA);"
            "INSERT INTO sessions VALUES ('harbour', 'ada', 's1', '{}')"
        )
        await connection.execute(
            "INSERT INTO events VALUES ('e1', 'harbour', 'ada', 's1', 'i1',"
            " '2026-03-01 10:00:00.25', 'user', $1, $2)",
            json.dumps(content), pickle.dumps(Trap(sprung)),
        )  # fmt: skip
        await connection.close()
        async with taken(postgres_url) as (backend, report):
            run = await loaded(backend, "google-adk:harbour/ada/s1")
            assert texts(run) == ["Which berth?"]
            assert run.messages[0].timestamp == datetime(2026, 3, 1, 10, 0, 0, 250_000, UTC)
            assert report.files[0].left_out == {PICKLED: 1}
            assert not sprung.exists()

    asyncio.run(check())


@pytest.mark.parametrize("form", ["one", "list", "lines"])
async def test_sessions_of_the_adk_in_json_as_its_server_writes_them(
    form: str, tmp_path: Path
) -> None:
    part: Any = {"functionCall": {"id": "c1", "name": "berth", "args": {}}}
    event: Any = {"author": "pilot", "invocationId": "i1", "timestamp": 1772359200.25,
             "content": {"role": "model", "parts": [part]}}  # fmt: skip
    sessions: list[Any] = [
        {"appName": "harbour", "userId": "ada", "id": f"s{n}", "state": {}, "events": [event]}
        for n in range(1 if form == "one" else 2)
    ]
    path = tmp_path / "session.json"
    lines = "\n".join(map(json.dumps, sessions))
    path.write_text(json.dumps(sessions) if form == "list" else lines, encoding="utf-8")
    async with taken(str(path)) as (backend, report):
        assert report.outcomes() == {"created": len(sessions)}
        for n in range(len(sessions)):
            run = await loaded(backend, f"google-adk:harbour/ada/s{n}")
            (made,) = list(run.messages[0].tool_calls or ())
            assert (made.name, run.labels["app"]) == ("berth", "harbour")
