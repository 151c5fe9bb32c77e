"""Random programs: compiled = evaluated, values and gradients.

A program is a list of steps over a pool of values. It is built while it is evaluated, so that
every step is legal for the shapes and dtypes it meets. Values stay small: whatever grows is bent
back by tanh or sin, so that a fixed tolerance holds. A value is *exact* when it comes about by
correctly rounded operations alone; exact values must be equal to the last bit, and only exact
ones go through steps that jump (comparisons, roundings, maxima), where one ulp could decide.

`WENGERT_RANDOM_GRAPHS` is the number of graphs of the slow test, `WENGERT_RANDOM_SEED` its first
seed; a failure names the seed and prints the program.
"""

import os
import random

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import wengert as wg
import wengert.numpy as xp
from wengert.jit import jit
from wengert.types import type_of

DTYPES = ["float64", "float64", "float64", "float32", "float32", "int32", "int64", "uint8", "bool"]
EXTENTS = [1, 1, 2, 3, 3, 4, 5, 7, 9, 17, 33, 0]
LIMIT = 8.0  # values beyond it are bent back
SIZE_LIMIT = 3000


class Chance:
    """Where choices come from: hypothesis, which shrinks, or a seed, which is fast."""

    def __init__(self, integer):
        self.integer = integer  # integer(low, high), both included

    def choice(self, sequence):
        return sequence[self.integer(0, len(sequence) - 1)]

    def word(self, text):
        return self.choice(text.split())

    def often(self, percent):
        return self.integer(0, 99) < percent

    def generator(self):
        return np.random.default_rng(self.integer(0, 2**20))


class Value:
    """A value of the pool: what it is on the sample inputs, and how exact it must be."""

    def __init__(self, sample, exact, single=False):
        self.sample = sample
        self.exact = exact
        self.single = single  # rounded to single precision somewhere on its way

    @property
    def dtype(self):
        return type_of(self.sample).dtype

    @property
    def shape(self):
        return np.shape(self.sample)


class Step:
    """One line of a program: ``function(*[values[k] for k in args])``."""

    def __init__(self, text, function, args):
        self.text = text
        self.function = function
        self.args = args

    def __call__(self, values):
        return self.function(*[values[k] for k in self.args])


