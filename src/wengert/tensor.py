"""Define by run: tensors that remember how they were made, and `backward`.

A `Tensor` wraps a NumPy array. Operations on tensors compute at once and, where a gradient is
required, leave a node behind: its `parents` are the tensors it was made from. `backward` walks
these nodes in reverse and adds to the `grad` of the leaves. Elementary operators are the
operations of the registry, whose pullbacks are derived; everything else is forward code written
with them.

Inside `jit` the same code compiles: tensors from outside are lifted into the trace (see
`jit/state.py`), the nodes here hold its traced values, and what is left in the tensors at the end
the compiled program writes to their memory. That memory, once shared with a program, may change
with every call; so whatever is computed from it outside starts from a copy. It is the same with
memory that `Tensor.numpy` has handed out: a write to it reaches the tensor, but nothing that was
computed before.

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
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from .errors import DerivativeError, DTypeError, MutationError, ShapeError, explain
from .graph import Constant, Node, Operator, Variable, reachable
from .jit.state import Allocation, Borrowed, Cell, Loan, Reservation, any_cells, local
from .keeping import read_only
from .ops.elementwise import add
from .ops.layout import fit
from .ops.op import Op, Traced
from .trace.lying import is_decided
from .trace.tracer import Trace, Tracer
from .trace.views import snapshot
from .transforms.modes import pull
from .types import ArrayType, check_class, type_of


class _GradMode(threading.local):
    enabled = True


_mode = _GradMode()
_MOST_SHOWN = 12  # rows and columns, as a table in a notebook


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
        self.lazy = False
        self.closed = False

    @property
    def thread(self) -> int | None:  # type: ignore[override]
        """Tensors belong to no thread, until `jit` lets them hold values of its trace."""
        return None if local.running is None else local.running.trace.thread

    @property
    def level(self) -> float:  # type: ignore[override]
        """Below all traces; inside `jit` between its trace and those that run in it."""
        return 0 if local.running is None else local.running.trace.level + 0.5

    @property
    def stores(self) -> bool:  # type: ignore[override]
        """Nothing follows under `no_grad`."""
        return _mode.enabled

    def wrap(self, node: Node) -> Tensor:
        if not (node.active and _mode.enabled) and isinstance(node, Operator):
            node = Constant(node.output, node.type)  # forget how it was made
        return Tensor._from_node(node)

    def record(self, op: Op, args: Sequence[Any], params: dict[str, Any]) -> Any:
        if local.running is not None or any_cells():
            for arg in args:
                if isinstance(arg, Tensor):
                    arg.node  # noqa: B018  # lifted, or read anew from shared memory
        return super().record(op, args, params)


_EAGER = _EagerTrace()


class _Leaf(Variable):
    """A tensor's data that gradients flow to, from one write to the next.

    A write under `no_grad` makes a new leaf node: what was computed before keeps the old data.
    The gradients of all of them add up in the first, their `home`.
    """

    __slots__ = ("_cell", "_home", "_reservation")

    def __init__(self, array: Any, home: _Leaf | None = None):
        super().__init__("", array)
        self._home = home
        self._cell: Cell | None = None  # of the gradient, where programs share it
        self._reservation: Reservation | None = None  # for that cell; see `side_by_side`

    @property
    def home(self) -> _Leaf:
        """The node that holds the gradient."""
        return self if self._home is None else self._home

    def held_gradient(self) -> np.ndarray | None:
        """The gradient outside of any trace."""
        return self.gradient if self._cell is None else self._cell.read()

    def get_gradient(self) -> Any:
        """The gradient now: an array, inside `jit` a traced value, or None."""
        return self.held_gradient() if local.running is None else local.running.gradient(self)

    def set_gradient(self, value: Any) -> None:
        """Replace the gradient."""
        if local.running is not None:
            local.running.set_gradient(self, value)
            return
        if self._cell is not None and (value is None or self._cell.fits(value)):
            self._cell.store(value)
            return
        if self._cell is not None:
            self._cell.retire()
            self._cell = None
        self.gradient = value

    def gradient_cell(self) -> Cell:
        """The gradient's memory, shared with programs from now on."""
        if self._cell is None:
            held = self.gradient
            self._cell = Cell(self.type if held is None else type_of(held), held, self._reservation)
            self.gradient = None
        return self._cell


class _Outside(Variable):
    """A tensor computed outside the function that `jit` traces: no derivative can leave there."""

    __slots__ = ()


