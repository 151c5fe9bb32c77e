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

import itertools
from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from typing import Any

import numpy as np

from .functions import FUNCTIONS, Cost
from .types import ArrayType, dtype_name

BOOL = np.dtype(bool)
INDEX = np.dtype(np.int64)


# ---------------------------------------------------------------- indices


class Var:
    """A loop variable that counts from 0 to `extent` - 1.

    An `ordered` one must count up, one by one: each turn reads what the one before has stored.
    """

    __slots__ = ("extent", "name", "ordered")

    def __init__(self, name: str, extent: int, ordered: bool = False):
        self.name = name
        self.extent = extent
        self.ordered = ordered

    def __repr__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Affine:
    """constant + sum of coefficient * variable.

    >>> i = Var("i", 10)
    >>> print(Affine.of(i) * 2 + 3)
    2*i + 3
    """

    constant: int
    terms: tuple[tuple[Var, int], ...] = ()

    @staticmethod
    def of(value: Var | int | Affine) -> Affine:
        """An affine index from a variable or a number."""
        if isinstance(value, Affine):
            return value
        if isinstance(value, Var):
            return Affine(0, ((value, 1),)) if value.extent != 1 else Affine(0)
        return Affine(int(value))

    def __add__(self, other: Affine | int) -> Affine:
        other = Affine.of(other)
        merged = dict(self.terms)
        for var, coefficient in other.terms:
            merged[var] = merged.get(var, 0) + coefficient
        kept = tuple((var, c) for var, c in merged.items() if c)
        return Affine(self.constant + other.constant, kept)

    def __mul__(self, factor: int) -> Affine:
        if factor == 0:
            return Affine(0)
        return Affine(self.constant * factor, tuple((v, c * factor) for v, c in self.terms))

    def coefficient(self, var: Var) -> int:
        """The factor of a variable."""
        return next((c for v, c in self.terms if v is var), 0)

    def bounds(self) -> tuple[int, int]:
        """The least and the greatest value."""
        low = high = self.constant
        for var, coefficient in self.terms:
            reach = coefficient * (var.extent - 1)
            low, high = low + min(0, reach), high + max(0, reach)
        return low, high

    def is_one_to_one(self) -> bool:
        """Whether different values of the variables surely give different indices."""
        return all(self.tells_apart(var) for var, _ in self.terms)

    def tells_apart(self, var: Var) -> bool:
        """Whether different values of one variable surely give different indices.

        >>> i, j = Var("i", 10), Var("j", 3)
        >>> (Affine.of(i) * 3 + Affine.of(j)).tells_apart(i)
        True
        >>> (Affine.of(i) * 2 + Affine.of(j)).tells_apart(i)
        False
        """
        reach, passed = 0, False
        for other, coefficient in sorted(self.terms, key=lambda term: abs(term[1])):
            passed = passed or other is var
            if passed and abs(coefficient) <= reach:
                return False
            reach += abs(coefficient) * (other.extent - 1)
        return passed

    def substitute(self, var: Var, value: Affine) -> Affine:
        """The index with a variable replaced."""
        coefficient = self.coefficient(var)
        if not coefficient:
            return self
        rest = Affine(self.constant, tuple((v, c) for v, c in self.terms if v is not var))
        return rest + value * coefficient

    def __str__(self) -> str:
        parts = [f"{c}*{v}" if c != 1 else f"{v}" for v, c in self.terms]
        if self.constant or not parts:
            parts.append(str(self.constant))
        return " + ".join(parts)


Index = tuple[Affine, ...]


# ---------------------------------------------------------------- buffers and expressions


@dataclass(eq=False, repr=False)
class Buffer:
    """Memory for one array. Strides are in elements; `kind` says who owns it."""

    name: str
    dtype: np.dtype
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    # "input", "output", "arena", "constant", "block": in a worker's own arena, "sums": of a product
    # whose sums nobody else reads, so that they need memory only while they are unfinished, "room":
    # memory that grows with the length of a program for any length, "length": that length itself,
    # or "host": an array of NumPy's own, which passes from one of its operations to another
    kind: str
    offset: int = 0  # bytes into the arena, once planned; in the room for each unit of length
    value: Any = None  # of a constant
    base: Buffer | None = None  # the owner of the memory, when this is another view of it
    start: Affine = Affine(0)  # where a view begins in its base, by the counters of a `BlockLoop`

    def flat(self, index: Index) -> Affine:
        """The element number of an index."""
        total = Affine(0)
        for position, stride in zip(index, self.strides, strict=True):
            total = total + position * stride
        return total

    @property
    def size(self) -> int:
        """The number of elements."""
        return int(np.prod(self.shape, dtype=np.int64))

    @property
    def nbytes(self) -> int:
        """The number of bytes."""
        return self.size * self.dtype.itemsize

    def __str__(self) -> str:
        return f"{self.name}: {ArrayType(self.dtype, self.shape)}"


