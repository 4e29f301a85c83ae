"""The values of checkpoints: they come back as they were, and reading them runs no code."""

from base64 import b64encode
from dataclasses import dataclass
from pickle import dumps
from typing import Any, cast

import pytest

pytest.importorskip("langgraph.checkpoint.base", reason="needs the extra langgraph")

from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from stores_adapters.langgraph import BackendCheckpointSaver
from stores_adapters.langgraph.places import run_of
from stores_core import CorruptRecordError, Message
from tests.langgraph_threads import at, got, opened, put


@dataclass
class Foreign:
    """A type that nobody allowed."""

    made = 0
    value: int

    def __post_init__(self) -> None:
        Foreign.made += 1


async def test_content_shaped_like_a_marker_comes_back_as_it_was(url: str) -> None:
    shaped: dict[str, Any] = {
        "lc": {"lc": 1, "type": "constructor", "id": ["x", "Y"], "kwargs": {}},
        "lc2": {"lc": 2, "type": "constructor", "id": ["builtins", "set"], "args": [[1]]},
        "blob": {"type": "msgpack", "data": "gA=="},
        "odd": "NUL \0, \U0001f600, e\u0301",
        "bytes": b"\0\xff",
    }
    async with opened(url) as (_, saver):
        await put(saver, at("t"), shaped, metadata={"title": "Report\0"})
        item = await got(saver, at("t"))
        assert item.checkpoint["channel_values"] == shaped
        assert cast("dict[str, Any]", item.metadata)["title"] == "Report\0"


async def test_a_type_that_was_not_allowed_is_never_made_on_reading(url: str) -> None:
    async with opened(url) as (backend, saver):
        await put(saver, at("t"), {"channel": Foreign(1)})
        made = Foreign.made
        assert (await got(saver, at("t"))).checkpoint["channel_values"] == {"channel": {"value": 1}}
        assert Foreign.made == made
        allowed = JsonPlusSerializer(allowed_msgpack_modules=[Foreign])
        item = await got(BackendCheckpointSaver(backend, serde=allowed), at("t"))
        assert item.checkpoint["channel_values"] == {"channel": Foreign(1)}
        with pytest.raises(TypeError):
            await put(saver, at("t"), {"channel": object()})  # no pickle takes its place


async def test_a_planted_pickle_or_a_foreign_entry_is_corrupt_not_executed(url: str) -> None:
    async with opened(url) as (backend, saver):
        await put(saver, at("t"), {"channel": 1})
        page = await backend.runs.read_messages(run_id=run_of("t", ""))
        record = cast("dict[str, Any]", (page.entries[0].model_extra or {})["checkpoint"])
        planted = {"type": "pickle", "data": b64encode(dumps(Foreign(1))).decode()}
        for thread, message in (
            ("planted", {"role": "checkpoint", "checkpoint": {**record, "body": planted}}),
            ("foreign", {"role": "user", "text": "hi"}),
        ):
            run_id = run_of(thread, "")
            await backend.runs.create_run(run_id=run_id)
            await backend.runs.append_messages(
                run_id=run_id, messages=[Message.model_validate(message)]
            )
            made = Foreign.made
            with pytest.raises(CorruptRecordError):
                await saver.aget_tuple(at(thread))
            assert Foreign.made == made
