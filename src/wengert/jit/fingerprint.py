"""A text that stands for a graph: two graphs with one fingerprint compute the same.

Only what was traced is looked for on disk. What a Python function will do cannot be told from its
code: it may read attributes of functions, files, the clock, the order of a set, or a name that
somebody has patched. Its graph holds all of that as it is now, and tracing takes a small part of
the time that loading the program takes.

A graph has a fingerprint where all of it is known: operations of wengert's own, told what plain
values tell, and constants of up to 64 MB. Anything else has none, and its program is compiled.
"""

from __future__ import annotations

import builtins
import math
import operator
import os
import types
from typing import Any

import numpy as np

from ..graph import Constant, Graph, Node, Operator
from ..ops.op import REGISTRY
from ..transforms.bodies import Body
from ..transforms.choice import Branches
from ..transforms.repetition import Turn

_NUMPY = os.path.dirname(os.path.abspath(np.__file__)) + os.sep
_OWN = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
# The functions that wengert's own code calls while it compiles, as they were at first; of Python's
# own not those that notebooks and tests like to replace.
_REPLACED = ("input", "open", "print", "breakpoint", "help", "exit", "quit", "copyright", "credits")
_RELIED_ON = [
    (vars(module), name, value)
    for module in (np, math, operator, builtins)
    for name, value in vars(module).items()
    if callable(value) and not name.startswith("_") and name not in _REPLACED
]
# Larger arrays are not hashed at every compilation.
_LARGEST_ARRAY = 64 << 20
_SIMPLE = (type(None), bool, int, float, complex, str, bytes, type(...), range)
_DISPATCHER = type(np.sum)


class Unprovable(Exception):  # noqa: N818 - steers, never seen
    """Something that is not known to be the same the next time."""


def is_pristine() -> bool:
    """Whether the names that compiling relies on mean what they always have.

    Under a patch (`mock.patch("numpy.prod", ...)`) a program may be compiled that is not true
    elsewhere: it is neither kept nor looked for.
    """
    return all(now.get(name) is value for now, name, value in _RELIED_ON)


def graph_fingerprint(graph: Graph) -> str | None:
    """A text that changes with a graph; None where not all of it is known to stay the same.

    >>> import wengert as wg
    >>> one, two = (wg.trace(lambda x: x + y, 1.5) for y in (1.0, 2.0))
    >>> graph_fingerprint(one) == graph_fingerprint(two)
    False
    """
    if not is_pristine():
        return None
    walker = _Hasher()
    try:
        walker.graph(graph)
    except (Unprovable, RecursionError):
        return None
    return walker.hash.hexdigest()


def graph_text(graph: Graph) -> str:
    """A text that changes with a graph, in this process and while the graph exists."""
    walker = _Hasher(here=True)
    walker.graph(graph)
    return walker.hash.hexdigest()


class _Hasher:
    def __init__(self, here: bool = False) -> None:
        import hashlib  # it takes long to import, and only compiling needs it

        self.hash = hashlib.blake2b(digest_size=32, person=b"wengert-graph")
        self.here = here  # objects that are not known count as themselves

    def put(self, kind: str, content: bytes | str = b"") -> None:
        data = content.encode("utf-8", "surrogatepass") if isinstance(content, str) else content
        self.hash.update(b"%s %d:%s" % (kind.encode(), len(data), data))

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
            self.operation(node.op)
            self.value(tuple(numbers[source.serial] for source in node.inputs))
            for name, value in sorted(node.params.items()):
                self.put("param", name)
                self.value(value)

    def value(self, value: Any) -> None:
        """Add a constant, or what an operation is told."""
        kind = type(value)
        if kind in _SIMPLE:
            self.put(kind.__name__, repr(value))
        elif isinstance(value, (tuple, list)):  # named tuples too
            self.put(kind.__name__, str(len(value)))
            for item in value:
                self.value(item)
        elif kind is slice:
            self.put("slice")
            self.value((value.start, value.stop, value.step))
        elif isinstance(value, Body):
            self.put("body", f"{value.constants} {value.carry}")
            self.graph(value.graph)
        elif isinstance(value, (Branches, Turn)):
            self.put(type(value).__name__, str(len(value.programs)))
            for program in value.programs:
                self.value(program)
        elif isinstance(value, np.dtype) and value.kind in "biufc":
            self.put("dtype", value.str)
        elif kind is np.ndarray or isinstance(value, np.generic):
            self.array(value)
        elif self.here:
            self.put("object", str(id(value)))
        else:
            raise Unprovable

    def operation(self, op: Any) -> None:
        if self.here:
            self.put("operation", str(id(op)))
        else:
            _check_own(op)
            self.put("op", op.name)

    def array(self, value: Any) -> None:
        too_large = value.nbytes > _LARGEST_ARRAY and not self.here
        if value.dtype.kind not in "biufc" or too_large:
            raise Unprovable
        kind = "array" if isinstance(value, np.ndarray) else "scalar"
        self.put(kind, f"{value.dtype.str} {value.shape}")
        self.put("content", value.tobytes())


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
