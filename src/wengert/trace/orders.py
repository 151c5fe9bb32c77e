"""How NumPy's arrays lie in memory: which reshapes are views, and which are copies.

NumPy's results follow the order of their operands: ``x.T * 2`` lies in memory as ``x.T`` does, so
that ``(x.T * 2).ravel()`` is a copy. Nothing lies in memory here, but who writes to one of the two
must know whether the other one changes. So it is worked out when somebody does, and not before:
from the strides of the arguments through all that was computed of them. What is not known for
certain is None, and then the write is refused.

Most of it is in the graph. What is not, an array *claims* of the node that it holds: a copy holds
the node of the original, and a written array keeps its own order whatever is written. Where claims
of one node differ, nobody can tell from the graph whose order what is computed of it has.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..graph import Constant, Node, Operator
from ..ops.indexing import index, index_set, python_key, scatter_set
from ..ops.layout import again, broadcast_to, permute, reshape
from ..ops.op import Traced
from ..types import ArrayType, Function

Strides = tuple[int, ...]

# Claims: the node's own rule; C order; what nobody knows. Others are strides, a pair ("K", node)
# for a copy that keeps the order of the node, or a function that gives strides or None.
OWN, C_ORDER, UNKNOWN = "own", "C", "unknown"

# Results in the order of the operands, as far as these agree: beside all that is elementwise.
_FOLLOWING = frozenset(
    "where convert to_integer stop_gradient integer_power ldexp sinc complex_of erf erfc expit "
    "gamma gammaln logit xlogy softplus gelu".split()
)
_REDUCTIONS = frozenset("sum prod max min all any".split())
_PARTS = frozenset(("real", "imag"))
# A program inside may return anything.
_PROGRAMS = frozenset("call custom scan while switch reduce recurrence".split())


def lying(node: Node, what: Any) -> Node:
    """The node of an array that lies like this: a view's is another one, which has no other order.

    Of other nodes it is a claim: arrays that hold them too may lie otherwise.
    """
    if isinstance(node, Operator) and node.op in _VIEWS and not _is_copy(what):
        other = Operator(node.op, node.inputs, node.params, node.output, node._type, node.active)
        other.source = node.source
        other.order = (what,)
        return other
    if type(node) is Constant and type(node.output) is np.ndarray and what is not UNKNOWN:
        return _constant_lying(node, what)
    claims = _claims(node)
    if what not in claims:
        node.order = (*claims, what)
    return node


def _constant_lying(node: Constant, what: Any) -> Node:
    """A constant that lies in memory as it should: where it is computed with, NumPy sees that."""
    if what is C_ORDER and node.output.flags.c_contiguous:
        return node
    strides = claimed_strides(node.type, what)
    if strides is None or _alike(node.type, node.output.strides, strides):
        return node
    return Constant(relaid(node.output, strides), node._type)


def relaid(array: np.ndarray, strides: Strides) -> np.ndarray:
    """The same elements in the order of other strides."""
    axes = sorted(range(array.ndim), key=lambda axis: -abs(strides[axis]))
    dense = np.ascontiguousarray(array.transpose(axes))
    return dense.transpose(np.argsort(axes))


def is_written(node: Any, before: Node) -> bool:
    """Whether a node is another one, or that with something written to a part: it lies as that."""
    if node is before:
        return True
    return type(node) is Operator and node.op is index_set and node._inputs[0] is before


def claimed(array: Any) -> Any:
    """What to claim for an array that keeps its order from now on, whatever is written to it."""
    node = array._node
    output = node.output
    if type(output) is np.ndarray and type(node) is not Operator:
        return C_ORDER if output.flags.c_contiguous else output.strides
    return C_ORDER if is_line(node.type.shape) else ("K", node)


def lies_in_c_order(shape: Sequence[int], strides: Strides) -> bool:
    """Whether no axis comes before one with longer steps, or has the same element again."""
    steps = [abs(step) for step, length in zip(strides, shape, strict=True) if length != 1]
    return all(steps) and steps == sorted(steps, reverse=True)


def is_line(shape: Sequence[int]) -> bool:
    """Whether at most one axis is longer than 1: then all orders are the same."""
    return sum(length != 1 for length in shape) < 2 or 0 in shape


def c_strides(array_type: ArrayType) -> Strides:
    """The strides of an array in C order, in bytes."""
    return _strides(array_type, range(len(array_type.shape)))


def f_strides(array_type: ArrayType) -> Strides:
    """The strides of an array in Fortran order, in bytes."""
    return _strides(array_type, range(len(array_type.shape))[::-1])


def _strides(array_type: ArrayType, axes: Sequence[int]) -> Strides:
    """The strides of a dense array whose axes come in this order, the outermost first."""
    strides = [0] * len(axes)
    step = array_type.dtype.itemsize
    for axis in reversed(axes):
        strides[axis] = step
        step *= max(array_type.shape[axis], 1)
    return tuple(strides)


def stand_in(array_type: ArrayType, strides: Strides) -> np.ndarray:
    """An array with these strides; its memory is not there and never touched."""
    return np.lib.stride_tricks.as_strided(
        np.empty(1, array_type.dtype), array_type.shape, strides, writeable=False
    )


def copied(array_type: ArrayType, strides: Strides) -> Strides:
    """The strides of a copy that keeps the order."""
    return _asked(array_type, [(array_type, strides)], lambda x: np.copy(x, order="K"))


def copied_a(array_type: ArrayType, strides: Strides) -> Strides:
    """The strides of a copy in Fortran order if the array is in that alone, and in C order else."""
    flags = stand_in(array_type, strides).flags
    is_fortran = flags.f_contiguous and not flags.c_contiguous
    return f_strides(array_type) if is_fortran else c_strides(array_type)


def is_c_order(array_type: ArrayType, strides: Strides) -> bool:
    """Whether the axes come in the order of their numbers."""
    return _alike(array_type, strides, c_strides(array_type))


def _alike(array_type: ArrayType, one: Strides, other: Strides) -> bool:
    """Whether copies that keep the order would lie alike; strides of single elements are none."""
    pairs = zip(array_type.shape, copied(array_type, one), copied(array_type, other), strict=True)
    return all(left == right for length, left, right in pairs if length != 1)


def _asked(
    result: ArrayType, given: Sequence[tuple[ArrayType, Strides]], function: Function
) -> Strides:
    """The strides of what a function makes of arrays, by the order of a small result of NumPy's.

    The arrays that it is given have axes of length 2 instead, and the order of the strides alone:
    that is all NumPy looks at.
    """
    small = [_small(array_type.shape, strides) for array_type, strides in given]
    found = np.asarray(function(*small))
    axes = sorted(range(found.ndim), key=lambda axis: -found.strides[axis])
    # along axes of length 1 strides mean nothing
    long = [axis for axis in axes if result.shape[axis] != 1]
    short = [axis for axis in range(found.ndim) if result.shape[axis] == 1]
    return _strides(result, [*short, *long])


def _small(shape: Sequence[int], strides: Strides) -> np.ndarray:
    sizes = sorted({abs(stride) for stride in strides if stride})
    steps = [sizes.index(abs(stride)) if stride else None for stride in strides]
    memory = np.zeros(2 ** (len(sizes) + 1) * max(len(strides), 1), np.int8)
    return np.lib.stride_tricks.as_strided(
        memory,
        [1 if length == 1 else 2 for length in shape],
        [0 if step is None else 2**step for step in steps],
    )


def claimed_strides(array_type: ArrayType, what: Any) -> Strides | None:
    """The strides of an array that claims to lie like this."""
    if what is UNKNOWN:
        return None
    if what is C_ORDER:
        return c_strides(array_type)
    if _is_copy(what):
        strides = node_strides(what[1])
        return None if strides is None else copied(what[1].type, strides)
    found: Strides | None = what() if callable(what) else what
    return found


# ---------------------------------------------------------------- nodes


def node_strides(node: Node) -> Strides | None:
    """The strides that NumPy would give to the value of a node; None where they are not known."""
    found: dict[int, Strides | None] = {}
    nodes: dict[int, Node] = {}
    pending = [node]
    while pending:
        current = pending[-1]
        if current.serial in found:
            pending.pop()
            continue
        nodes[current.serial] = current
        missing = [source for source in _sources(current) if source.serial not in found]
        if missing:
            pending += missing
            continue
        pending.pop()
        found[current.serial] = _first(current, found)
        others = [what[1] for what in _claims(current)[1:] if _is_copy(what)]
        pending[:0] = [other for other in others if other.serial not in found]
    doubtful = _doubtful(nodes, found)
    return None if node.serial in doubtful else found[node.serial]


def _claims(node: Node) -> tuple[Any, ...]:
    found: tuple[Any, ...] = getattr(node, "order", (OWN,))
    return found


def _sources(node: Node) -> Sequence[Node]:
    """The nodes that tell how this one lies: those it is computed of, or one it was copied from."""
    first = _claims(node)[0]
    if first is OWN:
        return node.inputs if isinstance(node, Operator) else ()
    return (first[1],) if _is_copy(first) else ()


def _is_copy(what: Any) -> bool:
    return type(what) is tuple and bool(what) and type(what[0]) is str


def _first(node: Node, found: dict[int, Strides | None]) -> Strides | None:
    """What the first claim says, which is older than all arrays that hold the node later."""
    what = _claims(node)[0]
    return _own(node, found) if what is OWN else _meant(node, what, found)


def _meant(node: Node, what: Any, found: dict[int, Strides | None]) -> Strides | None:
    if not _is_copy(what):
        return claimed_strides(node.type, what)
    strides = found[what[1].serial]
    return None if strides is None else copied(what[1].type, strides)


def _doubtful(nodes: dict[int, Node], found: dict[int, Strides | None]) -> set[int]:
    """Nodes of which arrays claim different orders, and all that is computed of them."""
    doubtful = set()
    for serial, node in nodes.items():
        own = found[serial]
        for what in _claims(node)[1:]:
            other = _meant(node, what, found)
            if own is None or other is None or not _alike(node.type, own, other):
                doubtful.add(serial)
    spread = bool(doubtful)
    while spread:
        spread = False
        for serial, node in nodes.items():
            others = [what[1] for what in _claims(node) if _is_copy(what)]
            if serial not in doubtful and any(
                source.serial in doubtful for source in (*_sources(node), *others)
            ):
                doubtful.add(serial)
                spread = True
    return doubtful


def _own(node: Node, found: dict[int, Strides | None]) -> Strides | None:
    """The strides by what the node is."""
    shape = getattr(node.type, "shape", None)
    if not isinstance(node, Operator):
        return _leaf(node)
    if shape is not None and is_line(shape) and node.op not in _VIEWS:
        return c_strides(node.type)
    given = [(source.type, found[source.serial]) for source in node.inputs]
    if node.op in (index_set, scatter_set, again):
        given = given[:1]
    if any(strides is None for _, strides in given) or node.op.name in _PROGRAMS:
        return None
    rule: Function = _RULES.get(node.op.name, _computed)
    result: Strides | None = rule(node, given)
    return result


def _leaf(node: Node) -> Strides | None:
    value = node.output
    if isinstance(value, Traced):
        from .lying import strides_of

        return strides_of(value)
    if value is None:
        return c_strides(node.type) if is_line(node.type.shape) else None
    return value.strides if isinstance(value, np.ndarray) else ()


Given = Sequence[tuple[ArrayType, Strides]]


def _computed(node: Operator, given: Given) -> Strides | None:
    """What is computed of arrays in C order is in C order too; of others by elements alone."""
    if node.op.by_elements or node.op.name in _FOLLOWING:
        return _asked(node.type, given, _broadcast_together)
    if node.op.name == "item" or all(is_c_order(*one) for one in given):
        return () if node.op.multiple else c_strides(node.type)
    return None


def _broadcast_together(*arrays: np.ndarray) -> np.ndarray:
    """A new array in the order that NumPy's ufuncs give to results of these."""
    flags = [["readonly"]] * len(arrays) + [["writeonly", "allocate"]]
    made: Any = np.nditer([*arrays, None], ["zerosize_ok"], flags, order="K")  # type: ignore[call-overload]
    result: np.ndarray = made.operands[-1]
    return result


