"""Dropping checkpoints: what is pruned or made by a dropped run goes, all else stays."""

import pytest

pytest.importorskip("langgraph.checkpoint.base", reason="needs the extra langgraph")

from stores_adapters.langgraph import BackendCheckpointSaver
from stores_core import InvalidRequestError, open_backend
from tests.langgraph_threads import at, got, ids, opened, put
from tests.meanwhile import Meanwhile


async def test_pruning_keeps_the_newest_with_all_its_values_and_writes(url: str) -> None:
    async with opened(url) as (_, saver):
        config = await put(saver, at("t"), {"old": "kept", "new": 1})
        config = await put(
            saver,
            config,
            {"old": "kept", "new": 2},
            versions={"old": 1, "new": 2},
            changed={"new": 2},
        )
        await saver.aput_writes(config, [("channel", "pending")], "task")
        before = await got(saver, at("t"))
        for _ in range(2):
            await saver.aprune(["t", "unknown"])
            assert await got(saver, at("t")) == before
            assert await ids(saver, at("t")) == [before.checkpoint["id"]]
        config = await put(
            saver,
            config,
            {"old": "kept", "new": 3},
            versions={"old": 1, "new": 3},
            changed={"new": 3},
        )
        after = await got(saver, config)
        assert after.checkpoint["channel_values"] == {"old": "kept", "new": 3}
        with pytest.raises(InvalidRequestError, match="strategy"):
            await saver.aprune(["t"], strategy="keep_none")


async def test_pruning_keeps_the_ancestors_that_a_delta_channel_is_rebuilt_from(url: str) -> None:
    async with opened(url) as (_, saver):
        config = await put(saver, at("t"), {"delta": ["gone"]}, id="1")
        config = await put(saver, config, {"delta": ["snapshot"]}, id="2", versions={"delta": 2})
        for id, version in (("3", 3), ("4", 4)):
            await saver.aput_writes(config, [("delta", id)], "task")
            config = await put(
                saver,
                config,
                id=id,
                versions={"delta": version},
                metadata={"counters_since_delta_snapshot": {"delta": (1, 1)}},
            )
        history = await saver.aget_delta_channel_history(config=config, channels=["delta"])
        assert [write[2] for write in history["delta"]["writes"]] == ["3", "4"]
        await saver.aprune(["t"])
        assert await ids(saver, at("t")) == ["4", "3", "2"]
        assert await saver.aget_delta_channel_history(config=config, channels=["delta"]) == history


async def test_dropping_a_run_leaves_the_values_that_others_still_need(url: str) -> None:
    async with opened(url) as (_, saver):
        config = await put(saver, at("t"), {"shared": "x", "own": 1}, metadata={"run_id": "gone"})
        for version in (2, 3):
            config = await put(
                saver,
                config,
                {"shared": "x", "own": version},
                versions={"shared": 1, "own": version},
                changed={"own": version},
                metadata={"run_id": f"kept-{version}"},
            )
        await put(saver, at("whole"), metadata={"run_id": "gone"})
        await saver.adelete_for_runs(["gone"])
        listed = [item async for item in saver.alist(at("t"))]
        assert [item.checkpoint["channel_values"] for item in listed] == [
            {"shared": "x", "own": 3},
            {"shared": "x", "own": 2},
        ]
        assert await ids(saver, at("whole")) == []


async def test_dropping_a_run_writes_one_record_however_many_stay(url: str) -> None:
    async with open_backend(url, max_batch_entries=1) as backend:
        saver = BackendCheckpointSaver(backend)
        config = at("t")
        for id in "1234":
            values = {"shared": "x", "own": id}
            versions = {"shared": 1, "own": int(id)}
            changed = versions if id == "1" else {"own": int(id)}
            run = {"run_id": f"run {id}"}
            config = await put(
                saver, config, values, id=id, versions=versions, changed=changed, metadata=run
            )
            await saver.aput_writes(config, [("channel", id)], "task")
        listed = {item.checkpoint["id"]: item async for item in saver.alist(at("t"))}

        async def left() -> list[str]:
            found = [item async for item in saver.alist(at("t"))]
            assert found == [listed[item.checkpoint["id"]] for item in found]
            return [item.checkpoint["id"] for item in found]

        for gone, rest in [("1", "432"), ("3", "42"), ("unknown", "42"), ("4", "2")]:
            await saver.adelete_for_runs([f"run {gone}"])
            assert await left() == [*rest]
            for id in "1234":
                assert (await saver.aget_tuple(at("t", id)) is not None) == (id in rest)
            assert await ids(saver, at("t")) == [*rest]
            newest = [item async for item in saver.alist(at("t"), before=at("t", rest[0]))]
            assert [item.checkpoint["id"] for item in newest] == [*rest[1:]]
        [run] = (await backend.runs.list_runs()).runs
        assert run.message_count == 4 + 3
        # What an execution puts after it was dropped is there, and what follows is in its place.
        config = await put(saver, at("t", "2"), {"own": "5"}, id="5", metadata={"run_id": "run 4"})
        await saver.adelete_for_runs(["run 2"])
        assert await ids(saver, at("t")) == ["5"]
        config = await put(saver, config, {"own": "6"}, id="6", metadata={"run_id": "run 6"})
        assert await ids(saver, at("t")) == ["6", "5"]
        await saver.aprune(["t"])
        assert await ids(saver, at("t")) == ["6"]
        await saver.adelete_for_runs(["run 6", ""])
        assert await ids(saver, at("t")) == []
        assert not (await backend.runs.list_runs()).runs


@pytest.mark.long
async def test_a_run_is_dropped_from_more_checkpoints_and_threads_than_a_page() -> None:
    async with opened("memory:") as (_, saver):
        config = at("long")
        for number in range(1_050):
            run = {"run_id": "gone" if number % 2 else "kept"}
            config = await put(saver, config, id=f"{number:05}", metadata=run)
        for number in range(1_010):
            await put(saver, at(f"{number}"), metadata={"run_id": "gone"})
        await saver.adelete_for_runs(["gone"])
        kept = [f"{number:05}" for number in range(1_048, -1, -2)]
        assert await ids(saver, None) == kept
        assert await saver.aget_tuple(at("long", "00501")) is None
        assert await saver.aget_tuple(at("long", "00502")) is not None


async def test_what_is_put_while_its_thread_is_dropped_stays(url: str) -> None:
    before_the_delete = Meanwhile("delete_run")
    async with open_backend(url, interceptors=[before_the_delete]) as backend:
        saver = BackendCheckpointSaver(backend)
        first = await put(saver, at("t"), {"shared": "x"}, id="1", metadata={"run_id": "gone"})

        async def go_on() -> None:
            second = await put(
                saver, first, {"shared": "x"}, id="2", changed={}, metadata={"run_id": "kept"}
            )
            await saver.aput_writes(second, [("channel", "pending")], "task")

        before_the_delete.act = go_on
        await saver.adelete_for_runs(["gone"])
        assert await ids(saver, at("t")) == ["2"]
        left = await got(saver, at("t"))
        assert left.checkpoint["channel_values"] == {"shared": "x"}
        assert left.pending_writes == [("task", "channel", "pending")]