class Tensor(Tracer):
    """An array that remembers how it was made; see `tensor`."""

    # the node that holds the gradient, where the tensor is a leaf that requires one; a reservation
    # is set where there is one, because most tensors are short-lived and have none
    __slots__ = ("_cell", "_leaf", "_reservation")
    # not an array for isinstance, as a traced value is: code that makes tensors of arrays asks
    __class__ = property(type)
    # what is written is there at once, also for programs that share the memory
    _keeps_writes = False

    def __init__(self, data: Any, requires_grad: bool = False):
        if not isinstance(data, Traced) and isinstance(data, np.ndarray):
            check_class(data, "tensor")
        array = _content(data) if isinstance(data, Traced) else np.array(data)
        if local.running is not None and not isinstance(array, Traced):
            array = local.running.trace.constant(array)
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
        self._cell: Cell | None = None  # of the data, where programs share it

    @classmethod
    def _from_node(cls, node: Node) -> Tensor:
        tensor = cls.__new__(cls)
        Tracer.__init__(tensor, _EAGER, node)
        tensor._leaf = None
        tensor._cell = None
        return tensor

    @property
    def node(self) -> Node:
        """The node of the current content."""
        storage: Any = self if self._base is None else self._storage()
        if local.running is not None:
            self._lift(storage)
        elif storage._shared:
            storage._put_back(storage._same_kind(storage._read()))
        if self._base is not None:
            self._refresh()
        return self._node

    @staticmethod
    def _lift(storage: Tensor) -> None:
        """Inside `jit`: let a tensor from outside hold a traced value."""
        running: Any = local.running
        if storage._shared and not isinstance(storage._node.output, Traced):
            storage._node = storage._same_kind(storage._cell.memory)  # type: ignore[union-attr]
        active = storage._node.active
        tracer = running.lift(storage)
        if tracer is not None:
            computed = active and storage._leaf is None
            storage._put_back(_Outside("", tracer) if computed else storage._same_kind(tracer))

    @property
    def _shared(self) -> bool:
        """Whether the content is what lies in the cell; a computed tensor keeps its history."""
        return self._cell is not None and (self._leaf is not None or not self._node.active)

    def _read(self) -> Any:
        """What lies in the cell now, for nobody else to change."""
        cell: Any = self._cell
        if isinstance(cell, Loan) and cell.is_over():
            self._cell = None
            return cell.memory
        return cell.read()

    def _same_kind(self, content: Any) -> Node:
        """A node for a new content of this storage; a leaf stays one."""
        return Constant(content) if self._leaf is None else _Leaf(content, self._leaf)

    def _put_back(self, node: Node) -> None:
        """Replace the node; views look again."""
        self._node = node
        self._version += 1

    def _data_cell(self, written: bool) -> Cell:
        """The memory of the data, shared with programs from now on."""
        if self._cell is None or isinstance(self._cell, Loan):
            content = self._cell.memory if self._shared else np.asarray(self._node.output)  # type: ignore[union-attr]
            reservation = getattr(self, "_reservation", None)
            self._cell = Cell(self._node.type, content, reservation)
        if written and not self._shared:
            self._put_back(Constant(self._cell.read()))  # its history ends here
        return self._cell

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
        gradient = None if self._leaf is None else self._leaf.get_gradient()
        if gradient is None:
            return None
        found = Tensor._lent(_content(gradient))
        cell = self._leaf._cell  # type: ignore[union-attr]
        if cell is not None and local.running is None:
            found._cell = Borrowed(gradient, cell)
        return found

    @grad.setter
    def grad(self, value: Any) -> None:
        if self._leaf is not None:
            self._leaf.set_gradient(None if value is None else _owned(_content(value)))
        elif value is not None:
            raise DTypeError("grad: the tensor holds no gradient. Make it with requires_grad=True.")

    @property
    def parents(self) -> tuple[Tensor, ...]:
        """The tensors this one was computed from."""
        parents = []
        for node in self.node.inputs:
            if isinstance(node, (Operator, Variable)) or type(node.output) is np.ndarray:
                parent = Tensor._from_node(node)
                parent._leaf = node.home if isinstance(node, _Leaf) else None
                parents.append(parent)
        return tuple(parents)

    @property
    def data(self) -> np.ndarray:
        """The same as `numpy`."""
        return self.numpy()

    def numpy(self) -> np.ndarray:
        """The tensor as an array.

        A write to the array is one to the tensor; what was computed from the tensor before stays
        as it is. Of a tensor that was computed itself, with a gradient to come, it is a copy.

        >>> x = tensor([1.0, 2.0], requires_grad=True)
        >>> y = (x * x).sum()
        >>> x.numpy()[0] = 5.0
        >>> y.backward()
        >>> x, x.grad
        (tensor([5., 2.], dtype=float64, requires_grad=True), tensor([2., 4.], dtype=float64))
        """
        if local.running is not None:
            return np.asarray(self.node.output)
        if not is_decided(self):  # it may be a copy: nothing can be written to it
            kept: np.ndarray = read_only(np.array(self.node.output))
            return kept
        storage: Any = self._storage()
        if not (storage._shared or storage._lend()):
            return np.array(self.node.output)
        array: np.ndarray = storage._cell.memory
        for view in reversed(self._chain()[:-1]):
            made: Any = view._base
            array = made.op.evaluate(array, *made.rest, **made.params)
        return array

    def _lend(self) -> bool:
        """Move what a storage holds to memory that may be handed out; not if it was computed."""
        if self._node.active and self._leaf is None:
            return False
        self._cell = Loan(np.array(self._node.output))
        return True

    @classmethod
    def _lent(cls, content: Any) -> Tensor:
        """A tensor on a traced value or on an array that its user may get to write to."""
        tensor = cls._from_node(Constant(content))
        tensor._writable = True
        if not isinstance(content, Traced):
            tensor._cell = Loan(content)
        return tensor

    def _array(self) -> np.ndarray:
        """What the tensor holds, to look at: neither to be written to nor to be kept."""
        if self._shared and local.running is None:
            return self._cell.memory  # type: ignore[union-attr]
        return np.asarray(self.node.output)

    def detach(self) -> Tensor:
        """The same data without the memory of how it was made, to write to as one likes."""
        tensor = Tensor._from_node(Constant(_content(self.node.output)))
        tensor._writable = True
        return tensor

    def __deepcopy__(self, memo: Any) -> Tensor:
        """A leaf is copied to a leaf of its own."""
        return self.copy() if self._leaf is None else type(self)(self._array(), True)

    def __reduce__(self) -> Any:
        """Pickled are the data; how they were made stays behind."""
        return type(self), (self._array(), self._leaf is not None)

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
        behind = reachable([node], active_only=True)
        if any(isinstance(n, _Outside) for n in behind):
            raise DerivativeError(
                explain(
                    "backward",
                    "inside jit, a tensor that was computed outside requires a gradient",
                    "Compute it inside the function, or use t.detach().",
                )
            )
        leaves = [n for n in behind if isinstance(n, _Leaf)]
        for leaf, found in zip(leaves, pull([node], [seed], leaves), strict=True):
            if found is None:
                continue
            home = leaf.home
            held = home.get_gradient()
            if local.running is None:
                home.set_gradient(np.array(found) if held is None else np.add(held, found))
            else:
                home.set_gradient(found if held is None else add(held, found))

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
        seed = _content(gradient)
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
            storage._node = _Leaf(_content(storage._node.output), storage._leaf)
        if storage._cell is not None and local.running is None:
            storage._cell.store(storage._node.output)

    def _refuse_if_active(self, purpose: str) -> None:
        """Reading numbers out of a tensor is what define-by-run is for."""

    def __repr__(self) -> str:
        if isinstance(self._node.output, Traced):
            return f"tensor(abstract {self.type})"
        shown = np.array2string(self._array(), separator=", ", threshold=20)
        tail = ", requires_grad=True" if self.requires_grad else ""
        return f"tensor({shown}, dtype={self.dtype}{tail})"

    def _repr_html_(self) -> str:
        from .displays import table, text

        if isinstance(self._node.output, Traced):
            return text(repr(self))
        array = self._array()
        title = f"tensor {self.type}" + (", requires grad" if self.requires_grad else "")
        if array.ndim not in (1, 2) or array.size == 0 or max(array.shape) > _MOST_SHOWN:
            shown = np.array2string(array, separator=", ", threshold=60)
            return text(f"{title}\n{shown}")
        rows = [
            [f"{x:.6g}" if array.dtype.kind == "f" else str(x) for x in row]
            for row in np.atleast_2d(array)
        ]
        return table(title, [str(n) for n in range(len(rows[0]))], rows)


