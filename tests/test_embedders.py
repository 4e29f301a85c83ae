"""The word embedder, and the OpenAI-compatible one against a real server on loopback."""

import asyncio
import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import httpx
import numpy as np
import pytest

from stores_core.embedders import OpenAIEmbedder, WordEmbedder
from stores_core.embedding import Embedder, NoteEmbedder, cosine
from stores_core.errors import InvalidRequestError, StoreUnavailableError
from stores_core.memory import MemoryItem

KEY = "sk-bait-0123"
TEXT = "a private note about Erna"


def embed(embedder: Embedder, *texts: str) -> Sequence[Sequence[float]]:
    return asyncio.run(embedder.embed(texts, "note"))


def words(*texts: str, dimensions: int = 256) -> Sequence[Sequence[float]]:
    return embed(WordEmbedder(dimensions), *texts)


def test_texts_that_share_words_are_similar_and_others_are_not() -> None:
    tea, more_tea, train = words(
        "green tea from Japan", "She drinks green tea", "The train leaves at nine"
    )
    assert cosine(tea, more_tea) > 0.3
    assert abs(cosine(tea, train)) < 0.2
    assert cosine(tea, tea) == pytest.approx(1, abs=1e-6)


def test_case_punctuation_and_order_do_not_matter() -> None:
    first, second = words("Green TEA, Straße!", "strasse green... tea")
    assert cosine(first, second) == pytest.approx(1, abs=1e-6)


def test_a_text_without_a_word_gives_the_zero_vector() -> None:
    for vector in words("", " \n", "...!?"):
        assert list(vector) == [0.0] * 256


def test_vectors_have_length_one_and_the_width_asked_for() -> None:
    for dimensions in (1, 3, 256, 1024):
        (vector,) = words("one two three four", dimensions=dimensions)
        assert len(vector) == dimensions
        assert np.linalg.norm(vector) == pytest.approx(1)
    assert WordEmbedder(3).name == "words-3"
    assert (WordEmbedder().name, WordEmbedder().dimensions) == ("words-256", 256)


def test_single_words_never_cancel_each_other_out() -> None:
    vocabulary = [f"word{number}" for number in range(60)]
    pairs = [f"{left} {right}" for left in vocabulary for right in vocabulary if left < right]
    assert all(any(vector) for vector in words(*pairs))


