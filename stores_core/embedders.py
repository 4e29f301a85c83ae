"""Embedders to start with: one that needs nothing, one that asks an OpenAI-compatible server."""

import re
import struct
from collections.abc import Sequence
from hashlib import blake2b
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from stores_core.embedding import Purpose
from stores_core.errors import InvalidRequestError, StoreUnavailableError
from stores_core.extras import need

if TYPE_CHECKING:
    import httpx

_WORD = re.compile(r"\w+")


class WordEmbedder:
    """Texts that share words are similar. Deterministic, offline, for tests and for a start.

    Each word, case folded, moves four of the ``dimensions`` by 1, up or down, as its BLAKE2b hash
    says; the vector is then scaled to length 1. A text without a word gives the zero vector. It
    knows words only, not what they mean.
    """

    def __init__(self, dimensions: int = 256) -> None:
        self.dimensions = _positive("dimensions", dimensions)
        self.name = f"words-{dimensions}"

    async def embed(self, texts: Sequence[str], purpose: Purpose) -> list[list[float]]:
        return [self._vector(text) for text in texts]

    def _vector(self, text: str) -> list[float]:
        vector = np.zeros(self.dimensions)
        for word in _WORD.findall(text.casefold()):
            digest = blake2b(word.encode(errors="surrogatepass"), digest_size=32).digest()
            for number in struct.unpack("<4Q", digest):
                vector[(number >> 1) % self.dimensions] += 1 if number & 1 else -1
        length = float(np.linalg.norm(vector))
        scaled: list[float] = (vector / length if length else vector).tolist()
        return scaled


class OpenAIEmbedder:
    """Asks an OpenAI-compatible server: ``POST {base_url}/embeddings``.

    ``dimensions`` is the length of the model's vectors; a model that can be told to give that many
    is told with ``send_dimensions``. ``batch_size`` caps the texts in a request, ``timeout`` is in
    seconds for each. A ``client`` of yours is used as it is, its own timeout included, and never
    closed; otherwise close with ``aclose`` or as an async context manager. Nothing is retried.

    Needs the extra ``openai``; raises InvalidRequestError without it, and for an address or key
    that HTTP cannot carry. ``embed`` raises StoreUnavailableError where the server does not answer
    or answers something else, with its status and never its words, the key or a text.
    """

    def __init__(
        self,
        model: str,
        *,
        dimensions: int,
        send_dimensions: bool = False,
        base_url: str = "https://api.openai.com/v1",
        api_key: str = "",
        client: "httpx.AsyncClient | None" = None,
        batch_size: int = 128,
        timeout: float = 30.0,
    ) -> None:
        self._httpx = need("httpx", extra="openai", field="OpenAIEmbedder")
        self.dimensions = _positive("dimensions", dimensions)
        self.name = f"openai:{model}"
        self._batch_size = _positive("batch_size", batch_size)
        self._url = f"{base_url.rstrip('/')}/embeddings"
        self._fixed: dict[str, object] = {"model": model, "encoding_format": "float"}
        if send_dimensions:
            self._fixed["dimensions"] = dimensions
        self._check_address(base_url)
        if not (api_key.isascii() and api_key.isprintable() and api_key == api_key.strip()):
            raise InvalidRequestError(
                field="api_key",
                found="a line end, a space around it or a character that is not ASCII",
                allowed="the key alone",
            )
        self._headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        self._owns_client = client is None
        self._client: httpx.AsyncClient = client or self._httpx.AsyncClient(timeout=timeout)

    def _check_address(self, base_url: str) -> None:
        try:
            url = self._httpx.URL(base_url)
            fine = url.scheme in ("http", "https") and url.host
        except (self._httpx.InvalidURL, TypeError):
            fine = False
        if not fine:
            raise InvalidRequestError(
                field="base_url", found="no address of a server", allowed="http:// or https://"
            )

    async def embed(self, texts: Sequence[str], purpose: Purpose) -> list[list[float]]:
        vectors: list[list[float]] = []
        for start in range(0, len(texts), self._batch_size):
            vectors += await self._batch(list(texts[start : start + self._batch_size]))
        return vectors

    async def _batch(self, texts: list[str]) -> list[list[float]]:
        body = {**self._fixed, "input": texts}
        try:
            answer = await self._client.post(self._url, json=body, headers=self._headers)
        except self._httpx.HTTPError as error:
            raise self._failed(f"could not be asked ({type(error).__name__})") from error
        if answer.status_code != 200:
            raise self._failed(f"answered with status {answer.status_code}")
        try:
            items: list[dict[str, Any]] = answer.json()["data"]
            placed = {item["index"]: item["embedding"] for item in items}
        except (ValueError, LookupError, TypeError):
            raise self._failed("answered something that is no list of embeddings") from None
        if len(items) != len(texts) or set(placed) != set(range(len(texts))):
            raise self._failed(f"answered {len(items)} embeddings to {len(texts)} texts")
        return [placed[index] for index in range(len(texts))]

    def _failed(self, what: str) -> StoreUnavailableError:
        return StoreUnavailableError(f"the server of embedder {self.name!r} {what}")

    async def aclose(self) -> None:
        """Close the client, unless it was passed in."""
        if self._owns_client:
            await self._client.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.aclose()

    def __repr__(self) -> str:
        return f"OpenAIEmbedder({self.name.removeprefix('openai:')!r}, {self.dimensions})"


def _positive(field: str, value: int) -> int:
    if type(value) is not int or value < 1:
        raise InvalidRequestError(field=field, found=repr(value)[:40], allowed="an int above 0")
    return value
