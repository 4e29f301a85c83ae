"""Makes the golden files of one revision in a folder, with the code at hand.

`python -m tests.golden sqlite FOLDER NUMBER`, the same with `files`, or `python -m
tests.postgres_server -- python -m tests.golden {url} FOLDER NUMBER`, the same with
`tests.redis_server`. Postgres is made by the chain up to that revision, which the code must still
be able to work on.
"""

import asyncio
import gzip
import io
import json
import shutil
import sys
import tarfile
from pathlib import Path
from typing import Any

from tests.golden.filling import exported, fill
from tests.redis_keys import commands_of


def keep(folder: Path, name: str, content: bytes) -> None:
    (folder / f"{name}.gz").write_bytes(gzip.compress(content, mtime=0))


def in_words(found: Any) -> bytes:
    return json.dumps(found, indent=0, sort_keys=True).encode()


async def filled(url: str) -> bytes:
    await fill(url)
    return in_words(await exported(url))


async def of_postgres(url: str, revision: str) -> tuple[str, bytes, bytes]:
    from stores_core.revisions import Revision
    from stores_sql.postgres import versions
    from tests.postgres_schema import Server

    server = Server(url)
    await server.made_by_chain(int(revision))
    script = versions.migration_sql(server.schema, "", revision)
    versions.CODE = Revision(int(revision), int(revision))
    export = await filled(url)
    return script, in_words(await server.rows()), export


async def of_redis(url: str) -> tuple[bytes, bytes]:
    export = await filled(url)
    return in_words(await commands_of(url)), export


def tar_of(folder: Path) -> bytes:
    """A folder with all that is in it, further names of a file as such."""
    whole = io.BytesIO()
    with tarfile.open(fileobj=whole, mode="w") as tar:
        tar.add(folder, arcname=".", filter=_of_nobody)
    return whole.getvalue()


def _of_nobody(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    return entry


def main(place: str, folder: Path, revision: str) -> None:
    if place == "files":
        filling = folder / "filling"
        keep(folder, f"files-{int(revision):04d}.json", asyncio.run(filled(f"file:{filling}")))
        keep(folder, f"files-{int(revision):04d}.tar", tar_of(filling))
        shutil.rmtree(filling)
    elif place == "sqlite":
        file = folder / "filling.db"
        keep(folder, f"sqlite-{int(revision):04d}.json", asyncio.run(filled(f"sqlite:{file}")))
        keep(folder, f"sqlite-{int(revision):04d}.db", file.read_bytes())
        file.unlink()
    elif place.startswith("redis:"):
        commands, export = asyncio.run(of_redis(place))
        keep(folder, f"redis-{int(revision):04d}.commands.json", commands)
        keep(folder, f"redis-{int(revision):04d}.json", export)
    else:
        script, rows, export = asyncio.run(of_postgres(place, revision))
        keep(folder, f"postgres-{int(revision):04d}.sql", script.encode())
        keep(folder, f"postgres-{int(revision):04d}.rows.json", rows)
        keep(folder, f"postgres-{int(revision):04d}.json", export)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3])
