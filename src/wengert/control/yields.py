"""What a generator yields, written as calls of what its items are given to.

    yield e           ->    emit(e)

    yield from e      ->    for each in e:
                                emit(each)

Where who takes them may stop before the end, the generator returns then.
"""

from __future__ import annotations

import ast

from .conversion import PREFIX
from .source import Unconvertible


def is_generator(node: ast.FunctionDef | ast.Lambda) -> bool:
    """Whether a function yields, or waits."""
    body = node.body if isinstance(node.body, list) else [node.body]
    return any(map(_yields, body))


def _yields(node: ast.AST) -> bool:
    if isinstance(node, (ast.Yield, ast.YieldFrom, ast.Await)):
        return True
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)):
        return False
    return any(map(_yields, ast.iter_child_nodes(node)))


def emits(node: ast.AST) -> bool:
    """Whether it is a call that is written for a ``yield``."""
    return isinstance(node, ast.Call) and ast.dump(node.func) == _EMIT


def write_turns(node: ast.FunctionDef, stops: bool) -> None:
    """Write calls in place of what a generator yields."""
    turns = _Emitting(stops)
    node.body = [new for one in node.body for new in turns.of(one)] or [ast.Pass()]
    ast.fix_missing_locations(node)


class _Emitting(ast.NodeTransformer):
    def __init__(self, stops: bool):
        self.stops = stops

    def of(self, statement: ast.stmt) -> list[ast.stmt]:
        """What is written for a statement."""
        found = self.visit(statement)
        return found if isinstance(found, list) else [found]

    def visit_Expr(self, node: ast.Expr) -> ast.stmt | list[ast.stmt]:
        if isinstance(node.value, ast.Yield):
            return self._turn(node, node.value.value or ast.Constant(None))
        if isinstance(node.value, ast.YieldFrom):
            each = PREFIX + "each"
            turn = self._turn(node, ast.Name(each, ast.Load()))
            made = ast.For(ast.Name(each, ast.Store()), node.value.value, turn, [])
            return ast.fix_missing_locations(ast.copy_location(made, node))
        self.generic_visit(node)
        return node

    def _turn(self, at: ast.stmt, item: ast.expr) -> list[ast.stmt]:
        made: list[ast.stmt] = [ast.Expr(ast.Call(_runtime("emit"), [item], []))]
        if self.stops:
            stopped = ast.Call(_runtime("stopped"), [], [])
            made.append(ast.If(stopped, [ast.Return(None)], []))
        return [ast.fix_missing_locations(ast.copy_location(one, at)) for one in made]

    def visit_Yield(self, node: ast.Yield) -> ast.AST:
        raise Unconvertible(f"line {node.lineno} uses what a generator is sent")

    def visit_YieldFrom(self, node: ast.YieldFrom) -> ast.AST:
        raise Unconvertible(f"line {node.lineno} uses what a generator returns")

    def visit_Try(self, node: ast.Try) -> ast.AST:
        return self._whole(node)

    def visit_TryStar(self, node: ast.AST) -> ast.AST:
        return self._whole(node)

    def visit_With(self, node: ast.With) -> ast.AST:
        return self._whole(node)

    def _whole(self, node: ast.AST) -> ast.AST:
        if _yields(node):  # what goes over it would raise its errors in here
            raise Unconvertible(f"line {node.lineno} yields in a `try` or `with`")  # type: ignore[attr-defined]
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        return node

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:
        return node

    def visit_Lambda(self, node: ast.Lambda) -> ast.AST:
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        return node


def _runtime(name: str) -> ast.expr:
    return ast.Attribute(ast.Name(PREFIX, ast.Load()), name, ast.Load())


_EMIT = ast.dump(_runtime("emit"))