def test_another_process_with_another_hash_seed_gives_the_same_vectors() -> None:
    program = (
        "import asyncio; from stores_core.embedders import WordEmbedder;"
        "print(asyncio.run(WordEmbedder(8).embed(['Grüße aus Rom'], 'note')))"
    )
    printed = [
        subprocess.run(
            [sys.executable, "-c", program],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    ]
    assert printed == [f"{words('Grüße aus Rom', dimensions=8)}\n"] * 2


@pytest.mark.parametrize("dimensions", [0, -1, True, 2.0, "8"])
def test_a_width_that_is_no_positive_int_is_refused(dimensions: Any) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        WordEmbedder(dimensions)
    assert caught.value.field == "dimensions"


def vector_of(text: str) -> list[float]:
    return [float(len(text)), 1.0]


def embeddings(texts: list[str]) -> list[dict[str, Any]]:
    return [{"index": index, "embedding": vector_of(text)} for index, text in enumerate(texts)]


class Server(ThreadingHTTPServer):
    """Speaks /embeddings; ``answer`` makes (status, body) of the texts it was asked for."""

    asked: list[dict[str, Any]]
    headers: list[dict[str, str]]
    paths: list[str]
    answer: Callable[[list[str]], tuple[int, bytes]]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/v1"


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        server = self.server
        assert isinstance(server, Server)
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        server.asked.append(body)
        server.headers.append(dict(self.headers.items()))
        server.paths.append(self.path)
        status, answer = server.answer(body["input"])
        self.send_response(status)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with Server(("127.0.0.1", 0), Handler) as server:
        server.asked, server.headers, server.paths = [], [], []
        server.answer = lambda texts: (200, json.dumps({"data": embeddings(texts)}).encode())
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def ask(server: Server, *texts: str, **options: Any) -> Sequence[Sequence[float]]:
    async def run() -> Sequence[Sequence[float]]:
        chosen: dict[str, Any] = {
            "dimensions": 2,
            "base_url": server.url,
            "api_key": KEY,
            **options,
        }
        async with OpenAIEmbedder("tiny", **chosen) as embedder:
            return await embedder.embed(texts, "query")

    return asyncio.run(run())


def answers(server: Server, body: object, status: int = 200) -> None:
    text = body if isinstance(body, bytes) else json.dumps(body).encode()
    server.answer = lambda texts: (status, text)


def test_a_server_is_asked_for_floats_of_the_model_with_the_key(server: Server) -> None:
    assert ask(server, "a", "bcd") == [[1.0, 1.0], [3.0, 1.0]]
    assert server.asked == [{"model": "tiny", "encoding_format": "float", "input": ["a", "bcd"]}]
    assert server.headers[0]["Authorization"] == f"Bearer {KEY}"
    assert server.paths == ["/v1/embeddings"]


def test_without_a_key_no_authorization_is_sent(server: Server) -> None:
    ask(server, "a", api_key="", base_url=server.url + "/")
    assert "Authorization" not in server.headers[0]
    assert server.paths == ["/v1/embeddings"]


def test_dimensions_are_sent_only_when_asked_for(server: Server) -> None:
    ask(server, "a", send_dimensions=True)
    assert server.asked[0]["dimensions"] == 2


def test_many_texts_go_in_batches_and_come_back_in_order(server: Server) -> None:
    texts = ["x" * length for length in range(1, 11)]
    assert ask(server, *texts, batch_size=4) == [vector_of(text) for text in texts]
    assert [len(asked["input"]) for asked in server.asked] == [4, 4, 2]


def test_no_texts_ask_nothing(server: Server) -> None:
    assert ask(server) == []
    assert server.asked == []


def test_answers_out_of_order_are_put_in_order_by_index(server: Server) -> None:
    server.answer = lambda texts: (200, json.dumps({"data": embeddings(texts)[::-1]}).encode())
    assert ask(server, "a", "bb", "ccc") == [[1.0, 1.0], [2.0, 1.0], [3.0, 1.0]]


@pytest.mark.parametrize("status", [302, 400, 401, 429, 500])
def test_another_status_is_an_error_that_names_it_and_nothing_else(
    server: Server, status: int
) -> None:
    answers(server, {"error": f"bad key {KEY} for {TEXT}"}, status)
    with pytest.raises(StoreUnavailableError, match=f"'openai:tiny' .* {status}$") as caught:
        ask(server, TEXT)
    assert KEY not in str(caught.value)
    assert TEXT not in str(caught.value)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html>" + TEXT.encode(),
        b"\xff\xfe\xfd",
        [],
        {},
        {"data": None},
        {"data": 3},
        {"data": "text"},
        {"data": {"index": 0}},
        {"data": [None]},
        {"data": [{"index": 0}]},
        {"data": [{"index": [0], "embedding": [1, 2]}]},
    ],
    ids=repr,
)
def test_garbage_is_an_error_that_does_not_repeat_it(server: Server, body: object) -> None:
    answers(server, body)
    with pytest.raises(StoreUnavailableError, match=r"no list of embeddings$"):
        ask(server, TEXT)


@pytest.mark.parametrize("indexes", [[], [0], [0, 1, 2], [0, 0], [0, 2], [0, 1, 1], [-1, 0]])
def test_wrong_counts_and_indexes_are_refused(server: Server, indexes: list[int]) -> None:
    answers(server, {"data": [{"index": index, "embedding": [1, 2]} for index in indexes]})
    with pytest.raises(StoreUnavailableError, match=f"{len(indexes)} embeddings to 2 texts"):
        ask(server, "a", "b")


