"""The source of a function, as a syntax tree that is known to be that of its code.

A function knows its file and its first line. What stands there now may be something else (the file
was changed, several lambdas share a line), so what is found is compiled and compared with the code
that the function has; only what is equal is taken.
"""

from __future__ import annotations
import __future__

import ast
import contextlib
import functools
import inspect
import linecache
import types
from collections.abc import Iterator, Sequence
from typing import Any

FUTURES = functools.reduce(
    lambda flags, name: flags | getattr(__future__, name).compiler_flag,
    __future__.all_feature_names,
    0,
)
Definition = ast.FunctionDef | ast.Lambda
_OUTER = "_wengert_outer"


class Unconvertible(Exception):  # noqa: N818 - steers; its text ends up in other errors
    """Why a function stays as it is."""


def definition(function: types.FunctionType) -> Definition:
    """The syntax tree of a function, with the line numbers of its file."""
    code = function.__code__
    lines = linecache.getlines(code.co_filename, function.__globals__)
    if not lines or code.co_firstlineno > len(lines):
        raise Unconvertible("its source cannot be read")
    for node, imported in _candidates(function, lines):
        if isinstance(node, ast.AsyncFunctionDef):
            raise Unconvertible("it is a coroutine")
        if _is_source_of(node, code, imported):
            found: Definition = node
            return found
    raise Unconvertible(
        "its source has changed since it was imported, or is not the only one there"
    )


def _candidates(
    function: types.FunctionType, lines: list[str]
) -> Iterator[tuple[Any, Sequence[str]]]:
    """Definitions at the first line of a function, and the names that their module imports: calls
    of attributes of these are compiled otherwise."""
    code = function.__code__
    if code.co_name != "<lambda>":
        imported = _imported(function)
        with contextlib.suppress(SyntaxError, IndexError, inspect.EndOfBlock):
            tree = _block(code.co_firstlineno, lines)
            yield from ((node, imported) for node in _walk(tree, code))
    tree, imported = _file("".join(lines))
    yield from ((node, imported) for node in _walk(tree, code))


def _imported(function: types.FunctionType) -> list[str]:
    """The names that a module seems to import."""
    known = function.__globals__
    own = known.get("__name__")
    names = [name for code in _every(function.__code__) for name in code.co_names if name in known]
    return sorted(
        {
            name
            for name in names
            if isinstance(known[name], types.ModuleType)
            or getattr(known[name], "__module__", own) != own
        }
    )


def _every(code: types.CodeType) -> list[types.CodeType]:
    inner = [const for const in code.co_consts if isinstance(const, types.CodeType)]
    return [code, *[one for const in inner for one in _every(const)]]


def _block(first: int, lines: list[str]) -> ast.AST:
    """The statement that begins at a line; cheaper than the whole file."""
    text = "".join(inspect.getblock(lines[first - 1 :]))
    indented = text[:1] in " \t"
    tree = ast.parse("if 1:\n" + text if indented else text)
    return ast.increment_lineno(tree, first - 2 if indented else first - 1)


@functools.lru_cache(64)
def _file(text: str) -> tuple[ast.AST, list[str]]:
    """A whole file, and what it imports."""
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return ast.Module([], []), []
    pending: list[ast.AST] = list(tree.body)
    names = set()
    while pending:
        now = pending.pop()
        if isinstance(now, (ast.Import, ast.ImportFrom)):
            names |= {(alias.asname or alias.name).split(".")[0] for alias in now.names}
        elif not isinstance(now, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.expr)):
            pending += ast.iter_child_nodes(now)
    return tree, sorted(names - {"*"})


def _walk(tree: ast.AST, code: types.CodeType) -> Iterator[Any]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Lambda):
            if code.co_name == "<lambda>" and node.lineno == code.co_firstlineno:
                yield node
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            first = min([node.lineno, *[d.lineno for d in node.decorator_list]])
            if node.name == code.co_name and first == code.co_firstlineno:
                yield node


# ---------------------------------------------------------------- compiling


def compiled(
    node: Definition,
    code: types.CodeType,
    extra: Sequence[str] = (),
    imported: Sequence[str] = (),
) -> types.CodeType:
    """The code of a definition that stands where `code` does: with its free variables, in its
    class, and with `extra` names that are free variables too."""
    module = _module(node, code, extra, imported)
    flags = code.co_flags & FUTURES
    made = compile(module, code.co_filename, "exec", flags=flags, dont_inherit=True)
    found = _code_in(made, code.co_name, _class_of(code))
    return found.replace(co_qualname=code.co_qualname)


