"""What a program of loops is a list of."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from math import inf
from typing import Any

import numpy as np

from ..functions import FUNCTIONS
from .buffers import Buffer
from .expressions import Expr, InRange, Load, walk
from .indices import Affine, Var
from .infix import format_expr


@dataclass(frozen=True, eq=False, repr=False)
class Store:
    """Put a value into a buffer, or combine it with what is there (``combine="add"``)."""

    buffer: Buffer
    at: Affine
    value: Expr
    combine: str | None = None
    # Whether the buffer already holds what the value is to be combined with.
    continues: bool = False
    # Where the store happens; nests are split until this is known.
    guards: tuple[InRange, ...] = ()
    # Further places that depend on values, as in `LoadAt`; such stores run one after the other.
    picks: tuple[tuple[Expr, int], ...] = ()

    def roots(self) -> list[Expr]:
        """The expressions the store needs."""
        return [self.value, *[place for place, _ in self.picks]]

    def changed(self, **fields: Any) -> Store:
        """The same store with some fields replaced."""
        return replace(self, **fields)

    def rebuilt(self, values: Mapping[Expr, Expr], **fields: Any) -> Store:
        """The same store of what its expressions have become."""
        picks = tuple((values[place], step) for place, step in self.picks)
        return replace(self, value=values[self.value], picks=picks, **fields)

    def __str__(self) -> str:
        sign = {"add": "+=", "multiply": "*=", "largest": "max=", "smallest": "min="}
        operator = "=" if self.combine is None else sign.get(self.combine, f"{self.combine}=")
        where = "".join(f"if {format_expr(guard)} " for guard in self.guards)
        picks = "".join(f" + {n}*{format_expr(place)}" for place, n in self.picks)
        return f"{where}{self.buffer.name}[{self.at}{picks}] {operator} {format_expr(self.value)}"


def identity_of(combine: str, dtype: np.dtype) -> Any:
    """The value that changes nothing when combined."""
    number = FUNCTIONS[combine].identity
    assert number is not None, combine
    if abs(number) < inf or dtype.kind == "f":
        return dtype.type(number)
    if dtype.kind == "b":
        return dtype.type(number > 0)
    limits = np.iinfo(dtype)
    return dtype.type(limits.min if number < 0 else limits.max)


def add_exactly(apply: Callable[[str, Any, Any], Any], before: Any, value: Any) -> tuple[Any, Any]:
    """A sum, and what rounding took from it (Knuth); `apply` applies a function by its name.

    >>> import numpy as np
    >>> add_exactly(lambda name, x, y: getattr(np, name)(x, y), 1e16, 3.0)
    (np.float64(1.0000000000000004e+16), np.float64(-1.0))
    """
    after = apply("add", before, value)
    gained = apply("subtract", after, before)
    of_before = apply("subtract", before, apply("subtract", after, gained))
    return after, apply("add", of_before, apply("subtract", value, gained))


@dataclass(frozen=True, eq=False, repr=False)
class Nest:
    """Loops around stores."""

    vars: list[Var]
    stores: list[Store]
    label: str = ""
    nodes: list[Any] = field(default_factory=list)

    def __str__(self) -> str:
        header = " ".join(f"for {v} < {v.extent}" for v in self.vars) or "once"
        lines = [f"{header}:  # {self.label}" if self.label else f"{header}:"]
        return "\n".join([*lines, *[f"  {store}" for store in self.stores]])


@dataclass(frozen=True, eq=False, repr=False)
class Contraction:
    """out[o] = sum over the rest of x * y; every label is a loop, with strides in each buffer.

    What else is to be done with a sum, once it is finished, are its `stores`: their values are
    expressions of `Sum` and of loads, and their indices are affine in `vars`, a loop variable for
    each label of the result.

    A factor may be computed from what lies in memory: `x_value` is an expression of loads, at
    indices affine in `vars` and `inner`, and `x` with its strides the one of them that leads.
    """

    extents: dict[int, int]
    out: Buffer
    x: Buffer
    y: Buffer
    out_strides: dict[int, int]
    x_strides: dict[int, int]
    y_strides: dict[int, int]
    x_offset: int = 0  # the element where x begins in its buffer
    y_offset: int = 0
    label: str = ""
    nodes: list[Any] = field(default_factory=list)
    accumulates: bool = False  # whether the sums are added to what `out` holds
    vars: dict[int, Var] = field(default_factory=dict)
    stores: list[Store] = field(default_factory=list)
    inner: dict[int, Var] = field(default_factory=dict)  # for the labels that are summed over
    x_value: Expr | None = None
    y_value: Expr | None = None
    # Whether somebody reads the sums themselves; else they need memory only while unfinished.
    keeps_sums: bool = True

    @property
    def values(self) -> list[Expr]:
        """The factors that are expressions."""
        return [value for value in (self.x_value, self.y_value) if value is not None]

    @property
    def factors(self) -> list[Buffer]:
        """The factors that are read as they lie in memory."""
        pairs = (self.x, self.x_value), (self.y, self.y_value)
        return [buffer for buffer, value in pairs if value is None]

    @property
    def variables(self) -> dict[int, Var]:
        """The loop variables, of as many labels as have one."""
        return {**self.vars, **self.inner}

    def lead(self, is_x: bool) -> Load:
        """Where a factor, or what leads in its expression, lies in terms of the variables."""
        buffer, first, strides = (
            (self.x, self.x_offset, self.x_strides)
            if is_x
            else (self.y, self.y_offset, self.y_strides)
        )
        at = Affine(first)
        for label, var in self.variables.items():
            at = at + Affine.of(var) * strides.get(label, 0)
        return Load(buffer, at)

    def reading(
        self,
        is_x: bool,
        buffer: Buffer,
        offset: int,
        strides: dict[int, int],
        value: Expr | None = None,
    ) -> Contraction:
        """The same product with another factor."""
        if is_x:
            return replace(self, x=buffer, x_offset=offset, x_strides=strides, x_value=value)
        return replace(self, y=buffer, y_offset=offset, y_strides=strides, y_value=value)

    def place(self) -> Affine:
        """The element number of a sum in `out`, in terms of `vars`."""
        total = Affine(0)
        for label, var in self.vars.items():
            total = total + Affine.of(var) * self.out_strides[label]
        return total

    def accesses(self) -> list[tuple[Buffer, Affine]]:
        """What the stores and the values of factors read and write, each place once."""
        found = [(store.buffer, store.at) for store in self.stores]
        values = walk([*roots_of(self.stores), *self.values])
        found += [(expr.buffer, expr.at) for expr in values if isinstance(expr, Load)]
        return list(dict.fromkeys(found))

    def __str__(self) -> str:
        pairs = (self.x, self.x_value), (self.y, self.y_value)
        x, y = (b.name if value is None else format_expr(value) for b, value in pairs)
        product = f"{x} * {y}"
        loops = {label: f"{label} < {n}" for label, n in self.extents.items()}
        named = self.variables if self.values else self.vars if self.stores else {}
        loops |= {label: f"{var} < {var.extent}" for label, var in named.items()}
        if not self.stores:
            header = " ".join(f"for {loop}" for loop in loops.values())
            return f"{header}: {self.out.name} += {product}  # {self.label}"
        kept = " ".join(f"for {loops[label]}" for label in self.vars) or "once"
        summed = [loops[label] for label in self.extents if label not in self.vars]
        lines = [f"{kept}: sum of {product} for {', '.join(summed) or 'once'}  # {self.label}"]
        if self.keeps_sums:
            lines.append(f"  {self.out.name}[{self.place()}] = sum")
        return "\n".join([*lines, *[f"  {store}" for store in self.stores]])


@dataclass(frozen=True, eq=False, repr=False)
class Host:
    """An operation that NumPy evaluates: it has no loops of its own yet."""

    op: Any
    params: dict[str, Any]
    inputs: list[Buffer]
    outputs: list[Buffer]
    label: str = ""
    nodes: list[Any] = field(default_factory=list)
    # The inputs that are Python numbers: as arrays they would promote the others.
    numbers: tuple[int, ...] = ()

    def __str__(self) -> str:
        outs = ", ".join(buffer.name for buffer in self.outputs)
        ins = ", ".join(buffer.name for buffer in self.inputs)
        return f"{outs} = numpy {self.op.name}({ins})"


# The code of checks after calls of LAPACK: a matrix for which there is no result.
NO_RESULT = 1 << 20


@dataclass(frozen=True, eq=False, repr=False)
class Check:
    """Ends the program with an error code unless the flag is set."""

    flag: Buffer
    code: int
    label: str = ""
    nodes: list[Any] = field(default_factory=list)

    def __str__(self) -> str:
        return f"unless {self.flag.name}: stop  # {self.label}"


def roots_of(stores: Iterable[Store]) -> list[Expr]:
    """Everything that stores compute."""
    return [root for store in stores for root in store.roots()]
