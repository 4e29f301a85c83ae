"""The checker of histories: it sees each kind of fault, and none where there is none."""

import pytest

from conformance_tests.histories.checking import check
from conformance_tests.histories.recording import Outcome, Record, Sent
from tests.tale import (
    append,
    call,
    create,
    delete,
    fork,
    get,
    gone,
    load,
    tail,
    tail_events,
    update,
)

BEGIN = [create((0, 1)), append((2, 3), "a", (2, 0), (2, 0)), append((4, 5), "b", (3, 1), (1, 1))]
A, B = ["a/0", "a/1"], ["b/0"]
END = load((90, 91), A + B, B)
UNKNOWN, REFUSED, FAILED = Outcome.UNKNOWN, Outcome.REFUSED, Outcome.FAILED

FAULTY: dict[str, tuple[str, list[Record]]] = {
    # Logs
    "a stale read": ("stale", [*BEGIN, load((6, 7), A), END]),
    "a stale header": ("stale", [*BEGIN, get((6, 7), (2, 0)), END]),
    "a stale tail": ("stale", [*BEGIN, tail((6, 7), 2, [], 2), END]),
    "a stale tail of events": ("stale", [*BEGIN, tail_events((6, 7), 0, [], 0), END]),
    "a read of what was never sent yet": (
        "stale",
        [*BEGIN[:2], tail((2, 3), 0, A + B, 3), append((4, 5), "b", (3, 1), (1, 1)), END],
    ),
    "two reads that go back": (
        "stale",
        [*BEGIN[:2], append((4, 80), "b", (3, 1), (1, 1)), get((6, 7), (3, 1)),
         get((8, 9), (2, 0)), END],
    ),
    "one log ahead of the other, by two reads": (
        "stale",
        [*BEGIN[:2], append((4, 80), "b", (3, 1), (1, 1)), tail((6, 7), 2, B, 3),
         tail_events((8, 9), 0, [], 0), END],
    ),
    "a lost acknowledgement": ("lost", [*BEGIN, load((90, 91), A)]),
    "a lost one below others": (
        "no prefix", [*BEGIN, append((6, 7), "c", (4, 1)), load((90, 91), [*A, "c/0"], B)]
    ),
    "lost events of a batch": ("lost", [*BEGIN, load((90, 91), A + B)]),
    "a duplicate": ("twice", [*BEGIN, load((90, 91), A + A + B, B)]),
    "a duplicate at the end": ("twice", [*BEGIN, load((90, 91), A + B + B, B)]),
    "two batches swapped": ("place", [*BEGIN, load((90, 91), B + A, B)]),
    "a batch reordered": ("torn", [*BEGIN, load((90, 91), ["a/1", "a/0", *B], B)]),
    "a batch split": ("torn", [*BEGIN, load((90, 91), ["a/0", *B, "a/1"], B)]),
    "two batches interleaved": (
        "torn",
        [create((0, 1)), append((2, 9), "a", (4, 0), (2, 0)), append((2, 9), "c", (4, 0), (2, 0)),
         load((90, 91), ["a/0", "c/0", "a/1", "c/1"])],
    ),
    "half a batch seen": ("torn", [*BEGIN, load((2, 3), ["a/0"]), END]),
    "half a batch seen by a tail": ("torn", [*BEGIN[:1],
        append((2, 9), "a", size=(2, 0), outcome=UNKNOWN), load((20, 21), ["a/0"])]),
    "messages without the events sent with them": ("torn", [*BEGIN, load((4, 5), A + B), END]),
    "a tail that passes over an entry": (
        "no prefix", [*BEGIN, tail((6, 7), 2, ["c/0"], 3), append((6, 7), "c", (4, 1)),
                      load((90, 91), [*A, *B, "c/0"], B)],
    ),
    "the newest messages, one off": (
        "no prefix", [*BEGIN, load((6, 7), ["a/0", "a/0", "a/1"], ["b/0"], newest=2), END]
    ),
    "a page cut short": ("page", [*BEGIN, tail((6, 7), 0, A, 3), END]),
    "a refused batch that is there": ("not applied", [*BEGIN,
        append((6, 7), "c", outcome=REFUSED), load((90, 91), [*A, *B, "c/0"], B)]),
    "a failed batch that is there": ("not applied", [*BEGIN,
        append((6, 7), "c", outcome=FAILED), load((90, 91), [*A, *B, "c/0"], B)]),
    "a conflict that is there": ("not applied", [*BEGIN,
        append((6, 7), "c", (3, 1), expected=(9, None), done=False, conflict=True),
        load((90, 91), [*A, *B, "c/0"], B)]),
    "a batch of unknown outcome, after a read that lacked it and before one that did not": (
        "stale", [*BEGIN, append((6, 7), "c", size=(1, 1), outcome=UNKNOWN),
                  get((8, 9), (4, 2)), get((10, 11), (3, 1)),
                  load((90, 91), [*A, *B, "c/0"], [*B, "c/0"])],
    ),
    "a batch seen before it was sent, its outcome unknown": ("stale", [*BEGIN,
        tail((6, 7), 3, ["c/0"], 4), append((8, 9), "c", outcome=UNKNOWN),
        load((90, 91), [*A, *B, "c/0"], B)]),
    "a batch in the place of another": ("no prefix", [*BEGIN,
        append((6, 7), "c", (3, 0)), END]),
    "wrong counts in the answer": ("place", [create((0, 1)),
        append((2, 3), "a", (3, 0), (2, 0)), load((90, 91), A)]),
    "an entry that nobody sent": ("life", [*BEGIN, load((90, 91), [*A, *B, "x/0"], B)]),
    "an entry that is none of ours": ("stranger", [*BEGIN, load((90, 91), [*A, *B, "x"], B)]),
    "more of a batch than was sent": ("stranger", [*BEGIN, load((90, 91), [*A, "a/2"], B)]),
    "lengths below those of the batch itself": ("place", [create((0, 1)),
        append((2, 3), "a", (1, 0), (2, 0)), load((90, 91), A)]),
    # Expected lengths and keys
    "two winners of one expected length": ("no prefix", [create((0, 1)),
        append((2, 9), "x", (1, 0), expected=(0, None)),
        append((2, 9), "y", (1, 0), expected=(0, None)), load((90, 91), ["x/0"])]),
    "two winners, one of them on top": ("conflict", [create((0, 1)),
        append((2, 9), "x", (1, 0), expected=(0, None)),
        append((2, 9), "y", (2, 0), expected=(0, None)), load((90, 91), ["x/0", "y/0"])]),
    "a conflict though the length was right": ("conflict", [*BEGIN,
        append((6, 7), "c", (3, 1), expected=(3, None), done=False, conflict=True), END]),
    "a conflict with a length of the past": ("stale", [*BEGIN,
        append((6, 7), "c", (2, 0), expected=(9, None), done=False, conflict=True), END]),
    "events expected, and applied at another length": ("conflict", [*BEGIN,
        append((6, 7), "c", (4, 1), expected=(3, 0)), load((90, 91), [*A, *B, "c/0"], B)]),
    "a key applied twice": ("twice", [*BEGIN,
        append((6, 7), "c", (4, 1), key="k"), append((6, 7), "c", (5, 1), key="k"),
        load((90, 91), [*A, *B, "c/0", "c/0"], B)]),
    "a key said to be applied twice": ("twice", [*BEGIN,
        append((6, 7), "c", (4, 1), key="k"), append((6, 7), "c", (4, 1), key="k"),
        load((90, 91), [*A, *B, "c/0"], B)]),
    "a key applied twice, the first time unseen": ("twice", [*BEGIN,
        append((6, 7), "c", key="k", outcome=UNKNOWN), append((8, 9), "c", (5, 1), key="k"),
        load((90, 91), [*A, *B, "c/0", "c/0"], B)]),
    "a duplicate with other counts than the first": ("duplicate", [*BEGIN,
        append((6, 7), "c", (4, 1), key="k"), append((8, 9), "d", (5, 1)),
        append((10, 11), "c", (5, 1), key="k", done=False),
        load((90, 91), [*A, *B, "c/0", "d/0"], B)]),
    "a duplicate of what nobody applied": ("not applied", [*BEGIN,
        append((6, 7), "c", (4, 1), key="k", done=False), load((90, 91), [*A, *B, "c/0"], B)]),
    "a duplicate of what is not there": ("lost", [*BEGIN,
        append((6, 7), "c", outcome=UNKNOWN, key="k"),
        append((8, 9), "c", (4, 1), key="k", done=False), END]),
    "a duplicate told before the first was sent": ("stale", [*BEGIN,
        append((6, 7), "c", (4, 1), key="k", done=False), append((8, 9), "c", (4, 1), key="k"),
        load((90, 91), [*A, *B, "c/0"], B)]),
    "a duplicate without a key": ("duplicate", [*BEGIN,
        append((6, 7), "b", (3, 1), (1, 1), done=False), END]),
    # Forks
    "a fork that is no prefix": ("fork", [*BEGIN, fork((6, 7), 2), END,
        load((92, 93), ["a/0", "b/0"], life="F", run="f", parent_id="r", fork_point=2)]),
    "a fork of another instant": ("stale", [*BEGIN, fork((6, 7), 2), END,
        load((92, 93), A, life="F", run="f", parent_id="r", fork_point=2)]),
    "a fork within a batch": ("torn", [*BEGIN, fork((2, 3), 1), END,
        load((92, 93), A[:1], life="F", run="f", parent_id="r", fork_point=1)]),
    "a fork of all messages without the events": ("torn", [*BEGIN, fork((6, 7), 3), END,
        load((92, 93), A + B, life="F", run="f", parent_id="r", fork_point=3)]),
    "a fork that takes events with a part": ("torn", [*BEGIN, fork((6, 7), 2, at=2), END,
        load((92, 93), A, B, life="F", run="f", parent_id="r", fork_point=2)]),
    "a fork that takes more than was asked for": ("fork", [*BEGIN, fork((6, 7), 3, at=2), END,
        load((92, 93), A + B, B, life="F", run="f", parent_id="r", fork_point=3)]),
    "a fork that takes a part of less": ("stale", [*BEGIN, fork((6, 7), 2, at=5), END,
        load((92, 93), A, life="F", run="f", parent_id="r", fork_point=2)]),
    "a fork that holds more than it took": ("life", [*BEGIN, fork((6, 7), 3), END,
        load((92, 93), [*A, *B, *B], B, life="F", run="f", parent_id="r", fork_point=3)]),
    "two fork points of one fork": ("fork", [*BEGIN, fork((6, 7), 3), END,
        load((92, 93), A + B, B, life="F", run="f", parent_id="r", fork_point=2)]),
    "another parent": ("fork", [*BEGIN, fork((6, 7), 3), END,
        load((92, 93), A + B, B, life="F", run="f", parent_id="x", fork_point=3)]),
    "an append to the source that shows in the fork": ("life", [*BEGIN, fork((6, 7), 3),
        append((8, 9), "c", (4, 1)), load((90, 91), [*A, *B, "c/0"], B),
        load((92, 93), [*A, *B, "c/0"], B, life="F", run="f", parent_id="r", fork_point=3)]),
    "two forks made at one id": ("life", [*BEGIN, fork((6, 9), 3), fork((6, 9), 3, life="G"), END,
        load((92, 93), A + B, B, life="F", run="f", parent_id="r", fork_point=3)]),
    "a fork that found the lineage of nobody": ("fork", [*BEGIN, fork((6, 7), 3),
        fork((8, 9), 2, life="G", done=False), END]),
    "a fork of a run that is not there": ("fork", [fork((6, 7), 0)]),
    # Lives
    "two creators": ("life", [create((0, 9)), create((0, 9), "M")]),
    "nobody created though the id was free": ("life", [create((0, 1), done=False)]),
    "a create that was refused by a run that was gone": ("life", [
        create((0, 1)), delete((2, 3)), create((4, 5), "M", done=False)]),
    "a read before the create": ("life", [get((0, 1), (0, 0)), create((2, 3))]),
    "a run gone by itself": ("life", [create((0, 1)), gone((2, 3))]),
    "found, gone, found": ("life", [create((0, 1)), delete((2, 90)), gone((4, 5)),
                                    tail((6, 7), 0, [], 0)]),
    "two deletes of one run": ("life", [create((0, 1)), delete((2, 9)), delete((2, 9))]),
    "an append after a delete was answered": ("life", [*BEGIN, delete((6, 7)),
                                                      append((8, 9), "c", (4, 1))]),
    "a run raised from the dead": ("life", [*BEGIN, delete((6, 7)), create((8, 9), "M"), END]),
    "two lives glued together": ("not applied", [*BEGIN, delete((6, 7)), create((8, 9), "M"),
        append((10, 11), "c", (3, 0)), load((90, 91), [*A, "c/0"], life="M")]),
    "the keys of a life before": ("not applied", [*BEGIN, append((6, 7), "c", (4, 1), key="k"),
        delete((8, 9)), create((10, 11), "M"),
        append((12, 13), "c", (4, 1), key="k", done=False), load((90, 91), [], life="M")]),
    "a life that nobody began": ("life", [create((0, 1)), get((2, 3), (0, 0), life="X")]),
    "a delete that was refused by lengths that were right": ("stale", [*BEGIN,
        delete((6, 7), expected=(3, 1), done=False, conflict=True), END]),
    "a delete that takes an append along": ("conflict", [*BEGIN,
        delete((6, 20), expected=(3, 1)), append((8, 9), "c", (4, 1)), gone((21, 22))]),
    "a delete of a run of other lengths": ("conflict", [*BEGIN, delete((6, 7), expected=(2, 0))]),
    # Labels
    "a stale label": ("label", [*BEGIN, update((6, 7), "l", 1), update((8, 9), "l", 2),
        get((10, 11), (3, 1), labels={"l": 1}), END]),
    "a label lost": ("label", [*BEGIN, update((6, 7), "l", 1), END]),
    "a label of the future": ("label", [*BEGIN, get((6, 7), (3, 1), labels={"l": 1}),
        update((8, 9), "l", 1), load((90, 91), A + B, B, labels={"l": 1})]),
    "a label of another run": ("label", [*BEGIN, fork((6, 7), 3), update((8, 9), "l", 1, run="f"),
        load((90, 91), A + B, B, labels={"l": 1})]),
    # Errors
    "an error that is none of ours": ("error", [*BEGIN,
        append((6, 7), "c", outcome=Outcome.BROKEN), END]),
}  # fmt: skip


