"""Python -> Graph: traced values record what is done to them.

A `Tracer` stands for an array inside a function being traced. It carries a node, and the
node's output: a concrete value where one is known (outside `jit` it always is, so ``if x > 0:``
just works), or nothing where the value is abstract. When traces nest, the concrete value of an
inner tracer is a tracer of the trace around it: each operation is recorded innermost first and
its value is computed one level further out, down to NumPy. That is all that nesting needs.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..errors import LeakedTracerError, explain, user_line
from ..graph import Constant, Node, Operator, Variable
from ..keeping import LARGE, NUMBERS, PLAIN, is_locked, keep, small_copy
from ..ops.op import CAPTURING, Op, Traced, leaked
from ..ops.python_integers import settle
from ..types import ArrayType, Typed, exactly
from .array import Array
from .conditional import check_current, conditional
from .views import is_array, snapshot
from .writes import settled

# Constants of at most this many elements are computed while tracing, whatever the trace.
SMALL = 64


class _State(threading.local):
    def __init__(self) -> None:
        self.stack: list[Trace] = []


_state = _State()


def current_trace() -> Trace | None:
    """The innermost trace that is running in this thread."""
    return _state.stack[-1] if _state.stack else None


def is_for_any_length() -> bool:
    """Whether a program is made for any length: steps may not depend on the one at hand."""
    return any(trace.lazy and trace.recorded is None for trace in _state.stack)


class Trace:
    """Records operations while a function runs; use as a context manager.

    `keep_source` stores the user's line with every node, of all traces inside it too. A `lazy`
    trace records operations on large constants too, instead of computing them: the compiler knows
    better. One that `captures` records what is done to values of traces around it too: it may never
    run. One that `shares`, and all inside it, records what is computed of the same values again but
    once.
    """

    captures = False
    keep_source: bool = False  # of traces that do not say otherwise
    # Whether reverse mode may follow, so that loops keep the values it needs.
    stores = True
    passing: set[int] | None = None  # of a step: nodes, by serial, that the next one does not have
    # What makes a proof, arguments and keywords, where the derivative is taken before the call
    # returns: large arrays need no copy if the function does not write to them, and with a proof
    # at hand, no array does. And those taken so.
    call: tuple[Any, Sequence[Any], dict[str, Any]] | None = None
    taken: Any = ()  # a list, once there is a proof

    # Where the function that is traced names NumPy, if NumPy must make arrays for it that traced
    # values can be written to (`places_to_change`), and who changes these places meanwhile.
    places: Sequence[Any] = ()
    makers: Any = None
    # Whether it is the body of a loop or a branch, which runs later, once, often or never.
    body = False
    # What was recorded, by operation and arguments: the same again is the same node. None: each is
    # its own. Only where a program is made; elsewhere values are computed as they come.
    recorded: dict[Any, Operator] | None = None

    def __init__(
        self,
        keep_source: bool = False,
        lazy: bool = False,
        captures: bool = False,
        places: Sequence[Any] = (),
        shares: bool = False,
    ):
        self.lazy = lazy
        self.captures = captures
        if places:
            self.places = places
        around = _state.stack[-1] if _state.stack else None
        if shares or (around is not None and around.recorded is not None):
            self.recorded = {}
        self.level = len(_state.stack) + 1
        self.thread: int | None = threading.get_ident()
        self.closed = False
        self.keep_source = keep_source or (Trace if around is None else around).keep_source

    def __enter__(self) -> Trace:
        if self.places:
            from .creating import Makers  # needed where arrays are made

            self.makers = Makers(self.places)
        _state.stack.append(self)
        if self.captures:
            CAPTURING.append(self)
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.closed = True
        _state.stack.remove(self)
        if self.captures:
            CAPTURING.remove(self)
        if self.makers is not None:
            self.makers.leave()

    @property
    def is_innermost(self) -> bool:
        """Whether it is this one that records what is done now."""
        return bool(_state.stack) and _state.stack[-1] is self

    def variable(
        self,
        value: Any = None,
        array_type: ArrayType | None = None,
        name: str = "",
        active: bool = True,
    ) -> Tracer:
        """A new input, with a concrete value or with a type alone."""
        kept = self.kept(value, "trace", True) if type(value) is np.ndarray else snapshot(value)
        return Tracer(self, Variable(name, kept, array_type, active))

    def kept(self, value: Any, operation: str, argument: bool = False) -> Any:
        """A value as it is now: a copy of an array, unless the function is proved to leave it."""
        if self.taken and type(value) is np.ndarray:
            self.taken.append(value)
            return value
        if type(value) is np.ndarray and value.nbytes < LARGE:  # most are
            return small_copy(value)
        return keep(value, operation, self.proves if argument else self.takes)

    def takes(self, array: np.ndarray) -> bool:
        """Whether a large constant is recorded as it is, as nobody writes to it."""
        return not self.lazy and (self.proves(array) or is_locked(array))

    def proves(self, array: np.ndarray) -> bool:
        """Whether the function is known not to write to an array; if so, the array is noted."""
        if self.call is None:
            return False
        if not self.taken:
            proof, args, keywords = self.call
            if not proof().holds(args, keywords):
                self.call = None
                return False
            self.taken = []
        self.taken.append(array)
        return True

    def constant(self, value: Any) -> Tracer:
        """A value of this trace that does not depend on its inputs."""
        return Tracer(self, Constant(keep(value)))

    def node_of(self, value: Any, operation: str = "trace") -> Node:
        """The node of a tracer of this trace; anything else becomes a `Constant`."""
        if isinstance(value, Traced):
            if value._trace is self:
                return value.node  # type: ignore[attr-defined,no-any-return]
            constant = value._constant()
            if constant is not None:
                return Constant(constant)
            if value._trace.closed:
                raise leaked("trace")
            if value._trace.thread not in (self.thread, None):
                raise foreign_thread()
            if conditional.replaced:
                check_current(value)
            return Constant(snapshot(value))
        # it may be written to while this trace is in use
        return Constant(self.kept(value, operation))

    def record(self, op: Op, args: Sequence[Any], params: dict[str, Any]) -> Any:
        """Append one operation; its value is computed where all its inputs are known."""
        if self.closed:
            from .made import afterwards

            return afterwards(op, args, params)
        if conditional.replaced:  # also where a value from outside is computed outside
            for arg in args:
                check_current(arg)
        key = None
        if self.recorded is not None and not (op.multiple or op.collective or op.pull_rule):
            key = _identity(op, args, params)
            known = self.recorded.get(key)
            if known is not None:
                return self.result(op, args, params, known)
        inputs: list[Node] = []
        values: list[Any] = []
        active = abstract = nested = False
        node: Node
        for arg in args:
            if isinstance(arg, Traced):
                if arg._trace is self:
                    # quicker than the property, where neither a view nor writes are in the way
                    node = (arg._base is None and arg._node) or arg.node  # type: ignore[attr-defined]
                    active = active or node.active
                else:
                    node = self.node_of(arg)
                value = node.output
                if value is None:
                    abstract = True
                elif type(value) not in PLAIN and isinstance(value, Traced):
                    nested = True
            elif type(arg) in NUMBERS:
                node, value = Constant(arg), arg
            else:
                node = Constant(value := self.kept(arg, op.name))  # as in `node_of`
            inputs.append(node)
            values.append(value)
        varies = active or abstract or nested or any(type(node) is not Constant for node in inputs)
        if not varies and all(arg.made for arg in args if isinstance(arg, Traced)):
            from .made import fold

            return fold(self, op, args, params, values)
        if self.lazy and not abstract and not op.multiple:
            abstract = any(np.size(value) > SMALL for value in values)
        if abstract or (nested and self.captures):
            inputs = settle(op, inputs, params)
            array_type = op.type_rule(*[node.type for node in inputs], **params)
            made = Operator(op, tuple(inputs), params, None, array_type)
        else:
            output = op(*values, **params) if nested else op.compute(values, params)
            made = Operator(op, tuple(inputs), params, output)
        if self.keep_source:
            made.source = user_line()
        elif nested:  # tensors under `jit`: what they compute is recorded there, with its line
            made.source = getattr(getattr(made.output, "_node", None), "source", None)
        if active and op.zero is None:
            dtype = getattr(made.output, "dtype", None)
            made.active = op.multiple or (made.type.dtype if dtype is None else dtype).kind in "fc"
        if key is not None:
            self.recorded[key] = made  # type: ignore[index]
        if op.multiple:
            return self._items(made)
        if op.write_back is None:
            return self.wrap(made)
        return self.result(op, args, params, made)

    def result(self, op: Op, args: Sequence[Any], params: dict[str, Any], node: Node) -> Tracer:
        """The traced value of a new node; views remember what they are a view of."""
        tracer = self.wrap(node)
        if op.write_back is not None and isinstance(args[0], Array):
            tracer._view_of(args[0], op, params)
        return tracer

    def wrap(self, node: Node) -> Tracer:
        """A traced value for a node."""
        return Tracer(self, node)

    def _items(self, node: Operator) -> tuple[Tracer, ...]:
        items = []
        for index, array_type in enumerate(node.type):
            output = None if node.output is None else node.output[index]
            item = Operator(ITEM, (node,), {"index": index}, output, array_type)
            item.active = node.active and array_type.dtype.kind in "fc"
            item.source = node.source
            items.append(self.wrap(item))
        return tuple(items)


def _identity(op: Op, args: Sequence[Any], params: dict[str, Any]) -> Any:
    """What tells an operation on these arguments from others; None where nothing short does.

    Weak numbers alone make one that may be weak or not (see `weaken`).
    """
    key: list[Any] = [op]
    weak = True
    for arg in args:
        if isinstance(arg, Traced):
            node: Node = (arg._base is None and arg._node) or arg.node  # type: ignore[attr-defined]
            key.append(node.serial)
            weak = weak and node.type.weak
        elif type(arg) in NUMBERS:
            key.append(type(arg))
            key.append(arg if arg else str(arg))  # zeros differ by their signs
        else:
            return None
    if weak:
        return None
    if params:
        try:
            key.append(exactly(tuple(params.items())))
            hash(key[-1])
        except TypeError:  # a parameter that cannot be hashed
            return None
    return tuple(key)


# One result of an operation that has several.
ITEM = Op(
    "item",
    lambda values, index: values[index],
    lambda types, index: types[index],
    linear=(0,),
    absent={
        "samples": "its argument is the tuple of another operation's results",
        "transpose": "the walk backward collects the cotangents of the items itself",
        "batch": "items are taken apart before batching",
    },
    hosted="the results of an operation are separate buffers in loops",
)


class Tracer(Array, Traced, Typed):
    """A traced array: behaves like a NumPy array, records into its trace."""

    # While there are writes that the array is not yet put together of, `_node` is None.
    __slots__ = ("_base", "_node", "_order", "_seen", "_trace", "_version", "_writable", "_written")
    _node: Node

    def __init__(self, trace: Trace, node: Node):
        self._trace = trace
        self._node = node
        self._base: Any = None
        self._version = 0
        self._seen = 0
        self._writable: Any = None
        self._written: Any = None

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        """What ``isinstance`` sees: an array, so that code for arrays takes its usual way.

        The value of a number stands for no array, and `type` tells the truth.
        """
        return np.ndarray if is_array(self) else type(self)

    @property
    def node(self) -> Node:
        """The node of the current content; a view looks at what its base holds now."""
        if self._base is not None:
            self._refresh()
        return self._node or settled(self)

    @property
    def type(self) -> ArrayType:  # type: ignore[override]
        """The array type."""
        own: ArrayType = (self if self._written is None else self._written.content)._node.type
        return own

    @property
    def value(self) -> Any:
        """The value one level out, or None when it is abstract."""
        return self.node.output


def foreign_thread() -> LeakedTracerError:
    """The error for traced values of two threads: no trace is inside the other."""
    return LeakedTracerError(
        explain(
            "trace",
            "got a traced value of another thread",
            "Trace the whole function in one thread, or pass plain arrays between threads.",
        )
    )


def concrete(value: Any) -> Any:
    """The plain array or number behind a traced value, or None when it is abstract."""
    while isinstance(value, Traced):
        if value._trace.closed and value._constant() is None:
            raise leaked("reading a value")
        value = value.value  # type: ignore[attr-defined]
    return value


def lift(value: Any) -> Any:
    """A new array to write to: traced when a trace is running, plain otherwise."""
    trace = current_trace()
    if trace is None:
        return value
    tracer = Tracer(trace, Constant(value))
    tracer._writable = True
    return tracer


def lazily(value: Any, constant: Any) -> Any:
    """A constant that meets `value`: recorded, not computed with, where `value` is."""
    while isinstance(value, Traced):
        if value._trace.lazy:
            return value._trace.constant(constant)
        value = value.value  # type: ignore[attr-defined]
    return constant
