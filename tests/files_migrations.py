"""The steps of the stored format on a simulated disk, there and back."""

from stores_core.revisions import State
from stores_files.versions import migrate, read_marker
from tests.files_simulated import SimulatedDisk

OLDER = "1"

MIGRATIONS = {"migrate forward": "", "migrate back": OLDER}
"""The revisions that they lead to; the empty one is the code's."""


def migrate_to(disk: SimulatedDisk, target: str) -> None:
    """Take the steps to a revision."""
    root = disk.open_root("")
    with disk.opened(root):
        migrate(disk, root, target)


def there_and_back(disk: SimulatedDisk) -> SimulatedDisk:
    """A copy that nobody cut off; of a clock that was put back the older format loses a time."""
    copy = SimulatedDisk(dict(disk.nodes))
    for target in (OLDER, ""):
        migrate_to(copy, target)
    return copy


def finish(disk: SimulatedDisk) -> None:
    """What an operator does who finds a folder of another format, or half-way to one."""
    root = disk.open_root("")
    with disk.opened(root):
        if read_marker(disk, root).state is not State.CURRENT:
            migrate(disk, root)
