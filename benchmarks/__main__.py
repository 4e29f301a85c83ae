"""``python -m benchmarks [--backends memory] [--workloads append,load] [--seconds 1]``."""

import argparse
import asyncio
from contextlib import AsyncExitStack

from benchmarks.contenders import BACKENDS
from benchmarks.overhead import front_overhead
from benchmarks.workloads import WORKLOADS


async def compare(backend: str, workloads: list[str], seconds: float) -> None:
    """Print a table: each row's medians, and ours as a multiple of the limit."""
    entries = BACKENDS[backend]()
    names = [entry.name for entry in entries]
    print(f"\n## {backend}\n\n| work | {' | '.join(names)} | ratio |")
    print(f"| --- |{' ---: |' * (len(names) + 1)}")
    for workload in workloads:
        async with AsyncExitStack() as stack:
            contenders = {
                entry.name: await stack.enter_async_context(entry.open()) for entry in entries
            }
            async for what, times in WORKLOADS[workload].run(contenders, seconds):
                cells = " | ".join(f"{times[name] * 1e3:.3f} ms" for name in names)
                ours = entries[-1]
                ratio = times[ours.name] / times[ours.limit]
                print(f"| {what} | {cells} | {ratio:.2f} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--backends", default=",".join(BACKENDS))
    parser.add_argument("--workloads", default=",".join(WORKLOADS))
    parser.add_argument("--seconds", type=float, default=1.0, help="for each contender and row")
    chosen = parser.parse_args()
    print(f"the front adds {asyncio.run(front_overhead()):.1f} us to a call")
    for backend in chosen.backends.split(","):
        asyncio.run(compare(backend, chosen.workloads.split(","), chosen.seconds))


if __name__ == "__main__":
    main()
