"""What somebody planted in a storage is read as data or told as damage, and never runs."""

import json
import os
import pickle
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from stores_core import (
    AppendMessagesRequest,
    CorruptRecordError,
    MemoryItem,
    Message,
    PutMemoryRequest,
    PutToolResultRequest,
    ToolResult,
    open_backend,
)
from stores_core.codec import decode_json
from stores_core.shape import replaced

NOW = datetime(2024, 5, 6, tzinfo=UTC)


class Runs:
    """Makes a folder when it is unpickled."""

    def __init__(self, made: Path) -> None:
        self.made = made

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.made),)


def _constructor(made: Path, **more: str) -> bytes:
    call = {"lc": 2, "type": "constructor", "id": ["os", "mkdir"], "kwargs": {"path": str(made)}}
    return json.dumps(more | call).encode()


DAMAGED: dict[str, Callable[[Path], bytes]] = {
    "a pickle": lambda made: pickle.dumps(Runs(made), protocol=0).replace(b"\n", b" "),
    "a binary pickle": lambda made: b"\x80\x04" + str(made).encode() + b"R.",
    "a call without a role": _constructor,
    "a tag of YAML": lambda made: f"!!python/object/apply:os.mkdir ['{made}']".encode(),
    "an extension of msgpack": lambda made: b"\xc7\x01\x05" + str(made).encode(),
    "a hundred thousand levels": lambda made: b'{"role":"user","x":' + b"[" * 100_000,
    "closed levels": lambda made: b'{"role":"u","x":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "an integer of 5,000 digits": lambda made: b'{"role":"user","x":' + b"9" * 5_000 + b"}",
    "a number that is none": lambda made: b'{"role":"user","x":{"y":[1,NaN]}}',
    "an infinity": lambda made: (
        b'{"role":"user","toolCalls":[{"id":"i","name":"n","args":-Infinity}]}'
    ),
    "a number beyond floats": lambda made: b'{"role":"user","x":{"y":[1,1e400]}}',
    "400 digits and a half": lambda made: b'{"role":"user","x":1' + b"0" * 400 + b".5}",
    "no object": lambda made: b'"S3cretS3cret"',
    "nothing": lambda made: b"",
    "half": lambda made: b'{"role":"user","text":"S3cretS3cr',
}


@pytest.mark.parametrize("name", DAMAGED)
async def test_a_planted_entry_is_told_as_damage_and_not_shown(
    url_alone: str, name: str, tmp_path: Path
) -> None:
    made = tmp_path / "S3cretS3cret"
    body = DAMAGED[name](made)
    if url_alone.startswith("postgresql:") and not body.isascii():
        pytest.skip("a column of Postgres holds entries as text, and so never this")
    async with open_backend(url_alone) as backend:
        for id in ("r", "other"):
            await backend.runs.create_run(run_id=id)
            await backend.runs.append_messages(
                run_id=id, messages=[Message(role="user", text="good")]
            )
        await _plant(backend.runs.store, body)
        for read in (backend.runs.load_run, backend.runs.read_messages):
            with pytest.raises(CorruptRecordError) as damage:
                await read(run_id="r")
            assert damage.value.store == "runs"
            assert "S3cret" not in str(damage.value) + repr(damage.value)
        other = (await backend.runs.load_run(run_id="other")).run
        assert other
        assert other.messages[0].text == "good"
        assert (await backend.runs.read_messages(run_id="r", limit=1)).entries[0].text == "good"
    assert not made.exists()


async def test_a_planted_call_is_a_message_with_fields_and_is_not_made(
    url_alone: str, tmp_path: Path
) -> None:
    made = tmp_path / "made"
    async with open_backend(url_alone) as backend:
        await backend.runs.create_run(run_id="r")
        await _plant(backend.runs.store, _constructor(made, role="user"))
        run = (await backend.runs.load_run(run_id="r")).run
    assert run
    assert (run.messages[0].model_extra or {})["id"] == ["os", "mkdir"]
    assert not made.exists()


@pytest.mark.parametrize(
    "name", ["a pickle", "a hundred thousand levels", "a number beyond floats", "no object", "half"]
)
async def test_a_planted_tool_result_is_told_as_damage(
    url_alone: str, name: str, tmp_path: Path
) -> None:
    made = tmp_path / "S3cretS3cret"
    async with open_backend(url_alone) as backend:
        planted = replaced(ToolResult(), {}, DAMAGED[name](made))
        request = replaced(PutToolResultRequest(ref="t", result=ToolResult()), {"at": NOW})
        store: Any = backend.tool_results.store
        await store.put_tool_result(replaced(request, {"result": planted}))
        with pytest.raises(CorruptRecordError) as damage:
            await backend.tool_results.get_tool_result(ref="t")
        assert (damage.value.store, damage.value.id) == ("tool_results", "t")
        assert "S3cret" not in str(damage.value)
    assert not made.exists()


@pytest.mark.parametrize("number", ["nan", "inf", "-inf"])
async def test_planted_metadata_is_told_as_damage(url_alone: str, number: str) -> None:
    async with open_backend(url_alone) as backend:
        for namespace in ("n", "other"):
            await backend.memory.put_memory(
                item=MemoryItem(key="good", value="v", metadata={"x": 1}), namespace=namespace
            )
        planted = {"S3cret": {"y": [1, float(number)]}}
        item = replaced(MemoryItem(key="k", value="v"), {"metadata": planted, "created_at": NOW})
        request = replaced(PutMemoryRequest(item=item, namespace="n"), {"at": NOW, "item": item})
        store: Any = backend.memory.store
        await store.put_memory(request)
        asked: list[dict[str, Any]] = [{}, {"limit": 1}, {"query": "v"}]
        reads: list[Any] = [
            backend.memory.get_memory(key="k", namespace="n"),
            *(backend.memory.list_memories(namespace="n", **fields) for fields in asked),
            backend.moving.export_memories(),
        ]
        for read in reads:
            with pytest.raises(CorruptRecordError) as damage:
                await read
            assert (damage.value.store, damage.value.id) == ("memory", "k")
            assert "S3cret" not in str(damage.value) + repr(damage.value)
        for key, namespace in (("good", "n"), ("good", "other")):
            note = (await backend.memory.get_memory(key=key, namespace=namespace)).item
            assert note
            assert note.metadata == {"x": 1}
    if url_alone.startswith("memory:"):
        return
    async with open_backend(url_alone) as backend:
        with pytest.raises(CorruptRecordError):
            await backend.memory.get_memory(key="k", namespace="n")
        assert (await backend.memory.get_memory(key="good", namespace="other")).found


@pytest.mark.parametrize("text", ['{"x":NaN}', '{"x":[1,-Infinity]}', '{"x":{"y":1e400}}'])
def test_what_notes_are_read_with_takes_no_number_that_is_none(text: str) -> None:
    with pytest.raises(ValueError, match=r"at line 1 column|beyond what a float holds"):
        decode_json(text)


async def _plant(store: Any, body: bytes) -> None:
    """Write an entry as the front would hand it over, had it made such a text."""
    planted = replaced(Message(role="user"), {}, body)
    request = AppendMessagesRequest(run_id="r", messages=[Message(role="user")])
    await store.append_messages(replaced(request, {"at": NOW, "messages": (planted,)}))
