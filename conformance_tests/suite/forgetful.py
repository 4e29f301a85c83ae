"""A program that opens the storage, writes, and never closes it; the lifecycle tests run it.

Standard input is JSON: ``opener`` or ``url``, the ``run_id`` to make, and ``fork``, which says
whether to try the client in a forked process too. The exit code is 0 when all went well.
"""

import asyncio
import json
import os
import sys
import time
from typing import Any

from conformance_tests.opener import find
from stores_core import Backend, InvalidRequestError, Message

WORKED, REFUSED, OTHERWISE = 10, 11, 12
PATIENCE = 10.0

_kept: list[object] = []  # what a forgetful program holds on to until it exits


async def forgotten(told: dict[str, Any]) -> Backend:
    """A client that nobody will close."""
    context = find(told["opener"], told["url"]).open()
    _kept.append(context)
    return await context.__aenter__()


async def main(told: dict[str, Any]) -> None:
    backend = await forgotten(told)
    await backend.runs.create_run(run_id=told["run_id"])
    said = [Message(role="user", text="before it was forgotten")]
    await backend.runs.append_messages(run_id=told["run_id"], messages=said)
    if told["fork"]:
        wanted = REFUSED if backend.opened.loop_bound else WORKED
        for client in (backend, await forgotten(told)):  # one that was used, one that was not
            code = in_a_fork(client, told["run_id"])
            assert code == wanted, f"in a forked process: {code}, where {wanted} was expected"
        assert (await backend.runs.get_run(run_id=told["run_id"])).found
    print("done", flush=True)


def in_a_fork(backend: Backend, run_id: str) -> int:
    """What becomes of an operation in a forked process, which must be known at once."""
    child = os.fork()
    if child == 0:
        code = OTHERWISE
        try:
            asyncio.run(get(backend, run_id))
            code = WORKED
        except InvalidRequestError:
            code = REFUSED
        finally:
            os._exit(code)
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.kill(child, 9)
    os.waitpid(child, 0)
    return OTHERWISE


async def get(backend: Backend, run_id: str) -> None:
    await backend.runs.get_run(run_id=run_id)


if __name__ == "__main__":
    asyncio.run(main(json.load(sys.stdin)))
