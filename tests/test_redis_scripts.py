"""What every script must be, and how long the server is held up by the largest legal requests."""

import re
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis as TypedRedis

import stores_redis
from stores_core import (
    Backend,
    Event,
    MemoryItem,
    Message,
    StoreUnavailableError,
    open_backend,
)
from stores_core.limits import CEILINGS
from stores_redis.scripts import Script
from tests.redis_costs import BLOCKS, costs_of_scripts
from tests.redis_server import with_prefix

Redis: Any = TypedRedis  # its types are partly unknown
LUA = sorted((Path(stores_redis.__file__).parent / "lua").glob("*.lua"))
PARTS = {
    part
    for path in LUA
    for line in re.findall("^-- with: (.*)$", path.read_text("utf-8"), re.MULTILINE)
    for part in line.split()
}
"""What stands before other scripts, and is none itself."""

TRIES = 4


@pytest.mark.parametrize("path", LUA, ids=lambda path: path.stem)
def test_a_script_says_what_it_takes_gives_and_guarantees(path: Path) -> None:
    text = path.read_text("utf-8")
    head = re.match(r"(?:--.*\n)+", text)
    assert head
    assert max(map(len, text.splitlines())) <= 100
    if path.stem in PARTS:
        return
    takes_more = "ARGV[" in text.replace(head[0], "")
    for word in ("-- KEYS", "-- Reply", *(["-- ARGV"] if takes_more else [])):
        assert word in head[0], f"{path.name} does not say {word}"


@pytest.mark.parametrize("path", LUA, ids=lambda path: path.stem)
def test_a_script_decodes_nothing_and_makes_no_globals(path: Path) -> None:
    text = re.sub(r"--.*", "", path.read_text("utf-8"))
    assert "cjson" not in text
    assert "cmsgpack" not in text
    assert not re.findall(r"^\s*function\s", text, re.MULTILINE), "a global function"


@pytest.mark.parametrize("version", ["new", "old"])
async def test_every_script_is_understood(redis: str, version: str) -> None:
    """With the head that Redis 7 and newer read, and without."""
    async with Redis.from_url(redis) as client:
        for path in LUA:
            if path.stem in PARTS:
                continue
            digest, text = Script(path.stem).prepared(headed=version == "new")
            if version == "new" and int((await client.info("server"))["redis_version"][0]) < 7:
                pytest.skip("this server reads no heads")
            assert (await client.script_load(text)).encode() == digest


async def test_a_server_that_forgot_its_scripts_is_told_them_again(redis_url: str) -> None:
    async with (
        open_backend(redis_url) as backend,
        Redis.from_url(redis_url.partition("?")[0]) as client,
    ):
        for n in range(3):
            await client.script_flush()
            assert (await backend.runs.create_run(run_id=f"{n}")).created
            await client.script_flush()
            assert (await backend.runs.get_run(run_id=f"{n}")).found


async def test_a_full_server_refuses_writes_and_lets_reads_and_deletes_through(
    own_redis: str,
) -> None:
    async with open_backend(with_prefix(own_redis)) as backend, Redis.from_url(own_redis) as client:
        turn = [Message(role="user", text="x" * 1_000)]
        await backend.runs.create_run(run_id="r")
        await backend.runs.append_messages(run_id="r", messages=turn)
        await client.config_set("maxmemory", 1)
        try:
            for call in (
                lambda: backend.runs.create_run(run_id="s"),
                lambda: backend.runs.append_messages(run_id="r", messages=turn),
                lambda: backend.runs.append_messages(run_id="r", messages=turn * 1_000),
                lambda: backend.runs.fork_run(run_id="r", new_run_id="s"),
            ):
                with pytest.raises(StoreUnavailableError, match="OOM"):
                    await call()
            run = (await backend.runs.load_run(run_id="r")).run
            assert run
            assert len(run.messages) == 1
            assert len((await backend.runs.list_runs()).runs) == 1
            assert (await backend.runs.delete_run(run_id="r")).deleted
        finally:
            await client.config_set("maxmemory", 0)


async def slowest(client: Any) -> tuple[int, str]:
    """The longest that a command has taken since it was last asked, and which it was."""
    log = await client.slowlog_get(10_000)
    await client.slowlog_reset()
    taken = [(entry["duration"], str(entry["command"])[:60]) for entry in log]
    return max(taken, default=(0, ""))


def texts(count: int, size: int) -> list[Message]:
    return [Message(role="user", text="x" * size) for _ in range(count)]


async def _small(backend: Backend, run: str) -> None:
    await backend.runs.append_messages(run_id=run, messages=texts(1_000, 900))


async def _staged(backend: Backend, run: str) -> None:
    await backend.runs.append_messages(run_id=run, messages=texts(1_000, 32_000))


async def _many(backend: Backend, run: str) -> None:
    await backend.runs.append_messages(run_id=run, messages=texts(10_000, 12_000))


async def _large(backend: Backend, run: str) -> None:
    for size in (60_000_000, 3_000_000):
        await backend.runs.append_messages(run_id=run, messages=texts(1, size))
    fork = (await backend.runs.fork_run(run_id=run)).run_id
    for n in range(2):
        assert (await backend.runs.read_messages(run_id=fork, start=n)).entries
    await backend.runs.delete_run(run_id=run)
    await backend.runs.delete_run(run_id=fork)


