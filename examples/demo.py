"""An agent's conversation in the stores: kept, resumed, forked, recalled; then a verdict.

``python examples/demo.py [URL]``, by default on a SQLite file in ``.demo``, which is kept: the next
demo begins with what this one left. The agent is played from ``transcript.jsonl``: no model is
asked and nothing leaves this machine. The exit code is 0 when the suite calls the backend
conformant.
"""

import asyncio
import secrets
import sys
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote

from rich.console import Console
from rich.markup import escape
from rich.panel import Panel
from rich.table import Table
from rich.text import Text
from rich.tree import Tree
from transcript import Turn, read_transcript
from verdict import examine

from stores_core import (
    Backend,
    MemoryItem,
    Message,
    RunInfo,
    ToolResult,
    WordEmbedder,
    open_backend,
)

TRANSCRIPT = Path(__file__).with_name("transcript.jsonl")
KEPT = Path(__file__).parent.parent / ".demo"
LARGE = 8_000  # characters; a longer tool output leaves the conversation
EXCERPT = 160
PAGE = 400
NOTES = {
    "width": "len() counts code points, a terminal counts columns: 横 takes two of them",
    "packages": "adding a package needs a yes; wcwidth has one for this repository",
    "serial port": "one test of the tides is skipped: its gauge hangs on a serial port",
    "language": "change notes in English and German: Änderungen gehen auch an die Häfen",
}
NEEDLE, QUESTION = "häfen", "does adding wcwidth to this repository need a yes?"

console = Console(highlight=False)
console.width = min(console.width, 100)


async def keep(backend: Backend, run_id: str, turns: Sequence[Turn], seen: int = 0) -> str:
    """Append turn by turn, each with its events in one step. Answers the last ref put."""
    ref = ""
    for turn in turns:
        messages: list[Message] = []
        for message in turn.messages:
            if message.role == "tool" and len(message.text or "") > LARGE:
                ref = await offload(backend, run_id, message)
                message = shortened(message, ref)
            messages.append(message)
        # Should the answer get lost, the same key makes the repeat harmless; should another
        # writer have come first, the count is another and nothing is written.
        answer = await backend.runs.append_messages(
            run_id=run_id,
            messages=messages,
            events=turn.events,
            expected_count=seen,
            idempotency_key=f"from {seen}",
        )
        assert answer.applied
        seen = answer.message_count
    return ref


async def offload(backend: Backend, run_id: str, message: Message) -> str:
    result = ToolResult(content=[{"type": "text", "text": message.text}])
    put = await backend.tool_results.put_tool_result(result=result, labels={"run": run_id})
    return put.ref


def shortened(message: Message, ref: str) -> Message:
    """The message as the model sees it from now on: an excerpt and where the rest is."""
    text = message.text or ""
    kept = {name: value for name, value in message if name in message.model_fields_set}
    kept["text"] = f"{text[:EXCERPT]}\n[{len(text):,} characters in all, kept as {ref}]"
    kept["resultRef"] = ref  # a further field, kept like any other
    return Message(**kept)


def show_turns(turns: Sequence[Turn]) -> None:
    table = Table(box=None, pad_edge=False, expand=True)
    table.add_column("turn", justify="right")
    table.add_column("what the user said", ratio=3, no_wrap=True, overflow="ellipsis")
    for number in ("messages", "events", "calls"):
        table.add_column(number, justify="right")
    table.add_column("tools", ratio=2, no_wrap=True, overflow="ellipsis")
    for number, turn in enumerate(turns, 1):
        counts = len(turn.messages), len(turn.events), len(turn.tools)
        tools = ", ".join(dict.fromkeys(turn.tools))
        table.add_row(str(number), escape(turn.prompt), *map(str, counts), tools)
    console.print(table)


async def repeat(backend: Backend, run_id: str, turns: Sequence[Turn]) -> None:
    """Send the last turn again, as after a lost answer."""
    count = sum(len(turn.messages) for turn in turns)
    seen = count - len(turns[-1].messages)
    again = await backend.runs.append_messages(
        run_id=run_id,
        messages=turns[-1].messages,
        events=turns[-1].events,
        expected_count=seen,
        idempotency_key=f"from {seen}",
    )
    assert again.found
    assert not again.applied
    say(
        f"The last turn sent again with its key: not applied, still {again.message_count} messages."
    )


async def resume(backend: Backend, run_id: str) -> None:
    """As another process would: the end of the conversation, and only that."""
    loaded = await backend.runs.load_run(run_id=run_id, last_messages=1)
    assert loaded.run is not None
    run, last = loaded.run, loaded.run.messages[-1]
    head(f"Resumed by a new client at message {run.message_count}, event {run.event_count}")
    say(f"{last.role}: {last.text}")
    missed = await backend.runs.read_events(run_id=run_id, start=run.event_count - 3)
    kinds = ", ".join(event.kind for event in missed.entries)
    say(f"A screen that missed three events reads on: {kinds}")


