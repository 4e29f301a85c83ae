"""Asking before something is done that cannot be taken back."""

import sys

from typer import confirm

from stores_core.errors import InvalidRequestError


def agreed(question: str, *, yes: bool) -> bool:
    """Whether to go on: ``yes``, or what the person at the terminal says.

    Raises InvalidRequestError where nobody is there to be asked.
    """
    if yes:
        return True
    if not sys.stdin.isatty():
        raise InvalidRequestError(
            field="--yes", found="nothing, and no terminal to ask on", allowed="--yes, to go on"
        )
    return confirm(question, err=True)
