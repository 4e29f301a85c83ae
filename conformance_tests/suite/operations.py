"""One request at least for every operation of every store, found by reflection over the protocols.

An operation that a protocol gains and this table lacks fails the tests that ask for it by name,
so nobody can forget to say how it treats strangers' ids, and what it does once closed.
"""

import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, get_type_hints

from conformance_tests.lab import Lab
from stores_core import (
    Admin,
    Backend,
    Event,
    MemoryItem,
    MemoryStore,
    Message,
    Moving,
    Request,
    RunStore,
    ToolResult,
    ToolResultStore,
)
from stores_core.moving import LogRange, RunRecord
from stores_core.runs import RunInfo

PROTOCOLS: dict[str, type] = {
    "runs": RunStore,
    "memory": MemoryStore,
    "tool_results": ToolResultStore,
    "moving": Moving,
    "admin": Admin,
}
MOMENT = datetime(2024, 5, 6, tzinfo=UTC)


@dataclass(frozen=True)
class Names:
    """What one tenant has, by name. ``cursors`` are by operation, ``logs`` of the run."""

    run: str
    fork: str
    key: str
    namespace: str
    ref: str
    label: str
    token: str
    cursors: dict[str, str] = field(default_factory=dict[str, str])
    log: str = "no-log"

    def all(self) -> list[str]:
        """Every name, longest first, to be blotted out of answers."""
        names = [self.run, self.fork, self.key, self.namespace, self.ref, self.label, self.token]
        return sorted([*names, self.log, *self.cursors.values()], key=len, reverse=True)


def operations(store: str) -> list[str]:
    """The names of a protocol's operations."""
    members = inspect.getmembers(PROTOCOLS[store], inspect.iscoroutinefunction)
    return [name for name, _ in members if not name.startswith("_")]


def bound(client: Backend, store: str, name: str) -> Callable[..., Any]:
    """An operation of a client's front."""
    return getattr(getattr(client, store), name)


Requests = list[dict[str, Any]]


def request_model(store: str, name: str) -> type[Request]:
    """The class of requests that an operation takes."""
    hints = get_type_hints(getattr(PROTOCOLS[store], name))
    return hints["request"]


def with_fields(stores: Iterable[str], wanted: Iterable[str]) -> list[tuple[str, str, str]]:
    """Store, operation and field, wherever a request has one of the wanted fields."""
    wanted = set(wanted)
    return [
        (store, name, field)
        for store in stores
        for name in operations(store)
        for field in request_model(store, name).model_fields
        if field in wanted
    ]


def unused(lab: Lab) -> Names:
    """Names of what was never there."""
    return Names(
        run=lab.new_id("run"),
        fork=lab.new_id("fork"),
        key=lab.new_id("key"),
        namespace=lab.new_id("notes"),
        ref=lab.new_id("ref"),
        label=lab.new_id("label"),
        token=lab.new_id("token"),
        log=lab.new_id("log"),
    )


def requests(store: str, name: str, names: Names) -> Requests:
    """The requests with which a stranger would try ``names``; each as fields of one request."""
    make = TABLE.get(f"{store}.{name}")
    assert make is not None, (
        f"{store}.{name} is in the protocol and not in the table of operations: add the requests "
        "that name what belongs to somebody else"
    )
    return make(names)


def _messages(n: Names) -> dict[str, Any]:
    return {"run_id": n.run, "messages": [Message(role="user", text="x", timestamp=MOMENT)]}


def _cursor(n: Names, operation: str) -> Requests:
    return [{"cursor": n.cursors[operation]}] if operation in n.cursors else []


def _record(n: Names) -> RunRecord:
    info = RunInfo(id=n.run, created_at=MOMENT, updated_at=MOMENT, message_count=1)
    return RunRecord(info=info, messages=[LogRange(log=n.log, length=1)])


