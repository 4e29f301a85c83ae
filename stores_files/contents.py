"""Bodies under their digests: equal ones are stored once.

A body has its digest's name in a folder of its own, and one more name wherever it is used. So the
system counts the users, and a body whose only name is its own is free.
"""

import contextlib
import errno
import hashlib
import secrets

from stores_files.layout import CONTENTS
from stores_files.links import is_refused
from stores_files.places import NEW, Place


def digest_of(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()


def keep(place: Place, body: bytes, digest: str, folder: int, name: str) -> None:
    """Give a folder a file of this body, on the disk for certain."""
    disk = place.disk
    for _ in range(3):
        try:
            disk.link(place[CONTENTS], digest, folder, name)
            return
        except FileNotFoundError:
            _write(place, body, digest)
        except OSError as error:
            if not is_refused(error):
                raise
            if error.errno != errno.EMLINK:  # a disk without links, where nothing is shared
                with contextlib.suppress(FileNotFoundError):
                    disk.rename(place[CONTENTS], digest, folder, name)
                    return
                continue
            break
    # As many names as the disk allows, or freed or moved each time: a copy of its own.
    with disk.opened(disk.make_file(folder, name)) as file:
        disk.write(file, 0, body)
        disk.sync(file)


def _write(place: Place, body: bytes, digest: str) -> None:
    disk, new = place.disk, NEW + secrets.token_hex(8)
    with disk.opened(disk.make_file(place[CONTENTS], new)) as file:
        disk.write(file, 0, body)
        disk.sync(file)
    disk.rename(place[CONTENTS], new, place[CONTENTS], digest)


def free(place: Place, digest: str) -> None:
    """Remove a body that nothing uses."""
    disk = place.disk
    with contextlib.suppress(FileNotFoundError):
        with disk.opened(disk.open_file(place[CONTENTS], digest)) as file:
            if disk.links(file) > 1:
                return
        disk.unlink(place[CONTENTS], digest)
