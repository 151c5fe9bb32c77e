"""What operations on complex numbers are in terms of the real and the imaginary parts.

A rule gets the node and a `Number` for each argument, and gives a `Number`, or a node for the
whole result, a list of these for several, or None where the operation stays and is given whole
arrays. Dtypes and shapes are brought to those of the result afterwards. Formulas are NumPy's,
infinities and all.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ..graph import Constant, Node, Operator
from ..machine import current
from ..ops import elementwise as ew
from ..ops import fft, indexing, layout, linalg, logic, matrix_functions, structure
from ..ops.contract import contract
from ..ops.cumulative import cumsum
from ..ops.op import Op
from ..ops.windows import fold, windows
from ..trace.tracer import ITEM
from ..types import result_dtype, type_of
from .rewriting import apply

# Powers up to so many are products.
MOST_FACTORS = 64


class Number(NamedTuple):
    """A value in parts; None for the imaginary part of what is known to be real."""

    re: Node
    im: Node | None

    def both(self) -> tuple[Node, Node]:
        """Both parts, the imaginary one of what is real being zero."""
        return self.re, _node(0.0) if self.im is None else self.im


def _node(value: Any) -> Node:
    return value if isinstance(value, Node) else Constant(value, type_of(value))


def done(op: Op, *inputs: Any, **params: Any) -> Node:
    """An operation applied to nodes and numbers."""
    return apply(op, *map(_node, inputs), params=params)


class _Arithmetic:
    """Real arithmetic on nodes, as formulas have it."""

    def __getattr__(self, name: str) -> Callable[..., Node]:
        op = getattr(ew, name, None) or getattr(logic, name)
        return lambda *inputs: done(op, *inputs)


do = _Arithmetic()
Rule = Callable[..., Any]
RULES: dict[Op, Rule] = {}


def _rule(*ops: Op) -> Callable[[Rule], Rule]:
    def note(rule: Rule) -> Rule:
        RULES.update(dict.fromkeys(ops, rule))
        return rule

    return note


def _in_dtype(part: Node, dtype: np.dtype) -> Node:
    return part if part.type.dtype == dtype else done(layout.convert, part, dtype=dtype)


def _converted(node: Operator, *given: Number) -> list[tuple[Node, Node]]:
    """The parts of arguments, in the dtype that NumPy computes in."""
    dtype = result_dtype(*[source.type for source in node.inputs])
    real = linalg.real_dtype(dtype)
    return [(_in_dtype(re, real), _in_dtype(im, real)) for re, im in (one.both() for one in given)]


# ---------------------------------------------------------------- transforms


@_rule(fft.fft, fft.ifft, fft.rfft)
def _transform(node: Operator, x: Number) -> Node | None:
    """Of numbers that there is a transform for: floats, and complex ones where these are wanted."""
    given, part = node.inputs[0].type, linalg.real_dtype(node.type.dtype)
    if x.im is not None or (given.dtype == part and node.op is fft.rfft):
        return None
    numbers = _in_dtype(x.re, part)
    if node.op is not fft.rfft:
        numbers = done(ew.complex_of, numbers, part.type(0))
    return apply(node.op, numbers, params=node.params, like=node)


# ---------------------------------------------------------------- matrices


@_rule(linalg.inv)
def _inverse(node: Operator, a: Number) -> Node:
    eye = np.eye(node.type.shape[-1], dtype=node.type.dtype)
    whole = done(ew.complex_of, *a.both())
    return done(linalg.solve, whole, Constant(eye), transposed=False)


@_rule(matrix_functions.det)
def _determinant(node: Operator, a: Number) -> Number | None:
    found = _by_elimination(a)
    if found is None:
        return None
    (re, im), size = found
    size = do.exp(size)
    return Number(do.multiply(re, size), do.multiply(im, size))


@_rule(matrix_functions.slogdet)
def _sign_and_size(node: Operator, a: Number) -> list[Any] | None:
    found = _by_elimination(a)
    return None if found is None else [Number(*found[0]), found[1]]


def _by_elimination(a: Number) -> tuple[tuple[Node, Node], Node] | None:
    """The direction of determinants and the logarithms of their lengths."""
    *batch, n, _ = a.re.type.shape
    if not current().lapack or not 0 < n <= MOST_FACTORS:
        return None
    made = done(linalg.lu, done(ew.complex_of, *a.both()))
    factors, pivots = (
        Operator(ITEM, (made,), {"index": number}, None, made.type[number]) for number in (0, 1)
    )
    swapped = do.not_equal(pivots, Constant(np.arange(n)))
    count = done(layout.reduce_sum, _in_dtype(swapped, np.dtype(np.int64)), axes=(len(batch),))
    odd = do.equal(do.bitwise_and(count, 1), 1)
    direction: tuple[Node, Node] = (do.select(odd, -1.0, 1.0), _node(0.0))
    size: Node | None = None
    front = [(0, length, 1) for length in batch]
    parts = done(ew.real, factors), done(ew.imag, factors)
    for k in range(n):
        key = (*front, (k, k + 1, 1), (k, k + 1, 1))
        c, d = (
            done(layout.reshape, done(indexing.index, part, key=key), shape=(*batch,))
            for part in parts
        )
        length = do.hypot(c, d)
        none = do.equal(length, 0.0)
        whole = do.select(none, 1.0, length)
        direction = _product(direction, (do.divide(c, whole), do.divide(d, whole))).both()
        size = do.log(length) if size is None else do.add(size, do.log(length))
    assert size is not None
    return direction, size


# ---------------------------------------------------------------- part by part


@_rule(
    layout.reshape, layout.permute, layout.broadcast_to, layout.reduce_sum, logic.stop_gradient,
    indexing.index, indexing.embed, cumsum, windows, fold, ew.negative, ew.positive,
)  # fmt: skip
def _each_part(node: Operator, x: Number) -> Number:
    return _in_parts(x, lambda part: done(node.op, part, **node.params))


def _in_parts(x: Number, change: Callable[[Node], Node]) -> Number:
    return Number(change(x.re), None if x.im is None else change(x.im))


@_rule(ew.add, ew.subtract)
def _both_parts(node: Operator, x: Number, y: Number) -> Number:
    (a, b), (c, d) = _converted(node, x, y)
    is_real = x.im is None and y.im is None
    return Number(done(node.op, a, c), None if is_real else done(node.op, b, d))


@_rule(structure.concatenate)
def _put_together(node: Operator, *given: Number) -> Number:
    dtype = linalg.real_dtype(node.type.dtype)
    columns = []
    for one in given:
        im = zeros(one.re, dtype) if one.im is None else one.im
        columns.append((_in_dtype(one.re, dtype), _in_dtype(im, dtype)))
    return Number(*[done(node.op, *parts, **node.params) for parts in zip(*columns, strict=True)])


@_rule(ew.select, ew.unless)
def _chosen(node: Operator, c: Number, x: Number, y: Number) -> Number | None:
    if c.im is not None:
        return None
    dtype = linalg.real_dtype(node.type.dtype)
    pairs = [[_in_dtype(part, dtype) for part in one.both()] for one in (x, y)]
    re, im = (do.select(c.re, *parts) for parts in zip(*pairs, strict=True))
    return Number(re, None if x.im is None and y.im is None else im)


@_rule(indexing.gather)
def _gathered(node: Operator, x: Number, *places: Number) -> Number:
    indices = [place.re for place in places]
    return _in_parts(x, lambda part: done(node.op, part, *indices, **node.params))


@_rule(indexing.index_set, indexing.scatter_set, indexing.scatter_add)
def _written(node: Operator, x: Number, y: Number, *places: Number) -> Number | None:
    if node.type.dtype.kind != "c":
        return None
    real, indices = x.re.type.dtype, [place.re for place in places]
    pairs = [
        (
            _in_dtype(one.re, real),
            zeros(one.re, real) if one.im is None else _in_dtype(one.im, real),
        )
        for one in (x, y)
    ]
    return Number(
        *[done(node.op, *parts, *indices, **node.params) for parts in zip(*pairs, strict=True)]
    )


def zeros(like: Node, dtype: np.dtype) -> Node:
    """The imaginary part of what is real, as an array."""
    return Constant(np.broadcast_to(dtype.type(0), like.type.shape))


@_rule(layout.again)
def _again(node: Operator, x: Number, after: Number) -> Number | None:
    if after.im is not None or node.type.dtype.kind != "c":
        return None
    return _in_parts(x, lambda part: done(node.op, part, after.re))


@_rule(layout.convert)
def _convert(node: Operator, x: Number) -> Any:
    wanted: np.dtype = node.params["dtype"]
    if wanted.kind != "c":
        return done(layout.convert, x.re, dtype=wanted) if wanted.kind != "b" else None
    if wanted.char not in "FD":
        return None
    part = linalg.real_dtype(wanted)
    return _in_parts(x, lambda one: _in_dtype(one, part))


@_rule(ew.complex_of)
def _complex_of(node: Operator, x: Number, y: Number) -> Number:
    return Number(x.re, y.re)


@_rule(ew.real)
def _real(node: Operator, x: Number) -> Node:
    return x.re


@_rule(ew.imag)
def _imag(node: Operator, x: Number) -> Node:
    return x.both()[1]


@_rule(ew.conjugate)
def _conjugate(node: Operator, x: Number) -> Number:
    return Number(x.re, None if x.im is None else do.negative(x.im))


# ---------------------------------------------------------------- products


def _product(x: tuple[Node, Node], y: tuple[Node, Node], op: Op = ew.multiply) -> Number:
    (a, b), (c, d) = x, y
    return Number(
        do.subtract(done(op, a, c), done(op, b, d)), do.add(done(op, a, d), done(op, b, c))
    )


@_rule(ew.multiply)
def _multiply(node: Operator, x: Number, y: Number) -> Number:
    one, other = _converted(node, x, y)
    return _product(one, other)


@_rule(ew.scale)
def _scale(node: Operator, x: Number, y: Number) -> Number:
    (a, b), (c, d) = _converted(node, x, y)
    if y.im is None:
        return Number(do.scale(a, c), None if x.im is None else do.scale(b, c))
    if x.im is None:
        return Number(do.scale(a, c), do.scale(a, d))
    return _product((a, b), (c, d), ew.scale)


@_rule(ew.square)
def _square(node: Operator, x: Number) -> Number:
    (pair,) = _converted(node, x)
    return _product(pair, pair)


@_rule(contract)
def _contract(node: Operator, x: Number, y: Number) -> Number:
    dtype = linalg.real_dtype(node.type.dtype)

    def product(one: Node | None, other: Node | None) -> Node | None:
        if one is None or other is None:
            return None
        return done(contract, _in_dtype(one, dtype), _in_dtype(other, dtype), **node.params)

    def together(op: Op, one: Node | None, other: Node | None) -> Node:
        assert one is not None or other is not None
        if one is None or other is None:
            return one if other is None else other  # type: ignore[return-value]
        return done(op, one, other)

    (a, b), (c, d) = x, y
    return Number(
        together(ew.subtract, product(a, c), product(b, d)),
        together(ew.add, product(a, d), product(b, c)),
    )


def _quotient(x: tuple[Node, Node], y: tuple[Node, Node]) -> Number:
    """Smith's method: by the larger part of the denominator, so that no square leaves the range."""
    (a, b), (c, d) = x, y
    first = do.greater_equal(do.absolute(c), do.absolute(d))
    most, least = do.select(first, c, d), do.select(first, d, c)
    zero = do.equal(most, 0.0)
    ratio = do.divide(least, most)
    factor = do.divide(1.0, do.add(most, do.multiply(least, ratio)))
    u, v = do.multiply(a, ratio), do.multiply(b, ratio)
    re = do.multiply(do.select(first, do.add(a, v), do.add(u, b)), factor)
    im = do.multiply(do.select(first, do.subtract(b, u), do.subtract(v, a)), factor)
    none = do.absolute(c)
    return Number(do.select(zero, do.divide(a, none), re), do.select(zero, do.divide(b, none), im))


