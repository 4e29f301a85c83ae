"""A pytest plugin: where the tests of the OpenAI Agents SDK ask for SQLiteSession, they get ours.

It is loaded into a run of the SDK's own tests. What SQLiteSession would keep in a file is kept in
a tenant of the storage whose URL is in AGENT_STORES_PROBE.
"""

import asyncio
import inspect
import os
import secrets
from pathlib import Path
from typing import Any, cast
from weakref import WeakKeyDictionary

import agents
import agents.memory
import agents.memory.sqlite_session
import pytest

from stores_adapters.openai_agents import BackendSession
from stores_core import Backend, open_backend

URL = os.environ["AGENT_STORES_PROBE"]
NO_BACKEND_YET = cast(Backend, None)
OPENED: list[object] = []
"""Kept, and so kept open: `close` of a session cannot await, and the tests end with the process."""


class StandIn(BackendSession):
    """Has the constructor and the `close` of SQLiteSession, and a backend in each event loop."""

    def __init__(
        self,
        session_id: str,
        db_path: str | Path = ":memory:",
        session_settings: Any = None,
    ) -> None:
        super().__init__(session_id, NO_BACKEND_YET, session_settings)
        self._tenant = secrets.token_hex(8) if str(db_path) == ":memory:" else str(db_path)
        self._closed = False

    @property
    def backend(self) -> Backend:  # pyright: ignore[reportIncompatibleVariableOverride] - of a loop
        """That of the running loop: the SDK's tests use one session in several threads."""
        return self._backends[asyncio.get_running_loop()]

    @backend.setter
    def backend(self, backend: Backend) -> None:
        self._backends = WeakKeyDictionary[asyncio.AbstractEventLoop, Backend]()

    async def get_items(self, limit: int | None = None) -> Any:
        await self._ready()
        return await super().get_items(limit)

    async def add_items(self, items: Any) -> None:
        await self._ready()
        await super().add_items(items)

    async def pop_item(self) -> Any:
        await self._ready()
        return await super().pop_item()

    async def clear_session(self) -> None:
        await self._ready()
        await super().clear_session()

    def close(self) -> None:
        self._closed = True

    async def _ready(self) -> None:
        if self._closed:
            raise RuntimeError("SQLiteSession is closed")
        loop = asyncio.get_running_loop()
        if loop not in self._backends:
            opening = open_backend(URL, tenant=self._tenant)
            self._backends[loop] = await opening.__aenter__()
            OPENED.append(opening)


# These reach behind the interface, to SQLiteSession's connections, locks, tables and private hooks.
LEFT_OUT = {
    "test_automatic_compaction_does_not_reload_unbounded_hidden_history",
    "test_automatic_compaction_rollback_budget",
    "test_backend_read_limit_cannot_hide_retained_history_from_compaction",
    "test_expired_read_overhead_does_not_authorize_hidden_history",
    "test_handoff_resume_after_cancelled_compaction_commits",
    "test_settled_clear_failure_invalidates_response_chain",
    "test_settled_pop_failure_invalidates_response_chain",
    "test_sqlite_session_close_closes_worker_thread_connections",
    "test_sqlite_session_close_retries_quarantined_connection",
    "test_sqlite_session_closes_retired_connections_before_the_next_allocation",
    "test_sqlite_session_failed_add_items_releases_write_lock",
    "test_sqlite_session_failed_clear_session_rolls_back",
    "test_sqlite_session_failed_pop_item_releases_write_lock",
    "test_sqlite_session_file_lock_is_shared_across_instances",
    "test_sqlite_session_get_items_limit_skips_corrupt_newest_rows",
    "test_sqlite_session_get_items_session_settings_limit_skips_corrupt_rows",
    "test_sqlite_session_keeps_connections_of_live_worker_threads",
    "test_sqlite_session_pop_item_returns_none_after_dropping_only_corrupt_rows",
    "test_sqlite_session_pop_item_skips_corrupt_most_recent",
    "test_sqlite_session_post_commit_cancellation_propagates_after_known_outcome",
    "test_sqlite_session_reaps_connections_from_exited_worker_threads",
    "test_sqlite_session_rollback_failure_evicts_connection",
}


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keeps the tests that use SQLiteSession, but for those left out."""

    def is_ours(item: pytest.Item) -> bool:
        function = cast(Any, item)
        if function.originalname in LEFT_OUT:
            return False
        return "SQLiteSession" in inspect.getsource(function.function)

    config.hook.pytest_deselected(items=[item for item in items if not is_ours(item)])
    items[:] = filter(is_ours, items)


for module in (agents, agents.memory, agents.memory.sqlite_session):
    vars(module)["SQLiteSession"] = StandIn
