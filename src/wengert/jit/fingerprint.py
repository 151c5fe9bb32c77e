"""Whether a function will trace to the same graph again, told from its code alone.

A fingerprint covers the bytecode, constants and names of a function, its default arguments, what
its closure and the global names in it refer to, and so on through the functions among those. It
exists only where all of that is *known not to change behind our back*: plain functions, numbers,
strings, tuples, arrays (by content), and modules whose version is part of every key. Code that
stores to globals or attributes, imports, or draws random numbers has none, and neither has a
function that refers to a list, a dictionary, an instance or a tensor: it is traced.
"""

from __future__ import annotations

import builtins
import dis
import functools
import hashlib
import os
import types
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ..graph import Constant, Graph, Node, Operator
from ..ops.op import REGISTRY
from ..transforms.bodies import Body

# Modules whose behaviour is given by versions that are part of every key.
_MODULES = ("numpy", "math", "cmath", "operator", "wengert")
# Names that lead out of what is known: state of NumPy's own, files, the clock.
_IMPURE_NAMES = """
    random load loadtxt genfromtxt fromfile memmap environ time seterr seterrcall geterr
    get_printoptions set_threads debug_nans globals locals vars eval exec open input print id
    getattr setattr delattr __import__ __dict__ __globals__ __code__ __class__
"""
_IMPURE = frozenset(_IMPURE_NAMES.split())
_BUILTIN_NAMES = """
    abs all any bool bytes callable complex dict divmod enumerate filter float frozenset hash int
    isinstance issubclass iter len list map max min next object pow range repr reversed round set
    slice sorted str sum super tuple type zip
"""
_BUILTINS = frozenset(_BUILTIN_NAMES.split())
_STORES = ("STORE_GLOBAL", "DELETE_GLOBAL", "STORE_ATTR", "DELETE_ATTR", "IMPORT_NAME")
_NUMPY = os.path.dirname(os.path.abspath(np.__file__)) + os.sep
_OWN = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
# Larger arrays are not hashed at every compilation.
_LARGEST_ARRAY = 64 << 20
_SIMPLE = (type(None), bool, int, float, complex, str, bytes, type(...), range)


class Unprovable(Exception):  # noqa: N818 - steers, never seen
    """Something that may change unseen."""


def fingerprint(function: Callable, *values: Any) -> str | None:
    """A text that changes with the function, or with the values; None where that is unknown.

    >>> def f(x):
    ...     return x + 1
    >>> def g(x):
    ...     return x + 2
    >>> fingerprint(f) == fingerprint(f), fingerprint(f) == fingerprint(g)
    (True, False)
    >>> counts = []
    >>> print(fingerprint(lambda x: counts.append(x)))
    None
    """
    walker = _Walker()
    try:
        walker.value((function, *values))
    except (Unprovable, RecursionError):
        return None
    return walker.hash.hexdigest()


def graph_fingerprint(graph: Graph) -> str | None:
    """A text that changes with a graph; None where an operation is not wengert's own."""
    walker = _Walker()
    try:
        walker.graph(graph)
    except (Unprovable, RecursionError):
        return None
    return walker.hash.hexdigest()


