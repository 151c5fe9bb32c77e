"""Control flow in a syntax tree written as calls, which decide while the function is traced.

    while err > tol:                  def body(): nonlocal err, x; ...
        x = step(x)          ->       runtime.while_(lambda: err > tol, body, get, set, 0)
        err = abs(x)

`get` and `set` read and write the variables that a statement changes, so that the runtime can put
traced values in their place; `0` is the number of a `Statement`, which says what is known of it
from its text. Conditional expressions, `and`, `or`, `not` and chains of comparisons become calls
with functions for what may not be evaluated. Calls look up their function through the runtime, so
that helpers are converted too, and writes to elements and attributes tell it of their object.
"""

from __future__ import annotations

import ast
import builtins
import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from .assigned import flag_unsure
from .conversion import PREFIX
from .counters import mark_counters
from .jumps import lower
from .matches import write_ifs
from .names import Liveness, names_of, parameters
from .source import Definition, Unconvertible
from .stack_names import write_stacks
from .yields import emits, is_generator, write_turns

_PLAIN = (
    ast.Assign,
    ast.AugAssign,
    ast.AnnAssign,
    ast.If,
    ast.For,
    ast.While,
    ast.Pass,
    ast.Expr,
    ast.Assert,
    ast.Raise,
    ast.FunctionDef,
    ast.Return,
)
_OF_PLACES = (ast.Name, ast.Constant, ast.BinOp, ast.operator, ast.expr_context)
_OWN_CALL = ast.dump(ast.Attribute(ast.Name(PREFIX, ast.Load()), "")).partition(", attr")[0]
_LOCAL = ("locals", "eval", "exec", "vars", "dir")
_ITERATORS = ("range", "reversed", "enumerate", "zip")


@dataclass
class Statement:
    """What the text says of an `if` or a loop."""

    line: int
    function: str
    names: list[str]  # that `get` and `set` know: first those that it changes, then those it reads
    changed: int  # the number of the first
    live: frozenset[str]  # read behind it
    enters: frozenset[str] = frozenset()  # of a loop: read in a turn, from before it
    touched: frozenset[str] = frozenset()  # whose elements are written
    targets: tuple[str, ...] = ()  # of a `for`
    plain: bool = False  # whether it does nothing but assign
    outside: frozenset[str] = frozenset()  # names of the module that it changes
    nested: bool = False  # whether there may be loops inside
    stacks: frozenset[str] = frozenset()  # lists that items are put on and taken off
    filled: frozenset[str] = frozenset()  # that may hold anything where they have no value
    yields: bool = False  # whether a generator yields in it


def rewrite(
    node: Definition, free: Sequence[str], stops: bool = False
) -> tuple[Definition, list[Statement], bool]:
    """The definition with its control flow as calls, what is known of each statement, and whether
    the function does nothing but assign to names and elements."""
    rewriter = _Rewriter([set(free)], stops)
    made = rewriter.function(node) if isinstance(node, ast.FunctionDef) else rewriter.lambda_(node)
    plain = isinstance(node, ast.Lambda) or _is_plain(node.body)
    return ast.fix_missing_locations(made), rewriter.statements, plain


def _is_plain(statements: Sequence[ast.stmt]) -> bool:
    """Whether some statements assign to variables of the function, and do nothing else."""
    for statement in statements:
        if not isinstance(statement, _PLAIN):
            return False
        for part in ("body", "orelse"):
            inner: Any = getattr(statement, part, None)
            looked_into = isinstance(inner, list) and not isinstance(statement, ast.FunctionDef)
            if looked_into and not _is_plain(inner):
                return False
    return True


def _told(outer: dict[str, str]) -> str:
    """What tells that a function changes variables of those around it, or of the module."""
    if not outer:
        return ""
    held = [name for name, kind in outer.items() if kind == "nonlocal"]
    names = ", ".join(repr(name) for name, kind in outer.items() if kind == "global")
    return f"{PREFIX}.outside(lambda: [{', '.join(held)}], {names!r})"


def _raises(node: ast.AST) -> bool:
    """Whether it raises an error, not in a function inside."""
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)):
        return False
    return isinstance(node, ast.Raise) or any(map(_raises, ast.iter_child_nodes(node)))


