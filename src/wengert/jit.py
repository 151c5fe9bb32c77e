"""`jit`: a function traced once for each kind of arguments, compiled, and then called natively.

The first call with arguments of new types traces the function on abstract values, runs the
passes, schedules loops, generates code and binds an entry for these types. Later calls go from
CPython straight into that entry; whatever it does not recognise comes back here.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from . import tree
from .errors import DTypeError
from .graph import Graph, Variable
from .loops import Host, LoopProgram
from .ops.op import Traced
from .passes import optimise
from .schedule import plan, schedule
from .schedule.memory import root
from .trace import Trace
from .trace.tracing import check_leaf, function_name
from .types import ArrayType, type_of

# Calls that touch more elements than this release the GIL.
LONG_CALL = 1 << 16


def jit(f: Callable | None = None, *, static_argnames: Sequence[str] = (), threads: Any = None):
    """The compiled form of a function of arrays; also a decorator.

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
    if f is None:
        return functools.partial(jit, static_argnames=static_argnames, threads=threads)
    return Jitted(f, tuple(static_argnames))


class Jitted:
    """A function with its compiled programs, one for each kind of arguments."""

    def __init__(self, f: Callable, static_argnames: tuple[str, ...] = ()):
        functools.update_wrapper(self, f)
        self.function = f
        self.static_argnames = static_argnames
        self._programs: dict[Any, Program] = {}
        self._lock = threading.Lock()
        self._call: Callable = self._compile_and_call

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._call(*args, **kwargs)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def _compile_and_call(self, *args: Any, **kwargs: Any) -> Any:
        """Calls that no entry took: new types, traced values, or a busy arena."""
        out = kwargs.pop("out", None)
        if any(isinstance(leaf, Traced) for leaf in tree.leaves((args, kwargs))):
            return self.function(*args, **kwargs)
        program = self.program(*args, **kwargs)
        return program.call(args, kwargs, out)

    def program(self, *args: Any, **kwargs: Any) -> Program:
        """The compiled program for arguments like these."""
        statics = {name: kwargs[name] for name in self.static_argnames if name in kwargs}
        dynamic = {name: value for name, value in kwargs.items() if name not in statics}
        leaves, structure = tree.flatten((args, dynamic))
        leaves = [check_leaf(leaf, function_name(self.function), "argument") for leaf in leaves]
        key = (structure, tuple(map(_leaf_key, leaves)), tuple(statics.items()))
        with self._lock:
            found = self._programs.get(key)
            if found is None:
                found = Program(self.function, leaves, structure, statics)
                self._programs[key] = found
                self._chain(found)
            return found

    def _chain(self, program: Program) -> None:
        """Put a new entry in front of the others."""
        if program.entry is not None:
            program.entry.next = self._call
            self._call = program.entry.call

    def explain(self, *args: Any, **kwargs: Any) -> Explanation:
        """The story of the compilation for these arguments; prints as text."""
        return Explanation(self.program(*args, **kwargs))

    def memory(self, *args: Any, **kwargs: Any) -> dict[str, int]:
        """Bytes of the arena, inputs, outputs and constants of a call."""
        return self.program(*args, **kwargs).memory()


def _leaf_key(leaf: Any) -> Any:
    if isinstance(leaf, np.ndarray):
        strides = None if leaf.flags.c_contiguous else leaf.strides
        return (leaf.dtype, leaf.shape, strides, leaf.flags.aligned, type(leaf) is np.ndarray)
    return (type(leaf), getattr(leaf, "dtype", None))


