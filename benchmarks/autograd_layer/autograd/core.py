"""Vector spaces, derivatives, and functions with rules of the user's own, all by wengert."""

import itertools

import numpy as np

import wengert as wg

from .boxes import Box, Node, boxed_vjp, getval, isbox
from .wrap_util import replaced

# ---------------------------------------------------------------- derivatives


def make_vjp(fun, x):
    if type(x) in Box.registered:
        return boxed_vjp(fun, x)
    out, pullback = wg.vjp(fun, _differentiable(x))

    def vjp(g):
        return pullback(_like(g, out))[0]

    return vjp, out


def make_jvp(fun, x):
    def jvp(v):
        return wg.jvp(fun, (_differentiable(x),), (v,))

    return jvp


def _differentiable(x):
    """Integers as floats: here only these have derivatives."""
    if isinstance(x, (list, tuple)):
        return type(x)(map(_differentiable, x))
    if isinstance(x, dict):
        return {key: _differentiable(item) for key, item in x.items()}
    is_whole = not isbox(x) and isinstance(x, (int, np.ndarray, np.generic))
    return np.asarray(x, float)[()] if is_whole and np.asarray(x).dtype.kind in "biu" else x


def _like(g, out):
    """A cotangent in the dtype of its value: one of complex numbers may be given as real."""
    if isinstance(out, (list, tuple)):
        return type(out)(map(_like, g, out))
    if isinstance(out, dict):
        return {key: _like(g[key], out[key]) for key in out}
    dtype = np.result_type(out)
    return np.asarray(g, dtype)[()] if not isbox(g) and np.result_type(g) != dtype else g


# ---------------------------------------------------------------- vector spaces


class VSpace:
    """What the tests of derivatives ask about values: trees of arrays, or classes of their own."""

    mappings = {}
    iscomplex = False

    def __init__(self, value):
        pass

    def add(self, x, y):
        return self._add(x, y)

    def mut_add(self, x, y):
        return self._add(self.zeros() if x is None else x, y)

    def scalar_mul(self, x, a):
        return self._scalar_mul(x, a)

    def inner_prod(self, x, y):
        return self._inner_prod(x, y)

    def covector(self, x):
        return self._covector(x)

    def _covector(self, x):
        return x

    def __eq__(self, other):
        return type(self) is type(other) and vars(self) == vars(other)

    def __repr__(self):
        return f"{type(self).__name__}_{vars(self)}"

    @classmethod
    def register(cls, value_type, maker=None):
        VSpace.mappings[value_type] = maker or cls


class _Arrays(VSpace):
    def __init__(self, value):
        self.shape, self.dtype = np.shape(value), np.result_type(value)

    @property
    def iscomplex(self):
        return self.dtype.kind == "c"

    @property
    def size(self):
        return int(np.prod(self.shape)) * (2 if self.iscomplex else 1)

    def zeros(self):
        return np.zeros(self.shape, self.dtype)[()]

    def ones(self):
        return np.full(self.shape, 1 + 1j if self.iscomplex else 1, self.dtype)[()]

    def randn(self):
        drawn = np.array(np.random.randn(*self.shape))
        if self.iscomplex:
            drawn = drawn + 1j * np.random.randn(*self.shape)
        return drawn.astype(self.dtype)[()]

    def standard_basis(self):
        for place in np.ndindex(*self.shape):
            for unit in (1.0, 1j) if self.iscomplex else (1.0,):
                vector = np.zeros(self.shape, self.dtype)
                vector[place] = unit
                yield vector[()]

    def _add(self, x, y):
        return x + y

    def _scalar_mul(self, x, a):
        return x * a

    def _inner_prod(self, x, y):
        return np.real(np.vdot(x, y)) if self.iscomplex else np.dot(np.ravel(x), np.ravel(y))

    def _covector(self, x):
        return np.conj(x) if self.iscomplex else x


class _Containers(VSpace):
    def __init__(self, value):
        self.kind = type(value)
        self.keys = list(value) if self.kind is dict else list(range(len(value)))
        self.parts = [vspace(value[key]) for key in self.keys]

    def _made(self, items):
        items = list(items)
        return dict(zip(self.keys, items)) if self.kind is dict else self.kind(items)

    def _map(self, name, *values):
        parts = enumerate(self.parts)
        return [getattr(p, name)(*[v[self.keys[k]] for v in values]) for k, p in parts]

    @property
    def size(self):
        return sum(part.size for part in self.parts)

    def zeros(self):
        return self._made(part.zeros() for part in self.parts)

    def ones(self):
        return self._made(part.ones() for part in self.parts)

    def randn(self):
        return self._made(part.randn() for part in self.parts)

    def standard_basis(self):
        for place, part in enumerate(self.parts):
            for vector in part.standard_basis():
                zeros = [other.zeros() for other in self.parts]
                yield self._made([*zeros[:place], vector, *zeros[place + 1 :]])

    def _add(self, x, y):
        return self._made(self._map("_add", x, y))

    def _scalar_mul(self, x, a):
        return self._made(p._scalar_mul(x[k], a) for k, p in zip(self.keys, self.parts))

    def _inner_prod(self, x, y):
        return sum(self._map("_inner_prod", x, y))

    def _covector(self, x):
        return self._made(self._map("_covector", x))