SOUND: dict[str, list[Record]] = {
    "one thing after another": [*BEGIN, get((6, 7), (3, 1)), tail((8, 9), 2, B, 3),
                                tail_events((10, 11), 0, B, 1), END],
    "nothing at all": [],
    "a read that overlaps an append, before it and after it": [
        *BEGIN, append((6, 20), "c", (4, 1)), get((7, 8), (3, 1)), get((9, 10), (4, 1)),
        load((90, 91), [*A, *B, "c/0"], B)],
    "appends at once in the other order": [
        create((0, 1)), append((2, 9), "x", (2, 0)), append((3, 8), "y", (1, 0)),
        load((90, 91), ["y/0", "x/0"])],
    "an unknown append that is not there": [*BEGIN,
        append((6, 7), "c", outcome=UNKNOWN), END],
    "an unknown append that is there, late": [*BEGIN, append((6, 7), "c", outcome=UNKNOWN),
        get((8, 9), (3, 1)), load((90, 91), [*A, *B, "c/0"], B)],
    "an unknown append of both logs, between others": [*BEGIN,
        append((6, 7), "c", size=(1, 1), outcome=UNKNOWN), append((8, 9), "d", (5, 2)),
        load((90, 91), [*A, *B, "c/0", "d/0"], [*B, "c/0"])],
    "unknown appends of one log each": [*BEGIN, append((6, 7), "c", outcome=UNKNOWN),
        append((6, 7), "d", size=(0, 1), outcome=UNKNOWN), tail((8, 9), 0, [*A, *B, "c/0"], 4),
        tail_events((10, 11), 0, B, 1), load((90, 91), [*A, *B, "c/0"], [*B, "d/0"])],
    "one batch sent twice at once": [*BEGIN, append((6, 9), "c", (4, 1), key="k"),
        append((6, 9), "c", (4, 1), key="k", done=False), load((90, 91), [*A, *B, "c/0"], B)],
    "an unknown batch and the duplicate that settles it": [*BEGIN,
        append((6, 7), "c", outcome=UNKNOWN, key="k"),
        append((8, 9), "c", (4, 1), key="k", done=False), load((90, 91), [*A, *B, "c/0"], B)],
    "an unknown batch that its repeat applied": [*BEGIN,
        append((6, 7), "c", outcome=UNKNOWN, key="k"), append((8, 9), "c", (4, 1), key="k"),
        load((90, 91), [*A, *B, "c/0"], B)],
    "a batch sent again, the second time of unknown outcome": [*BEGIN,
        append((6, 7), "c", (4, 1), key="k"), append((8, 9), "c", outcome=UNKNOWN, key="k"),
        load((90, 91), [*A, *B, "c/0"], B)],
    "a duplicate after others": [*BEGIN, append((6, 7), "c", (4, 1), key="k"),
        append((8, 9), "d", (5, 1)), append((10, 11), "c", (4, 1), key="k", done=False),
        load((90, 91), [*A, *B, "c/0", "d/0"], B)],
    "a conflict, and a winner": [*BEGIN, append((6, 9), "c", (4, 1), expected=(3, 1)),
        append((6, 9), "d", (4, 1), expected=(3, None), done=False, conflict=True),
        load((90, 91), [*A, *B, "c/0"], B)],
    "an append to nothing": [append((0, 1), "a", found=False, done=False), create((2, 3)),
                             load((90, 91), [])],
    "what was refused and what failed": [*BEGIN, append((6, 7), "c", outcome=REFUSED),
        append((6, 7), "d", outcome=FAILED), END],
    "forks: all, a part within a batch, more than there is": [
        *BEGIN, fork((6, 7), 3), fork((6, 7), 1, at=1, life="G", new="g"),
        fork((6, 7), 3, at=9, life="H", new="h"), append((8, 9), "c", (4, 1), run="f"),
        append((8, 9), "d", (4, 1)), load((90, 91), [*A, *B, "d/0"], B),
        load((92, 93), [*A, *B, "c/0"], B, life="F", run="f", parent_id="r", fork_point=3),
        load((94, 95), ["a/0"], life="G", run="g", parent_id="r", fork_point=1),
        load((96, 97), A + B, B, life="H", run="h", parent_id="r", fork_point=3)],
    "a fork during an append, before it": [*BEGIN, append((6, 20), "c", (4, 1)),
        fork((8, 9), 3), load((90, 91), [*A, *B, "c/0"], B),
        load((92, 93), A + B, B, life="F", run="f", parent_id="r", fork_point=3)],
    "a fork of a fork": [*BEGIN, fork((6, 7), 3), fork((8, 9), 3, life="G", new="g", run="f"), END,
        load((92, 93), A + B, B, life="G", run="g", parent_id="f", fork_point=3)],
    "forks to one id": [*BEGIN, fork((6, 9), 3), fork((6, 9), 3, life="G", done=False), END,
        load((92, 93), A + B, B, life="F", run="f", parent_id="r", fork_point=3)],
    "an unknown fork, made": [*BEGIN, fork((6, 7), outcome=UNKNOWN),
        fork((8, 9), 3, life="G", done=False), END,
        load((92, 93), A + B, B, life="F", run="f", parent_id="r", fork_point=3)],
    "an unknown fork, not made": [*BEGIN, fork((6, 7), outcome=UNKNOWN), gone((8, 9), run="f"),
                                  END],
    "a fork of nothing": [fork((6, 7), found=False, done=False, parent_id=""), gone((8, 9))],
    "a fork onto itself": [*BEGIN, fork((6, 7), 0, new="r", done=False, parent_id=""), END],
    "creates at once": [create((0, 9)), create((0, 9), "M", done=False), get((10, 11), (0, 0))],
    "created again and again": [*BEGIN, delete((6, 7)), create((8, 9), "M"),
        append((10, 11), "c", (1, 0)), delete((12, 13)), gone((14, 15)), create((16, 17), "N"),
        load((90, 91), [], life="N")],
    "an append that overlaps a delete, before it": [*BEGIN, delete((6, 20)),
        append((8, 9), "c", (4, 1)), gone((21, 22))],
    "an append that overlaps a delete and a create, after them": [
        *BEGIN, append((6, 20), "c", (1, 0)), delete((8, 9)), create((10, 11), "M"),
        load((90, 91), ["c/0"], life="M")],
    "a batch sent again that the next life refused": [
        *BEGIN, append((6, 7), "c", (4, 1), key="k"), load((8, 9), [*A, *B, "c/0"], B),
        append((10, 30), "c", (0, 0), key="k", expected=(9, None), done=False, conflict=True),
        delete((12, 13)), create((14, 15), "M"), load((90, 91), [], life="M")],
    "a batch sent again that the next life took, which nobody saw": [
        *BEGIN, append((6, 7), "c", (4, 1), key="k"), load((8, 9), [*A, *B, "c/0"], B),
        append((10, 30), "c", (1, 0), key="k"), delete((12, 13)), create((14, 15), "M"),
        get((32, 33), (1, 0), life="M")],
    "a page of one life, whose entries came along to the next one too": [
        *BEGIN, fork((6, 7), 3), tail((8, 30), 0, A + B, 3, run="f"), delete((10, 11), run="f"),
        fork((12, 13), 1, at=1, life="G", new="f"), END,
        load((92, 93), A[:1], life="G", run="f", parent_id="r", fork_point=1)],
    "a delete of unknown outcome": [*BEGIN, delete((6, 7), outcome=UNKNOWN),
        get((8, 9), (3, 1)), gone((10, 11))],
    "a create of unknown outcome, deleted unseen": [create((0, 1), outcome=UNKNOWN),
                                                    delete((2, 3)), gone((4, 5))],
    "deletes that expect lengths": [*BEGIN,
        delete((6, 7), expected=(2, 0), done=False, conflict=True), delete((8, 9), expected=(3, 1)),
        delete((10, 11), found=False, done=False)],
    "labels": [*BEGIN, update((6, 9), "l", 1), get((7, 8), (3, 1), labels={"l": 1}),
        update((10, 20), "l", 2), get((11, 12), (3, 1), labels={"l": 1}),
        load((90, 91), A + B, B, labels={"l": 2})],
    "a page refused in the next life": [*BEGIN, delete((6, 20)), create((6, 20), "M"),
        call("read_messages", (8, 30), "r", Sent(start=3, limit=7), outcome=REFUSED)],
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTY)
def test_each_kind_of_fault_is_seen(name: str) -> None:
    kind, records = FAULTY[name]
    kinds = [fault.kind for fault in check(records).faults]
    assert kind in kinds, f"found {kinds}"


@pytest.mark.parametrize("name", SOUND)
def test_what_the_contract_allows_is_no_fault(name: str) -> None:
    verdict = check(SOUND[name])
    assert not verdict.faults, str(verdict)
    assert not verdict.undecided


def test_few_operations_count_as_not_run() -> None:
    few = check([*BEGIN, END])
    assert not few.ran
    assert "not run" in str(few)
    many = [get((10 * n, 10 * n + 1), (3, 1)) for n in range(1, 22)]
    assert check([*BEGIN, *many, END]).ran


def test_a_fault_names_the_calls_that_contradict_each_other() -> None:
    said = str(check([*BEGIN, get((6, 7), (2, 0)), END]))
    assert "append r batch=b" in said
    assert "get r" in said
