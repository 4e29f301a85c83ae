"""The OpenAI Agents Session: by the SDK's own tests, and by what those do not ask."""

import asyncio
import re
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("agents", reason="needs the extra openai-agents")

from stores_adapters.openai_agents import SESSION, BackendSession
from stores_core import Backend, Event, InvalidRequestError, open_backend
from stores_core.codec import canonical
from stores_core.opening import schemes
from tests.meanwhile import Meanwhile, repeating
from tests.sdists import source_of

FILES = [
    "tests/memory/test_session.py",
    "tests/memory/test_session_limit.py",
    "tests/memory/test_compaction_model_visibility.py",
    "tests/memory/test_openai_responses_compaction_session.py",
    "tests/test_agent_runner.py",
    "tests/test_agent_runner_streamed.py",
    "tests/test_max_turns.py",
    "tests/test_native_tool_failure_history.py",
    "tests/test_programmatic_tool_calling.py",
    "tests/test_run_impl_resume_paths.py",
    "tests/test_soft_cancel.py",
    "tests/test_tool_batch_failure_history.py",
    "tests/test_tool_failure_boundaries.py",
]


@asynccontextmanager
async def opened(url: str) -> AsyncGenerator[tuple[Backend, BackendSession]]:
    async with open_backend(url) as backend:
        yield backend, BackendSession("conversation", backend)


def said(*texts: str) -> list[Any]:
    return [{"role": "user", "content": text} for text in texts]


async def test_racing_pops_give_different_items(url: str) -> None:
    async with opened(url) as (backend, session):
        items = said(*map(str, range(12)))
        await session.add_items(items)
        callers = [BackendSession("conversation", backend) for _ in range(12)]
        popped = await asyncio.gather(*[caller.pop_item() for caller in callers])
        assert sorted(map(canonical, popped)) == sorted(map(canonical, items))
        assert await session.get_items() == []
        assert await session.pop_item() is None


async def test_pops_by_two_clients_of_one_storage_never_share_an_item(tmp_path: Path) -> None:
    if "sqlite" not in schemes():
        pytest.skip("no sqlite: backend is installed")
    url = f"sqlite:{tmp_path / 'stores.db'}"
    async with opened(url) as (_, ours), opened(url) as (_, theirs):
        await ours.add_items(said(*map(str, range(20))))
        calls = [session.pop_item() for session in (ours, theirs) for _ in range(10)]
        popped = await asyncio.gather(*calls)
        assert len(set(map(canonical, popped))) == 20


async def test_a_pop_never_passes_over_an_item_that_was_added_meanwhile(url: str) -> None:
    before_the_append = Meanwhile("append_events")
    async with open_backend(url, interceptors=[before_the_append]) as backend:
        session = BackendSession("conversation", backend)
        await session.add_items(said("old"))
        before_the_append.act = lambda: session.add_items(said("new"))
        assert [await session.pop_item()] == said("new")
        assert await session.get_items() == said("old")


async def test_a_pop_in_the_middle_of_a_pop_takes_another_item(url: str) -> None:
    before_the_append = Meanwhile("append_events")
    async with open_backend(url, interceptors=[before_the_append]) as backend:
        session = BackendSession("conversation", backend)
        await session.add_items(said("one", "two", "three"))
        before_the_append.act = session.pop_item
        assert [await session.pop_item()] == said("two")
        assert await session.get_items() == said("one")


async def test_a_pop_that_is_repeated_below_the_session_removes_one_item(url: str) -> None:
    async with open_backend(url, interceptors=[repeating("append_events")]) as backend:
        session = BackendSession("conversation", backend)
        await session.add_items(said("one", "two"))
        assert [await session.pop_item()] == said("two")
        assert await session.get_items() == said("one")


async def test_items_come_back_equal_with_the_order_of_their_keys(url: str) -> None:
    items: list[Any] = [
        {"z": 1, "role": "user", "a": {"y": 1.0, "x": -0.0}, "content": "nul \0, astral 🦊"},
        {"type": "reasoning", "id": "rs_1", "summary": [], "text": None, "timestamp": "soon"},
        {"type": "function_call", "call_id": "c", "name": "f", "arguments": '{"n": 1}'},
        {"type": "function_call_output", "call_id": "c", "output": [{"item": {}, "role": []}]},
        {},
    ]
    async with opened(url) as (_, session):
        await session.add_items(items)
        assert [canonical(item) for item in await session.get_items()] == list(
            map(canonical, items)
        )
        assert [list(item) for item in await session.get_items()] == [list(item) for item in items]


