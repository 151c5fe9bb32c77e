"""What `jit` returns: a callable that hands each call to the program compiled for it.

CPython calls a `Jitted` almost as fast as a built-in: it is a kind of `staticmethod`, whose C code
passes the call straight on to whatever callable it holds. That is the native entry of the newest
program; what an entry does not recognise it gives to the next (see `chain`), and the last of all is
`_dispatch`, in Python. It brings the arguments in order, finds the program or compiles it, and
runs it.
"""

from __future__ import annotations

import functools
import inspect
import itertools
import threading
import types
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, TypeVar, overload

from .. import tree
from ..errors import DependsOnLength, MoreSteps, OptionError
from ..ops.op import Traced
from ..runtime.limits import steps_code
from ..trace import Preparing, called, concrete
from ..trace.tracing import function_name, unmade
from ..transforms.loop import rooms
from . import debugging
from .arguments import Call, Parameters, describe, plain
from .converting import CONVERTER
from .dynamic import (
    Axes,
    capture_any,
    check_names,
    checked_axes,
    describe_any,
    describe_one,
    for_length,
    is_any,
    one_length,
    owners,
    warn_fixed,
)
from .frames import Failed
from .hosting import hosted_entry
from .often import warn_often
from .outside import captured_once
from .program import MISSED, object_cache
from .state import local, trace_lock
from .tracing import Captured, CapturesTraced, capture
from .waiting import seldom_collected

P = ParamSpec("P")
Q = ParamSpec("Q")
R = TypeVar("R")

# Programs of one function, of which the one not used for longest goes first. The entries of a chain
# are never among those: a hot call need not tell that it was made.
PROGRAMS = 256
# A function that was compiled more often than this, for other arguments each time, is told of.
OFTEN = 64


@overload
def jit(
    f: Callable[P, R],
    *,
    static_argnames: str | Sequence[str] = (),
    threads: int | None = None,
    dynamic: Mapping[str, int | Sequence[int]] | None = None,
    control: str = "python",
) -> Jitted[P, R]: ...
@overload
def jit(
    f: None = None,
    *,
    static_argnames: str | Sequence[str] = (),
    threads: int | None = None,
    dynamic: Mapping[str, int | Sequence[int]] | None = None,
    control: str = "python",
) -> Callable[[Callable[P, R]], Jitted[P, R]]: ...
def jit(
    f: Any = None,
    *,
    static_argnames: str | Sequence[str] = (),
    threads: int | None = None,
    dynamic: Mapping[str, int | Sequence[int]] | None = None,
    control: str = "python",
) -> Any:
    """The compiled form of a function of arrays; also a decorator, of methods too.

    The function is traced once for each kind of arguments (dtypes, shapes, strides, Python types)
    and each value of the arguments in `static_argnames`, then runs as machine code. `out=` in a
    call names arrays for the result. `threads` limits the threads of this function.

    `dynamic={"x": 0}` compiles once for any length of that axis of that argument, or of all arrays
    in it; all axes named have the same length. The function is traced at a few lengths, and at the
    first call of each other one, to see that it takes the same steps; a length where it does not
    has a program of its own. Where one for any length cannot be had, it is compiled for each, with
    a warning that says why.

    Python's `if`, `while` and `for` on traced values become operations, from the source of the
    function and of those that it calls, see docs/control.md; ``control="trace"`` runs them while
    tracing, where a traced condition is an error.

    Tensors from outside are state: read anew and updated in place by every call. Other things from
    outside (arrays, numbers, attributes of `self`) are read once, while tracing.

    >>> import numpy as np
    >>> import wengert as wg
    >>> @jit
    ... def rosenbrock(x):
    ...     return np.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)
    >>> float(rosenbrock(np.array([1.0, 2.0, 3.0])))
    201.0
    >>> jit(wg.grad(rosenbrock))(np.array([1.0, 2.0, 3.0]))
    array([-400., 1002., -200.])
    """
    names = (static_argnames,) if isinstance(static_argnames, str) else tuple(static_argnames)
    if threads is not None:
        from ..runtime.threads import _checked

        threads = _checked(threads, "jit: argument threads")
    if control not in ("python", "trace"):
        raise OptionError(
            f"jit: got control={control!r}, expected 'python' or 'trace'. 'python' makes "
            "operations of Python's control flow, 'trace' runs it while tracing."
        )
    if f is None:
        return functools.partial(
            jit, static_argnames=names, threads=threads, dynamic=dynamic, control=control
        )
    if type(f) is staticmethod or isinstance(f, classmethod):  # below @jit is as above it
        return type(f)(Jitted(f.__func__, names, threads, checked_axes(dynamic), control))
    if not callable(f):
        raise TypeError(f"jit: got {f!r} of type {type(f).__name__}, expected a function")
    return Jitted(f, names, threads, checked_axes(dynamic), control)


