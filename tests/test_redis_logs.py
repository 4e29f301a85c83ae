"""Logs that runs share in Redis: what a fork costs, joins, large entries, what is freed."""

import asyncio
from typing import Any

import pytest
from redis.asyncio import Redis as TypedRedis

from stores_core import Backend, Message, open_backend
from stores_redis.logs import pieces
from tests.redis_embedded import embedded_redis
from tests.redis_keys import keys_of, turn
from tests.redis_server import with_prefix

Redis: Any = TypedRedis  # its types are partly unknown


@pytest.mark.long
async def test_a_fork_costs_the_same_at_any_length() -> None:
    """Bytes on the wire and bytes held, for a fork of 10 and of 100,000 messages."""
    with embedded_redis() as server:
        async with (
            open_backend(with_prefix(server.url), pool_size=1) as backend,
            Redis.from_url(server.url) as client,
        ):

            async def measured() -> tuple[int, int]:
                held = (await backend.admin.measure()).bytes
                stats = await client.info("stats")
                assert held
                return stats["total_net_input_bytes"] + stats["total_net_output_bytes"], held

            async def grown_by_a_fork(run_id: str) -> tuple[int, int]:
                before, _ = await measured()
                again, held = await measured()
                await backend.runs.fork_run(run_id=run_id)
                wire, grown = await measured()
                return wire - again - (again - before), grown - held

            costs = list[tuple[int, int]]()
            for count in (10, 100_000):
                run_id = f"{count:09d}"
                await backend.runs.create_run(run_id=run_id)
                for start in range(0, count, 1_000):
                    batch = turn(min(count - start, 1_000))
                    await backend.runs.append_messages(run_id=run_id, messages=batch)
                await backend.runs.fork_run(run_id=run_id)  # the first brings a set of users along
                await grown_by_a_fork(run_id)
                costs.append(await grown_by_a_fork(run_id))
        (short_wire, short_held), (long_wire, long_held) = costs
        assert 0 < short_held < 2_000
        assert 0 < short_wire < 2_000
        assert abs(long_held - short_held) < 300
        assert abs(long_wire - short_wire) < 300


async def test_nothing_is_left_of_a_family_once_all_are_deleted_and_swept(redis_url: str) -> None:
    async with open_backend(redis_url) as backend:
        runs, before = backend.runs, await keys_of(redis_url)
        await runs.create_run(run_id="0", labels={"a": "b"})
        for n in range(70):  # joins, too
            await runs.append_messages(run_id=f"{n}", messages=turn(3), idempotency_key="k")
            await runs.fork_run(run_id=f"{n}", new_run_id=f"{n + 1}")
        await runs.append_messages(run_id="70", messages=turn(2, "x" * 900_000))
        for n in [*range(0, 71, 2), *range(1, 71, 2)]:
            assert (await runs.delete_run(run_id=f"{n}")).deleted
        while (await backend.admin.sweep()).more:
            pass
        assert await keys_of(redis_url) == before


async def test_forks_join_ranges_while_others_append(redis_url: str) -> None:
    """What is appended while ranges are copied is copied after them; a fork is a prefix still."""
    async with open_backend(redis_url) as one, open_backend(redis_url) as other:
        await one.runs.create_run(run_id="0")
        for n in range(63):
            await one.runs.append_messages(run_id=f"{n}", messages=turn(1 + n % 3, f"{n}"))
            await one.runs.fork_run(run_id=f"{n}", new_run_id=f"{n + 1}")
        forks = list[str]()

        async def append(backend: Backend, name: str) -> None:
            for n in range(60):
                batch = turn(2, f"{name} {n}")
                assert (await backend.runs.append_messages(run_id="63", messages=batch)).applied

        async def fork(backend: Backend, name: str) -> None:
            for n in range(20):
                answer = await backend.runs.fork_run(run_id="63", new_run_id=f"{name} {n}")
                assert answer.created
                forks.append(answer.run_id)

        await asyncio.gather(
            *(append(one, name) for name in "ab"), *(append(other, name) for name in "cd"),
            *(fork(one, name) for name in "ef"), *(fork(other, name) for name in "gh"),
        )  # fmt: skip
        source = (await one.runs.load_run(run_id="63")).run
        assert source
        texts = [message.text for message in source.messages]
        assert len(set(texts)) == len(texts) == sum(1 + n % 3 for n in range(63)) + 4 * 60 * 2
        lengths = set[int]()
        for run_id in forks:
            run = (await other.runs.load_run(run_id=run_id)).run
            assert run
            assert [message.text for message in run.messages] == texts[: run.fork_point]
            lengths.add(run.fork_point)
        assert len(lengths) > 10, "they were made while the source grew"
        [record] = [
            run for run in (await one.moving.export_runs(limit=1_000)).runs if run.info.id == "63"
        ]
        assert len(record.messages) < 20, "and its ranges were joined"
        assert not (await one.admin.verify()).problems


