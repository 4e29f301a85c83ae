"""Dropping checkpoints: what is pruned or made by a dropped run goes, all else stays."""

import pytest

pytest.importorskip("langgraph.checkpoint.base", reason="needs the extra langgraph")

from stores_adapters.langgraph import BackendCheckpointSaver
from stores_core import InvalidRequestError, RecordTooLargeError, open_backend
from tests.langgraph_threads import at, got, ids, opened, put
from tests.meanwhile import Meanwhile

pytest_plugins = ["tests.storages"]


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


async def test_dropping_runs_from_more_than_a_batch_is_refused_whole(url: str) -> None:
    async with open_backend(url, max_batch_entries=2) as backend:
        saver = BackendCheckpointSaver(backend)
        for id in ("1", "2", "3", "4"):
            await put(saver, at("t"), id=id, metadata={"run_id": id})
        with pytest.raises(RecordTooLargeError, match="max_batch_entries"):
            await saver.adelete_for_runs(["1"])
        assert await ids(saver, at("t")) == ["4", "3", "2", "1"]
        await saver.adelete_for_runs(["1", "3"])
        assert await ids(saver, at("t")) == ["4", "2"]


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