class Jitted(staticmethod, Generic[P, R]):
    """A function with its compiled programs, one for each kind of arguments."""

    _way: tuple[str, ...] = ()  # how it is called, where that is not as it is written
    owner: Callable[[], Any] | None = None  # of a method, its instance

    def __init__(
        self,
        f: Callable[P, R],
        static_argnames: tuple[str, ...],
        threads: int | None,
        dynamic: Axes | None = None,
        control: str = "python",
    ):
        self._given = f
        self.control = control
        self.static_argnames, self.threads = static_argnames, threads
        self.dynamic = dynamic or {}
        self._parameters: Parameters | None = None
        if static_argnames or dynamic:
            self._parameters = Parameters(self.function, static_argnames)
            check_names(self.dynamic, self._parameters)
        self._fixed: set[Any] = set()  # kinds that are compiled for each length by itself
        self._programs: dict[Any, list[Any]] = {}
        self._entries: list[Any] = []  # newest first
        self._evicted: list[Any] = []  # found by the program's kind instead
        self._turns = itertools.count(1)
        self._compilations = 0
        self._rooms: dict[int, int] = {}  # steps of counted loops that there must be memory for
        self._methods: dict[int, Any] = {}  # of instances, by their id; see `methods`
        self.attribute = ""  # its name in a class
        self._lock = threading.RLock()
        debugging.compiled_functions.add(self)
        self._point()

    # ------------------------------------------------------------ as a Python object

    @property
    def function(self) -> Callable:
        """What is compiled."""
        return self._given

    @property
    def __wrapped__(self) -> Callable:
        return self.function

    @property
    def __func__(self) -> Callable:
        return self.function

    @property
    def __signature__(self) -> inspect.Signature:
        return inspect.signature(self.function)

    def __repr__(self) -> str:
        count = sum(map(len, self._programs.values()))
        plural = "" if count == 1 else "s"
        return f"<jit of {function_name(self.function)}, {count} program{plural}>"

    def __reduce__(self) -> Any:
        options = (self.static_argnames, self.threads, self.dynamic, self.control)
        return Jitted, (self.function, *options)

    def __set_name__(self, owner: type, name: str) -> None:
        self.attribute = self.attribute or name

    if TYPE_CHECKING:  # what is called is what `staticmethod` holds

        @overload
        def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R: ...
        @overload
        def __call__(self, *args: Any, out: Any) -> R: ...
        def __call__(self, *args: Any, **kwargs: Any) -> Any:
            """Call the compiled function."""

    @overload
    def __get__(self, instance: None, owner: Any = None) -> Jitted[P, R]: ...
    @overload
    def __get__(
        self: Jitted[Concatenate[Any, Q], R], instance: object, owner: Any = None
    ) -> Jitted[Q, R]: ...
    def __get__(self, instance: Any, owner: Any = None) -> Any:
        """As a method: `self` is part of the function, unless it is a tree of arrays."""
        method = self._methods.get(id(instance))  # gone before an id can be used again
        if method is None:
            if instance is None:
                return self
            from .methods import is_array_tree, method_of

            method = self if is_array_tree(instance) else method_of(self, instance)
        return types.MethodType(method, instance)

    def _point(self) -> None:
        """Hold the right callable: the newest entry, or Python's way."""
        head = self._dispatch
        if self._entries and not debugging.checking_nans():
            head = self._entries[0].call
        staticmethod.__init__(self, head)
        for name in functools.WRAPPER_ASSIGNMENTS:  # it has taken those of the callable it holds
            if hasattr(self.function, name):
                setattr(self, name, getattr(self.function, name))

    # ------------------------------------------------------------ calls

    def _dispatch(self, /, *args: Any, **kwargs: Any) -> Any:
        """Calls that no entry in the chain took."""
        if args and isinstance(args[0], type) and self._is_class_method():
            return self.__get__(args[0])(*args[1:], **kwargs)
        return self._take(True, args, kwargs)

    def _from_evicted(self, /, *args: Any, **kwargs: Any) -> Any:
        """Calls that an entry outside the chain did not take."""
        return self._take(False, args, kwargs)

    def _is_class_method(self) -> bool:
        """Whether a class is its first argument: from Python 3.13 on `classmethod` gives it so."""
        return self._known_parameters().name_at(0) == "cls" and "cls" not in self.static_argnames

    def _leading(self) -> tuple[Any, ...]:
        """What a call has before its arguments."""
        return ()

    def _again(self, args: tuple, kwargs: dict[str, Any], out: Any, call: Any = None) -> Any:
        """The whole call once more, by `call` or from the beginning."""
        named = kwargs if out is None else {**kwargs, "out": out}
        return (call or self)(*self._leading(), *args, **named)

    def _take(self, native: bool, args: tuple, kwargs: dict[str, Any]) -> Any:
        """New kinds, traced values, conversions, a busy arena."""
        out = kwargs.pop("out", None)
        if local.running is not None:
            return _fill(out, self._inside(args, kwargs))
        call = self._order(args, kwargs)
        leaves, key = self._key(call)
        if key is None:  # traced values: the function becomes a part of their trace
            if not any(isinstance(unmade(leaf), Traced) for leaf in leaves):
                args, kwargs = tree.map(unmade, (args, kwargs))
                return self._again(args, kwargs, out)
            return _fill(out, self._inside(args, kwargs))
        program = self._find(key)
        try:
            if program is None:
                program, key = self._find_or_compile(call, key, leaves, args, kwargs)
            if program.any_length:
                program, key = for_length(self, program, call, key, leaves, args, kwargs)
        except CapturesTraced:
            return _fill(out, self._inside(args, kwargs))
        if debugging.checking_nans():
            return debugging.run_checked(self, program, call, key, leaves, out)
        entry = None
        if program.entries or (program.native and _is_on("entries")):
            from .chain import entry_for

            entry = entry_for(self, program, args, kwargs, out is not None)
        if program.arena is not None and program.arena.wake():
            return self._again(args, kwargs, out)
        if entry is not None and native and entry in self._evicted:
            from .entries import drop_results_of_others

            drop_results_of_others(program)
            return self._again(args, kwargs, out, entry.call)
        if program.flat is not None and out is None:
            result = program.run_flat(leaves)
            if result is not MISSED:
                return result
        try:
            return program.run(leaves, out)
        except Failed as failed:
            code = failed.args[0]
        except MoreSteps as more:
            code = steps_code(*more.args)
        return self._again(args, kwargs, out, functools.partial(self._failed, program, code))

    def _inside(self, args: tuple, kwargs: dict[str, Any]) -> Any:
        """The function as a part of a trace around it."""
        if local.running is None and not any(map(_is_abstract, tree.leaves((args, kwargs)))):
            return self.function(*args, **kwargs)  # numbers are known: Python as it is
        with self._controlled():
            return called(self.function, *args, **kwargs)

    def _controlled(self, any_length: bool = True) -> Preparing:
        """How control flow is taken while the function is traced."""
        if self.control == "trace":
            return Preparing(None)
        # one program for any length knows no loops of a fixed number of turns
        return Preparing(*CONVERTER, turn_by_turn=any_length and bool(self.dynamic))

    def _failed(self, program: Any, code: int, /, *args: Any, **kwargs: Any) -> Any:
        """The native code stopped."""
        from .stopped import go_on

        return go_on(self, program, code, args, kwargs)

    def _order(self, args: tuple, kwargs: dict[str, Any]) -> Call:
        if not kwargs and self._parameters is None:
            return Call(args, kwargs)
        return self._known_parameters().order(args, kwargs)

    def _known_parameters(self) -> Parameters:
        if self._parameters is None:
            self._parameters = Parameters(self.function, self.static_argnames)
        return self._parameters

    def _key(self, call: Call) -> tuple[list[Any], Any]:
        """The leaves made plain, and what a program is found by; None with traced values."""
        leaves, structure = tree.flatten(call.dynamic())
        if any(isinstance(leaf, Traced) for leaf in leaves):
            return leaves, None
        name = function_name(self.function)
        leaves = [plain(leaf, name, number) for number, leaf in enumerate(leaves)]
        if self.dynamic and _is_on("lengths"):
            leaves, kinds = describe_any(call, leaves, self.dynamic, self._known_parameters())
            key = (structure, tuple(kinds), call.statics())
            if key in self._fixed:
                key = (structure, describe_one(leaves, kinds), call.statics())
            return leaves, key
        return leaves, (structure, tuple(map(describe, leaves)), call.statics())

    def _find(self, key: Any) -> Any:
        for program in self._programs.get(key, ()):
            if program.holds:
                program.used = next(self._turns)
                return program
        return None

    def _find_or_compile(
        self, call: Call, key: Any, leaves: list, args: tuple, kwargs: dict
    ) -> tuple[Any, Any]:
        """The program for a call, and what it is found by."""
        with trace_lock, self._lock, seldom_collected():
            try:
                return self._find(key) or self._compile(call, key, args, kwargs), key
            except DependsOnLength as reason:
                found = one_length(self, call, key, leaves, args, kwargs)
                self._fixed.add(key)
                warn_fixed(function_name(self.function), reason)
                return found

    def _compile(self, call: Call, key: Any, args: tuple, kwargs: dict) -> Any:
        key = (key[0].frozen(), *key[1:])  # before the function, which may change its arguments
        structure, kinds, _ = key
        clock = debugging.Clock(function_name(self.function))

        def prepare(program: Any) -> Any:
            program.failed = functools.partial(self._failed, program)
            program.threads = self.threads
            same = all(static.holds() for _, static in call.statics())
            if not same or tree.flatten(call.dynamic())[1] != structure:
                return None  # the function has changed its arguments: each call is traced anew
            return self._signature(program, args, kwargs) if _is_on("entries") else None

        with clock("trace"):
            captured = self._capture(call, key)
        style = (*self._way, *written(args, kwargs))
        program, entry = self._compile_graph(captured, kinds, prepare, clock, style)
        entry = entry or hosted_entry(program, args, kwargs, self.owner)
        program.used = next(self._turns)
        program.alike = captured.alike
        self._programs.setdefault(key, []).insert(0, program)
        if _is_on("entries") or entry is not None:
            from .chain import keep

            keep(self, program, args, kwargs, entry)
        if sum(map(len, self._programs.values())) > PROGRAMS:
            from .chain import forget_oldest

            forget_oldest(self, PROGRAMS)
        debugging.report(program, kinds)
        self._count(call)
        return program

    def _count(self, call: Call) -> None:
        """Say once that it is compiled again and again."""
        self._compilations += 1
        if self._compilations == OFTEN + 1:
            self._tell(call, self._compilations)

    def _tell(self, call: Call, count: int) -> None:
        parameters = self._known_parameters()
        names = owners(call, parameters)
        warn_often(parameters, list(self._programs), names, bool(self.dynamic), count)

    def _capture(self, call: Call, key: Any) -> Captured:
        structure, kinds, _ = key
        way = capture_any if is_any(kinds) else capture

        def capture_it() -> Captured:
            with rooms(self._rooms), self._controlled(way is capture_any):
                return way(self.function, call, kinds, structure)

        return captured_once(self.function, capture_it)

    def _compile_graph(
        self, captured: Captured, kinds: Any, prepare: Any, clock: debugging.Clock, style: Any
    ) -> tuple[Any, Any]:
        """The program of a traced function, from the cache or compiled now."""
        from ..codegen.target import Target

        name, target = function_name(self.function), Target.host()
        if not _is_on("records"):
            return _build(name, captured, kinds, prepare, clock, target, self.threads)
        from . import lookup

        with clock("fingerprint"):
            key = lookup.graph_key(captured, kinds, (*style, self.threads), target)
        found = lookup.load(key, name, kinds, prepare, clock, captured)
        if found is None:
            found = _build(name, captured, kinds, prepare, clock, target, self.threads)
            lookup.save(key, found[0])
        return found

    def _signature(
        self, program: Any, args: tuple, kwargs: dict[str, Any], with_out: bool = False
    ) -> Any:
        """What the entry for a call written like this checks; None where it cannot."""
        from .entries import signature_of

        return signature_of(program, self._known_parameters(), args, kwargs, with_out)

    # ------------------------------------------------------------ looking inside

    def program(self, *args: Any, **kwargs: Any) -> Any:
        """The compiled program for arguments like these, with all its stages."""
        call = self._order(args, kwargs)
        leaves, key = self._key(call)
        if key is None:
            raise TypeError(
                f"{function_name(self.function)}: got traced values or tensors, expected arrays "
                "and numbers: only calls with these are compiled"
            )
        from .inside import with_stages

        with trace_lock, self._lock:
            program, key = self._find_or_compile(call, key, leaves, args, kwargs)
            return with_stages(self, program, call, key)

    def captured(self, *args: Any, **kwargs: Any) -> Captured:
        """The function as a graph for arguments like these, traced now; nothing is compiled."""
        call = self._order(args, kwargs)
        _, key = self._key(call)
        with trace_lock, self._lock:
            return self._capture(call, key)

    def explain(self, *args: Any, **kwargs: Any) -> Any:
        """The story of the compilation for these arguments, as text, or as a page: `html(path)`."""
        from .explain import Explanation

        leaves, _ = self._key(self._order(args, kwargs))
        return Explanation(self.program(*args, **kwargs), leaves, (self, args, kwargs))

    def profile(self, *args: Any, **kwargs: Any) -> Any:
        """The time of each kernel and line for these arguments, beside its floor."""
        from .profile import Profile

        return Profile(self.explain(*args, **kwargs))

    def memory(self, *args: Any, **kwargs: Any) -> dict[str, int]:
        """Bytes of arena, inputs, outputs, constants and state, and allocations per call."""
        program = self.program(*args, **kwargs)
        from .inside import memory_of

        return memory_of(program, self._key(self._order(args, kwargs))[0])

    def clear(self) -> None:
        """Forget all programs."""
        with self._lock:
            self._programs, self._entries, self._evicted, self._fixed = {}, [], [], set()
            self._compilations = 0
            self._point()


def _is_abstract(value: Any) -> bool:
    return isinstance(value, Traced) and concrete(value) is None


def _build(name: str, *args: Any) -> Any:
    from .building import build  # not needed for a program that is found on disk
    from .verifying import without_faults

    return without_faults(name, lambda: build(name, *args))


def _is_on(step: str) -> bool:
    """Whether a step is taken that is there for speed; see `schedule`."""
    from ..schedule import is_on

    return is_on(step)


def written(args: tuple, kwargs: dict[str, Any]) -> tuple:
    """How a call is written."""
    return (len(args), *sorted(kwargs))


def _fill(out: Any, result: Any) -> Any:
    """Put an evaluated result into `out`."""
    if out is None:
        return result
    for target, value in zip(tree.leaves(out), tree.leaves(result), strict=True):
        target[...] = value
    return out


def clear_cache() -> None:
    """Remove the compiled code that is kept on disk; programs in use stay as they are.

    >>> import wengert as wg
    >>> wg.clear_cache()
    """
    object_cache().clear()
