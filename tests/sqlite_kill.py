"""``python -m tests.sqlite_kill --kills 1000``: SIGKILL writers of a SQLite file at any moment.

SQLite finds its file whole each time, see tests/killing_writers.py.
"""

import sys

from tests.killing_writers import kill_writers

if __name__ == "__main__":
    sys.exit(kill_writers("tests.sqlite_kill", "sqlite"))
