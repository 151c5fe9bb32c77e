"""Products of two arrays: one operation, `contract`, for every dot, matmul and einsum.

Each axis has a label, an integer. The `spec` ``(x labels, y labels, out labels)`` says how the
axes meet: axes with the same label run together, and labels that are not in the result are
summed over. The matrix product is ``((0, 1), (1, 2), (0, 2))``. No array has a label twice, every
label that one array has alone is in the result, and labels are numbered as they first appear, so
that a product has one spec only. Because of these rules the transposes are contractions again.

Evaluation brings the product to one NumPy call: `dot` where that is possible, batched `matmul`
where both arrays have axes that the result keeps, a plain multiplication where nothing is
summed. What has to be done depends on the spec alone; it is worked out once and kept.
"""

from __future__ import annotations

import functools
import string
from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from ..errors import ShapeError, explain
from ..loops import Product
from ..types import ArrayType, Function, result_dtype
from .op import Op

Labels = tuple[int, ...]
Spec = tuple[Labels, Labels, Labels]

INNER: Spec = ((0,), (0,), ())
OUTER: Spec = ((0,), (1,), (0, 1))
MATRIX_MATRIX: Spec = ((0, 1), (1, 2), (0, 2))
MATRIX_VECTOR: Spec = ((0, 1), (1,), (0,))
VECTOR_MATRIX: Spec = ((0,), (0, 1), (1,))
STACK_STACK: Spec = ((0, 1, 2), (0, 2, 3), (0, 1, 3))

# Below this many columns one product of matrices per sample costs more than moving the result.
_NARROW = 16
_STEPS_PER_SPEC = 1024


@functools.cache
def normal_spec(x: Labels, y: Labels, out: Labels) -> Spec:
    """The spec with its labels numbered as they first appear."""
    numbers: dict[int, int] = {}
    for label in x + y:
        numbers.setdefault(label, len(numbers))
    first, second, result = (tuple(numbers[label] for label in part) for part in (x, y, out))
    return first, second, result


# ---------------------------------------------------------------- evaluation


def _contract(x: Any, y: Any, spec: Spec) -> Any:
    plan = _PLANS.get(spec)
    if plan is None:
        plan = _PLANS[spec] = _make_plan(spec)
    return plan(x, y)


# The products that NumPy has a name for go to it directly.
_PLANS: dict[Spec, Function] = {
    ((), (), ()): np.multiply,
    ((), (0,), (0,)): np.multiply,
    ((0,), (), (0,)): np.multiply,
    ((0,), (0,), (0,)): np.multiply,
    INNER: np.dot,
    OUTER: lambda x, y: np.multiply(x[:, None], y),
    MATRIX_MATRIX: np.dot,
    MATRIX_VECTOR: lambda x, y: _matrix_vector(x, y),
    VECTOR_MATRIX: lambda x, y: _matrix_vector(y.T, x),
    ((0, 1), (2, 1), (0, 2)): lambda x, y: np.dot(x, y.T),
    ((0, 1), (0, 2), (1, 2)): lambda x, y: np.dot(x.T, y),
    ((0, 1), (2, 0), (1, 2)): lambda x, y: np.dot(x.T, y.T),
    ((0, 1), (0,), (1,)): lambda x, y: _matrix_vector(x.T, y),
    ((0,), (1, 0), (1,)): lambda x, y: _matrix_vector(y, x),
    STACK_STACK: np.matmul,
    ((0, 1, 2), (0, 3, 2), (0, 1, 3)): lambda x, y: np.matmul(x, y.swapaxes(1, 2)),
    ((0, 1, 2), (0, 1, 3), (0, 2, 3)): lambda x, y: np.matmul(x.swapaxes(1, 2), y),
}
_NAMED = tuple(_PLANS)  # others are added as they are met


def _matrix_vector(x: np.ndarray, y: np.ndarray) -> Any:
    if 0 < x.strides[0] == x.strides[1] and x.size > x.shape[0] + x.shape[1]:
        # Windows of one array: BLAS would want them written out one by one.
        return np.einsum("ij,j->i", x, y)
    return np.dot(x, y)


def _make_plan(spec: Spec) -> Function:
    x, y, out = spec
    shared = set(x) & set(y)
    if shared <= set(out):
        return _multiplication(spec)
    if set(x) == set(y) and out:
        # Inner products of vectors, one for each element: nothing for BLAS to gain.
        return functools.partial(np.einsum, _subscripts(spec))
    return _Matrices(spec)


def _subscripts(spec: Spec) -> str:
    x, y, out = ("".join(string.ascii_letters[label] for label in part) for part in spec)
    return f"{x},{y}->{out}"


