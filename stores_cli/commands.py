"""How a command is declared: a function with typed arguments, and an example of its use."""

import asyncio
import functools
from collections.abc import Callable, Coroutine
from typing import Any, ParamSpec

import typer

from stores_cli.exits import Exit

P = ParamSpec("P")
Answer = int | None
Command = Callable[P, Answer | Coroutine[Any, Any, Answer]]

NAME = "agent-stores"

STYLE: dict[str, Any] = {
    "rich_markup_mode": None,  # help is plain text: the same on a terminal, in a pipe, on a page
    "pretty_exceptions_enable": False,
    "no_args_is_help": True,
    "context_settings": {"help_option_names": ["--help", "-h"], "max_content_width": 100},
}


def group(name: str | None = None, help: str | None = None) -> typer.Typer:
    """A group of commands; one without a name is merged into what it is mounted on."""
    return typer.Typer(name=name, help=help, add_completion=False, **STYLE)


def command(group: typer.Typer, name: str, *, example: str) -> Callable[[Command[P]], Command[P]]:
    """Declares a command of a group, a coroutine function as a rule.

    It returns its exit code; None is fine.

    The docstring is the help; ``example`` is what to type behind ``agent-stores``.
    """

    def declare(function: Command[P]) -> Command[P]:
        @functools.wraps(function)
        def run(*args: P.args, **kwargs: P.kwargs) -> int:
            answer = function(*args, **kwargs)
            if isinstance(answer, Coroutine):
                answer = asyncio.run(answer)
            return int(answer or Exit.FINE)

        group.command(name, epilog=f"Example: {NAME} {example}", no_args_is_help=False)(run)
        return function

    return declare