@pytest.mark.long
async def test_large_entries_are_kept_in_parts_and_come_back_whole(redis_url: str) -> None:
    """Appended, read, forked, joined, moved, deleted."""
    sizes = [10, 3_000_000, 1_048_576, 1_100_000, 20]

    def sized(n: int) -> list[Message]:
        return [Message(role=f"{n}", text=f"{n % 10}ä" * (size // 3)) for size in sizes]

    async with (
        open_backend(redis_url) as backend,
        open_backend(redis_url, tenant="other") as other,
    ):
        runs, wanted = backend.runs, list[Message]()
        await runs.create_run(run_id="0")
        for n in range(66):
            batch = sized(n) if n % 32 == 1 else turn(1, f"{n}")
            await runs.append_messages(run_id=f"{n}", messages=batch)
            wanted += batch
            await runs.fork_run(run_id=f"{n}", new_run_id=f"{n + 1}")
        parts = [key for key in await keys_of(redis_url) if "!" in key]
        assert len(parts) > 6, "some were copied, in a join"

        async def holds(backend: Backend) -> None:
            run = (await backend.runs.load_run(run_id="66")).run
            assert run
            assert [(one.role, one.text) for one in run.messages] == [
                (one.role, one.text) for one in wanted
            ]
            start, texts = 1, list[str | None]()
            while start < len(wanted):  # pages end at 16 MiB
                page = await backend.runs.read_messages(run_id="66", start=start, limit=1_000)
                start, texts = page.next, [*texts, *(one.text for one in page.entries)]
            assert texts == [one.text for one in wanted[1:]]
            last = (await backend.runs.load_run(run_id="66", last_messages=6)).run
            assert last
            assert [one.text for one in last.messages] == [one.text for one in wanted[-6:]]

        await holds(backend)
        record = next(
            run for run in (await backend.moving.export_runs()).runs if run.info.id == "66"
        )
        for part in record.messages:
            brought = 0
            while brought < part.length:
                found = await backend.moving.export_entries(
                    log=part.log, start=brought, limit=min(1_000, part.length - brought)
                )
                answer = await other.moving.import_entries(
                    log=part.log, start=brought, entries=found.entries
                )
                brought = answer.length
        await other.moving.import_run(run=record)
        await holds(other)
        assert not (await backend.admin.verify()).problems
        for n in range(67):
            await runs.delete_run(run_id=f"{n}")
        while (await backend.admin.sweep()).more:
            pass
        await holds(other)
        await other.runs.delete_run(run_id="66")
        assert not [key for key in await keys_of(redis_url) if ":seg:" in key]


def test_batches_are_cut_where_a_command_takes_no_more() -> None:
    assert [len(piece.texts) for piece in pieces([b"x"] * 2_500)] == [1_000, 1_000, 500]
    big = [b"x" * 400_000] * 5
    assert [len(piece.texts) for piece in pieces(big)] == [2, 2, 1]
    assert [len(piece.texts) for piece in pieces([b"x" * 3_000_000, b"y"])] == [1, 1]
    assert pieces([]) == []
