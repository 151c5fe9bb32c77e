"""The loop language: what operations lower to, between the graph and machine code.

A program of loops is a list of kernels over named buffers. A kernel is a perfect nest of counted
loops with a list of stores inside; what is stored is a scalar expression of loads, constants,
index values and elementary functions. Every index is affine in the loop variables, so that a
slice, a transpose, a broadcast or a window costs nothing: it changes an index, not the data.

An operation's entry in the registry has, as `loops`, one of

- `Pointwise(rule)`: ``rule(index, *operands, **params)`` gives the expression of the element at
  `index`, where ``operand(index)`` is an element of an argument. Such operations are fused.
- `Reduction(kind)`: the operand is combined over the param ``axes``.
- `Product()`: a sum over products of two operands, with the param ``spec``.
- `Scatter(...)` and `Accumulate(place)`: elements are put, or added, where an index says.
- `Running(first, step)`: each element is made from the one before it along the param ``axis``.
- `Alias()`: the same elements in the same order under another shape.

and None where it is evaluated by NumPy from inside the compiled program.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .buffers import (
    Buffer,
    MemoryKind,
    c_strides,
    root,
)
from .expressions import (
    BOOL,
    INDEX,
    Apply,
    Choose,
    Expr,
    IndexValue,
    InRange,
    Literal,
    Load,
    LoadAt,
    Sum,
    cast,
    float_range,
    not_an_integer,
    parts_of,
    takes_long,
    walk,
)
from .indices import (
    Affine,
    Index,
    Var,
)
from .infix import format_expr
from .kernels import (
    NO_RESULT,
    Check,
    Host,
    Nest,
    Store,
    add_exactly,
    identity_of,
    roots_of,
)
from .library import LibraryCall, Symbol
from .lowerings import (
    FEW,
    Accumulate,
    Alias,
    Assembled,
    Operand,
    Pointwise,
    Product,
    Reduction,
    Running,
    Scatter,
)
from .pairs import as_reals, pairs_in, part_of, reals_in
from .programs import Kernel, LoopProgram, can_fail, inside

if TYPE_CHECKING:
    from .loop import Blocks, Branch, Carry, Loop, Transfer
    from .products import Contraction
    from .rebuilding import replaced, unchanging, with_parts

__all__ = [
    "BOOL",
    "FEW",
    "INDEX",
    "NO_RESULT",
    "Accumulate",
    "Affine",
    "Alias",
    "Apply",
    "Assembled",
    "Blocks",
    "Branch",
    "Buffer",
    "Carry",
    "Check",
    "Choose",
    "Contraction",
    "Expr",
    "Host",
    "InRange",
    "Index",
    "IndexValue",
    "Kernel",
    "LibraryCall",
    "Literal",
    "Load",
    "LoadAt",
    "Loop",
    "LoopProgram",
    "MemoryKind",
    "Nest",
    "Operand",
    "Pointwise",
    "Product",
    "Reduction",
    "Running",
    "Scatter",
    "Store",
    "Sum",
    "Symbol",
    "Transfer",
    "Var",
    "add_exactly",
    "as_reals",
    "c_strides",
    "can_fail",
    "cast",
    "float_range",
    "format_expr",
    "identity_of",
    "inside",
    "not_an_integer",
    "pairs_in",
    "part_of",
    "parts_of",
    "reals_in",
    "replaced",
    "root",
    "roots_of",
    "takes_long",
    "unchanging",
    "walk",
    "with_parts",
]

# What a plain program has none of is imported on first use.
_LATER = {
    **dict.fromkeys(("Blocks", "Branch", "Carry", "Loop", "Transfer"), "loop"),
    "Contraction": "products",
    **dict.fromkeys(("replaced", "unchanging", "with_parts"), "rebuilding"),
}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_LATER[name]}", __name__), name)