@_rule(ew.divide)
def _divide(node: Operator, x: Number, y: Number) -> Number:
    (a, b), (c, d) = _converted(node, x, y)
    if y.im is not None:
        return _quotient((a, b), (c, d))
    ratio = do.divide(d, c)  # nothing, but of infinities
    zero, none, factor = do.equal(c, 0.0), do.absolute(c), do.divide(1.0, c)
    re = do.multiply(do.add(a, do.multiply(b, ratio)), factor)
    im = do.multiply(do.subtract(b, do.multiply(a, ratio)), factor)
    return Number(do.select(zero, do.divide(a, none), re), do.select(zero, do.divide(b, none), im))


def _one_over(a: Node, b: Node) -> Number:
    first = do.less_equal(do.absolute(b), do.absolute(a))
    most, least = do.select(first, a, b), do.select(first, b, a)
    ratio = do.divide(least, most)
    below = do.add(most, do.multiply(least, ratio))
    re = do.divide(do.select(first, 1.0, ratio), below)
    return Number(re, do.divide(do.negative(do.select(first, ratio, 1.0)), below))


@_rule(ew.reciprocal)
def _reciprocal(node: Operator, x: Number) -> Number:
    (pair,) = _converted(node, x)
    return _one_over(*pair)


@_rule(ew.integer_power)
def _integer_power(node: Operator, x: Number) -> Number | None:
    n: int = node.params["n"]
    if abs(n) > MOST_FACTORS or n == 0:
        return None
    (power,) = _converted(node, x)
    found: tuple[Node, Node] | None = None
    rest = abs(n)
    while True:
        if rest & 1:
            found = power if found is None else _product(found, power).both()
        rest >>= 1
        if not rest:
            break
        power = _product(power, power).both()
    assert found is not None
    return _one_over(*found) if n < 0 else Number(*found)


