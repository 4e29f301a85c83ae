"""Tool results in Postgres: what a slice reads, what a replacement leaves, who gives results up."""

import asyncio

import pytest

from stores_core import Backend, ToolResult, open_backend
from tests.postgres_notes import value
from tests.postgres_plans import MODES, explained, nodes, recorded

LONG = "0123456789abcdé\n" * 1_600_000
"""25.6 million characters."""


def of_text(text: str) -> ToolResult:
    return ToolResult(content=[{"type": "text", "text": text}])


async def refs(backend: Backend) -> list[str]:
    listed = await backend.tool_results.list_tool_results(limit=1_000)
    return [info.ref for info in listed.infos]


async def test_a_slice_near_the_end_reads_its_chunk_alone(postgres_url: str) -> None:
    async with recorded(postgres_url) as (backend, sent):
        await backend.tool_results.put_tool_result(ref="long", result=of_text(LONG))
        await backend.tool_results.put_tool_result(ref="other", result=of_text("x"))
        for offset, limit, chunks in (
            (len(LONG) - 50, 4_000, 1),
            (3 << 16, 1 << 16, 1),
            (10, 10, 1),
        ):
            sent.clear()
            answer = await backend.tool_results.read_tool_result(
                ref="long", offset=offset, limit=limit
            )
            assert answer.text == LONG[offset : offset + limit]
            assert answer.characters == len(LONG)
            (statement,) = [one for one in sent if "chunks" in one.query]
            for mode in MODES:
                plan = await explained(postgres_url, statement, mode)
                read = [node for node in nodes(plan) if node.get("Relation Name") == "chunks"]
                assert sum(node["Actual Rows"] for node in read) == chunks
                assert plan["Shared Hit Blocks"] + plan["Shared Read Blocks"] < 100
        across = await backend.tool_results.read_tool_result(
            ref="long", offset=(1 << 16) - 5, limit=10
        )
        assert across.text == LONG[(1 << 16) - 5 :][:10]
        beyond = await backend.tool_results.read_tool_result(ref="long", offset=len(LONG) + 1)
        assert (beyond.found, beyond.text, beyond.characters) == (True, "", len(LONG))


async def test_a_text_is_kept_once(postgres_url: str) -> None:
    async with open_backend(postgres_url) as backend:
        await backend.tool_results.put_tool_result(ref="t", result=of_text(LONG[:1_000_000]))
    kept = await value(postgres_url, "SELECT sum(octet_length(text)) FROM agent_stores.chunks")
    rest = await value(postgres_url, "SELECT sum(octet_length(rest)) FROM agent_stores.results")
    assert kept == len(LONG[:1_000_000].encode())
    assert rest < 200


async def test_what_is_replaced_or_deleted_leaves_nothing(postgres_url: str) -> None:
    async with open_backend(postgres_url) as backend:
        results = backend.tool_results
        await results.put_tool_result(ref="t", result=of_text("x" * 300_000), labels={"a": "1"})
        await results.put_tool_result(ref="t", result=of_text("short"), labels={"b": "2"})
        assert await value(postgres_url, "SELECT count(*) FROM agent_stores.chunks") == 1
        assert await value(postgres_url, "SELECT key FROM agent_stores.labels") == "b"
        assert not (await results.list_tool_results(labels={"a": "1"})).infos
        assert (await results.delete_tool_result(ref="t")).deleted
    for table in ("results", "chunks", "labels"):
        assert await value(postgres_url, f"SELECT count(*) FROM agent_stores.{table}") == 0  # noqa: S608
    kept = "SELECT result_count + result_bytes FROM agent_stores.tenant_states"
    assert await value(postgres_url, kept) == 0


@pytest.mark.parametrize("count", [1, 5])
async def test_racing_puts_give_up_no_more_than_the_count_asks_for(
    postgres_url: str, count: int
) -> None:
    async with (
        open_backend(postgres_url, result_max_count=count) as one,
        open_backend(postgres_url, result_max_count=count) as other,
    ):
        await asyncio.gather(
            *(
                client.tool_results.put_tool_result(ref=f"{index} {n}", result=of_text("x"))
                for n in range(20)
                for index, client in enumerate((one, other))
            )
        )
        await one.tool_results.put_tool_result(ref="last", result=of_text("x"))
        assert len(await refs(one)) == count
        assert "last" in await refs(other)


async def test_racing_puts_of_one_ref_leave_one_of_them_whole(postgres_url: str) -> None:
    async with open_backend(postgres_url) as one, open_backend(postgres_url) as other:
        texts = [chr(97 + n) * (70_000 + n) for n in range(8)]
        await asyncio.gather(
            *(
                client.tool_results.put_tool_result(
                    ref="t", result=of_text(text), labels={"first": text[0]}
                )
                for client in (one, other)
                for text in texts
            )
        )
        found = (await one.tool_results.get_tool_result(ref="t")).result
        assert found in [of_text(text) for text in texts]
        (info,) = (await one.tool_results.list_tool_results()).infos
        assert found == of_text(texts[ord(info.labels["first"]) - 97])
    assert await value(postgres_url, "SELECT count(*) FROM agent_stores.results") == 1
    assert await value(postgres_url, "SELECT count(*) FROM agent_stores.chunks") == 2
    assert await value(postgres_url, "SELECT result_count FROM agent_stores.tenant_states") == 1
