"""Finding where in a module one small change makes another program, and making it."""

import ast
import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

_COMPARED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq, ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
_COMPUTED: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.FloorDiv, ast.FloorDiv: ast.Mult,
    ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd, ast.Mod: ast.FloorDiv,
}  # fmt: skip
_NOT_RUN = {"annotation", "returns", "type_params", "bases", "keywords"}


@dataclass(frozen=True, slots=True)
class Mutant:
    """One change to one module; ``number`` counts the module's changes.

    ``lines`` are the first and last of the statement, ``name`` is what it is known by: it stays
    when other lines of the module change.
    """

    path: str
    number: int
    lines: tuple[int, int]
    name: str


@dataclass(frozen=True, slots=True)
class _Change:
    """``target.field`` becomes ``value``; ``told`` says it in words."""

    statement: ast.stmt
    line: int
    told: str
    target: ast.AST
    field: str
    value: Any


def mutants(root: Path, path: str) -> list[Mutant]:
    """Every mutant of a module, ``path`` being relative to ``root``."""
    source = (root / path).read_text(encoding="utf-8")
    lines, seen, found = source.splitlines(), Counter[str](), list[Mutant]()
    for number, change in enumerate(_changes(ast.parse(source).body)):
        name = f"{path}: {lines[change.line - 1].strip()}: {change.told}"
        seen[name] += 1
        name += f" ({seen[name]})" if seen[name] > 1 else ""
        first = change.statement.lineno
        body = getattr(change.statement, "body", None)
        # Of a statement with others in it, what is changed is its head.
        last = body[0].lineno - 1 if body else change.statement.end_lineno or first
        found.append(Mutant(path, number, (first, max(first, last)), name))
    return found


def mutated(root: Path, mutant: Mutant) -> ast.Module:
    """The module's syntax tree with the change made."""
    tree = ast.parse((root / mutant.path).read_text(encoding="utf-8"))
    change = list(_changes(tree.body))[mutant.number]
    setattr(change.target, change.field, change.value)
    return ast.fix_missing_locations(tree)


def shuffled(root: Path, paths: Sequence[str], seed: int) -> list[Mutant]:
    """The mutants of these modules in an order at random, where each keeps its place beside the
    others when some come or go."""
    every = [mutant for path in paths for mutant in mutants(root, path)]

    def place(mutant: Mutant) -> bytes:
        return hashlib.blake2b(f"{seed} {mutant.name}".encode(), digest_size=16).digest()

    return sorted(every, key=place)


def _changes(body: Sequence[ast.stmt]) -> Iterator[_Change]:
    for statement in body:
        if not _does_something(statement):
            continue
        for told, target, field, value in _of_statement(statement):
            yield _Change(statement, statement.lineno, told, target, field, value)
        for node in _expressions(statement):
            for told, field, value in _of_expression(node):
                yield _Change(statement, node.lineno, told, node, field, value)
        for part in ("body", "orelse", "finalbody"):
            yield from _changes(getattr(statement, part, ()))
        for part in (*getattr(statement, "handlers", ()), *getattr(statement, "cases", ())):
            yield from _changes(part.body)


def _does_something(statement: ast.stmt) -> bool:
    """Not so imports, docstrings, names of types, slots; nor errors, whose words may change."""
    match statement:
        case ast.Import() | ast.ImportFrom() | ast.Raise() | ast.Assert():
            return False
        case ast.Expr(value=ast.Constant()):
            return False
        case ast.Assign(targets=[ast.Name(id=name)], value=value):
            named_as_type = name[0].isupper() and not name.isupper()
            is_type = named_as_type and isinstance(value, ast.Subscript | ast.BinOp)
            makes_type = isinstance(value, ast.Call) and ast.unparse(value.func) == "TypeVar"
            return not is_type and not makes_type and name != "__slots__"
        case _:
            return True


def _expressions(statement: ast.stmt) -> Iterator[ast.expr]:
    """The expressions of a statement, without those of statements in it and without types."""
    for name, part in ast.iter_fields(statement):
        if name in _NOT_RUN:
            continue
        parts = cast("list[object]", part if isinstance(part, list) else [part])
        for each in parts:
            if isinstance(each, ast.arguments):
                for default in (*each.defaults, *each.kw_defaults):
                    yield from _inner(default) if default else ()
            elif isinstance(each, ast.withitem):
                yield from _inner(each.context_expr)
            elif isinstance(each, ast.expr):
                yield from _inner(each)


def _inner(expression: ast.expr) -> Iterator[ast.expr]:
    """An expression and all of its parts, but for composed texts, which are for people."""
    if isinstance(expression, ast.JoinedStr):
        return
    yield expression
    for child in ast.iter_child_nodes(expression):
        match child:
            case ast.expr():
                yield from _inner(child)
            case ast.keyword(value=value):
                yield from _inner(value)
            case ast.comprehension(iter=source, ifs=ifs):
                for part in (source, *ifs):
                    yield from _inner(part)
            case _:
                pass


def _of_statement(statement: ast.stmt) -> Iterator[tuple[str, ast.AST, str, Any]]:
    match statement:
        case ast.Expr(value=ast.Call() | ast.Await()):
            yield "the call is left out", statement, "value", ast.Constant(value=None)
        case ast.Return(value=ast.Call() | ast.Await() | ast.BinOp() | ast.Name()):
            yield "returns None", statement, "value", ast.Constant(value=None)
        case ast.AugAssign(op=old) if type(old) in _COMPUTED:
            new = _COMPUTED[type(old)]
            yield f"{type(old).__name__} becomes {new.__name__}", statement, "op", new()
        case ast.If(test=test) | ast.While(test=test):
            yield "the condition is turned", statement, "test", ast.UnaryOp(ast.Not(), test)
        case _:
            pass


def _of_expression(node: ast.expr) -> Iterator[tuple[str, str, Any]]:
    """The changes of a node: in words, the field that changes, what it becomes."""
    match node:
        case ast.Compare(ops=ops):
            for index, old in enumerate(ops):
                new = _COMPARED[type(old)]
                becomes = [*ops[:index], new(), *ops[index + 1 :]]
                yield f"{type(old).__name__} becomes {new.__name__}", "ops", becomes
        case ast.BoolOp(op=old):
            other = ast.Or() if isinstance(old, ast.And) else ast.And()
            yield f"{type(old).__name__} becomes {type(other).__name__}", "op", other
        case ast.BinOp(op=old) if type(old) in _COMPUTED:
            new = _COMPUTED[type(old)]
            yield f"{type(old).__name__} becomes {new.__name__}", "op", new()
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield "Not is left out", "operand", ast.UnaryOp(ast.Not(), operand)
        case ast.UnaryOp(op=ast.USub()):
            yield "the minus is left out", "op", ast.UAdd()
        case ast.Constant(value=bool(value)):
            yield f"{value} becomes {not value}", "value", not value
        case ast.Constant(value=int(value)):
            yield f"{value} becomes {value + 1}", "value", value + 1
        case ast.IfExp(test=test):
            yield "the condition is turned", "test", ast.UnaryOp(ast.Not(), test)
        case ast.Call(func=ast.Attribute(attr="where"), args=args) if len(args) > 1:
            for index in range(len(args)):
                left = [*args[:index], *args[index + 1 :]]
                yield f"condition {index + 1} is left out", "args", left
        case _:
            pass