def vspace(value):
    if isinstance(value, Box):
        value = value._value
    if type(value) in VSpace.mappings:
        return VSpace.mappings[type(value)](value)
    if isinstance(value, (list, tuple, dict)):
        return _Containers(value)
    if np.result_type(value).kind in "iufc":
        return _Arrays(value)
    raise TypeError(f"Can't find vector space for value {value} of type {type(value)}")


# ---------------------------------------------------------------- rules of one's own

primitive_vjps, primitive_jvps = {}, {}


class primitive:
    """A function that is not looked into: its derivatives are those that are given for it."""

    def __init__(self, fun):
        self.fun, self.__name__ = fun, getattr(fun, "__name__", "[unknown name]")
        self.__doc__ = getattr(fun, "__doc__", "")
        self._early = {}

    def __get__(self, instance, owner=None):
        return self if instance is None else lambda *args, **kwargs: self(instance, *args, **kwargs)

    def __call__(self, *args, **kwargs):
        for arg in args:
            if isinstance(arg, Box):
                return arg.called(self, args, kwargs)
        places = [k for k, arg in enumerate(args) if _holds_traced(arg)]
        if not places:
            return self.fun(*args, **kwargs)

        def filled(values):
            return replaced(args, zip(places, values))

        def plain(*values):
            return self.fun(*filled(values), **kwargs)

        def vjp(*values):
            if self not in primitive_vjps:
                raise NotImplementedError(f"VJP of {self.__name__} not defined")
            given = filled(values)
            ans = self(*given, **kwargs)
            pull = primitive_vjps[self](places, ans, given, kwargs)
            return ans, lambda g: tuple(pull(g))

        def jvp(values, tangents):
            given = filled(values)
            ans = self(*given, **kwargs)
            return ans, primitive_jvps[self](places, tangents, ans, given, kwargs)

        has_vjp, has_jvp = self in primitive_vjps, self in primitive_jvps
        rules = {"jvp": jvp if has_jvp else None, "vjp": vjp if has_vjp or not has_jvp else None}
        return wg.custom_rule(**rules)(plain)(*[args[k] for k in places])

    # the forms of autograd's first versions

    def defgrad(self, maker, argnum=0):
        self._early[argnum] = maker
        defvjp(self, *self._early.values(), argnums=self._early)

    def defvjp(self, maker, argnum=0):
        def of_today(ans, *args, **kwargs):
            return lambda g: maker(g, ans, vspace(args[argnum]), vspace(ans), *args, **kwargs)

        self.defgrad(of_today, argnum)

    def defvjp_is_zero(self, argnums=(0,)):
        for argnum in argnums:
            self.defgrad(None, argnum)


def _holds_traced(value):
    if isinstance(value, (list, tuple)):
        return any(map(_holds_traced, value))
    if isinstance(value, dict):
        return any(map(_holds_traced, value.values()))
    return isbox(value)


def notrace_primitive(fun):
    return lambda *args, **kwargs: fun(*[getval(arg) for arg in args], **kwargs)


def register_notrace(*ignored):
    """Nothing to do: what has no derivative says so itself."""


def defvjp_argnums(fun, maker):
    primitive_vjps[fun] = maker


def defvjp_argnum(fun, maker):
    def of_all(argnums, ans, args, kwargs):
        makers = [maker(argnum, ans, args, kwargs) for argnum in argnums]
        return lambda g: [each(g) for each in makers]

    defvjp_argnums(fun, of_all)


def defvjp(fun, *makers, argnums=None):
    numbered = dict(zip(itertools.count() if argnums is None else argnums, makers))

    def of_one(argnum, ans, args, kwargs):
        if argnum not in numbered:
            raise NotImplementedError(f"VJP of {fun.__name__} wrt argnum {argnum} not defined")
        maker = numbered[argnum]
        if maker is None:
            return lambda g: vspace(args[argnum]).zeros()
        return maker(ans, *args, **kwargs)

    defvjp_argnum(fun, of_one)


def defjvp_argnums(fun, maker):
    primitive_jvps[fun] = maker


def defjvp_argnum(fun, maker):
    def of_all(argnums, tangents, ans, args, kwargs):
        parts = [maker(k, g, ans, args, kwargs) for k, g in zip(argnums, tangents)]
        total, space = parts[0], vspace(ans)
        for part in parts[1:]:
            total = space.add(total, part)
        return total

    defjvp_argnums(fun, of_all)


def defjvp(fun, *makers, argnums=None):
    numbered = dict(zip(itertools.count() if argnums is None else argnums, makers))

    def of_one(argnum, g, ans, args, kwargs):
        maker = numbered[argnum]
        if maker is None:
            return vspace(ans).zeros()
        if maker == "same":
            return fun(*replaced(args, [(argnum, g)]), **kwargs)
        return maker(g, ans, *args, **kwargs)

    defjvp_argnum(fun, of_one)


def def_linear(fun):
    defjvp_argnum(fun, lambda k, g, ans, args, kwargs: fun(*replaced(args, [(k, g)]), **kwargs))


class SparseObject:
    """Not needed here: kept for what imports it."""


class VJPNode(Node):
    """Not needed here: kept for what imports it."""


class JVPNode(Node):
    """Not needed here: kept for what imports it."""


primitive_with_deprecation_warnings = primitive
