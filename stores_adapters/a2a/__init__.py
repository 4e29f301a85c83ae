"""Agent2Agent (A2A): task stores for servers of the ``a2a-sdk``, scoped by owner.

``DefaultRequestHandler(agent_executor=…, task_store=BackendTaskStore(backend), …)``. Needs the
extra ``a2a``.
"""

from stores_core.extras import need

need("a2a.server.cluster.task_store", extra="a2a", field="stores_adapters.a2a")

from stores_adapters.a2a.following import BackendTaskEventStream  # noqa: E402 - after need
from stores_adapters.a2a.push import BackendPushNotificationConfigStore  # noqa: E402 - after need
from stores_adapters.a2a.stores import (  # noqa: E402 - after need
    BackendTaskStore,
    BackendVersionedTaskStore,
)

__all__ = [
    "BackendPushNotificationConfigStore",
    "BackendTaskEventStream",
    "BackendTaskStore",
    "BackendVersionedTaskStore",
]