async def test_the_newest_items_are_found_behind_popped_ones(url: str) -> None:
    async with opened(url) as (_, session):
        kept: list[Any] = []
        for turn in range(6):
            await session.add_items(said(*(f"{turn}.{n}" for n in range(4))))
            kept += said(*(f"{turn}.{n}" for n in range(4)))
            for _ in range(turn):
                if kept:
                    assert await session.pop_item() == kept.pop()
        assert await session.get_items() == kept
        for limit in range(len(kept) + 2):
            assert await session.get_items(limit) == (kept[-limit:] if limit else [])


@pytest.mark.parametrize("limit", [-1, True, 2.0, "1"])
async def test_a_limit_that_is_no_count_is_refused(limit: Any) -> None:
    async with opened("memory:") as (_, session):
        await session.add_items(said("one"))
        with pytest.raises(InvalidRequestError, match="limit"):
            await session.get_items(limit)


async def test_a_batch_with_an_unfit_item_leaves_nothing_behind(url: str) -> None:
    async with opened(url) as (backend, session):
        with pytest.raises(InvalidRequestError, match=re.escape("messages[1].item.content")):
            await session.add_items([*said("fit"), {"role": "user", "content": object()}])  # type: ignore[typeddict-item]
        assert await session.get_items() == []
        await BackendSession("conversation", backend).add_items(said("next"))
        assert await session.get_items() == said("next")


async def test_clearing_removes_everything_and_the_session_goes_on(url: str) -> None:
    async with opened(url) as (backend, session):
        await session.add_items(said("one", "two"))
        await session.pop_item()
        await session.clear_session()
        assert not (await backend.runs.get_run(run_id="conversation")).found
        await session.clear_session()
        await session.add_items(said("three"))
        assert await session.get_items() == said("three")


async def texts_of(backend: Backend) -> dict[str, list[str]]:
    """The texts of the items in each run, by the run's id."""
    found: dict[str, list[str]] = {}
    for info in (await backend.runs.list_runs()).runs:
        page = await backend.runs.read_messages(run_id=info.id)
        extras = [message.model_extra or {} for message in page.entries]
        found[info.id] = [extra["item"]["content"] for extra in extras]
    return found


async def test_what_was_popped_stays_in_a_branch_that_shares_what_came_before(url: str) -> None:
    async with opened(url) as (backend, session):
        await session.add_items(said("one", "two", "three"))
        await session.pop_item()
        await session.pop_item()
        await session.add_items(said("other"))
        assert sorted((await texts_of(backend)).values()) == [
            ["one", "other"],
            ["one", "two"],
            ["one", "two", "three"],
        ]
        runs = (await backend.runs.list_runs(labels={SESSION: "conversation"})).runs
        assert [run.fork_point for run in runs] == [1, 2, 0]
        assert [run.parent_id for run in runs] == [runs[1].id, "conversation", ""]


async def test_a_pop_that_was_cut_off_before_its_fork_is_completed_by_the_next_call(
    url: str,
) -> None:
    before_the_fork = Meanwhile("fork_run")
    async with open_backend(url, interceptors=[before_the_fork]) as backend:
        session = BackendSession("conversation", backend)
        await session.add_items(said("one", "two"))

        async def cut_off() -> None:
            raise ConnectionError

        before_the_fork.act = cut_off
        assert [await session.pop_item()] == said("two")
        assert len((await backend.runs.list_runs()).runs) == 1
        other = BackendSession("conversation", backend)
        await other.add_items(said("three"))
        assert await session.get_items() == said("one", "three")


async def test_a_clear_in_the_middle_of_a_pop_and_items_added_then_are_not_popped(
    url: str,
) -> None:
    before_the_append = Meanwhile("append_events")
    async with open_backend(url, interceptors=[before_the_append]) as backend:
        session = BackendSession("conversation", backend)
        await session.add_items(said("old"))

        async def begin_anew() -> None:
            await session.clear_session()
            await session.add_items(said("new"))

        before_the_append.act = begin_anew
        assert [await session.pop_item()] == said("new")
        assert await session.get_items() == []


