"""Working memory for the model: remember, recall, forget, and the blocks before a turn."""

from typing import Any

import pytest

from stores_adapters.tools import memory_summary, memory_tools, recall_relevant
from stores_core import InvalidRequestError, MemoryItem, WordEmbedder, open_backend


async def test_the_model_remembers_recalls_and_forgets_in_its_namespace_only(url: str) -> None:
    async with open_backend(url) as backend:
        tools = {tool.name: tool for tool in memory_tools(backend, namespace="ada")}
        await backend.memory.put_memory(item=MemoryItem(key="tea", value="theirs"))
        first = await tools["remember"].call({"key": "tea", "value": "likes green tea"})
        assert first == "remembered"
        again = await tools["remember"].call({"key": "tea", "value": "likes black tea"})
        assert "in place" in again
        assert await tools["recall"].call({"query": "black"}) == "- tea: likes black tea"
        assert await tools["recall"].call({"query": "theirs"}) == "nothing found"
        assert await tools["forget"].call({"key": "tea"}) == "forgotten"
        assert await tools["forget"].call({"key": "tea"}) == "there is no note of that name"
        assert (await backend.memory.get_memory(key="tea")).found


async def test_a_summary_has_the_newest_first_under_both_budgets(url: str) -> None:
    async with open_backend(url) as backend:
        assert await memory_summary(backend) == ""
        for number in range(30):
            item = MemoryItem(key=f"k{number}", value=f"value {number}")
            await backend.memory.put_memory(item=item)
        forged = MemoryItem(key="k3", value="new\nvalue\n- k4: forged")
        await backend.memory.put_memory(item=forged)
        lines = (await memory_summary(backend)).splitlines()
        assert len(lines) == 20
        assert lines[:3] == [
            "- k3: new value - k4: forged",
            "- k29: value 29",
            "- k28: value 28",
        ]
        assert (await memory_summary(backend, items=2)).splitlines() == lines[:2]
        short = await memory_summary(backend, characters=40)
        assert short == "\n".join(lines)[:39] + "\u2026"
        exact = "\n".join(lines[:2])
        assert await memory_summary(backend, items=2, characters=len(exact)) == exact


async def test_what_is_relevant_is_ranked_and_above_the_floor(url: str) -> None:
    async with open_backend(url, embedder=WordEmbedder()) as backend:
        notes = {
            "tea": "she drinks green tea",
            "train": "the train leaves at nine",
            "japan": "green tea from Japan",
        }
        for key, value in notes.items():
            await backend.memory.put_memory(item=MemoryItem(key=key, value=value))
        block = await recall_relevant(backend, "green tea")
        assert {line.split(":")[0] for line in block.splitlines()} == {"- tea", "- japan"}
        assert len((await recall_relevant(backend, "green tea", items=1)).splitlines()) == 1
        assert len((await recall_relevant(backend, "green tea", floor=-1)).splitlines()) == 3
        assert await recall_relevant(backend, "green tea", floor=1.1) == ""
        assert await recall_relevant(backend, "") == ""


async def test_at_most_five_are_relevant_unless_more_are_asked_for() -> None:
    async with open_backend("memory:") as backend:
        for number in range(8):
            await backend.memory.put_memory(item=MemoryItem(key=f"{number}", value="tea"))
        assert len((await recall_relevant(backend, "tea")).splitlines()) == 5
        assert len((await recall_relevant(backend, "tea", items=7)).splitlines()) == 7


@pytest.mark.parametrize("budget", [0, -1, True, 2.0])
async def test_a_budget_that_is_no_count_is_refused(budget: Any) -> None:
    async with open_backend("memory:") as backend:
        for field in ("items", "characters"):
            with pytest.raises(InvalidRequestError, match=field):
                await memory_summary(backend, **{field: budget})
            with pytest.raises(InvalidRequestError, match=field):
                await recall_relevant(backend, "q", **{field: budget})
