"""Nests over equal loops, one after the other -> one nest: what they all read is read once.

    for i, j: a[i, j] = f(x[i, j])          for i, j: a[i, j] = f(x[i, j]); b[i, j + 8] = g(x[i, j])
    for i, j: b[i, j + 8] = g(x[i, j])  ->

`fusion` joins what has one shape; here meet the pieces of an array that is put together of several,
such as the derivatives of all gates of a recurrent step.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from ..loops import (
    Affine,
    Apply,
    Buffer,
    Expr,
    IndexValue,
    Kernel,
    Literal,
    Load,
    LoopProgram,
    Nest,
    Store,
    Var,
    roots_of,
    walk,
    with_parts,
)
from ..machine import policy
from .memory import root
from .shaping import rewrite_indices
from .task import Task

# So many distances between two stores are looked at to see whether they ever meet.
MOST_DISTANCES = 4096


def joins(program: LoopProgram, task: Task) -> LoopProgram:
    """Nests one after the other over the same loops as one.

    On one thread 6 % on `recurrent: LSTM 128, 28 x 28, batch 100`.
    """
    kernels: list[Kernel] = []
    for is_nest, group in itertools.groupby(program.kernels, lambda k: isinstance(k, Nest)):
        same: list[Any] = list(group)
        kernels += join_nests(same) if is_nest else same
    program.kernels = kernels
    return program


def join_nests(nests: Sequence[Nest]) -> list[Nest]:
    """The nests in order, neighbours joined where that saves reading."""
    found: list[Nest] = []
    for nest in nests:
        joined = _joined(found[-1], nest) if found else None
        if joined is None:
            found.append(nest)
        else:
            found[-1] = joined
    return found


def _joined(one: Nest, other: Nest) -> Nest | None:
    """Both nests as one, if that is possible and worth it."""
    if [var.extent for var in one.vars] != [var.extent for var in other.vars]:
        return None
    most = policy().fusion.most_joined
    if len(one.stores) + len(other.stores) > most or not (_plain(one) and _plain(other)):
        return None
    of_one = dict(zip(other.vars, map(Affine.of, one.vars), strict=True))
    other = rewrite_indices(other, one.vars, of_one)
    if not (_loads(one) & _loads(other)) or not _apart(one, other):
        return None
    stores = _shared([*one.stores, *other.stores])
    return Nest(one.vars, stores, one.label, [*one.nodes, *other.nodes])


def _plain(nest: Nest) -> bool:
    """Whether every turn of the loops is some stores, or additions to what is there."""
    if any(var.ordered or not var.extent for var in nest.vars):
        return False
    for store in nest.stores:
        if store.guards or store.picks or (store.combine and not store.continues):
            return False
    values = walk(roots_of(nest.stores))
    return all(isinstance(expr, (Load, Apply, Literal, IndexValue)) for expr in values)


def _loads(nest: Nest) -> set[tuple[Buffer, Affine]]:
    values = walk(roots_of(nest.stores))
    return {(expr.buffer, expr.at) for expr in values if isinstance(expr, Load)}


def _apart(one: Nest, other: Nest) -> bool:
    """Whether neither reads or writes what the other writes."""
    read = [{root(buffer) for buffer in nest.reads} for nest in (one, other)]
    written = [{root(buffer) for buffer in nest.writes} for nest in (one, other)]
    if read[0] & written[1] or read[1] & written[0]:
        return False
    return not any(_meet(a, b, one.vars) for a in one.stores for b in other.stores)


def _meet(one: Store, other: Store, variables: Sequence[Var]) -> bool:
    """Whether two stores may write to the same place."""
    if root(one.buffer) is not root(other.buffer):
        return False
    steps = [one.at.coefficient(var) for var in variables]
    if one.buffer is not other.buffer or steps != [other.at.coefficient(v) for v in variables]:
        return True
    *outer, last = [range(1 - var.extent, var.extent) for var in variables] or [range(1)]
    if prod(map(len, outer)) > MOST_DISTANCES:
        return True
    distance = other.at.constant - one.at.constant
    for turns in itertools.product(*outer):
        left = distance - sum(n * step for n, step in zip(turns, steps, strict=False))
        step = steps[-1] if steps else 0
        if left == 0 or (step and left % step == 0 and left // step in last):
            return True
    return False


def _shared(stores: Sequence[Store]) -> list[Store]:
    """The stores, with equal expressions being one."""
    known: dict[Any, Expr] = {}
    new: dict[Expr, Expr] = {}
    for expr in walk(roots_of(stores)):
        now = with_parts(expr, new)
        new[expr] = known.setdefault(_key(now), now)
    return [store.rebuilt(new) for store in stores]


def _key(expr: Expr) -> Any:
    """What equal expressions have in common, their parts being one already."""
    if isinstance(expr, Apply):
        return expr.name, expr.args, expr.dtype
    if isinstance(expr, Load):
        return expr.buffer, expr.at
    if isinstance(expr, Literal):
        return np.asarray(expr.value).tobytes(), expr.dtype
    assert isinstance(expr, IndexValue)
    return expr.at
