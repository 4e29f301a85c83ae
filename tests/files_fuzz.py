"""``python -m tests.files_fuzz --inputs 200000``: damaged folders are read and written to.

Each input is a folder with a file that was damaged: bytes flipped, cut out, put in, zeroed, or
swapped with those of another file of the folder. Whatever it is: there is an error of the closed
tree or an answer, in time, and no answer holds anything else than what was written there. The exit
code is 0 only if nothing else was found.
"""

import random
import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor

from conformance_tests.faults.crash_states import Nodes
from stores_core.errors import StoreError
from stores_core.memory import GetMemoryRequest, ListMemoriesRequest
from stores_core.runs import ListRunsRequest, LoadRunRequest
from stores_core.tool_results import GetToolResultRequest, ReadToolResultRequest
from stores_files.commits import MESSAGES
from stores_files.failures import nothing_applied
from tests.files_commands import arguments, conclude
from tests.files_recovery import Opened, done, opened, probe, verified
from tests.files_simulated import SimulatedDisk
from tests.files_steps import PREPARATION, STEPS, prepared, repeatable

LONGEST = 5.0
"""Seconds that an input may take."""

PART = 1_000
"""So many inputs come of one seed."""

TEXTS = {
    "a": ["a1", "a2", "a3", "m1", "m2" * 600, "m3"],
    "b": ["a1", "a2"],
    "e": ["a1", "a2"],
}
"""The texts of each run."""


def folder() -> Nodes:
    """A folder with some of everything."""

    with repeatable():
        return prepared([*PREPARATION, STEPS["append many"], STEPS["put a result"]])


def damaged(nodes: Nodes, rng: random.Random) -> Nodes:
    """The same folder with a file or two that are not what they were."""
    nodes = dict(nodes)
    files = [inode for inode, node in nodes.items() if isinstance(node, bytes) and node]
    for inode in rng.sample(files, rng.choice((1, 1, 1, 2))):
        data, other = bytearray(_bytes(nodes, inode)), _bytes(nodes, rng.choice(files))
        for _ in range(rng.choice((1, 1, 2, 5))):
            at, length = rng.randrange(len(data) + 1), rng.choice((1, 1, 8, 80, 800))
            piece = rng.randrange(len(other))
            match rng.randrange(8):
                case 0 if at < len(data):
                    data[at] ^= 1 << rng.randrange(8)
                case 1:
                    del data[at : at + length]
                case 2:
                    data[at:at] = rng.randbytes(length)
                case 3:
                    data[at : at + length] = bytes(len(data[at : at + length]))
                case 4:
                    data[at : at + length] = other[piece : piece + length]
                case 5:
                    del data[at:]
                case 6:
                    data = bytearray(other)
                case _:
                    data += data[at : at + length]
            data = data or bytearray(b"\n")
        nodes[inode] = bytes(data)
    return nodes


def _bytes(nodes: Nodes, inode: int) -> bytes:
    node = nodes[inode]
    assert isinstance(node, bytes)
    return node


def faults_of(nodes: Nodes) -> list[str]:
    """What a damaged folder does that it must not do."""
    faults: list[str] = []
    disk = SimulatedDisk(nodes)
    try:
        with nothing_applied():
            store = opened(disk)
    except StoreError:
        return []
    for name, work in _WORKS.items():
        try:
            with nothing_applied():
                faults += [f"{name}: {fault}" for fault in work(store)]
        except StoreError:
            pass
        except Exception as error:
            faults.append(f"{name}: {error!r}")
    return faults


def _listed(store: Opened) -> list[str]:
    ids = {info.id for info in done(store.runs.list_runs(ListRunsRequest(limit=50))).runs}
    return [f"{id!r} is listed" for id in ids - TEXTS.keys()]


def _loaded(id: str) -> Callable[[Opened], list[str]]:
    def work(store: Opened) -> list[str]:
        run = done(store.runs.load_run(LoadRunRequest(run_id=id))).run
        texts = [message.text or "" for message in run.messages] if run else []
        if texts and texts[-1] == "probe":
            texts.pop()
        # A journal that was cut off cannot be told from one whose last write a crash cut off.
        right = texts == TEXTS[id][: len(texts)]
        return [] if right else [f"it says {[text[:20] for text in texts]}"]

    return work


def _appended(id: str) -> Callable[[Opened], list[str]]:
    def work(store: Opened) -> list[str]:
        probe(store, [id])
        with store.tenant.entered() as place:
            assert place is not None
            with store.tenant.folders.entered(place, id) as run:
                assert run is not None
                count = run.count(MESSAGES)
                last = run.read(MESSAGES, count - 1, count)
        return [] if b"probe" in last[0] else ["what was appended is not last"]

    return work


def _result(store: Opened) -> list[str]:
    result = done(store.results.get_tool_result(GetToolResultRequest(ref="r"))).result
    content = result.content if result else None
    right = content in (None, ({"type": "text", "text": "same"}, {"type": "image", "data": "1"}))
    return [] if right else [f"it is {content}"]


def _slice(store: Opened) -> list[str]:
    request = ReadToolResultRequest(ref="r", offset=0, limit=10)
    done(store.results.read_tool_result(request))
    return []


def _note(store: Opened) -> list[str]:
    item = done(store.memory.get_memory(GetMemoryRequest(key="n", namespace="here"))).item
    done(store.memory.list_memories(ListMemoriesRequest(namespace="here")))
    return [] if item is None or item.value == "about n" else [f"it is {item.value!r}"]


def _verified(store: Opened) -> list[str]:
    verified(store)
    return []


_WORKS: dict[str, Callable[[Opened], list[str]]] = {
    "list": _listed,
    **{f"load {id}": _loaded(id) for id in TEXTS},
    "append to a": _appended("a"),
    "load a again": _loaded("a"),
    "result": _result,
    "slice": _slice,
    "note": _note,
    "verify": _verified,
}


def examine(inputs: int, seed: int) -> list[str]:
    """The faults that so many damaged folders show."""
    nodes, rng = folder(), random.Random(seed)
    for n in range(inputs):
        state = damaged(nodes, rng)
        started = time.monotonic()
        faults = faults_of(state)
        if time.monotonic() - started > LONGEST:
            faults.append(f"it took over {LONGEST:g} s")
        if faults:
            return [f"input {n} of seed {seed}: {fault}" for fault in faults]
    return []


def main() -> int:
    options = arguments("tests.files_fuzz", "inputs", 200_000)
    parts, started = -(-options.number // PART), time.monotonic()
    with ProcessPoolExecutor(options.processes) as pool:
        seeds = range(options.seed, options.seed + parts)
        faults = [each for told in pool.map(examine, [PART] * parts, seeds) for each in told]
    return conclude(options, "inputs", parts * PART, time.monotonic() - started, faults)


if __name__ == "__main__":
    sys.exit(main())
