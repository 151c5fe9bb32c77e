"""`check_grads`: derivatives against finite differences, to any order."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import tree
from ..errors import CheckGradsError, StructureError
from ..trace.tracing import argument_names, function_name
from ..types import Function
from .forward import jvp
from .reverse import vjp

STEP = 1e-3
TOLERANCE = 1e-6


def check_grads(
    f: Function,
    args: Sequence[Any],
    order: int = 2,
    modes: Sequence[str] = ("forward", "reverse"),
    tolerance: float = TOLERANCE,
    step: float = STEP,
    seed: int = 0,
) -> None:
    """Compare derivatives of `f` at `args` with finite differences; raise where they differ.

    Works in float64. Each order is checked along random directions: the forward derivative
    against a fourth-order difference, the reverse derivative against the same number. Higher
    orders nest the modes in every way, forward over reverse too. The error names the argument and
    the element, and shows the two numbers.

    >>> import numpy as np
    >>> check_grads(lambda x: np.sum(np.sin(x) ** 2), (np.array([0.3, 1.2]),))
    """
    if not isinstance(args, (tuple, list)):
        raise StructureError(
            "check_grads: args must be a tuple with one entry for each argument, got "
            f"{type(args).__name__}. Write check_grads(f, (x,))."
        )
    widened = tree.map(_widened, tuple(args))
    unknown = set(modes) - {"forward", "reverse"}
    if unknown:
        raise ValueError(f"check_grads: modes are 'forward' and 'reverse', got {sorted(unknown)}.")
    rng = np.random.default_rng(seed)
    for nesting in _nestings(modes, order):
        _check(f, widened, nesting, tolerance, step, rng, function_name(f))


def _nestings(modes: Sequence[str], order: int) -> list[tuple[str, ...]]:
    """All sequences of modes, the innermost first; those of a single mode come first."""
    found = itertools.product(modes, repeat=order)
    return sorted(found, key=lambda nesting: len(set(nesting)) > 1)


def _check(
    f: Function,
    args: tuple[Any, ...],
    nesting: Sequence[str],
    tolerance: float,
    step: float,
    rng: np.random.Generator,
    name: str,
) -> None:
    for level, mode in enumerate(nesting, 1):
        tangents = tuple(tree.map(lambda leaf: _direction(leaf, rng), arg) for arg in args)
        # Up to the first change of modes, a nesting of one mode has been here before.
        if len(set(nesting)) == 1 or len(set(nesting[:level])) > 1:
            try:
                _check_once(f, args, tangents, mode, tolerance, step, rng, name, level)
            except CheckGradsError:  # or the step is too wide for so curved a function
                _check_once(f, args, tangents, mode, tolerance, step / 4, rng, name, level)
        f = _derivative(f, mode, tangents, rng)


def _check_once(
    f: Function,
    args: tuple[Any, ...],
    tangents: tuple[Any, ...],
    mode: str,
    tolerance: float,
    step: float,
    rng: np.random.Generator,
    name: str,
    level: int,
) -> None:
    expected = _difference(f, args, tangents, step)
    if mode == "forward":
        _, got = jvp(f, args, tangents)
        _compare(f, args, tree.leaves(got), expected, tolerance, step, name, mode, level)
    else:
        out, pullback = vjp(f, *args)
        seeds = tree.map(lambda leaf: _direction(leaf, rng), out)
        cotangents = pullback(seeds)
        left = _inner(cotangents, tangents)
        right = sum(
            np.real(np.sum(np.asarray(s) * e))
            for s, e in zip(tree.leaves(seeds), expected, strict=True)
        )
        if not _close(left, right, tolerance):
            _locate_reverse(f, args, seeds, cotangents, tolerance, step, name, level)
            raise CheckGradsError(
                f"check_grads: {name}, reverse mode, order {level}: the gradient along a random "
                f"direction is {left!r}, finite differences give {right!r}."
            )


def _derivative(
    f: Function, mode: str, tangents: tuple[Any, ...], rng: np.random.Generator
) -> Function:
    """The first derivative as a function of the arguments, to be checked in its turn."""
    if mode == "forward":
        return lambda *args: jvp(f, args, tangents)[1]
    seed = int(rng.integers(1 << 30))

    def gradient(*args: Any) -> Any:
        out, pullback = vjp(f, *args)
        directions = np.random.default_rng(seed)
        found = pullback(tree.map(lambda leaf: _direction(leaf, directions), out))
        return [
            g
            for g, leaf in zip(tree.leaves(found), tree.leaves(args), strict=True)
            if _is_inexact(leaf)
        ]

    return gradient


def _widened(leaf: Any) -> Any:
    """Finite differences need float64 to be of use."""
    return leaf * np.float64(1) if _is_inexact(leaf) else leaf


def _is_inexact(leaf: Any) -> bool:
    return np.dtype(getattr(leaf, "dtype", np.result_type(type(leaf)))).kind in "fc"


def _direction(leaf: Any, rng: np.random.Generator) -> Any:
    shape = np.shape(leaf) if not hasattr(leaf, "shape") else leaf.shape
    dtype = np.dtype(getattr(leaf, "dtype", np.result_type(type(leaf))))
    if dtype.kind not in "fc":
        return np.zeros(shape, dtype)
    values = rng.normal(size=shape)
    if dtype.kind == "c":
        values = values + 1j * rng.normal(size=shape)
    return np.asarray(values, dtype)[()]


def _difference(
    f: Function, args: tuple[Any, ...], tangents: tuple[Any, ...], step: float
) -> list[np.ndarray]:
    """Fourth-order central difference of f along the tangents."""

    def at(h: float) -> list[np.ndarray]:
        moved = tuple(
            tree.map(lambda x, t: _moved(x, t, h), a, t)
            for a, t in zip(args, tangents, strict=True)
        )
        return [np.asarray(leaf) for leaf in tree.leaves(f(*moved))]

    rows = zip(at(step), at(-step), at(2 * step), at(-2 * step), strict=True)
    return [
        np.zeros(a.shape) if a.dtype.kind not in "fc" else (8 * (a - b) - (c - d)) / (12 * step)
        for a, b, c, d in rows
    ]


def _moved(x: Any, t: Any, h: float) -> Any:
    return x + h * t if _is_inexact(x) else x


def _inner(cotangents: Any, tangents: Any) -> float:
    pairs = zip(tree.leaves(cotangents), tree.leaves(tangents), strict=True)
    return sum(float(np.real(np.sum(np.asarray(g) * t))) for g, t in pairs)


def _close(got: Any, expected: Any, tolerance: float) -> bool:
    scale = max(1.0, float(np.max(np.abs(expected), initial=0.0)))
    return bool(np.all(np.abs(np.asarray(got) - expected) <= tolerance * scale))


def _compare(
    f: Function,
    args: tuple[Any, ...],
    got: list[Any],
    expected: list[np.ndarray],
    tolerance: float,
    step: float,
    name: str,
    mode: str,
    level: int,
) -> None:
    for number, (mine, theirs) in enumerate(zip(got, expected, strict=True)):
        if _close(mine, theirs, tolerance):
            continue
        culprit = _locate_forward(f, args, number, tolerance, step)
        place = np.unravel_index(np.argmax(np.abs(mine - theirs)), np.shape(theirs))
        worst = tuple(int(i) for i in place)
        raise CheckGradsError(
            f"check_grads: {name}, {mode} mode, order {level}: the derivative of result "
            f"{number}{list(worst) if worst else ''} is {np.asarray(mine)[worst]!r}, finite "
            f"differences give {theirs[worst]!r}{culprit}."
        )


def _elements(args: tuple[Any, ...]) -> Any:
    """Every float element of the arguments: its leaf number, index, and unit tangents."""
    leaves, structure = tree.flatten(args)
    for number, leaf in enumerate(leaves):
        if not _is_inexact(leaf):
            continue
        for position in list(np.ndindex(np.shape(leaf)))[:1000]:
            unit = [np.zeros(np.shape(x), np.result_type(x)) for x in leaves]
            unit[number][position] = 1
            yield number, position, tree.unflatten(structure, [u[()] for u in unit])


def _locate_forward(
    f: Function, args: tuple[Any, ...], result: int, tolerance: float, step: float
) -> str:
    for number, position, unit in _elements(args):
        mine = tree.leaves(jvp(f, args, unit)[1])[result]
        theirs = _difference(f, args, unit, step)[result]
        if not _close(mine, theirs, tolerance):
            return f"; the offending input is {_label(f, args, number, position)}"
    return ""


def _locate_reverse(
    f: Function,
    args: tuple[Any, ...],
    seeds: Any,
    cotangents: Any,
    tolerance: float,
    step: float,
    name: str,
    level: int,
) -> None:
    flat = tree.leaves(cotangents)
    for number, position, unit in _elements(args):
        rows = zip(tree.leaves(seeds), _difference(f, args, unit, step), strict=True)
        theirs = sum(float(np.real(np.sum(np.asarray(s) * e))) for s, e in rows)
        mine = float(np.real(np.asarray(flat[number])[position]))
        if not _close(mine, theirs, tolerance):
            raise CheckGradsError(
                f"check_grads: {name}, reverse mode, order {level}: the gradient by "
                f"{_label(f, args, number, position)} is {mine!r}, finite differences give "
                f"{theirs!r}."
            )


def _label(f: Function, args: tuple[Any, ...], number: int, position: tuple[int, ...]) -> str:
    name = argument_names(f, args)[number]
    value = np.asarray(tree.leaves(args)[number])[position]
    where = f"{name}[{', '.join(map(str, position))}]" if position else name
    return f"{where} = {value!r}"
