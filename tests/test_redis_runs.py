"""How runs lie in Redis: keys, tags, what is missing, what was left over."""

import re
from typing import Any

import pytest
from redis.asyncio import Redis as TypedRedis

from stores_core import (
    Backend,
    CorruptRecordError,
    InvalidRequestError,
    StoreUnavailableError,
    open_backend,
)
from stores_redis.keys import Bucket, check_prefix, decoded, encoded
from tests.redis_keys import keys_of, remove, turn

Redis: Any = TypedRedis  # its types are partly unknown
NASTY = ["a", "{b}", "a}b{c", "*", "[x]?", "a:b", "a%3ab", "%", "\\", "\x01\n", " ", "é€😀", "."]


def test_names_in_keys_are_distinct_and_can_be_read_back() -> None:
    assert [decoded(encoded(name)) for name in NASTY] == NASTY
    assert len({encoded(name) for name in NASTY}) == len(NASTY)
    for name in NASTY:
        assert not re.search(r"[\x00-\x20{}:*?\[\]\\.]", encoded(name))


def test_the_tag_of_a_bucket_is_the_first_in_each_key_and_its_own() -> None:
    tags = set[bytes]()
    for tenant in NASTY:
        for number in (0, 1, 12):
            bucket = Bucket("p", tenant, number)
            keys = [bucket.run(id) for id in NASTY] + [bucket.forks(id) for id in NASTY]
            assert len(set(keys)) == len(keys)
            found = {re.findall(rb"\{(.*?)\}", key)[0] for key in [*keys, bucket.runs()]}
            assert len(found) == 1
            tags |= found
    assert len(tags) == 3 * len(NASTY)


@pytest.mark.parametrize("prefix", ["", "a{b", "a}", "a b", "*", "x" * 65])
def test_a_prefix_that_would_move_the_tag_is_refused(prefix: str) -> None:
    with pytest.raises(InvalidRequestError, match="prefix"):
        check_prefix(prefix)


async def test_no_step_reaches_beyond_its_bucket(redis_url: str) -> None:
    """Every key that a script or command touches bears the one tag, as a cluster wants it."""
    place = redis_url.partition("?")[0]
    prefix = redis_url.rpartition("prefix=")[2]  # others are at work on the server too
    tag = "{te%20nant.0}"
    async with (
        open_backend(redis_url, tenant="te nant") as backend,
        Redis.from_url(place, decode_responses=True) as client,
        client.monitor() as monitor,
    ):
        await everything(backend)
        await client.echo("that is all")
        touched = 0
        async for said in monitor.listen():
            command = said["command"]
            if "that is all" in command:
                break
            if said["client_type"] == "lua" or not re.match("EVAL|ECHO|WAIT", command):
                for key in re.findall(rf"{prefix}:\S*", command):
                    assert f":{tag}:" in key, command
                    touched += 1
        assert touched > 100


async def everything(backend: Backend) -> None:
    runs = backend.runs
    await runs.create_run(run_id="r", labels={"a": "b"})
    await runs.append_messages(run_id="r", messages=turn(3), idempotency_key="k")
    await runs.append_messages(run_id="r", messages=turn(3, "x" * 900_000))
    await runs.fork_run(run_id="r", new_run_id="f {x}")
    await runs.append_messages(run_id="f {x}", messages=turn(2))
    await runs.update_run(run_id="r", labels={"a": None, "c": "d"})
    assert (await runs.load_run(run_id="f {x}")).found
    assert len((await runs.list_runs(parent_id="r")).runs) == 1
    await runs.delete_run(run_id="r")
    await backend.admin.sweep()


async def test_a_run_whose_entries_were_evicted_never_reads_as_a_short_one(redis_url: str) -> None:
    async with open_backend(redis_url) as backend:
        for run_id in ("r", "s"):
            await backend.runs.create_run(run_id=run_id)
            await backend.runs.append_messages(run_id=run_id, messages=turn(3))
        await remove(redis_url, ":seg:")
        for run_id in ("r", "s"):
            with pytest.raises(CorruptRecordError):
                await backend.runs.load_run(run_id=run_id)
            with pytest.raises(CorruptRecordError):
                await backend.runs.read_messages(run_id=run_id)
            with pytest.raises(CorruptRecordError):
                await backend.runs.append_messages(run_id=run_id, messages=turn(1))
        problems = (await backend.admin.verify()).problems
        assert {(problem.store, problem.id) for problem in problems} == {
            ("runs", "r"),
            ("runs", "s"),
        }
        assert (await backend.runs.delete_run(run_id="r")).deleted
        assert (await backend.runs.create_run(run_id="r")).created
        assert (await backend.runs.append_messages(run_id="r", messages=turn(1))).message_count == 1


async def test_a_run_whose_header_was_evicted_is_not_there(redis_url: str) -> None:
    async with open_backend(redis_url) as backend:
        await backend.runs.create_run(run_id="r", labels={"a": "b"})
        await backend.runs.append_messages(run_id="r", messages=turn(3))
        await remove(redis_url, ":run:")
        assert not (await backend.runs.load_run(run_id="r")).found
        assert not (await backend.runs.list_runs()).runs
        assert (await backend.admin.verify()).problems
        assert (await backend.runs.create_run(run_id="r")).created
        run = (await backend.runs.load_run(run_id="r")).run
        assert run
        assert not run.messages


async def test_what_was_left_at_an_id_never_becomes_part_of_a_run(redis_url: str) -> None:
    """Left by a server that removed a header, or planted: old keys, entries, places in lists."""
    async with open_backend(redis_url) as backend:
        runs = backend.runs
        for run_id in ("r", "s"):
            await runs.create_run(run_id=run_id, labels={"old": "label"})
            await runs.append_messages(run_id=run_id, messages=turn(3), idempotency_key="k")
        await remove(redis_url, ":run:")
        assert (await runs.create_run(run_id="r")).created
        first = await runs.append_messages(run_id="r", messages=turn(2), idempotency_key="k")
        assert first.applied
        assert not (await runs.list_runs(labels={"old": "label"})).runs
        assert (await runs.fork_run(run_id="r", new_run_id="s", at_message=1)).created
        again = await runs.append_messages(run_id="s", messages=turn(2), idempotency_key="k")
        assert (again.applied, again.message_count) == (True, 3)
        run = (await runs.load_run(run_id="r")).run
        assert run
        assert len(run.messages) == 2


@pytest.mark.long
async def test_keys_of_another_type_are_met_before_anything_is_written(redis_url: str) -> None:
    prefix = re.findall("prefix=([^&]+)", redis_url)[0]
    async with (
        open_backend(redis_url) as backend,
        Redis.from_url(redis_url.partition("?")[0]) as client,
    ):
        await backend.runs.create_run(run_id="r")
        await backend.runs.append_messages(run_id="r", messages=turn(1))
        for planted, call in (
            ("run:new", lambda: backend.runs.create_run(run_id="new")),
            ("keys:r", lambda: backend.runs.append_messages(
                run_id="r", messages=turn(1), idempotency_key="k")),
            ("forks:r", lambda: backend.runs.fork_run(run_id="r", new_run_id="new")),
            ("trimmable", lambda: backend.runs.delete_run(run_id="r")),
        ):  # fmt: skip
            before = await keys_of(redis_url)
            await client.set(f"{prefix}:{{.0}}:{planted}", "planted")
            with pytest.raises(StoreUnavailableError, match="WRONGTYPE"):
                await call()
            await client.delete(f"{prefix}:{{.0}}:{planted}")
            assert await keys_of(redis_url) == before
        assert (await backend.runs.get_run(run_id="r")).found
