"""`return`, `break` and `continue` written as assignments, so that what is left has one way out.

    if c:                    if c:
        return a                 result = a
    b = f(a)         ->      else:
    return b                     b = f(a)
                                 result = b
                             return result

What follows an `if` with a branch that always jumps goes into the other branch. Where both may go
on, a flag says whether one has jumped, and what follows is under its condition. In a loop `break`
sets a flag that is looked at before the next turn; `return` there sets that flag and one more,
which is looked at behind the loop. On each way the result is set exactly once, to None too.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

from .conversion import PREFIX

RESULT, RETURNED = PREFIX + "result", PREFIX + "returned"
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
_LOOPS = (ast.For, ast.While)


def lower(function: ast.FunctionDef) -> None:
    """Replace the jumps of a function's body."""
    lowering = _Lowering()
    nested = any(jumps_out_of(s) for s in function.body if not isinstance(s, ast.Return))
    if not nested:
        function.body = lowering.inside(function.body)
        return
    last = ast.copy_location(ast.Return(None), function.body[-1])
    body = [*function.body, *([] if _always(function.body) else [last])]
    lowered = lowering.block(body, None)
    if lowering.reads_returned:
        lowered.insert(0, _assign(RETURNED, ast.Constant(False), function))
    else:
        lowered = _without(lowered, RETURNED)
    lowered.insert(
        0, _assign(RESULT, ast.Attribute(_name(PREFIX), "NOTHING", ast.Load()), function)
    )
    lowered.append(ast.copy_location(ast.Return(_name(RESULT)), last))
    documented = ast.get_docstring(function, clean=False) is not None
    function.body = [function.body[0], *lowered] if documented else lowered


class _LoopFlags:
    """The flags of one loop."""

    def __init__(self, number: int):
        self.broken = f"{PREFIX}broken{number}"
        self.skipped = f"{PREFIX}skipped{number}"
        self.reads_skipped = False
        self.stops = False  # whether there is a `break` or a `return`


class _Lowering:
    def __init__(self) -> None:
        self.reads_returned = False
        self.loops = 0

    def inside(self, statements: Sequence[ast.stmt]) -> list[ast.stmt]:
        """Statements out of which nothing jumps, though there may be loops with jumps among them;
        a `return` at the end stays."""
        return [new for s in self._split(statements) for new in self._still(s)]

    def block(self, statements: Sequence[ast.stmt], loop: _LoopFlags | None) -> list[ast.stmt]:
        """Statements with their jumps lowered; `loop` is the one that they are in."""
        statements = self._split(statements)
        made: list[ast.stmt] = []
        for place, statement in enumerate(statements):
            rest = statements[place + 1 :]
            if isinstance(statement, (ast.Return, ast.Break, ast.Continue)):
                return made + self._jump(statement, loop)
            if not jumps_out_of(statement):
                made += self._still(statement)
            elif isinstance(statement, ast.If):
                return made + self._branches(statement, rest, loop)
            elif isinstance(statement, _LOOPS):
                stop = [] if loop is None else [_assign(loop.broken, ast.Constant(True), statement)]
                if _has_no_end(statement):  # what follows is never reached
                    return [*made, *self._loop(statement), *stop]
                made += self._loop(statement)
                if rest or stop:
                    self.reads_returned = True
                    following = self.block(rest, loop)
                    made.append(_if(_name(RETURNED), stop, following, statement))
                return made
            else:
                made.append(self._within(statement, loop))
                return made + self._guarded(rest, loop, statement)
        return made

    def _jump(self, statement: ast.stmt, loop: _LoopFlags | None) -> list[ast.stmt]:
        made: list[ast.stmt] = []
        if isinstance(statement, ast.Return):
            made.append(_assign(RESULT, statement.value or ast.Constant(None), statement))
            made.append(_assign(RETURNED, ast.Constant(True), statement))
        if loop is not None:
            flag = loop.skipped if isinstance(statement, ast.Continue) else loop.broken
            made.append(_assign(flag, ast.Constant(True), statement))
        return made

    def _branches(
        self, statement: ast.If, rest: Sequence[ast.stmt], loop: _LoopFlags | None
    ) -> list[ast.stmt]:
        body, orelse = statement.body, statement.orelse
        if _always(body):
            return [
                _if(
                    statement.test,
                    self.block(body, loop),
                    self.block([*orelse, *rest], loop),
                    statement,
                )
            ]
        if orelse and _always(orelse):
            return [
                _if(
                    statement.test,
                    self.block([*body, *rest], loop),
                    self.block(orelse, loop),
                    statement,
                )
            ]
        made = _if(statement.test, self.block(body, loop), self.block(orelse, loop), statement)
        return [made, *self._guarded(rest, loop, statement)]

    def _guarded(
        self, rest: Sequence[ast.stmt], loop: _LoopFlags | None, at: ast.stmt
    ) -> list[ast.stmt]:
        """What follows, where nothing has jumped."""
        if not rest:
            return []
        if loop is None:
            self.reads_returned = True
            test: ast.expr = _name(RETURNED)
        else:
            loop.reads_skipped = True
            test = _name(loop.skipped)
            if loop.stops:  # else nothing sets the other flag
                test = ast.BoolOp(ast.Or(), [_name(loop.broken), test])
        return [_if(test, [], self.block(rest, loop), at)]

    def _within(self, statement: ast.stmt, loop: _LoopFlags | None) -> ast.stmt:
        """A `with` or `try` that is jumped out of."""
        if isinstance(statement, ast.Try) and statement.orelse:
            statement.body = [*statement.body]
            guarded = self._guarded(statement.orelse, loop, statement)
            statement.orelse = guarded
        elif isinstance(statement, ast.Try):
            statement.orelse = []
        for field in ("body", "finalbody"):
            if getattr(statement, field, None):
                setattr(statement, field, self.block(getattr(statement, field), loop))
        for part in [*getattr(statement, "handlers", []), *getattr(statement, "cases", [])]:
            part.body = self.block(part.body, loop)
        return statement

    def _split(self, statements: Sequence[ast.stmt]) -> list[ast.stmt]:
        """The statements with the `else` of loops behind them."""
        made: list[ast.stmt] = []
        for statement in statements:
            made.append(statement)
            if isinstance(statement, _LOOPS) and not hasattr(statement, "flags"):
                _test_inside(statement)
                self.loops += 1
                statement.flags = flags = _LoopFlags(self.loops)  # type: ignore[union-attr]
                kinds = set().union(*[jumps_out_of(s) for s in statement.body], set())
                flags.stops = bool(kinds & {"break", "return"})
                orelse, statement.orelse = statement.orelse, []
                if orelse and flags.stops:
                    made.append(_if(_name(flags.broken), [], orelse, statement))
                else:
                    made += self._split(orelse)
        return made

    def _still(self, statement: ast.stmt) -> list[ast.stmt]:
        """A statement that nothing jumps out of; the loops in it may have jumps of their own."""
        if isinstance(statement, _LOOPS):
            return self._loop(statement)
        if not isinstance(statement, _SCOPES):
            for field in ("body", "orelse", "finalbody"):
                inner = getattr(statement, field, None)
                if isinstance(inner, list):
                    setattr(statement, field, self.inside(inner))
            for part in [*getattr(statement, "handlers", []), *getattr(statement, "cases", [])]:
                part.body = self.inside(part.body)
        return [statement]

    def _loop(self, statement: ast.For | ast.While) -> list[ast.stmt]:
        loop: _LoopFlags = statement.flags  # type: ignore[union-attr]
        body = self.block(statement.body, loop)
        if loop.reads_skipped:
            body.insert(0, _assign(loop.skipped, ast.Constant(False), statement))
        else:
            body = _without(body, loop.skipped)
        statement.body = body
        start = [_assign(loop.broken, ast.Constant(False), statement)] if loop.stops else []
        return [*start, statement]


