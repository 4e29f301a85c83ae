"""Imports of files that are damaged, odd or made to do harm."""

import json
import random
from pathlib import Path
from typing import Any, cast

import pytest

from stores_cli.importing import FORMATS, FileReport
from stores_cli.importing.anthropic_content import call_of
from stores_cli.importing.parts import spoken
from stores_cli.importing.sources import Source
from stores_core import Message, open_backend
from stores_core.codec import canonical
from tests.command_line import HOSTILE, run
from tests.importing_samples import FOLDER, SAMPLES, bring_in

TEXTS = [path for path in SAMPLES if path.suffix not in (".md", ".log")]
ODD: tuple[Any, ...] = (None, 0, -1.5, True, "", "x", [], {}, [None], {"": None}, 10**30, HOSTILE)


def mutated(value: Any, chance: random.Random) -> Any:
    """``value`` with some parts of it replaced, removed or doubled."""
    if chance.random() < 0.03:
        return chance.choice(ODD)
    if isinstance(value, dict):
        held = cast("dict[str, Any]", value)
        return {
            name: mutated(item, chance) for name, item in held.items() if chance.random() > 0.02
        }
    if isinstance(value, list):
        items = [mutated(item, chance) for item in cast("list[Any]", value)]
        return items + items[:1] if chance.random() < 0.05 else items
    return value


def documents(path: Path) -> tuple[list[Any], bool]:
    text = path.read_text(encoding="utf-8")
    try:
        return [json.loads(text)], False
    except ValueError:
        lines = [line for line in text.splitlines() if line.endswith("}")]
        return [json.loads(line) for line in lines if not line.startswith('"')], True


@pytest.mark.parametrize("sample", TEXTS, ids=lambda path: path.name)
async def test_no_reader_stumbles_over_a_structure_it_did_not_expect(
    sample: Path, tmp_path: Path
) -> None:
    values, in_lines = documents(sample)
    format = next((one for one in FORMATS if one.recognises(Source(str(sample)))), FORMATS[0])
    other = tmp_path / sample.name
    for seed in range(40):
        chance = random.Random(f"{sample.name} {seed}")
        texts = [json.dumps(mutated(value, chance)) for value in values]
        other.write_text("\n".join(texts) if in_lines else texts[0], encoding="utf-8")
        async with open_backend("memory:") as backend:
            account = (await bring_in(backend, other, format=format.name)).files[0]
            assert not account.refused, (seed, account.refused)
            await bring_in(backend, other)  # asks every recogniser