TABLE: dict[str, Callable[[Names], Requests]] = {
    "runs.get_run": lambda n: [{"run_id": n.run}, {"run_id": n.fork}],
    "runs.load_run": lambda n: [{"run_id": n.run}, {"run_id": n.run, "last_messages": 1}],
    "runs.read_messages": lambda n: [{"run_id": n.run}, {"run_id": n.run, "start": 1}],
    "runs.read_events": lambda n: [{"run_id": n.run}, {"run_id": n.run, "start": 1}],
    "runs.append_messages": lambda n: [
        _messages(n),
        {**_messages(n), "idempotency_key": n.token},
        {**_messages(n), "expected_count": 2},
        {"run_id": n.run, "messages": []},
    ],
    "runs.append_events": lambda n: [
        {"run_id": n.run, "events": [Event(kind="x")]},
        {"run_id": n.run, "events": [Event(kind="x")], "idempotency_key": n.token},
        {"run_id": n.run, "events": [], "expected_count": 0},
    ],
    "runs.fork_run": lambda n: [
        {"run_id": n.run, "new_run_id": n.fork},
        {"run_id": n.run, "new_run_id": n.run},
        {"run_id": n.run, "new_run_id": n.token, "at_message": 1, "labels": {"a": n.label}},
    ],
    "runs.list_runs": lambda n: [
        {},
        {"parent_id": n.run},
        {"labels": {"of": n.label}},
        {"limit": 1, "updated_before": datetime(9000, 1, 1, tzinfo=UTC)},
        *_cursor(n, "list_runs"),
    ],
    "runs.update_run": lambda n: [
        {"run_id": n.run, "labels": {"of": "stranger"}},
        {"run_id": n.run, "labels": {"of": None}},
    ],
    "runs.delete_run": lambda n: [{"run_id": n.run}, {"run_id": n.fork}],
    "runs.create_run": lambda n: [
        {"run_id": n.run, "labels": {"of": "stranger"}},
        {"run_id": n.run},
        {"run_id": n.fork},
    ],
    "memory.get_memory": lambda n: [{"key": n.key, "namespace": n.namespace}, {"key": n.key}],
    "memory.list_memories": lambda n: [
        {"namespace": n.namespace},
        {"namespace": n.namespace, "query": "value"},
        {"namespace": n.namespace, "query": n.key, "limit": 3},
        {"namespace": n.namespace, "where": {"of": n.label}},
        {},
        *({"namespace": n.namespace, **cursor} for cursor in _cursor(n, "list_memories")),
    ],
    "memory.list_namespaces": lambda n: [
        {},
        {"prefix": n.namespace},
        {"prefix": n.namespace[:-1], "limit": 1},
        *_cursor(n, "list_namespaces"),
    ],
    "memory.delete_memory": lambda n: [{"key": n.key, "namespace": n.namespace}, {"key": n.key}],
    "memory.clear_namespace": lambda n: [{"namespace": n.namespace}, {"namespace": ""}],
    "memory.put_memory": lambda n: [
        {"item": _note(n), "namespace": n.namespace, "expected_version": 1},
        {"item": _note(n), "namespace": n.namespace},
        {"item": _note(n), "namespace": n.namespace, "expected_version": 0},
        {"item": _note(n)},
    ],
    "memory.put_memories": lambda n: [
        {"items": [_note(n)], "namespace": n.namespace},
        {"items": [_note(n), MemoryItem(key=n.token, value="")]},
    ],
    "tool_results.get_tool_result": lambda n: [{"ref": n.ref}],
    "tool_results.read_tool_result": lambda n: [{"ref": n.ref}, {"ref": n.ref, "offset": 2}],
    "tool_results.search_tool_result": lambda n: [
        {"ref": n.ref, "pattern": "value"},
        {"ref": n.ref, "pattern": "value", "start": 1, "ignore_case": True},
    ],
    "tool_results.list_tool_results": lambda n: [
        {},
        {"labels": {"of": n.label}},
        *_cursor(n, "list_tool_results"),
    ],
    "tool_results.delete_tool_result": lambda n: [{"ref": n.ref}],
    "tool_results.put_tool_result": lambda n: [
        {"ref": n.ref, "result": ToolResult(content=["x"])},
        {"ref": n.ref, "result": ToolResult(content=["y"]), "labels": {"of": n.label}},
    ],
    "moving.export_runs": lambda n: [
        {},
        {"limit": 1},
        {"run_id": n.run},
        *_cursor(n, "export_runs"),
    ],
    "moving.export_entries": lambda n: [{"log": n.log}, {"log": n.log, "start": 1}],
    "moving.export_memories": lambda n: [{}, *_cursor(n, "export_memories")],
    "moving.export_tool_results": lambda n: [{}, *_cursor(n, "export_tool_results")],
    "moving.import_run": lambda n: [{"run": _record(n)}],
    "moving.import_entries": lambda n: [
        {"log": n.log, "start": 1, "entries": [b'{"role":"stranger"}']},
        {"log": n.log, "start": 0, "entries": [b'{"role":"stranger"}']},
    ],
    "moving.import_memories": lambda n: [{"memories": []}],
    "moving.import_tool_results": lambda n: [{"results": []}],
    "admin.check": lambda n: [{}],
    "admin.measure": lambda n: [{}],
    "admin.plan_migration": lambda n: [{}],
    "admin.migrate": lambda n: [{}],
    "admin.sweep": lambda n: [{"budget": 100}],
    "admin.verify": lambda n: [{}],
    "admin.reembed": lambda n: [{}],
    "admin.list_tenants": lambda n: [{"limit": 1}],
    "admin.erase_tenant": lambda n: [{"tenant": n.token}],
}


def _note(n: Names) -> MemoryItem:
    return MemoryItem(key=n.key, value="of a stranger", metadata={"of": n.label})