async def show_result(backend: Backend, ref: str) -> None:
    """The offloaded output: its first page and a search."""
    results = backend.tool_results
    page = await results.read_tool_result(ref=ref, limit=PAGE)
    found = await results.search_tool_result(ref=ref, pattern="assert", ignore_case=True)
    pages = -(-page.characters // PAGE)
    head(f"Kept out of the conversation: a tool result of {page.characters:,} characters")
    text = page.text[: page.text.rfind("\n")]
    hits = "\n".join(f"{match.offset:>6,}  {match.text}" for match in found.matches)
    for title, body in ((f"page 1 of {pages}", text), ("the lines with “assert”", hits)):
        console.print(Panel(Text(body, no_wrap=True, overflow="ellipsis"), title=title))


async def branch(
    backend: Backend, run_id: str, name: str, labels: dict[str, str], at_message: int = 0
) -> str:
    fork = await backend.runs.fork_run(
        run_id=run_id, at_message=at_message, labels={**labels, "name": name}
    )
    assert fork.created
    return fork.run_id


async def show_family(backend: Backend, labels: dict[str, str]) -> None:
    """The runs of this demo as a tree, out of the listing alone."""
    children: dict[str, list[RunInfo]] = {}
    for info in reversed((await backend.runs.list_runs(labels=labels)).runs):
        children.setdefault(info.parent_id, []).append(info)

    def grow(tree: Tree, parent: str) -> None:
        for info in children.get(parent, []):
            origin = f", the first {info.fork_point} shared" if info.parent_id else ""
            label = f"[bold]{info.labels['name']}[/]: {info.message_count} messages{origin}"
            grow(tree.add(label), info.id)

    head("Forked: each is a run like any other, and none changes another")
    tree = Tree("", hide_root=True)
    grow(tree, "")
    console.print(tree)


async def recall(backend: Backend, namespace: str, query: str, how: str) -> None:
    answer = await backend.memory.list_memories(namespace=namespace, query=query, limit=1)
    for found in answer.items:
        say(f"{how} “{query}” {found.score:.2f}")
        say(f"  {found.item.key}: {found.item.value}")


def head(text: str) -> None:
    console.print(f"\n[bold]{escape(text)}[/]")


def say(text: str) -> None:
    console.print(Text(f"  {text}"), no_wrap=True, overflow="ellipsis")


async def show_kept(backend: Backend) -> None:
    """What an earlier demo left in the storage, if there was one."""
    earlier = (await backend.runs.list_runs(labels={"name": "main"}, limit=1)).runs
    for info in earlier:
        loaded = (await backend.runs.load_run(run_id=info.id, last_messages=1)).run
        assert loaded is not None
        when = f"{info.created_at:%Y-%m-%d %H:%M:%S} UTC"
        head(f"Kept from an earlier demo, {when}: {info.message_count} messages, which end with")
        say(f"{loaded.messages[-1].role}: {loaded.messages[-1].text}")


async def play(url: str) -> None:
    transcript = read_transcript(TRANSCRIPT)
    labels = {"demo": secrets.token_hex(8)}  # new each time, so that a storage can be used again
    run_id = namespace = f"hafen-{labels['demo']}"
    async with open_backend(url) as backend:
        survives = f"what an acknowledged write survives: {backend.durability}"
        console.rule(f"[bold]agent-stores on {backend.name}[/] ({survives})")
        await show_kept(backend)
        await backend.runs.create_run(run_id=run_id, labels={**labels, "name": "main"})
        ref = await keep(backend, run_id, transcript.main)
        show_turns(transcript.main)
        items = [MemoryItem(key=key, value=value) for key, value in NOTES.items()]
        await backend.memory.put_memories(namespace=namespace, items=items)
        await repeat(backend, run_id, transcript.main)
        await show_result(backend, ref)

    async with open_backend(url) as backend:
        await resume(backend, run_id)
        other = await branch(backend, run_id, "no new package", labels, transcript.fork_at)
        await keep(backend, other, transcript.other, transcript.fork_at)
        await branch(backend, other, "that again", labels, transcript.fork_at + 1)
        await branch(backend, run_id, "all of it", labels)
        await show_family(backend, labels)
        head("Recalled by one call, without an embedder and with one")
        await recall(backend, namespace, NEEDLE, "substring")

    async with open_backend(url, embedder=WordEmbedder()) as backend:
        await recall(backend, namespace, QUESTION, "embedding")


if __name__ == "__main__":
    KEPT.mkdir(mode=0o700, exist_ok=True)
    if len(sys.argv) > 1:
        url = examined = sys.argv[1]
    else:  # two files, so that the one that is kept holds the demos and nothing else
        url, examined = (f"sqlite:{quote(str(KEPT / name))}" for name in ("agent.db", "suite.db"))
    asyncio.run(play(url))
    code = examine(examined, console)
    for left in KEPT.glob("suite.db*"):
        left.unlink()
    sys.exit(code)
