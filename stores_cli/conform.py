"""``conform``: the conformance suite on one backend."""

import sys
from contextlib import redirect_stdout
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

from typer import Argument, Option

from stores_cli.commands import command, group
from stores_cli.options import Json
from stores_cli.output import Output
from stores_cli.urls import VARIABLE, is_url, url_or_default
from stores_core.codec import decode_json
from stores_core.extras import need

commands = group()


@command(commands, "conform", example="conform my_backend.stores:open_backend --quick")
def conform(
    subject: Annotated[
        str, Argument(metavar="URL|MODULE:OPENER", help=f"What to examine; default: ${VARIABLE}.")
    ] = "",
    quick: Annotated[bool, Option("--quick", help="A few samples of each test.")] = False,
    only: Annotated[str, Option("-k", metavar="WORDS", help="Only tests that these name.")] = "",
    json: Json = False,
) -> int:
    """Examine a backend with the conformance suite.

    The verdict names each guarantee. The suite uses ids of its own and wipes nothing, but use an
    empty storage all the same. Ends with 0 only for a conformant backend, 1 when a guarantee
    failed, 2 when the suite could not run, 3 when only a part of it ran. More options:
    python -m conformance_tests --help.
    """
    need("pytest", extra="conformance", field="conform")
    subject = url_or_default(subject)
    arguments = ["--url", subject] if is_url(subject) else [subject]
    arguments += ["--quick"] if quick else []
    arguments += ["-k", only] if only else []
    sys.path.insert(0, "")  # as for `python -m`: a module of this folder may hold the opener
    suite = import_module("conformance_tests.__main__")
    if not json:
        return int(suite.main(arguments))
    with TemporaryDirectory() as folder:
        verdict = Path(folder) / "verdict.json"
        with redirect_stdout(sys.stderr):
            code = int(suite.main([*arguments, "--json", str(verdict)]))
        Output(json=True).document(decode_json(verdict.read_bytes()))
    return code