def root(buffer: Buffer) -> Buffer:
    """The buffer that owns the memory of an alias."""
    while buffer.base is not None:
        buffer = buffer.base
    return buffer


def c_strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Strides, in elements, of a contiguous array."""
    strides = [1] * len(shape)
    for axis in range(len(shape) - 1, 0, -1):
        strides[axis - 1] = strides[axis] * max(shape[axis], 1)
    return tuple(strides)


class Expr:
    """A scalar expression; compared by identity, so shared parts are computed once."""

    __slots__ = ()
    dtype: np.dtype


@dataclass(eq=False, repr=False)
class Load(Expr):
    """An element of a buffer, at a flat element number."""

    buffer: Buffer
    at: Affine

    @property
    def dtype(self) -> np.dtype:  # type: ignore[override]
        """The buffer's element type."""
        return self.buffer.dtype

    def is_like(self, other: Load) -> bool:
        """Whether both read the same element."""
        same = self.buffer is other.buffer and self.at.constant == other.at.constant
        return same and dict(self.at.terms) == dict(other.at.terms)


@dataclass(eq=False, repr=False)
class LoadAt(Expr):
    """An element whose place depends on values: `at` plus the sum of value * stride.

    The values are known to be in range: whoever makes one clamps them.
    """

    buffer: Buffer
    at: Affine
    picks: tuple[tuple[Expr, int], ...]

    @property
    def dtype(self) -> np.dtype:  # type: ignore[override]
        """The buffer's element type."""
        return self.buffer.dtype


@dataclass(eq=False, repr=False)
class Literal(Expr):
    """A number."""

    value: Any
    dtype: np.dtype


@dataclass(eq=False, repr=False)
class Sum(Expr):
    """The finished sum of the contraction in whose stores it stands."""

    dtype: np.dtype


@dataclass(eq=False, repr=False)
class IndexValue(Expr):
    """The value of an index, as an integer."""

    at: Affine
    dtype: np.dtype = INDEX


@dataclass(eq=False, repr=False)
class InRange(Expr):
    """Whether an index lies in [low, high). Nests are split until it is known."""

    at: Affine
    low: int
    high: int
    dtype: np.dtype = BOOL

    def decided(self) -> bool | None:
        """Whether it is always true or always false, if it is."""
        low, high = self.at.bounds()
        if low >= self.low and high < self.high:
            return True
        if high < self.low or low >= self.high:
            return False
        return None


@dataclass(eq=False, repr=False)
class Choose(Expr):
    """`yes` where an index lies in a range, else `no`; the other one is never evaluated."""

    test: InRange
    yes: Expr
    no: Expr
    dtype: np.dtype


@dataclass(eq=False, repr=False)
class Apply(Expr):
    """An elementary function (see `functions`). Arguments have the dtypes the function wants."""

    name: str
    args: tuple[Expr, ...]
    dtype: np.dtype


def cast(value: Expr, dtype: np.dtype) -> Expr:
    """The value in another dtype."""
    if value.dtype == dtype:
        return value
    if isinstance(value, Literal) and (value.dtype.kind != "f" or dtype.kind not in "iu"):
        number = value.value.real if dtype.kind != "c" and value.dtype.kind == "c" else value.value
        return Literal(dtype.type(number), dtype)
    return Apply("convert", (value,), dtype)


# The floats that have an integer in each dtype, from the first to below the second. As NumPy and C
# do it, they are converted to 32 or 64 bits and cut off: -1.0 becomes 255 in uint8.
_TO_INTEGER = {
    **dict.fromkeys(("i1", "i2", "i4", "u1", "u2"), (-(2.0**31), 2.0**31)),
    "u4": (-(2.0**31), 2.0**32),
    "i8": (-(2.0**63), 2.0**63),
    "u8": (-(2.0**63), 2.0**64),
}


