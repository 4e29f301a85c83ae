"""Plays examples of a restart in processes forked from one that has imported their runtimes.

``python -m tests.examples_resumed FOLDER EXAMPLE...`` prints what each example prints, as JSON. Two
forks play an example, of which the second knows only what the first one left in its storage, a file
in the folder. So none of them imports its runtime twice, which takes seconds.
"""

import gc
import importlib
import io
import json
import sys
from collections.abc import Callable, Coroutine, Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

from conformance_tests.faults.killing import in_child, result_of
from tests.conftest import ROOT


def printed(act: Callable[[str], Coroutine[Any, Any, None]], url: str) -> str:
    async def work() -> str:
        with redirect_stdout(io.StringIO()) as out:
            await act(url)
        return out.getvalue()

    return str(result_of(in_child(work)))


def main(folder: str, examples: Sequence[str]) -> int:
    sys.path.insert(0, str(ROOT / "examples"))
    importlib.import_module("stores_sql.sqlite.backend")
    modules = {name: importlib.import_module(name) for name in examples}
    gc.collect()
    gc.freeze()  # or each child would copy all that its collector looks at
    told: dict[str, str] = {}
    for name, module in modules.items():
        url = f"sqlite:{Path(folder) / name}.db"
        told[name] = printed(module.first, url) + printed(module.second, url)
    print(json.dumps(told))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
