"""The command as a whole: all groups together, and how every run of it ends."""

import io
import sys
from collections.abc import Sequence

import typer
from typer.exceptions import TyperException
from typer.main import get_command

from stores_cli import (
    bench,
    changing,
    conform,
    doctor,
    exports,
    family,
    imports,
    memory,
    migrate,
    moving,
    results,
    runs,
    upkeep,
)
from stores_cli.commands import NAME, STYLE, group
from stores_cli.exits import HELP, Exit, code_of
from stores_cli.output import Output, ReaderGoneError, complain
from stores_cli.ui import command as ui
from stores_cli.urls import VARIABLE, redacted
from stores_core.errors import StoreError

app = typer.Typer(
    name=NAME,
    help="Stores of AI agents from the shell, on any backend: migrate, move, look.",
    epilog=f"A URL left out is that of ${VARIABLE}. {HELP}",
    **STYLE,
)
_of_runs = group("runs", "Runs: list, read, follow, compare, fork, label, delete.")
for part in (runs, family, changing):
    _of_runs.add_typer(part.commands)
for commands in (
    doctor.commands,
    migrate.commands,
    upkeep.commands,
    moving.commands,
    exports.commands,
    imports.commands,
    _of_runs,
    memory.commands,
    results.commands,
    conform.commands,
    bench.commands,
    ui.commands,
):
    app.add_typer(commands)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; the exit code. No error of a store ends in a traceback."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # what its encoding lacks is shown by code
            stream.reconfigure(errors="backslashreplace")
    try:
        code = get_command(app).main(args=given, prog_name=NAME, standalone_mode=False)
        Output(json=False).flush()
    except StoreError as error:
        complain(redacted(f"{NAME}: {error}", given))
        return code_of(error)
    except TyperException as error:
        message = error.format_message()
        shows_help = message.startswith("Usage:")
        complain(redacted(message if shows_help else f"{NAME}: {message}", given))
        return Exit.UNUSABLE
    except (typer.Abort, KeyboardInterrupt):
        code = Exit.INTERRUPTED
    except ReaderGoneError:  # it has what it wanted
        return Exit.FINE
    except OSError as error:  # a file that was named: one that is not there, a full disk
        complain(redacted(f"{NAME}: {error.strerror or error}: {error.filename or ''}", given))
        return Exit.UNUSABLE
    if code == Exit.INTERRUPTED:
        complain(f"{NAME}: stopped")
    return int(code or Exit.FINE)
