"""Define by run: tensors that remember how they were made, and `backward`.

A `Tensor` wraps a NumPy array. Operations on tensors compute at once and, where a gradient is
required, leave a node behind: its `parents` are the tensors it was made from. `backward` walks
these nodes in reverse and adds to the `grad` of the leaves. Elementary operators are the
operations of the registry, whose pullbacks are derived; everything else is forward code written
with them.

>>> x = tensor(-2.0, requires_grad=True)
>>> y = tensor(5.0, requires_grad=True)
>>> z = tensor(-4.0, requires_grad=True)
>>> f = (x + y) * z
>>> f.backward()
>>> f.item(), x.grad.item(), y.grad.item(), z.grad.item()
(-12.0, -4.0, -4.0, 3.0)
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from .errors import DTypeError, MutationError, ShapeError, explain
from .graph import Constant, Node, Operator, Variable, reachable
from .ops.layout import fit
from .ops.op import Op, Traced
from .trace.tracer import Trace, Tracer
from .transforms.modes import pull
from .types import ArrayType, type_of


class _GradMode(threading.local):
    enabled = True


_mode = _GradMode()


@contextlib.contextmanager
def no_grad() -> Iterator[None]:
    """Compute with tensors without remembering how.

    >>> x = tensor(3.0, requires_grad=True)
    >>> with no_grad():
    ...     y = x * x
    >>> y.requires_grad
    False
    """
    before = _mode.enabled
    _mode.enabled = False
    try:
        yield
    finally:
        _mode.enabled = before


class _EagerTrace(Trace):
    """The trace that tensors live in: always open, below all others, linked by nodes alone."""

    def __init__(self) -> None:
        self.level = 0
        self.lazy = False
        self.thread = None
        self.closed = False
        self.keep_source = False

    def wrap(self, node: Node) -> Tensor:
        if not (node.active and _mode.enabled) and isinstance(node, Operator):
            node = Constant(node.output, node.type)  # forget how it was made
        return Tensor._from_node(node)

    def record(self, op: Op, args: Sequence[Any], params: dict[str, Any]) -> Any:
        return super().record(op, args, params)


_EAGER = _EagerTrace()


class _Leaf(Variable):
    """A tensor's data that gradients flow to, from one write to the next.

    A write under `no_grad` makes a new leaf node: what was computed before keeps the old data.
    The gradients of all of them add up in the first, their `home`.
    """

    __slots__ = ("_home",)

    def __init__(self, array: np.ndarray, home: _Leaf | None = None):
        super().__init__("", array)
        self._home = home

    @property
    def home(self) -> _Leaf:
        """The node that holds the gradient."""
        return self if self._home is None else self._home


class Tensor(Tracer):
    """An array that remembers how it was made; see `tensor`."""

    # the node that holds the gradient, where the tensor is a leaf that requires one
    __slots__ = ("_leaf",)

    def __init__(self, data: Any, requires_grad: bool = False):
        array = np.array(data) if not isinstance(data, np.ndarray) else data
        if array.dtype.kind not in "biufc":
            raise DTypeError(
                f"tensor: got {data!r}, expected numbers. Give an array, a list or a number."
            )
        if requires_grad and array.dtype.kind not in "fc":
            raise DTypeError(
                f"tensor: requires_grad needs floats, got {array.dtype}. Use astype(float)."
            )
        self._leaf = _Leaf(array) if requires_grad else None
        super().__init__(_EAGER, self._leaf or Constant(array))
        self._writable = True

    @classmethod
    def _from_node(cls, node: Node) -> Tensor:
        tensor = cls.__new__(cls)
        Tracer.__init__(tensor, _EAGER, node)
        tensor._leaf = None
        return tensor

    @property
    def requires_grad(self) -> bool:
        """Whether `backward` reaches this tensor."""
        return self.node.active

    @property
    def is_leaf(self) -> bool:
        """Whether the tensor was made by the user, not computed."""
        return self._leaf is not None or isinstance(self.node, Constant)

    @property
    def grad(self) -> Tensor | None:
        """The gradient that `backward` has added up, or None."""
        gradient = None if self._leaf is None else self._leaf.gradient
        return None if gradient is None else Tensor(np.asarray(gradient))

    @grad.setter
    def grad(self, value: Any) -> None:
        if self._leaf is not None:
            self._leaf.gradient = None if value is None else _plain(value)
        elif value is not None:
            raise DTypeError("grad: the tensor holds no gradient. Make it with requires_grad=True.")

    @property
    def parents(self) -> tuple[Tensor, ...]:
        """The tensors this one was computed from."""
        parents = []
        for node in self.node.inputs:
            if isinstance(node, (Operator, Variable)) or isinstance(node.output, np.ndarray):
                parent = Tensor._from_node(node)
                parent._leaf = node.home if isinstance(node, _Leaf) else None
                parents.append(parent)
        return tuple(parents)

    @property
    def data(self) -> np.ndarray:
        """The array itself."""
        return np.asarray(self.node.output)

    def numpy(self) -> np.ndarray:
        """The array that the tensor holds now."""
        return self.data

    def detach(self) -> Tensor:
        """The same data without the memory of how it was made."""
        return Tensor(self.data)

    def __deepcopy__(self, memo: Any) -> Tensor:
        """A leaf is copied to a leaf of its own."""
        return self.copy() if self._leaf is None else Tensor(np.array(self.data), True)

    def __reduce__(self) -> Any:
        """Pickled are the data; how they were made stays behind."""
        return Tensor, (self.data, self._leaf is not None)

    def zero_grad(self) -> None:
        """Forget the gradient."""
        self.grad = None

    def backward(self, gradient: Any = None) -> None:
        """Add the derivative of this tensor to the `grad` of every leaf it depends on.

        For a tensor that is not a scalar give the `gradient` to start from.
        """
        node = self.node
        if not node.active:
            raise DTypeError(
                explain(
                    "backward",
                    "the tensor does not depend on any tensor that requires a gradient",
                    "Make one with wg.tensor(data, requires_grad=True), outside no_grad().",
                )
            )
        seed = self._seed(gradient)
        leaves = [n for n in reachable([node], active_only=True) if isinstance(n, _Leaf)]
        for leaf, found in zip(leaves, pull([node], [seed], leaves), strict=True):
            if found is None:
                continue
            home = leaf.home
            held = home.gradient
            home.gradient = np.array(found) if held is None else np.add(held, found)

    def _seed(self, gradient: Any) -> Any:
        own = self.type
        if gradient is None:
            if own.shape != ():
                raise ShapeError(
                    explain(
                        "backward",
                        f"the tensor is {own}, expected a scalar",
                        "Give a seed of its shape: t.backward(np.ones(t.shape)), or sum it first.",
                    )
                )
            return np.ones((), own.dtype)[()]
        seed = _plain(gradient)
        if type_of(seed).shape != own.shape:
            raise ShapeError(
                explain(
                    "backward",
                    f"the seed has shape {type_of(seed).shape}, the tensor {own.shape}",
                    "Give a seed of the tensor's shape.",
                )
            )
        return fit(seed, ArrayType(own.dtype, own.shape))

    def _check_writable(self, storage: Any, new: Any) -> None:
        if storage._leaf is not None and _mode.enabled:
            raise MutationError(
                explain(
                    "writing to a tensor",
                    "the tensor is a leaf that requires a gradient",
                    "Copy it first, or write under wg.no_grad().",
                )
            )
        super()._check_writable(storage, new)

    def _write(self, new: Any) -> None:
        super()._write(new)
        storage: Any = self._storage()
        if storage._leaf is not None:  # it stays a leaf: only its data change
            storage._node = _Leaf(_plain(storage._node.output), storage._leaf)

    def _refuse_if_active(self, purpose: str) -> None:
        """Reading numbers out of a tensor is what define-by-run is for."""

    def __repr__(self) -> str:
        shown = np.array2string(self.data, separator=", ", threshold=20)
        tail = ", requires_grad=True" if self.requires_grad else ""
        return f"tensor({shown}, dtype={self.dtype}{tail})"


def _plain(value: Any) -> Any:
    while isinstance(value, Traced):
        value = value.value  # type: ignore[attr-defined]
    return np.asarray(value)


def tensor(data: Any, requires_grad: bool = False, dtype: Any = None) -> Tensor:
    """A tensor with a copy of the data.

    >>> tensor([1.0, 2.0]) * 3
    tensor([3., 6.], dtype=float64)
    """
    return Tensor(
        np.array(_plain(data) if isinstance(data, Traced) else data, dtype), requires_grad
    )