async def _loaded(backend: Backend, run: str) -> None:
    for _ in range(100):
        await backend.runs.append_messages(run_id=run, messages=texts(1_000, 200))
    assert (await backend.runs.load_run(run_id=run)).found
    assert (await backend.runs.read_messages(run_id=run, start=50_000, limit=1_000)).entries


async def _joined(backend: Backend, run: str) -> None:
    for _ in range(66):
        await backend.runs.append_messages(run_id=run, messages=texts(1_000, 100))
        run = (await backend.runs.fork_run(run_id=run)).run_id


async def _deleted(backend: Backend, run: str) -> None:
    await _many(backend, run)
    fork = (await backend.runs.fork_run(run_id=run, at_message=3)).run_id
    await backend.runs.delete_run(run_id=run)
    while (await backend.admin.sweep()).more:
        pass
    await backend.runs.delete_run(run_id=fork)


async def _listed(backend: Backend, run: str) -> None:
    labels = {f"{n}" + "k" * 500: "v" * 500 for n in range(64)}
    for _ in range(300):
        await backend.runs.create_run(labels=labels)
    assert len((await backend.runs.list_runs(limit=300)).runs) == 300
    assert len((await backend.runs.list_runs(limit=300, labels=labels)).runs) == 300


@pytest.mark.long
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "work", [_small, _staged, _many, _large, _loaded, _joined, _deleted, _listed]
)
async def test_nothing_holds_the_server_up(own_redis: str, work: Any) -> None:
    """The longest that any command took, by the server's own clock; the best of some tries, since a
    busy machine may stop the server in the middle of one."""
    found = list[tuple[int, str]]()
    async with Redis.from_url(own_redis) as client:
        was = (await client.config_get("slowlog-log-slower-than"))["slowlog-log-slower-than"]
        await client.config_set("slowlog-log-slower-than", 5_000)
        try:
            for _ in range(TRIES):
                options = "&".join(f"{name}={most}" for name, most in CEILINGS.items())
                async with open_backend(f"{with_prefix(own_redis)}&{options}") as backend:
                    run = (await backend.runs.create_run()).run_id
                    await slowest(client)
                    await work(backend, run)
                    found.append(await slowest(client))
                if found[-1][0] < BLOCKS:
                    return
        finally:
            await client.config_set("slowlog-log-slower-than", was)
    raise AssertionError(f"microseconds that commands took: {found}")


async def _labelled(backend: Backend, run: str) -> None:
    """As many labels as a run may have, of as many bytes, changed, inherited and taken away."""
    labels = {f"{n:02}" + "k" * 500: "v" * 500 for n in range(64)}
    await backend.runs.update_run(run_id=run, labels=labels)
    await backend.runs.update_run(run_id=run, labels=dict.fromkeys(labels, "w" * 500))
    fork = (await backend.runs.fork_run(run_id=run)).run_id
    await backend.runs.update_run(run_id=run, labels=dict.fromkeys(labels))
    await backend.runs.delete_run(run_id=fork)


async def _keyed(backend: Backend, run: str) -> None:
    """Keyed batches and a fork of a run that reads as many ranges as one may."""
    for n in range(63):
        await backend.runs.append_messages(
            run_id=run, messages=texts(1, 100), events=[Event(kind="e")], idempotency_key=f"{n}"
        )
        run = (await backend.runs.fork_run(run_id=run)).run_id
    for n in range(140):
        await backend.runs.append_events(
            run_id=run, events=[Event(kind="e")], idempotency_key=f"{n}" + "k" * 500
        )
    assert (await backend.runs.load_run(run_id=run, last_messages=20)).found


async def _moved(backend: Backend, run: str) -> None:
    moving = backend.moving
    assert moving is not None
    for _ in range(3):
        await backend.runs.append_messages(run_id=run, messages=texts(10_000, 200))
    for n in range(200):
        await backend.memory.put_memory(item=MemoryItem(key="k", value="v"), namespace=f"{n}")
    [record] = (await moving.export_runs()).runs
    entries = await moving.export_entries(log=record.messages[0].log, limit=1_000)
    assert len(entries.entries) == 1_000
    assert len((await moving.export_memories(limit=1_000)).memories) == 200
    assert len((await backend.memory.list_namespaces(limit=1_000)).namespaces) == 200


@pytest.mark.timeout(300)
@pytest.mark.parametrize("work", [_labelled, _keyed, _moved])
async def test_no_script_computes_for_long(
    own_redis: str, work: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = "&".join(f"{name}={most}" for name, most in CEILINGS.items())
    async with (
        Redis.from_url(own_redis) as client,
        open_backend(f"{with_prefix(own_redis)}&{options}") as backend,
    ):
        run = (await backend.runs.create_run()).run_id
        async with costs_of_scripts(client, monkeypatch) as costs:
            await work(backend, run)
    assert costs
    assert max(costs)[0] < BLOCKS, sorted(costs)[-5:]
