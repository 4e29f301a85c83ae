"""How a run comes to be: built out of sight, then claimed by one rename."""

import contextlib
import errno
import secrets

from stores_core.errors import StoreUnavailableError
from stores_core.ranges import MAX_RANGES, cut
from stores_core.runs import ForkRunRequest, ForkRunResponse
from stores_core.values import micros
from stores_files.commits import EVENTS, MESSAGES
from stores_files.failures import perhaps_applied
from stores_files.headers import Header, Range, as_json
from stores_files.layout import HEADER, RUNS, STAGING
from stores_files.listing import line_of
from stores_files.logs import TooManyNamesError, make_room, new_id, seal, share
from stores_files.names import name_of
from stores_files.places import Place, remove_folder, write_new
from stores_files.run_folders import RunFolder
from stores_files.storage import Tenant

_TAKEN = {errno.EEXIST, errno.ENOTEMPTY}


def claim(place: Place, tenant: Tenant, header: Header, source: RunFolder | None = None) -> bool:
    """Make a run that reads journals of ``source``, or imported ones; False where its id is taken.

    It is seen whole or not at all. Onto a folder that is not empty, no folder can be renamed, and
    that of a run never is: so of all who claim an id, one gets it.
    """
    disk, name = place.disk, name_of(header.id)
    if disk.identity_of(place[RUNS], name) is not None:
        return _taken(place)
    new = secrets.token_hex(8)
    disk.make_folder(place[STAGING], new)
    try:
        with disk.opened(disk.open_folder(place[STAGING], new)) as folder:
            write_new(disk, folder, HEADER, as_json(header))
            share(place, source, [*header.ranges[MESSAGES], *header.ranges[EVENTS]], folder)
            disk.sync_folder(folder)
        # First the line, so that no run is without one.
        line = line_of(
            header.id, header.generation, header.created, header.labels, parent=header.parent
        )
        tenant.listing.add(place.folder, line)
        disk.rename(place[STAGING], new, place[RUNS], name)
    except BaseException as error:
        with contextlib.suppress(OSError):
            remove_folder(disk, place[STAGING], new)
        if isinstance(error, OSError) and error.errno in _TAKEN:
            with contextlib.suppress(OSError):
                tenant.listing.strike(place.folder, header.id, header.generation)
            return _taken(place)
        raise
    with perhaps_applied():
        disk.sync_folder(place[RUNS])
    return True


def _taken(place: Place) -> bool:
    """Nobody is told that a run is there before that is so for certain."""
    place.disk.sync_folder(place[RUNS])
    return False


def forked(place: Place, tenant: Tenant, request: ForkRunRequest) -> ForkRunResponse:
    """Fork a run, and say what stands at the new id then."""
    while True:
        found, made = _made(place, tenant, request)
        if made is not None:
            return ForkRunResponse(
                run_id=made.id,
                found=True,
                created=True,
                parent_id=made.parent,
                fork_point=made.fork_point,
            )
        with tenant.folders.entered(place, request.new_run_id) as standing:
            if found and standing is None:
                continue  # what stood in the way was deleted meanwhile
            return ForkRunResponse(
                run_id=request.new_run_id,
                found=found,
                parent_id=standing.header.parent if standing else "",
                fork_point=standing.header.fork_point if standing else 0,
            )


def _made(place: Place, tenant: Tenant, request: ForkRunRequest) -> tuple[bool, Header | None]:
    """Whether the source was found, and the fork, unless its id was taken."""
    alone = copy_all = False
    while True:
        with tenant.folders.entered(place, request.run_id, alone=alone) as source:
            if source is None:
                return False, None
            if alone:
                if source.own is not None and source.own.is_spent:
                    seal(place, source)
                make_room(place, source, copy_all=copy_all)
            if source.own is not None:
                if source.own.is_spent:
                    alone = True
                    continue
                source.own.settle()
            header = _fork_of(source, request)
            if max(map(len, header.ranges)) >= MAX_RANGES:
                alone = True  # ranges are joined first, for which nobody may be reading
                continue
            try:
                return True, header if claim(place, tenant, header, source) else None
            except TooManyNamesError as error:
                if copy_all:
                    raise StoreUnavailableError(
                        "the disk allows no name more for a new file; nothing was applied"
                    ) from error
                alone = copy_all = True


def _fork_of(source: RunFolder, request: ForkRunRequest) -> Header:
    counts, at = (source.count(MESSAGES), source.count(EVENTS)), request.at_message
    whole = not 0 < at < counts[MESSAGES]
    taken = counts if whole else (at, 0)
    moment = micros(request.at)
    return Header(
        id=request.new_run_id,
        generation=new_id(),
        journal=new_id(),
        created=moment,
        updated=moment,
        labels=source.header.labels if request.labels is None else request.labels,
        parent=source.header.id,
        fork_point=taken[MESSAGES],
        ranges=(_first(source, MESSAGES, taken[MESSAGES]), _first(source, EVENTS, taken[EVENTS])),
    )


def _first(source: RunFolder, kind: int, count: int) -> list[Range]:
    """The ranges that hold the first ``count`` entries."""
    ranges = source.ranges(kind)
    lengths = cut([part.length for part in ranges], count)
    taken = [part._replace(length=length) for part, length in zip(ranges, lengths, strict=False)]
    if taken and taken[-1].length < ranges[len(taken) - 1].length:
        # The commit that brings the last one, so that the fork reads its newest at once.
        taken[-1] = source.ending(taken[-1])
    return taken