def _test_inside(statement: ast.For | ast.While) -> None:
    """A condition that assigns becomes the first statement of the turn."""
    if not isinstance(statement, ast.While) or statement.orelse:
        return
    test = statement.test
    if any(isinstance(part, ast.NamedExpr) for part in ast.walk(test)):
        ends = ast.copy_location(ast.UnaryOp(ast.Not(), test), test)
        leave = ast.copy_location(ast.Break(), test)
        statement.body.insert(0, _if(ends, [leave], [], statement))
        statement.test = ast.copy_location(ast.Constant(True), test)


def jumps_out_of(statement: ast.AST) -> set[str]:
    """The kinds of jumps that lead out of a statement."""
    if isinstance(statement, (ast.Return, ast.Break, ast.Continue)):
        return {type(statement).__name__.lower()}
    if isinstance(statement, (*_SCOPES, ast.expr)):
        return set()
    if isinstance(statement, _LOOPS):
        inner = set().union(*[jumps_out_of(s) for s in statement.body], set())
        after = set().union(*[jumps_out_of(s) for s in statement.orelse], set())
        return (inner & {"return"}) | after
    return set().union(*[jumps_out_of(child) for child in ast.iter_child_nodes(statement)], set())


def _always(statements: Sequence[ast.stmt]) -> bool:
    """Whether control never reaches the end of these statements by a jump."""
    for statement in statements:
        if isinstance(statement, (ast.Return, ast.Break, ast.Continue, ast.Raise)):
            return True
        if isinstance(statement, ast.If) and _always(statement.body) and _always(statement.orelse):
            return True
        if isinstance(statement, _LOOPS) and _has_no_end(statement):
            return True
    return False


def _has_no_end(loop: ast.For | ast.While) -> bool:
    """Whether a loop is left by `return` alone."""
    test = getattr(loop, "test", None)
    endless = isinstance(test, ast.Constant) and bool(test.value)
    return endless and "break" not in set().union(*[jumps_out_of(s) for s in loop.body], set())


def _without(statements: list[ast.stmt], name: str) -> list[ast.stmt]:
    """The statements without assignments to a flag that nobody reads."""

    class Remove(ast.NodeTransformer):
        def visit_Assign(self, node: ast.Assign) -> ast.stmt:
            target = node.targets[0]
            gone = isinstance(target, ast.Name) and target.id == name
            return ast.copy_location(ast.Pass(), node) if gone else node

    remove = Remove()
    return [remove.visit(statement) for statement in statements]


def _if(test: ast.expr, body: list[ast.stmt], orelse: list[ast.stmt], at: ast.stmt) -> ast.If:
    made = ast.If(test, body or [ast.copy_location(ast.Pass(), at)], orelse)
    ast.copy_location(test, at) if not hasattr(test, "lineno") else None
    return ast.fix_missing_locations(ast.copy_location(made, at))


def _assign(name: str, value: ast.expr, at: ast.AST) -> ast.stmt:
    made = ast.Assign([ast.Name(name, ast.Store())], value)
    return ast.fix_missing_locations(ast.copy_location(made, at))


def _name(name: str) -> ast.Name:
    return ast.Name(name, ast.Load())
