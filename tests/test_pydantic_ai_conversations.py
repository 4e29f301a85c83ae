"""The Pydantic AI conversation store: what its interface documents, and what ours adds."""

import asyncio
from dataclasses import replace

import pytest

pytest.importorskip("pydantic_ai", reason="needs the extra pydantic-ai")

from pydantic_ai import Agent, ModelMessage, ModelRequest, ModelResponse, TextPart, UserPromptPart
from pydantic_ai.conversation import Conversation
from pydantic_ai.conversation_store import (
    ConversationConflict,
    ConversationEntry,
    ConversationRecord,
    ConversationStore,
    InMemoryConversationStore,
)
from pydantic_ai.exceptions import UserError
from pydantic_ai.messages import BinaryContent, ToolCallPart, ToolReturnPart
from pydantic_ai.models.test import TestModel
from pydantic_ai.usage import RunUsage

from stores_adapters.pydantic_ai import BackendConversationStore, append_history, load_history
from stores_core import open_backend
from tests.meanwhile import Meanwhile, repeating


def says(text: str) -> ModelRequest:
    return ModelRequest(parts=[UserPromptPart(text)])


def answers(text: str) -> ModelResponse:
    return ModelResponse(parts=[TextPart(text)])


def texts(messages: list[ModelMessage]) -> list[object]:
    return [getattr(message.parts[0], "content", None) for message in messages]


async def kept(store: ConversationStore, id: str = "c", limit: int | None = None) -> list[object]:
    conversation = await store.load(id, limit=limit)
    assert conversation is not None
    return texts(conversation.messages)


async def begun(store: ConversationStore, *said: str, id: str = "c") -> Conversation:
    conversation = Conversation(conversation_id=id, messages=[says(text) for text in said])
    await store.save(conversation)
    return conversation


async def test_a_conversation_comes_back_equal(url: str) -> None:
    call = ToolCallPart("look", {"deep": [1, 1.5, None, {"ü": "🦊"}]}, tool_call_id="1")
    paper = BinaryContent(data=b"\0\xff", media_type="application/pdf")
    messages: list[ModelMessage] = [
        ModelRequest(parts=[UserPromptPart(["see", paper])]),
        ModelResponse(parts=[TextPart("I look"), call], model_name="m"),
        ModelRequest(parts=[ToolReturnPart("look", {"found": True}, tool_call_id="1")]),
        answers("there"),
    ]
    usage = RunUsage(requests=2, input_tokens=7)
    async with open_backend(url) as backend:
        store = BackendConversationStore(backend)
        given = Conversation(conversation_id="c", messages=messages, usage=usage)
        entries = await store.save(given)
        assert await store.load("c") == given
        assert await store.load_entries("c") == entries
        [run] = (await backend.runs.list_runs()).runs
        whole = (await backend.runs.load_run(run_id=run.id)).run
        assert whole
        assert [one.role for one in whole.messages] == ["user", "assistant", "tool", "assistant"]


async def test_an_agent_goes_on_where_another_process_left_off(url: str) -> None:
    agent = Agent(TestModel(custom_output_text="hm"))
    async with open_backend(url) as backend:
        result = await agent.run("one", conversation=Conversation(conversation_id="c"))
        await BackendConversationStore(backend).save(result)
        store = BackendConversationStore(backend)  # one that remembers nothing
        loaded = await store.load("c")
        assert loaded is not None
        later = await agent.run("two", conversation=loaded)
        assert len(await store.save(later)) == 2
        assert await kept(store) == ["one", "hm", "two", "hm"]
        [run] = (await backend.runs.list_runs()).runs
        assert run.message_count == 4


async def test_a_stale_save_is_refused_and_leaves_nothing_behind(url: str) -> None:
    async with open_backend(url) as backend:
        store = BackendConversationStore(backend)
        await begun(store, "one")
        ours, theirs = await store.load("c"), await store.load("c")
        assert ours
        assert theirs
        theirs.messages.append(says("theirs"))
        await store.save(theirs)
        ours.messages.append(says("ours"))
        with pytest.raises(ConversationConflict):
            await store.save(ours)
        with pytest.raises(ConversationConflict):
            await begun(store, "anew")
        assert await kept(store) == ["one", "theirs"]
        [run] = (await backend.runs.list_runs()).runs
        assert run.message_count == 2


