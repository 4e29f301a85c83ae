"""Moving notes, their vectors, and tool results from one tenant to another."""

from typing import Any

from conformance_tests.compare import assert_same
from conformance_tests.lab import Lab
from conformance_tests.proves import proves
from conformance_tests.suite.cargo import (
    assert_same_cargo,
    bring,
    take,
    tenants,
)
from conformance_tests.suite.notes import write
from conformance_tests.suite.spelled import Spelled, recalled, spell
from stores_core import (
    MemoryItem,
    ToolResult,
    WordEmbedder,
)


@proves(
    "MOVE-1", needs=("moving", "tenant", "memory"), look_at="which fields of a note are imported"
)
async def test_notes_keep_place_times_and_versions(lab: Lab) -> None:
    source, target = await tenants(lab)
    keys = ["b", "a", "c", "d"]
    for key in (*keys, "a", "a", "gone"):
        await source.memory.put_memory(item=MemoryItem(key=key, value=f"value of {key}"))
    deleted = (await source.memory.put_memory(item=MemoryItem(key="gone", value="x"))).version
    await source.memory.delete_memory(key="gone")
    await bring(target, await take(source, page=3), piece=1)
    for client in (source, target):
        listed = await client.memory.list_memories()
        assert [scored.item.key for scored in listed.items] == keys
    for key in keys:
        mine = await target.memory.get_memory(key=key)
        assert_same(mine, await source.memory.get_memory(key=key), f"note {key}")
    again = await target.memory.put_memory(item=MemoryItem(key="a", value="anew"))
    assert (again.created, again.version) == (False, 4)
    reborn = await target.memory.put_memory(item=MemoryItem(key="gone", value="anew"))
    assert reborn.created
    assert reborn.version > deleted, "the version of a deleted note comes again"


@proves(
    "MOVE-2", needs=("moving", "tenant", "memory"), look_at="which of two versions an import keeps"
)
async def test_an_import_of_notes_leaves_newer_ones_alone(lab: Lab) -> None:
    source, target = await tenants(lab)
    for key in ("a", "b"):
        await source.memory.put_memory(item=MemoryItem(key=key, value="old"))
    cargo = await take(source)
    brought = await target.moving.import_memories(memories=cargo.memories)
    assert (brought.imported, brought.kept) == (2, 0)
    await target.memory.put_memory(item=MemoryItem(key="a", value="newer here"))
    await source.memory.put_memory(item=MemoryItem(key="b", value="newer there"))
    later = await take(source)
    await bring(target, later)
    for again in (cargo, later):
        answer = await target.moving.import_memories(memories=again.memories)
        assert (answer.imported, answer.kept) == (0, 2)
    for key, value in (("a", "newer here"), ("b", "newer there")):
        note = (await target.memory.get_memory(key=key)).item
        assert note is not None
        assert (note.value, note.version) == (value, 2)


@proves(
    "MOVE-1",
    "EMB-5",
    needs=("moving", "tenant", "memory", "embeddings"),
    look_at="whose vectors an import takes, and which version of a note a vector is of",
)
async def test_an_import_leaves_no_vector_of_another_embedder_or_version(lab: Lab) -> None:
    source, target = lab.new_id("source"), lab.new_id("target")
    theirs = await lab.open(tenant=source, embedder=Spelled(3, "theirs"))
    ours = await lab.open(tenant=target, embedder=Spelled())
    await write(ours, "s", "a", spell(1, 0))
    await write(theirs, "s", "a", spell(1, 0, 0))
    await write(theirs, "s", "a", spell(0, 1, 0))
    await write(theirs, "s", "b", spell(1, 0, 0))
    cargo = await take(theirs)
    brought = await ours.moving.import_memories(memories=cargo.memories, embedder=cargo.embedder)
    assert (brought.imported, brought.kept) == (2, 0)
    assert await recalled(ours, "s", spell(0, 1), limit=1) == [("a", 1.0)]
    assert await recalled(ours, "s", spell(1, 0), limit=2) == [("b", 1.0), ("a", 0.0)]


class CountingEmbedder(WordEmbedder):
    """Counts the texts that it is asked for."""

    asked = 0

    async def embed(self, texts: Any, purpose: Any) -> Any:
        self.asked += len(texts)
        return await super().embed(texts, purpose)


@proves(
    "MOVE-1",
    needs=("moving", "tenant", "memory", "embeddings"),
    look_at="whether vectors travel with notes",
)
async def test_vectors_travel_with_their_notes(lab: Lab) -> None:
    embedder = CountingEmbedder()
    source, target = await tenants(lab, embedder=embedder)
    for key, value in (("pet", "a small cat"), ("car", "a red car"), ("tree", "an old oak")):
        await source.memory.put_memory(item=MemoryItem(key=key, value=value))
    cargo = await take(source, page=2)
    assert cargo.embedder is not None
    assert (cargo.embedder.name, cargo.embedder.dimensions) == (embedder.name, embedder.dimensions)
    assert all(len(record.vector or b"") == 4 * embedder.dimensions for record in cargo.memories)
    asked = embedder.asked
    await bring(target, cargo)
    assert embedder.asked == asked, "an import embeds notes that bring their vectors"
    assert_same_cargo(await take(target), cargo)
    found = await target.memory.list_memories(query="red car", limit=1)
    assert [scored.item.key for scored in found.items] == ["car"]
    assert embedder.asked == asked + 1, "a recall embeds more than its query"


@proves(
    "MOVE-1",
    "MOVE-2",
    needs=("moving", "tenant", "tool_results"),
    look_at="what an import of a result keeps",
)
async def test_tool_results_keep_time_and_labels(lab: Lab) -> None:
    source, target = await tenants(lab)
    refs = [lab.new_id("ref") for _ in range(3)]
    for n, ref in enumerate(refs):
        result = ToolResult(content=[{"type": "text", "text": f"result {n}"}])
        await source.tool_results.put_tool_result(ref=ref, result=result, labels={"n": str(n)})
    await target.tool_results.put_tool_result(ref=refs[0], result=ToolResult(), labels={"x": "y"})
    for _ in range(2):
        await bring(target, await take(source, page=2), piece=1)
    for ref in refs:
        mine = await target.tool_results.get_tool_result(ref=ref)
        assert_same(mine, await source.tool_results.get_tool_result(ref=ref), f"result {ref}")
    theirs = await source.tool_results.list_tool_results()
    assert_same((await target.tool_results.list_tool_results()).infos, theirs.infos, "the listing")
    assert len((await target.tool_results.list_tool_results(labels={"x": "y"})).infos) == 0
