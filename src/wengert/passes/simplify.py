"""Algebraic simplification: one small rule for each identity.

Only identities that hold for NaN, infinities and signed zeros are used, except inside
derivatives, where zero times anything is zero by definition.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..errors import WengertError
from ..graph import Constant, Graph, Node, Operator
from ..keeping import LARGE
from ..lines import is_derived
from ..loops import Pointwise
from ..ops import elementwise as ew
from ..ops import layout
from ..ops.contract import contract
from ..ops.op import Op
from ..ops.reductions import reduce_max, reduce_min
from ..types import ArrayType, exactly
from .constants import constant_value, is_uniform
from .rewriting import apply, full, rebuild, same_type

_RULES: dict[Op, list[Callable[[Operator], Node | None]]] = {}


def _rule(*ops: Op) -> Callable:
    def add(function: Callable) -> Callable:
        for op in ops:
            _RULES.setdefault(op, []).append(function)
        return function

    return add


def simplify(graph: Graph) -> Graph:
    """x * 1 -> x, transpose(transpose(x)) -> x, sum(broadcast(x)) -> x * n, and so on."""

    def rule(node: Operator) -> Node | None:
        for function in _RULES.get(node.op, ()):
            found = function(node)
            if found is not None:
                return found
        return None

    return rebuild(graph, rule)


def _inner(node: Node, op: Op) -> Operator | None:
    """The node as an operator of that operation, else None."""
    if isinstance(node, Operator) and node.op is op:
        return node
    return None


@_rule(ew.multiply, ew.scale)
def times_one(node: Operator) -> Node | None:
    """x * 1 -> x; not for complex x, of which the product mixes an infinity with a zero."""
    x, y = node.inputs
    if node.op is ew.multiply and node.type.dtype.kind == "c":
        return None
    if is_uniform(y, 1) and same_type(x, node.type):
        return x
    if is_uniform(x, 1) and same_type(y, node.type):
        return y
    return None


@_rule(ew.scale)
def zero_slope(node: Operator) -> Node | None:
    """scale(0, d) -> 0."""
    if any(is_uniform(source, 0) for source in node.inputs):
        return full(0, node.type)
    return None


def _number(node: Node) -> float | None:
    """The value of a constant whose elements are one real number."""
    value = constant_value(node)
    if value is None or not _is_one_number(value) or np.asarray(value).dtype.kind not in "iuf":
        return None
    return float(np.asarray(value).flat[0])


def _factor(node: Operator) -> tuple[float, Node] | None:
    """A product with a number, as the number and the rest."""
    for this, other in (node.inputs, node.inputs[::-1]):
        number = _number(this)
        if number is not None and same_type(other, node.type):
            return number, other
    return None


def _times(number: float, x: Node, like: Operator) -> Operator:
    return apply(ew.multiply, full(number, ArrayType(like.type.dtype, ())), x, params={}, like=like)


@_rule(ew.scale)
def plain_product(node: Operator) -> Node | None:
    """scale(c, d) -> c * d for a number c that is finite and not zero."""
    for source in node.inputs:
        number = _number(source)
        if number is not None and np.isfinite(number) and number != 0:
            return apply(ew.multiply, *node.inputs, params={}, like=node)
    return None


@_rule(ew.multiply)
def two_factors(node: Operator) -> Node | None:
    """a * (b * x) -> (a * b) * x where b is a power of two and both are at least 1 in size.

    Then b * x is exact, or it overflows and so does all of it: the result is the same.
    """
    outer = _factor(node) if node.type.dtype.kind == "f" else None
    inner = _inner(outer[1], ew.multiply) if outer else None
    found = _factor(inner) if inner is not None else None
    if outer is None or found is None:
        return None
    a, (b, x) = outer[0], found
    product = node.type.dtype.type(a) * node.type.dtype.type(b)
    exact = abs(np.frexp(b)[0]) == 0.5 and abs(b) >= 1 and abs(a) >= 1 and np.isfinite(product)
    return _times(float(product), x, node) if exact else None


@_rule(ew.negative)
def negated_factor(node: Operator) -> Node | None:
    """-(c * x) -> (-c) * x."""
    inner = _inner(node.inputs[0], ew.multiply) if node.type.dtype.kind == "f" else None
    found = _factor(inner) if inner is not None else None
    return _times(-found[0], found[1], node) if found is not None else None


@_rule(ew.add)
def plus_zero(node: Operator) -> Node | None:
    """x + (-0.0) -> x; x + 0 -> x for integers."""
    x, y = node.inputs
    for this, other in ((x, y), (y, x)):
        zero = is_uniform(other, 0)
        exact = node.type.dtype.kind in "iub" or (
            zero and _all_negative(constant_value(other), node.type)
        )
        if zero and exact and same_type(this, node.type):
            return this
    return None


def _all_negative(zeros: object, result: ArrayType) -> bool:
    """Whether zeros carry a minus in the dtype of the result, both parts of complex ones."""
    array = np.asarray(zeros).astype(result.dtype)
    parts = (array.real, array.imag) if array.dtype.kind == "c" else (array,)
    return all(np.all(np.signbit(part)) for part in parts)


@_rule(ew.add)
def plus_negative(node: Operator) -> Node | None:
    """x + (-y) -> x - y, (-x) + y -> y - x."""
    if node.type.dtype.kind == "b":
        return None
    x, y = node.inputs
    for this, other in ((x, y), (y, x)):
        inner = _inner(other, ew.negative)
        if inner is not None and _wraps_alike(inner, node):
            return apply(ew.subtract, this, inner.inputs[0], params={}, like=node)
    return None


def _wraps_alike(inner: Operator, node: Operator) -> bool:
    """Whether the inner result has the dtype of the outer: integers wrap before they are cast."""
    return inner.type.dtype.kind in "fc" or inner.type.dtype == node.type.dtype


@_rule(ew.subtract)
def minus_negative(node: Operator) -> Node | None:
    """x - (-y) -> x + y."""
    inner = _inner(node.inputs[1], ew.negative)
    if inner is None or not _wraps_alike(inner, node):
        return None
    return apply(ew.add, node.inputs[0], inner.inputs[0], params={}, like=node)


@_rule(ew.multiply, ew.divide)
def two_negatives(node: Operator) -> Node | None:
    """(-x) * (-y) -> x * y, (-x) / (-y) -> x / y for floats."""
    x, y = (_inner(source, ew.negative) for source in node.inputs)
    if x is None or y is None or node.type.dtype.kind != "f":
        return None
    if {x.type.dtype, y.type.dtype} != {node.type.dtype}:
        return None  # integers wrap around before they are converted
    return apply(node.op, x.inputs[0], y.inputs[0], params=node.params, like=node)


@_rule(ew.divide)
def over_one(node: Operator) -> Node | None:
    """x / 1 -> x; not for complex x, as with products."""
    x, y = node.inputs
    plain = node.type.dtype.kind != "c"
    return x if plain and is_uniform(y, 1) and same_type(x, node.type) else None


@_rule(ew.negative, ew.conjugate)
def twice(node: Operator) -> Node | None:
    """-(-x) -> x."""
    inner = _inner(node.inputs[0], node.op)
    return inner.inputs[0] if inner is not None else None


@_rule(ew.integer_power)
def small_power(node: Operator) -> Node | None:
    """x**1 -> x, x**2 -> x * x."""
    x = node.inputs[0]
    if node.params["n"] == 1 and same_type(x, node.type):
        return x
    if node.params["n"] == 2:
        return apply(ew.multiply, x, x, params={}, like=node)
    return None


@_rule(layout.convert)
def same_dtype(node: Operator) -> Node | None:
    """convert(x, its own dtype) -> x."""
    x = node.inputs[0]
    return x if same_type(x, node.type) else None


@_rule(layout.convert)
def there_and_back(node: Operator) -> Node | None:
    """convert(convert(x, wider), x's dtype) -> x, where the wider one holds every value."""
    inner = _inner(node.inputs[0], layout.convert)
    if inner is None or not same_type(inner.inputs[0], node.type):
        return None
    x = inner.inputs[0]
    source, wide = x.type.dtype, inner.type.dtype
    holds = source.kind in "bf" or wide.kind not in "fc" or source.itemsize <= 4
    if not holds or x.type.weak or not np.can_cast(source, wide, "safe"):
        return None
    return x


@_rule(layout.reshape, layout.broadcast_to)
def same_shape(node: Operator) -> Node | None:
    """reshape(x, its own shape) -> x."""
    x = node.inputs[0]
    return x if same_type(x, node.type) else None


@_rule(layout.reshape)
def reshape_twice(node: Operator) -> Node | None:
    """reshape(reshape(x)) -> reshape(x)."""
    inner = _inner(node.inputs[0], layout.reshape)
    if inner is None:
        return None
    return apply(layout.reshape, inner.inputs[0], params=node.params, like=node)


@_rule(layout.broadcast_to)
def broadcast_twice(node: Operator) -> Node | None:
    """broadcast(broadcast(x)) -> broadcast(x)."""
    inner = _inner(node.inputs[0], layout.broadcast_to)
    if inner is None:
        return None
    return apply(layout.broadcast_to, inner.inputs[0], params=node.params, like=node)


@_rule(layout.permute)
def permute_twice(node: Operator) -> Node | None:
    """permute(permute(x)) -> permute(x), or x."""
    axes = node.params["axes"]
    x = node.inputs[0]
    if axes == tuple(range(len(axes))):
        return x
    inner = _inner(x, layout.permute)
    if inner is None:
        return None
    joined = tuple(inner.params["axes"][axis] for axis in axes)
    if joined == tuple(range(len(joined))):
        return inner.inputs[0]
    return apply(layout.permute, inner.inputs[0], params={"axes": joined}, like=node)


@_rule(layout.reduce_sum)
def sum_nothing(node: Operator) -> Node | None:
    """sum over no axes, or over axes of length 1 -> reshape."""
    x = node.inputs[0]
    if x.type.dtype != node.type.dtype:
        return None
    if all(x.type.shape[axis] == 1 for axis in node.params["axes"]):
        return apply(layout.reshape, x, params={"shape": node.type.shape}, like=node)
    return None


@_rule(layout.reduce_sum)
def sum_of_equals(node: Operator) -> Node | None:
    """sum(broadcast(x)) -> x * n, over axes along which x is repeated: one rounding, not n."""
    inner = _inner(node.inputs[0], layout.broadcast_to)
    if inner is None or inner.inputs[0].type.dtype != node.type.dtype:
        return None
    x, shape, axes = inner.inputs[0], inner.type.shape, node.params["axes"]
    missing = len(shape) - len(x.type.shape)
    count = int(np.prod([shape[axis] for axis in axes], dtype=np.int64))
    repeated = all(axis < missing or x.type.shape[axis - missing] == 1 for axis in axes)
    if not repeated or count == 0 or node.type.dtype.kind not in "iuf":
        return None
    kept = [n for axis, n in enumerate(x.type.shape) if axis + missing not in axes]
    once = apply(layout.reshape, x, params={"shape": tuple(kept)})
    times = full(count, ArrayType(node.type.dtype, ()))
    product = apply(ew.multiply, once, times, params={})
    return apply(layout.broadcast_to, product, params={"shape": node.type.shape}, like=node)


@_rule(reduce_max, reduce_min)
def without_ties(node: Operator) -> Node | None:
    """max(x, ties="first") -> max(x, ties="equal"): they differ in their derivatives alone."""
    if node.params["ties"] == "equal":
        return None
    return apply(node.op, *node.inputs, params={**node.params, "ties": "equal"}, like=node)


@_rule(contract)
def one_dtype(node: Operator) -> Node | None:
    """contract(x, y) -> contract(convert(x), y), where x has another dtype than the result."""
    dtype = node.type.dtype
    if dtype.kind == "c" or all(source.type.dtype == dtype for source in node.inputs):
        return None
    inputs = [apply(layout.convert, x, params={"dtype": dtype}) for x in node.inputs]
    return apply(contract, *inputs, params=node.params, like=node)


@_rule(contract)
def of_integers(node: Operator) -> Node | None:
    """contract(x, y) -> sum(x * y) of integers: products as such are those of floats."""
    if node.type.dtype.kind not in "iu":
        return None
    *labels, out = node.params["spec"]
    order = [*out, *[label for label in labels[0] if label not in out]]
    factors = []
    for x, own in zip(node.inputs, labels, strict=True):
        axes = [own.index(label) for label in order if label in own]
        lengths = dict(zip(own, x.type.shape, strict=True))
        shape = tuple(lengths.get(label, 1) for label in order)
        turned = apply(layout.permute, x, params={"axes": tuple(axes)})
        factors.append(apply(layout.reshape, turned, params={"shape": shape}))
    product = apply(ew.multiply, *factors, params={})
    summed = tuple(range(len(out), len(order)))
    total = apply(layout.reduce_sum, product, params={"axes": summed})
    return apply(layout.convert, total, params={"dtype": node.type.dtype}, like=node)


@_rule(ew.select)
def known_choice(node: Operator) -> Node | None:
    """where(True, x, y) -> x."""
    c, x, y = node.inputs
    if is_uniform(c, True) and same_type(x, node.type):
        return x
    if is_uniform(c, False) and same_type(y, node.type):
        return y
    return None


def fold_constants(graph: Graph, limit: int = 1 << 12) -> Graph:
    """f(constants) -> the value: as one number where all elements are equal, else up to `limit`."""

    def rule(node: Operator) -> Node | None:
        values = [constant_value(source) for source in node.inputs]
        if not values or any(value is None for value in values):
            return None
        if node.op.multiple or node.op.pull_rule is not None or node.op.collective:
            return None
        with np.errstate(all="ignore"):
            if _is_elementwise(node) and all(map(_is_one_number, values)):
                return _fold_uniform(node, values)
            if node.type.size > limit or any(np.size(value) > limit for value in values):
                return None
            try:
                result = node.op.evaluate(*values, **node.params)
            except (WengertError, ArithmeticError, LookupError, ValueError):
                return None  # it is an error of the program, if it comes to that
        return Constant(np.asarray(result, node.type.dtype), node.type)

    return rebuild(graph, rule)


def _is_elementwise(node: Operator) -> bool:
    loops = node.op.loops
    return node.op.moves or (isinstance(loops, Pointwise) and not (loops.free or loops.whole))


def _is_one_number(value: object) -> bool:
    array = np.asarray(value)
    return array.size > 0 and (array.ndim == 0 or not any(array.strides) or array.size == 1)


def _fold_uniform(node: Operator, values: list) -> Node:
    """The operation on one element stands for all."""
    if node.op.moves:
        return full(np.asarray(values[0]).flat[0], node.type)
    numbers = [v if np.ndim(v) == 0 else np.asarray(v).flat[0] for v in values]
    return full(node.op.evaluate(*numbers, **node.params), node.type)


def share_common(graph: Graph) -> Graph:
    """a = f(x); b = f(x) -> b is a."""
    seen: dict[object, Node] = {}

    def rule(node: Operator) -> Node | None:
        try:
            key = (
                node.op,
                tuple(_identity(source) for source in node.inputs),
                tuple((name, exactly(value)) for name, value in node.params.items()),
            )
            first = seen.setdefault(key, node)
            if is_derived(first.source) and not is_derived(node.source):
                first.source = node.source  # what is computed anyway is not the derivative's
            return first
        except TypeError:  # a param that cannot be hashed: leave the node alone
            return None

    return rebuild(graph, rule)


def _identity(node: Node) -> object:
    value = constant_value(node)
    if value is None:
        return node.serial
    if np.ndim(value) == 0:
        number = np.asarray(value)
        return (number.dtype, number.tobytes(), node.type.weak)
    small = np.asarray(value).nbytes < LARGE  # a large one is kept once
    return ("array", value.tobytes() if small else id(value), node.type)