async def test_a_save_between_reading_and_writing_is_noticed(url: str) -> None:
    before_the_append = Meanwhile("append_messages")
    async with open_backend(url, interceptors=[before_the_append]) as backend:
        store = BackendConversationStore(backend)
        await begun(store, "one")
        ours, theirs = await store.load("c"), await store.load("c")
        assert ours
        assert theirs
        ours.messages.append(says("ours"))
        theirs.messages.append(says("theirs"))
        before_the_append.act = lambda: store.save(theirs)
        with pytest.raises(ConversationConflict):
            await store.save(ours)
        assert await kept(store) == ["one", "theirs"]


async def test_of_first_saves_that_race_one_is_served(url: str) -> None:
    async with open_backend(url) as backend:
        store = BackendConversationStore(backend)
        calls = [begun(BackendConversationStore(backend), f"{n}") for n in range(6)]
        done = await asyncio.gather(*calls, return_exceptions=True)
        assert sum(isinstance(one, Conversation) for one in done) == 1
        assert sum(isinstance(one, ConversationConflict) for one in done) == 5
        assert len(await kept(store)) == 1


async def test_a_save_that_is_repeated_below_the_store_counts_once(url: str) -> None:
    async with open_backend(url, interceptors=[repeating("append_messages")]) as backend:
        store = BackendConversationStore(backend)
        conversation = await begun(store, "one")
        conversation.messages.append(says("two"))
        await store.save(conversation)
        assert await kept(store) == ["one", "two"]


async def test_the_newest_messages_are_loaded_alone_and_saved_onto_the_whole(url: str) -> None:
    async with open_backend(url) as backend:
        store = BackendConversationStore(backend)
        await begun(store, *"abcdefgh")
        for limit in range(10):
            assert await kept(store, limit=limit) == list("abcdefgh")[8 - min(limit, 8) :]
        window = await store.load("c", limit=2)
        assert window
        window.messages.append(says("i"))
        await store.save(window)
        assert await kept(store) == list("abcdefghi")
        with pytest.raises(UserError):
            await store.load("c", limit=-1)


async def test_a_branch_keeps_what_it_leaves(url: str) -> None:
    async with open_backend(url) as backend:
        store = BackendConversationStore(backend)
        conversation = await begun(store, "a", "b", "c")
        assert conversation.revision
        branched = await store.branch("c", at=1, expected_revision=conversation.revision)
        branched.messages.append(says("B"))
        await store.save(branched)
        assert await kept(store) == ["a", "B"]
        assert await kept(store, limit=1) == ["B"]
        assert await kept(store, limit=2) == ["a", "B"]
        [record] = await store.list_conversations()
        [left] = record.branches
        assert branched.revision
        back = await store.branch("c", from_entry=left, expected_revision=branched.revision)
        assert texts(back.messages) == ["a", "b", "c"]
        with pytest.raises(ConversationConflict):
            await store.branch("c", at=1, expected_revision=conversation.revision)


async def test_a_fork_shares_entries_and_goes_its_own_way(url: str) -> None:
    async with open_backend(url) as backend:
        store = BackendConversationStore(backend)
        conversation = await begun(store, "a", "b", "c")
        fork = await store.fork("c", at=2, new_conversation_id="f")
        assert texts(fork.messages) == ["a", "b"]
        fork.messages.append(says("F"))
        conversation.messages.append(says("d"))
        await store.save(fork)
        await store.save(conversation)
        assert await kept(store) == ["a", "b", "c", "d"]
        ours, theirs = await store.load_entries("c"), await store.load_entries("f")
        assert ours
        assert theirs
        assert ours[:2] == theirs[:2]
        records = {one.conversation_id: one for one in await store.list_conversations()}
        assert (records["f"].forked_from, records["f"].forked_at) == ("c", ours[1].id)
        with pytest.raises(ConversationConflict):
            await store.fork("c", new_conversation_id="f")
        lineage = (await backend.runs.list_runs(parent_id="pydantic-ai c")).runs
        assert [run.id for run in lineage] == ["pydantic-ai f"]
        await store.delete("c")
        assert await store.load("c") is None
        assert await kept(BackendConversationStore(backend), "f") == ["a", "b", "F"]