def _multiplication(spec: Spec) -> Function:
    """Nothing is summed: bring the axes into the order of the result and multiply."""
    x, y, out = spec
    x_axes, x_key = _aligned(x, out)
    y_axes, y_key = _aligned(y, out)

    def plan(x: Any, y: Any) -> Any:
        return np.multiply(
            np.asarray(x).transpose(x_axes)[x_key], np.asarray(y).transpose(y_axes)[y_key]
        )

    return plan


def _aligned(labels: Labels, out: Labels) -> tuple[Labels, tuple[Any, ...]]:
    """The order of the axes, and where the result has axes that this array lacks."""
    axes = tuple(labels.index(label) for label in out if label in labels)
    key = tuple(slice(None) if label in labels else None for label in out)
    return axes, key


class _Matrices:
    """A product done by `dot` or `matmul` on matrices made from groups of axes.

    The axes of the result are the shared ones (`batch`), then those of one array and those of
    the other. The array whose axes come first in the result is called the left one.
    """

    def __init__(self, spec: Spec):
        x, y, out = spec
        shared = set(x) & set(y)
        self.batch = tuple(label for label in out if label in shared)
        free = [label for label in out if label not in shared]
        self.swapped = bool(free) and free[0] in y
        left, right = (y, x) if self.swapped else (x, y)
        self.left, self.right, self.out = left, right, out
        self.rows = tuple(label for label in free if label in left)
        self.columns = tuple(label for label in free if label in right)
        self.summed = self._summed_order()
        leading = 0
        while leading < len(free) and free[leading] in left:
            leading += 1
        # Where the left array's axes stand on both sides of the right one's, as the samples
        # and the pixels of a convolution do, the leading ones can be looped over.
        self.leading, self.trailing = self.rows[:leading], self.rows[leading:]
        self.steps: dict[Any, tuple[Any, ...]] = {}

    def _summed_order(self) -> Labels:
        """An order of the summed axes that needs no copy of one of the arrays."""
        order = tuple(n for n in self.left if n in self.right and n not in self.out)
        other = tuple(n for n in self.right if n in order)
        rest = tuple(n for n in self.left if n not in order)
        return order if self.left in (rest + order, order + rest) else other

    def __call__(self, x: Any, y: Any) -> Any:
        left, right = (y, x) if self.swapped else (x, y)
        shapes = (left.shape, right.shape)
        steps = self.steps.get(shapes)
        if steps is None:
            if len(self.steps) >= _STEPS_PER_SPEC:
                self.steps.clear()
            steps = self.steps[shapes] = self._steps(*shapes)
        right_first, first, second, function, shape, axes = steps
        if right_first:
            left, right = right, left
        result = function(first(left), second(right)).reshape(shape)
        if axes is not None:
            result = result.transpose(axes)
        return result if shape else result[()]

    def _steps(self, left: tuple[int, ...], right: tuple[int, ...]) -> tuple[Any, ...]:
        """What to do for these shapes: how to group the axes, which function, how to end."""
        lengths = dict(zip(self.left + self.right, left + right, strict=True))
        make = functools.partial(_Grouping, lengths)
        wide = prod(lengths[label] for label in self.trailing) >= _NARROW
        right_first = bool(self.trailing) and not self.batch and wide
        if right_first:
            groups: tuple[Labels, ...] = (self.leading, self.columns, self.trailing)
            first = make(self.right, (self.columns, self.summed))
            second = make(self.left, (self.leading, self.summed, self.trailing))
        else:
            batch = (self.batch,) if self.batch else ()
            groups = (*batch, self.rows, self.columns)
            first = make(self.left, (*batch, self.rows, self.summed))
            second = make(self.right, (*batch, self.summed, self.columns))
        order = tuple(label for group in groups for label in group)
        axes = None if order == self.out else tuple(order.index(label) for label in self.out)
        shape = tuple(lengths[label] for label in order)
        function = np.matmul if len(groups) == 3 else np.dot
        return right_first, first, second, function, shape, axes


class _Grouping:
    """Makes an array with one axis for each group of labels; without a copy where possible."""

    def __init__(self, lengths: dict[int, int], labels: Labels, groups: Sequence[Labels]):
        *leading, rows, columns = groups
        front = tuple(label for group in leading for label in group)
        self.plain = _Reshape(lengths, labels, groups)
        self.turned = _Reshape(lengths, labels, (*leading, columns, rows))
        self.choice: tuple[int, int] | None = None
        self.turn = labels == front + columns + rows != front + rows + columns
        if rows and columns and labels not in (front + rows + columns, front + columns + rows):
            self.choice = (labels.index(rows[-1]), labels.index(columns[-1]))

    def __call__(self, x: np.ndarray) -> np.ndarray:
        turn = self.turn
        if self.choice is not None:
            row, column = self.choice
            turn = _copy_cost(x, row) < _copy_cost(x, column)
        return self.turned(x).swapaxes(-1, -2) if turn else self.plain(x)


