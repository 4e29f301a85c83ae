"""Appending a batch in Redis: one script with the entries, or one that refers to staged ones."""

from collections.abc import Sequence
from typing import TypeVar

from stores_core.codec import encode
from stores_core.errors import CorruptRecordError, StoreUnavailableError
from stores_core.keys import repeated
from stores_core.moving import KeyRecord
from stores_core.runs import AppendEventsRequest, AppendMessagesRequest, AppendResponse
from stores_core.values import micros
from stores_redis.joining import join
from stores_redis.keys import Place
from stores_redis.logs import PIECE_BYTES, TRIES, Staged, gone_meanwhile, pieces
from stores_redis.run_rows import expected_arg, new_token
from stores_redis.scripts import UNPACKED, Arg, Script
from stores_redis.storage import Tenant

A = TypeVar("A", bound=AppendResponse)

_APPEND = Script("append")
_APPEND_STAGED = Script("append_staged")


async def append(
    tenant: Tenant,
    place: Place,
    request: AppendMessagesRequest | AppendEventsRequest,
    answer: type[A],
) -> A:
    """Append a batch that is not empty."""
    messages: list[bytes] = []
    if isinstance(request, AppendMessagesRequest):
        messages = [encode(message) for message in request.messages]
        expected = request.expected_count, request.expected_events
    else:
        expected = request.expected_messages, request.expected_count
    events = [encode(event) for event in request.events]
    head: list[Arg] = [
        place.bucket.tag, micros(request.at), new_token(), *map(expected_arg, expected),
        request.idempotency_key, request.digest,
    ]  # fmt: skip
    sizes = sum(map(len, messages)), sum(map(len, events))
    if len(messages) + len(events) <= UNPACKED and sum(sizes) <= PIECE_BYTES:
        tail: list[Arg] = [len(messages), sizes[0], len(events), sizes[1], *messages, *events]
        return await _committed(tenant, place, request, _APPEND, [*head, *tail], answer)
    staged = Staged(tenant, place.bucket, micros(request.at))
    parts = pieces(messages), pieces(events)
    try:
        brought = [*await staged.add(parts[0]), *await staged.add(parts[1])]
        tail = [len(parts[0]), len(parts[1]), *brought]
        response = await _committed(tenant, place, request, _APPEND_STAGED, [*head, *tail], answer)
    except StoreUnavailableError:
        await staged.drop()
        raise
    if not response.applied:
        await staged.drop()
    return response


async def _committed(
    tenant: Tenant,
    place: Place,
    request: AppendMessagesRequest | AppendEventsRequest,
    script: Script,
    args: Sequence[Arg],
    answer: type[A],
) -> A:
    keys = [place.run, place.keys]
    for _ in range(TRIES):
        status, *told = await tenant.run(script, keys, args, writes=True)
        match status:
            case b"done":
                counts = int(told[0]), int(told[1])
                return answer(
                    found=True, applied=True, message_count=counts[0], event_count=counts[1]
                )
            case b"unknown":
                return answer(found=False)
            case b"known":
                known = key_record(request.idempotency_key, told[0])
                return repeated(answer, known, request.digest)
            case b"conflict":
                counts = int(told[0]), int(told[1])
                return answer(
                    found=True, conflict=True, message_count=counts[0], event_count=counts[1]
                )
            case b"join":
                await join(tenant, place, told[0].decode(), micros(request.at))
            case b"damaged":
                raise CorruptRecordError(store="runs", id=request.run_id, position=int(told[1]))
            case _:
                raise gone_meanwhile()
    raise gone_meanwhile()


def key_record(key: str, record: bytes) -> KeyRecord:
    """What is remembered of a key."""
    digest, messages, events = record.decode().split()
    return KeyRecord(key=key, digest=digest, message_count=int(messages), event_count=int(events))