async def test_a_fork_that_was_cut_off_is_no_conversation_and_may_be_made_again(url: str) -> None:
    async with open_backend(url) as backend:
        store = BackendConversationStore(backend)
        await begun(store, "a", "b")
        await backend.runs.fork_run(run_id="pydantic-ai c", new_run_id="pydantic-ai f")
        assert await store.load("f") is None
        assert [one.conversation_id for one in await store.list_conversations()] == ["c"]
        await store.fork("c", at=1, new_conversation_id="f")
        assert await kept(store, "f") == ["a"]


async def test_a_scope_keeps_conversations_to_its_own(url: str) -> None:
    async with open_backend(url) as backend:
        store = BackendConversationStore(backend)
        for id, scope in (("1", "anna"), ("2", "ben"), ("3", "anna"), ("4", "")):
            await store.save(Conversation(conversation_id=id, messages=[says(id)]), scope=scope)
        listed = await store.list_conversations(scope="anna")
        assert [record.conversation_id for record in listed] == ["3", "1"]
        assert [one.conversation_id for one in await store.list_conversations(scope="")] == ["4"]
        assert len(await store.list_conversations()) == 4
        newest = await store.list_conversations(limit=1)
        assert [one.conversation_id for one in newest] == ["4"]
        assert await store.load("1", scope="ben") is None
        await store.delete("1", scope="ben")
        assert await store.load("1", scope="anna")
        await store.delete("1", scope="anna")
        assert await store.load("1") is None


async def test_listings_go_by_the_last_save(url: str) -> None:
    async with open_backend(url) as backend:
        store = BackendConversationStore(backend)
        first, _ = await begun(store, "a", id="1"), await begun(store, "b", id="2")
        await store.save(first)
        assert [one.conversation_id for one in await store.list_conversations()] == ["1", "2"]


async def test_an_entry_is_found_by_its_id_alone(url: str) -> None:
    async with open_backend(url) as backend:
        store = BackendConversationStore(backend)
        conversation = Conversation(conversation_id="c", messages=[says("a"), says("b")])
        entries = await store.save(conversation)
        await begun(store, "x", id="other")
        forgetful = BackendConversationStore(backend)
        for entry in entries:
            assert await forgetful.read_entry(entry.id) == entry
        with pytest.raises(LookupError):
            await forgetful.read_entry("unknown")


async def test_the_primitives_answer_as_those_of_the_store_of_pydantic_ai(url: str) -> None:
    a = ConversationEntry(parent_id=None, message=says("a"))
    b = ConversationEntry(parent_id=a.id, message=says("b"))
    first = ConversationRecord(conversation_id="c", head_id=b.id)
    later = replace(first, revision="later")

    async def tried(store: ConversationStore) -> list[object]:
        async def what(call: object) -> object:
            try:
                return await call  # type: ignore[misc] - a coroutine
            except (ConversationConflict, LookupError) as error:
                return "lookup" if isinstance(error, LookupError) else "conflict"

        write, read = store.write_record, store.read_history
        return [
            await what(write(first, expected_revision=None)),
            await what(write(first, new_entries=[a, b], expected_revision="none")),
            await what(write(first, new_entries=[a, b], expected_revision=None)),
            await what(write(later, expected_revision=None)),
            await what(write(replace(later, head_id="no"), expected_revision=first.revision)),
            await what(store.read_record("c")),
            await what(write(later, expected_revision=first.revision)),
            await what(store.read_record("c")),
            await what(read(None)),
            await what(read(b.id)),
            await what(read(b.id, limit=1)),
            await what(read("no")),
            await what(store.delete_record("c", expected_revision=first.revision)),
            await what(store.delete_record("c", expected_revision="later")),
            await what(store.delete_record("c", expected_revision="later")),
            await what(store.read_record("c")),
            await what(store.read_entry(a.id)),
        ]

    async with open_backend(url) as backend:
        ours = await tried(BackendConversationStore(backend))
        assert ours == await tried(InMemoryConversationStore())


async def test_a_history_is_a_run_that_forks_at_any_message(url: str) -> None:
    async with open_backend(url) as backend:
        assert await load_history(backend, "h") == []
        await append_history(backend, "h", [says("a"), answers("b")])
        await append_history(backend, "h", [says("c")])
        assert texts(await load_history(backend, "h")) == ["a", "b", "c"]
        assert texts(await load_history(backend, "h", last_messages=2)) == ["b", "c"]
        await backend.runs.fork_run(run_id="h", new_run_id="f", at_message=2)
        assert texts(await load_history(backend, "f")) == ["a", "b"]
