"""``python -m stores_cli.reference`` prints docs/command-line.md, made of the command's help."""

import sys
from collections.abc import Generator
from typing import Any

from typer.main import get_command

from stores_cli.app import app
from stores_cli.commands import NAME

WIDTH = 96

_HEAD = f"""\
# The command line

`pip install 'agent-stores[cli]'` brings `{NAME}`, with the extras of the backends that it shall
open. Shell completion: `{NAME} --install-completion`.

- A backend is named by its URL, always the last argument, or by `AGENT_STORES_URL`.
- What reads, or changes what is there, makes no storage: a path or database without one is refused
  by name. `copy`, `import`, `memory put`, `migrate up` and `bench` make one. `create=` in the URL
  decides otherwise.
- `--json` gives one JSON document, or a line of JSON for each thing where there are many.
- Long work shows a bar on a terminal. Ctrl-C stops it, and the same command goes on from there.
- Passwords are never shown, and nothing that is stored can steer the terminal.

## The archive

`export` writes JSON lines, compressed with zstd. The first says what it is and the last has the
number and the BLAKE2b digest of the lines before, so a part is never taken for the whole. Each line
between is one piece: entries of a log, a run with the ranges of logs that it reads, notes, results.
Logs come before the runs that refer to them. With `--all-tenants` a line `{{"tenant": "…"}}` names
whose all is that follows. What comes again counts as it came last, since an export that was cut off
goes on with what it has (`FILE.part`, whole frames of zstd) and brings what moved once more. Values
have the names of the wire, as at rest
([contract.md](contract.md)). `zstdcat FILE | jq .` reads it.

```text
{{"format": "agent-stores", "version": 2, "backend": "sqlite", "of": "…"}}
{{"log": "…", "start": 0, "entries": [{{"role": "user", "text": "…"}}]}}
{{"run": {{"info": {{…}}, "keys": [], "messages": [{{"log": "…", "length": 1}}], "events": []}}}}
{{"notes": [{{"namespace": "", "item": {{…}}, "vector": "…"}}], "embedder": …, "versionFloor": 0}}
{{"results": [{{"ref": "…", "createdAt": "…", "labels": {{}}, "result": {{"content": []}}}}]}}
{{"lines": 5, "digest": "…"}}
```

## The commands

What follows is the command's own help, made by `python -m stores_cli.reference`.
"""


def page() -> str:
    """The page as Markdown."""
    parts = [_HEAD, *(_section(name, text) for name, text in helps())]
    return "\n".join(parts)


def helps() -> Generator[tuple[str, str]]:
    """The help of every command, by what one types."""
    yield from _below(get_command(app), NAME, None)


def _below(command: Any, name: str, parent: Any) -> Generator[tuple[str, str]]:
    context = command.make_context(
        name.rpartition(" ")[2],
        [],
        parent=parent,
        resilient_parsing=True,
        terminal_width=WIDTH,
        max_content_width=WIDTH,
    )
    yield name, "\n".join(line.rstrip() for line in command.get_help(context).splitlines())
    for inner in getattr(command, "commands", {}).values():
        if not inner.hidden:
            yield from _below(inner, f"{name} {inner.name}", context)


def _section(name: str, text: str) -> str:
    return f"### {name}\n\n```text\n{text}\n```\n"


if __name__ == "__main__":
    sys.stdout.write(page())
