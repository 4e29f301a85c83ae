"""Microsoft Agent Framework: a history provider and a checkpoint storage on any backend.

``Agent(client, context_providers=[BackendHistoryProvider(backend)])`` keeps conversations,
``WorkflowBuilder(checkpoint_storage=BackendCheckpointStorage(backend), …)`` keeps workflows. Needs
the extra ``agent-framework``.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from stores_core import Backend, InvalidRequestError, Run
from stores_core import Message as StoredMessage
from stores_core.extras import need

need("agent_framework", extra="agent-framework", field="stores_adapters.agent_framework")

from agent_framework import (  # noqa: E402 - after need
    HistoryProvider,
    Message,
    WorkflowCheckpoint,
    WorkflowCheckpointException,
)

# The framework's own storages use these two. Nothing public keeps what a checkpoint may hold.
from agent_framework._workflows._checkpoint_encoding import (  # noqa: E402 - after need
    decode_checkpoint_value,
    encode_checkpoint_value,
)

from stores_adapters.appending import append_or_create  # noqa: E402 - after need
from stores_adapters.listing import runs_with  # noqa: E402 - after need

HISTORY = {"agent-framework": "history"}
CHECKPOINT = {"agent-framework": "checkpoint"}
"""The labels of every conversation, and of every checkpoint."""
ID = "agent-framework-checkpoint"
WORKFLOW = "agent-framework-workflow"
TIMESTAMP = "agent-framework-timestamp"


class BackendHistoryProvider(HistoryProvider):
    """Keeps the messages of each session in a run of its own.

    What an agent's run adds is appended in one batch. ``last_messages`` loads so many of the
    newest messages alone, at a cost that follows their number; the others stay stored. The further
    arguments are those of HistoryProvider.
    """

    def __init__(
        self,
        backend: Backend,
        source_id: str = "agent_stores",
        *,
        last_messages: int | None = None,
        **settings: Any,
    ) -> None:
        super().__init__(source_id, **settings)
        self._backend = backend
        self._last_messages = last_messages

    async def get_messages(
        self, session_id: str | None, *, state: dict[str, Any] | None = None, **kwargs: Any
    ) -> list[Message]:
        answer = await self._backend.runs.load_run(
            run_id=self.run_id(session_id), last_messages=self._last_messages, last_events=0
        )
        messages = answer.run.messages if answer.run else ()
        return [Message.from_dict((one.model_extra or {})["message"]) for one in messages]

    async def save_messages(
        self,
        session_id: str | None,
        messages: Sequence[Message],
        *,
        state: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        if not messages:
            return
        stored = [_stored(message) for message in messages]
        run_id = self.run_id(session_id)
        await append_or_create(self._backend, run_id, messages=stored, labels=HISTORY)

    async def fork(self, session_id: str, new_session_id: str, at_message: int = 0) -> bool:
        """Start a session as the first messages of another, or as all of them.

        False, and nothing done, where there is no such session or the new id is taken.
        """
        answer = await self._backend.runs.fork_run(
            run_id=self.run_id(session_id),
            new_run_id=self.run_id(new_session_id),
            at_message=at_message,
        )
        return answer.created

    def run_id(self, session_id: str | None) -> str:
        """The run of a session. Another ``source_id`` has other runs for the same sessions."""
        if not session_id:
            raise InvalidRequestError(
                field="session_id",
                found="none",
                allowed="the id of a session, as agent.create_session() makes one",
            )
        return f"agent-framework {len(self.source_id)} {self.source_id} {session_id}"


class BackendCheckpointStorage:
    """A CheckpointStorage that keeps each checkpoint in a run of its own.

    What JSON has no form for is kept as the framework's own storages keep it, as pickles, and read
    back only if its type is one of the framework's, registered with `register_checkpoint_type`, or
    among ``allowed_checkpoint_types`` (``"module:qualname"``).
    """

    def __init__(self, backend: Backend, *, allowed_checkpoint_types: Iterable[str] = ()) -> None:
        self._backend = backend
        self._allowed = frozenset(allowed_checkpoint_types)

    async def save(self, checkpoint: WorkflowCheckpoint) -> str:
        """Keep a checkpoint, in the place of one with its id; its id.

        Raises WorkflowCheckpointException for one that could not be read back.
        """
        id = checkpoint.checkpoint_id
        try:
            encoded = encode_checkpoint_value(checkpoint.to_dict())
            self._decoded(encoded)
        except WorkflowCheckpointException:
            raise
        except Exception as error:  # whatever pickling a value of the application's raises
            raise WorkflowCheckpointException(f"Checkpoint {id} cannot be encoded.") from error
        labels = {**CHECKPOINT, ID: id, WORKFLOW: _label(checkpoint.workflow_name)}
        labels[TIMESTAMP] = checkpoint.timestamp
        further: dict[str, Any] = {"checkpoint": encoded}
        # Where it stands already, this is the time of the content that follows.
        await self._backend.runs.update_run(run_id=_run_id(id), labels=labels)
        message = StoredMessage(role="checkpoint", **further)
        await append_or_create(self._backend, _run_id(id), messages=[message], labels=labels)
        return id

    async def load(self, checkpoint_id: str) -> WorkflowCheckpoint:
        """Raises WorkflowCheckpointException for an unknown id."""
        checkpoint = await self._read(_run_id(checkpoint_id))
        if checkpoint is None:
            raise WorkflowCheckpointException(f"No checkpoint found with ID {checkpoint_id}")
        return checkpoint

    async def list_checkpoints(self, *, workflow_name: str) -> list[WorkflowCheckpoint]:
        """Those of a workflow, in the order in which they were first saved."""
        found = [await self._read(run_id) for _, run_id in await self._dated(workflow_name)]
        return [checkpoint for checkpoint in found if checkpoint is not None]

    async def delete(self, checkpoint_id: str) -> bool:
        """Whether it was there."""
        return (await self._backend.runs.delete_run(run_id=_run_id(checkpoint_id))).deleted

    async def get_latest(self, *, workflow_name: str) -> WorkflowCheckpoint | None:
        """The one with the latest timestamp, the only one whose content is read."""
        dated = await self._dated(workflow_name)
        for _, run_id in sorted(dated, key=lambda one: one[0], reverse=True):
            checkpoint = await self._read(run_id)
            if checkpoint is not None:
                return checkpoint
        return None

    async def list_checkpoint_ids(self, *, workflow_name: str) -> list[str]:
        """As `list_checkpoints`, without reading them."""
        return [run_id.removeprefix(_run_id("")) for _, run_id in await self._dated(workflow_name)]

    async def _dated(self, workflow_name: str) -> list[tuple[datetime, str]]:
        """Timestamp and run of each checkpoint of a workflow, the one saved first first."""
        labels = {**CHECKPOINT, WORKFLOW: _label(workflow_name)}
        found = [
            (datetime.fromisoformat(info.labels[TIMESTAMP]), info.id)
            async for info in runs_with(self._backend, labels)
            if info.message_count
        ]
        return found[::-1]

    async def _read(self, run_id: str) -> WorkflowCheckpoint | None:
        answer = await self._backend.runs.load_run(run_id=run_id, last_messages=1)
        run: Run | None = answer.run
        if run is None or not run.messages:
            return None
        return self._decoded((run.messages[0].model_extra or {})["checkpoint"])

    def _decoded(self, encoded: Any) -> WorkflowCheckpoint:
        value = decode_checkpoint_value(encoded, allowed_types=self._allowed)
        return WorkflowCheckpoint.from_dict(value)


def _run_id(checkpoint_id: str) -> str:
    return f"agent-framework-checkpoint {checkpoint_id}"


def _label(workflow_name: str) -> str:
    # A name may be the empty text, which no label is.
    return f"workflow {workflow_name}"


def _stored(message: Message) -> StoredMessage:
    """The message whole, in a further field, and role and text for other readers of the run."""
    further: dict[str, Any] = {"message": message.to_dict()}
    return StoredMessage(role=str(message.role), text=message.text, **further)
