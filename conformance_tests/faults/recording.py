"""What an operation does to an empty folder, from the opening of a new storage to its closing."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from conformance_tests.faults.alone import Actor
from conformance_tests.faults.calls import OPTIONS, RECORDED, NotUnderstoodError
from conformance_tests.faults.crash_states import ROOT, Change, Nodes, apply
from conformance_tests.faults.folder import (
    RecordedFolder,
    Said,
    differences,
    found_in,
    paths_of,
)
from conformance_tests.faults.killing import ChildError, Open
from conformance_tests.faults.replaying import Replay
from conformance_tests.faults.system_calls import SURVIVES_A_CRASH, traced

TOLD, ACTING, PREPARING = "it was told done", "it was acting", "it was preparing"
"""The phases of a process, the last one first."""


@dataclass(frozen=True, slots=True)
class Recording:
    """What a process did to an empty folder until it had closed the storage.

    It began to act behind ``ready`` changes and told behind ``told``. ``unseen`` are the files that
    were written through a mapping, with their paths and what they held when it told; ``lasting`` is
    whether data has to survive a crash.
    """

    changes: Sequence[Change]
    ready: int
    told: int
    unseen: dict[int, tuple[str, bytes]]
    lasting: bool

    @property
    def phases(self) -> Mapping[str, range]:
        """Behind how many changes it was in each."""
        return {
            TOLD: range(self.told, len(self.changes) + 1),
            ACTING: range(self.ready, self.told),
            PREPARING: range(self.ready),
        }

    def at_hand(self, n: int) -> Change | None:
        """The change that comes behind so many, if one does."""
        return self.changes[n] if n < len(self.changes) else None

    def at(self, n: int) -> Nodes:
        """The disk behind so many changes, with nothing lost."""
        nodes: Nodes = {ROOT: {}}
        for change in self.changes[:n]:
            apply(nodes, change)
        return nodes


def record(open: Open, name: str, id: str, *, cold: bool, folder: Path) -> Recording:
    """Do an operation on a storage that is made in ``folder``/live, which is empty.

    Raises ChildError, UnusableToolError; NotUnderstoodError where it cannot be told what was done.
    """
    live, log = folder / "live", folder / "strace.log"
    actor = Actor(open, name, id, cold=cold, held=True)
    with traced(actor.pid, RECORDED, log, *OPTIONS):
        actor.prepare()
        told = actor.act()
        held = found_in(live)
        actor.end()
    if told.outcome != "done":
        raise ChildError(f"{name}: nothing befell it, and it was told {told.outcome}")
    recorded = RecordedFolder(str(live))
    replay = Replay(recorded, actor.pid, actor.tells_by, str(Path.cwd()))
    replay.play(log.read_text("utf-8"))
    if others := differences(recorded.nodes, found_in(live), replay.unseen):
        raise NotUnderstoodError(f"what was seen is not what lies there: {', '.join(others)}")
    changes, said = list[Change](), list[int]()
    for each in recorded.record:
        if isinstance(each, Said):
            said.append(len(changes))
        else:
            changes.append(each)
    if len(said) != 2:
        raise NotUnderstoodError("it was not seen when the process told what it had done")
    lasting = actor.durability in SURVIVES_A_CRASH
    recording = Recording(changes, said[0], said[1], {}, lasting)
    there = paths_of(held)
    for path, inode in {**paths_of(recorded.nodes), **paths_of(recording.at(said[1]))}.items():
        if inode in replay.unseen:
            data = held[there[path]] if path in there else b""
            assert isinstance(data, bytes)
            recording.unseen[inode] = path, data
    return recording
