"""Embedders by name, for the command line."""

import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from stores_core.embedders import OpenAIEmbedder, WordEmbedder
from stores_core.embedding import Embedder
from stores_core.errors import InvalidRequestError

_DEFAULT_BASE = "https://api.openai.com/v1"


@asynccontextmanager
async def embedder_of(name: str) -> AsyncGenerator[Embedder | None]:
    """The embedder that an option names; "" is none.

    ``words`` or ``words:256``; ``openai:MODEL:DIMENSIONS``, which takes the key from
    OPENAI_API_KEY and the address from OPENAI_BASE_URL. Raises InvalidRequestError.
    """
    kind, _, rest = name.partition(":")
    if not name:
        yield None
    elif kind == "words" and (not rest or rest.isdecimal()):
        yield WordEmbedder(int(rest)) if rest else WordEmbedder()
    elif kind == "openai" and rest.rpartition(":")[2].isdecimal() and rest.rpartition(":")[0]:
        model, _, dimensions = rest.rpartition(":")
        async with OpenAIEmbedder(
            model,
            dimensions=int(dimensions),
            api_key=os.environ.get("OPENAI_API_KEY", ""),
            base_url=os.environ.get("OPENAI_BASE_URL", _DEFAULT_BASE),
        ) as embedder:
            yield embedder
    else:
        raise InvalidRequestError(
            field="--embedder",
            found=repr(name[:80]),
            allowed="words, words:DIMENSIONS or openai:MODEL:DIMENSIONS",
        )
