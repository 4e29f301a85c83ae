"""The A2A task stores: what a2a-sdk asks of any TaskStore, then what ours promises beyond.

The source distribution of a2a-sdk leaves its tests out, so these ask the same of the two stores.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest

pytest.importorskip("a2a", reason="needs the extra a2a")

from a2a.server.context import ServerCallContext
from a2a.server.tasks import InMemoryTaskStore, TaskStore
from a2a.types.a2a_pb2 import (
    TASK_STATE_CANCELED,
    TASK_STATE_COMPLETED,
    TASK_STATE_SUBMITTED,
    TASK_STATE_WORKING,
    Artifact,
    ListTasksRequest,
    Part,
    Task,
    TaskStatus,
)
from a2a.utils.errors import InvalidParamsError

from stores_adapters.a2a import BackendTaskStore
from stores_core import Backend, open_backend
from tests.a2a_tasks import ANNA, a_full_task, a_task, call_of, copied, day, says
from tests.meanwhile import Meanwhile, repeating


@asynccontextmanager
async def opened(url: str) -> AsyncGenerator[tuple[Backend, BackendTaskStore]]:
    async with open_backend(url) as backend:
        yield backend, BackendTaskStore(backend)


async def found(store: TaskStore, id: str = "t", call: ServerCallContext = ANNA) -> Task:
    task = await store.get(id, call)
    assert task is not None
    return task


async def test_a_task_comes_back_equal(url: str) -> None:
    async with opened(url) as (_, store):
        await store.save(a_full_task(), ANNA)
        assert await found(store) == a_full_task()


async def test_what_json_cannot_carry_comes_back_equal(url: str) -> None:
    odd = a_task(metadata={"minus": -0.0, "not": float("nan")})
    newer = Task.FromString(odd.SerializeToString() + b"\xf8\x07\x01")  # a field of a newer A2A
    async with opened(url) as (_, store):
        await store.save(newer, ANNA)
        got = (await found(store)).SerializeToString(deterministic=True)
        assert got == newer.SerializeToString(deterministic=True)


async def test_an_unknown_task_is_none_and_its_deletion_does_nothing(url: str) -> None:
    async with opened(url) as (_, store):
        assert await store.get("t", ANNA) is None
        await store.delete("t", ANNA)


async def test_a_deleted_task_is_gone_and_may_come_anew(url: str) -> None:
    async with opened(url) as (_, store):
        await store.save(a_full_task(), ANNA)
        await store.delete("t", ANNA)
        assert await store.get("t", ANNA) is None
        assert (await store.list(ListTasksRequest(), ANNA)).total_size == 0
        await store.save(a_task(), ANNA)
        assert await found(store) == a_task()


async def test_status_and_metadata_are_replaced(url: str) -> None:
    async with opened(url) as (_, store):
        task = a_full_task()
        await store.save(task, ANNA)
        task.status.CopyFrom(TaskStatus(state=TASK_STATE_COMPLETED, timestamp=day(2)))
        task.metadata.Clear()
        task.metadata["after"] = "word"
        await store.save(task, ANNA)
        assert await found(store) == task
        task.metadata.Clear()
        await store.save(task, ANNA)
        assert len((await found(store)).metadata) == 0


async def test_what_was_saved_or_given_stays_the_callers(url: str) -> None:
    async with opened(url) as (_, store):
        task = a_full_task()
        await store.save(task, ANNA)
        task.status.state = TASK_STATE_CANCELED
        (await found(store)).history.append(says("never saved"))
        assert await found(store) == a_full_task()


async def test_owners_never_meet(url: str) -> None:
    ben, nobody = call_of("ben"), ServerCallContext()
    async with opened(url) as (_, store):
        for call, text in ((ANNA, "hers"), (ben, "his"), (nobody, "no one's")):
            await store.save(a_task(history=[says(text)]), call)
        await store.save(a_task(id="only anna's"), ANNA)
        assert (await found(store, call=ben)).history[0].parts[0].text == "his"
        assert await store.get("only anna's", ben) is None
        await store.delete("only anna's", ben)
        await store.delete("t", ben)
        assert await store.get("t", ben) is None
        assert (await found(store)).history[0].parts[0].text == "hers"
        assert (await found(store, call=nobody)).history[0].parts[0].text == "no one's"
        for call, ids in ((ANNA, {"t", "only anna's"}), (ben, set[str]()), (nobody, {"t"})):
            page = await store.list(ListTasksRequest(), call)
            assert {task.id for task in page.tasks} == ids
            assert page.total_size == len(ids)
        assert (await store.list(ListTasksRequest(), call_of("cleo"))).total_size == 0


async def test_owner_and_task_id_cannot_be_shifted_into_one_another(url: str) -> None:
    async with opened(url) as (_, store):
        await store.save(a_task(id="b c"), call_of("a"))
        assert await store.get("c", call_of("a b")) is None


def a_family() -> list[Task]:
    def dated(number: int, context: str, state: Any, on: int) -> Task:
        status = TaskStatus(state=state, timestamp=day(on)) if on else TaskStatus(state=state)
        return Task(id=f"task {number}", context_id=context, status=status)

    return [
        dated(0, "even", TASK_STATE_SUBMITTED, 1),
        dated(1, "odd", TASK_STATE_WORKING, 1),
        dated(2, "even", TASK_STATE_SUBMITTED, 2),
        dated(3, "odd", TASK_STATE_WORKING, 0),
        dated(4, "even", TASK_STATE_COMPLETED, 0),
    ]


REQUESTS = {
    "all": ListTasksRequest(),
    "an unknown context": ListTasksRequest(context_id="none"),
    "a context": ListTasksRequest(context_id="odd"),
    "a state": ListTasksRequest(status=TASK_STATE_WORKING),
    "context and state": ListTasksRequest(context_id="even", status=TASK_STATE_SUBMITTED),
    "from a time on": ListTasksRequest(status_timestamp_after=day(2)),
    "pages of one": ListTasksRequest(page_size=1),
    "pages of two": ListTasksRequest(page_size=2),
    "pages of a context": ListTasksRequest(context_id="even", page_size=2),
}


@pytest.mark.parametrize("request_name", REQUESTS)
async def test_a_listing_is_that_of_the_stores_of_the_sdk(url: str, request_name: str) -> None:
    async with opened(url) as (_, store):
        theirs = InMemoryTaskStore()
        for task in a_family():
            await store.save(task, ANNA)
            await theirs.save(task, ANNA)
        params = ListTasksRequest()
        params.CopyFrom(REQUESTS[request_name])
        while True:
            page = await store.list(params, ANNA)
            assert page == await theirs.list(params, ANNA)
            if not page.next_page_token:
                break
            params.page_token = page.next_page_token


async def test_paging_goes_on_when_the_last_task_of_a_page_is_deleted(url: str) -> None:
    async with opened(url) as (_, store):
        for task in a_family():
            await store.save(task, ANNA)
        first = await store.list(ListTasksRequest(page_size=2), ANNA)
        await store.delete(first.tasks[-1].id, ANNA)
        params = ListTasksRequest(page_size=100, page_token=first.next_page_token)
        rest = await store.list(params, ANNA)
        assert [task.id for task in rest.tasks] == ["task 0", "task 4", "task 3"]


@pytest.mark.parametrize(
    "params",
    [
        ListTasksRequest(page_token="nope"),
        ListTasksRequest(page_token="dGFzay0xMDA="),
        ListTasksRequest(page_size=-1),
        ListTasksRequest(page_size=101),
    ],
)
async def test_an_unfit_listing_is_refused_in_the_words_of_a2a(params: ListTasksRequest) -> None:
    async with opened("memory:") as (_, store):
        await store.save(a_task(), ANNA)
        with pytest.raises(InvalidParamsError):
            await store.list(params, ANNA)


@pytest.mark.parametrize("canceled_first", [True, False])
async def test_a_cancel_and_a_message_that_overlap_are_both_kept(
    url: str, canceled_first: bool
) -> None:
    async with opened(url) as (_, store):
        await store.save(a_task(history=[says("go")]), ANNA)
        canceling, talking = await found(store), await found(store)
        canceling.status.CopyFrom(TaskStatus(state=TASK_STATE_CANCELED, timestamp=day(2)))
        talking.history.append(says("one more thing"))
        for task in (canceling, talking) if canceled_first else (talking, canceling):
            await store.save(task, ANNA)
        kept = await found(store)
        assert kept.status == canceling.status
        assert list(kept.history) == [says("go"), says("one more thing")]


async def test_savers_that_race_lose_nothing_of_one_another(url: str) -> None:
    async with opened(url) as (backend, store):
        await store.save(a_task(history=[says("go")]), ANNA)
        stale = await found(store)

        async def add(number: int) -> None:
            task = copied(stale)
            task.history.append(says(f"message {number}"))
            task.artifacts.append(Artifact(artifact_id=str(number), parts=[Part(text="x")]))
            if number == 5:
                task.status.state = TASK_STATE_CANCELED
            await BackendTaskStore(backend).save(task, ANNA)

        await asyncio.gather(*map(add, range(12)))
        kept = await found(store)
        assert kept.status.state == TASK_STATE_CANCELED
        assert {message.message_id for message in kept.history[1:]} == {
            f"id of message {number}" for number in range(12)
        }
        assert {artifact.artifact_id for artifact in kept.artifacts} == set(map(str, range(12)))


async def test_a_cancel_in_the_middle_of_a_save_is_kept_beside_what_it_brings(url: str) -> None:
    before_the_append = Meanwhile("append_messages")
    async with open_backend(url, interceptors=[before_the_append]) as backend:
        store = BackendTaskStore(backend)
        await store.save(a_task(history=[says("go")]), ANNA)
        talking = a_task(history=[says("go"), says("one more thing")])
        # It adds no message, so that the message log has the length that the other expects.
        canceling = a_task(state=TASK_STATE_CANCELED, history=[says("go")])
        before_the_append.act = lambda: BackendTaskStore(backend).save(canceling, ANNA)
        await store.save(talking, ANNA)
        kept = await found(store)
        assert kept.status.state == TASK_STATE_CANCELED
        assert kept.history == talking.history


async def test_a_write_that_is_repeated_below_the_store_counts_once(url: str) -> None:
    async with open_backend(url, interceptors=[repeating("append_messages")]) as backend:
        await BackendTaskStore(backend).save(a_full_task(), ANNA)
        [run] = (await backend.runs.list_runs()).runs
        assert run.message_count == len(a_full_task().history)


async def test_a_save_that_is_sent_again_changes_nothing(url: str) -> None:
    async with opened(url) as (backend, store):
        await store.save(a_full_task(), ANNA)
        before = await backend.runs.list_runs()
        await asyncio.gather(*[store.save(a_full_task(), ANNA) for _ in range(5)])
        assert await backend.runs.list_runs() == before


async def test_a_save_writes_what_is_new_and_not_the_whole_history(url: str) -> None:
    async with opened(url) as (backend, store):
        task = a_task(artifacts=[Artifact(artifact_id="a", parts=[Part(text="first")])])
        for number in range(50):
            task.history.append(says(f"{number}"))
            task.artifacts[0].parts.append(Part(text=f"part {number}"))
            await store.save(task, ANNA)
        assert await found(store) == task
        [run] = (await backend.runs.list_runs()).runs
        assert run.message_count == 50
        whole = (await backend.runs.load_run(run_id=run.id)).run
        assert whole is not None
        parts = [
            event.model_extra["artifact"]["json"]["parts"]
            for event in whole.events
            if event.model_extra and "artifact" in event.model_extra
        ]
        assert sum(map(len, parts)) == 51


async def test_a_message_with_a_known_id_takes_its_place(url: str) -> None:
    async with opened(url) as (_, store):
        task = a_task(history=[says("one"), says("two"), says("two")])
        await store.save(task, ANNA)
        task.history[0].parts[0].text = "one, mended"
        task.history[2].parts[0].text = "two, again"
        await store.save(task, ANNA)
        assert await found(store) == task