@pytest.mark.parametrize("seed", range(20))
async def test_bytes_at_random_are_refused_or_reported(seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    path = tmp_path / "noise"
    path.write_bytes(b"{" * (seed % 3) + chance.randbytes(2_000) + b"\n" * (seed % 2))
    async with open_backend("memory:") as backend:
        account = (await bring_in(backend, path)).files[0]
        assert not account.fine
        for format in FORMATS:
            await bring_in(None, path, format=format.name)  # pyright: ignore[reportArgumentType]


def claude(*contents: Any, **beside: Any) -> str:
    return "\n".join(
        json.dumps(
            {"type": "user", "sessionId": "s", "uuid": f"u{n}", "parentUuid": f"u{n - 1}",
             "message": {"role": "user", "content": content}, **beside}
        )
        for n, content in enumerate(contents)
    )  # fmt: skip


def put(path: Path, text: str) -> Path:
    path.write_bytes(text.encode())
    return path


async def only_run(path: Path) -> tuple[tuple[Message, ...], FileReport]:
    async with open_backend("memory:") as backend:
        account = (await bring_in(backend, path)).files[0]
        again = (await bring_in(backend, path)).files[0]
        assert {one.outcome.value for one in again.runs} == {"same"}
        loaded = (await backend.runs.load_run(run_id=account.runs[0].run_id)).run
        assert loaded is not None
        return tuple(loaded.messages), account


async def test_texts_come_back_character_by_character(tmp_path: Path) -> None:
    texts = [
        "a\r\nb",
        "NUL \0",
        "\u2028 is no end of a line",
        "\x1b[31mred",
        "e\u0301 é",
        "𝔘🌊",
        " ",
    ]
    messages, account = await only_run(put(tmp_path / "session.jsonl", claude(*texts)))
    assert [message.text for message in messages] == texts
    assert account.fine


@pytest.mark.parametrize("levels", [85, 150, 400])
async def test_what_no_store_can_hold_is_changed_and_counted(tmp_path: Path, levels: int) -> None:
    deep: Any = "end"
    for _ in range(levels):
        deep = [deep]
    line = claude("half a \ud83d pair", "deep", nested=deep)
    line += '\n{"type":"progress","n":NaN,"big":1e999,"uuid":"p","parentUuid":"u1"}'
    messages, account = await only_run(put(tmp_path / "session.jsonl", line))
    assert messages[0].text == "half a \ufffd pair"
    kept: Any = (messages[1].__pydantic_extra__ or {})["source"]["nested"]
    for _ in range(levels):
        kept = json.loads(kept) if isinstance(kept, str) else kept
        (kept,) = kept
    assert kept == "end"
    counts = sorted(account.changed.values())
    assert counts == ([1, 2] if levels < 89 else [1, 2, 2])
    assert account.fine, "changed is not damaged, but it is told"


async def test_lines_that_are_damaged_are_named_and_the_others_come_in(tmp_path: Path) -> None:
    path = tmp_path / "session.jsonl"
    good = claude("one", "two")
    path.write_bytes(
        good.encode() + b"\n\n[" * 2 + b'{"a":\xff\xfe}\n' + b"9" * 5_000 + b"\n" + b"[" * 9_000
        + b'\n{"type":"user","uuid":"z","parentUuid":"u1",'
        + b'"message":{"role":"user","content":"\xff"}}'
    )  # fmt: skip
    async with open_backend("memory:") as backend:
        account = (await bring_in(backend, path)).files[0]
        loaded = (await backend.runs.load_run(run_id="claude-code:s")).run
    assert loaded is not None
    assert [message.text for message in loaded.messages] == ["one", "two", "\ufffd"]
    assert [damage.at for damage in account.damaged] == ["line 4", "line 6", "line 7", "line 8"]
    assert account.changed == {"bytes that are no UTF-8: replaced by U+FFFD": 2}


async def test_an_entry_beyond_the_limit_keeps_its_place(tmp_path: Path) -> None:
    path = put(tmp_path / "session.jsonl", claude("one", "x" * (33 << 20), "three"))
    messages, account = await only_run(path)
    assert [message.text for message in messages] == ["one", "", "three"]
    assert "leftOut" in canonical(messages[1])
    assert account.left_out.total() == 1


async def test_ids_of_any_length_and_kind_make_runs(tmp_path: Path) -> None:
    for name in ("x" * 2_000, "a\0b", "../../etc", HOSTILE):
        record = json.loads(claude("hello")) | {"sessionId": name}
        messages, account = await only_run(put(tmp_path / "one.jsonl", json.dumps(record)))
        assert len(messages) == 1
        assert len(account.runs[0].run_id.encode()) <= 512


def test_nothing_in_a_file_can_steer_the_terminal(tmp_path: Path) -> None:
    path = tmp_path / "one.jsonl"
    record = json.loads(claude(HOSTILE)) | {"sessionId": HOSTILE}
    path.write_text(json.dumps(record) + "\n" + json.dumps(HOSTILE), encoding="utf-8")
    other = json.dumps(record | {"message": {"role": "user", "content": "other"}})
    assert run("import", "--from", "auto", path, "memory:steered").code == 1
    path.write_text(other, encoding="utf-8")
    told = run("import", "--from", "auto", path, "memory:steered")
    assert told.code == 1
    assert "conflict" in told.out
    assert "\x1b" not in told.out + told.err
    assert "\u202e" not in told.out + told.err


async def test_a_folder_is_read_with_all_below_it(tmp_path: Path) -> None:
    below = tmp_path / "projects" / "a"
    below.mkdir(parents=True)
    (below / "one.jsonl").write_text(claude("hello"), encoding="utf-8")
    (below / "empty.jsonl").touch()
    async with open_backend("memory:") as backend:
        report = await bring_in(backend, tmp_path, FOLDER / "pi.jsonl")
        assert report.outcomes() == {"created": 2}
        assert sorted(file.refused != "" for file in report.files) == [False, False, True]
        assert report.fine, "nobody named the file that holds no session"
        assert not (await bring_in(backend, below / "empty.jsonl")).fine


async def test_a_byte_order_mark_is_no_damage(tmp_path: Path) -> None:
    marked = tmp_path / "marked"
    marked.write_bytes(b"\xef\xbb\xbf" + claude("one", "two").encode())
    messages, account = await only_run(marked)
    assert len(messages) == 2
    marked.write_bytes(b"\xef\xbb\xbf" + (FOLDER / "swe-agent.traj").read_bytes())
    assert (await only_run(marked))[1].format == "swe-agent"
    assert account.fine


def any_part(chance: random.Random) -> dict[str, Any]:
    text = "".join(chance.choice("a\n \0🌊é") for _ in range(chance.randrange(5)))
    made = {"type": "tool_use", "id": text, "name": text, "input": {"n": chance.random()}}
    plain = {"type": "text", "text": text}
    return chance.choice(
        [plain, plain, plain | {"cache": text}, {"type": "image", "data": text}, made]
    )


@pytest.mark.parametrize("seed", range(200))
def test_parts_can_be_put_together_again(seed: int) -> None:
    chance = random.Random(seed)
    parts = [any_part(chance) for _ in range(chance.randrange(6))]
    said = spoken(parts, call_of)
    calls, text, whole = list(said.calls), said.text, list[dict[str, Any]]()
    if said.rest is None:
        whole += [{"type": "text", "text": text}] if len(parts) > len(calls) else []
        rest: list[Any] = [{"type": "tool_use", "id": made.id} for made in calls]
    else:
        rest = said.rest
    for part in rest:
        if part["type"] == "text":
            length = part.pop("characters")
            whole.append({"type": "text", "text": text[:length], **part})
            text = text[length + 1 :]
        elif part["type"] == "tool_use":
            made = calls.pop(0)
            whole.append({"type": "tool_use", "id": made.id, "name": made.name, "input": made.args})
        else:
            whole.append(part)
    assert whole == parts