class Program:
    """One compiled program: all its stages, and how to call it."""

    def __init__(self, f: Callable, leaves: Sequence[Any], structure: Any, statics: dict[str, Any]):
        self.name = function_name(f)
        self.structure = structure
        self.leaves = [_describe(leaf) for leaf in leaves]
        self.graph = _trace_abstract(f, self.leaves, structure, statics)
        self.stages: list[tuple[str, Graph]] = []
        self.optimised = optimise(self.graph, lambda name, graph: self.stages.append((name, graph)))
        strides = [_element_strides(leaf) for leaf in leaves]
        self.loops: LoopProgram = plan(schedule(self.optimised, strides))
        self._generate()

    def _generate(self) -> None:
        from .codegen.cache import ObjectCache
        from .codegen.compile import compile_module
        from .codegen.entry import emit_entry
        from .codegen.program import emit_program
        from .codegen.target import Target
        from .runtime.builtin import bind, c_api_addresses

        self.target = Target.host()
        native = emit_program(self.loops, self.target)
        self.segments = native.segments
        self.constants = [np.ascontiguousarray(b.value, b.dtype) for b in native.constants]
        self.constant_buffers = native.constants
        self.signature = self._signature()
        single = native.segments == ["kernel0"] and self.signature is not None
        if single:
            emit_entry(native.module, "entry", "kernel0", self.signature)
        self.compiled = compile_module(
            native.module, self.target, cache=_object_cache(ObjectCache), symbols=c_api_addresses()
        )
        self.entry = None
        if single:
            captured = np.array([c.ctypes.data for c in self.constants], np.uint64)
            self.entry = bind(
                self.signature,
                self.compiled.address("entry.run"),
                self.compiled.address("entry"),
                captured=captured if len(captured) else None,
                name=self.name,
                keep_alive=(self.compiled, self.constants),
            )

    def _signature(self) -> Any:
        """What the native entry checks; None where the arguments cannot be taken natively."""
        from .runtime.builtin import ArraySpec, CapturedSpec, ScalarSpec, Signature

        specs = []
        for leaf in self.leaves:
            if leaf.kind == "array":
                specs.append(
                    ArraySpec(leaf.type.dtype, leaf.type.shape, leaf.strides, leaf.aligned)
                )
            elif leaf.kind == "other":
                return None
            else:
                specs.append(ScalarSpec(leaf.kind, leaf.type.dtype))
        if not _is_native_structure(self.structure) or not _is_native_structure(
            self.graph.out_structure
        ):
            return None
        args, kwargs = tree.unflatten(self.structure, specs)
        results = [ArraySpec(b.dtype, b.shape) for b in self.loops.outputs]
        work = max((b.size for b in [*self.loops.inputs, *self.loops.outputs]), default=0)
        return Signature(
            args,
            tree.unflatten(self.graph.out_structure, results),  # type: ignore[arg-type]
            tuple(kwargs.items()),
            tuple(CapturedSpec(b.nbytes, False) for b in self.constant_buffers),
            self.loops.arena_bytes,
            release_gil=work > LONG_CALL,
        )

    def call(self, args: tuple, kwargs: dict[str, Any], out: Any = None) -> Any:
        """Run with these arguments, from Python."""
        if self.entry is not None:
            extra = {} if out is None else {"out": out}
            return self.entry.slow(*args, **kwargs, **extra)
        values = tree.leaves((args, {k: v for k, v in kwargs.items()}))
        results = self._run_segments(values)
        if out is not None:
            for target, value in zip(tree.leaves(out), results, strict=True):
                target[...] = value
            return out
        return tree.unflatten(self.graph.out_structure, results)  # type: ignore[arg-type]

    def _run_segments(self, values: Sequence[Any]) -> list[Any]:
        """Native segments with NumPy between them."""
        arena = np.empty(self.loops.arena_bytes + 64, np.uint8)
        base = arena.ctypes.data + (-arena.ctypes.data % 64)
        start = base - arena.ctypes.data
        memory: dict[int, np.ndarray] = {}
        for buffer, value in zip(self.loops.inputs, values, strict=True):
            memory[id(buffer)] = np.asarray(value, buffer.dtype)
        for buffer in self.loops.outputs:
            memory[id(buffer)] = np.empty(buffer.shape, buffer.dtype)
        for buffer, constant in zip(self.constant_buffers, self.constants, strict=True):
            memory[id(buffer)] = constant
        order = [*self.loops.inputs, *self.loops.outputs, *self.constant_buffers]
        table = np.array([memory[id(b)].ctypes.data for b in order] or [0], np.uint64)

        def array_of(buffer: Any) -> np.ndarray:
            owner = root(buffer)
            if owner.kind == "arena":
                first = start + owner.offset
                raw = arena[first : first + owner.nbytes]
                return raw.view(owner.dtype).reshape(buffer.shape)
            return memory[id(owner)].reshape(buffer.shape)

        import ctypes

        for segment in self.segments:
            if isinstance(segment, Host):
                _run_host(segment, array_of)
            else:
                run = self.compiled.function(
                    segment, ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p
                )
                run(table.ctypes.data, base)
        return [memory[id(b)][()] for b in self.loops.outputs]

    def memory(self) -> dict[str, int]:
        """Bytes by use."""
        return {
            "arena": self.loops.arena_bytes,
            "inputs": sum(b.nbytes for b in self.loops.inputs),
            "outputs": sum(b.nbytes for b in self.loops.outputs),
            "constants": sum(b.nbytes for b in self.constant_buffers),
            "state": 0,
            "allocations_per_call": 0 if self.entry is not None else 1,
        }