def _may_loop(node: ast.AST) -> bool:
    """Whether it is a loop, or a call of something that may have one."""
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Name) and not hasattr(builtins, node.func.id)
    return isinstance(node, (ast.For, ast.While, ast.comprehension))


class _Asserted(ast.NodeTransformer):
    """Writes ``assert c, text`` as ``if not c: raise AssertionError(text)``."""

    def visit_Assert(self, node: ast.Assert) -> ast.If:
        given = [] if node.msg is None else [node.msg]
        error = ast.Call(ast.Name("AssertionError", ast.Load()), given, [])
        made = ast.If(ast.UnaryOp(ast.Not(), node.test), [ast.Raise(error)], [])
        for part in ast.walk(made):
            if not hasattr(part, "lineno"):
                ast.copy_location(part, node)
        return made


class _Rewriter(ast.NodeTransformer):
    def __init__(self, scopes: list[set[str]], stops: bool):
        self.stops = stops  # whether what goes over a generator may stop before its end
        self.scopes = scopes  # names of the functions around, then those of this one
        self.statements: list[Statement] = []
        self.name = ""
        self.outer: dict[str, str] = {}
        self.bound: set[str] = set()
        self.first = ""  # the first parameter, for `super()`
        self.stacks: frozenset[str] = frozenset()  # lists of the function that are stacks
        self.filled: frozenset[str] = frozenset()  # its variables that may hold anything, see there
        self.count = 0

    # ------------------------------------------------------------ functions

    def function(self, node: ast.FunctionDef) -> ast.FunctionDef:
        """A function and those inside."""
        yields = is_generator(node)
        if yields and len(self.scopes) > 1:
            return node
        if yields:
            write_turns(node, self.stops)
        write_ifs(node)
        names = names_of(node.body)
        if names.read & set(_LOCAL):
            if len(self.scopes) == 1:
                used = sorted(names.read & set(_LOCAL))[0]
                raise Unconvertible(f"it calls {used}(), which sees the names of a function")
            return node
        around, self.stacks = (self.stacks, self.filled), write_stacks(node)
        _Asserted().visit(node)
        self.filled = flag_unsure(node)
        mark_counters(node)
        lower(node)
        names = names_of(node.body)
        given = parameters(node.args)
        own = (names.written - names.outer.keys()) | set(given)
        always = names.captured | names.outer.keys()
        Liveness(set(always)).before(node.body, set())
        outside = self.name, self.outer, self.bound, self.first
        self.name, self.outer, self.bound = node.name, names.outer, set()
        self.first = given[0] if given else ""
        self.scopes.append(own)
        documented = ast.get_docstring(node, clean=False) is not None
        head, rest = (node.body[:1], node.body[1:]) if documented else ([], node.body)
        # declarations come first, before the names are used
        declared = [s for s in rest if isinstance(s, (ast.Global, ast.Nonlocal))]
        body = self._block([s for s in rest if s not in declared])
        self.scopes.pop()
        bound = sorted(self.bound & own - set(given))
        binding = f"if False: {' = '.join(bound)} = None" if bound else ""
        first = [*declared, *_parsed(binding, node), *_parsed(_told(names.outer), node)]
        node.body = [*head, *first, *body] or [ast.Pass()]
        if yields:
            self._of_items(node, True)
        self.name, self.outer, self.bound, self.first = outside
        self.stacks, self.filled = around
        return node

    def lambda_(self, node: ast.Lambda) -> ast.Lambda:
        """A lambda and what is inside."""
        if is_generator(node):
            raise Unconvertible("it is a generator")
        given = parameters(node.args)
        outside, self.first = self.first, given[0] if given else ""
        self.scopes.append(set(given))
        node.body = self.visit(node.body)
        self.scopes.pop()
        self.first = outside
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> Any:
        node.decorator_list = [self.visit(d) for d in node.decorator_list]
        node.args = self.visit(node.args)
        return self.function(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> Any:
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> Any:
        return node

    def visit_Lambda(self, node: ast.Lambda) -> Any:
        node.args = self.visit(node.args)
        return node if is_generator(node) else self.lambda_(node)

    # ------------------------------------------------------------ statements

    def _block(self, statements: Sequence[ast.stmt]) -> list[ast.stmt]:
        made: list[ast.stmt] = []
        for statement in _joined(statements):
            new = self.visit(statement)
            made += new if isinstance(new, list) else [new]
        return made

    def _known(self, name: str) -> bool:
        """Whether a name is a variable of this function or one around it."""
        return any(name in scope for scope in self.scopes)

    def _statement(
        self, node: Any, parts: Sequence[ast.AST], plain: bool = False
    ) -> tuple[int, str]:
        """The number of a statement, and what its functions declare."""
        names = names_of(parts)
        changed = sorted(
            {n for n in names.written if self._known(n) or n in self.outer}
            | {n for n in names.touched if self._known(n)}
        )
        later = node.live if any(map(_raises, parts)) else frozenset()
        read = sorted(n for n in (names.read | later) - set(changed) if self._known(n))
        self.bound |= set(changed) | set(read)
        statement = Statement(
            node.lineno,
            self.name,
            [*changed, *read],
            len(changed),
            frozenset(node.live),
            frozenset(getattr(node, "enters", ())),
            frozenset(names.touched & {*changed, *read}),
            tuple(sorted(names_of([node.target]).written)) if isinstance(node, ast.For) else (),
            plain and not names.outer and not names.written & self.outer.keys(),
            frozenset(n for n in names.written if self.outer.get(n) == "global"),
            any(map(_may_loop, (part for one in parts for part in ast.walk(one)))),
            self.stacks & names.written,
            self.filled & names.written,
            any(map(emits, (part for one in parts for part in ast.walk(one)))),
        )
        self.statements.append(statement)
        return len(self.statements) - 1, self._declarations(statement.names)

    def _declarations(self, names: Sequence[str]) -> str:
        """The text that lets a function inside change variables."""
        ours = [n for n in names if self.outer.get(n) != "global"]
        theirs = [n for n in names if self.outer.get(n) == "global"]
        text = f"nonlocal {', '.join(ours)}\n" if ours else ""
        return text + (f"global {', '.join(theirs)}\n" if theirs else "")

    def _state(self, number: int, key: int, declared: str, node: ast.AST) -> list[ast.stmt]:
        """The functions that read and write the variables of a statement."""
        names = self.statements[number].names
        reads = "".join(f"lambda: {name}, " for name in names)
        lines = [f"def {PREFIX}get{key}(): return {PREFIX}.values({reads})"]
        lines.append(f"def {PREFIX}set{key}({PREFIX}new):")
        lines += [f"    {line}" for line in declared.splitlines()]
        for place, name in enumerate(names):
            lines.append(f"    {name} = {PREFIX}new[{place}]")
            lines.append(f"    if {name} is {PREFIX}.UNDEFINED: del {name}")
        if not names:
            lines.append("    pass")
        return _parsed("\n".join(lines), node)

    def _define(
        self, name: str, body: list[ast.stmt], declared: str, node: ast.AST, argument: str = ""
    ) -> ast.stmt:
        (made,) = _parsed(f"def {name}({argument}):\n pass", node)
        assert isinstance(made, ast.FunctionDef)
        made.body = [*_parsed(declared, node), *body] or [ast.copy_location(ast.Pass(), node)]
        return made

    def _call(self, text: str, node: ast.AST, **parts: ast.expr) -> list[ast.stmt]:
        """A call written as text, in which names stand for expressions."""
        (made,) = _parsed(text, node)

        class Put(ast.NodeTransformer):
            def visit_Name(self, name: ast.Name) -> ast.AST:
                return parts.get(name.id, name)

        return [Put().visit(made)]

    def visit_If(self, node: ast.If) -> Any:
        self.count += 1
        key = self.count
        number, declared = self._statement(node, [*node.body, *node.orelse])
        test = self.visit(node.test)
        body, orelse = self._block(node.body), self._block(node.orelse)
        functions = f"{PREFIX}then{key}, {PREFIX}else{key}, {PREFIX}get{key}, {PREFIX}set{key}"
        return [
            self._define(f"{PREFIX}then{key}", body, declared, node),
            self._define(f"{PREFIX}else{key}", orelse, declared, node),
            *self._state(number, key, declared, node),
            *self._call(f"{PREFIX}.if_(TEST, {functions}, {number})", node, TEST=test),
        ]

    def visit_Raise(self, node: ast.Raise) -> Any:
        """What its text says of traced values are their types."""
        self.generic_visit(node)
        for part in ast.walk(node):
            if isinstance(part, ast.FormattedValue):
                part.value = self._runtime_call("told", part.value, part.value)
        return node

    def visit_While(self, node: ast.While) -> Any:
        self.count += 1
        key = self.count
        if any(isinstance(part, ast.NamedExpr) for part in ast.walk(node.test)):
            raise Unconvertible(f"line {node.lineno} assigns in the condition of a loop")
        number, declared = self._statement(node, [node.test, *node.body], _is_plain(node.body))
        counter: Any = copy.deepcopy(getattr(node, "counter", None))
        test = self.visit(node.test)
        flags: Any = getattr(node, "flags", None)
        stops = flags is not None and flags.stops
        body = self._block(node.body)
        functions = f"{PREFIX}body{key}, {PREFIX}get{key}, {PREFIX}set{key}"
        asked = (
            f"lambda: {PREFIX}.and_({PREFIX}.not_({flags.broken}), lambda: TEST)"
            if stops
            else "lambda: TEST"
        )
        defined = [
            self._define(f"{PREFIX}body{key}", body, declared, node),
            *self._state(number, key, declared, node),
        ]
        if counter is None:
            call = f"{PREFIX}.while_({asked}, {functions}, {number})"
            return [*defined, *self._call(call, node, TEST=test)]
        turn = f"{counter.name} = {PREFIX}item\n{PREFIX}body{key}()"
        bounds = f"lambda: ({counter.name}, BOUND, STEP), {counter.compared!r}"
        call = f"{PREFIX}.counting({bounds}, {PREFIX}turn{key}, {asked}, {functions}, {number})"
        bound, step = self.visit(counter.bound), self.visit(counter.step)
        return [
            *defined,
            self._define(
                f"{PREFIX}turn{key}", _parsed(turn, node), declared, node, PREFIX + "item"
            ),
            *self._call(call, node, TEST=test, BOUND=bound, STEP=step),
        ]

    def visit_For(self, node: ast.For) -> Any:
        self.count += 1
        key = self.count
        number, declared = self._statement(node, [node.target, *node.body], _is_plain(node.body))
        flags = getattr(node, "flags", None)
        more = f"lambda: {PREFIX}.not_({flags.broken})" if flags and flags.stops else "None"
        over = self._iterated(node.iter)
        target = ast.Assign([node.target], ast.Name(PREFIX + "item", ast.Load()))
        body = self._block([ast.copy_location(target, node), *node.body])
        functions = f"{PREFIX}body{key}, {more}, {PREFIX}get{key}, {PREFIX}set{key}"
        return [
            self._define(f"{PREFIX}body{key}", body, declared, node, PREFIX + "item"),
            *self._state(number, key, declared, node),
            *self._call(f"{PREFIX}.for_(OVER, {functions}, {number})", node, OVER=over),
        ]

    def _iterated(self, node: ast.expr) -> ast.expr:
        """What a loop goes over; ranges and their like may be traced."""
        called = node.func if isinstance(node, ast.Call) else None
        if isinstance(called, ast.Name) and called.id in _ITERATORS and not self._known(called.id):
            assert isinstance(node, ast.Call)
            args = [self._iterated(arg) for arg in node.args]
            keywords = [ast.keyword(one.arg, self.visit(one.value)) for one in node.keywords]
            made = ast.Call(_runtime("over"), [called, *args], keywords)
            return ast.copy_location(made, node)
        visited: ast.expr = self.visit(node)
        return visited

    def visit_Match(self, node: ast.Match) -> Any:
        parts = [part for case in node.cases for part in ast.walk(case.pattern)]
        asked = any(isinstance(p, ast.MatchSingleton) and p.value is not None for p in parts)
        classes = any(isinstance(p, ast.MatchClass) for p in parts)
        self.generic_visit(node)
        if classes:
            node.subject = self._runtime_call("classed", node.subject, node.subject)
        if asked:
            node.subject = self._runtime_call("subject", node.subject, node.subject)
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> Any:
        if not isinstance(node.target, ast.Name):
            return self.generic_visit(node)
        if node.value is None:
            self.bound.add(node.target.id)
            return ast.copy_location(ast.Pass(), node)
        made = ast.Assign([node.target], self.visit(node.value))
        return ast.copy_location(made, node)

    def visit_Assign(self, node: ast.Assign) -> Any:
        """``a[i], a[j] = a[j], a[i]`` exchanges two items, which nobody else sees meanwhile."""
        exchanged = _exchanged(node)
        if exchanged is None:
            return self.generic_visit(node)
        parts = [self.visit(part) for part in exchanged]
        held = getattr(node, "held", None)
        if held is not None:
            call = self._runtime_call("exchange_by", node, *parts)
            return ast.copy_location(ast.Assign([held], call), node)
        return ast.copy_location(ast.Expr(self._runtime_call("exchange", node, *parts)), node)

    def visit_AugAssign(self, node: ast.AugAssign) -> Any:
        """``x += y`` changes what x holds, if that can be changed."""
        node.value = self.visit(node.value)
        if not isinstance(node.target, ast.Name):
            node.target = self.visit(node.target)
            return node
        if _is_bound_to_place(node.value):
            return node
        before = ast.Name(node.target.id, ast.Load())
        kind = ast.Constant(type(node.op).__name__)
        made = self._runtime_call("in_place", node, kind, before, node.value)
        return ast.copy_location(ast.Assign([node.target], made), node)

    # ------------------------------------------------------------ expressions

    def visit_IfExp(self, node: ast.IfExp) -> Any:
        if _is_bound_to_place(node.body, node.orelse):
            return self.generic_visit(node)
        test, body, orelse = map(self.visit, (node.test, node.body, node.orelse))
        return self._runtime_call("choose", node, test, _later(body), _later(orelse))

    def visit_BoolOp(self, node: ast.BoolOp) -> Any:
        if _is_bound_to_place(*node.values[1:]):
            return self.generic_visit(node)
        first, *rest = map(self.visit, node.values)
        name = "and_" if isinstance(node.op, ast.And) else "or_"
        return self._runtime_call(name, node, first, *map(_later, rest))

    def visit_UnaryOp(self, node: ast.UnaryOp) -> Any:
        visited = self.generic_visit(node)
        if isinstance(node.op, ast.Not):
            return self._runtime_call("not_", node, node.operand)
        return visited

    def visit_Compare(self, node: ast.Compare) -> Any:
        if len(node.ops) == 1 or _is_bound_to_place(*node.comparators[1:]):
            self.generic_visit(node)
            return self._compared(node) if len(node.ops) == 1 else node
        left, *others = map(self.visit, (node.left, *node.comparators))
        pairs: list[ast.expr] = []
        for op, other in zip(node.ops, others, strict=True):
            pair = ast.Compare(
                ast.Name(PREFIX + "a", ast.Load()), [op], [ast.Name(PREFIX + "b", ast.Load())]
            )
            given = ast.arguments(
                [], [ast.arg(PREFIX + "a"), ast.arg(PREFIX + "b")], None, [], [], None, []
            )
            pairs += [ast.Lambda(given, self._compared(pair)), _later(other)]
        return self._runtime_call("chain", node, left, *pairs)

    def _compared(self, node: ast.Compare) -> ast.expr:
        """A comparison; whether two things are one may be up to a traced condition."""
        sides = [node.left, *node.comparators]
        known = any(isinstance(side, ast.Constant) for side in sides)
        if known or not isinstance(node.ops[0], (ast.Is, ast.IsNot)):
            return node
        asked = self._runtime_call("is_", node, *sides)
        return asked if isinstance(node.ops[0], ast.Is) else ast.UnaryOp(ast.Not(), asked)

    def visit_Call(self, node: ast.Call) -> Any:
        if _is_named(node.func, ("super",)) and not node.args:
            node.args = [ast.Name("__class__", ast.Load()), ast.Name(self.first, ast.Load())]
            return ast.fix_missing_locations(node)
        if ast.dump(node.func).startswith(_OWN_CALL):
            node.args = [self.visit(arg) for arg in node.args]
            return node
        taken = [_is_taken(arg, node.func) and _is_convertible(arg) for arg in node.args]
        counted = _is_named(node.func, ("sum", "len")) and len(node.args) == 1
        node.func = self.visit(node.func)
        node.args = [
            self._taken(arg, counted) if one else self.visit(arg)
            for arg, one in zip(node.args, taken, strict=True)
        ]
        node.keywords = [self.visit(keyword) for keyword in node.keywords]
        node.func = self._runtime_call("taking" if any(taken) else "of", node.func, node.func)
        return node

    # ------------------------------------------------------------ comprehensions

    def visit_ListComp(self, node: ast.ListComp) -> Any:
        if not _is_convertible(node):
            return self.generic_visit(node)
        return self._comprehension(node, "listed", node.generators)

    def _taken(self, node: Any, counted: bool = False) -> ast.expr:
        """A comprehension that is taken by a function, or by another comprehension."""
        listed = "counted" if counted else "collect"
        name = listed if isinstance(node, ast.ListComp) else "generate"
        return self._comprehension(node, name, node.generators)

    def _comprehension(self, node: Any, name: str, generators: Any) -> ast.expr:
        """A call that goes over what the first `for` says; further ones are part of its turn."""
        first, *rest = generators
        over = self._iterated(first.iter)
        self.scopes.append(names_of([first.target]).written)
        nested = bool(rest) or any(map(_may_loop, ast.walk(node.elt)))
        pure = not any(isinstance(part, ast.Call) for one in first.ifs for part in ast.walk(one))
        if rest:
            element = self._comprehension(node, "generate", rest)
        elif isinstance(node.elt, ast.ListComp) and _is_convertible(node.elt):
            element = self._taken(node.elt)
        else:
            element = self.visit(node.elt)
        turn = _of_item(first.target, element)
        condition: ast.expr = ast.Constant(None)
        if first.ifs:
            asked = first.ifs[0] if len(first.ifs) == 1 else ast.BoolOp(ast.And(), first.ifs)
            condition = _of_item(first.target, self.visit(ast.copy_location(asked, first.ifs[0])))
        self.scopes.pop()
        number = self._of_items(node, nested)
        told = [ast.Constant(number), ast.Constant(pure), ast.Constant(bool(rest))]
        return self._runtime_call(name, node, over, turn, condition, *told)

    def _of_items(self, node: Any, nested: bool) -> int:
        """The number of the statement that makes a list of items; the next makes one result."""
        for names, changed in ((["items"], 0), (["result"], 1)):
            known = frozenset(names)
            made = Statement(
                node.lineno, self.name, names, changed, known, known, plain=True, nested=nested
            )
            self.statements.append(made)
        return len(self.statements) - 2

    def visit_Subscript(self, node: ast.Subscript) -> Any:
        return self._element(node)

    def visit_Attribute(self, node: ast.Attribute) -> Any:
        return self._element(node)

    def _element(self, node: Any) -> Any:
        self.generic_visit(node)
        if not isinstance(node.ctx, ast.Load):
            node.value = self._written(node)
        elif isinstance(node, ast.Subscript):
            node.value = self._runtime_call("table", node.value, node.value)
        return node

    def _written(self, node: ast.Subscript | ast.Attribute) -> ast.expr:
        """The object whose element or attribute is written: ``x`` of ``x[i] = y``."""
        if isinstance(node, ast.Attribute):
            return self._runtime_call("owner", node.value, node.value)
        inner = node.value
        if isinstance(inner, ast.Subscript) and not isinstance(inner.slice, (ast.Slice, ast.Tuple)):
            assert isinstance(inner.value, ast.Call)  # of `table`
            return self._runtime_call("row", inner, inner.value.args[0], inner.slice)
        return self._runtime_call("item", inner, inner)

    def _runtime_call(self, name: str, at: ast.AST, *args: ast.expr) -> ast.expr:
        made = ast.copy_location(ast.Call(_runtime(name), list(args), []), at)
        return ast.fix_missing_locations(made)


# Functions that take all items of a generator expression before they do anything else; or one.
_TAKING = ("sum", "any", "all", "max", "min", "list", "tuple", "sorted", "next")


def _is_taken(node: ast.expr, function: ast.expr) -> bool:
    """Whether an argument is a comprehension that a function takes as a whole."""
    if isinstance(node, ast.GeneratorExp):
        return _is_named(function, _TAKING)
    return isinstance(node, ast.ListComp)


def _joined(statements: Sequence[ast.stmt]) -> list[ast.stmt]:
    """Statements with ``held = a[i]; a[i] = a[j]; a[j] = held`` as one exchange of two items."""
    made: list[Any] = []
    for statement in statements:
        made.append(statement)
        match made[-3:]:
            case [
                ast.Assign([ast.Name() as held], ast.Subscript() as first),
                ast.Assign([ast.Subscript() as one], ast.Subscript() as other),
                ast.Assign([ast.Subscript() as last], ast.Name(name)),
            ] if name == held.id and ast.unparse(first) == ast.unparse(one):
                pairs: list[ast.expr] = [ast.Tuple([one, last]), ast.Tuple([other, first])]
                whole = ast.copy_location(ast.Assign(pairs[:1], pairs[1]), statement)
                names = names_of([first.slice, other.slice, first.value]).read
                if _exchanged(whole) is not None and name not in names:
                    whole.held = held  # type: ignore[attr-defined]
                    made[-3:] = [whole]
    return made


def _exchanged(node: ast.Assign) -> list[ast.expr] | None:
    """The list and the two places of ``a[i], a[j] = a[j], a[i]``; None for all else."""
    match node:
        case ast.Assign(
            targets=[ast.Tuple([ast.Subscript() as first, ast.Subscript() as second])],
            value=ast.Tuple([ast.Subscript() as third, ast.Subscript() as fourth]),
        ):
            places = [first.slice, second.slice]
            owners = {
                ast.dump(ast.Name(one.value.id)) if isinstance(one.value, ast.Name) else ""
                for one in (first, second, third, fourth)
            }
            crossed = [ast.dump(fourth.slice), ast.dump(third.slice)]
            if "" in owners or len(owners) > 1 or [*map(ast.dump, places)] != crossed:
                return None
            parts = [part for place in places for part in ast.walk(place)]
            if all(isinstance(part, _OF_PLACES) for part in parts):
                return [third.value, *places]
    return None


def _is_named(function: ast.expr, names: Sequence[str]) -> bool:
    return isinstance(function, ast.Name) and function.id in names


def _is_convertible(node: Any) -> bool:
    """Whether a comprehension assigns to its own variables alone, each of which is read in its
    turn and no later: a function inside would see what the last turn has left there."""
    if _is_bound_to_place(node) or any(one.is_async for one in node.generators):
        return False
    plain = all(map(_is_plain_target, (one.target for one in node.generators)))
    inner: list[Any] = [p for one in ast.iter_child_nodes(node) for p in ast.walk(one)]
    taken = {
        id(arg)
        for part in inner
        if isinstance(part, ast.Call)
        for arg in part.args
        if _is_taken(arg, part.func)
    }
    later = (part for part in inner if isinstance(part, (ast.Lambda, ast.GeneratorExp)))
    return plain and all(id(part) in taken for part in later)


def _is_plain_target(node: ast.expr) -> bool:
    """Whether a target is made of names alone."""
    kinds = (ast.Name, ast.Tuple, ast.List, ast.Starred, ast.expr_context)
    return all(isinstance(part, kinds) for part in ast.walk(node))


def _of_item(target: ast.expr, result: ast.expr) -> ast.expr:
    """A function of an item: ``lambda i: result``."""
    name = target.id if isinstance(target, ast.Name) else PREFIX + "item"
    if not isinstance(target, ast.Name):  # a comprehension of one item takes it apart
        given = ast.Tuple([ast.Name(name, ast.Load())], ast.Load())
        parts = ast.ListComp(result, [ast.comprehension(copy.deepcopy(target), given, [], 0)])
        result = ast.Subscript(parts, ast.Constant(0), ast.Load())
    made = ast.Lambda(ast.arguments([], [ast.arg(name)], None, [], [], None, []), result)
    return ast.fix_missing_locations(ast.copy_location(made, target))


def _runtime(name: str) -> ast.expr:
    return ast.Attribute(ast.Name(PREFIX, ast.Load()), name, ast.Load())


def _later(expression: ast.expr) -> ast.expr:
    made = ast.Lambda(ast.arguments([], [], None, [], [], None, []), expression)
    return ast.copy_location(made, expression)


def _is_bound_to_place(*expressions: ast.expr) -> bool:
    """Whether expressions cannot move into a function: they assign, or wait."""
    kinds = (ast.NamedExpr, ast.Await, ast.Yield, ast.YieldFrom)
    return any(isinstance(part, kinds) for one in expressions for part in ast.walk(one))


def _parsed(text: str, at: ast.AST) -> list[ast.stmt]:
    """Statements written as text, all at the line of a node."""
    made = ast.parse(text).body
    for statement in made:
        for part in ast.walk(statement):
            if hasattr(part, "lineno"):
                ast.copy_location(part, at)
    return made
