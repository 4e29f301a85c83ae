"""Ids of every kind: odd ones are as good as any, distinct and listed; unfit ones are refused."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import pytest

from conformance_tests.lab import Lab
from conformance_tests.proves import proves
from conformance_tests.samples import Sample, ids, long_id, name_of, unfit_ids
from conformance_tests.suite import steps, test_tool_results
from conformance_tests.suite.notes import listed, walk_namespaces, write
from conformance_tests.suite.operations import bound, requests, unused, with_fields
from conformance_tests.suite.test_tool_results import text_result
from stores_core import Backend, Event, InvalidRequestError, Message, RunInfo, ToolResultInfo

LONGEST = 512


@dataclass(frozen=True)
class Kind:
    """What bears ids of one kind: how to keep a mark under an id, read it, remove it, list ids.

    ``scope`` is the label or namespace that keeps one test's things together.
    """

    name: str
    needs: str
    keep: Callable[[Backend, str, str, str], Awaitable[None]]
    mark: Callable[[Backend, str, str], Awaitable[str | None]]
    remove: Callable[[Backend, str, str], Awaitable[bool]]
    listing: Callable[[Backend, str], Awaitable[list[str]]]


async def _keep_run(client: Backend, scope: str, id: str, mark: str) -> None:
    made = await client.runs.create_run(run_id=id, labels={"scope": scope})
    assert made.created, f"a run stood at {id!a}"
    assert made.run_id == id
    await client.runs.append_messages(run_id=id, messages=[Message(role="user", text=mark)])


async def _run_mark(client: Backend, scope: str, id: str) -> str | None:
    answer = await client.runs.load_run(run_id=id)
    assert answer.run is None or answer.run.id == id
    return " ".join(message.text or "" for message in answer.run.messages) if answer.run else None


async def _remove_run(client: Backend, scope: str, id: str) -> bool:
    return (await client.runs.delete_run(run_id=id)).deleted


async def _runs(client: Backend, scope: str) -> list[str]:
    return [info.id for info in await steps.walk(client, 7, labels={"scope": scope})]


async def _keep_result(client: Backend, scope: str, id: str, mark: str) -> None:
    await test_tool_results.put(client, id, text_result(mark), {"scope": scope})


async def _result_mark(client: Backend, scope: str, id: str) -> str | None:
    answer = await client.tool_results.read_tool_result(ref=id)
    return answer.text if answer.found else None


async def _remove_result(client: Backend, scope: str, id: str) -> bool:
    return (await client.tool_results.delete_tool_result(ref=id)).deleted


async def _refs(client: Backend, scope: str) -> list[str]:
    return [info.ref for info in await test_tool_results.walk(client, 7, {"scope": scope})]


async def _keep_note(client: Backend, scope: str, id: str, mark: str) -> None:
    put = await write(client, scope, id, mark)
    assert put.created, f"a note stood at {id!a}"


async def _note_mark(client: Backend, scope: str, id: str) -> str | None:
    answer = await client.memory.get_memory(key=id, namespace=scope)
    return answer.item.value if answer.item else None


async def _remove_note(client: Backend, scope: str, id: str) -> bool:
    return (await client.memory.delete_memory(key=id, namespace=scope)).deleted


async def _keep_space(client: Backend, scope: str, id: str, mark: str) -> None:
    await _keep_note(client, id, "k", mark)


async def _space_mark(client: Backend, scope: str, id: str) -> str | None:
    return await _note_mark(client, id, "k")


async def _remove_space(client: Backend, scope: str, id: str) -> bool:
    return (await client.memory.clear_namespace(namespace=id)).deleted == 1


async def _spaces(client: Backend, scope: str) -> list[str]:
    return [name for name in await walk_namespaces(client, "", 100) if scope in name]


KINDS = [
    Kind("run ids", "runs", _keep_run, _run_mark, _remove_run, _runs),
    Kind("refs", "tool_results", _keep_result, _result_mark, _remove_result, _refs),
    Kind("note keys", "memory", _keep_note, _note_mark, _remove_note, listed),
    Kind("namespaces", "memory", _keep_space, _space_mark, _remove_space, _spaces),
]


def kind_of(kind: object) -> str:
    assert isinstance(kind, Kind)
    return kind.name


async def _all_apart(client: Backend, kind: Kind, scope: str, names: list[str]) -> None:
    """Things at all these ids at once, each with its own content, listed, removed one by one."""
    assert len(names) == len(set(names))
    for id in names:
        assert await kind.mark(client, scope, id) is None, f"something stood at {id!a}"
        await kind.keep(client, scope, id, f"mark of {id!a}")
    for id in names:
        assert await kind.mark(client, scope, id) == f"mark of {id!a}"
    assert sorted(await kind.listing(client, scope)) == sorted(names)
    for position, id in enumerate(names[::2]):
        assert await kind.remove(client, scope, id)
        assert await kind.mark(client, scope, id) is None
        if position % 8 == 0:
            removed = set(names[: 2 * position + 1 : 2])
            assert sorted(await kind.listing(client, scope)) == sorted(set(names) - removed)
    for id in names[1::2]:
        assert await kind.mark(client, scope, id) == f"mark of {id!a}"


@pytest.mark.parametrize("kind", KINDS, ids=kind_of)
@proves(
    "ALL-3",
    thorough=True,
    look_at="how ids become keys, file names, slots or rows: two of them must never meet",
)
async def test_ids_that_look_alike_never_collide(lab: Lab, kind: Kind) -> None:
    if kind.needs not in lab.backend.offered:
        lab.not_applicable(f"the backend has no store `{kind.needs}`")
    scope = lab.new_id("scope")
    behind = [scope + sample.value for sample in ids]
    before = [sample.value + scope for sample in ids]
    fitting = [id for id in (scope, *behind, *before) if len(id.encode()) <= LONGEST]
    await _all_apart(lab.backend, kind, scope, fitting)


@pytest.mark.parametrize("kind", KINDS, ids=kind_of)
@proves(
    "ALL-3", needs=("tenant",), look_at="ids that mean something to the place where they are kept"
)
async def test_odd_ids_are_taken_exactly_as_they_are(lab: Lab, kind: Kind) -> None:
    if kind.needs not in lab.backend.offered:
        lab.not_applicable(f"the backend has no store `{kind.needs}`")
    client = await lab.open(tenant=lab.new_id("tenant"))
    scope = "" if kind.name == "namespaces" else "s"
    await _all_apart(client, kind, scope, [sample.value for sample in ids])


@pytest.mark.parametrize("kind", KINDS, ids=kind_of)
@proves("ALL-3", look_at="the size of the longest id, counted in bytes of UTF-8")
async def test_ids_of_512_bytes_are_told_apart_to_the_last_byte(lab: Lab, kind: Kind) -> None:
    if kind.needs not in lab.backend.offered:
        lab.not_applicable(f"the backend has no store `{kind.needs}`")
    scope = lab.new_id("scope")
    names = [long_id(scope, unit) for unit in ("x", "é", "漢", "😀")]
    names += [names[0][:-1] + last for last in "yX "] + [names[0][:-1]]
    assert all(len(id.encode()) <= LONGEST for id in names)
    await _all_apart(lab.backend, kind, scope, names)


@pytest.mark.parametrize("kind", KINDS, ids=kind_of)
@proves("ALL-3", look_at="a deletion by prefix or by pattern")
async def test_removing_one_id_leaves_those_that_begin_with_it(lab: Lab, kind: Kind) -> None:
    if kind.needs not in lab.backend.offered:
        lab.not_applicable(f"the backend has no store `{kind.needs}`")
    scope = lab.new_id("scope1")
    tails = ["", "0", ":messages", ":events", ".log", "/x", "%", "*", "_", "\x01", "\U0010ffff"]
    for tail in tails:
        await kind.keep(lab.backend, scope, scope + tail, tail)
    for star in ("*", "%", "_", ""):
        assert await kind.remove(lab.backend, scope, scope + star)
    left = [tail for tail in tails if tail not in ("*", "%", "_", "")]
    for tail in left:
        assert await kind.mark(lab.reader, scope, scope + tail) == tail
    assert sorted(await kind.listing(lab.reader, scope)) == sorted(scope + tail for tail in left)


@pytest.mark.parametrize("sample", ids, ids=name_of)
@proves("ALL-3", "RUN-F3", needs=("runs",), look_at="ids in lineage, labels and their filters")
async def test_an_odd_id_serves_as_fork_label_and_parent(lab: Lab, sample: Sample) -> None:
    scope = lab.new_id("s")
    odd = sample.value + scope
    await lab.backend.runs.create_run(run_id=odd, labels={odd: sample.value, "plain": odd})
    await lab.backend.runs.append_events(run_id=odd, events=[Event(kind="x")])
    fork = scope + sample.value
    made = await lab.backend.runs.fork_run(run_id=odd, new_run_id=fork)
    assert (made.run_id, made.created, made.parent_id) == (fork, True, odd)
    info = await steps.header(lab.reader, fork)
    assert (info.id, info.parent_id, info.labels) == (fork, odd, {odd: sample.value, "plain": odd})
    for labels in ({odd: sample.value}, {"plain": odd}):
        found = await steps.walk(lab.reader, 5, labels=labels)
        assert {run.id for run in found} == {odd, fork}
    assert [run.id for run in await steps.walk(lab.reader, 5, parent_id=odd)] == [fork]
    await lab.backend.runs.update_run(run_id=fork, labels={odd: None, "plain": sample.value})
    assert (await steps.header(lab.reader, fork)).labels == {"plain": sample.value}


def _names(found: list[RunInfo] | list[ToolResultInfo]) -> set[str]:
    return {info.id if isinstance(info, RunInfo) else info.ref for info in found}


@proves(
    "ALL-3", "RUN-Q5", "TOOL-7", needs=("runs", "tool_results"), look_at="how labels are indexed"
)
async def test_labels_that_look_alike_are_told_apart_by_filters(lab: Lab) -> None:
    scope = lab.new_id("scope")
    for n, sample in enumerate(ids):
        labels = {"scope": scope, "odd": sample.value, sample.value: "x"}
        await lab.backend.runs.create_run(run_id=f"{scope} {n}", labels=labels)
        await lab.backend.tool_results.put_tool_result(
            ref=f"{scope} {n}", result=text_result("x"), labels=labels
        )
    for n, sample in enumerate(ids):
        for odd in ({"odd": sample.value}, {sample.value: "x"}):
            labels = {"scope": scope, **odd}
            runs = await steps.walk(lab.reader, 5, labels=labels)
            results = await test_tool_results.walk(lab.reader, 5, labels)
            assert _names(runs) == _names(results) == {f"{scope} {n}"}, sample.name


@proves("ALL-3", "RUN-A7", needs=("runs",), look_at="how idempotency keys are compared")
async def test_idempotency_keys_that_look_alike_are_told_apart(lab: Lab) -> None:
    run_id = await steps.start_run(lab)
    keys = [sample.value for sample in ids] + [long_id("", "😀"), long_id("", "x")]
    for turn in range(2):
        for n, key in enumerate(keys):
            answer = await lab.backend.runs.append_messages(
                run_id=run_id, messages=[Message(role="user", text=str(n))], idempotency_key=key
            )
            assert (answer.applied, answer.message_count) == (turn == 0, n + 1), ascii(key)


@proves("ALL-3", "ALL-10", needs=("runs", "tenant"), look_at="how the tenant becomes part of keys")
async def test_tenants_that_look_alike_share_nothing(lab: Lab) -> None:
    scope = lab.new_id("tenant")
    tails = ["", "0", ":", "/x", "{}", "*", "%", " ", "\u00e9", "e\u0301", "\n", "\U0010ffff"]
    names = [scope + tail for tail in tails] + [" " + scope, scope.upper(), long_id(scope, "é")]
    names += [long_id(scope), long_id(scope)[:-1]]
    clients = {name: await lab.open(tenant=name) for name in names}
    for name, client in clients.items():
        assert (await client.runs.create_run(run_id="r", labels={"of": name})).created
        assert (await client.runs.create_run(run_id=name, labels={"of": name})).created
    for name, client in clients.items():
        assert (await steps.header(client, "r")).labels == {"of": name}
        assert {run.id for run in await steps.walk(client, 1)} == {"r", name}


ID_FIELDS = ("run_id", "new_run_id", "parent_id", "idempotency_key", "key", "namespace", "prefix")
WITH_IDS = with_fields(("runs", "memory", "tool_results"), (*ID_FIELDS, "ref"))
MAY_BE_EMPTY = {"new_run_id", "idempotency_key", "namespace", "prefix"}
GENERATED = {("create_run", "run_id"), ("put_tool_result", "ref")}


@pytest.mark.parametrize(("store", "name", "field"), WITH_IDS)
@proves("ALL-3", look_at="the type of this field in its request: Id or IdOrEmpty")
async def test_an_unfit_id_is_refused_by_the_name_of_its_field(
    lab: Lab, store: str, name: str, field: str
) -> None:
    if store not in lab.backend.offered:
        lab.not_applicable(f"the backend has no store `{store}`")
    fits = requests(store, name, unused(lab))[0]
    unfit = [s for s in unfit_ids if not (s.value is None and field == "parent_id")]
    if field not in MAY_BE_EMPTY and (name, field) not in GENERATED:
        unfit.append(Sample("empty", "", "there is nothing that it could mean"))
    for sample in unfit:
        with pytest.raises(InvalidRequestError) as refused:
            await bound(lab.backend, store, name)(**{**fits, field: sample.value})
        assert refused.value.field == field, sample.name
        assert isinstance(refused.value, ValueError)


WITH_LABELS = with_fields(("runs", "tool_results"), ("labels",))


@pytest.mark.parametrize(("store", "name", "field"), WITH_LABELS)
@proves("ALL-3", look_at="the type of labels in this request")
async def test_unfit_labels_are_refused(lab: Lab, store: str, name: str, field: str) -> None:
    if store not in lab.backend.offered:
        lab.not_applicable(f"the backend has no store `{store}`")
    fits = requests(store, name, unused(lab))[0]
    operation = bound(lab.backend, store, name)
    unhashable_or_fit = (list, type(None))
    keys = [s.value for s in unfit_ids if not isinstance(s.value, unhashable_or_fit)]
    values = [s.value for s in unfit_ids if s.value is not None]
    unfit: list[Any] = [{key: "x"} for key in [*keys, ""]] + [
        {"a": value} for value in [*values, ""]
    ]
    unfit += [{f"k{n}": "x" for n in range(65)}]
    if name != "update_run":
        unfit.append({"a": None})
    for labels in unfit:
        with pytest.raises(InvalidRequestError) as refused:
            await operation(**{**fits, field: labels})
        assert refused.value.field.startswith("labels")
    if name != "update_run":
        await operation(**{**fits, field: {f"k{n}": "x" for n in range(64)}})


@proves("ALL-3", "RUN-U1", needs=("runs",), look_at="the number of labels after a merge")
async def test_a_run_has_64_labels_at_most_also_after_a_merge(lab: Lab) -> None:
    full = {f"k{n}": "x" for n in range(64)}
    run_id = await steps.start_run(lab, labels=full)
    with pytest.raises(InvalidRequestError) as refused:
        await lab.backend.runs.update_run(run_id=run_id, labels={"one more": "x", "k0": "y"})
    assert refused.value.field == "labels"
    assert (await steps.header(lab.reader, run_id)).labels == full
    await lab.backend.runs.update_run(run_id=run_id, labels={"one more": "x", "k0": None})
    assert len((await steps.header(lab.reader, run_id)).labels) == 64


@proves("ALL-3", needs=("runs", "memory", "tool_results"), look_at="stores that share a key space")
async def test_one_id_may_name_a_run_a_note_a_namespace_and_a_result(lab: Lab) -> None:
    id = lab.new_id("everything")
    for kind in KINDS:
        scope = id if kind.name == "note keys" else "scope"
        await kind.keep(lab.backend, scope, id, kind.name)
    await KINDS[0].remove(lab.backend, "scope", id)
    marks = [await kind.mark(lab.reader, id, id) for kind in KINDS]
    assert marks == [None, "refs", "note keys", "namespaces"]
