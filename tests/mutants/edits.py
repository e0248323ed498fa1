"""Edits that plant bugs, by address: a module, a function or class in it, and a pattern of the code there.

A pattern is Python. It matches code with the same syntax tree, whatever its line breaks and comments are. `_` matches
any expression, `...` any arguments of a call, any body of a compound statement and any value that is assigned.
"""

import ast
import dataclasses
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
_SOURCES = ("service", "spark_client", ".")
_SHIFTED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
}
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


@dataclass(frozen=True)
class Edit:
    """Changes one syntax tree. `change` raises LookupError where a pattern does not match exactly once.

    neighbours: comparisons that the edit takes out, each with the edit that moves its boundary by one instead.
    """

    change: Callable[[ast.AST], None]
    neighbours: tuple[tuple[str, "Edit"], ...] = ()

    def path(self, address: str) -> str:
        """Returns the file of `module::Class.method` or `module`, relative to the root of the project."""
        module = address.partition("::")[0].replace(".", "/")
        paths = (f"{source}/{module}{end}" for source in _SOURCES for end in (".py", "/__init__.py"))
        for path in paths:
            if (ROOT / path).exists():
                return path.removeprefix("./")
        raise LookupError(f"there is no module {module}")

    def apply(self, source: str, address: str) -> str:
        """Returns the module with the bug, without its comments. LookupError: it has no place, or several."""
        tree = ast.parse(source)
        self.change(_scope(tree, address.partition("::")[2]))
        return ast.unparse(ast.fix_missing_locations(tree)) + "\n"


@dataclass(frozen=True)
class Text:
    """Replaces a text that a file has exactly once; for files that are not Python."""

    old: str
    new: str

    def path(self, address: str) -> str:
        return address

    def apply(self, source: str, address: str) -> str:
        if source.count(self.old) != 1:
            raise LookupError(f"{address} has {source.count(self.old)} times {self.old!r}")
        return source.replace(self.old, self.new)


def delete(statement: str, nth: int = 0) -> Edit:
    """Deletes a statement."""
    return replace_statement(statement, "pass", nth)


def replace(expression: str, new: str, nth: int = 0) -> Edit:
    """Replaces an expression. nth: which of several equal ones, from 1 in the order of the source; 0: the only one."""

    def change(scope: ast.AST) -> None:
        _find(scope, _expression(expression), nth).put(_expression(new))

    return Edit(change, _neighbours(_expression(expression), _expression(new), nth))


def replace_statement(statement: str, new: str, nth: int = 0) -> Edit:
    """Replaces a statement by others."""

    def change(scope: ast.AST) -> None:
        _find(scope, _statement(statement), nth).put(*ast.parse(new).body)

    return Edit(change, _neighbours(_statement(statement), ast.parse(new), nth))


def insert(new: str, *, before: str | None = None, after: str | None = None, nth: int = 0) -> Edit:
    """Inserts statements before or after one."""

    def change(scope: ast.AST) -> None:
        found = _find(scope, _statement(before or after or ""), nth)
        added = ast.parse(new).body
        found.put(*((*added, found.node) if before else (found.node, *added)))

    return Edit(change)


def swap(first: str, second: str) -> Edit:
    """Swaps two statements, also awaited ones."""

    def change(scope: ast.AST) -> None:
        one, other = (_find(scope, _statement(pattern), 0) for pattern in (first, second))
        between = ast.Pass()
        one.put(between)
        other.put(one.node)
        dataclasses.replace(one, node=between).put(other.node)

    return Edit(change)


def move(statement: str, *, before: str | None = None, after: str | None = None) -> Edit:
    """Moves a statement before or after another one."""

    def change(scope: ast.AST) -> None:
        moved = _find(scope, _statement(statement), 0)
        moved.put(ast.Pass())
        other = _find(scope, _statement(before or after or ""), 0)
        other.put(*((moved.node, other.node) if before else (other.node, moved.node)))

    return Edit(change)


def cell(key: str, value: str) -> Edit:
    """Replaces the value of a key in a dict literal: one cell of a table."""

    def change(scope: ast.AST) -> None:
        wanted = _expression(key)
        found = [
            (place.node, at)
            for place in _places(scope, True)
            if isinstance(place.node, ast.Dict)
            for at, one in enumerate(place.node.keys)
            if one is not None and _matches(wanted, one)
        ]
        if len(found) != 1:
            raise LookupError(f"{len(found)} times the key {key}")
        found[0][0].values[found[0][1]] = _expression(value)

    return Edit(change)


def without(item: str) -> Edit:
    """Takes an argument, an element or a key out of a call, a list, a tuple or a dict; an argument by name as `name=`."""

    def change(scope: ast.AST) -> None:
        found = [found for place in _places(scope, True) for found in _items(place.node, item)]
        if len(found) != 1:
            raise LookupError(f"{len(found)} times the item {item}")
        for listed, at in found[0]:
            del listed[at]

    return Edit(change)


def reword(old: str, new: str) -> Edit:
    """Replaces a text in the only string that has it."""

    def change(scope: ast.AST) -> None:
        strings = [place.node for place in _places(scope, True) if isinstance(place.node, ast.Constant)]
        found = [one for one in strings if isinstance(one.value, str) and old in one.value]
        if len(found) != 1:
            raise LookupError(f"{len(found)} strings have {old!r}")
        found[0].value = found[0].value.replace(old, new)

    return Edit(change)


def shift(comparison: str, nth: int = 0) -> Edit:
    """Moves the boundary of a comparison by one: < becomes <=, <= becomes <, and likewise > and >=."""

    return _shift(_expression(comparison), _expression(comparison), 0, nth)