def _module(
    node: Definition, code: types.CodeType, extra: Sequence[str], imported: Sequence[str]
) -> ast.Module:
    inner: ast.stmt = _alone(node) if isinstance(node, ast.FunctionDef) else ast.Expr(_bare(node))
    owner = _class_of(code)
    if owner:
        inner = ast.ClassDef(owner, [], [], [inner], [])
        inner.type_params = []  # type: ignore[attr-defined]
    names = [*code.co_freevars, *extra]
    bound = [ast.Assign([ast.Name(name, ast.Store())], ast.Constant(None)) for name in names]
    # what is defined here is no name of the function around it
    defined = owner or (node.name if isinstance(node, ast.FunctionDef) else "")
    own: list[ast.stmt] = [ast.Global([defined])] if defined and defined not in names else []
    outer = ast.FunctionDef(_OUTER, _no_arguments(), [*own, *bound, inner], [], None)
    outer.type_params = []  # type: ignore[attr-defined]
    imports: list[ast.stmt] = [ast.Import([ast.alias(name) for name in imported])]
    module = ast.Module([*(imports if imported else []), outer], [])
    return ast.fix_missing_locations(module)


def _no_arguments() -> ast.arguments:
    return ast.arguments([], [], None, [], [], None, [])


def _alone(node: ast.FunctionDef) -> ast.FunctionDef:
    """The definition without what is evaluated outside of it: decorators, defaults, annotations."""
    made = ast.FunctionDef(node.name, _plain(node.args), node.body, [], None)
    made.type_params = []  # type: ignore[attr-defined]
    return ast.copy_location(made, node)


def _bare(node: ast.Lambda) -> ast.Lambda:
    return ast.copy_location(ast.Lambda(_plain(node.args), node.body), node)


def _plain(given: ast.arguments) -> ast.arguments:
    def bare(arg: ast.arg | None) -> Any:
        return None if arg is None else ast.copy_location(ast.arg(arg.arg), arg)

    return ast.arguments(
        [bare(arg) for arg in given.posonlyargs],
        [bare(arg) for arg in given.args],
        bare(given.vararg),
        [bare(arg) for arg in given.kwonlyargs],
        [None for _ in given.kwonlyargs],
        bare(given.kwarg),
        [],
    )


def _class_of(code: types.CodeType) -> str:
    """The class whose body has the definition, by which names with two underscores are mangled."""
    parts = code.co_qualname.split(".")
    return parts[-2] if len(parts) > 1 and parts[-2] != "<locals>" else ""


def _code_in(module: types.CodeType, name: str, owner: str) -> types.CodeType:
    """The code of a definition in the module that was made for it."""
    code = module
    for inner in [_OUTER, *([owner] if owner else []), name]:
        code = next(
            c for c in code.co_consts if isinstance(c, types.CodeType) and c.co_name == inner
        )
    return code


# ---------------------------------------------------------------- comparing


def _is_source_of(node: Definition, code: types.CodeType, imported: Sequence[str]) -> bool:
    try:
        found = compiled(node, code, (), imported)
    except (SyntaxError, ValueError, Unconvertible):
        return False
    if _rewritten(code):
        return found.co_varnames[: found.co_argcount] == code.co_varnames[: code.co_argcount]
    return _same(found, code)


def _rewritten(code: types.CodeType) -> bool:
    """Whether pytest has rewritten assertions, which changes the code and not what it does."""
    inner = [const for const in code.co_consts if isinstance(const, types.CodeType)]
    return "@pytest_ar" in code.co_names or any(map(_rewritten, inner))


def _same(one: types.CodeType, other: types.CodeType) -> bool:
    names = ("co_code", "co_names", "co_varnames", "co_freevars", "co_cellvars", "co_argcount")
    return (
        all(getattr(one, name) == getattr(other, name) for name in names)
        and one.co_exceptiontable == other.co_exceptiontable
        and len(one.co_consts) == len(other.co_consts)
        and all(map(_same_constant, one.co_consts, other.co_consts))
    )


def _same_constant(one: Any, other: Any) -> bool:
    if isinstance(one, types.CodeType) and isinstance(other, types.CodeType):
        return _same(one, other)
    return type(one) is type(other) and repr(one) == repr(other)