def _content(value: Any) -> Any:
    """What a tensor can hold: a plain array, inside `jit` also a value of its trace."""
    return value_alone(value, derivative=True)


def value_alone(value: Any, derivative: bool = False) -> Any:
    """A value as a tensor can hold it; an error if it has a `derivative` that would be lost."""
    while isinstance(value, Traced) and value._trace.level >= _EAGER.level:
        if derivative:
            value._refuse_if_active("tensor")  # type: ignore[attr-defined]
        inside = value.value  # type: ignore[attr-defined]
        value = value._concrete("tensor") if inside is None else inside  # type: ignore[attr-defined]
    return value if isinstance(value, Traced) else np.asarray(value)


def _owned(content: Any) -> Any:
    """A traced value, or an array of the tensor's own."""
    return content if isinstance(content, Traced) else np.array(content)


def tensor(data: Any, requires_grad: bool = False, dtype: Any = None) -> Tensor:
    """A tensor with a copy of the data.

    >>> tensor([1.0, 2.0]) * 3
    tensor([3., 6.], dtype=float64)
    """
    content = _content(data) if isinstance(data, Traced) else data
    if isinstance(content, Traced):
        content = snapshot(content if dtype is None else content.astype(dtype))  # type: ignore[attr-defined]
    else:
        if isinstance(content, np.ndarray):
            check_class(content, "tensor")
        content = content if dtype is None else np.asarray(content, dtype)
    return Tensor(content, requires_grad)


