"""What a program of loops is a list of."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from math import inf, prod
from typing import TYPE_CHECKING, Any

import numpy as np

from ..functions import FUNCTIONS, Cost
from ..machine import policy
from .buffers import Buffer
from .expressions import Choose, Expr, InRange, Load, LoadAt, takes_long, walk
from .indices import Affine, Var
from .infix import format_expr

if TYPE_CHECKING:
    from .programs import Kernel


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
    # Further places that depend on values, as in `LoadAt`; stores that may meet keep their order.
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


class KernelBase:
    """What is true of a kernel that says nothing else."""

    @property
    def work(self) -> int:
        """What it costs on one thread, in units of a load and an addition.

        A unit takes between a tenth of a nanosecond and two, so what is decided by these numbers
        must hold for a range of that width. What runs outside native code counts as nothing.
        """
        return 0

    @property
    def may_fail(self) -> bool:
        """Whether it can end the program with an error code."""
        return False

    def parts(self) -> list[Kernel]:
        """All kernels directly inside."""
        return []


@dataclass(frozen=True, eq=False, repr=False)
class Nest(KernelBase):
    """Loops around stores."""

    vars: list[Var]
    stores: list[Store]
    label: str = ""
    nodes: list[Any] = field(default_factory=list)

    @property
    def iterations(self) -> int:
        """How often the body runs."""
        return prod(var.extent for var in self.vars)

    @property
    def iteration_work(self) -> int:
        """The work of one iteration."""
        values = walk(roots_of(self.stores))
        calls = sum(map(takes_long, values))
        return len(self.stores) + len(values) // 4 + calls * Cost.LONG

    @property
    def work(self) -> int:
        """That of all iterations."""
        scalar = any(store.picks for store in self.stores)
        scalar = scalar or any(isinstance(expr, Choose) for expr in walk(roots_of(self.stores)))
        factor = policy().costs.scalar if scalar else 1
        return self.iterations * self.iteration_work * factor

    @property
    def reads(self) -> list[Buffer]:
        """The buffers that it reads."""
        return loaded(roots_of(self.stores))

    @property
    def writes(self) -> list[Buffer]:
        """The buffers that it writes."""
        return [store.buffer for store in self.stores]

    def __str__(self) -> str:
        header = " ".join(f"for {v} < {v.extent}" for v in self.vars) or "once"
        lines = [f"{header}:  # {self.label}" if self.label else f"{header}:"]
        return "\n".join([*lines, *[f"  {store}" for store in self.stores]])


@dataclass(frozen=True, eq=False, repr=False)
class Host(KernelBase):
    """An operation that NumPy evaluates: it has no loops of its own yet."""

    op: Any
    params: dict[str, Any]
    inputs: list[Buffer]
    outputs: list[Buffer]
    label: str = ""
    nodes: list[Any] = field(default_factory=list)
    # The inputs that are Python numbers: as arrays they would promote the others.
    numbers: tuple[int, ...] = ()

    @property
    def reads(self) -> list[Buffer]:
        """The buffers that it reads."""
        return self.inputs

    @property
    def writes(self) -> list[Buffer]:
        """The buffers that it writes."""
        return self.outputs

    def __str__(self) -> str:
        outs = ", ".join(buffer.name for buffer in self.outputs)
        ins = ", ".join(buffer.name for buffer in self.inputs)
        return f"{outs} = numpy {self.op.name}({ins})"


# The code of checks after calls of LAPACK: a matrix for which there is no result.
NO_RESULT = 1 << 20


@dataclass(frozen=True, eq=False, repr=False)
class Check(KernelBase):
    """Ends the program with an error code unless the flag is set."""

    flag: Buffer
    code: int
    label: str = ""
    nodes: list[Any] = field(default_factory=list)
    writes = ()

    @property
    def reads(self) -> list[Buffer]:
        """The buffers that it reads."""
        return [self.flag]

    @property
    def may_fail(self) -> bool:
        """Always."""
        return True

    def __str__(self) -> str:
        return f"unless {self.flag.name}: stop  # {self.label}"


def roots_of(stores: Iterable[Store]) -> list[Expr]:
    """Everything that stores compute."""
    return [root for store in stores for root in store.roots()]


def loaded(values: Iterable[Expr]) -> list[Buffer]:
    """The buffers that expressions read."""
    return [expr.buffer for expr in walk(values) if isinstance(expr, (Load, LoadAt))]
