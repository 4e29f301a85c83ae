"""Files of sessions and users: each a run whose messages are its versions."""

import sys
from typing import Any

from google.adk.artifacts.artifact_util import (
    get_artifact_uri,
    is_artifact_ref,
    parse_artifact_uri,
    resolve_artifact_reference,
    validate_artifact_reference_scope,
)
from google.adk.artifacts.base_artifact_service import (
    ArtifactVersion,
    BaseArtifactService,
    ensure_part,
)
from google.adk.errors.input_validation_error import InputValidationError
from google.genai import types

from stores_adapters.appending import append_or_create
from stores_adapters.google_adk.names import joined, labels_of
from stores_adapters.listing import runs_with
from stores_core import Backend, Event, InvalidRequestError, Message

VERSION = "google-adk-version"
FILE = "google-adk-file"
SESSION = "google-adk-session"
HOPS = 5
"""So many references are followed, as by ADK's own services."""


class BackendArtifactService(BaseArtifactService):
    """Keeps each file in a run: a version's content is a message, what is said of it an event.

    The number of a version is its position, so versions of savers that race are all there. A
    filename that begins with ``user:`` is the user's; any other needs a session.
    """

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    async def save_artifact(
        self,
        *,
        app_name: str,
        user_id: str,
        filename: str,
        artifact: types.Part | dict[str, Any],
        session_id: str | None = None,
        custom_metadata: dict[str, Any] | None = None,
    ) -> int:
        """The number of the new version, from 0 on. Raises ADK's InputValidationError."""
        part = ensure_part(artifact)
        said = ArtifactVersion(
            version=0,  # which its position tells
            canonical_uri="",
            custom_metadata=custom_metadata or {},
            mime_type=_mime_type(part, app_name, user_id, session_id),
        )
        whole: dict[str, Any] = {"part": part.model_dump(mode="json", exclude_none=True)}
        about: dict[str, Any] = {"about": said.model_dump(mode="json")}
        scope = _scope(filename, session_id)
        answer = await append_or_create(
            self._backend,
            joined("artifact", app_name, user_id, scope, filename),
            messages=[Message(role="artifact", **whole)],
            events=[Event(kind=VERSION, **about)],
            labels={**labels_of("artifact", app_name, user_id), SESSION: scope, FILE: filename},
        )
        return answer.message_count - 1

    async def load_artifact(
        self,
        *,
        app_name: str,
        user_id: str,
        filename: str,
        session_id: str | None = None,
        version: int | None = None,
    ) -> types.Part | None:
        """The newest version without a number. A reference to another artifact is followed."""
        for hops in range(HOPS, -1, -1):
            run_id = joined("artifact", app_name, user_id, _scope(filename, session_id), filename)
            part = await self._part(run_id, version)
            if part is None or not is_artifact_ref(part):
                return part
            file_data = part.file_data
            target = resolve_artifact_reference(
                file_uri=(file_data.file_uri if file_data else None) or "",
                app_name=app_name,
                user_id=user_id,
                session_id=session_id,
                remaining_depth=hops,
            )
            filename, version, session_id = target.filename, target.version, target.session_id
        return None

    async def list_artifact_keys(
        self, *, app_name: str, user_id: str, session_id: str | None = None
    ) -> list[str]:
        """The names of the user's files, and of the session's where one is given."""
        scopes = [_USERS] if session_id is None else [_USERS, _session(session_id)]
        labels = labels_of("artifact", app_name, user_id)
        return sorted(
            [
                info.labels[FILE]
                for scope in scopes
                async for info in runs_with(self._backend, {**labels, SESSION: scope})
                if info.message_count
            ]
        )

    async def delete_artifact(
        self, *, app_name: str, user_id: str, filename: str, session_id: str | None = None
    ) -> None:
        """Delete all versions; the next one saved has the number 0."""
        run_id = joined("artifact", app_name, user_id, _scope(filename, session_id), filename)
        await self._backend.runs.delete_run(run_id=run_id)

    async def list_versions(
        self, *, app_name: str, user_id: str, filename: str, session_id: str | None = None
    ) -> list[int]:
        run_id = joined("artifact", app_name, user_id, _scope(filename, session_id), filename)
        info = (await self._backend.runs.get_run(run_id=run_id)).info
        return list(range(info.message_count)) if info else []

    async def list_artifact_versions(
        self, *, app_name: str, user_id: str, filename: str, session_id: str | None = None
    ) -> list[ArtifactVersion]:
        """What is said of each version, without reading its content."""
        scope = _scope(filename, session_id)
        answer = await self._backend.runs.load_run(
            run_id=joined("artifact", app_name, user_id, scope, filename),
            last_messages=0,
            last_events=sys.maxsize,
        )
        return [
            _said(event, app_name, user_id, filename, session_id, version)
            for version, event in enumerate(answer.run.events if answer.run else ())
        ]

    async def get_artifact_version(
        self,
        *,
        app_name: str,
        user_id: str,
        filename: str,
        session_id: str | None = None,
        version: int | None = None,
    ) -> ArtifactVersion | None:
        versions = await self.list_artifact_versions(
            app_name=app_name, user_id=user_id, filename=filename, session_id=session_id
        )
        wanted = len(versions) - 1 if version is None else version
        return versions[wanted] if 0 <= wanted < len(versions) else None

    async def _part(self, run_id: str, version: int | None) -> types.Part | None:
        if version is None:
            answer = await self._backend.runs.load_run(run_id=run_id, last_messages=1)
            messages = answer.run.messages if answer.run else ()
        elif version < 0:
            return None
        else:
            try:
                page = await self._backend.runs.read_messages(run_id=run_id, start=version, limit=1)
            except InvalidRequestError:
                return None  # a version that is not there yet
            messages = page.entries
        if not messages:
            return None
        part = types.Part.model_validate((messages[0].model_extra or {})["part"])
        return None if part in _NOTHING else part


_USERS = "user"
# What ADK saves to say that a file is not there, so where a session is rewound to before it.
_NOTHING = (
    types.Part(),
    types.Part(inline_data=types.Blob(mime_type="application/octet-stream", data=b"")),
)


def _scope(filename: str, session_id: str | None) -> str:
    if filename.startswith("user:"):
        return _USERS
    if session_id is None:
        raise InputValidationError("Session ID must be provided for session-scoped artifacts.")
    return _session(session_id)


def _session(session_id: str) -> str:
    return f"session {session_id}"


def _mime_type(part: types.Part, app_name: str, user_id: str, session_id: str | None) -> str | None:
    """Of the content; of a reference none, once it is seen to stay in the caller's scope."""
    if part.inline_data is not None:
        return part.inline_data.mime_type
    if part.text is not None:
        return "text/plain"
    if part.file_data is None:
        raise InputValidationError("Not supported artifact type.")
    if not is_artifact_ref(part):
        return part.file_data.mime_type
    target = parse_artifact_uri(part.file_data.file_uri or "")
    if target is None:
        raise InputValidationError("Invalid artifact reference URI.")
    validate_artifact_reference_scope(
        app_name=app_name, user_id=user_id, session_id=session_id, parsed_uri=target
    )
    return None


def _said(
    event: Event, app_name: str, user_id: str, filename: str, session_id: str | None, version: int
) -> ArtifactVersion:
    about = ArtifactVersion.model_validate((event.model_extra or {})["about"])
    about.version = version
    about.canonical_uri = get_artifact_uri(
        app_name=app_name,
        user_id=user_id,
        filename=filename,
        version=version,
        session_id=None if filename.startswith("user:") else session_id,
    )
    return about
