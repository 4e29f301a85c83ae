"""Forking a run in Redis: one script, but for the rare join before it.

Where the new id has its home in another bucket than the source lies in, it takes three: a look at
the id, the fork, and the claim (see places.py).
"""

from stores_core.runs import ForkRunRequest, ForkRunResponse
from stores_core.values import micros
from stores_redis.joining import join
from stores_redis.keys import Place
from stores_redis.logs import TRIES, gone_meanwhile
from stores_redis.places import Places
from stores_redis.run_rows import label_args, new_token
from stores_redis.scripts import Arg, Script

_FORK = Script("fork_run")


async def fork(places: Places, request: ForkRunRequest) -> ForkRunResponse:
    """Fork a run into the bucket that it lies in."""

    async def from_place(source: Place) -> ForkRunResponse | None:
        if places.home(request.new_run_id).bucket is source.bucket:
            return await _fork_at_home(places, source, request)
        return await _fork_away(places, source, request)

    response = await places.at(request.run_id, from_place)
    if response is not None:
        return response
    return _not_forked(request, False, (await places.look(request.new_run_id)).lineage)


async def _fork_at_home(
    places: Places, source: Place, request: ForkRunRequest
) -> ForkRunResponse | None:
    """Fork to an id of this bucket; None where the source has to be looked for elsewhere."""
    target = places.home(request.new_run_id)
    for _ in range(TRIES):
        status, *told = await _forked(places, source, target, request)
        if status == b"forked":
            return _created(request, told[0])
        if status == b"away":
            lineage = (await places.look(target.id)).lineage
            if lineage is None:
                continue
            if not await places.tenant.read("HEXISTS", source.run, "token"):
                return None
            return _not_forked(request, True, lineage)
        if status == b"unknown" and places.tenant.is_spread:
            return None
        lineage = (told[0].decode(), int(told[1])) if told else None
        return _not_forked(request, status == b"known", lineage)
    raise gone_meanwhile()


async def _fork_away(
    places: Places, source: Place, request: ForkRunRequest
) -> ForkRunResponse | None:
    """Fork to an id whose home is another bucket; None where the source is not there."""
    for _ in range(TRIES):
        looked = await places.look(request.new_run_id)
        if looked.lineage is not None:
            if not await places.tenant.read("HEXISTS", source.run, "token"):
                return None
            return _not_forked(request, True, looked.lineage)
        target = places.new_place(source, request.new_run_id)
        status, *told = await _forked(places, source, target, request)
        if status == b"unknown":
            return None
        if await places.claim(target, looked):
            return _created(request, told[0])
    raise gone_meanwhile()


async def _forked(
    places: Places, source: Place, target: Place, request: ForkRunRequest
) -> list[bytes]:
    """What the script says, once the source reads few enough ranges."""
    at, labels = micros(request.at), request.labels
    given: list[Arg] = [""] if labels is None else [len(labels), *label_args(labels.items())]
    args = [
        source.bucket.tag, source.id, target.member, request.at_message, at,
        target.token or new_token(), *given,
    ]  # fmt: skip
    for _ in range(TRIES):
        keys = [source.run, target.run, target.keys]
        reply = await places.tenant.run(_FORK, keys, args, writes=True)
        if reply[0] != b"join":
            return reply
        await join(places.tenant, source, reply[1].decode(), at)
    raise gone_meanwhile()


def _created(request: ForkRunRequest, fork_point: bytes) -> ForkRunResponse:
    return ForkRunResponse(
        run_id=request.new_run_id,
        found=True,
        created=True,
        parent_id=request.run_id,
        fork_point=int(fork_point),
    )


def _not_forked(
    request: ForkRunRequest, found: bool, lineage: tuple[str, int] | None
) -> ForkRunResponse:
    parent, fork_point = lineage or ("", 0)
    return ForkRunResponse(
        run_id=request.new_run_id, found=found, parent_id=parent, fork_point=fork_point
    )