def _neighbours(old: ast.AST, new: ast.AST, nth: int) -> tuple[tuple[str, Edit], ...]:
    kept = {ast.dump(node) for node in ast.walk(new)}
    return tuple(
        (ast.unparse(node) if len(node.ops) == 1 else f"{ast.unparse(node)} [{at}]", _shift(old, node, at, nth))
        for node in ast.walk(old)
        if isinstance(node, ast.Compare) and ast.dump(node) not in kept
        for at, operator in enumerate(node.ops)
        if type(operator) in _SHIFTED
    )


def _shift(whole: ast.AST, comparison: ast.Compare, at: int, nth: int) -> Edit:
    """Shifts one operator of a comparison within the code that matches a pattern."""

    def change(scope: ast.AST) -> None:
        nodes = ast.walk(_find(scope, whole, nth).node)
        found = next(node for node in nodes if isinstance(node, ast.Compare) and _matches(comparison, node))
        found.ops[at] = _SHIFTED[type(found.ops[at])]()

    return Edit(change)


@dataclass(frozen=True)
class _Place:
    """The place of a node: a field of its parent, or an item of a list field."""

    parent: ast.AST
    field: str
    at: int | None
    node: ast.AST

    def put(self, *nodes: ast.AST) -> None:
        """Puts others there, several only in a list."""
        if self.at is None:
            (node,) = nodes
            setattr(self.parent, self.field, node)
        else:
            # By identity: an edit before may have moved it.
            listed = getattr(self.parent, self.field)
            at = next(at for at, one in enumerate(listed) if one is self.node)
            listed[at : at + 1] = nodes


def _items(node: ast.AST, item: str) -> Iterator[tuple[tuple[list[ast.AST], int], ...]]:
    """Yields where an item of a node is: in each list that has a part of it, the position."""
    if item.endswith("="):
        if isinstance(node, ast.Call):
            yield from (((node.keywords, at),) for at, one in enumerate(node.keywords) if one.arg == item[:-1])
        return
    (wanted,) = _expression(f"[{item}]").elts  # as an element, so that it may have a star
    if isinstance(node, ast.Dict):
        keys = ((at, key) for at, key in enumerate(node.keys) if key is not None)
        yield from (((node.keys, at), (node.values, at)) for at, key in keys if _matches(wanted, key))
    listed = node.elts if isinstance(node, ast.List | ast.Tuple | ast.Set) else getattr(node, "args", None)
    if isinstance(listed, list):
        yield from (((listed, at),) for at, one in enumerate(listed) if _matches(wanted, one))


def _scope(tree: ast.Module, qualname: str) -> ast.AST:
    """Returns the definition of a qualified name: of a function, a class or a variable; the module without one."""
    scope: ast.AST = tree
    for name in filter(None, qualname.split(".")):
        inner = [node for node in _below(scope) if _defines(node, name)]
        if not inner:
            raise LookupError(f"there is no {name} of {qualname}")
        scope = inner[-1]  # of overloads, and of a property with its setter, the last
    return scope


def _defines(node: ast.AST, name: str) -> bool:
    if isinstance(node, _DEFINITIONS):
        return node.name == name
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    return isinstance(node, ast.Assign | ast.AnnAssign) and any(
        isinstance(one, ast.Name) and one.id == name for one in targets
    )


def _below(scope: ast.AST) -> Iterator[ast.AST]:
    """Yields what is in a scope, and not in a definition below it."""
    for node in ast.iter_child_nodes(scope):
        yield node
        if not isinstance(node, _DEFINITIONS):
            yield from _below(node)


def _places(scope: ast.AST, whole: bool) -> Iterator[_Place]:
    """Yields all places below a node in the order of the source. whole: also those in definitions."""
    for field, value in ast.iter_fields(scope):
        for at, node in enumerate(value) if isinstance(value, list) else ((None, value),):
            if isinstance(node, ast.AST):
                yield _Place(scope, field, at, node)
                if whole or not isinstance(node, _DEFINITIONS):
                    yield from _places(node, whole)


def _find(scope: ast.AST, pattern: ast.AST, nth: int) -> _Place:
    whole = isinstance(scope, ast.FunctionDef | ast.AsyncFunctionDef)
    found = [place for place in _places(scope, whole) if _matches(pattern, place.node)]
    if not found or (nth == 0 and len(found) > 1) or nth > len(found):
        raise LookupError(f"{len(found)} times {ast.unparse(pattern)!r}")
    return found[max(nth - 1, 0)]


def _matches(pattern: object, node: object) -> bool:
    if isinstance(pattern, ast.Name) and pattern.id == "_":
        return isinstance(node, ast.expr)
    if not isinstance(pattern, ast.AST):
        return type(pattern) is type(node) and pattern == node
    if type(pattern) is not type(node):
        return False
    if isinstance(pattern, ast.Call) and isinstance(node, ast.Call) and [*map(_is_any, pattern.args)] == [True]:
        return _matches(pattern.func, node.func)
    return all(
        _match_field(getattr(pattern, field, None), getattr(node, field, None))
        for field in pattern._fields
        if field not in ("ctx", "type_comment", "kind")
    )


def _match_field(pattern: object, value: object) -> bool:
    if not isinstance(pattern, list):
        return _is_any(pattern) or _matches(pattern, value)
    if len(pattern) == 1 and isinstance(pattern[0], ast.Expr) and _is_any(pattern[0].value):
        return True
    return isinstance(value, list) and len(pattern) == len(value) and all(map(_matches, pattern, value))


def _is_any(node: object) -> bool:
    return isinstance(node, ast.Constant) and node.value is ...


def _expression(text: str) -> Any:
    return ast.parse(text, mode="eval").body


def _statement(text: str) -> ast.stmt:
    # `return`, `await` and the like are only syntax here: the parser takes them outside of functions.
    (found,) = ast.parse(text).body
    return found
