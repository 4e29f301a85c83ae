"""Large tool results go to the store, and the model reads on by two tool functions."""

import json
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from stores_adapters.tools import Offload, Tool, memory_tools
from stores_core import InvalidRequestError, StoreError, ToolResult, open_backend
from tests.meanwhile import Meanwhile

LINES = "\n".join(f"{number}: line" for number in range(1_000))


def named(tools: list[Tool[Any]]) -> dict[str, Tool[Any]]:
    return {tool.name: tool for tool in tools}


async def test_a_large_result_becomes_a_stub_from_which_the_model_reads_on(url: str) -> None:
    async with open_backend(url) as backend:
        offload = Offload(backend, labels={"run": "r"})

        @offload.wrap
        async def list_files(folder: str) -> str:
            """Lists a folder."""
            return f"{folder}\n{LINES}"

        stub = await list_files("here")
        assert isinstance(stub, str)
        assert len(stub) < 600
        (info,) = (await backend.tool_results.list_tool_results()).infos
        assert info.labels == {"run": "r", "tool": "list_files"}
        assert repr(info.ref) in stub
        assert stub.endswith(f"here\n{LINES}"[:400])
        tools = named(offload.tools())
        part = await tools["read_tool_result"].call({"ref": info.ref, "offset": 5, "limit": 7})
        assert part == f"[characters 5 to 12 of {len(LINES) + 5:,}]\n0: line"
        found = await tools["search_tool_result"].call(
            {"ref": info.ref, "pattern": "99: LINE", "ignore_case": True, "limit": 2}
        )
        first, second, more = found.splitlines()
        assert first.endswith(": 99: line")
        assert second.endswith(": 199: line")
        assert "start=" in more
        none = {"ref": info.ref, "pattern": "nowhere"}
        assert await tools["search_tool_result"].call(none) == "[no line contains it]"
        await backend.tool_results.delete_tool_result(ref=info.ref)
        for tool in tools.values():
            given = {"ref": info.ref, **({"pattern": "x"} if "search" in tool.name else {})}
            assert "no longer" in await tool.call(given)


@pytest.mark.parametrize(("size", "kept"), [(4_095, False), (4_096, True)])
@pytest.mark.parametrize("letter", ["x", "\u00e9"])
async def test_the_threshold_counts_bytes_and_is_itself_large(
    size: int, kept: bool, letter: str
) -> None:
    async with open_backend("memory:") as backend:
        result = letter * (size // len(letter.encode())) + "x" * (size % len(letter.encode()))
        stub = await Offload(backend).stub("tool", result)
        assert (stub != result) == kept


async def test_tools_have_thresholds_of_their_own_and_errors_stay_inline() -> None:
    async with open_backend("memory:") as backend:
        offload = Offload(backend, thresholds={"eager": 1, "never": None}, preview=3)
        stub = await offload.stub("eager", "12345", ref="mine")
        assert isinstance(stub, str)
        assert stub.endswith("\n123")
        assert (await backend.tool_results.get_tool_result(ref="mine")).found
        assert await offload.stub("never", LINES) == LINES
        failed = ToolResult(content=({"type": "text", "text": LINES},), is_error=True)
        assert await offload.stub("eager", failed) is failed

        def broken() -> str:
            raise OSError("the disk is on fire")

        with pytest.raises(OSError, match="on fire"):
            await offload.wrap(broken, name="eager")()
        assert len((await backend.tool_results.list_tool_results()).infos) == 1


async def test_the_stub_of_a_tool_result_is_one_and_what_was_kept_is_equal() -> None:
    async with open_backend("memory:") as backend:
        offload = Offload(backend, threshold=100)
        image = {"type": "image", "data": "A" * 200, "mimeType": "image/png"}
        result = ToolResult(content=(image, {"type": "text", "text": "a red fox"}), meta={"n": 1})
        stub = await offload.stub("look", result)
        assert isinstance(stub, ToolResult)
        assert [item["text"].endswith("a red fox") for item in stub.content or ()] == [True]
        kept = await backend.tool_results.get_tool_result(ref=stub.meta["ref"])
        assert kept.result == result
        rows: list[dict[str, Any]] = [{"id": n} for n in range(50)]
        text: object = await offload.stub("query", rows)
        assert isinstance(text, str)
        assert text.endswith(json.dumps(rows, separators=(",", ":"))[:400])


@pytest.mark.parametrize("odd", [object(), {1, 2}, [float("nan")] * 100, "\ud800" * 5_000])
async def test_what_no_store_could_give_back_stays_inline(odd: object) -> None:
    async with open_backend("memory:") as backend:
        assert await Offload(backend, threshold=0).stub("tool", odd) is odd


async def test_a_result_that_could_not_be_kept_is_an_error_and_no_stub() -> None:
    before_the_put = Meanwhile("put_tool_result")

    async def fail() -> None:
        raise ConnectionError

    async with open_backend("memory:", interceptors=[before_the_put]) as backend:
        before_the_put.act = fail
        with pytest.raises(StoreError):
            await Offload(backend).stub("tool", LINES)


async def test_the_schemas_say_what_the_functions_take() -> None:
    async with open_backend("memory:") as backend:
        tools = [*Offload(backend).tools(), *memory_tools(backend)]
        assert [tool.name for tool in tools] == [
            "read_tool_result",
            "search_tool_result",
            "remember",
            "recall",
            "forget",
        ]
        for tool in tools:
            schema = tool.parameters
            validator: Any = Draft202012Validator(schema)
            validator.check_schema(schema)
            assert (schema["type"], schema["additionalProperties"]) == ("object", False)
            assert all("description" in part for part in schema["properties"].values())
            least: dict[str, Any] = dict.fromkeys(schema["required"], "x")
            validator.validate(least)
            assert await tool.call(least)
            for wrong in ({}, {**least, "more": 1}, dict.fromkeys(schema["required"], 5)):
                assert not validator.is_valid(wrong)
                with pytest.raises(InvalidRequestError):
                    await tool.call(wrong)