class _Walker:
    def __init__(self) -> None:
        self.hash = hashlib.blake2b(digest_size=32, person=b"wengert-func")
        self.seen: dict[int, int] = {}
        self.kept: list[Any] = []  # keeps the ids in `seen` from being used again

    def put(self, kind: str, content: bytes | str = b"") -> None:
        data = content.encode("utf-8", "surrogatepass") if isinstance(content, str) else content
        self.hash.update(b"%s %d:" % (kind.encode(), len(data)))
        self.hash.update(data)

    def value(self, value: Any) -> None:
        """Add one value."""
        if type(value) in _SIMPLE:
            self.put(type(value).__name__, repr(value))
        elif type(value) in (tuple, frozenset):
            items = value if isinstance(value, tuple) else sorted(value, key=repr)
            self.put(type(value).__name__, str(len(value)))
            for item in items:
                self.value(item)
        elif isinstance(value, slice):
            self.value((value.start, value.stop, value.step))
        elif isinstance(value, types.CodeType):
            self.code(value)
        else:
            self.object(value)

    def object(self, value: Any) -> None:
        """Add something that has an identity; the second time by number."""
        if id(value) in self.seen:
            self.put("again", str(self.seen[id(value)]))
            return
        self.seen[id(value)] = len(self.seen)
        self.kept.append(value)
        for kinds, add in _ADDERS:
            if isinstance(value, kinds):
                add(self, value)
                return
        raise Unprovable

    def graph(self, graph: Graph) -> None:
        """Add a graph: its nodes in order, then which of them are inputs and outputs."""
        numbers: dict[int, int] = {}
        for node in graph.nodes:
            numbers[node.serial] = len(numbers)
            self.node(node, numbers)
        self.value(tuple(numbers[node.serial] for node in graph.inputs))
        self.value(tuple(numbers[node.serial] for node in graph.outputs if node is not None))

    def node(self, node: Node, numbers: dict[int, int]) -> None:
        """Add one node of a graph; its inputs by number."""
        self.put(type(node).__name__, str(node.type))
        if isinstance(node, Constant):
            self.value(node.output)
        elif isinstance(node, Operator):
            _check_own(node.op)
            self.put("op", node.op.name)
            self.value(tuple(numbers[source.serial] for source in node.inputs))
            for name, value in sorted(node.params.items()):
                self.put("param", name)
                self.param(value)

    def param(self, value: Any) -> None:
        """Add what an operation is told: here lists and named tuples cannot change unseen."""
        if isinstance(value, (tuple, list)):
            self.put(type(value).__name__, str(len(value)))
            for item in value:
                self.param(item)
        elif isinstance(value, Body):
            self.put("body", f"{value.constants} {value.carry}")
            self.graph(value.graph)
        else:
            self.value(value)

    def array(self, value: Any) -> None:
        if type(value) is not np.ndarray and not isinstance(value, np.generic):
            raise Unprovable
        if value.dtype.kind not in "biufc" or value.nbytes > _LARGEST_ARRAY:
            raise Unprovable
        kind = "array" if isinstance(value, np.ndarray) else "scalar"
        self.put(kind, f"{value.dtype.str} {value.shape}")
        self.put("content", value.tobytes())

    def function(self, value: types.FunctionType) -> None:
        code = value.__code__
        own = code.co_filename.startswith(_OWN)
        self.put("function", f"{own}")
        if own and "random" in code.co_filename:
            raise Unprovable
        if own:  # its text is in every key
            self.put("name", f"{code.co_filename[len(_OWN) :]} {code.co_qualname}")
            self.put("line", str(code.co_firstlineno))
        else:
            _check_stores(code, code.co_freevars)
            self.code(code)
            self.globals(value)
        self.value(value.__defaults__)
        self.value(tuple(sorted((value.__kwdefaults__ or {}).items())))
        for cell in value.__closure__ or ():
            try:
                content = cell.cell_contents
            except ValueError:  # not filled yet
                raise Unprovable from None
            self.value(content)

    def code(self, code: types.CodeType) -> None:
        counts = (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags)
        self.put("code", code.co_code)
        self.put("handlers", getattr(code, "co_exceptiontable", b""))
        self.value((counts, code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars))
        self.value(code.co_consts)

    def globals(self, value: types.FunctionType) -> None:
        """Everything that a name in the code may mean outside of it."""
        names = {name for code in _codes(value.__code__) for name in code.co_names}
        if names & _IMPURE:
            raise Unprovable
        for name in sorted(names):
            if name in value.__globals__:
                self.put("global", name)
                self.value(value.__globals__[name])
            elif hasattr(builtins, name):
                known = getattr(builtins, name)
                error = isinstance(known, type) and issubclass(known, Exception)
                if name not in _BUILTINS and not error:
                    raise Unprovable
                self.put("builtin", name)

    def module(self, value: types.ModuleType) -> None:
        if value.__name__.split(".")[0] not in _MODULES or "random" in value.__name__:
            raise Unprovable
        self.put("module", value.__name__)

    def named(self, value: Any) -> None:
        """A class or a C function of a known module, or of Python itself."""
        owner = getattr(value, "__self__", None)
        if isinstance(owner, types.ModuleType):
            self.module(owner)
        elif owner is not None:
            raise Unprovable
        module = str(getattr(value, "__module__", None) or "numpy")
        name = getattr(value, "__name__", "")
        in_python = module == "builtins" and (
            name in _BUILTINS or (isinstance(value, type) and issubclass(value, Exception))
        )
        known = module.split(".")[0] in _MODULES and "random" not in module
        if not (in_python or known) or name in _IMPURE:
            raise Unprovable
        if isinstance(value, np.ufunc) and getattr(np, name, None) is not value:
            raise Unprovable  # made of a Python function
        self.put("named", f"{module} {name}")

    def partial(self, value: functools.partial) -> None:
        self.put("partial")
        self.value((value.func, value.args, tuple(sorted(value.keywords.items()))))

    def dtype(self, value: np.dtype) -> None:
        self.put("dtype", value.str)

    def jitted(self, value: Any) -> None:
        self.put("jit")
        self.value((value.function, value.static_argnames))


_DISPATCHER = type(np.sum)
_ADDERS: list[tuple[Any, Callable[[_Walker, Any], None]]] = [
    ((np.ndarray, np.generic), _Walker.array),
    (types.FunctionType, _Walker.function),
    (types.ModuleType, _Walker.module),
    (functools.partial, _Walker.partial),
    (np.dtype, _Walker.dtype),
    ((type, types.BuiltinFunctionType, np.ufunc, _DISPATCHER), _Walker.named),
    (staticmethod, _Walker.jitted),
]


def _check_own(op: Any) -> None:
    """Refuse an operation that is not defined in wengert's own source."""
    registered = REGISTRY.get(op.name) is op
    if not (registered and _is_own(op.evaluate) and _is_own(op.type_rule)):
        raise Unprovable


def _is_own(function: Any) -> bool:
    code = getattr(function, "__code__", None)
    if code is None:  # NumPy's, which is part of every key
        return isinstance(function, np.ufunc | _DISPATCHER | types.BuiltinFunctionType | type)
    return code.co_filename.startswith((_OWN, _NUMPY))


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _codes(constant)


def _check_stores(code: types.CodeType, free: tuple[str, ...]) -> None:
    """Refuse code that changes anything outside of itself."""
    for part in _codes(code):
        for instruction in dis.get_instructions(part):
            if instruction.opname in _STORES:
                raise Unprovable
            if instruction.opname in ("STORE_DEREF", "DELETE_DEREF") and instruction.argval in free:
                raise Unprovable