class _Reshape:
    """Brings the labels of the groups into order and makes one axis of each group."""

    def __init__(self, lengths: dict[int, int], labels: Labels, groups: Sequence[Labels]):
        axes = tuple(labels.index(label) for group in groups for label in group)
        self.axes = None if axes == tuple(range(len(labels))) else axes
        self.shape = tuple(prod(lengths[label] for label in group) for group in groups)

    def __call__(self, x: np.ndarray) -> np.ndarray:
        if self.axes is not None:
            x = x.transpose(self.axes)
        return x.reshape(self.shape)


def _copy_cost(x: np.ndarray, axis: int) -> tuple[int, int]:
    """Copies run fastest along the axis with the smallest stride, then the longest one."""
    return abs(x.strides[axis]), -x.shape[axis]


# ---------------------------------------------------------------- the operation


def _contract_type(x: ArrayType, y: ArrayType, spec: Spec) -> ArrayType:
    lengths: dict[int, int] = {}
    for labels, array in zip(spec[:2], (x, y), strict=True):
        fits = len(labels) == len(array.shape) and all(
            lengths.setdefault(label, length) == length
            for label, length in zip(labels, array.shape, strict=True)
        )
        if not fits:
            raise ShapeError(
                explain(
                    "contract",
                    f"got arrays of shapes {x.shape} and {y.shape} for the axes {spec[0]} and "
                    f"{spec[1]}",
                    "Axes with the same number must have the same length.",
                )
            )
    return ArrayType(result_dtype(x, y), tuple(lengths[label] for label in spec[2]))


@functools.cache
def _transposed(spec: Spec) -> tuple[Spec, Spec]:
    """The specs of the cotangents: of x from (g, y), of y from (x, g)."""
    x, y, out = spec
    return normal_spec(out, y, x), normal_spec(x, out, y)


def _batch_contract(size: int, flags: Sequence[bool], x: Any, y: Any, spec: Spec) -> Any:
    new = (1 + max(spec[0] + spec[1], default=0),)
    first = new + spec[0] if flags[0] else spec[0]
    second = new + spec[1] if flags[1] else spec[1]
    return contract(x, y, spec=normal_spec(first, second, new + spec[2]))


def _samples(rng: np.random.Generator) -> Any:
    """The named products, transposed and interleaved axes, scalars, empty axes, dtypes."""
    lengths = (2, 3, 4, 2, 3)
    specs: list[Spec] = [
        *_NAMED,
        ((0, 1), (1, 2), (2, 0)),
        ((0, 1), (1, 0), ()),
        ((0, 1, 2), (3, 2, 1), (3, 0)),
        ((0, 1), (0, 1), (0,)),
        ((0, 1, 2), (0, 2), (1, 0)),
        ((0, 1, 2), (1, 3, 0), (3, 1, 2)),
        ((0, 1, 2), (1, 3), (0, 3, 2)),
        ((0, 1), (2, 0), (2, 1, 0)),
    ]
    for spec in specs:
        x, y = (rng.normal(size=[lengths[n] for n in labels]) for labels in spec[:2])
        yield (x, y), {"spec": spec}
    yield (rng.normal(size=(0, 3)), rng.normal(size=(3, 2))), {"spec": MATRIX_MATRIX}
    yield (rng.normal(size=(2, 0)), rng.normal(size=(0, 3))), {"spec": MATRIX_MATRIX}
    yield (rng.integers(0, 5, (2, 3)), rng.normal(size=3)), {"spec": MATRIX_VECTOR}
    yield (rng.normal(size=(2, 3)) * 1j, rng.normal(size=(3, 2))), {"spec": MATRIX_MATRIX}
    # small whole numbers: sums in any order are exact
    yield (rng.integers(0, 5, 3).astype(np.float32),) * 2, {"spec": INNER}


# The sum over the labels that the result lacks of x[...] * y[...]; nothing is conjugated.
contract: Op = Op(
    "contract",
    _contract,
    _contract_type,
    linear=(0, 1),
    transpose=(
        lambda g, x, y, spec: contract(g, y, spec=_transposed(spec)[0]),
        lambda g, x, y, spec: contract(x, g, spec=_transposed(spec)[1]),
    ),
    batch=_batch_contract,
    loops=Product(),
    samples=_samples,
)
