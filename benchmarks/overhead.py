"""What the front adds to a call: the same store behind it and used bare, with complete requests."""

import time

from stores_core import GetRunRequest, open_backend

CALLS = 2_000
ROUNDS = 15


async def front_overhead() -> float:
    """Microseconds that one ``get_run`` takes more through the front: the least of some rounds."""
    async with open_backend("memory:") as backend:
        await backend.runs.create_run(run_id="t")
        store, request = backend.runs.store, GetRunRequest(run_id="t")
        best = {"front": float("inf"), "bare": float("inf")}
        for _ in range(ROUNDS):
            begun = time.perf_counter()
            for _ in range(CALLS):
                await backend.runs.get_run(run_id="t")
            between = time.perf_counter()
            for _ in range(CALLS):
                await store.get_run(request)  # type: ignore[attr-defined]  # any object may be a store
            ended = time.perf_counter()
            best["front"] = min(best["front"], between - begun)
            best["bare"] = min(best["bare"], ended - between)
    return (best["front"] - best["bare"]) / CALLS * 1e6
