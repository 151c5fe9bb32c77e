"""Kernels that do the same to different memory: code is generated once for all of them.

The *form* of a nest, or of the stores of a product, is everything about it but which buffers it
works on: these are numbered in the order in which they are met. A network of equal layers, or a
loop that Python has unrolled, consists of a few forms, and it is compiling that takes long, not
calling one function from many places.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from ..loops import (
    Affine,
    Apply,
    Branch,
    Buffer,
    Choose,
    Contraction,
    Expr,
    IndexValue,
    InRange,
    Kernel,
    Literal,
    Load,
    LoadAt,
    Loop,
    Nest,
    Store,
    Sum,
    Var,
    inside,
    roots_of,
    walk,
)
from ..schedule.memory import buffers_of, root


def repeated_forms(kernels: Sequence[Kernel]) -> dict[Kernel, tuple[Hashable, list[Buffer]]]:
    """The form of each nest, in tasks or not, that is there more than once, and its buffers."""
    nests = [kernel for kernel in kernels if _has_form(kernel)]
    if len(nests) < 2:
        return {}
    forms = [_form(nest) for nest in nests]
    counts = Counter(form for form, _ in forms)
    return {nest: found for nest, found in zip(nests, forms, strict=True) if counts[found[0]] > 1}


def _has_form(kernel: Kernel) -> bool:
    if isinstance(kernel, Loop):
        parts = [part for part in inside(kernel) if part is not kernel]
        decided = any(isinstance(part, Branch) and part.value is not None for part in parts)
        alike = all(isinstance(part, (Nest, Branch)) for part in parts)
        return kernel.parallel and alike and not decided
    return isinstance(kernel, Nest)


def form_of_values(kernel: Contraction) -> Hashable:
    """The form of what a product does with its sums, and of how it computes its factors.

    Its code is given where each access begins, and does not depend on it.
    """
    computed = [kernel.x_value is not None, kernel.y_value is not None]
    factors = [Store(kernel.out, Affine(0), value) for value in kernel.values]
    nest = Nest(list(kernel.variables.values()), [*kernel.stores, *factors])
    return (*computed, _form(nest, kernel.accesses())[0])


Place = tuple[Buffer, Affine]


def _form(kernel: Kernel, given: Sequence[Place] = ()) -> tuple[Hashable, list[Buffer]]:
    numbers = _Numbers(list(map(root, buffers_of(kernel))), given)
    return numbers.kernel(kernel), numbers.roots


class _Numbers:
    """Numbers for the buffers and variables of one kernel, and for places that are given to it."""

    def __init__(self, buffers: Sequence[Buffer], given: Sequence[Place]):
        self.given = {place: number for number, place in enumerate(given)}
        self.roots = list(dict.fromkeys(buffers))
        self.buffers = {buffer: number for number, buffer in enumerate(self.roots)}
        self.vars: dict[Var, int] = {}

    def kernel(self, kernel: Kernel) -> Hashable:
        """The form of a nest, or of its tasks."""
        if isinstance(kernel, Loop):
            variable = self.own(kernel.var)
            parts = tuple(map(self.kernel, kernel.parts()))
            return "loop", variable, len(kernel.join), parts
        if isinstance(kernel, Branch):
            parts = tuple(map(self.kernel, kernel.parts()))
            return "branch", self.test(kernel.test), len(kernel.yes), parts
        assert isinstance(kernel, Nest)
        return self.nest(kernel)

    def nest(self, nest: Nest) -> Hashable:
        """The form of one nest."""
        variables = tuple(map(self.own, nest.vars))
        numbers: dict[Expr, int] = {}
        values: list[Hashable] = []
        for expr in walk(roots_of(nest.stores)):
            numbers[expr] = len(values)
            values.append(self.expr(expr, numbers))
        return variables, tuple(values), tuple(self.store(s, numbers) for s in nest.stores)

    def own(self, var: Var) -> Hashable:
        """The number of a variable of the kernel's own, and how far it counts."""
        return self.vars.setdefault(var, len(self.vars)), var.extent, var.ordered

    def var(self, var: Var) -> Hashable:
        """The same of any variable; those of loops around are like no other."""
        return self.own(var) if var in self.vars else var

    def buffer(self, buffer: Buffer) -> Hashable:
        """The number of the buffer's memory, where in it a view begins, and its type."""
        starts, owner = [], buffer
        while owner.base is not None:
            starts.append((self.at(owner.start), owner.dtype))
            owner = owner.base
        return self.buffers[owner], tuple(starts), buffer.dtype

    def at(self, at: Affine) -> tuple[Hashable, Hashable]:
        """An index."""
        return at.constant, tuple((self.var(var), factor) for var, factor in at.terms)

    def place(self, buffer: Buffer, at: Affine) -> Hashable:
        """Where a buffer is read or written."""
        number = self.given.get((buffer, at))
        return self.buffer(buffer), self.at(at) if number is None else (number, self.at(at)[1])

    def test(self, test: InRange) -> Hashable:
        """A range that an index is compared with."""
        return self.at(test.at), test.low, test.high

    def store(self, store: Store, numbers: dict[Expr, int]) -> Hashable:
        """A store."""
        return (
            self.place(store.buffer, store.at),
            numbers[store.value],
            store.combine,
            store.continues,
            tuple(map(self.test, store.guards)),
            tuple((numbers[place], stride) for place, stride in store.picks),
        )

    def expr(self, expr: Expr, numbers: dict[Expr, int]) -> Hashable:
        """An expression, whose parts have numbers already."""
        if isinstance(expr, Apply):
            return expr.name, expr.dtype, tuple(numbers[part] for part in expr.args)
        if isinstance(expr, Literal):
            return "literal", expr.dtype, _bytes(expr.value, expr.dtype)
        if isinstance(expr, Sum):
            return "sum", expr.dtype
        if isinstance(expr, Load):
            return "load", self.place(expr.buffer, expr.at)
        if isinstance(expr, LoadAt):
            picks = tuple((numbers[place], stride) for place, stride in expr.picks)
            return "load at", self.buffer(expr.buffer), self.at(expr.at), picks
        if isinstance(expr, IndexValue):
            return "index", expr.dtype, self.at(expr.at)
        if isinstance(expr, Choose):
            parts = numbers[expr.yes], numbers[expr.no]
            return "choose", expr.dtype, self.test(expr.test), parts
        return expr  # of a kind that is not known here: like no other


def _bytes(value: Any, dtype: np.dtype) -> bytes:
    return np.asarray(value, dtype).tobytes()