def _run_host(kernel: Host, array_of: Callable) -> None:
    inputs = [array_of(buffer) for buffer in kernel.inputs]
    with np.errstate(all="ignore"):
        results = kernel.op.evaluate(*inputs, **kernel.params)
    for buffer, value in zip(
        kernel.outputs, results if kernel.op.multiple else (results,), strict=True
    ):
        array_of(buffer)[...] = value


class _Leaf:
    """What is known of an argument leaf while tracing."""

    __slots__ = ("aligned", "kind", "strides", "type")

    def __init__(self, kind: str, array_type: ArrayType, strides: Any, aligned: bool):
        self.kind = kind
        self.type = array_type
        self.strides = strides
        self.aligned = aligned


def _describe(leaf: Any) -> _Leaf:
    array_type = type_of(leaf)
    if isinstance(leaf, np.ndarray):
        kind = "array" if type(leaf) is np.ndarray and leaf.dtype.isnative else "other"
        strides = None if leaf.flags.c_contiguous else leaf.strides
        return _Leaf(kind, array_type, strides, bool(leaf.flags.aligned))
    kind = "numpy" if isinstance(leaf, np.generic) else type(leaf).__name__
    return _Leaf(kind, array_type, None, True)


def _element_strides(leaf: Any) -> tuple[int, ...]:
    if not isinstance(leaf, np.ndarray):
        return ()
    if leaf.flags.c_contiguous:
        from .loops import c_strides

        return c_strides(leaf.shape)
    if any(stride % leaf.dtype.itemsize for stride in leaf.strides):
        raise DTypeError(
            "jit: an array's strides are not whole elements (a field of a structured array?). "
            "Copy it first: np.ascontiguousarray(x)."
        )
    return tuple(stride // leaf.dtype.itemsize for stride in leaf.strides)


def _trace_abstract(
    f: Callable, leaves: Sequence[_Leaf], structure: Any, statics: dict[str, Any]
) -> Graph:
    with Trace(keep_source=True, lazy=True) as trace:
        inputs = []
        for number, leaf in enumerate(leaves):
            tracer = trace.variable(array_type=leaf.type, name=f"x{number}", active=False)
            tracer._writable = "argument" if leaf.type.shape else None
            inputs.append(tracer)
        variables: list[Variable] = [tracer.node for tracer in inputs]  # type: ignore[misc]
        args, kwargs = tree.unflatten(structure, inputs)
        out = f(*args, **kwargs, **statics)
        out_leaves, out_structure = tree.flatten(out)
        nodes = [trace.node_of(check_leaf(leaf, function_name(f), "result")) for leaf in out_leaves]
    return Graph(variables, nodes, structure, out_structure, function_name(f))


def _is_native_structure(structure: Any) -> bool:
    """Whether the entry can take the tree apart: tuples, lists, dicts and leaves."""
    if structure.kind not in (None, tuple, list, dict):
        return False
    return all(map(_is_native_structure, structure.children))


@functools.cache
def _object_cache(kind: Any) -> Any:
    return kind()


class Explanation:
    """The story of one compilation; ``str()`` tells it."""

    def __init__(self, program: Program):
        self.program = program

    @property
    def graph(self) -> str:
        """The graph as traced."""
        return str(self.program.graph)

    @property
    def passes(self) -> str:
        """The graph after every pass."""
        return "\n\n".join(f"after {name}:\n{graph}" for name, graph in self.program.stages)

    @property
    def loops(self) -> str:
        """The kernels."""
        return str(self.program.loops)

    @property
    def llvm(self) -> str:
        """The LLVM IR."""
        return self.program.compiled._text or ""

    @property
    def assembly(self) -> str:
        """The machine code."""
        return self.program.compiled.assembly()

    def __str__(self) -> str:
        memory = "\n".join(f"{key}: {value} bytes" for key, value in self.program.memory().items())
        hosts = [str(k) for k in self.program.loops.kernels if isinstance(k, Host)]
        note = "evaluated by NumPy: " + "; ".join(hosts) if hosts else "all of it is native code"
        return "\n\n".join(
            [
                f"# graph\n{self.graph}",
                f"# after the passes\n{self.program.optimised}",
                f"# loops ({note})\n{self.loops}",
                f"# memory\n{memory}",
            ]
        )
