"""What is kept in memory: tenants, and in each runs, notes and tool results."""

import secrets
import threading
from collections import OrderedDict
from dataclasses import dataclass, field
from datetime import datetime

from stores_core.catalog import Catalog
from stores_core.in_memory.embedding import Vectors
from stores_core.in_memory.logs import Logs, View
from stores_core.moving import KeyRecord
from stores_core.notes import Namespace


@dataclass(slots=True)
class StoredRun:
    """A run. ``keys`` are its live idempotency keys, oldest first.

    ``imported`` says that nothing was written here since the run was imported.
    """

    id: str
    created_at: datetime
    updated_at: datetime
    labels: dict[str, str]
    messages: View
    events: View
    parent_id: str = ""
    fork_point: int = 0
    keys: OrderedDict[str, KeyRecord] = field(default_factory=OrderedDict[str, KeyRecord])
    imported: bool = False


@dataclass(slots=True)
class StoredResult:
    """A tool result: its text, and the rest of it as ``tool_text.split`` made it."""

    created_at: datetime
    labels: dict[str, str]
    text: str
    rest: bytes
    bytes: int


class Tenant:
    """Everything of one tenant. Whoever touches it holds ``lock``, and only for dictionary work.

    ``version_floor`` is the highest version that a deleted note had: no note starts below.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.clear()

    def clear(self) -> None:
        """Forget everything. Those who have the tenant open go on with an empty one."""
        self.logs = Logs()
        self.runs: dict[str, StoredRun] = {}
        self.run_catalog = Catalog()
        self.namespaces: dict[str, Namespace] = {}
        self.vectors = Vectors()
        self.version_floor = 0
        self.results: dict[str, StoredResult] = {}
        self.result_catalog = Catalog()
        self.result_bytes = 0

    def is_empty(self) -> bool:
        return not (self.runs or self.namespaces or self.results)


class Storage:
    """Tenants by name. ``identity`` is what cursors of this storage are bound to."""

    def __init__(self) -> None:
        self.identity = secrets.token_hex(16)
        self.lock = threading.Lock()
        self.tenants: dict[str, Tenant] = {}

    def tenant(self, name: str) -> Tenant:
        with self.lock:
            return self.tenants.setdefault(name, Tenant())
