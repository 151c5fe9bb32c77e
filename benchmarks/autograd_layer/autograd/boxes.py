"""What autograd shows of its own tracer, by the graphs that wengert records."""

import functools

import numpy as np

import wengert as wg
from wengert.graph import Operator
from wengert.ops.op import Traced
from wengert.trace.tracer import concrete


def isbox(x):
    return isinstance(x, Traced)


def getval(x):
    return concrete(x) if isbox(x) else x


class Node:
    """A node of the user's own, made for each operation that is recorded."""

    @classmethod
    def new_root(cls, *args, **kwargs):
        root = cls.__new__(cls)
        root.initialize_root(*args, **kwargs)
        return root


class _Named:
    def __init__(self, name, apply):
        self.__name__, self.apply = name, apply

    def __call__(self, *args, **kwargs):
        return self.apply(args)


def trace(root, fun, x):
    """The value, and the last of the nodes that `type(root)` makes of the graph of `fun` at x."""
    graph = wg.trace(fun, x)
    value = fun(x)
    found = {variable.serial: root for variable in graph.inputs}
    numbers = {variable.serial: x for variable in graph.inputs}
    for node in graph.nodes:
        if isinstance(node, Operator):
            args = tuple(numbers[source.serial] for source in node.inputs)
            numbers[node.serial] = node.apply(args)
            places = [k for k, source in enumerate(node.inputs) if source.serial in found]
            parents = [found[node.inputs[k].serial] for k in places]
            if parents:
                named = _Named(node.op.name, node.apply)
                made = type(root)(numbers[node.serial], named, args, {}, places, parents)
                found[node.serial] = made
        elif node.serial not in numbers:
            numbers[node.serial] = node.output
    return value, found.get(graph.outputs[0].serial)


class Box:
    """Stands for an object of the user's own, whose functions have rules of the user's own."""

    registered = {}

    def __init__(self, value, results=()):
        self._value, self._results, self._calls = value, list(results), []

    @classmethod
    def register(cls, value_type):
        Box.registered[value_type] = cls

    def called(self, fun, args, kwargs):
        """The result of a function of the object: a number, by which is differentiated."""
        args = tuple(self._value if arg is self else arg for arg in args)
        number, known = len(self._calls), self._results
        ans = known[number] if number < len(known) else fun.fun(*args, **kwargs)
        self._calls.append((fun, ans, args, kwargs))
        return ans


def boxed_vjp(fun, x):
    """By all results of functions of the object, and from there by their rules."""
    from .core import primitive_vjps, vspace

    make = functools.partial(Box.registered[type(x)], x)
    first = make()
    fun(first)
    results = [np.asarray(call[1], float)[()] for call in first._calls]
    out, pullback = wg.vjp(lambda *results: fun(make(results)), *results)

    def vjp(g):
        total = vspace(x).zeros()
        for cotangent, (called, ans, args, kwargs) in zip(pullback(g), first._calls):
            (part,) = primitive_vjps[called]([0], ans, args, kwargs)(cotangent)
            total = vspace(x).add(total, part)
        return total

    return vjp, out
