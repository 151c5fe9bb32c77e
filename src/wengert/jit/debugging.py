"""What `WENGERT_DEBUG` prints, and `debug_nans`.

WENGERT_DEBUG=1 says what compiles and how long each stage took, 2 adds graph and loops, 3 the LLVM
IR, 4 the assembly. All of it goes to standard error. With any of them every program of loops is
verified before code is made of it.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..errors import WengertError, evaluates, user_line
from ..graph import Constant, Graph, Operator
from ..lines import Line, tell_in_detail
from ..ops.elementwise import add
from ..ops.op import Op
from ..trace.tracer import Trace
from ..transforms import modes
from ..transforms.plans import Replay
from .waiting import announced


class NotANumberError(WengertError, FloatingPointError):
    """`debug_nans` found the operation that made a NaN."""


def level() -> int:
    """The value of WENGERT_DEBUG, 0 where it is not set."""
    text = os.environ.get("WENGERT_DEBUG", "").strip() or "0"
    try:
        return int(text)
    except ValueError:
        raise ValueError(
            f"environment variable WENGERT_DEBUG: got {text!r}, expected 0, 1, 2, 3 or 4"
        ) from None


def show(text: str) -> None:
    """One message."""
    print(text, file=sys.stderr, flush=True)


_NOTHING = contextlib.nullcontext()


class Clock:
    """Seconds of each stage, by name; those of what has a name itself are announced if long.

    >>> clock = Clock()
    >>> with clock("trace"):
    ...     pass
    >>> list(clock.seconds)
    ['trace']
    """

    def __init__(self, name: str = "") -> None:
        self.name, self.started = name, time.perf_counter()
        self.seconds: dict[str, float] = {}

    @contextlib.contextmanager
    def __call__(self, stage: str) -> Iterator[None]:
        """Count the time of a `with` block to a stage."""
        start = time.perf_counter()
        try:
            with announced(self.name, stage, self.started) if self.name else _NOTHING:
                yield
        finally:
            spent = time.perf_counter() - start
            self.seconds[stage] = self.seconds.get(stage, 0.0) + spent

    def __str__(self) -> str:
        return ", ".join(f"{stage} {1e3 * spent:.1f} ms" for stage, spent in self.seconds.items())


# ---------------------------------------------------------------- NaN

# Functions that must leave their native way while the check is on.
compiled_functions: weakref.WeakSet[Any] = weakref.WeakSet()
_plain_compute, _plain_plan = Op.compute, Replay.__call__
_checking = False


def checking_nans() -> bool:
    """Whether `debug_nans` is on."""
    return _checking


class debug_nans:  # noqa: N801 - used like a function
    """Raise where an operation makes a NaN out of numbers, evaluated or compiled, and say which, at
    which line, in which module, and of what it is the derivative, if it is one.

    Works as a switch, `wg.debug_nans()` and `wg.debug_nans(False)`, and as a context. Compiled
    functions are evaluated operation by operation meanwhile, so they are slow.

    >>> import wengert as wg
    >>> with wg.debug_nans():
    ...     wg.jit(lambda x: np.log(x))(-1.0)
    Traceback (most recent call last):
    wengert.jit.debugging.NotANumberError: log (at ...): made a NaN from -1.0. Keep ...
    """

    def __init__(self, on: bool = True):
        self._before = _checking
        _switch(on)

    def __enter__(self) -> debug_nans:
        return self

    def __exit__(self, *exc_info: object) -> None:
        _switch(self._before)


def _switch(on: bool) -> None:
    global _checking
    _checking = bool(on)
    Op.compute = _checked_compute if on else _plain_compute  # type: ignore[method-assign, assignment]
    # derivatives operation by operation too, and every node with all there is to tell of its line
    Replay.__call__ = _plan_by_operations if on else _plain_plan  # type: ignore[method-assign, assignment]
    modes.add_arrays = add if on else np.add
    Trace.keep_source = _checking
    tell_in_detail(_checking)
    for function in list(compiled_functions):
        function._point()


def _has_nan(value: Any) -> bool:
    if isinstance(value, tuple):
        return any(map(_has_nan, value))
    array = np.asarray(value)
    return array.dtype.kind in "fc" and bool(np.isnan(array).any())


def _checked_compute(op: Op, args: Sequence[Any], params: dict[str, Any]) -> Any:
    with np.errstate(all="ignore"):
        result = _plain_compute(op, args, params)
    if _has_nan(result) and not any(map(_has_nan, args)):
        raise _not_a_number(op, args, user_line())
    return result


class _PlanStep(NamedTuple):
    """A step of a plan, for whoever asks for its line."""

    source: str | None


@evaluates
def _plan_by_operations(plan: Replay, values: Sequence[Any], quick: bool = False) -> list[Any]:
    env = [*values, *plan.constants]
    for (apply, _, places, params), source in zip(plan.steps, plan.sources, strict=True):
        node = _PlanStep(source)  # noqa: F841 - read by `user_line`
        env.append(apply(*[env[place] for place in places], **params))
    return [None if place is None else env[place] for place in plan.outputs]


def _not_a_number(op: Op, args: Sequence[Any], source: str | None) -> NotANumberError:
    shown = ", ".join(map(_shown, args))
    told = [f"at {source}"] if source else []
    remedy = "Keep the argument inside the function's domain, for instance with wnp.where."
    if isinstance(source, Line):
        if source.derived:
            told.insert(0, f"in the derivative of {source.operation or 'what stands there'}")
            remedy = "Keep what it is derived of away from where its derivative is infinite."
        if source.layers:
            told.append(f"in {' / '.join(source.modules())}")
    where = f" ({', '.join(told)})" if told else ""
    return NotANumberError(f"{op.name}{where}: made a NaN from {shown}. {remedy}")


def _shown(value: Any) -> str:
    array = np.asarray(value)
    return np.array2string(array, threshold=8) if array.ndim else repr(array.item())


@evaluates
def evaluate_checked(graph: Graph, values: Sequence[Any]) -> list[Any]:
    """The graph evaluated by NumPy; raises at the first operation that makes a NaN."""
    known: dict[int, Any] = {
        node.serial: value for node, value in zip(graph.inputs, values, strict=True)
    }
    compute: Callable = _plain_compute
    for node in graph.nodes:
        if isinstance(node, Constant):
            known[node.serial] = node.output
        elif isinstance(node, Operator):
            args = [known[source.serial] for source in node.inputs]
            with np.errstate(all="ignore"):
                result = compute(node.op, args, node.params)
            if _has_nan(result) and not any(map(_has_nan, args)):
                raise _not_a_number(node.op, args, node.source)
            known[node.serial] = result
    return [known[node.serial] for node in graph.outputs if node is not None]


def run_checked(jitted: Any, program: Any, call: Any, key: Any, leaves: list, out: Any) -> Any:
    """A call operation by operation; what makes a NaN is told with all that its line has to say."""
    from .inside import graph_for, traced_for

    try:
        return _run_checked(program, graph_for(jitted, program, call, key, leaves), leaves, out)
    except NotANumberError:
        _run_checked(program, traced_for(jitted, call, key, leaves), leaves, out)
        raise


def _run_checked(program: Any, graph: Any, values: Sequence[Any], out: Any = None) -> Any:
    """Call operation by operation in NumPy, for `debug_nans`; `graph` is for such values."""
    length = program.length_of(values)
    state = [s.cell.memory.copy() for s in program.state if s.read]
    found = evaluate_checked(graph, [*values, *state])
    for one, new in zip(
        (s for s in program.state if s.written), found[program.result_count :], strict=True
    ):
        one.cell.store(new)
    for one in program.state:
        if one.removed:
            one.cell.store(None)
    results = [
        np.array(value, dtype).reshape(shape)
        for value, (dtype, shape) in zip(found, program.result_types(length), strict=False)
    ]
    if out is None:
        return program._rebuild(results)
    for target, result in zip(program._targets(out, length), results, strict=True):
        np.copyto(target, result)
    return out


def report(program: Any, kinds: Sequence[Any]) -> None:
    """What WENGERT_DEBUG asks for, of a program that was just made."""
    depth = level()
    if depth < 1:
        return
    from .explain import Explanation

    arguments = ", ".join(str(kind.type) for kind in kinds)
    origin = "the cache" if program.from_record else "the compiler"
    show(f"wengert: {program.name}({arguments}) from {origin}: {program.clock}")
    story = Explanation(program, None)
    if depth >= 2 and program.stages is not None:
        show(f"{story.graph}\n{story.loops}")
    if depth >= 3 and program.compiled._text:
        show(story.llvm)
    if depth >= 4 and program.compiled._text:
        show(story.assembly)
