"""Compiled methods: `self` is a part of the function, so every instance has programs of its own.

They are kept outside the instance, which is copied, pickled, compared and printed as if it had
none, and refer to it weakly, so that they die with it. What `instance.method` gives is one of
Python's bound methods: it brings the instance to every call, and holds it.

>>> import numpy as np
>>> from wengert.jit import jit
>>> class Scaler:
...     def __init__(self, factor):
...         self.factor = factor
...
...     @jit
...     def scale(self, x):
...         return self.factor * x
>>> float(Scaler(2.0).scale(3.0)), float(Scaler(5.0).scale(3.0))
(6.0, 15.0)
"""

from __future__ import annotations

import functools
import inspect
import types
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np

from .. import tree
from ..ops.op import Traced
from ..trace.tracing import function_name
from . import function
from .arguments import Call
from .function import Jitted
from .often import warn_of_instances

# Instances without weak references are kept alive by their compiled methods: so many of them.
STRONGLY_HELD = 64


class Method(Jitted):
    """A compiled method of one instance; the instance is the first argument of every call."""

    _way = ("method",)

    def __init__(self, face: Jitted, instance: Any):
        self.face = face
        try:
            forget = _forgetting(face._methods, id(instance))
            self.owner: Callable[[], Any] = weakref.ref(instance, forget)
        except TypeError:
            self.owner = lambda: instance
        super().__init__(
            face._given, face.static_argnames, face.threads, face.dynamic, face.control
        )

    @property
    def function(self) -> Callable:
        """The method, bound to its instance."""
        instance = self.owner()
        return self._given if instance is None else types.MethodType(self._given, instance)

    @property
    def __signature__(self) -> inspect.Signature:
        return inspect.signature(self._given)

    def _point(self) -> None:
        super()._point()
        self.__name__ = self.face.attribute or self.__name__  # by which a pickle finds it

    def _leading(self) -> tuple[Any, ...]:
        return (self.owner(),)

    def _signature(
        self, program: Any, args: tuple, kwargs: dict[str, Any], with_out: bool = False
    ) -> Any:
        from ..runtime.signature import OwnerSpec, StaticSpec

        signature = super()._signature(program, args, kwargs, with_out)
        if signature is None or program.is_flat:
            return signature
        weak = isinstance(self.owner, weakref.ref)
        first = OwnerSpec(self.owner) if weak else StaticSpec(self.owner())
        return signature.replace(args=(first, *signature.args))

    def _count(self, call: Call) -> None:
        # all instances together: of a method too this is said once
        self.face._compilations += 1
        count = self.face._compilations
        if count != function.OFTEN + 1:
            return
        if len(self._programs) > count // 2:
            self._tell(call, count)
        else:
            warn_of_instances(function_name(self._given), count)

    # Bound methods can be made of any instance, by `copy.deepcopy` for one.

    def _dispatch(self, instance: Any, /, *args: Any, **kwargs: Any) -> Any:
        if instance is not self.owner():
            return self.face.__get__(instance)(*args, **kwargs)
        return super()._dispatch(*args, **kwargs)

    def _from_evicted(self, instance: Any, /, *args: Any, **kwargs: Any) -> Any:
        if instance is not self.owner():
            return self.face.__get__(instance)(*args, **kwargs)
        return super()._from_evicted(*args, **kwargs)

    def _failed(self, program: Any, code: int, _: Any, /, *args: Any, **kwargs: Any) -> Any:
        return super()._failed(program, code, *args, **kwargs)


@functools.cache
def find_natively() -> None:
    """From now on the methods of instances are found by native code."""
    from ..codegen.binding import native_binding

    native = native_binding(Jitted, "_methods", Jitted.__get__)
    if native is not None:
        Jitted.__get__ = native  # type: ignore[method-assign]


def _forgetting(methods: dict[int, Any], key: int) -> Callable[[Any], None]:
    def forget(reference: Any) -> None:
        method = methods.get(key)
        if method is not None and method.owner is reference:
            del methods[key]

    return forget


def method_of(face: Jitted, instance: Any) -> Method:
    """The compiled method of an instance."""
    with face._lock:
        found = face._methods.get(id(instance))
        if found is not None and found.owner() is instance:
            return found
        made = face._methods[id(instance)] = Method(face, instance)
        strong = [k for k, m in face._methods.items() if not isinstance(m.owner, weakref.ref)]
        for key in strong[:-STRONGLY_HELD]:
            del face._methods[key]
        return made


def is_array_tree(instance: Any) -> bool:
    """Whether `self` can be an argument: a tree (a named tuple, a dataclass) of plain arrays."""
    if tree._handlers(instance) is None or getattr(instance, "_captured_by_jit", False):
        return False
    leaves = tree.leaves(instance)
    plain = (np.ndarray, np.generic, float, int, complex)
    return all(isinstance(leaf, plain) and not isinstance(leaf, Traced) for leaf in leaves)