# ---------------------------------------------------------------- lengths and comparisons


@_rule(ew.absolute)
def _absolute(node: Operator, x: Number) -> Node:
    return do.hypot(*x.both())


@_rule(logic.equal, logic.not_equal)
def _compare(node: Operator, x: Number, y: Number) -> Node:
    (a, b), (c, d) = _converted(node, x, y)
    if x.im is None and y.im is None:
        return done(node.op, a, c)
    join = logic.logical_and if node.op is logic.equal else logic.logical_or
    return done(join, done(node.op, a, c), done(node.op, b, d))


@_rule(logic.less, logic.less_equal, logic.greater, logic.greater_equal)
def _order(node: Operator, x: Number, y: Number) -> Node:
    """By the real parts, and where these are equal by the imaginary ones."""
    (a, b), (c, d) = _converted(node, x, y)
    is_less = node.op in (logic.less, logic.less_equal)
    apart = done(logic.less if is_less else logic.greater, a, c)
    known = do.logical_not(do.logical_or(do.isnan(b), do.isnan(d)))
    return do.logical_or(
        do.logical_and(apart, known), do.logical_and(do.equal(a, c), done(node.op, b, d))
    )


@_rule(logic.isnan, logic.isinf, logic.isfinite)
def _test(node: Operator, x: Number) -> Node:
    join = logic.logical_and if node.op is logic.isfinite else logic.logical_or
    return done(join, *[done(node.op, part) for part in x.both()])


