"""The blocking facade: the same operations without await, from any thread, to the last moment."""

import asyncio
import inspect
import os
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

pytest.importorskip("anyio", reason="needs the extra blocking")

from stores_core import (
    Call,
    InvalidRequestError,
    Message,
    Proceed,
    StoreClosedError,
    StoreUnavailableError,
    open_backend,
)
from stores_core.blocking import (
    BlockingAdmin,
    BlockingFront,
    BlockingMemory,
    BlockingMoving,
    BlockingRuns,
    BlockingToolResults,
    Twin,
    blocking,
)
from stores_core.front import AdminFront, MemoryFront, MovingFront, RunsFront, ToolResultsFront
from stores_core.front.operation import Declared
from stores_core.shape import Response
from tests.conftest import Python

TWINS: list[tuple[type[BlockingFront], type[Any]]] = [
    (BlockingRuns, RunsFront),
    (BlockingMemory, MemoryFront),
    (BlockingToolResults, ToolResultsFront),
    (BlockingAdmin, AdminFront),
    (BlockingMoving, MovingFront),
]


@pytest.mark.parametrize(("ours", "theirs"), TWINS, ids=lambda front: front.__name__)
def test_every_operation_has_a_twin(ours: type[BlockingFront], theirs: type[Any]) -> None:
    operations = {name for name, made in vars(theirs).items() if isinstance(made, Declared)}
    assert operations
    assert {name for name, made in vars(ours).items() if isinstance(made, Twin)} == operations


def test_a_conversation_without_await(url: str) -> None:
    with blocking(open_backend(url)) as backend:
        run_id = backend.runs.create_run().run_id
        backend.runs.append_messages(run_id=run_id, messages=[Message(role="user", text="hi")])
        fork = backend.runs.fork_run(run_id=run_id)
        page = backend.runs.read_messages(run_id=fork.run_id)
        assert [message.text for message in page.entries] == ["hi"]
        with pytest.raises(InvalidRequestError, match="run_id"):
            backend.runs.get_run(run_id="")
    with pytest.raises(StoreClosedError):
        backend.runs.get_run(run_id=run_id)
    backend.close()


def test_threads_share_it_and_lose_nothing(url: str) -> None:
    with blocking(open_backend(url)) as backend:
        backend.runs.create_run(run_id="r")

        def write(number: int) -> None:
            backend.runs.append_messages(
                run_id="r", messages=[Message(role="user", text=f"{number}")] * 2
            )

        with ThreadPoolExecutor(8) as threads:
            list(threads.map(write, range(24)))
        texts = [entry.text for entry in backend.runs.read_messages(run_id="r").entries]
        assert texts[::2] == texts[1::2]
        assert sorted(texts[::2], key=lambda text: int(text or "")) == [f"{n}" for n in range(24)]


async def test_it_works_inside_a_running_loop() -> None:
    with blocking(open_backend("memory:")) as backend:
        assert backend.runs.create_run(run_id="r").created
        assert (await asyncio.to_thread(backend.runs.get_run, run_id="r")).found


async def test_a_backend_that_another_loop_opened_is_refused_unless_it_works_from_all(
    url: str,
) -> None:
    async with open_backend(url) as opened:
        with blocking(opened) as backend:
            if url.startswith("memory:"):
                assert backend.runs.create_run(run_id="r").created
            else:
                with pytest.raises(InvalidRequestError, match="another event loop"):
                    backend.runs.create_run(run_id="r")
        assert (await opened.runs.create_run(run_id="other")).created


def test_what_opening_raises_is_raised_and_leaves_no_thread() -> None:
    before = threading.active_count()
    with pytest.raises(InvalidRequestError, match="url"):
        blocking(open_backend("nowhere:"))
    assert threading.active_count() == before


def test_a_store_that_is_not_offered_says_so() -> None:
    with blocking(open_backend("memory:")) as backend:
        assert backend.offered >= {"runs", "memory", "tool_results"}
        assert repr(backend) == f"<BlockingBackend memory: {', '.join(sorted(backend.offered))}>"


def test_a_call_on_the_loop_that_serves_is_refused() -> None:
    called: list[Exception] = []

    async def from_inside(call: Call, proceed: Proceed) -> Response:
        if call.operation == "create_run":
            try:
                backend.runs.list_runs()
            except InvalidRequestError as error:
                called.append(error)
        return await proceed(call.request)

    with blocking(open_backend("memory:", interceptors=[from_inside])) as backend:
        backend.runs.create_run()
        assert [error.field for error in called if isinstance(error, InvalidRequestError)] == [
            "backend"
        ]


def test_an_interrupted_wait_cancels_the_call() -> None:
    cancelled = threading.Event()

    async def never(call: Call, proceed: Proceed) -> Response:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            cancelled.set()
            raise
        return await proceed(call.request)

    def interrupt() -> None:
        time.sleep(0.1)
        os.kill(os.getpid(), signal.SIGINT)

    # As a terminal does it, also where whoever runs the tests has them ignore it.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with blocking(open_backend("memory:", interceptors=[never])) as backend:
            threading.Thread(target=interrupt).start()
            with pytest.raises(KeyboardInterrupt):
                backend.runs.list_runs()
            assert cancelled.wait(10)
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_timeout_is_that_of_the_asynchronous_twin() -> None:
    async def slow(call: Call, proceed: Proceed) -> Response:
        await asyncio.sleep(60)
        return await proceed(call.request)

    with (
        blocking(open_backend("memory:", interceptors=[slow], timeout=0.05)) as backend,
        pytest.raises(StoreUnavailableError, match="timeout"),
    ):
        backend.runs.list_runs()


FORGOTTEN = """
import sys
from stores_core import Message, open_backend
from stores_core.blocking import blocking

backend = blocking(open_backend(sys.argv[1]))
backend.runs.create_run(run_id="r")
backend.runs.append_messages(run_id="r", messages=[Message(role="user", text="kept")])
print(backend.runs.get_run(run_id="r").info.message_count)
"""


def test_a_program_that_forgets_to_close_ends_in_silence_and_keeps_what_it_wrote(
    shared_url: str, python: Python
) -> None:
    ran = python("-c", FORGOTTEN, shared_url)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "1\n", "")
    with blocking(open_backend(shared_url)) as backend:
        (entry,) = backend.runs.read_messages(run_id="r").entries
        assert entry.text == "kept"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_process_is_refused_at_once(python: Python) -> None:
    ran = python(
        "-W",
        "ignore::DeprecationWarning",  # forking beside threads, which this is about
        "-c",
        inspect.cleandoc(
            """
            import os
            from stores_core import InvalidRequestError, open_backend
            from stores_core.blocking import blocking

            backend = blocking(open_backend("memory:"))
            child = os.fork()
            if not child:
                try:
                    backend.runs.list_runs()
                except InvalidRequestError as error:
                    print(error, flush=True)
                    os._exit(0)
            os.waitpid(child, 0)
            """
        ),
    )
    assert "a forked process" in ran.stdout
    assert ran.returncode == 0