def tensor_parts(tensor: Tensor, number: int) -> Any:
    """How compiled functions read what a tensor holds, as a child of an argument."""
    from .parts import Parts, Same  # needed where entries are native

    cell = tensor._data_cell(False)
    inside = Parts(type(cell), ("native",), (number,))
    return Parts(type(tensor), ("_base", "_cell"), (Same(None), inside))


def peek(tensor: Tensor) -> np.ndarray:
    """What a tensor holds, to look at: neither to be written to nor to be kept.

    >>> peek(tensor([1.0, 2.0]))
    array([1., 2.])
    """
    return tensor._array()


def operand(tensor: Tensor) -> Any:
    """What to compute with where no derivative is asked: the array; inside `jit` the tensor."""
    return tensor if local.running is not None else tensor._array()


def replace(tensor: Tensor, new: Any) -> None:
    """Replace the whole content of a tensor."""
    if new.dtype != tensor.dtype:
        new = new.astype(tensor.dtype)
    tensor._write(new if isinstance(new, Tensor) else np.asarray(new))


def side_by_side(tensors: Sequence[Tensor]) -> None:
    """Let tensors of one dtype lie in one allocation, and their gradients in another.

    They move there when a compiled program first shares them; what they hold never changes, and a
    tensor that shares its memory with a program already stays where it is.

    >>> import wengert as wg
    >>> a, b = tensor([1.0, 2.0]), tensor([3.0])
    >>> side_by_side([a, b])
    >>> wg.jit(lambda: a + b)()
    array([4., 5.])
    >>> b.numpy().ctypes.data - a.numpy().ctypes.data
    64
    """
    _reserve([one for one in tensors if one._base is None and not hasattr(one, "_reservation")])
    leaves = [one._leaf for one in tensors if one._leaf is not None]
    _reserve([leaf for leaf in leaves if leaf._reservation is None])


def _reserve(owners: Sequence[Any]) -> None:
    owners = [one for one in owners if one._cell is None or isinstance(one._cell, Loan)]
    types = [owner.type for owner in owners]
    for dtype in dict.fromkeys(one.dtype for one in types):
        alike = [owner for owner in owners if owner.type.dtype == dtype]
        allocation = Allocation(dtype, [owner.type.shape for owner in alike])
        for owner, reservation in zip(alike, allocation.reservations, strict=True):
            owner._reservation = reservation


class Aside:
    """Puts aside what is written to tensors meanwhile: they then hold again what they held before.

    >>> a = tensor([1.0, 2.0])
    >>> with Aside([a]) as aside:
    ...     a[0] = 5.0
    ...     [one.numpy() for one in aside.written()]
    [array([5., 2.])]
    >>> a.numpy()
    array([1., 2.])
    """

    def __init__(self, tensors: Iterable[Tensor]):
        self._tensors = list(tensors)
        self._before: list[Any] = []

    def __enter__(self) -> Aside:
        self._before = list(map(self._content, self._tensors))
        return self

    @staticmethod
    def _content(tensor: Tensor) -> Any:
        """What stands for the content: inside `jit` a node, which a write replaces."""
        return tensor.node if local.running is not None else np.array(tensor._array())

    def written(self) -> list[Tensor]:
        """The tensors that were written to so far."""
        pairs = zip(self._tensors, self._before, strict=True)
        return [one for one, before in pairs if self._differs(one, before)]

    def _differs(self, tensor: Tensor, before: Any) -> bool:
        now = self._content(tensor)
        return now is not before if local.running is not None else now.tobytes() != before.tobytes()

    def __exit__(self, *exc_info: object) -> None:
        for one, before in zip(self._tensors, self._before, strict=True):
            if local.running is not None:
                one._put_back(before)
            elif self._differs(one, before):
                one[...] = before