def float_range(dtype: np.dtype) -> tuple[float, float]:
    """The floats that a conversion to an integer dtype takes: low <= x < high."""
    return _TO_INTEGER[f"{dtype.kind}{dtype.itemsize}"]


def not_an_integer(dtype: np.dtype) -> int:
    """What NaN, infinities and floats out of that range become: no index, if that can be.

    >>> not_an_integer(np.dtype(np.int32)), not_an_integer(np.dtype(np.uint8))
    (-2147483648, 255)
    """
    limits = np.iinfo(dtype)
    return int(limits.min if dtype.kind == "i" else limits.max)


# ---------------------------------------------------------------- kernels


@dataclass(eq=False, repr=False)
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

    def __str__(self) -> str:
        sign = {"add": "+=", "multiply": "*=", "largest": "max=", "smallest": "min="}
        operator = "=" if self.combine is None else sign.get(self.combine, f"{self.combine}=")
        where = "".join(f"if {_format(guard, 1)} " for guard in self.guards)
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


@dataclass(eq=False, repr=False)
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


@dataclass(eq=False, repr=False)
class ParallelNest:
    """A nest cut into tasks along its outermost loop, which threads share.

    The cut depends on the sizes alone, never on the number of threads, and what is combined over
    all tasks is first kept apart, task by task, and then joined in order: so the result is the
    same, bit for bit, for any number of threads.
    """

    task: Var  # counts the whole chunks
    body: Nest  # one chunk; its indices contain `task`
    rest: Nest | None  # what is left at the end, as one more task
    joins: list[Nest]  # combine what the tasks left

    def parts(self) -> list[Nest]:
        """All nests inside."""
        return [self.body, *([] if self.rest is None else [self.rest]), *self.joins]

    def __str__(self) -> str:
        tasks = self.task.extent + (self.rest is not None)
        text = f"{tasks} tasks in parallel:\n{self.body}"
        return "\n".join([text, *[f"then {join}" for join in self.joins]])


@dataclass(eq=False, repr=False)
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
    accumulates: bool = False  # whether the sums are added to what `out` holds,
    begins: bool = False  # but not those of the first block of a group, in a batch loop
    vars: dict[int, Var] = field(default_factory=dict)
    stores: list[Store] = field(default_factory=list)
    inner: dict[int, Var] = field(default_factory=dict)  # for the labels that are summed over
    x_value: Expr | None = None
    y_value: Expr | None = None

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

    @property
    def keeps_sums(self) -> bool:
        """Whether somebody reads the sums themselves."""
        return self.out.kind != "sums"

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
        return list({(id(buffer), at): (buffer, at) for buffer, at in found}.values())

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


@dataclass(eq=False, repr=False)
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


@dataclass(eq=False, repr=False)
class Check:
    """Ends the program with an error code unless the flag is set."""

    flag: Buffer
    code: int
    label: str = ""
    nodes: list[Any] = field(default_factory=list)

    def __str__(self) -> str:
        return f"unless {self.flag.name}: stop  # {self.label}"


@dataclass(eq=False, repr=False)
class Transfer:
    """Copies one block of an array to or from a worker's own memory, where samples lie innermost.

    A block at the end of the axis may be partly empty: the last sample is read in place of those
    that are missing, and only those that exist are written back.
    """

    outer: Buffer  # a view that begins with the block
    inner: Buffer
    axis: int  # the axis of samples
    inward: bool
    label: str = ""
    nodes: list[Any] = field(default_factory=list)
    # Outer strides that grow with a length known at run time: by axis, their factor.
    scaled: dict[int, int] = field(default_factory=dict)
    # Whether the block keeps the order of the elements outside: then it is copied line by line.
    plain: bool = False

    def __str__(self) -> str:
        if self.inward:
            return f"{self.inner.name} = block of {self.outer.name} along axis {self.axis}"
        return f"block of {self.outer.name} along axis {self.axis} = {self.inner.name}"