# ---------------------------------------------------------------- elementary functions


@_rule(ew.exp)
def _exp(node: Operator, x: Number) -> Number:
    a, b = x.both()
    size = do.exp(a)
    # as C has it: exp(inf + 0i) is inf + 0i, and what has no angle may still be 0 or infinite
    level = do.equal(b, 0.0)
    lost = do.logical_and(do.isinf(a), do.logical_not(do.isfinite(b)))
    gone = do.logical_and(lost, do.less(a, 0.0))
    cosine = do.select(lost, 1.0, do.cos(b))
    sine = do.select(gone, do.copysign(1.0, b), do.sin(b))
    return Number(
        do.select(level, size, do.multiply(size, cosine)),
        do.select(level, b, do.multiply(size, sine)),
    )


def _scaled(a: Node, b: Node) -> tuple[Node, Node, int, Node, Node]:
    """Both times a power of two that keeps lengths in range; how large that is, and where."""
    info = np.finfo(a.type.dtype)
    size = do.maximum(do.absolute(a), do.absolute(b))
    shift = 2 * (info.nmant + 2)
    large = do.greater(size, a.type.dtype.type(info.max / 4))
    small = do.less(size, a.type.dtype.type(info.tiny * 4))
    factor = do.select(large, 2.0**-shift, do.select(small, 2.0**shift, 1.0))
    factor = _in_dtype(factor, a.type.dtype)
    return do.multiply(a, factor), do.multiply(b, factor), shift, large, small


