"""The synchronous half of the checkpointer: each method waits for its asynchronous twin."""

from collections.abc import Iterator, Sequence
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
)
from langgraph.checkpoint.serde.base import SerializerProtocol

from stores_adapters.langgraph.threads import HomeLoop


class WaitingCheckpointSaver(BaseCheckpointSaver[int]):
    """Serves callers on other threads than the event loop that it was made in."""

    def __init__(self, serde: SerializerProtocol) -> None:
        super().__init__(serde=serde)
        self._home = HomeLoop()

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        return self._home.wait_for(self.aget_tuple(config))

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        items = self.alist(config, filter=filter, before=before, limit=limit)

        async def following() -> CheckpointTuple | None:
            return await anext(items, None)

        while item := self._home.wait_for(following()):
            yield item

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        return self._home.wait_for(self.aput(config, checkpoint, metadata, new_versions))

    def put_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        self._home.wait_for(self.aput_writes(config, writes, task_id, task_path))

    def delete_thread(self, thread_id: str) -> None:
        self._home.wait_for(self.adelete_thread(thread_id))

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        self._home.wait_for(self.adelete_for_runs(run_ids))

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        self._home.wait_for(self.acopy_thread(source_thread_id, target_thread_id))

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        self._home.wait_for(self.aprune(thread_ids, strategy=strategy))
