"""Revisions, their chain, and the rules for them that hold for every database."""

import ast
import asyncio
from pathlib import Path

import pytest
from alembic.util import CommandError
from sqlalchemy.dialects.postgresql.base import PGDialect
from sqlalchemy.dialects.sqlite import dialect as sqlite_dialect

from stores_core import InvalidRequestError, open_backend
from stores_core.revisions import Revision, State, destination, state_at
from stores_sql.migrations.chain import NOTHING, Chain, chain_in
from stores_sql.postgres import versions as postgres
from stores_sql.sqlite import versions as sqlite

FOLDERS = [sqlite.REVISIONS, postgres.REVISIONS]


@pytest.mark.parametrize(
    ("name", "packed"), [("0001", 1), ("0002_from_0001", 2001), ("0123_from_0045", 123045)]
)
def test_a_revision_is_written_as_a_name_and_as_a_number(name: str, packed: int) -> None:
    revision = Revision.named(name)
    assert revision is not None
    assert (str(revision), revision.packed) == (name, packed)
    assert Revision.unpacked(packed) == revision


@pytest.mark.parametrize("name", ["", "1", "00001", "0001 and 0002", "0002_from_", "ae1027a6acf"])
def test_a_name_that_is_not_ours_is_no_revision(name: str) -> None:
    assert Revision.named(name) is None


@pytest.mark.parametrize(
    ("found", "code", "state"),
    [
        (Revision(2, 1), Revision(2, 1), State.CURRENT),
        (Revision(1, 1), Revision(2, 1), State.BEHIND),
        (Revision(3, 2), Revision(2, 1), State.CURRENT),
        (Revision(3, 3), Revision(2, 1), State.AHEAD),
        (Revision(9, 3), Revision(2, 1), State.AHEAD),
        (Revision(0, 0), Revision(2, 1), State.AHEAD),
        (Revision(-1, -1), Revision(2, 1), State.AHEAD),
    ],
)
def test_code_works_on_its_own_revision_and_on_newer_ones_that_let_it(
    found: Revision, code: Revision, state: State
) -> None:
    assert state_at(found, code) is state


def test_no_target_never_leads_back() -> None:
    code = Revision(2, 1)
    assert destination("", Revision(1, 1), code) == 2
    assert destination("", Revision(5, 2), code) == 5
    for target in ("1", "0001"):
        assert destination(target, Revision(2, 1), code) == 1
    assert destination("0002_from_0001", Revision(1, 1), code) == 2


@pytest.mark.parametrize(
    "target", ["0", "3", "-1", "head", "base", " 1", "1.5", "٣", "1;", "x" * 99]
)
def test_a_target_that_is_no_revision_of_this_code_is_refused(target: str) -> None:
    with pytest.raises(InvalidRequestError, match="from 1 to 2"):
        destination(target, Revision(2, 1), Revision(2, 1))


@pytest.mark.parametrize(("versions"), [sqlite, postgres])
def test_the_chain_ends_at_the_revision_of_the_code(versions: object) -> None:
    folder: Path = versions.REVISIONS  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType, reportUnknownVariableType]
    revisions = chain_in(folder).revisions  # pyright: ignore[reportUnknownArgumentType]
    assert revisions[-1] == versions.CODE  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
    assert [revision.number for revision in revisions] == list(range(1, len(revisions) + 1))
    assert len(revisions) >= 2


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.parent.name)
def test_a_revision_is_frozen_and_says_what_it_does(folder: Path) -> None:
    seen = 0
    for path in folder.glob("r*.py"):
        tree = ast.parse(path.read_text("utf-8"))
        imported = [
            name
            for node in ast.walk(tree)
            for name in (
                [alias.name for alias in node.names]
                if isinstance(node, ast.Import)
                else [node.module or ""]
                if isinstance(node, ast.ImportFrom)
                else []
            )
        ]
        assert not [name for name in imported if name.startswith("stores_")], path.name
        assert ast.get_docstring(tree), path.name
        assert path.name.startswith(f"r{_assigned(tree, 'revision')[:4]}_"), path.name
        seen += 1
    assert seen == len(chain_in(folder).revisions)


def _assigned(tree: ast.Module, name: str) -> str:
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == name:
            return ast.literal_eval(node.value)
    raise AssertionError(f"no {name}")


@pytest.mark.parametrize("dialect", [sqlite_dialect(), PGDialect()], ids=["sqlite", "postgres"])
def test_every_step_can_be_written_down_without_a_connection(dialect: object) -> None:
    folder = sqlite.REVISIONS if dialect.name == "sqlite" else postgres.REVISIONS  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
    chain = chain_in(folder)
    end = len(chain.revisions)
    for steps in (
        chain.steps(NOTHING, end, dialect, "app"),  # pyright: ignore[reportArgumentType]
        chain.steps(chain.revisions[-1], 1, dialect, "app"),  # pyright: ignore[reportArgumentType]
    ):
        assert steps
        for step in steps:
            assert step.statements
            assert step.sentence.count("\n") == 0
            for text in step.statements:
                assert not text.endswith(";"), text
                assert "%(" not in text, text


def test_branches_are_refused(tmp_path: Path) -> None:
    for name, down in (("0001", None), ("0002", "0001"), ("0003", "0001")):
        source = f'"""s"""\nrevision = {name!r}\ndown_revision = {down!r}\n'
        (tmp_path / f"r{name}_x.py").write_text(source, "utf-8")
    with pytest.raises(CommandError, match="multiple heads"):
        Chain(tmp_path)


def test_in_memory_there_is_nothing_to_migrate() -> None:
    async def run() -> None:
        async with open_backend("memory:") as backend:
            assert backend.admin is not None
            plan = await backend.admin.plan_migration(target="1", sql=True)
            assert (plan.steps, plan.advice, plan.sql) == ((), (), "")
            assert (await backend.admin.migrate(target="1")).applied == ()

    asyncio.run(run())
