"""`match` written as `if`: what it compares may be traced.

    match k:                          subject = k
        case 0 | 1:                   if subject == 0 or subject == 1:
            a                             a
        case n if n > 5:      ->      else:
            b                             n = subject
        case _:                           fits = n > 5
            c                             if fits: b
                                          else: c

Patterns of values, of sequences of a known length, and names are written so; others, of mappings
and classes, stay as they are.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

from .conversion import PREFIX

_SIMPLE = (ast.MatchValue, ast.MatchSingleton, ast.MatchOr, ast.MatchAs, ast.MatchSequence)


def write_ifs(node: ast.FunctionDef) -> None:
    """Write the `match` statements of a function as `if`."""
    _Matching().visit(node)
    ast.fix_missing_locations(node)


class _Matching(ast.NodeTransformer):
    def __init__(self) -> None:
        self.count = 0

    def visit_Match(self, node: ast.Match) -> ast.stmt | list[ast.stmt]:
        self.generic_visit(node)
        parts = [part for case in node.cases for part in ast.walk(case.pattern)]
        patterns = [part for part in parts if isinstance(part, ast.pattern)]
        if not all(isinstance(one, _SIMPLE) for one in patterns):
            return node
        self.count += 1
        name = f"{PREFIX}subject{self.count}"
        made = [_assigned(name, node.subject), *self._written(node.cases, name)]
        for one in made:
            for part in ast.walk(one):
                if not hasattr(part, "lineno"):
                    ast.copy_location(part, node)
        return made

    def _written(self, cases: Sequence[ast.match_case], name: str) -> list[ast.stmt]:
        """The first of some cases, and the others where it does not fit."""
        if not cases:
            return []
        case, *rest = cases
        subject = ast.Name(name, ast.Load())
        tests, names = _tests(case.pattern, subject), _names(case.pattern, subject)
        following = self._written(rest, name)
        if case.guard is not None and not names:
            tests = [*tests, case.guard]
        if case.guard is None or not names:
            body = [*names, *case.body]
            return [ast.If(_all(tests), body, following)] if tests else body
        self.count += 1
        fits = f"{PREFIX}fits{self.count}"
        asked: list[ast.stmt] = [*names, _assigned(fits, case.guard)]
        if tests:
            asked = [ast.If(_all(tests), asked, [_assigned(fits, ast.Constant(False))])]
        return [*asked, ast.If(ast.Name(fits, ast.Load()), case.body, following)]


def _tests(pattern: ast.pattern, subject: ast.expr) -> list[ast.expr]:
    """What must hold for a pattern to fit."""
    if isinstance(pattern, ast.MatchValue):
        return [ast.Compare(subject, [ast.Eq()], [pattern.value])]
    if isinstance(pattern, ast.MatchSingleton):
        asked = subject if pattern.value is None else _call("subject", subject)
        return [ast.Compare(asked, [ast.Is()], [ast.Constant(pattern.value)])]
    if isinstance(pattern, ast.MatchOr):
        each = [_tests(one, subject) for one in pattern.patterns]
        return [ast.BoolOp(ast.Or(), list(map(_all, each)))] if all(each) else []
    if isinstance(pattern, ast.MatchSequence):
        parts = list(enumerate(pattern.patterns))
        inner = [test for k, one in parts for test in _tests(one, _item(subject, k))]
        return [_call("is_sequence", subject, ast.Constant(len(parts))), *inner]
    assert isinstance(pattern, ast.MatchAs)
    return [] if pattern.pattern is None else _tests(pattern.pattern, subject)


def _names(pattern: ast.pattern, subject: ast.expr) -> list[ast.stmt]:
    """The assignments of a pattern that fits."""
    if isinstance(pattern, ast.MatchSequence):
        parts = enumerate(pattern.patterns)
        return [new for k, one in parts for new in _names(one, _item(subject, k))]
    if not isinstance(pattern, ast.MatchAs):
        return []
    inner = [] if pattern.pattern is None else _names(pattern.pattern, subject)
    return [*inner, *([_assigned(pattern.name, subject)] if pattern.name else [])]


def _all(tests: Sequence[ast.expr]) -> ast.expr:
    return tests[0] if len(tests) == 1 else ast.BoolOp(ast.And(), list(tests))


def _item(subject: ast.expr, k: int) -> ast.expr:
    return ast.Subscript(subject, ast.Constant(k), ast.Load())


def _call(name: str, *args: ast.expr) -> ast.expr:
    function = ast.Attribute(ast.Name(PREFIX, ast.Load()), name, ast.Load())
    return ast.Call(function, list(args), [])


def _assigned(name: str, value: ast.expr) -> ast.stmt:
    return ast.Assign([ast.Name(name, ast.Store())], value)
