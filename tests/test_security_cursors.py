"""Cursors from anywhere: refused, or a page of one's own; never an error of a driver."""

import base64
import random
from collections.abc import Awaitable
from typing import Any

import pytest

from stores_core import Backend, InvalidRequestError, Message, StoreError, ToolResult, open_backend
from stores_core.front import cursors
from stores_core.memory import MemoryItem

INPUTS = 200_000
SEAL = b"s" * 32
POSITIONS = [
    "x", "0", "-1", "9" * 2_000, "1e9", "0 x", "0:x", ":", " ", "0:0", "' OR '1'='1",
    "1; DROP TABLE runs", "%", "*", "../../x", "\0", "\n", "é", "😀", "{x}", "[1]", '{"a":1}',
    "0\0", f"{2**63}:x",
    f"{-(2**63)} x", f"{2**64} {2**64}", "nan:0", "inf 0", "00:00:00", "x" * 2_000,
]  # fmt: skip


def damaged(good: str, rng: random.Random) -> str:
    """A cursor that somebody tampered with, or that never was one."""
    data = bytearray(base64.urlsafe_b64decode(good + "=" * (-len(good) % 4)))
    match rng.randrange(7):
        case 0:
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        case 1:
            del data[rng.randrange(len(data)) :]
        case 2:
            data += rng.randbytes(rng.randrange(1, 40))
        case 3:
            data = bytearray(rng.randbytes(rng.randrange(60)))
        case 4:
            at = rng.randrange(len(good))
            return good[:at] + chr(rng.randrange(1, 0x3000)) + good[at + 1 :]
        case 5:
            return good + rng.choice(["=", "==", "A", " ", "\n", good, "AAAA"])
        case _:
            return good[: rng.randrange(1, len(good))]
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


@pytest.mark.long
def test_200_000_cursors_that_nobody_made_are_all_refused() -> None:
    rng, refused = random.Random(7), 0
    good = cursors.sealed("1714953600000000:run-1", SEAL)
    while refused < INPUTS:
        tried = damaged(good, rng)
        if tried in ("", good):
            continue
        with pytest.raises(InvalidRequestError, match="cursor"):
            cursors.opened(tried, SEAL)
        refused += 1
    assert cursors.opened(good, SEAL) == "1714953600000000:run-1"


LISTINGS: list[tuple[str, str, dict[str, Any]]] = [
    ("runs", "list_runs", {}),
    ("runs", "list_runs", {"labels": {"of": "us"}}),
    ("memory", "list_memories", {"namespace": "n"}),
    ("memory", "list_namespaces", {}),
    ("tool_results", "list_tool_results", {}),
    ("tool_results", "list_tool_results", {"labels": {"of": "us"}}),
    ("admin", "list_tenants", {}),
    ("moving", "export_runs", {}),
    ("moving", "export_memories", {}),
    ("moving", "export_tool_results", {}),
]


async def _fill(backend: Backend, whose: str) -> None:
    for n in range(3):
        id = f"{whose}-{n}"
        await backend.runs.create_run(run_id=id, labels={"of": "us"})
        await backend.runs.append_messages(
            run_id=id, messages=[Message(role="user", text=f"{whose} text")]
        )
        item = MemoryItem(key=id, value=f"{whose} value")
        await backend.memory.put_memory(item=item, namespace="n")
        result = ToolResult(content=[{"type": "text", "text": f"{whose} result"}])
        await backend.tool_results.put_tool_result(ref=id, result=result, labels={"of": "us"})


@pytest.mark.parametrize(
    ("store", "operation", "query"), LISTINGS, ids=[f"{one[1]}{len(one[2])}" for one in LISTINGS]
)
async def test_a_forged_seal_shows_nothing_of_others_and_breaks_nothing(
    url_alone: str, store: str, operation: str, query: dict[str, Any]
) -> None:
    """Whoever knows how seals are made may forge one: that has to be worth nothing."""
    async with open_backend(url_alone, tenant="theirs") as theirs:
        await _fill(theirs, "S3cret")
        async with open_backend(url_alone, tenant="ours") as ours:
            await _fill(ours, "our")
            front: Any = getattr(ours, store)
            bound = getattr(front, operation)
            for position in POSITIONS:
                forged = cursors.sealed(position, _seal_of(front, operation, query))
                told = await _told(bound(cursor=forged, **query))
                if operation != "list_tenants":
                    assert "S3cret" not in told, repr(position)
            assert await bound(**query), "still works"


async def _told(call: Awaitable[Any]) -> str:
    """What a call answers or, if the store refuses it, says."""
    try:
        return (await call).model_dump_json()
    except StoreError as error:
        return str(error)


def _seal_of(front: Any, operation: str, query: dict[str, Any]) -> bytes:
    """The seal that the front itself would use."""
    bound = getattr(front, operation)
    return bound._seal(bound._made((), {**query, "cursor": "x"}))