@_rule(ew.log)
def _log(node: Operator, x: Number) -> Number:
    """Near a length of one the logarithm is that of its distance from one."""
    a, b = x.both()
    u, v, shift, large, small = _scaled(a, b)
    length, angle = do.hypot(u, v), do.arctan2(b, a)
    away = shift * float(np.log(2.0))
    moved = do.select(large, away, do.select(small, -away, 0.0))
    p, q = do.absolute(a), do.absolute(b)
    most, least = do.maximum(p, q), do.minimum(p, q)
    beyond = do.multiply(do.subtract(most, 1.0), do.add(most, 1.0))
    beyond = do.add(beyond, do.multiply(least, least))
    near = do.logical_and(do.greater(length, 0.7), do.less(length, 1.4))
    close = do.multiply(0.5, do.log1p(do.select(near, beyond, 0.0)))
    return Number(do.select(near, close, do.add(do.log(length), moved)), angle)


@_rule(ew.sqrt)
def _sqrt(node: Operator, x: Number) -> Number:
    a, b = x.both()
    u, v, shift, large, small = _scaled(a, b)
    root = do.sqrt(do.multiply(0.5, do.add(do.absolute(u), do.hypot(u, v))))
    other = do.divide(do.absolute(v), do.multiply(2.0, root))
    right = do.greater_equal(a, 0.0)
    far_back = 2.0 ** (shift // 2)
    back = do.select(large, far_back, do.select(small, 1 / far_back, 1.0))
    re = do.multiply(do.select(right, root, other), back)
    im = do.multiply(do.copysign(do.select(right, other, root), b), back)
    zero, far = do.equal(root, 0.0), do.isinf(b)
    re = do.select(far, np.inf, do.select(zero, 0.0, re))
    return Number(re, do.select(do.logical_or(zero, far), b, im))


@_rule(
    ew.sin, ew.cos, ew.tan, ew.arcsin, ew.arccos, ew.arctan, ew.sinh, ew.cosh, ew.tanh, ew.arcsinh,
    ew.arccosh, ew.arctanh, ew.exp2, ew.expm1, ew.log2, ew.log10, ew.log1p, ew.power, ew.direction,
)  # fmt: skip
def _function(node: Operator, *given: Number) -> Node | None:
    """One of NumPy's own functions, of whole arrays; see `schedule.complex_functions`."""
    if node.type.dtype.char not in "FD":
        return None
    part = linalg.real_dtype(node.type.dtype)
    whole = []
    for one in given:
        re, im = (_in_dtype(part_, part) for part_ in one.both())
        made = done(ew.complex_of, re, im)
        if made.type.shape != node.type.shape:
            re = done(layout.broadcast_to, re, shape=node.type.shape)
            made = done(ew.complex_of, re, im)
        whole.append(made)
    return apply(node.op, *whole, params=node.params, like=node)