class Builder:
    """Builds a random program on sample inputs."""

    def __init__(self, chance):
        self.chance = chance
        self.steps = []
        self.pool = []
        self.inputs = [self.make_input() for _ in range(chance.integer(1, 4))]
        self.pool = [Value(x, True, type_of(x).dtype.char == "f") for x in self.inputs]

    # ------------------------------------------------------------ inputs

    def make_shape(self):
        rank = self.chance.choice([0, 1, 1, 1, 2, 2, 2, 2, 3, 3, 4])
        shape = tuple(self.chance.choice(EXTENTS) for _ in range(rank))
        return shape if np.prod(shape) <= SIZE_LIMIT else shape[:2]

    def make_input(self):
        if self.chance.often(8):
            return self.chance.choice([2, -3, 0.75, -1.5, np.True_])  # a traced bool is NumPy's
        shape = self.make_shape()
        if self.pool and self.chance.often(50):
            shape = self.chance.choice(self.pool).shape
        array = self.numbers(shape, self.chance.choice(DTYPES))
        return self.odd_layout(array) if array.ndim and self.chance.often(30) else array

    def numbers(self, shape, dtype):
        rng = self.chance.generator()
        kind = np.dtype(dtype).kind
        if kind == "b":
            return rng.integers(0, 2, shape).astype(bool)
        if kind in "iu":
            return rng.integers(0 if kind == "u" else -9, 10, shape).astype(dtype)
        # a few equal values, so that there are ties
        return np.round(rng.uniform(-2, 2, shape) * 64).astype(dtype) / np.dtype(dtype).type(64)

    def odd_layout(self, array):
        kind = self.chance.choice(["fortran", "reversed", "strided", "broadcast", "misaligned"])
        if kind == "fortran":
            return np.asfortranarray(array)
        if kind == "reversed":
            return array[::-1]
        if kind == "strided":
            wide = np.zeros((*array.shape[:-1], 2 * array.shape[-1] + 1), array.dtype)
            wide[..., 1 : 2 * array.shape[-1] : 2] = array
            return wide[..., 1 : 2 * array.shape[-1] : 2]
        if kind == "broadcast":
            return np.broadcast_to(array[:1], array.shape)
        raw = np.zeros(array.nbytes + 1, np.uint8)
        view = raw[1:].view(array.dtype) if array.nbytes else array.reshape(-1)
        view = view.reshape(array.shape)
        view[...] = array
        return view

    # ------------------------------------------------------------ steps

    def pick(self, kinds="fiub", exact=False, where=lambda value: True):
        """The number of a value of the pool with these properties, or None."""
        found = [
            k
            for k, value in enumerate(self.pool)
            if value.dtype.kind in kinds
            and value.dtype.char != "e"
            and (value.exact or not exact)
            and where(value)
        ]
        if not found:
            return None
        # rather the new ones: long chains are more interesting
        return self.chance.choice(found[-4:] if self.chance.often(60) else found)

    def partner(self, k, kinds="fiub", exact=False):
        """The number of a value that broadcasts with value k."""
        if k is None:
            return None
        shape = self.pool[k].shape
        return self.pick(kinds, exact, lambda value: broadcasts(shape, value.shape))

    def pair(self, kinds="fiub", exact=False):
        """The numbers of two values that broadcast together."""
        k = self.pick(kinds, exact)
        return [k, self.partner(k, kinds, exact)]

    def add(self, text, function, args, exact=False):
        """Append a step if it is legal and its result is harmless."""
        if any(k is None for k in args):
            return
        try:
            with np.errstate(all="ignore"):
                sample = function(*[self.pool[k].sample for k in args])
        except (ValueError, TypeError, IndexError, ZeroDivisionError, OverflowError):
            return
        if np.size(sample) > SIZE_LIMIT or type_of(sample).dtype.char == "e":
            return
        inexact_args = [self.pool[k] for k in args if self.pool[k].dtype.kind == "f"]
        integral = type_of(sample).dtype.kind in "iub"
        exact = (exact or (integral and not inexact_args)) and all(v.exact for v in inexact_args)
        is_float = type_of(sample).dtype.kind == "f"
        if is_float and not np.all(np.abs(sample) < (np.inf if exact else 100)):
            return
        single = type_of(sample).dtype.char == "f" or any(self.pool[k].single for k in args)
        self.steps.append(Step(f"{text}({', '.join(f'v{k}' for k in args)})", function, args))
        self.pool.append(Value(sample, exact, single))
        if is_float and np.size(sample) and np.max(np.abs(sample)) > LIMIT:
            bend = self.chance.choice(["tanh", "sin"])
            self.add(bend, getattr(xp, bend), [len(self.pool) - 1])

    def step(self):
        getattr(self, "add_" + self.chance.choice(STEP_KINDS))()

    def add_smooth(self):
        name = self.chance.word(
            "sin cos tanh exp expit arctan arcsinh expm1 erf log1p sqrt softplus reciprocal sinh "
            "log cbrt relu silu"
        )
        function = getattr(xp, name)
        if name in ("log1p", "sqrt", "log", "reciprocal", "cbrt"):  # away from the edge
            inner = function
            function = lambda x: inner(x * x + 0.5)
        self.add(
            name, function, [self.pick("f" if name in ("relu", "silu") else "fiub", name == "relu")]
        )

    def add_power(self):
        n = self.chance.choice([2, 3, 4, -1, 0.5, 1.5])
        if isinstance(n, int) and n > 0:
            self.add(f"**{n}", lambda x: x**n, [self.pick("fi")])
        else:
            self.add(f"abs+1**{n}", lambda x: (x * x + 1.0) ** n, [self.pick("f")])

    def add_arithmetic(self):
        name = self.chance.choice(["add", "subtract", "multiply", "add", "multiply"])
        self.add(name, getattr(xp, name), self.pair(), exact=True)

    def add_divide(self):
        self.add("x/(1+y*y)", lambda x, y: x / (1.0 + y * y), self.pair(), exact=True)

    def add_smooth_pair(self):
        name = self.chance.choice(["hypot", "arctan2", "logaddexp", "xlogy"])
        function = getattr(xp, name)
        shifted = lambda x, y: function(x, y * y + 0.5)
        self.add(name, shifted, self.pair("fi"))

    def add_exact_unary(self):
        name = self.chance.word(
            "negative absolute square positive floor ceil trunc rint sign logical_not isfinite "
            "isnan signbit invert"
        )
        kinds = "iub" if name == "invert" else ("f" if name == "signbit" else "fiu")
        self.add(name, getattr(xp, name), [self.pick(kinds, exact=True)], exact=True)

    def add_exact_pair(self):
        name = self.chance.word(
            "maximum minimum equal not_equal less less_equal greater greater_equal logical_and "
            "logical_or logical_xor fmax fmin copysign"
        )
        self.add(name, getattr(xp, name), self.pair(exact=True), exact=True)

    def add_integer_pair(self):
        name = self.chance.word(
            "floor_divide remainder fmod bitwise_and bitwise_or bitwise_xor left_shift right_shift"
        )
        self.add(name, getattr(xp, name), self.pair("iu"), exact=True)

    def add_scalar(self):
        number = self.chance.choice([2, 3, -1, 0.5, -1.25, 1.0, 0.0, 1, 0])
        name = self.chance.choice(["add", "multiply", "subtract", "maximum", "divide"])
        if name == "divide" and not number:
            return
        function = getattr(xp, name)
        k = self.pick(exact=name == "maximum")
        if self.chance.often(50):
            self.add(f"{name} {number}", lambda x: function(x, number), [k], exact=True)
        elif name != "divide":
            self.add(f"{number} {name}", lambda x: function(number, x), [k], exact=True)

    def add_constant(self):
        like = self.pool[self.pick()]
        array = self.numbers(like.shape, self.chance.choice(DTYPES))
        name = self.chance.choice(["add", "multiply"])
        function = getattr(xp, name)
        self.add(
            f"{name} constant {array.dtype}",
            lambda x: function(x, array),
            [self.pick(where=lambda value: value.shape == like.shape)],
            exact=True,
        )

    def add_where(self):
        k = self.pick(exact=True)
        args = [k, self.partner(k), self.partner(k)]
        self.add("where", lambda c, x, y: xp.where(c > 0, x, y), args, exact=True)

    def add_convert(self):
        dtype = self.chance.choice(["float64", "float32", "int32", "int64", "uint8", "bool"])
        smooth = dtype.startswith("float")
        fits = lambda v: dtype != "uint8" or (v.dtype.kind != "f" or np.all(v.sample >= 0))
        k = self.pick(exact=not smooth, where=fits)
        self.add(f"astype {dtype}", lambda x: xp.astype(xp.asarray(x), dtype), [k], exact=True)

    def some_axes(self, rank):
        axes = [axis for axis in range(rank) if self.chance.often(50)]
        if not axes and rank and self.chance.often(80):
            axes = [self.chance.integer(0, rank - 1)]
        return tuple(axis - rank if self.chance.often(30) else axis for axis in axes)

    def add_reduction(self):
        name = self.chance.word(
            "sum sum mean max min prod any all var logsumexp argmax count_nonzero"
        )
        jumps = name in ("max", "min", "any", "all", "argmax", "count_nonzero")
        k = self.pick("f" if name == "logsumexp" else "fiub", exact=jumps)
        if k is None:
            return
        axes = None if self.chance.often(25) else self.some_axes(len(self.pool[k].shape))
        if name == "argmax":
            axes = axes[0] if axes else None
        keep = {"keepdims": self.chance.often(40)}
        function = getattr(xp, name)
        reduce = lambda x: function(x, axis=axes, **keep)
        if name == "prod":
            reduce = lambda x: function(xp.cos(x), axis=axes, **keep)
        self.add(f"{name} axis={axes} {keep}", reduce, [k], exact=jumps)

    def add_layout(self):
        k = self.pick()
        shape = self.pool[k].shape
        rank = len(shape)
        kind = self.chance.choice(["transpose", "reshape", "flip", "expand", "squeeze", "roll"])
        if kind == "transpose":
            axes = list(range(rank))
            random.Random(self.chance.integer(0, 999)).shuffle(axes)
            self.add(f"transpose {axes}", lambda x: xp.transpose(x, axes), [k], exact=True)
        elif kind == "reshape":
            target = self.other_shape(shape)
            self.add(f"reshape {target}", lambda x: xp.reshape(x, target), [k], exact=True)
        elif kind == "flip" and rank:
            axis = self.chance.integer(0, rank - 1)
            self.add(f"flip {axis}", lambda x: xp.flip(x, axis), [k], exact=True)
        elif kind == "expand":
            axis = self.chance.integer(0, rank)
            self.add(f"expand {axis}", lambda x: xp.expand_dims(x, axis), [k], exact=True)
        elif kind == "squeeze":
            self.add("squeeze", lambda x: xp.squeeze(x), [k], exact=True)
        elif kind == "roll" and rank:
            axis, by = self.chance.integer(0, rank - 1), self.chance.integer(-3, 3)
            self.add(f"roll {by} {axis}", lambda x: xp.roll(x, by, axis), [k], exact=True)

    def other_shape(self, shape):
        size = int(np.prod(shape))
        divisors = [n for n in range(1, size + 1) if size % n == 0] or [1]
        first = self.chance.choice(divisors)
        return self.chance.choice([(-1,), (first, -1), (size // first, first), (1, size)])

    def add_broadcast(self):
        k = self.pick()
        shape = self.pool[k].shape
        lead = tuple(self.chance.choice([1, 2, 3]) for _ in range(self.chance.integer(0, 2)))
        target = lead + tuple(
            self.chance.choice([1, 3, 5]) if n == 1 and self.chance.often(70) else n for n in shape
        )
        self.add(f"broadcast {target}", lambda x: xp.broadcast_to(x, target), [k], exact=True)

    def some_slice(self, n):
        kind = self.chance.choice(["all", "int", "part", "negative", "step", "none"])
        if kind == "all" or n == 0:
            return slice(None)
        if kind == "int":
            return self.chance.integer(-n, n - 1)
        if kind == "part":
            start = self.chance.integer(0, n - 1)
            return slice(start, self.chance.integer(start, n))
        if kind == "negative":
            return slice(None, None, -self.chance.integer(1, 3))
        if kind == "step":
            return slice(self.chance.integer(0, n - 1), None, self.chance.integer(1, 3))
        return slice(0, n)

    def add_slice(self):
        k = self.pick(where=lambda value: value.shape != ())
        if k is None:
            return
        index = tuple(self.some_slice(n) for n in self.pool[k].shape)
        self.add(f"slice {index}", lambda x: x[index], [k], exact=True)

    def add_write(self):
        k = self.pick(where=lambda value: value.shape != ())
        if k is None:
            return
        index = tuple(self.some_slice(n) for n in self.pool[k].shape)
        part = self.pool[k].sample[index]
        fits = lambda value: value.shape in ((), np.shape(part))
        source = self.pick(self.pool[k].dtype.kind, where=fits)
        adds = self.chance.often(40)

        def write(x, y):
            x = xp.copy(x)
            if adds and part.dtype.kind != "b":
                x[index] += xp.astype(xp.asarray(y), part.dtype)
            else:
                x[index] = y
            return x

        self.add(f"write {index} adds={adds}", write, [k, source], exact=True)

    def add_join(self):
        k = self.pick()
        shape = self.pool[k].shape
        other = self.pick(where=lambda value: value.shape == shape)
        if self.chance.often(40):
            axis = self.chance.integer(0, len(shape))
            join = lambda *parts: xp.stack(parts, axis)
            self.add(f"stack {axis}", join, [k, other, k], exact=True)
        elif shape:
            axis = self.chance.integer(0, len(shape) - 1)
            join = lambda *parts: xp.concatenate(parts, axis)
            self.add(f"concatenate {axis}", join, [k, other], exact=True)

    def add_pad(self):
        k = self.pick("fiu")
        if k is None:
            return
        rank = len(self.pool[k].shape)
        widths = [(self.chance.integer(0, 2), self.chance.integer(0, 3)) for _ in range(rank)]
        mode = self.chance.choice(["constant", "constant", "edge", "reflect"])
        if rank:
            self.add(f"pad {mode} {widths}", lambda x: xp.pad(x, widths, mode), [k], exact=True)

    def add_product(self):
        k = self.pick("fi", where=lambda value: len(value.shape) > 0)
        if k is None:
            return
        x = self.pool[k]
        n = x.shape[-1]
        same = x.dtype.kind
        kind = self.chance.choice(["matmul", "self", "outer", "einsum", "dot"])
        if kind == "matmul":
            fits = lambda value: len(value.shape) > 1 and value.shape[-2] == n
            self.add("matmul", xp.matmul, [k, self.pick(same, where=fits)])
        elif kind == "self" and len(x.shape) > 1:
            self.add("x @ x.T", lambda x: xp.matmul(x, xp.swapaxes(x, -1, -2)), [k])
        elif kind == "outer" and self.chance.often(30):
            self.add("outer", xp.outer, [k, self.pick(same)])
        elif kind == "einsum" and len(x.shape) == 2:
            fits = lambda value: len(value.shape) == 2 and value.shape[0] == x.shape[0]
            spec = self.chance.choice(["ij,ik->kj", "ij,ik->jk", "ij,ik->j", "ij,ik->", "ij,il->i"])
            einsum = lambda x, y: xp.einsum(spec, x, y)
            self.add(f"einsum {spec}", einsum, [k, self.pick(same, where=fits)])
        elif kind == "dot":
            fits = lambda value: value.shape == (n,)
            self.add("dot", xp.dot, [k, self.pick(same, where=fits)])

    def add_along(self):
        name = self.chance.choice(["cumsum", "cumprod", "sort", "softmax", "diff", "take"])
        k = self.pick("fi", exact=name == "sort", where=lambda value: value.shape != ())
        if k is None:
            return
        shape = self.pool[k].shape
        axis = self.chance.integer(0, len(shape) - 1)
        if name == "take":
            if not shape[axis]:
                return
            at = self.chance.generator().integers(0, shape[axis], 3)
            self.add(f"take {at} {axis}", lambda x: xp.take(x, at, axis=axis), [k], exact=True)
            return
        function = getattr(xp, name)
        along = lambda x: function(x, axis=axis)
        if name == "cumprod":
            along = lambda x: function(xp.cos(x), axis=axis)
        exact = name in ("sort", "diff")
        self.add(f"{name} axis={axis}", along, [k], exact=exact)

    def add_gather(self):
        k = self.pick("fi", where=lambda value: value.shape != () and value.shape[0] > 0)
        at = self.pick("i", exact=True)
        if k is None:
            return
        n = self.pool[k].shape[0]

        def gather(x, at):
            places = xp.remainder(at, n)
            # NumPy decides what indexing an array of its own means, and wants numbers
            return xp.take(x, places, axis=0) if isinstance(x, np.ndarray) else x[places]

        self.add("gather", gather, [k, at], exact=True)

    def add_window(self):
        k = self.pick("f", where=lambda value: len(value.shape) == 1 and value.shape[0] > 3)
        width = self.chance.integer(1, 3)
        view = lambda x: xp.sliding_window_view(x, width)
        self.add(f"windows {width}", view, [k], exact=True)

    # ------------------------------------------------------------ the program

    def finish(self):
        """The program with its outputs chosen."""
        count = self.chance.integer(0, 3)
        last = len(self.pool) - 1
        outputs = [last if self.chance.often(40) else self.chance.integer(0, last)]
        outputs += [
            self.chance.integer(self.chance.choice([0, last // 2]), last) for _ in range(count)
        ]
        constant = self.chance.choice([None, None, None, 2.5, np.arange(3.0), 7])
        return Program(self, outputs, constant)


def broadcasts(*shapes):
    try:
        np.broadcast_shapes(*shapes)
    except ValueError:
        return False
    return True


STEP_KINDS = [name[4:] for name in sorted(vars(Builder)) if name.startswith("add_")]
STEP_KINDS += ["arithmetic"] * 3 + ["smooth"] * 2 + ["reduction"] * 2 + ["product"] * 2


class Program:
    """Steps, the inputs they were built on, and the numbers of the output values."""

    def __init__(self, builder, outputs, constant):
        self.steps = builder.steps
        self.inputs = builder.inputs
        self.outputs = outputs
        self.exact = [builder.pool[k].exact for k in outputs]
        self.single = [builder.pool[k].single for k in outputs]
        self.any_single = any(value.single for value in builder.pool)
        self.constant = constant

    def __call__(self, *inputs):
        values = list(inputs)
        for step in self.steps:
            values.append(step(values))
        results = [values[k] for k in self.outputs]
        return results if self.constant is None else {"found": results, "given": self.constant}

    def results(self, inputs):
        found = self(*inputs)
        return found["found"] if isinstance(found, dict) else found

    def __str__(self):
        inputs = [
            f"v{k} = input {type_of(x)} strides {getattr(x, 'strides', '')}"
            for k, x in enumerate(self.inputs)
        ]
        steps = [f"v{k} = {s.text}" for k, s in enumerate(self.steps, len(self.inputs))]
        outputs = ", ".join(f"v{k}" for k in self.outputs)
        return "\n".join([*inputs, *steps, f"return {outputs}, {self.constant}"])


def build(chance, most=14):
    builder = Builder(chance)
    wanted = chance.integer(1, most)
    for _ in range(3 * wanted):  # some are refused
        if len(builder.steps) < wanted:
            builder.step()
    return builder.finish()


# ---------------------------------------------------------------- the comparison


def leaves(result):
    return wg.tree.leaves(result)


DOUBLE, SINGLE = 1e-10, 2e-4


def assert_close(got, want, single, exact=False):
    """Equal, or equal up to a tolerance on the scale of the whole array."""
    assert type_of(got).dtype == type_of(want).dtype
    assert np.shape(got) == np.shape(want)
    if exact or type_of(want).dtype.kind != "f":
        np.testing.assert_array_equal(got, want)
        return
    scale = np.max(np.abs(want), initial=1.0)
    np.testing.assert_allclose(got, want, rtol=0, atol=(SINGLE if single else DOUBLE) * scale)


def check_values(program):
    with np.errstate(all="ignore"):
        want = program(*program.inputs)
        compiled = jit(program.__call__)
        got = compiled(*program.inputs)
    assert type(got) is type(want)
    again = compiled(*program.inputs)
    kinds = list(zip(program.single, program.exact, strict=True))
    kinds += [(False, True)] * (program.constant is not None)
    results = zip(leaves(got), leaves(again), leaves(want), kinds, strict=True)
    for one, two, other, (single, exact) in results:
        np.testing.assert_array_equal(one, two)
        assert_close(one, other, single, exact)


def check_gradients(program):
    places = [
        k
        for k, x in enumerate(program.inputs)
        if type_of(x).dtype.kind == "f" and not isinstance(x, bool)
    ]
    if not places:
        return

    def loss(*active):
        inputs = list(program.inputs)
        for place, value in zip(places, active, strict=True):
            inputs[place] = value
        total = 0.0
        for part in program.results(inputs):
            part_type = type_of(part)
            if part_type.dtype.kind == "f":
                weights = np.cos(np.arange(float(part_type.size))).reshape(part_type.shape)
                total = total + xp.sum(weights.astype(part_type.dtype) * part)
        return total

    function = wg.value_and_grad(loss, tuple(range(len(places))))
    point = [program.inputs[k] for k in places]
    with np.errstate(all="ignore"):
        want_value, want = function(*point)
        got_value, got = jit(function)(*point)
    assert_close(got_value, want_value, program.any_single)
    for one, other in zip(got, want, strict=True):
        assert_close(one, other, program.any_single)


def check(program):
    try:
        check_values(program)
        check_gradients(program)
    except BaseException as error:
        error.add_note(f"the program was:\n{program}")
        raise


@settings(
    max_examples=150,
    deadline=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)
@given(st.data())
def test_random_graph(data):
    check(build(Chance(lambda low, high: data.draw(st.integers(low, high)))))


@pytest.mark.parametrize("seed", range(12))
def test_random_graph_on_the_spine_alone(seed, monkeypatch):
    monkeypatch.setenv("WENGERT_SCHEDULE", "plain")
    check(build(Chance(random.Random(seed).randint)))


@pytest.mark.slow
@pytest.mark.parametrize("setting, share", [("", 1), ("plain", 4)])
def test_many_random_graphs(setting, share, monkeypatch):
    monkeypatch.setenv("WENGERT_SCHEDULE", setting)
    first = int(os.environ.get("WENGERT_RANDOM_SEED", "0"))
    count = int(os.environ.get("WENGERT_RANDOM_GRAPHS", "2000")) // share
    failures = []
    for seed in range(first, first + count):
        try:
            check(build(Chance(random.Random(seed).randint)))
        except Exception as error:
            notes = "\n".join(getattr(error, "__notes__", []))
            failures.append(f"seed {seed}: {type(error).__name__}: {error}\n{notes}")
    assert not failures, f"{len(failures)} of {count} failed:\n" + "\n\n".join(failures)
