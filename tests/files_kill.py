"""``python -m tests.files_kill --kills 1000``: SIGKILL writers of a folder at any moment.

What they leave is passed over or swept, see tests/killing_writers.py.
"""

import sys

from tests.killing_writers import kill_writers

if __name__ == "__main__":
    sys.exit(kill_writers("tests.files_kill", "file"))
