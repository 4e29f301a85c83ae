"""Batches of notes that no short script could write: decided in one step, taken in piece by piece.

A batch is laid out where nobody sees it, and one step decides it. From then on every script on the
notes of its namespace refuses until all of it is taken in, and whoever is refused takes it in. So
it is seen whole or not at all, whatever becomes of the one who put it.
"""

from collections.abc import Sequence
from typing import Any

from stores_redis.generations import Generations
from stores_redis.keys import Bucket
from stores_redis.scripts import Arg, Script
from stores_redis.storage import Tenant

TAKEN_AT_ONCE = 250
"""So many notes one step takes in; the server needs 3 to 5 ms for them."""

_TAKE = Script("notes_take")


async def run_settled(
    tenant: Tenant,
    generations: Generations,
    namespace: str,
    script: Script,
    keys: Sequence[bytes],
    args: Sequence[Arg],
    *,
    writes: bool,
) -> list[Any]:
    """As :meth:`Tenant.run`, of a script on the notes of one namespace: it is given the namespace's
    batch before ``keys``, and is run again once that is taken in."""
    batch = tenant.home(namespace).note_batch(namespace)
    while True:
        reply = await tenant.run(script, [batch, *keys], args, writes=writes)
        if reply != [b"pending"]:
            return reply
        await settle(tenant, generations, namespace)


async def settle(tenant: Tenant, generations: Generations, namespace: str) -> None:
    """Take in the batch that was decided for a namespace, if there is one.

    Whoever calls it writes nothing of their own by it, so a failure leaves nothing of theirs.
    """
    bucket = tenant.home(namespace)
    while True:
        passed = generations.passed(bucket, "")
        keys = [bucket.note_batch(namespace), *note_keys(bucket, namespace, passed)]
        args = (" ".join(passed), namespace, TAKEN_AT_ONCE)
        reply = await tenant.run(_TAKE, keys, args, writes=False)
        if reply[0] == b"done":
            return
        if reply[0] == b"again":
            generations.learn(bucket, reply[1])


async def settle_all(tenant: Tenant, generations: Generations) -> None:
    """Take in every batch that was decided."""
    for bucket in tenant.buckets:
        while waiting := await tenant.read("SRANDMEMBER", bucket.pending_notes(), 100):
            for namespace in waiting:
                await settle(tenant, generations, namespace.decode())


def note_keys(bucket: Bucket, namespace: str, passed: Sequence[str]) -> list[bytes]:
    """The keys of a script that writes notes, behind the batch, with those of the generations that
    it is passed."""
    return [
        bucket.pending_notes(), bucket.memory(), bucket.namespaces(), bucket.note_counts(),
        bucket.staged_notes(), bucket.notes(namespace), bucket.note_order(namespace),
        bucket.note_changes(namespace), bucket.notes_gone(namespace),
        bucket.note_state(namespace), bucket.note_bodies(namespace),
        *(key for generation in passed for key in bucket.vector_keys(namespace, generation)),
    ]  # fmt: skip
