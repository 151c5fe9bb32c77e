"""Variables that have no value on some of the ways to where they are read.

A traced condition decides between ways, and what it leaves in a variable is made of both sides. A
side that has nothing there may leave anything, if the text says that nobody reads it; else a flag
beside the variable says whether it has a value, and is looked at where the text does not tell:

    for i in range(n):                for i in range(n):
        if x[i] > top:                    if x[i] > top:
            k = i                 ->          k = i; has_k = True
            break                             break
    return k                          return runtime.sure(k, has_k, "k")
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from typing import Any

from .conversion import PREFIX
from .names import names_of, parameters

# The names that have a value on every way to a place; None where no way leads.
_Sure = frozenset[str] | None
_SIMPLE = (ast.Assign, ast.AugAssign, ast.AnnAssign)


def flag_unsure(node: ast.FunctionDef) -> frozenset[str]:
    """Put flags beside the variables of a function that need them; the names of those that may
    hold anything where the text, or their flag, says that nobody reads it."""
    names = names_of(node.body)
    own = names.written - names.outer.keys() - names.captured - names.deleted
    own -= {*parameters(node.args), *_bound_inside(node)}
    strict, loose = _Ways(own, True), _Ways(own, False)
    strict.block(node.body, frozenset())
    loose.block(node.body, frozenset())
    flagged = {name for _, name in loose.unsure} & _simply_bound(node)
    if flagged:
        places = {id(place) for place, name in loose.unsure if name in flagged}
        _Flags(flagged, places).generic_visit(node)
    unsure = {name for _, name in strict.unsure}
    return frozenset((own - unsure) | flagged)


def _bound_inside(node: ast.FunctionDef) -> set[str]:
    """Names that expressions and handlers of errors assign to, maybe as variables of their own."""
    parts = list(ast.walk(node))
    inside = {p.target.id for p in parts if isinstance(p, ast.NamedExpr)}
    inside |= names_of(p.target for p in parts if isinstance(p, ast.comprehension)).written
    return inside | {p.name for p in parts if isinstance(p, ast.ExceptHandler) and p.name}


def _simply_bound(node: ast.FunctionDef) -> set[str]:
    """Names that nothing but assignments give a value."""
    other: list[ast.AST] = []
    simple: set[str] = set()
    for part in _statements(node.body):
        if isinstance(part, _SIMPLE):
            simple |= names_of([part]).written
        elif isinstance(part, (ast.For, ast.AsyncFor)):
            other.append(part.target)
        elif isinstance(part, (ast.With, ast.AsyncWith)):
            other += [item.optional_vars for item in part.items if item.optional_vars]
        elif isinstance(part, ast.Match):
            other += [case.pattern for case in part.cases]
        elif not isinstance(part, (ast.If, ast.While, ast.Try)):
            other.append(part)
    return simple - names_of(other).written


def _statements(block: Iterable[ast.stmt]) -> Iterable[ast.stmt]:
    """All statements of a function, without those of functions and classes inside."""
    for statement in block:
        yield statement
        if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            continue
        for part in ("body", "orelse", "finalbody"):
            yield from _statements(getattr(statement, part, ()))
        for part in ("handlers", "cases"):
            for inner in getattr(statement, part, ()):
                yield from _statements(inner.body)


def _joined(ways: Iterable[_Sure]) -> _Sure:
    """What is sure where ways meet."""
    found: _Sure = None
    for way in ways:
        if way is not None:
            found = way if found is None else found & way
    return found


class _Ways:
    """Goes along the statements of a function; `unsure` are the reads of what may have no value.

    Strictly, a `for` may have no turn, and a `with` may catch an error.
    """

    def __init__(self, names: set[str], strict: bool):
        self.names, self.strict = names, strict
        self.unsure: list[tuple[ast.AST, str]] = []
        self.loops: list[tuple[list[_Sure], list[_Sure]]] = []  # at their `break`s, `continue`s

    def block(self, statements: Sequence[ast.stmt], sure: _Sure) -> _Sure:
        """What is sure behind some statements."""
        for statement in statements:
            if sure is None:
                return None
            sure = self._statement(statement, sure)
        return sure

    def _statement(self, node: Any, sure: frozenset[str]) -> _Sure:
        rule = getattr(self, f"_{type(node).__name__.lower()}", None)
        if rule is not None:
            found: _Sure = rule(node, sure)
            return found
        if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
            self._read_name(node, node.target.id, sure)
        self._read([node], sure)
        return sure | names_of([node]).written

    def _read(self, parts: Iterable[ast.AST | None], sure: frozenset[str]) -> None:
        for part in parts:
            for name in ast.walk(part) if part is not None else ():
                if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Load):
                    self._read_name(name, name.id, sure)

    def _read_name(self, place: ast.AST, name: str, sure: frozenset[str]) -> None:
        if name in self.names and name not in sure:
            self.unsure.append((place, name))

    def _if(self, node: ast.If, sure: frozenset[str]) -> _Sure:
        self._read([node.test], sure)
        return _joined([self.block(node.body, sure), self.block(node.orelse, sure)])

    def _for(self, node: ast.For, sure: frozenset[str]) -> _Sure:
        self._read([node.iter, node.target], sure)
        entered = sure | names_of([node.target]).written
        return self._loop(node, entered, sure if self.strict else None)

    def _while(self, node: ast.While, sure: frozenset[str]) -> _Sure:
        self._read([node.test], sure)
        endless = isinstance(node.test, ast.Constant) and bool(node.test.value)
        return self._loop(node, sure, sure, endless)

    def _loop(self, node: Any, entered: _Sure, unentered: _Sure, endless: bool = False) -> _Sure:
        breaks: list[_Sure] = []
        continues: list[_Sure] = []
        self.loops.append((breaks, continues))
        turned = _joined([self.block(node.body, entered), *continues])
        self.loops.pop()
        over = None if endless else _joined([turned, unentered])
        return _joined([self.block(node.orelse, over), *breaks])

    def _break(self, node: ast.Break, sure: frozenset[str]) -> _Sure:
        self.loops[-1][0].append(sure)
        return None

    def _continue(self, node: ast.Continue, sure: frozenset[str]) -> _Sure:
        self.loops[-1][1].append(sure)
        return None

    def _return(self, node: ast.Return, sure: frozenset[str]) -> _Sure:
        self._read([node.value], sure)
        return None

    def _raise(self, node: ast.Raise, sure: frozenset[str]) -> _Sure:
        self._read([node.exc, node.cause], sure)
        return None

    def _with(self, node: ast.With, sure: frozenset[str]) -> _Sure:
        self._read(node.items, sure)
        inner = self.block(node.body, sure | names_of(node.items).written)
        return _joined([inner, sure]) if self.strict else inner

    def _try(self, node: ast.Try, sure: frozenset[str]) -> _Sure:
        whole = self.block(node.orelse, self.block(node.body, sure))
        ends = [whole, *(self.block(handler.body, sure) for handler in node.handlers)]
        self._read([handler.type for handler in node.handlers], sure)
        return self.block(node.finalbody, _joined(ends))

    _trystar = _try

    def _match(self, node: ast.Match, sure: frozenset[str]) -> _Sure:
        self._read([node.subject], sure)
        ends: list[_Sure] = [sure]
        for case in node.cases:
            given = sure | names_of([case.pattern]).written
            self._read([case.pattern, case.guard], given)
            ends.append(self.block(case.body, given))
            if isinstance(case.pattern, ast.MatchAs) and not (case.pattern.pattern or case.guard):
                ends[0] = None  # it takes all that is left
        return _joined(ends)


class _Flags(ast.NodeTransformer):
    """Writes the flags, and looks at them at some places."""

    def __init__(self, names: set[str], places: set[int]):
        self.names, self.places = names, places

    def visit_FunctionDef(self, node: Any) -> Any:
        return node

    def visit_AsyncFunctionDef(self, node: Any) -> Any:
        return node

    def visit_ClassDef(self, node: Any) -> Any:
        return node

    def visit_Lambda(self, node: Any) -> Any:
        return node

    def visit_Name(self, node: ast.Name) -> ast.AST:
        return self._looked_at(node.id, node) if id(node) in self.places else node

    def _looked_at(self, name: str, at: ast.AST) -> ast.expr:
        look = ast.Attribute(ast.Name(PREFIX, ast.Load()), "sure", ast.Load())
        given = [ast.Name(name, ast.Load()), ast.Name(_flag(name), ast.Load()), ast.Constant(name)]
        made = ast.copy_location(ast.Call(look, given, []), at)
        return ast.fix_missing_locations(made)

    def visit_Assign(self, node: Any) -> Any:
        return self._assignment(node)

    def visit_AugAssign(self, node: Any) -> Any:
        return self._assignment(node)

    def visit_AnnAssign(self, node: Any) -> Any:
        return self._assignment(node)

    def _assignment(self, node: Any) -> list[ast.stmt]:
        before = []
        if id(node) in self.places:  # an assignment like ``x += y``
            name = node.target.id
            before = [_assigned(name, self._looked_at(name, node), node)]
        gives = getattr(node, "value", None) is not None  # else it is an annotation
        written = sorted(names_of([node]).written & self.names) if gives else []
        self.generic_visit(node)
        flags = [_assigned(_flag(name), ast.Constant(True), node) for name in written]
        return [*before, node, *flags]


def _flag(name: str) -> str:
    return f"{PREFIX}has_{name}"


def _assigned(name: str, value: ast.expr, at: ast.AST) -> ast.stmt:
    made = ast.copy_location(ast.Assign([ast.Name(name, ast.Store())], value), at)
    return ast.fix_missing_locations(made)
