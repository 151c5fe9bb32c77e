"""Lists that a function uses as stacks, found in its text.

    stack = [x]                         stack = [x]
    while stack:                        while _wengert_.some(stack):
        y = stack.pop()          ->         stack, y = _wengert_.popped(stack)
        stack.append(y / 2)                 stack = _wengert_.pushed(stack, y / 2)

Nobody else may see such a list: it is made by brackets, and nothing but the above, its length and
its last item is asked of it. Then it makes no difference that it is a new one after each of these,
and a branch or a loop that a traced condition decides on may change it like any variable.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import Any

from .conversion import PREFIX
from .names import names_of, parameters


def write_stacks(node: ast.FunctionDef) -> frozenset[str]:
    """Write what a function does with its stacks as assignments; the names of these."""
    names = _stacks(node)
    if names:
        writer = _StackWriter(names)
        node.body = [writer.visit(statement) for statement in node.body]
        ast.fix_missing_locations(node)
    return names


def _stacks(node: ast.FunctionDef) -> frozenset[str]:
    loops = [part for part in ast.walk(node) if isinstance(part, ast.While)]
    popped = {_popped(part) for loop in loops for part in ast.walk(loop)} - {""}
    if not popped:
        return frozenset()
    uses = names_of(node.body)
    others = {*parameters(node.args), *uses.captured, *uses.outer, *uses.deleted}
    fields = ("name", "asname", "rest")  # where else than in `ast.Name` a name is given a value
    others |= {getattr(part, field, None) or "" for part in ast.walk(node) for field in fields}
    return frozenset(name for name in popped - others if _is_stack(node, name))


def _is_stack(node: ast.FunctionDef, name: str) -> bool:
    """Whether all that is done with a name can be written as assignments."""
    parts = list(ast.walk(node))
    found = sum(isinstance(part, ast.Name) and part.id == name for part in parts)
    asked = sum(one.id == name for part in parts for one in _asked_for_truth(part))
    return found == asked + sum(_use(part, name) for part in parts)


def _use(node: ast.AST, name: str) -> bool:
    """Whether some code is one use of a stack, other than asking whether it has items."""
    match node:
        case ast.Assign(targets=[ast.Name(id=found)], value=ast.List()):
            return found == name
        case ast.AnnAssign(target=ast.Name(id=found), value=ast.List()):
            return found == name
        case ast.Assign(value=value) | ast.Expr(value=value) if _popped(value):
            return _popped(value) == name
        case ast.Expr() | ast.AugAssign() if _pushed(node):
            return _pushed(node) == name
        case ast.Call(func=ast.Name(id="len"), args=[ast.Name(id=found)], keywords=[]):
            return found == name
        case ast.Subscript(value=ast.Name(id=found)) if _is_last(node):
            return found == name
    return False


def _asked_for_truth(node: ast.AST) -> Iterator[ast.Name]:
    """The names of which some code asks nothing but whether they are true."""
    match node:
        case ast.While(test=test) | ast.If(test=test) | ast.IfExp(test=test):
            yield from _names_in_test(test)
        case ast.UnaryOp(op=ast.Not(), operand=ast.Name() as operand):
            yield operand


def _names_in_test(test: ast.expr) -> Iterator[ast.Name]:
    match test:
        case ast.Name():
            yield test
        case ast.BoolOp(values=values):
            for value in values:
                yield from _names_in_test(value)


def _popped(node: ast.AST) -> str:
    """The name of what an item is taken from; empty where none is."""
    match node:
        case ast.Call(
            func=ast.Attribute(value=ast.Name(id=name), attr="pop"), args=[], keywords=[]
        ):
            return name
    return ""


def _pushed(node: ast.AST) -> str:
    """The name of what a statement puts items on; empty where there is none."""
    match node:
        case ast.AugAssign(target=ast.Name(id=name), op=ast.Add(), value=ast.List() | ast.Tuple()):
            return name
        case ast.Expr(
            value=ast.Call(
                func=ast.Attribute(value=ast.Name(id=name), attr="append"), args=[_], keywords=[]
            )
            | ast.Call(
                func=ast.Attribute(value=ast.Name(id=name), attr="extend"),
                args=[ast.List() | ast.Tuple()],
                keywords=[],
            )
        ):
            return name
    return ""


def _items(node: Any) -> Sequence[ast.expr]:
    """The items that a statement puts on a stack."""
    if isinstance(node, ast.AugAssign):
        value: Any = node.value
        found: Sequence[ast.expr] = value.elts
        return found
    (given,) = node.value.args
    return [given] if node.value.func.attr == "append" else given.elts


def _is_last(node: Any) -> bool:
    """Whether it is ``x[-1]``, read."""
    match node:
        case ast.Subscript(slice=ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=1))):
            return isinstance(node.ctx, ast.Load)
    return False


class _StackWriter(ast.NodeTransformer):
    def __init__(self, names: frozenset[str]):
        self.names = names

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.stmt:
        return node  # its variables are others

    def visit_Assign(self, node: ast.Assign) -> Any:
        self.generic_visit(node)
        name = _popped(node.value)
        if name not in self.names:
            return node
        whole: list[ast.expr] = [
            ast.Tuple([_stored(name), target], ast.Store()) for target in node.targets
        ]
        return _at(node, ast.Assign(whole, _asked("popped", name)))

    def visit_Expr(self, node: ast.Expr) -> Any:
        self.generic_visit(node)
        value: Any = node.value
        if _popped(value) in self.names:
            stored: list[ast.expr] = [_stored(_popped(value)), _stored(f"{PREFIX}unread")]
            made = ast.Assign([ast.Tuple(stored, ast.Store())], _asked("popped", _popped(value)))
            return _at(node, made)
        return self._push(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> Any:
        self.generic_visit(node)
        return self._push(node)

    def _push(self, node: Any) -> Any:
        name = _pushed(node)
        if name not in self.names:
            return node
        return _at(node, ast.Assign([_stored(name)], _asked("pushed", name, *_items(node))))

    def visit_While(self, node: ast.While) -> Any:
        return self._condition(node)

    def visit_If(self, node: ast.If) -> Any:
        return self._condition(node)

    def visit_IfExp(self, node: ast.IfExp) -> Any:
        return self._condition(node)

    def _condition(self, node: Any) -> Any:
        self.generic_visit(node)
        node.test = self._truth(node.test)
        return node

    def visit_UnaryOp(self, node: ast.UnaryOp) -> Any:
        self.generic_visit(node)
        if isinstance(node.op, ast.Not) and isinstance(node.operand, ast.Name):
            node.operand = self._truth(node.operand)
        return node

    def _truth(self, test: Any) -> Any:
        """What `_names_in_test` finds, as questions whether there are items."""
        if isinstance(test, ast.BoolOp):
            test.values = [self._truth(value) for value in test.values]
        if isinstance(test, ast.Name) and test.id in self.names:
            return _at(test, _asked("some", test.id))
        return test

    def visit_Call(self, node: ast.Call) -> Any:
        match node:
            case ast.Call(func=ast.Name(id="len"), args=[ast.Name(id=name)]) if name in self.names:
                return _at(node, _asked("number_of", name, node.func))
        return self.generic_visit(node)

    def visit_Subscript(self, node: ast.Subscript) -> Any:
        self.generic_visit(node)
        if isinstance(node.value, ast.Name) and node.value.id in self.names:
            return _at(node, _asked("top", node.value.id))
        return node


def _stored(name: str) -> ast.expr:
    return ast.Name(name, ast.Store())


def _asked(what: str, name: str, *rest: ast.expr) -> ast.expr:
    """A call of the runtime."""
    function = ast.Attribute(ast.Name(PREFIX, ast.Load()), what, ast.Load())
    return ast.Call(function, [ast.Name(name, ast.Load()), *rest], [])


def _at(node: Any, made: Any) -> Any:
    return ast.copy_location(made, node)
