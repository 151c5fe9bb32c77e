"""Batching: `vmap` runs a function of one sample on a whole batch.

The function is traced once on abstract samples. Then each operation is replaced by its batched
form: values that depend on the batch carry it as their first axis, the others stay as they are.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, ParamSpec, TypeVar

import numpy as np

from .. import tree
from ..errors import AbstractValueError, AxisError, ShapeError, StructureError, evaluates
from ..graph import Constant, Graph, Operator
from ..ops.indexing import index
from ..ops.layout import again, broadcast_to, convert, permute, reshape
from ..ops.op import Op, Traced
from ..ops.structure import concatenate
from ..trace import Trace, called
from ..trace.lying import strides_of
from ..trace.preparing import converting
from ..trace.reaching import places_to_change
from ..trace.tracer import ITEM
from ..trace.tracing import check_leaf, function_name
from ..trace.views import snapshot
from ..types import ArrayType, type_of
from .harmless import harmless, refuses
from .versions import as_it_stood, writes

P = ParamSpec("P")
R = TypeVar("R")


class _Mapping(threading.local):
    """Whether a function is traced for one sample of many."""

    depth = 0

    def __enter__(self) -> None:
        self.depth += 1

    def __exit__(self, *_: object) -> None:
        self.depth -= 1


mapping = _Mapping()


def vmap(f: Callable[P, R], in_axes: Any = 0, out_axes: Any = 0) -> Callable[P, R]:
    """Map `f` over an axis of its arguments.

    `in_axes` says for each argument (or each leaf of it) which axis is the batch; None: the
    same for all samples. `out_axes` says where the batch axis of each result goes.

    >>> import numpy as np
    >>> vmap(lambda x, y: x @ y, in_axes=(0, None))(np.eye(2), np.array([3.0, 4.0]))
    array([3., 4.])

    A function that looks at the values of a sample, as in `if` and `while`, is converted as `jit`
    does it, so that each sample goes its own way:

    >>> vmap(lambda x: x if x > 0 else 0.1 * x)(np.array([2.0, -3.0]))
    array([ 2. , -0.3])
    """
    batched = vmap_unconverted(f, in_axes, out_axes)

    @functools.wraps(f)
    def converted(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return batched(*args, **kwargs)
        except AbstractValueError:
            conversion = converting()
            if conversion is None:
                raise
        with conversion:
            return batched(*args, **kwargs)

    return converted


def vmap_unconverted(f: Callable[P, R], in_axes: Any = 0, out_axes: Any = 0) -> Callable[P, R]:
    """`vmap` of a function that must not look at values."""
    name = function_name(f)

    @functools.wraps(f)
    def batched(*args: P.args, **kwargs: P.kwargs) -> R:
        leaves, structure = tree.flatten(args)
        leaves = [snapshot(check_leaf(leaf, "vmap", name)) for leaf in leaves]
        prefix = tuple(in_axes) if isinstance(in_axes, list) else in_axes
        axes = broadcast_prefix(prefix, structure, "vmap in_axes")
        size = _batch_size(leaves, axes, name)
        with Trace(places=places_to_change(f, (), kwargs)) as trace, mapping:
            tracers = [
                _shared(trace, leaf) if axis is None else _sample(trace, leaf, axis)
                for leaf, axis in zip(leaves, axes, strict=True)
            ]
            variables = [t.node for t, axis in zip(tracers, axes, strict=True) if axis is not None]
            out = called(f, *tree.unflatten(structure, tracers), **kwargs)
            out_leaves, out_structure = tree.flatten(out)
            nodes = [trace.node_of(check_leaf(leaf, "vmap", "result")) for leaf in out_leaves]
        values = [
            _move_axis(leaf, axis, 0)
            for leaf, axis in zip(leaves, axes, strict=True)
            if axis is not None
        ]
        graph = Graph(variables, nodes)
        results = evaluate_batched(graph, size, values, [True] * len(values))
        targets = broadcast_prefix(out_axes, out_structure, "vmap out_axes")
        moved = [
            _place(value, flag, size, axis)
            for (value, flag), axis in zip(results, targets, strict=True)
        ]
        result: R = tree.unflatten(out_structure, moved)
        return result

    return batched


class Mixed(NamedTuple):
    """Several results, of which those that are flagged have the batch as their first axis."""

    values: tuple[Any, ...]
    flags: tuple[bool, ...]


@evaluates
def evaluate_batched(
    graph: Graph, size: int, values: Sequence[Any], flags: Sequence[bool], going: Any = None
) -> list[tuple[Any, bool]]:
    """Evaluate a graph of one sample for `size` samples.

    Flagged values carry the batch as their first axis, and so do flagged results. If `going` says
    which samples count, the others may give anything, but no error.
    """
    env: dict[int, tuple[Any, Any]] = {}
    kept = set() if going is None else writes(graph)  # of samples that do not count, as they are
    for variable, value, flag in zip(graph.inputs, values, flags, strict=True):
        env[variable.serial] = (value, flag)
    for node in graph.nodes:
        if isinstance(node, Constant):
            env[node.serial] = (node.output, False)
        elif isinstance(node, Operator):
            pairs = [env[source.serial] for source in node.inputs]
            env[node.serial] = _evaluate_one(node, size, pairs, going, node.serial in kept)
    return [env[node.serial] for node in graph.outputs]  # type: ignore[union-attr]


def _evaluate_one(
    node: Operator, size: int, pairs: list[tuple[Any, Any]], going: Any, is_write: bool
) -> tuple[Any, Any]:
    """The result of one operation, and whether it is a batch; of several results, whether each."""
    arguments = [value for value, _ in pairs]
    batched = [flag for _, flag in pairs]
    if node.op is ITEM:
        return _item(*pairs[0], node.params["index"])
    if node.op is again:
        return again(*arguments), batched[0]
    if going is not None and node.op.masked is not None:
        return node.op.masked(size, batched, going, *arguments, **node.params)  # type: ignore[no-any-return]
    if going is not None and refuses(node):
        arguments, batched = harmless(node, pairs, going, is_write)
        if is_write:
            arguments = as_it_stood(node, arguments, going, _batched)
    if not any(batched):
        return node.apply(arguments), False
    result = batch_one(node.op, size, batched, arguments, node.params)
    return result if isinstance(result, Mixed) else (_as_one(result, node), True)


def _batched(op: Op, arguments: Sequence[Any], params: dict[str, Any]) -> Any:
    size = type_of(arguments[0]).shape[0]
    return batch_one(op, size, [True] * len(arguments), arguments, params)


def _item(values: Any, flags: Any, number: int) -> tuple[Any, bool]:
    """One of several results, and whether it is a batch."""
    return values[number], flags if isinstance(flags, bool) else flags[number]


def _as_one(result: Any, node: Operator) -> Any:
    """A batch in the dtype that one sample has: a batch of Python numbers is none any more."""
    if node.op.multiple:
        return result
    wanted = node.type.dtype
    return result if type_of(result).dtype == wanted else convert(result, dtype=wanted)


def batch_one(
    op: Op, size: int, flags: Sequence[bool], args: Sequence[Any], params: dict[str, Any]
) -> Any:
    """One operation on a batch; sample by sample where it has no rule of its own."""
    if op.batch is not None:
        return op.batch(size, flags, *args, **params)
    rows = []
    for number in range(size):
        sample = [
            take_sample(a, number) if flag else a for a, flag in zip(args, flags, strict=True)
        ]
        rows.append(op(*sample, **params))
    if op.multiple:
        return tuple(stack_samples([row[k] for row in rows]) for k in range(len(rows[0])))
    return stack_samples(rows)


def take_sample(x: Any, number: int) -> Any:
    """One sample of a batched value."""
    shape = type_of(x).shape
    return index(x, key=(number, *[(0, length, 1) for length in shape[1:]]))


def stack_samples(rows: Sequence[Any]) -> Any:
    """Samples put back together as a batch."""
    return concatenate(*[reshape(row, shape=(1, *type_of(row).shape)) for row in rows], axis=0)


def _batch_size(leaves: Sequence[Any], axes: Sequence[Any], name: str) -> int:
    sizes = {}
    for leaf, axis in zip(leaves, axes, strict=True):
        if axis is None:
            continue
        shape = type_of(leaf).shape
        if not -len(shape) <= axis < len(shape):
            raise ShapeError(
                f"vmap: in_axes asks for axis {axis} of an argument of {name} with shape {shape}. "
                "Give an axis the argument has, or None for an argument without a batch."
            )
        sizes[shape[axis]] = shape
    if not sizes:
        raise StructureError(
            f"vmap: no argument of {name} has a batch axis. Give at least one axis in in_axes."
        )
    if len(sizes) > 1:
        raise ShapeError(
            f"vmap: arguments of {name} have batch axes of lengths {sorted(sizes)}, expected one "
            "length. Check in_axes."
        )
    size: int = next(iter(sizes))
    return size


def _shared(trace: Trace, leaf: Any) -> Any:
    """An argument without a batch; arrays are traced so that a sample can index them."""
    if type(leaf) is not np.ndarray:
        return leaf
    tracer = trace.constant(leaf)
    tracer._writable = "argument"
    return tracer


def _sample(trace: Trace, leaf: Any, axis: int) -> Any:
    array_type = type_of(leaf)
    axis %= len(array_type.shape)
    shape = array_type.shape[:axis] + array_type.shape[axis + 1 :]
    tracer = trace.variable(array_type=ArrayType(array_type.dtype, shape), active=False)
    tracer._writable = "argument" if shape else None
    tracer.node.order = (functools.partial(_sample_strides, leaf, axis),)
    return tracer


def _sample_strides(leaf: Any, axis: int) -> Any:
    """How one sample lies in memory."""
    strides = strides_of(leaf) if isinstance(leaf, Traced) else leaf.strides
    return None if strides is None else strides[:axis] + strides[axis + 1 :]


def _move_axis(x: Any, source: int, target: int) -> Any:
    rank = len(type_of(x).shape)
    source, target = source % rank, target % rank
    if source == target:
        return x
    order = [axis for axis in range(rank) if axis != source]
    order.insert(target, source)
    return permute(x, axes=tuple(order))


def _place(value: Any, flag: bool, size: int, axis: Any) -> Any:
    if axis is None:
        if flag:
            raise StructureError(
                "vmap: out_axes is None for a result that depends on the batch. "
                "Give the axis where the batch goes."
            )
        return _writable(value)
    if not flag:
        value = broadcast_to(value, shape=(size, *type_of(value).shape))
    rank = len(type_of(value).shape)
    if not -rank <= axis < rank:
        raise AxisError(
            f"vmap: out_axes asks for axis {axis} of a result with {rank} axes. "
            f"Give {-rank} to {rank - 1}."
        )
    return _move_axis(_writable(value) if flag else value, 0, axis)


def _writable(value: Any) -> Any:
    """A result for the caller to change: not what is kept of an argument or a captured array."""
    locked = type(value) is np.ndarray and not value.flags.writeable
    return value.copy() if locked else value


def broadcast_prefix(prefix: Any, structure: tree.Structure, operation: str) -> list[Any]:
    """One value per leaf from a tree that may stop early, such as ``in_axes=(0, None)``.

    None counts as a value here, not as an empty tree.
    """
    result: list[Any] = []
    _broadcast_into(prefix, structure, operation, result)
    return result


def _broadcast_into(
    prefix: Any, structure: tree.Structure, operation: str, result: list[Any]
) -> None:
    taken = None if prefix is None else tree.take_apart(prefix)
    if taken is None:
        result.extend([prefix] * structure.leaf_count)
        return
    children, data = taken
    same_kind = type(prefix) is structure.kind or {type(prefix), structure.kind} == {tuple, list}
    if (
        not same_kind
        or len(children) != len(structure.children)
        or not tree.same_data(structure.kind, data, structure.data)
    ):
        raise StructureError(
            f"{operation}: got the prefix {prefix!r}, expected one that fits {structure}. "
            "Give a single value, or one per argument."
        )
    for child, part in zip(children, structure.children, strict=True):
        _broadcast_into(child, part, operation, result)
