"""The closed set of errors that a store may raise.

A message names fields, limits, ids and positions. It never shows a password, a note or a
message body, so it may be logged as it is. A driver's own exception is the ``__cause__``.
"""

from collections.abc import Mapping


class StoreError(Exception):
    """Something about a store went wrong; the root of every error here."""

    def __init__(self, message: str = "") -> None:
        super().__init__(message or (type(self).__doc__ or "").partition("\n")[0])


class InvalidRequestError(StoreError, ValueError):
    """The request was refused before anything was written.

    ``field`` is the path of what was refused (``messages[2].text``), ``found`` describes what
    stood there without quoting it, ``allowed`` is the way out.
    """

    def __init__(
        self, message: str = "", *, field: str = "", found: str = "", allowed: str = ""
    ) -> None:
        if not message and field:
            message = f"{field}: found {found}; allowed is {allowed}"
        super().__init__(message)
        self.field = field
        self.found = found
        self.allowed = allowed


class RecordTooLargeError(InvalidRequestError):
    """A record, batch, query or load is beyond its limit; the message says how to raise it."""


class StoreUnavailableError(StoreError):
    """The backend could not do it, and nothing was applied."""


class OutcomeUnknownError(StoreError):
    """The write may or may not have been applied.

    ``retry_with`` holds the fields (``run_id``, ``new_run_id``, ``idempotency_key``, ``ref``)
    to send again, so that the retry converges instead of applying twice. It is empty where a
    plain repeat is safe, and for an append without a key, which only a look at the counts settles.
    """

    def __init__(self, message: str = "", *, retry_with: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.retry_with = dict(retry_with or {})


class CorruptRecordError(StoreError):
    """A stored record cannot be read. Nothing was skipped and nothing was changed.

    ``store`` is "runs", "memory" or "tool_results"; ``id`` the run, note or ref; ``position``
    the place in its log, or -1 where there is none.
    """

    def __init__(
        self, message: str = "", *, store: str = "", id: str = "", position: int = -1
    ) -> None:
        if not message and store:
            at = f" at position {position}" if position >= 0 else ""
            message = f"{store}: the record of {id!r}{at} cannot be read; `verify` lists all damage"
        super().__init__(message)
        self.store = store
        self.id = id
        self.position = position


class SchemaVersionError(StoreError):
    """The stored format and the code differ; the message names both and the command to run.

    ``state`` is what the storage is to this code, where the backend tells: "behind", "ahead",
    "absent" or "foreign" (``CheckResponse.schema_state``).
    """

    def __init__(self, message: str = "", *, state: str = "") -> None:
        super().__init__(message)
        self.state = state


class EmbeddingMismatchError(StoreError):
    """The stored vectors are another embedder's, or missing; names both and the command."""


class StoreClosedError(StoreError):
    """The backend was closed; open it again with open_backend()."""
