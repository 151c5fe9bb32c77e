"""What an operation is, and `bind`, which applies one.

An operation is one entry: how it types, how NumPy evaluates it, how a tangent goes through it
(`jvp`, or a `derivative` factor, or being `linear` itself), how a cotangent comes back
(`transpose`, for linear operations only), how it batches, how it lowers to loops, and sample
arguments for the tests. Everything else (reverse mode, vmap, compilation) is derived.

Vocabulary of the rules: `t` tangent, `g` cotangent, `ans` result, `x, y, z` arguments.

- ``derivative=(lambda ans, x, y: y, ...)``: one factor an argument; the tangent is t * factor.
- ``jvp=(lambda t, ans, x, y: ..., None)``: one tangent rule an argument, summed; None: the
  derivative by that argument is zero. ``jvp=function``: ``function(tangents, ans, *args)``,
  where a tangent that is zero is given as None.
- ``linear=(0, 1)``: linear in each of these arguments by itself, so its tangent is the
  operation itself with ``t`` in that place.
- ``transpose=(lambda g, x, y: ..., None)``: one cotangent rule an argument; the argument in
  question is given as its `ArrayType`, the others as values. ``transpose=function``:
  ``function(g, index, *args)``.
- ``zero="piecewise constant"``: why the derivative is zero everywhere. An operation with
  neither a rule nor a `zero` refuses to be differentiated.
- ``batch(size, flags, *args)``: batched arguments come with the batch axis first; so must the
  result.
- ``compose(*args)``: the same made of other operations, for the compiler, which else traces the
  evaluation; ``hosted="LAPACK"``: why NumPy must evaluate it.
- ``cost``, ``additive``, ``mixes``: what the compiler asks of it (see below).
- ``samples(rng)``: yields ``(args, params)`` for the tests.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Sequence
from typing import Any

from ..errors import LeakedTracerError, WengertError, explain
from ..functions import FUNCTIONS, Cost
from ..loops import Alias, Pointwise
from ..types import Function, Typed, type_of

REGISTRY: dict[str, Op] = {}


class Traced(Typed):
    """Base of traced values; `_trace` records what is done to them."""

    __slots__ = ()
    _trace: Any
    # Whether NumPy made it in a function being traced; then it may be plain (`trace/made.py`).
    made = False

    def _constant(self) -> Any:
        """The plain array that it is, if it is one."""
        return None


# The traces of all threads that record all that is done while they run, innermost last.
CAPTURING: list[Any] = []


def captor(trace: Any) -> Any:
    """The trace that records what is done to values of `trace`: it, or one inside that captures."""
    own = threading.get_ident()
    for candidate in CAPTURING:
        if candidate.thread == own and candidate.level > trace.level:
            trace = candidate
    return trace


def recorder(args: Sequence[Any]) -> Any:
    """The trace that records an operation on these arguments; None: no argument is traced."""
    traces = [arg._trace for arg in args if isinstance(arg, Traced)]
    return captor(max(traces, key=lambda one: one.level)) if traces else None


@contextlib.contextmanager
def uncaptured() -> Iterator[None]:
    """Record in the traces of the arguments alone, whatever captures."""
    own = [trace for trace in CAPTURING if trace.thread == threading.get_ident()]
    for trace in own:
        CAPTURING.remove(trace)
    try:
        yield
    finally:
        CAPTURING.extend(own)


class Op:
    """One operation. Calling it binds it to its arguments."""

    def __init__(
        self,
        name: str,
        evaluate: Function,
        type_rule: Function,
        *,
        derivative: Sequence[Function | None] | None = None,
        jvp: Sequence[Function | None] | Function | None = None,
        linear: Sequence[int] = (),
        transpose: Sequence[Function | None] | Function | None = None,
        batch: Function | None = None,
        loops: Any = None,
        compose: Function | None = None,
        hosted: str | None = None,
        samples: Function | None = None,
        multiple: bool = False,
        write_back: Function | None = None,
        resize: Function | None = None,
        zero: str | None = None,
        absent: dict[str, str] | None = None,
        takes: Function | None = None,
        compares: bool = False,
        reads_views: bool = False,
        additive: bool = False,
        mixes: Function | None = None,
        cost: Cost | None = None,
    ):
        if name in REGISTRY:
            raise WengertError(f"operation {name!r} is defined twice")
        self.name = name
        self.evaluate = evaluate
        self.type_rule = type_rule
        self.derivative = derivative
        self.jvp = jvp
        self.linear = frozenset(linear)
        self.transpose = transpose
        self.batch = batch
        self.loops = loops
        # The same operation made of others: what the compiler compiles when there are no loops. It
        # is the evaluation itself, where that calls nothing but NumPy; where it does more, `hosted`
        # says what, and it is run as it is, from inside the compiled program.
        self.compose = compose or (evaluate if loops is None and hosted is None else None)
        self.hosted = hosted
        # Whether that is right for complex numbers too.
        self.composes_complex = False
        self.samples = samples
        # Whether the result is a tuple of arrays.
        self.multiple = multiple
        # For operations whose result NumPy makes a view: how a write to the view
        # reaches its base, write_back(base, new, **params) -> new base.
        self.write_back = write_back
        # For operations whose parameters hold lengths: the parameters when an axis of the result,
        # and with it those of the arguments, gets another length: resize(axis, length, **params).
        self.resize = resize
        # For operations with a program inside: pull_rule(node, g, take) -> cotangents and
        # push_rule(node, tangents) -> tangent, which work at the node's own values. A pull rule may
        # `take(number)` the cotangent so far of an argument (None: zero), and then gives the sum.
        self.pull_rule: Function | None = None
        # adds_to(node) -> the results that are sums added to an argument where that lies, each with
        # the number of the argument; writes_to(node) -> those that were written to, likewise.
        self.adds_to: Function | None = None
        self.writes_to: Function | None = None
        self.push_rule: Function | None = None
        # masked(size, flags, going, *args): its batched form where only some samples count, those
        # that `going` says; the others need not even end.
        self.masked: Function | None = None
        # Why the derivative is zero everywhere (a comparison, a rounding).
        self.zero = zero
        # Why a part is missing, by the part's name; the registry test asks.
        self.absent = absent or {}
        # takes(*types, **params): the dtypes that its arguments are converted to (None: any), for
        # Python integers, which must fit; see python_integers.py. A comparison takes all of them.
        self.takes = takes
        self.compares = compares
        # Whether the compiler need not copy arguments that only lie in another order.
        self.reads_views = reads_views
        # Whether it is linear in all arguments together: f(x + s, y + t) = f(x, y) + f(s, t).
        self.additive = additive
        # Without loops: mixes(*types, **params), the axes of the result, from the end, along which
        # an element may need all of the arguments. Other axes meet those of the arguments.
        self.mixes = mixes
        # What an element takes beside its arguments: what its elementary function does, if it is
        # one; None: nobody has said.
        self.cost = FUNCTIONS[name].cost if name in FUNCTIONS else cost
        # Whether it is the elementary function of that name, element by element.
        self.elementary = name in FUNCTIONS
        # Whether it broadcasts its arguments and computes element by element, as ufuncs do.
        self.by_elements = False
        # Of several results: operations of the same arguments, without parameters, that give one
        # of them alone, by its number. The compiler takes these where nobody wants the others.
        self.alone: dict[int, Op] = {}
        # Whether other processes take part: then it is not evaluated while a program is compiled,
        # which each of them does in its own time, or not at all.
        self.collective = False
        # Derived programs by signature; see transforms/plans.py.
        self.plans: dict[Any, Any] = {}
        REGISTRY[name] = self

    @property
    def moves(self) -> bool:
        """Whether each element of the result is one of the argument, at a place known by types."""
        loops = self.loops
        if not isinstance(loops, Pointwise):
            return isinstance(loops, Alias)
        return loops.free and not loops.chooses and not loops.whole

    def __call__(self, *args: Any, **params: Any) -> Any:
        """Apply the operation: evaluate on arrays, record on traced values."""
        trace = None
        for arg in args:
            if isinstance(arg, Traced):
                candidate = arg._trace
                if trace is None or candidate.level > trace.level:
                    trace = candidate
        if trace is not None:
            if CAPTURING:
                trace = captor(trace)
            return trace.record(self, args, params)
        return self.compute(args, params)

    def compute(self, args: Sequence[Any], params: dict[str, Any]) -> Any:
        """Evaluate on plain values."""
        try:
            return self.evaluate(*args, **params)
        except (ValueError, TypeError, IndexError):
            # The type rule knows the clear message; without one NumPy's stands.
            self.type_rule(*[type_of(arg) for arg in args], **params)
            raise

    def __repr__(self) -> str:
        return f"<op {self.name}>"


def leaked(name: str) -> LeakedTracerError:
    """The error for a traced value that outlived its trace."""
    return LeakedTracerError(
        explain(
            name,
            "got a traced value whose function has already returned",
            "Return values from the function (use has_aux=True for extras) instead of storing "
            "them in globals, attributes or lists outside it.",
        )
    )