async def test_a_word_at_the_root_that_comes_after_a_clear_leads_nobody_astray(url: str) -> None:
    before_the_append = Meanwhile("append_events")
    async with open_backend(url, interceptors=[before_the_append]) as backend:
        session = BackendSession("conversation", backend)
        await session.add_items(said("one", "two", "three"))
        await session.pop_item()

        async def then_at_the_root() -> None:
            before_the_append.act = begin_anew

        async def begin_anew() -> None:
            await session.clear_session()
            await session.add_items(said("new", "newer"))
            await session.pop_item()

        before_the_append.act = then_at_the_root
        assert [await session.pop_item()] == said("two")
        assert await session.get_items() == said("new")
        await session.add_items(said("newest"))
        assert await BackendSession("conversation", backend).get_items() == said("new", "newest")


async def test_a_session_forks_at_any_item_and_neither_side_changes_the_other(url: str) -> None:
    async with opened(url) as (backend, session):
        await session.add_items(said("one", "two", "three"))
        await session.pop_item()
        whole = await session.fork_session("whole")
        first = await session.fork_session("first", 1)
        none = await session.fork_session("none", 0)
        for fork, text in ((whole, "a"), (first, "b"), (none, "c")):
            await fork.add_items(said(text))
        await session.add_items(said("d"))
        assert await session.get_items() == said("one", "two", "d")
        assert await whole.get_items() == said("one", "two", "a")
        assert await first.get_items() == said("one", "b")
        assert await none.get_items() == said("c")
        await session.clear_session()
        assert [await whole.pop_item()] == said("a")
        with pytest.raises(InvalidRequestError, match="session_id"):
            await first.fork_session("whole")
        with pytest.raises(InvalidRequestError, match="items"):
            await first.fork_session("more", 3)
        # A fork made by hand of a session that went on elsewhere goes ways of its own, too.
        await whole.pop_item()
        await backend.runs.fork_run(run_id="whole", new_run_id="by-hand")
        by_hand = BackendSession("by-hand", backend)
        await by_hand.add_items(said("e"))
        assert await by_hand.get_items() == said("one", "two", "a", "e")
        assert await whole.get_items() == said("one")
        await whole.clear_session()
        assert await by_hand.get_items() == said("one", "two", "a", "e")


async def test_a_session_whose_branch_was_deleted_by_hand_is_mended_from_the_one_before(
    url: str,
) -> None:
    async with opened(url) as (backend, session):
        await session.add_items(said("one", "two"))
        await session.pop_item()
        branch = (await backend.runs.list_runs(limit=1)).runs[0]
        await backend.runs.delete_run(run_id=branch.id)
        assert await session.get_items() == said("one")


async def test_racing_first_items_are_all_kept(url: str) -> None:
    async with opened(url) as (backend, session):
        batches = [said(f"{n} a", f"{n} b") for n in range(10)]
        sessions = [BackendSession("conversation", backend) for _ in batches]
        calls = [one.add_items(batch) for one, batch in zip(sessions, batches, strict=True)]
        await asyncio.gather(*calls)
        items = await session.get_items()
        pairs = [items[at : at + 2] for at in range(0, len(items), 2)]
        assert sorted(map(canonical, pairs)) == sorted(map(canonical, batches))


async def test_a_run_whose_events_another_writes_is_refused() -> None:
    async with opened("memory:") as (backend, session):
        await session.add_items(said("one"))
        await backend.runs.append_events(run_id="conversation", events=[Event(kind="signal")])
        with pytest.raises(InvalidRequestError, match="another writer"):
            await session.pop_item()


@pytest.fixture(scope="module")
def sdk(request: pytest.FixtureRequest) -> Path:
    """The source distribution of the installed SDK, unpacked."""
    return source_of("openai-agents", request.config)


@pytest.mark.probe
@pytest.mark.timeout(900)
def test_the_tests_of_the_sdk_pass_with_our_session(root: Path, sdk: Path, url: str) -> None:
    # Those that are about sessions on every backend, those that use one on the quickest.
    files, least = (FILES, 250) if url.startswith("memory:") else (FILES[:2], 45)
    for needed in ("inline_snapshot", "pytest_asyncio"):
        pytest.importorskip(needed, reason="the SDK's tests need it")
    options = ["-q", "--no-header", "--tb=short", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "openai_session_stand_in", *options, *files],
        cwd=sdk,
        env={
            "PATH": str(Path(sys.executable).parent),
            "PYTHONPATH": f"{root / 'tests'}:{root}",
            "AGENT_STORES_PROBE": "memory:probe"
            if url == "memory:"
            else url.partition("?tenant")[0],
        },
        capture_output=True,
        text=True,
        check=False,
    )
    summary = done.stdout.strip().rpartition("\n")[2]
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    passed = re.search(r"(\d+) passed", summary)
    assert passed, summary
    assert int(passed[1]) >= least, summary
