"""Where clients want to be told of a task's progress."""

from a2a.server.context import ServerCallContext
from a2a.server.owner_resolver import OwnerResolver, resolve_user_scope
from a2a.server.tasks.push_notification_config_store import (
    PushNotificationConfigStore,
    normalize_push_notification_config,
)
from a2a.types.a2a_pb2 import TaskPushNotificationConfig

from stores_adapters.a2a.entries import packed, unpacked
from stores_core import Backend, MemoryItem
from stores_core.values import Where


class BackendPushNotificationConfigStore(PushNotificationConfigStore):
    """Keeps push-notification configs as notes, one namespace for each task.

    A config stands in the metadata of its note and the note's text is empty, so that no embedder
    is sent a token. It is stored as it is: whoever reads the storage reads the tokens.
    """

    def __init__(
        self, backend: Backend, owner_resolver: OwnerResolver = resolve_user_scope
    ) -> None:
        self._memory = backend.memory
        self._owner_of = owner_resolver

    async def set_info(
        self,
        task_id: str,
        notification_config: TaskPushNotificationConfig,
        context: ServerCallContext,
    ) -> TaskPushNotificationConfig:
        """Keep a config in the place of one with its id; without an id it has the task's."""
        owner = self._owner_of(context)
        config = normalize_push_notification_config(task_id, notification_config)
        note = MemoryItem(
            key=_key(owner, config.id),
            value="",
            metadata={"owner": owner, "config": packed(config)},
        )
        await self._memory.put_memory(item=note, namespace=_namespace(task_id))
        return config

    async def get_info(
        self, task_id: str, context: ServerCallContext
    ) -> list[TaskPushNotificationConfig]:
        """The caller's configs for a task, the one that was there first before the others."""
        return await self._configs(task_id, {"owner": self._owner_of(context)})

    async def get_info_for_dispatch(self, task_id: str) -> list[TaskPushNotificationConfig]:
        """All owners' configs for a task."""
        return await self._configs(task_id, {})

    async def delete_info(
        self, task_id: str, context: ServerCallContext, config_id: str | None = None
    ) -> None:
        """Delete one config of the caller's, or without an id all of them for the task."""
        owner, namespace = self._owner_of(context), _namespace(task_id)
        ids = [config_id] if config_id is not None else []
        if config_id is None:
            ids = [config.id for config in await self.get_info(task_id, context)]
        for id in ids:
            await self._memory.delete_memory(key=_key(owner, id), namespace=namespace)

    async def _configs(self, task_id: str, where: Where) -> list[TaskPushNotificationConfig]:
        found = await self._memory.list_memories(namespace=_namespace(task_id), where=where)
        return [
            unpacked(scored.item.metadata["config"], TaskPushNotificationConfig())
            for scored in found.items
        ]


def _namespace(task_id: str) -> str:
    return f"a2a-push {task_id}"


def _key(owner: str, config_id: str) -> str:
    # The length keeps owner "a" with config "b c" apart from owner "a b" with config "c".
    return f"{len(owner)} {owner} {config_id}"
