"""Which names statements read and write, and which of them matter later.

A name is one of the function's own; what is written to an element or an attribute counts as a name
that is *touched*. A name is live where its value may still be read. Names that functions inside
capture may be read at any time: they are always live.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from typing import Any


class _NameUses(ast.NodeVisitor):
    """The names of some code, by what is done with them."""

    def __init__(self) -> None:
        self.read: set[str] = set()
        self.written: set[str] = set()
        self.touched: set[str] = set()  # whose elements are written
        self.captured: set[str] = set()  # by functions inside
        self.outer: dict[str, str] = {}  # declared global or nonlocal
        self.deleted: set[str] = set()

    def visit_Name(self, node: ast.Name) -> None:
        if isinstance(node.ctx, ast.Load):
            self.read.add(node.id)
        else:
            self.written.add(node.id)
            if isinstance(node.ctx, ast.Del):
                self.deleted.add(node.id)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        if isinstance(node.target, ast.Name):
            self.read.add(node.target.id)
            self.touched.add(node.target.id)
        self.generic_visit(node)

    def visit_Subscript(self, node: ast.Subscript) -> None:
        self._element(node)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        self._element(node)

    def _element(self, node: ast.Subscript | ast.Attribute) -> None:
        if not isinstance(node.ctx, ast.Load):
            base: ast.AST = node
            while isinstance(base, (ast.Subscript, ast.Attribute)):
                base = base.value
            if isinstance(base, ast.Name):
                self.touched.add(base.id)
        self.generic_visit(node)

    def visit_Global(self, node: ast.Global) -> None:
        self.outer.update(dict.fromkeys(node.names, "global"))

    def visit_Nonlocal(self, node: ast.Nonlocal) -> None:
        self.outer.update(dict.fromkeys(node.names, "nonlocal"))

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self.written.add(node.name)
        self._inner(node)

    def visit_AsyncFunctionDef(self, node: Any) -> None:
        self.visit_FunctionDef(node)

    def visit_Lambda(self, node: ast.Lambda) -> None:
        self._inner(node)

    def _inner(self, node: ast.FunctionDef | ast.Lambda) -> None:
        for default in [*node.args.defaults, *node.args.kw_defaults]:
            if default is not None:
                self.visit(default)
        for decorator in getattr(node, "decorator_list", []):
            self.visit(decorator)
        free = free_names(node)
        self.read |= free
        self.captured |= free

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self.written.add(node.name)
        inner = names_of([*node.bases, *node.decorator_list, *node.body])
        self.read |= inner.read
        self.captured |= inner.read

    def visit_ListComp(self, node: ast.AST) -> None:
        self._comprehension(node)

    def visit_SetComp(self, node: ast.AST) -> None:
        self._comprehension(node)

    def visit_DictComp(self, node: ast.AST) -> None:
        self._comprehension(node)

    def visit_GeneratorExp(self, node: ast.AST) -> None:
        self._comprehension(node)

    def _comprehension(self, node: Any) -> None:
        inner = _NameUses()
        for child in ast.iter_child_nodes(node):
            inner.visit(child)
        walrus = {n.target.id for n in ast.walk(node) if isinstance(n, ast.NamedExpr)}
        # its own variables are others, but for what it goes over first
        inner.read -= inner.written - walrus
        inner.read |= names_of([node.generators[0].iter]).read
        self.read |= inner.read
        self.written |= inner.written & walrus
        self.captured |= inner.captured
        if isinstance(node, ast.GeneratorExp):
            self.captured |= inner.read

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> None:
        if node.name:
            self.written.add(node.name)
        self.generic_visit(node)

    def visit_alias(self, node: ast.alias) -> None:
        self.written.add((node.asname or node.name).split(".")[0])

    def visit_MatchAs(self, node: ast.MatchAs) -> None:
        if node.name:
            self.written.add(node.name)
        self.generic_visit(node)

    def visit_MatchStar(self, node: ast.MatchStar) -> None:
        if node.name:
            self.written.add(node.name)

    def visit_MatchMapping(self, node: ast.MatchMapping) -> None:
        if node.rest:
            self.written.add(node.rest)
        self.generic_visit(node)


def names_of(nodes: Iterable[ast.AST]) -> _NameUses:
    """What some statements do, in their scope."""
    names = _NameUses()
    for node in nodes:
        names.visit(node)
    return names


def parameters(arguments: ast.arguments) -> list[str]:
    """The names of a function's parameters."""
    args = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    args += [arg for arg in (arguments.vararg, arguments.kwarg) if arg is not None]
    return [arg.arg for arg in args]


def free_names(node: ast.FunctionDef | ast.Lambda) -> set[str]:
    """The names that a function takes from around it; globals are among them."""
    body = node.body if isinstance(node.body, list) else [node.body]
    names = names_of(body)
    own = (names.written - names.outer.keys()) | set(parameters(node.args))
    used = names.read | names.written | names.touched
    return used - own


def _flag(node: ast.AST) -> set[str]:
    """The variable that says that a loop is left, which each turn reads and no text does."""
    flags = getattr(node, "flags", None)
    return {flags.broken} if flags is not None and flags.stops else set()


class Liveness:
    """Marks each `if` and each loop with the names that are live behind it, `live`, and each loop
    with those that are live before a turn, `enters`."""

    def __init__(self, always: set[str]):
        self.always = always

    def before(self, statements: Sequence[ast.stmt], after: set[str]) -> set[str]:
        """The names that are live before some statements."""
        live = set(after)
        for statement in reversed(statements):
            live = self._statement(statement, live)
        return live

    def _statement(self, node: ast.stmt, after: set[str]) -> set[str]:
        if isinstance(node, ast.If):
            node.live = after | self.always  # type: ignore[attr-defined]
            branches = self.before(node.body, after) | self.before(node.orelse, after)
            return branches | names_of([node.test]).read
        if isinstance(node, (ast.For, ast.While)):
            return self._loop(node, after)
        if isinstance(node, (ast.With, ast.AsyncWith)):
            inner = self.before(node.body, after)
            items = names_of(node.items)
            return (inner - items.written) | items.read
        if isinstance(node, (ast.Try, ast.Match)) or type(node).__name__ == "TryStar":
            # it may be left anywhere: whatever is read in it is live before and throughout
            names = names_of([node])
            everything = after | names.read | names.touched
            for child in ast.walk(node):
                everything |= _flag(child)
            for child in ast.walk(node):
                if isinstance(child, (ast.If, ast.For, ast.While)):
                    self._statement(child, everything)
            return everything
        names = names_of([node])
        return (after - names.written) | names.read | (names.touched & names.read)

    def _loop(self, node: ast.For | ast.While, after: set[str]) -> set[str]:
        head = names_of([node.test if isinstance(node, ast.While) else node.iter])
        target = names_of([node.target]) if isinstance(node, ast.For) else _NameUses()
        flag = _flag(node)
        turn = head.read if isinstance(node, ast.While) else set()
        enters: set[str] = set()
        while True:
            body = self.before(node.body, after | enters | turn | flag)
            found = (body - target.written) | turn | target.read | flag
            if found <= enters:
                break
            enters = enters | found
        node.live = after | self.always  # type: ignore[union-attr]
        node.enters = enters | self.always  # type: ignore[union-attr]
        return after | enters | head.read
