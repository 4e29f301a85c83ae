"""Model Context Protocol: the event store by which a client resumes a broken stream.

``ResumableSessionManager(server, backend)`` gives each session of a Streamable HTTP server an
event store of its own. Needs the extra ``mcp``.
"""

import asyncio
import secrets
from typing import Any
from urllib.parse import quote, unquote
from weakref import WeakValueDictionary

from stores_core import Backend, Event, InvalidRequestError
from stores_core.extras import need

need("mcp.server.streamable_http_manager", extra="mcp", field="stores_adapters.mcp")

from mcp.server import Server  # noqa: E402 - after need
from mcp.server.streamable_http import (  # noqa: E402 - after need
    EventCallback,
    EventId,
    EventMessage,
    EventStore,
    StreamId,
)
from mcp.server.streamable_http_manager import (  # noqa: E402 - after need
    StreamableHTTPSessionManager,
)
from mcp_types import JSONRPCMessage, jsonrpc_message_adapter  # noqa: E402 - after need

from stores_adapters.appending import append_or_create  # noqa: E402 - after need
from stores_adapters.listing import runs_with  # noqa: E402 - after need

MESSAGE = "mcp-message"
PRIMING = "mcp-priming"
STREAM = {"mcp": "stream"}
"""The label of every run that keeps a stream, for pruning by age."""
SESSION = "mcp-session"


class _Stream:
    """A stream while something of it is stored or replayed here."""

    def __init__(self) -> None:
        self.turn = asyncio.Lock()
        """Held while an event is stored: they get their positions in the order they came in."""
        self.storing = 0
        """How many events are being stored, or wait for their turn."""
        self.count = 0
        """The events that the stream has at least."""


class BackendEventStore(EventStore):
    """The streams of one session, each the event log of a run.

    The SDK names a stream by the request that opened it, so the names repeat from session to
    session: each session needs a store of its own, with a ``session`` that no other has, or a
    client is sent what belongs to another. `ResumableSessionManager` sees to that.

    Errors are those of the stores. The backend stays the caller's to close.
    """

    def __init__(self, backend: Backend, session: str) -> None:
        self._backend = backend
        self._session = session
        self._streams = WeakValueDictionary[StreamId, _Stream]()

    async def store_event(self, stream_id: StreamId, message: JSONRPCMessage | None) -> EventId:
        """Keep one message of a stream, or None for the event that opens a connection.

        The id names session, stream and position, in visible ASCII.
        """
        event = Event(kind=PRIMING)
        if message is not None:
            # As text, since a message may be nested deeper than a stored value.
            text = jsonrpc_message_adapter.dump_json(message, by_alias=True, exclude_unset=True)
            event = Event(kind=MESSAGE, text=text.decode())
        labels = {**STREAM, SESSION: self._session}
        stream = self._stream(stream_id)
        stream.storing += 1
        try:
            async with stream.turn:
                answer = await append_or_create(
                    self._backend, self.run_id(stream_id), events=[event], labels=labels
                )
                stream.count = answer.event_count
        finally:
            stream.storing -= 1
        return self.event_id(stream_id, answer.event_count - 1)

    async def replay_events_after(
        self, last_event_id: EventId, send_callback: EventCallback
    ) -> StreamId | None:
        """Send the messages that came after an event, of its stream alone, oldest first.

        It ends when this store has nothing of the stream left to store: the SDK sends an event that
        is stored before the replay ends to nobody, and gives the client an id right after it.

        None, and nothing sent, for an id that no event of this session has.
        """
        place = self._place_of(last_event_id)
        if place is None:
            return None
        stream_id, start = place
        stream = self._stream(stream_id)
        while True:
            stored = stream.count
            try:
                page = await self._backend.runs.read_events(
                    run_id=self.run_id(stream_id), start=start
                )
            except InvalidRequestError:
                return None  # past the end: an id that was not given out
            if not page.found:
                return None
            for position, event in enumerate(page.entries, start):
                if event.kind == MESSAGE:
                    message = jsonrpc_message_adapter.validate_json(event.text or "")
                    await send_callback(EventMessage(message, self.event_id(stream_id, position)))
            start = page.next
            if stream.storing:
                async with stream.turn:
                    pass
            elif start >= max(page.count, stream.count) or page.count < stored:
                return stream_id  # to its end, or as it was forgotten and begun anew

    async def forget(self) -> None:
        """Delete all streams of the session."""
        async for info in runs_with(self._backend, {SESSION: self._session}):
            await self._backend.runs.delete_run(run_id=info.id)

    def run_id(self, stream_id: StreamId) -> str:
        """The run whose event log is the stream."""
        # The length keeps session "a" with stream "b c" apart from session "a b" with stream "c".
        return f"mcp {len(self._session)} {self._session} {stream_id}"

    def event_id(self, stream_id: StreamId, position: int) -> EventId:
        """The id of the event at a position of the stream, counted from 0."""
        return f"{position}/{quote(self._session, safe='')}/{quote(stream_id, safe='')}"

    def _stream(self, stream_id: StreamId) -> _Stream:
        """The one that all hold who are at work on this stream."""
        return self._streams.setdefault(stream_id, _Stream())

    def _place_of(self, event_id: EventId) -> tuple[StreamId, int] | None:
        """The stream of an event, and the position after it; None for what is no id of ours."""
        position, _, rest = event_id.partition("/")
        session, _, stream_id = rest.partition("/")
        stream_id = unquote(stream_id)
        if not (position.isascii() and position.isdigit() and len(position) < 16):
            return None
        if unquote(session) != self._session or event_id != self.event_id(stream_id, int(position)):
            return None
        return stream_id, int(position) + 1


class ResumableSessionManager(StreamableHTTPSessionManager):
    """The SDK's session manager, whose sessions each have an event store of their own.

    ``settings`` are those of StreamableHTTPSessionManager.
    """

    def __init__(self, app: Server[Any], backend: Backend, **settings: Any) -> None:
        self._backend = backend
        super().__init__(app, **settings)

    @property
    def event_store(self) -> EventStore:
        """A new store; the manager asks for one as it opens a session."""
        return BackendEventStore(self._backend, secrets.token_hex(16))

    @event_store.setter
    def event_store(self, event_store: EventStore | None) -> None:
        if event_store is not None:
            raise InvalidRequestError(
                field="event_store",
                found="an event store that all sessions would share",
                allowed="none: each session has its own in the backend",
            )