@pytest.mark.parametrize(
    "vector", [None, "AAAA", 5, [1], [1, 2, 3], [1, "x"], [[1, 2]], {}], ids=repr
)
def test_a_vector_of_another_shape_is_refused_where_notes_are_embedded(
    server: Server, vector: object
) -> None:
    answers(server, {"data": [{"index": 0, "embedding": vector}]})

    async def run() -> None:
        async with OpenAIEmbedder("tiny", dimensions=2, base_url=server.url) as embedder:
            await NoteEmbedder(embedder).notes([MemoryItem(key="k", value=TEXT)])

    with pytest.raises(InvalidRequestError) as caught:
        asyncio.run(run())
    assert caught.value.field == "embedder[0]"


def test_a_server_that_is_away_is_an_error_with_its_cause(server: Server) -> None:
    with pytest.raises(StoreUnavailableError, match="could not be asked") as caught:
        ask(server, TEXT, base_url="http://127.0.0.1:1/v1")
    assert isinstance(caught.value.__cause__, httpx.ConnectError)
    assert KEY not in repr(caught.value.__cause__)


def test_a_server_that_is_slow_runs_into_the_timeout(server: Server) -> None:
    release = asyncio.Event()

    async def stay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await release.wait()
        writer.close()

    async def run() -> None:
        silent = await asyncio.start_server(stay, "127.0.0.1", 0)
        port = silent.sockets[0].getsockname()[1]
        url = f"http://127.0.0.1:{port}"
        try:
            async with OpenAIEmbedder("m", dimensions=2, base_url=url, timeout=0.05) as embedder:
                await embedder.embed(["a"], "note")
        finally:
            release.set()
            silent.close()
            await silent.wait_closed()

    with pytest.raises(StoreUnavailableError, match="ReadTimeout"):
        asyncio.run(run())


@pytest.mark.parametrize("key", ["sk-1\n", " sk-1", "sk-1 ", "sk-\r\nX: y", "sk-é"])
def test_a_key_that_a_header_cannot_carry_is_refused_without_showing_it(key: str) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        OpenAIEmbedder("m", dimensions=2, api_key=key)
    assert caught.value.field == "api_key"
    assert "sk-" not in str(caught.value)


@pytest.mark.parametrize("url", ["", "api.example.org/v1", "ftp://x/", "http://", "http://[::"])
def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        OpenAIEmbedder("m", dimensions=2, base_url=url)
    assert caught.value.field == "base_url"


def test_a_repr_shows_the_model_and_never_the_key() -> None:
    embedder = OpenAIEmbedder("m", dimensions=2, api_key=KEY, base_url="http://me:bait@x")
    assert repr(embedder) == "OpenAIEmbedder('m', 2)"
    assert embedder.name == "openai:m"
    asyncio.run(embedder.aclose())


def test_a_client_that_was_passed_in_is_never_closed(server: Server) -> None:
    async def run() -> None:
        async with httpx.AsyncClient() as client:
            async with OpenAIEmbedder(
                "m", dimensions=2, base_url=server.url, client=client
            ) as embedder:
                await embedder.embed(["a"], "note")
            assert not client.is_closed

    asyncio.run(run())


def test_its_own_client_is_closed_and_closing_twice_is_fine(server: Server) -> None:
    async def run() -> None:
        embedder = OpenAIEmbedder("m", dimensions=2, base_url=server.url)
        await embedder.embed(["a"], "note")
        await embedder.aclose()
        await embedder.aclose()
        with pytest.raises(RuntimeError, match="closed"):
            await embedder.embed(["a"], "note")

    asyncio.run(run())


def test_without_httpx_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "httpx", None)
    with pytest.raises(InvalidRequestError, match=re.escape("'agent-stores[openai]'")):
        OpenAIEmbedder("m", dimensions=2)
