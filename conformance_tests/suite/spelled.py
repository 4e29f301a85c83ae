"""Embedders that do as a test tells them; the vector of a text is spelled out in the text."""

import asyncio
from collections.abc import Sequence
from typing import Any

from stores_core import Backend
from stores_core.embedding import Purpose

Vectors = Sequence[Sequence[float]]


def spell(*numbers: float) -> str:
    """A text with this vector."""
    return "| " + " ".join(repr(float(number)) for number in numbers)


class Spelled:
    """Reads the vector of a text behind its last bar; a text without one has a zero vector.

    ``calls`` are the texts and the purpose of each call.
    """

    def __init__(self, dimensions: int = 2, name: str = "spelled") -> None:
        self.name = name
        self.dimensions = dimensions
        self.calls: list[tuple[list[str], str]] = []

    async def embed(self, texts: Sequence[str], purpose: Purpose) -> Vectors:
        self.calls.append((list(texts), purpose))
        return [self.vector(text) for text in texts]

    def vector(self, text: str) -> list[float]:
        _, bar, numbers = text.rpartition("|")
        read = [float(number) for number in numbers.split()] if bar else []
        return (read + [0.0] * self.dimensions)[: self.dimensions]


class Failing(Spelled):
    """Fails once ``broken`` is set, with an error that would give a secret away."""

    broken = False

    async def embed(self, texts: Sequence[str], purpose: Purpose) -> Vectors:
        if self.broken:
            raise ConnectionError("the embedding service refused the key sk-secret")
        return await super().embed(texts, purpose)


class Answering(Spelled):
    """Gives what ``answer`` holds, however unfit, once it is set."""

    answer: Any = None

    async def embed(self, texts: Sequence[str], purpose: Purpose) -> Vectors:
        vectors = await super().embed(texts, purpose)
        return vectors if self.answer is None else self.answer


class Waiting(Spelled):
    """Waits for ``go`` where a text says "slow"; ``asked`` tells that it waits."""

    def __init__(self, dimensions: int = 2, name: str = "spelled") -> None:
        super().__init__(dimensions, name)
        self.asked, self.go = asyncio.Event(), asyncio.Event()

    async def embed(self, texts: Sequence[str], purpose: Purpose) -> Vectors:
        if any("slow" in text for text in texts):
            self.asked.set()
            await self.go.wait()
        return await super().embed(texts, purpose)


async def recalled(
    client: Backend, namespace: str, query: str, limit: int = 0
) -> list[tuple[str, float]]:
    """Key and score of each note that one recall gives, in order."""
    answer = await client.memory.list_memories(namespace=namespace, query=query, limit=limit)
    return [(scored.item.key, scored.score) for scored in answer.items]
