"""Chat histories of aider: Markdown with a heading for each start of the program."""

from collections import Counter
from collections.abc import Generator

from stores_cli.importing.formats import Format
from stores_cli.importing.sessions import Session
from stores_cli.importing.sources import Source

_START, _USER, _PROGRAM = "# aider chat started at ", "#### ", "> "


def recognises(source: Source) -> bool:
    if source.is_url or source.is_sqlite:
        return False
    with source.path.open("rb") as file:
        return _START.encode() in file.read(4_000)


def read(source: Source) -> Generator[Session]:
    """A session for each start. Nothing is made out of edits and commands: they stay text."""
    session: Session | None = None
    starts = Counter[str]()
    kind, lines = "", list[str]()
    for line in source.text().split("\n"):
        if line.startswith(_START):
            if session:
                _end(session, kind, lines)
                yield session
            started = line.removeprefix(_START).strip()
            starts[started] += 1  # the program may be started twice within a second
            name = started if starts[started] == 1 else f"{started} {starts[started]}"
            session = source.session(f"{source.path.name.strip('.').partition('.')[0]}/{name}")
            session.label("started", started)
            source.account.records += 1
            session.happen("session", at=started)
            kind, lines = "", []
            continue
        if session is None:
            if line.strip():
                source.account.records += 1
                source.leave_out("text before the first start")
            continue
        of = _kind_of(line)
        if of != kind and (line.strip() or kind == "program"):
            source.account.records += _end(session, kind, lines)
            kind, lines = of, []
        lines.append(line)
    if session:
        source.account.records += _end(session, kind, lines)
        yield session


def _kind_of(line: str) -> str:
    if line.startswith(_USER) or line.rstrip() == _USER.strip():
        return "user"
    return "program" if line.startswith(_PROGRAM) or line.rstrip() == ">" else "assistant"


def _end(session: Session, kind: str, lines: list[str]) -> int:
    """Add what the lines say; how many records that were."""
    cut = {"user": len(_USER), "program": 2}.get(kind, 0)
    text = "\n".join(line[cut:] for line in lines).strip("\n")
    if not text.strip():
        return 0
    if kind == "program":
        session.happen("program-output", text)
    else:
        session.say(kind, text)
    return 1


AIDER = Format("aider", "aider chat histories (Markdown)", recognises, read)