def _part(node: Operator, given: Given) -> Strides:
    ((_, strides),) = given
    return strides


def _reduced(node: Operator, given: Given) -> Strides:
    axes = tuple(node.params["axes"])
    return _asked(node.type, given, lambda x: np.add.reduce(x, axis=axes))


def _rounded(node: Operator, given: Given) -> Strides:
    ((array_type, strides),) = given
    return copied_a(array_type, strides)


def _contracted(node: Operator, given: Given) -> Strides | None:
    """Products are in C order, and in stacks of them those of stacks in C order."""
    left, right, out = node.params["spec"]
    if not any(label in left and label in right for label in out):
        return c_strides(node.type)
    return _computed(node, given)


def _written(node: Operator, given: Given) -> Strides:
    return given[0][1]


def _viewed(node: Operator, given: Given) -> Strides:
    ((array_type, strides),) = given
    return viewed(node.op, node.params, stand_in(array_type, strides)).strides


_RULES: dict[str, Any] = {
    **dict.fromkeys(_PARTS, _part),
    **dict.fromkeys(_REDUCTIONS, _reduced),
    "round": _rounded,
    "contract": _contracted,
    **dict.fromkeys((index_set.name, scatter_set.name, again.name), _written),
}
_VIEWS = frozenset((index, permute, reshape, broadcast_to))
_RULES |= {op.name: _viewed for op in _VIEWS}


def viewed(op: Any, params: dict[str, Any], layout: np.ndarray) -> np.ndarray:
    """How a view of an array lies; a reshape that copies is in C order."""
    if op is index:
        # the dots keep an element a view; reading it would touch the memory
        return layout[(*python_key(params["key"]), ...)]
    if op is broadcast_to:
        return np.broadcast_to(layout, params["shape"])
    if op is reshape and not reshapes_without_copy(layout, params["shape"]):
        array_type = ArrayType(layout.dtype, params["shape"])
        return stand_in(array_type, c_strides(array_type))
    found: np.ndarray = op.evaluate(layout, **params)
    return found


def reshapes_without_copy(layout: np.ndarray, shape: tuple[int, ...]) -> bool:
    """Whether NumPy makes this reshape a view."""
    try:
        layout.reshape(shape, copy=False)
    except ValueError:
        return False
    return True
