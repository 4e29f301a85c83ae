"""``python -m stores_files FOLDER [RUN NEW]``: repair.

With a run, its whole batches become a new run; the damaged one stays as it is. Without one, runs
that are missing from their listing are listed again, and journals get the names back that a copy
without hard links took from them.
"""

import argparse
import asyncio
import sys
from collections.abc import Sequence

from stores_core.errors import StoreError
from stores_files.disk import Disk
from stores_files.repairing import repair_links, repair_run
from stores_files.storage import LOCK_TIMEOUT, Storage, Tenant


async def repair(folder: str, tenant: str, run_id: str, new_run_id: str) -> Sequence[str]:
    """Repair a folder, or a run in it; what was done, in sentences."""
    storage = await Storage.open(folder, Disk(), lock_timeout=LOCK_TIMEOUT)
    held = Tenant(storage, tenant)
    try:
        if not run_id:
            mended = await storage.run(lambda: repair_links(held))
            return [f"listed or linked again: {mended}"]
        saved = await storage.run(lambda: repair_run(held, run_id, new_run_id))
        messages, events = saved.counts
        losses = [f"lost: {loss}" for loss in saved.losses]
        return [f"saved: {messages} messages, {events} events", *losses]
    finally:
        await storage.close()
        held.close()


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m stores_files", description=__doc__)
    parser.add_argument("folder", metavar="FOLDER")
    parser.add_argument("run", metavar="RUN", nargs="?", default="", help="the damaged run")
    parser.add_argument("new", metavar="NEW", nargs="?", default="", help="the id of the new run")
    parser.add_argument("--tenant", default="")
    given = parser.parse_args()
    if bool(given.run) != bool(given.new):
        parser.error("name both, the damaged run and the new one, or neither")
    try:
        told = asyncio.run(repair(given.folder, given.tenant, given.run, given.new))
    except StoreError as error:
        parser.exit(1, f"{error}\n")
    sys.stdout.writelines(f"{line}\n" for line in told)
    return 0


if __name__ == "__main__":
    sys.exit(main())
