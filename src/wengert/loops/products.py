"""Products of two arrays, as one kernel each."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import prod
from typing import Any

from ..machine import policy
from .buffers import Buffer
from .expressions import Expr, Load, walk
from .indices import Affine, Var
from .infix import format_expr
from .kernels import KernelBase, Nest, Store, loaded, roots_of


@dataclass(frozen=True, eq=False, repr=False)
class Contraction(KernelBase):
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
    def work(self) -> int:
        """Of the sums, and of what is done with factors and sums."""
        flops = 2 * prod(self.extents.values())
        return flops // policy().costs.flops + self.prologue_work + self.epilogue_work

    @property
    def epilogue_work(self) -> int:
        """Of what is done with the sums."""
        return Nest(list(self.vars.values()), self.stores).work if self.stores else 0

    @property
    def prologue_work(self) -> int:
        """Of computing the factors, each element once."""
        total = 0
        for value, strides in ((self.x_value, self.x_strides), (self.y_value, self.y_strides)):
            if value is not None:
                loops = [var for label, var in self.variables.items() if strides.get(label)]
                total += Nest(loops, [Store(self.out, Affine(0), value)]).work
        return total

    @property
    def reads(self) -> list[Buffer]:
        """The buffers that it reads."""
        return [*self.factors, *loaded([*roots_of(self.stores), *self.values])]

    @property
    def writes(self) -> list[Buffer]:
        """The buffers that it writes."""
        sums = [self.out] if self.keeps_sums else []
        return [*sums, *[store.buffer for store in self.stores]]

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
