"""Seeded inputs that look like an agent's work: turns of four messages, notes, long outputs."""

import random

from stores_core import Message, ToolCall

_TEXT = (
    "branch build cache commit config context cursor deploy error event field file fork function "
    "index input latency limit line log memory message module number output parser patch path plan "
    "query record retry row schema server session shard step store stream summary table test token"
)
_WORDS = _TEXT.split()


def text(rng: random.Random, size: int) -> str:
    """Words and numbers, ``size`` characters of them."""
    words: list[str] = []
    length = 0
    while length < size:
        word = rng.choice(_WORDS) if rng.random() < 0.8 else str(rng.getrandbits(24))
        words.append(word)
        length += len(word) + 1
    return " ".join(words)[:size]


def turn(rng: random.Random) -> list[Message]:
    """A question, a tool call, its result (one in 50 is 40 kB), an answer: 0.2 to 4 kB each."""
    call_id = f"call_{rng.getrandbits(64):016x}"
    output = 40_000 if rng.random() < 0.02 else rng.randrange(500, 4_000)
    args = {"query": text(rng, 120), "limit": rng.randrange(100), "open": True}
    return [
        Message(role="user", text=text(rng, rng.randrange(200, 1_000))),
        Message(
            role="assistant",
            text=text(rng, rng.randrange(200, 600)),
            tool_calls=[ToolCall(id=call_id, name="search", args=args)],
        ),
        Message(role="tool", tool_call_id=call_id, text=text(rng, output)),
        Message(role="assistant", text=text(rng, rng.randrange(300, 2_000))),
    ]


def messages(seed: int, count: int) -> list[Message]:
    """``count`` messages in whole turns, a multiple of four."""
    rng = random.Random(seed)
    return [message for _ in range(count // 4) for message in turn(rng)]
