"""The stores whose code is mutated, and the storages on which their mutants run."""

from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent


@dataclass(frozen=True, slots=True)
class Subject:
    """The modules of one ``folder``. ``{folder}`` in ``url`` is a new one for each run.

    ``left_out`` are modules that a black box never reaches on purpose: what a damaged file, a
    failing driver, a process that holds a lock, a link, a stranger's rights or an older format
    meets. Our own tests do.
    """

    name: str
    url: str
    folder: str
    left_out: frozenset[str] = frozenset()

    @property
    def package(self) -> str:
        """The name under which the modules are imported."""
        return self.folder.replace("/", ".")

    @property
    def paths(self) -> list[str]:
        """The modules, relative to the repository."""
        found = sorted((ROOT / self.folder).glob("*.py"))
        return [
            path.relative_to(ROOT).as_posix()
            for path in found
            if path.name not in self.left_out and path.name != "__init__.py"
        ]


SUBJECTS = {
    "memory": Subject("memory", "memory:mutants", "stores_core/in_memory"),
    "sqlite": Subject(
        "sqlite",
        "sqlite:{folder}/mutants.db?durability=client",
        "stores_sql/sqlite",
        frozenset(
            {
                *("connections.py", "failures.py", "locking.py"),
                *("orphans.py", "verifying.py", "versions.py"),
            }
        ),
    ),
}