@dataclass(eq=False, repr=False)
class BlockLoop:
    """The batch loop: all kernels of `body` run for one block of an axis after the other.

    Neighbouring blocks form groups, which threads share. What is summed over the axis is summed
    group by group and then joined in order. The groups depend on the sizes alone, so the result is
    the same, bit for bit, for any number of threads.
    """

    extent: int  # of the axis; where it may have any length, an example
    width: int  # of a block
    groups: int
    group: Var  # the number of the group; in the `start` of views
    block: Var  # the number of the block; in the `start` of views
    live: Var  # how many samples of the block exist
    fills: list[Nest]  # what sums begin with, for each group
    body: list[Any]
    joins: list[Any]
    nodes: list[Any] = field(default_factory=list)
    planned_bytes: int = 0  # of a worker's arena, for the buffers of the body
    label: str = "batch loop"
    length: Buffer | None = None  # holds the extent where that is known at run time alone
    cost: int = 0  # of one sample, to tell whether threads are worth waking
    # After each `run` blocks of a group the `folds` take what these added to long sums to totals
    # that lose nothing, and the `ends` of the group put these where its sums belong.
    run: int = 0
    folds: list[Nest] = field(default_factory=list)
    ends: list[Nest] = field(default_factory=list)

    @property
    def blocks(self) -> int:
        """How many blocks cover the axis."""
        return -(-self.extent // self.width)

    def parts(self) -> list[Any]:
        """All kernels inside."""
        return [*self.fills, *self.body, *self.folds, *self.ends, *self.joins]

    def __str__(self) -> str:
        blocks = self.blocks if self.length is None else f"length / {self.width}"
        head = f"{blocks} blocks of {self.width} in {self.groups} parallel groups:"
        body = "\n".join(map(str, self.body)).replace("\n", "\n  ")
        return "\n".join([f"{head}\n  {body}", *[f"then {join}" for join in self.joins]])


@dataclass(eq=False, repr=False)
class Rows:
    """Where one array of a loop's body lies in a buffer outside.

    With every step it moves on by `stride` elements. Where a loop is cut into parts of its samples,
    these are `sample` elements apart from each other; of what each part has for itself, that of
    the next part lies `part` elements further on.
    """

    buffer: Buffer
    stride: int = 0
    sample: int = 0
    part: int = 0


@dataclass(eq=False, repr=False)
class Carried:
    """A value that each step of a loop reads from the step before.

    The first step reads it from `start`, and the last one writes it to `end`; between it is in the
    two `spare` buffers in turn. Where it has `rows`, a step writes it to the row of its own, the
    last one too; or, with `ahead`, to that of the step to come, and the first step finds it there.
    """

    start: Rows
    end: Rows
    rows: Rows | None = None
    ahead: bool = False
    spare: tuple[Rows, ...] = ()


@dataclass(eq=False, repr=False)
class Repeat:
    """A program that runs step after step on other rows of the buffers around it.

    The inputs of `body` are the `fixed` ones, the carries and the `rows`; its outputs are the
    carries, the `results` and the `totals`. Where there are several `parts`, the body is for one
    part of the samples, and threads share the parts, each with all its steps. If they cannot all be
    equal, the first ones have one sample more, and `wider` is the body for these.
    """

    steps: int
    reverse: bool
    body: LoopProgram
    fixed: list[Rows]
    carries: list[Carried]
    rows: list[Rows]
    results: list[Rows]  # but for those that carries live in
    totals: list[Rows]  # what every step adds to; each part begins with zeros
    parts: int = 1
    width: int = 0  # samples in a part
    wide: int = 0  # parts that have one more
    wider: LoopProgram | None = None
    label: str = ""
    nodes: list[Any] = field(default_factory=list)

    @property
    def bodies(self) -> list[LoopProgram]:
        """The bodies for all widths."""
        return [self.body] if self.wider is None else [self.body, self.wider]

    @property
    def inputs(self) -> list[Buffer]:
        """The buffers outside that it reads."""
        places = [*self.fixed, *[c.start for c in self.carries], *self.rows, *self.totals]
        return [place.buffer for place in places]

    @property
    def outputs(self) -> list[Buffer]:
        """The buffers outside that it writes results to."""
        rows = [c.rows for c in self.carries if c.rows is not None] + self.results
        ends = [c.end for c in self.carries if c.rows is None or c.ahead]
        return [place.buffer for place in [*ends, *rows, *self.totals]]

    @property
    def spare(self) -> list[Buffer]:
        """The buffers outside that it only works with."""
        return [place.buffer for carry in self.carries for place in carry.spare]

    def __str__(self) -> str:
        direction = "down from" if self.reverse else "up to"
        outs = ", ".join(buffer.name for buffer in self.outputs)
        ins = ", ".join(buffer.name for buffer in self.inputs)
        parts = f", {self.parts} parts in parallel" if self.parts > 1 else ""
        lines = [f"{self.steps} steps {direction} the last row{parts}: {outs} from {ins}:"]
        return "\n".join([*lines, *["  " + line for line in str(self.body).splitlines()]])


Kernel = Nest | ParallelNest | Contraction | Host | Check | Transfer | BlockLoop | Repeat


@dataclass(eq=False, repr=False)
class LoopProgram:
    """Kernels in order, and the buffers they work on."""

    inputs: list[Buffer]
    outputs: list[Buffer]
    kernels: list[Kernel]
    planned_bytes: int = 0  # of the arena, for buffers
    scratch_bytes: int = 0  # behind them, for the kernels themselves
    watched: int = 0  # so many kernels, from the first on, end early when Ctrl-C is pressed
    length: Buffer | None = None  # of a program for any length
    room_bytes: int = 0  # for each unit of that length, for what outlives a batch loop

    @property
    def arena_bytes(self) -> int:
        """The size of the arena."""
        return self.planned_bytes + self.scratch_bytes

    def __str__(self) -> str:
        head = [f"input  {b}" for b in self.inputs] + [f"output {b}" for b in self.outputs]
        return "\n".join([*head, *map(str, self.kernels)])


def has_checks(loop: Repeat) -> bool:
    """Whether a step can end the program with an error code."""
    return any(
        isinstance(kernel, Check) or (isinstance(kernel, Repeat) and has_checks(kernel))
        for kernel in loop.body.kernels
    )


def walk(roots: Iterable[Expr], known: Container[int] = ()) -> list[Expr]:
    """All expressions under the roots, parts first; those of `known` identity are left out, and
    what only they need. Iterative."""
    order: list[Expr] = []
    seen: set[int] = set()
    pending: list[tuple[Expr, bool]] = [(root, False) for root in roots]
    while pending:
        expr, expanded = pending.pop()
        if expanded:
            order.append(expr)
            continue
        if id(expr) in seen or id(expr) in known:
            continue
        seen.add(id(expr))
        pending.append((expr, True))
        pending.extend((part, False) for part in parts_of(expr))
    return order


def takes_long(expr: Expr) -> bool:
    """Whether an expression is a function that costs more than a load and a store."""
    return isinstance(expr, Apply) and FUNCTIONS[expr.name].cost is Cost.LONG


def parts_of(expr: Expr) -> tuple[Expr, ...]:
    """The direct parts of an expression."""
    if isinstance(expr, Apply):
        return expr.args
    if isinstance(expr, Choose):
        return (expr.yes, expr.no)
    if isinstance(expr, LoadAt):
        return tuple(place for place, _ in expr.picks)
    return ()


def roots_of(stores: Iterable[Store]) -> list[Expr]:
    """Everything that stores compute."""
    return [root for store in stores for root in store.roots()]


def format_expr(expr: Expr, limit: int = 400) -> str:
    """The expression as text, cut off where it gets long."""
    text = _format(expr, 12)
    return text if len(text) <= limit else text[:limit] + "..."


def _format(expr: Expr, depth: int) -> str:
    if depth == 0:
        return "..."
    if isinstance(expr, Load):
        return f"{expr.buffer.name}[{expr.at}]"
    if isinstance(expr, LoadAt):
        picks = "".join(f" + {n}*{_format(place, depth - 1)}" for place, n in expr.picks)
        return f"{expr.buffer.name}[{expr.at}{picks}]"
    if isinstance(expr, Literal):
        return str(expr.value)
    if isinstance(expr, Sum):
        return "sum"
    if isinstance(expr, IndexValue):
        return f"({expr.at})"
    if isinstance(expr, InRange):
        return f"({expr.low} <= {expr.at} < {expr.high})"
    if isinstance(expr, Choose):
        test = _format(expr.test, depth - 1)
        return f"{test} ? {_format(expr.yes, depth - 1)} : {_format(expr.no, depth - 1)}"
    assert isinstance(expr, Apply)
    name = dtype_name(expr.dtype) if expr.name == "convert" else expr.name
    return f"{name}({', '.join(_format(arg, depth - 1) for arg in expr.args)})"


# ---------------------------------------------------------------- how operations lower


@dataclass(frozen=True)
class Operand:
    """An argument of an operation that is being lowered: its type, and its elements."""

    type: ArrayType
    element: Callable[[Index], Expr]
    memory: Callable[[], Buffer]
    constant: Any = None  # its value, where that is known

    def __call__(self, index: Iterable[Affine]) -> Expr:
        """The element at an index."""
        return self.element(tuple(index))

    def broadcast(self, index: Index) -> Expr:
        """The element that meets `index` of a larger shape by broadcasting."""
        shape = self.type.shape
        own = index[len(index) - len(shape) :]
        return self.element(
            tuple(Affine(0) if n == 1 else at for n, at in zip(shape, own, strict=True))
        )


@dataclass(frozen=True)
class Pointwise:
    """Each element of the result is an expression of elements of the arguments."""

    rule: Callable[..., Expr]
    # Whether the rule only moves elements: then it costs nothing to do it twice.
    free: bool = False
    # Arguments that must be in memory as a whole, because any element may be asked for.
    whole: tuple[int, ...] = ()
    # Whether the rule makes a choice by the index, or one for each argument but the first.
    chooses: bool = False
    # The kinds of dtypes that it gives; NumPy evaluates the others.
    kinds: str = "biuf"
    # A condition on elements of an argument, checked for all of them before the result is used:
    # check(index, *operands, **params) gives a boolean expression over the result's loops.
    check: Callable[..., Expr] | None = None


# A reduction of at most this many elements can be written out.
FEW = 16


@dataclass(frozen=True)
class Reduction:
    """The elements along the param ``axes`` are combined."""

    kind: str

    def written_out(self, dtype: np.dtype) -> Pointwise:
        """The same without a loop: one expression that combines all elements, by halves."""

        def rule(at: Index, x: Operand, axes: tuple[int, ...], **params: Any) -> Expr:
            kept = iter(at)
            whole = [None if axis in axes else next(kept) for axis in range(len(x.type.shape))]
            values = [
                cast(x(_filled(whole, place)), dtype)
                for place in itertools.product(*[range(x.type.shape[axis]) for axis in axes])
            ]
            while len(values) > 1:
                pairs = itertools.zip_longest(values[::2], values[1::2])
                values = [a if b is None else Apply(self.kind, (a, b), dtype) for a, b in pairs]
            return values[0]

        return Pointwise(rule)


def _filled(index: Sequence[Affine | None], numbers: Iterable[int]) -> Index:
    """The index with its gaps filled by numbers, in order."""
    rest = iter(numbers)
    return tuple(Affine(next(rest)) if at is None else at for at in index)


@dataclass(frozen=True)
class Running:
    """Along the param ``axis``, backwards with ``reverse``, elements are made one from another.

    ``first(at, *operands)`` gives the element that the line starts with, and
    ``step(before, at, *operands)`` every other one from its predecessor.
    """

    first: Callable[..., Expr]
    step: Callable[..., Expr]


@dataclass(frozen=True)
class Product:
    """A contraction of two arguments by the param ``spec``."""


@dataclass(frozen=True)
class Alias:
    """The same elements in the same order."""


@dataclass(frozen=True)
class Accumulate:
    """Zeros to which every element of the argument is added at an affine place.

    ``place(index, **params)`` gives the index in the result of the element at `index`, and
    ``axes(x, **params)`` the order of the loops over the argument's axes, for a type `x`: elements
    that meet should not come one right after the other.
    """

    place: Callable[..., Iterable[Affine]]
    axes: Callable[..., Sequence[int]]


@dataclass(frozen=True)
class Scatter:
    """A copy of the first argument in which elements of the second are put, or combined.

    ``place(index, out, x, y, *rest, **params)`` gives, for each element of `y`, where it goes in
    the buffer `out`: an affine place and picks; `check` as in `Pointwise`.
    """

    combine: str | None
    place: Callable[..., tuple[Affine, tuple[tuple[Expr, int], ...]]]
    shape: Callable[..., tuple[int, ...]]
    check: Callable[..., Expr] | None = None
