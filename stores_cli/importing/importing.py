"""`import --from FORMAT`: files and databases of others into a backend."""

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing, closing
from pathlib import Path

from stores_cli.importing.databases import look_at_tables
from stores_cli.importing.formats import Format, Readings
from stores_cli.importing.lineage import Lineage
from stores_cli.importing.registry import AUTO, format_named, recognise
from stores_cli.importing.reports import FileReport, Outcome, Report, Written
from stores_cli.importing.sessions import Found, Note, Result, Session
from stores_cli.importing.sources import Source, age
from stores_cli.importing.writing import Writer, run_id_of
from stores_core import Backend, InvalidRequestError, StoreError

Shown = Callable[[str], str]
Progress = Callable[[int], None]


async def import_sessions(
    backend: Backend | None,
    places: Sequence[str],
    *,
    format: str = AUTO,
    labels: Mapping[str, str] | None = None,
    shown: Shown = str,
    progress: Progress = lambda records: None,
) -> Report:
    """Bring what ``places`` hold into ``backend``; without one everything is only read.

    A place is a file, a folder (all files below it) or the URL of a database. ``shown`` makes a
    place fit to be seen, so that no password of a URL gets into the report; ``progress`` is told
    how many records were read, and how many entries written. Stopped at any point, the same call
    goes on where it was. Raises InvalidRequestError for an unknown format or a place that is not
    there; a file that nobody can read is in the report, and the others go on.
    """
    chosen = None if format == AUTO else format_named(format)
    report, into = Report(), _Into(backend, labels or {}, progress)
    for place in sorted(_spread(places, shown), key=age):
        source = Source(place, shown(place), progress)
        source.account.named = place in places
        report.files.append(source.account)
        with closing(source.spill):
            await into.take(source, chosen)
    return report


def _spread(places: Sequence[str], shown: Shown) -> list[str]:
    spread: list[str] = []
    for place in places:
        path = Path(place)
        if Source(place).is_url:
            spread.append(place)
        elif path.is_dir():
            below = sorted(found for found in path.rglob("*") if found.is_file())
            spread += [str(found) for found in below]
        elif path.is_file():
            spread.append(place)
        else:
            raise InvalidRequestError(
                field="file",
                found=f"nothing at {shown(place)!r}",
                allowed="a file, a folder, or a postgresql: or redis: URL",
            )
    return spread


class _Into:
    """Where the sessions of all places go: one writer for each format."""

    def __init__(
        self, backend: Backend | None, labels: Mapping[str, str], progress: Progress
    ) -> None:
        self._backend, self._labels, self._progress = backend, labels, progress
        self._writers: dict[str, Writer] = {}
        self._lineages: dict[str, Lineage] = {}

    async def take(self, source: Source, chosen: Format | None) -> None:
        account = source.account
        try:
            format = await _format_of(source, chosen)
            account.format = format.name
            async with aclosing(_in_turn(format, source)) as readings:
                async for found in readings:
                    await self._keep(account, format, found)
        except _Unreadable as error:
            account.refused = str(error)

    async def _keep(self, account: FileReport, format: Format, found: Found) -> None:
        _count(account, found)
        if isinstance(found, Session) and format.copies_history:
            self._lineages.setdefault(format.name, Lineage()).settle(found)
        if self._backend:
            writer = self._writers.setdefault(
                format.name, Writer(self._backend, format.name, self._labels, self._progress)
            )
            written = await _write(writer, found)
        else:
            written = _read(format, found)
        if written.run_id or written.outcome is Outcome.CONFLICT:
            account.runs.append(written)


class _Unreadable(Exception):
    """The place cannot be read on; nothing is wrong with the store."""


async def _format_of(source: Source, chosen: Format | None) -> Format:
    try:
        await look_at_tables(source)
        format = chosen or recognise(source)
    except (StoreError, OSError) as error:
        raise _Unreadable(_why(error)) from error
    if format is None:
        raise _Unreadable("no importer knows this file; --from names a format")
    return format


def _why(error: StoreError | OSError) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


async def _in_turn(format: Format, source: Source) -> AsyncGenerator[Found]:
    """What the reader yields. Raises _Unreadable, with the reason, where it cannot go on."""
    readings = format.read(source)
    try:
        while (found := await _next(readings)) is not None:
            yield found
    except (StoreError, OSError) as error:
        raise _Unreadable(_why(error)) from error
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        # A file may hold anything; what no reader foresaw must not stop the other files.
        why = f"its structure is none of {format.name}: {type(error).__name__}"
        raise _Unreadable(why) from error
    finally:
        await readings.aclose() if isinstance(readings, AsyncGenerator) else readings.close()


async def _next(readings: Readings) -> Found | None:
    return (
        await anext(readings, None)
        if isinstance(readings, AsyncGenerator)
        else next(readings, None)
    )


async def _write(writer: Writer, found: Found) -> Written:
    if isinstance(found, Session):
        return await writer.session(found)
    if isinstance(found, Note):
        return await writer.note(found)
    return await writer.result(found)


def _read(format: Format, found: Found) -> Written:
    if not isinstance(found, Session):
        return Written("", Outcome.READ)
    run_id = run_id_of(format.name, found.key, found.keeps_id)
    return Written(run_id, Outcome.READ, len(found.messages), len(found.events))


def _count(account: FileReport, found: Found) -> None:
    if isinstance(found, Note):
        account.notes += 1
    elif isinstance(found, Result):
        account.results += 1
