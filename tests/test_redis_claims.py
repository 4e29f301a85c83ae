"""Forks to an id whose home is another bucket than the source lies in: each cut off after each of
its steps, with rivals at the id between any two, against the real scripts.

tests/claim_model.py explores the same protocol whole.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest
from redis.crc import key_slot

from stores_core import (
    Backend,
    InvalidRequestError,
    OutcomeUnknownError,
    StoreUnavailableError,
    open_backend,
)
from stores_core.sending import nothing_sent
from stores_redis.keys import Bucket, bucket_of
from stores_redis.storage import Storage
from tests.redis_keys import keys_of, turn
from tests.redis_steps import (
    BUCKETS,
    ENTRIES,
    STEPPED,
    Crash,
    check_whole,
    elsewhere,
    ids_of,
    opened,
    started,
    stepping,
    swept,
)


@pytest.fixture(autouse=True)
def stepped(monkeypatch: pytest.MonkeyPatch) -> None:
    send = Storage._sent  # pyright: ignore[reportPrivateUsage]

    async def sent(self: Storage, commands: Any, writes: bool, **more: Any) -> list[Any]:
        steps = STEPPED.get()
        if steps is not None:
            await steps.next()
        return await send(self, commands, writes, **more)

    monkeypatch.setattr(Storage, "_sent", sent)


SOURCE = "source"
STEPS = range(8)

Rival = Callable[[Backend, str], Awaitable[object]]


async def nothing(backend: Backend, id: str) -> None:
    pass


async def creates(backend: Backend, id: str) -> None:
    await backend.runs.create_run(run_id=id, labels={"by": "rival"})


async def forks(backend: Backend, id: str) -> None:
    await backend.runs.fork_run(run_id="other", new_run_id=id)


async def deletes(backend: Backend, id: str) -> None:
    await backend.runs.delete_run(run_id=id)


async def creates_and_deletes(backend: Backend, id: str) -> None:
    await creates(backend, id)
    await deletes(backend, id)


async def forks_and_deletes(backend: Backend, id: str) -> None:
    await forks(backend, id)
    await deletes(backend, id)


async def deletes_the_source(backend: Backend, id: str) -> None:
    await backend.runs.delete_run(run_id=SOURCE)


async def appends_to_the_source(backend: Backend, id: str) -> None:
    await backend.runs.append_messages(run_id=SOURCE, messages=turn(1))


async def sweeps(backend: Backend, id: str) -> None:
    await swept(backend)


RIVALS = [
    nothing, creates, forks, deletes, creates_and_deletes, forks_and_deletes, deletes_the_source,
    appends_to_the_source, sweeps,
]  # fmt: skip


@pytest.fixture
def crossed() -> Iterator[Counter[str]]:
    """Counts forks whose id has its home elsewhere than their source; too few are no test."""
    count = Counter[str]()
    yield count
    print(f"{count['buckets']} forks crossed buckets, {count['slots']} slots")
    assert count["buckets"] >= 20, "not run: too few forks crossed buckets"


def count_crossing(crossed: Counter[str], source: str, id: str) -> None:
    buckets = bucket_of(source, BUCKETS), bucket_of(id, BUCKETS)
    assert buckets[0] != buckets[1]
    crossed["buckets"] += 1
    slots = {key_slot(Bucket("p", "", number).tag) for number in buckets}
    crossed["slots"] += len(slots) == 2


async def test_a_forker_that_stops_leaves_no_fork_or_a_whole_one(
    redis_url: str, crossed: Counter[str]
) -> None:
    async with opened(redis_url) as forker, opened(redis_url) as backend:
        await started(backend, SOURCE)
        await started(backend, "other")
        number = 0
        for rival in RIVALS[:6]:
            for at in STEPS:
                number += 1
                id = elsewhere(SOURCE, number)
                count_crossing(crossed, SOURCE, id)
                for end in (False, True):

                    async def stop(id: str = id, rival: Rival = rival) -> None:
                        await rival(backend, id)
                        raise Crash

                    async def fork(id: str = id) -> object:
                        return await forker.runs.fork_run(run_id=SOURCE, new_run_id=id)

                    with suppress(Crash):
                        await stepping(fork, at, stop)
                    found = await backend.runs.load_run(run_id=id)
                    listed = await ids_of(backend)
                    assert found.found == (id in listed)
                    if found.run and found.run.parent_id:
                        assert len(found.run.messages) == ENTRIES
                    if end:
                        break
                    retried = await backend.runs.fork_run(run_id=SOURCE, new_run_id=id)
                    assert retried.created is not found.found
                    assert (await backend.runs.delete_run(run_id=id)).deleted
                    assert not (await backend.runs.get_run(run_id=id)).found
        await check_whole(backend, redis_url, stopped=True)


@pytest.mark.parametrize("rival", RIVALS, ids=lambda rival: rival.__name__)
async def test_a_rival_between_any_two_steps_of_a_fork_changes_no_promise(
    redis_url: str, rival: Rival, crossed: Counter[str]
) -> None:
    async with opened(redis_url) as forker, opened(redis_url) as backend:
        for number in range(24):
            at = number % 6
            await started(backend, SOURCE)
            await started(backend, "other")
            id = elsewhere(SOURCE, number)
            count_crossing(crossed, SOURCE, id)

            async def between(id: str = id) -> None:
                await rival(backend, id)

            async def fork(id: str = id) -> Any:
                return await forker.runs.fork_run(run_id=SOURCE, new_run_id=id)

            answer, met = await stepping(fork, at, between)
            found = await backend.runs.load_run(run_id=id)
            assert found.found == (id in await ids_of(backend))
            if answer.created:
                # Whoever is told so made it: it stands, unless the rival removed it since.
                assert answer.found
                assert found.run is None or found.run.parent_id == SOURCE
                assert found.found or (met and "deletes" in rival.__name__)
                if found.run:
                    assert len(found.run.messages) in (ENTRIES, ENTRIES + 1)
            elif answer.found:
                assert met, "nobody was in the way"
                if found.run:
                    assert found.run.parent_id == answer.parent_id
            else:
                assert rival is deletes_the_source
                assert not found.found
            appended = await forker.runs.append_messages(run_id=id, messages=turn(1))
            assert appended.found == found.found
            await backend.runs.delete_run(run_id=SOURCE)
            await backend.runs.delete_run(run_id="other")
            if found.run:
                after = (await backend.runs.load_run(run_id=id)).run
                assert after is not None
                assert len(after.messages) == found.run.message_count + 1
        await check_whole(backend, redis_url)


async def test_a_deleter_that_stops_leaves_a_claim_that_is_in_nobodys_way(
    redis_url: str, crossed: Counter[str]
) -> None:
    async with opened(redis_url) as deleter, opened(redis_url) as backend:
        for source in (SOURCE, "other"):
            await started(backend, source)
        number, left_over = 0, 0
        for rival in (creates, forks, nothing, deletes, sweeps):
            for at in range(1, 5):
                number += 1
                id = elsewhere(SOURCE, number)
                count_crossing(crossed, SOURCE, id)
                await backend.runs.fork_run(run_id=SOURCE, new_run_id=id)

                async def stop() -> None:
                    raise Crash

                async def delete(id: str = id) -> object:
                    return await deleter.runs.delete_run(run_id=id)

                with suppress(Crash):
                    await stepping(delete, at, stop)
                there = (await backend.runs.get_run(run_id=id)).found
                assert there == (id in await ids_of(backend))
                left_over += not there
                if rival is creates:
                    assert (await backend.runs.create_run(run_id=id)).created is not there
                elif rival is forks:
                    answer = await backend.runs.fork_run(run_id="other", new_run_id=id)
                    assert answer.created is not there
                else:
                    await rival(backend, id)
                    told = await backend.runs.append_messages(run_id=id, messages=turn(1))
                    assert told.found is (there and rival is not deletes)
        assert left_over >= 5, "not run: too few stopped between data and claim"
        await check_whole(backend, redis_url, stopped=True)


async def test_a_delete_that_waits_with_its_claim_does_not_say_that_nothing_was_done(
    redis_url: str,
) -> None:
    async with opened(redis_url) as backend:
        await started(backend, SOURCE)
        id = elsewhere(SOURCE, 0)
        await backend.runs.fork_run(run_id=SOURCE, new_run_id=id)

        async def wait() -> None:
            with nothing_sent():
                await asyncio.sleep(60)

        async def delete() -> object:
            return await backend.runs.delete_run(run_id=id, timeout=0.1)

        with pytest.raises(OutcomeUnknownError):
            await stepping(delete, 1, wait)
        assert not (await backend.runs.get_run(run_id=id)).found


async def test_an_append_by_an_old_place_is_told_to_look_again(
    redis_url: str, crossed: Counter[str]
) -> None:
    async with opened(redis_url) as old, opened(redis_url) as backend:
        for source in (SOURCE, "other"):
            await started(backend, source)
        for number in range(24):
            id = elsewhere(SOURCE, number)
            count_crossing(crossed, SOURCE, id)
            await backend.runs.fork_run(run_id=SOURCE, new_run_id=id)
            assert (await old.runs.append_messages(run_id=id, messages=turn(1))).found
            await backend.runs.delete_run(run_id=id)
            if number % 3 == 0:
                assert not (await old.runs.append_messages(run_id=id, messages=turn(1))).found
                continue
            if number % 3 == 1:
                await backend.runs.create_run(run_id=id)
            else:
                await backend.runs.fork_run(run_id="other", new_run_id=id, at_message=1)
            there = 0 if number % 3 == 1 else 1
            told = await old.runs.append_messages(run_id=id, messages=turn(1), expected_count=there)
            assert told.applied
        await check_whole(backend, redis_url)


async def test_a_claim_that_comes_late_is_refused(
    redis_url: str, crossed: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sweep may have removed the data by then."""
    async with opened(redis_url) as backend:
        await started(backend, SOURCE)
        for number in range(20):
            id = elsewhere(SOURCE, number)
            count_crossing(crossed, SOURCE, id)
            with monkeypatch.context() as patch:
                patch.setattr("stores_redis.places.CLAIMED_WITHIN", -1)
                with pytest.raises(StoreUnavailableError):
                    await backend.runs.fork_run(run_id=SOURCE, new_run_id=id)
            assert not (await backend.runs.get_run(run_id=id)).found
            assert (await backend.runs.fork_run(run_id=SOURCE, new_run_id=id)).created
        await check_whole(backend, redis_url)


async def test_a_generated_id_needs_no_claim(redis_url: str) -> None:
    async with opened(redis_url) as backend:
        await started(backend, SOURCE)
        away = elsewhere(SOURCE, 0)
        await backend.runs.fork_run(run_id=SOURCE, new_run_id=away)
        for source in [SOURCE] * 10 + [away] * 10:
            made = await backend.runs.fork_run(run_id=source)
            assert bucket_of(made.run_id, BUCKETS) == bucket_of(SOURCE, BUCKETS)
        births = [key for key in await keys_of(redis_url) if key.endswith(":births")]
        assert len(births) == 1, "only the one with a chosen id"


async def test_the_number_of_buckets_is_written_once(redis_url: str) -> None:
    async with opened(redis_url):
        pass
    async with open_backend(redis_url) as backend:
        assert (await backend.admin.check()).settings["buckets"] == str(BUCKETS)
    with pytest.raises(InvalidRequestError, match="buckets"):
        async with open_backend(redis_url, buckets=BUCKETS + 1):
            pass
