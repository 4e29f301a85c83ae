"""The entries of sessions that are being read: views that copy nothing, in memory or out of it."""

from collections.abc import Iterator
from contextlib import closing
from random import Random

import pytest

from stores_cli.importing import entries
from stores_cli.importing.entries import Entries, Spill, alike
from stores_core import Message
from stores_core.codec import decode_messages, encode


@pytest.fixture(params=[0, 400, 1 << 20], ids=["none", "some", "all"])
def spill(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Spill]:
    """Where nothing, a part, or everything stays in memory."""
    monkeypatch.setattr(entries, "KEPT_BYTES", request.param)
    with closing(Spill()) as made:
        yield made


def say(log: Entries[Message], *texts: str) -> None:
    for text in texts:
        message = Message(role="user", text=text)
        log.append(message, len(encode(message)))


def texts(log: Entries[Message]) -> list[str | None]:
    return [message.text for message in log]


def test_branches_of_branches_hold_what_plain_lists_hold(spill: Spill) -> None:
    random = Random(1)
    logs, plain = [Entries(spill, decode_messages)], [list[str]()]
    for step in range(200):
        n = random.randrange(len(logs))
        if random.random() < 0.2:
            start = random.choice((None, random.randint(0, len(plain[n]))))
            stop = random.randint(0, len(plain[n]))
            logs.append(logs[n][start:stop])
            plain.append(plain[n][start:stop])
        else:
            more = [f"{step} ü {k}" for k in range(random.randint(1, 30))]
            say(logs[n], *more)
            plain[n] += more
    for log, held in zip(logs, plain, strict=True):
        assert texts(log) == held
        assert len(log) == len(held)
        assert [log[at].text for at in range(-len(held), len(held))] == held * 2
        sizes = [len(encode(Message(role="user", text=text))) for text in held]
        assert [*log.sizes()] == sizes
        with pytest.raises(IndexError):
            _ = log[len(held)]


def test_what_two_share_is_told_without_looking_at_it(spill: Spill) -> None:
    first, stranger = Entries(spill, decode_messages), Entries(spill, decode_messages)
    say(first, *"abcdef")
    say(stranger, *"abcdef")
    branch = first[:4]
    say(branch, "x")
    twig = branch[:2]
    say(first, "g")
    whole = first.outline()
    assert alike(whole, whole) == 7
    assert alike(whole, branch.outline()) == alike(branch.outline(), whole) == 4
    assert alike(twig.outline(), branch.outline()) == 2
    assert alike(whole, stranger.outline()) == 0
    assert alike(whole, first[1:].outline()) == 0
