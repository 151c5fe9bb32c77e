"""Arrays that NumPy makes inside a traced function: written to, read, and otherwise plain."""

import copy
import dataclasses
import functools
import logging
import math
import pickle
import re
import sys
import threading

import numpy as np
import pytest
import scipy.linalg
import scipy.special
from numpy import array as array_by_name
from numpy import piecewise as piecewise_by_name
from numpy import zeros as zeros_by_name

import wengert as wg
import wengert.numpy as wnp
from wengert.errors import AbstractValueError, ConversionError, MutationError
from wengert.graph import Constant
from wengert.trace.creating import REPLACEMENTS
from wengert.trace.made import Made
from wengert.trace.reaching import NAMES, places_to_change

X = np.array([0.3, 0.5, -0.2, 1.1])
ORIGINALS = {name: vars(np)[name] for name in NAMES}
OUTSIDE = np.array([1.0, 2.0, 3.0, 4.0])


@pytest.fixture(autouse=True)
def numpy_is_as_it_was():
    yield
    assert np is sys.modules["numpy"]
    assert all(vars(np)[name] is ORIGINALS[name] for name in NAMES)
    assert zeros_by_name is ORIGINALS["zeros"]


# ---------------------------------------------------------------- programs


def buffers(x):
    b = np.zeros(len(x))
    b[0] = x[3]
    b[1:] = x[:-1] * 2
    b += x
    np.multiply(x, b, out=b)
    return b


def lists(x):
    return np.array([x[0], 1.0]) * np.array([[x[1], 2.0], [3, x[2] * x[3]]])


def conversions(x):
    return np.asarray(x) + np.array(x) * np.asanyarray(x) + np.ascontiguousarray(x) ** 2


def copies(x):
    y = np.array(x)
    y[0] = 2.0 * x[1]
    z = np.copy(y)
    z[1] = y[0]
    return y * z * x


def filled(x):
    b = np.full(3, x[0])
    b[1] *= x[1]
    return b + np.full_like(OUTSIDE[:3], x[2] * 2)


def constants(x):
    e, r, s = np.eye(2), np.arange(4.0), np.linspace(0, 1, 4)
    e[0] = x[:2]
    r[1:3] += x[1:3]
    s *= x
    o, t = np.ones((2, 2)), np.identity(2)
    o[:, 1] -= e[0]
    t[1, 1] = o[0, 1]
    return np.sum(e @ o @ t) + r * s


def of_outside(x):
    a, b, c = np.copy(OUTSIDE), np.array(OUTSIDE), np.zeros_like(OUTSIDE)
    a[0], b[1:3], c[:] = x[0], x[1:3], x[::-1]
    return a * b + c


def empty(x):
    b = np.empty((2, 4))
    b[0], b[1] = x, np.cos(x)
    return b


def triangle(x):
    n = len(x)
    m = np.zeros((n, n))
    for i in range(n):
        for j in range(i + 1):
            m[i, j] = x[i] * (j + 1) if i != j else np.exp(x[i])
    return m @ x


def views(x):
    b = np.zeros((3, 4))
    row, column, flat, turned = b[1], b[:, 2], b.reshape(-1), b.T
    row[:] = x
    column[0] = x[3]
    flat[-1] = x[0] * x[1]
    turned[3, 1] = x[2]
    np.ravel(b)[0] = x[1]
    b[2][:2] += x[:2]
    return b * 2 + row


def strange_views(x):
    b = np.zeros(6)
    windows = np.lib.stride_tricks.sliding_window_view(b, 3)
    halves, rolled = np.split(b, 2), np.rollaxis(b.reshape(2, 3), 1)
    b[:4] = x
    halves[1][2] = x[0]
    rolled[1, 0] = x[1] * 3
    return np.sum(windows**2, axis=1), np.sum(halves[0] * halves[1]) * rolled


def copies_of_strange_views(x):
    b = np.zeros(6)
    windows = np.lib.stride_tricks.sliding_window_view(b[::-1], 3)
    b[0] = 1.0
    copied = windows.reshape(-1)  # no view: the windows overlap
    b[1] = x[0]
    return copied * x[1], windows.reshape(-1) * windows[3, 1]


def fortran(x):
    b = np.zeros((2, 2), order="F")
    flat = b.reshape(-1)  # a copy, as the elements lie the other way
    flat[0] = x[0]
    b.ravel(order="F")[1] = x[1]
    return b + x[0] * flat[0]


def fortran_written_as_a_whole(x):
    b = np.ones((2, 2), order="F")
    b *= 0.5
    c = b.reshape(-1)  # a copy still
    c[0] = x[0]
    turned = np.ones((2, 2)).T
    turned[:] = 2.0
    turned.reshape(-1)[1] = x[1]
    return b + turned + c[0]


def masks(x):
    b = np.zeros(4)
    m = np.array([True, False, True, False])
    b[m] = x[m] * 2
    b[~m] = x[1]
    b[[0, 3]] += x[:2]
    return b


def in_place_functions(x):
    b = np.zeros(4)
    np.add.at(b, [0, 1, 1], x[:3])
    np.put(b, [3], x[3])
    np.copyto(b[2:3], x[2:3])
    m = np.zeros((2, 2))
    np.fill_diagonal(m, x[0])
    np.sin(x[:2], out=m[0])
    b.flat[1] = x[1] ** 2
    return b, m


def list_items(x):
    b = np.zeros((2, 2))
    b[0] = [x[0], 1.0]
    b[1] = x[1], x[2]
    b += [x[3], 2.0]
    return b * [1.0, x[0]]


def other_dtypes(x):
    c = np.zeros(2, complex)
    c[0] = x[0] + 1j * x[1]
    i = np.arange(4)[::-1]
    i[0] = 2
    single = np.zeros(2, np.float32)
    single[:] = 0.5
    return np.abs(c) ** 2, x[i] * np.sum(single)


def helper(n, value):
    made = np.zeros(n)
    made[n // 2] = value
    return made


class Helper:
    def __init__(self, n):
        self.n = n

    def table(self, x):
        made = np.ones(self.n)
        made[: len(x)] = x
        return made


HELPER = Helper(6)


def helpers(x):
    def inner(v):
        b = np.zeros(2)
        b[:] = v[:2]
        return b

    return helper(5, x[1]), HELPER.table(x), inner(x), [helper(2, v) for v in x[:2]][1]


def imported_by_name(x):
    b = zeros_by_name(3)
    b[1] = x[0]
    return b + array_by_name([x[1], x[2], 1.0])


def iterated(x):
    return np.fromiter((v**2 for v in x), float) + np.array(list(x)) + np.array(tuple(x[::-1]))


def decided_by_plain_numbers(x):
    counts, order = np.zeros(3, int), np.array([2, 0, 1])
    for place in order:
        counts[place] += place + 1
    table = np.zeros((counts.max(), 2))
    if counts.any() and counts[0] == 1 and 3 in counts:
        for row in range(counts[2]):
            table[row] = x[order[row]] * np.arange(1, 3)
    names = {int(i): v for i, v in enumerate(np.arange(2.0))}
    return table * math.sqrt(counts[1]) + names[1]


def numpy_of_plain_arrays(x):
    a = np.arange(6.0)
    edges = np.histogram(a, bins=3)[1]
    fit = np.polyfit(np.arange(3.0), np.array([1.0, 2.0, 4.0]), 1)
    q = np.linalg.qr(np.eye(2) + 1)[0]
    w = np.unique(np.array([3, 1, 3]))
    inverse = scipy.linalg.inv(np.eye(2) * 2)
    return x[:2] * fit @ q @ inverse * edges[1] * w[1] * scipy.special.erf(np.ones(2))


def table_for_later(x):
    w = np.linspace(0, 1, 4) ** 2
    w[w > 0.5] = 0.5
    return np.sum(np.outer(w, w) @ x) * x


PROGRAMS = [
    buffers, lists, conversions, copies, filled, constants, of_outside, empty, triangle, views,
    strange_views, copies_of_strange_views, fortran, fortran_written_as_a_whole, masks,
    in_place_functions, list_items, other_dtypes, helpers, imported_by_name, iterated,
    decided_by_plain_numbers, numpy_of_plain_arrays, table_for_later,
]  # fmt: skip


def total(f):
    """A number that depends on every element of the result."""

    def number(x):
        return sum(np.sum(np.sin(leaf * 1.5)) for leaf in wg.tree.leaves(f(x)))

    return number


def same(got, want, tolerance=1e-12):
    """All arrays of two results; a list stands for an array."""
    want = np.array(want) if isinstance(want, list) else want
    got, want = wg.tree.leaves(got), wg.tree.leaves(want)
    assert len(got) == len(want)
    for one, other in zip(got, want, strict=True):
        assert np.shape(one) == np.shape(other)
        np.testing.assert_allclose(one, other, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("f", PROGRAMS)
class TestPrograms:
    def test_values(self, f):
        same(wg.vjp(f, X)[0], f(X))
        same(wg.jit(f)(X), f(X))

    def test_derivatives(self, f):
        wg.check_grads(total(f), (X,), order=2)

    def test_compiled(self, f):
        number = total(f)
        value, gradient = wg.jit(wg.value_and_grad(number))(X)
        same((value, gradient), (number(X), wg.grad(number)(X)))

    def test_mapped(self, f):
        xs = np.stack([X, X * 0.7, X[::-1]])
        number = total(f)
        same(wg.vmap(number)(xs), np.array([number(x) for x in xs]))
        same(wg.jit(wg.vmap(wg.grad(number)))(xs), np.array([wg.grad(number)(x) for x in xs]))

    def test_jacobian(self, f):
        flat = lambda x: np.concatenate([np.ravel(np.real(leaf)) for leaf in wg.tree.leaves(f(x))])
        forward, backward = (wg.jacobian(flat, mode=mode)(X) for mode in ("forward", "reverse"))
        same(forward, backward)

    def test_nested(self, f):
        inner = lambda x: np.sum(wg.grad(total(f))(x) ** 2)
        wg.check_grads(inner, (X,), order=1)
        same(wg.jit(wg.grad(inner))(X), wg.grad(inner)(X), 1e-9)


# ---------------------------------------------------------------- plain arrays


def evaluated(f):
    return wg.grad(lambda x: np.sum(x) * (f(x) is None))(X)


def compiled(f):
    return wg.jit(lambda x: np.sum(x) * (f(x) is None))(X)


EVERY_WAY = pytest.mark.parametrize("run", [evaluated, compiled])


@EVERY_WAY
class TestPlain:
    def test_numbers(self, run):
        def f(x):
            b = np.arange(1000) * 2
            assert int(b[3]) == 6 and type(b[3]) is np.int64 and float(b[1]) == 2.0
            assert (b > 5).any() and not (b < 0).any() and bool(np.array([True]))
            assert [*range(b[2])] == [0, 1, 2, 3] and [5, 6, 7][np.array(1)] == 6
            assert b[:3].tolist() == [0, 2, 4] and list(b[:2]) == [0, 2] and b.sum() == 999000
            assert np.zeros(np.array([2, 3])).shape == (2, 3) and {b[1]: "two"}[2] == "two"
            assert complex(np.array(2.0)) == 2 and f"{np.array(1.5):.2f}" == "1.50"
            assert str(np.arange(2)) == "[0 1]" and repr(np.arange(2)) == "array([0, 1])"
            assert len(b) == 1000 and 4 in b and 5 not in b

        run(f)

    def test_large_results_are_known_too(self, run):
        def f(x):
            b = np.zeros((100, 100))
            b[3] = 1.0
            c = (b + 1) @ b.T
            for row in np.nonzero(c.sum(axis=1) > 300)[0]:
                assert c[row, 3] > 0

        run(f)

    def test_it_is_an_array(self, run):
        def f(x):
            b = np.zeros((2, 3))
            assert isinstance(b, np.ndarray) and isinstance(b[0], np.ndarray)
            assert b.dtype == float and b.strides == (24, 8) and b.flags.c_contiguous
            assert b.nbytes == 48 and b.base is None and b[0].base is b
            assert b.tobytes() == bytes(48) and b.astype(str).dtype.kind == "U"
            np.testing.assert_array_equal(b.compress([True, False], axis=0), b[:1])

        run(f)

    def test_other_dtypes_stay_plain(self, run):
        def f(x):
            for dtype in (object, "U3", "S2", "M8[s]", [("a", float)], ">f8"):
                assert type(np.zeros(2, dtype)) is np.ndarray
            assert np.array(["a", "b"])[1] == "b"
            held = np.empty(2, object)
            held[0] = x
            assert held[0] is x

        run(f)

    def test_copies(self, run):
        def f(x):
            b = np.arange(3.0)
            same(pickle.loads(pickle.dumps(b)), [0.0, 1.0, 2.0])
            for other in (copy.copy(b), copy.deepcopy(b), b.copy(), np.copy(b), np.array(b)):
                other[0] = 5.0
            assert b[0] == 0.0
            assert np.asarray(b) is b and np.ascontiguousarray(b) is b

        run(f)

    @pytest.mark.filterwarnings("ignore::wengert.errors.ConstantRandomWarning")
    def test_other_packages(self, run):
        def f(x):
            b = np.eye(3) * 2
            assert type(scipy.linalg.cholesky(b)) is np.ndarray
            assert np.random.default_rng(0).normal(np.zeros(2), np.ones(2)).shape == (2,)
            assert np.vectorize(lambda v: v + 1)(np.arange(2)).tolist() == [1, 2]
            assert math.fsum(np.arange(3.0)) == 3.0
            draw = np.random.default_rng(0)
            assert sorted(draw.permutation(np.arange(3))) == [0, 1, 2]
            assert draw.choice(np.ones(3), 2, p=np.full(3, 1 / 3)).tolist() == [1.0, 1.0]
            assert np.random.permutation(np.ones(2)).shape == np.random.choice(np.ones(2), 2).shape
            assert draw.multivariate_normal(np.zeros(2), np.eye(2)).shape == (2,)

        run(f)

    def test_writes_of_plain_values(self, run):
        def f(x):
            b = np.zeros(4)
            b[1], b[2:] = 1, [2, 3]
            b += 1
            b.sort()
            b.fill(2)
            np.add(b, 1, out=b)
            np.add.at(b, [0, 0], 1.0)
            np.put(b, [1], 9)
            b.flat[3] = 7
            b[b > 8] -= 1
            view = b[1:]
            view *= 2
            m = np.zeros((2, 2))
            np.fill_diagonal(m, 1)
            m.T[0, 1] = 5
            same(b, [5.0, 16.0, 6.0, 14.0])
            same(m, [[1, 0], [5, 1]])
            with pytest.raises(TypeError):
                np.arange(3).__iadd__(0.5)
            with pytest.raises(ValueError, match="could not broadcast"):
                b[:2] = [1, 2, 3]

        run(f)

    def test_arrays_from_outside_stay_what_they_are(self, run):
        before = OUTSIDE.copy()

        def f(x):
            assert np.asarray(OUTSIDE) is OUTSIDE
            assert type(np.broadcast_arrays(OUTSIDE, np.zeros((2, 1)))[0]) is np.ndarray
            out = OUTSIDE
            out += np.zeros(4)
            assert out is OUTSIDE
            memory = bytearray(8)
            np.frombuffer(memory)[0] = 1.0
            np.asarray(memoryview(memory))[0] = 3
            assert memory[0] == 3

        run(f)
        same(OUTSIDE, before)

    def test_nothing_plain_is_recorded(self, run):
        def f(x):
            b = np.arange(100.0).reshape(10, 10) @ np.eye(10)
            b[0] = b.sum(axis=0) + np.linspace(0, 1, 10)
            assert type(b) is Made and type(b.node) is Constant

        run(f)


def test_the_graph_is_that_of_constants():
    def f(x):
        w = np.zeros(4)
        for i in range(4):
            w[i] = (i + 1) ** 2
        return np.sum(w[::-1] * x)

    graph = wg.trace(f, X)
    assert [node.op.name for node in graph.nodes if hasattr(node, "op")] == ["multiply", "sum"]


def test_many_plain_writes_are_made_in_place():
    def f(x):
        b = np.zeros(20_000)
        memory = id(b.node.output)
        for i in range(0, 20_000, 50):
            b[i] = i
        assert id(b.node.output) == memory
        y = b[:4] * x
        b[0] = 5.0  # what was used is what it was
        return np.sum(y * x) + b[0] * x[0]

    assert wg.grad(f)(X)[0] == 5.0


def test_large_constants_are_not_copied():
    table = []

    def f(x):
        b = np.ones(1 << 17)
        y = b * x[0]
        table[:] = [b.node.output, y.node.inputs[0].output]
        return np.sum(y)

    wg.grad(f)(X)
    assert table[0] is table[1]


@functools.lru_cache
def kept_table(n):
    table = np.arange(float(n))
    table[0] = 0.5
    return table


def test_tables_that_outlive_their_trace():
    kept_table.cache_clear()
    f = lambda x: np.sum(np.array([1.0, 1.0, 1.0, 1.0]) * kept_table(4) * x**2)
    for _ in range(2):
        same(wg.grad(f)(X), 2 * X * [0.5, 1, 2, 3])
        same(wg.jit(wg.grad(f))(X), 2 * X * [0.5, 1, 2, 3])
    table = kept_table(4)
    same(table + 1, [1.5, 2, 3, 4])
    assert type(np.sin(table)) is np.ndarray and type(table * 2) is np.ndarray
    view = table[1:]
    view[0] = 7.0
    same(table, [0.5, 7, 2, 3])
    same(wnp.cumsum(table), np.cumsum([0.5, 7, 2, 3]))

    def g(x):
        kept_table(4)[0] = x[0]
        return np.array(x)[0]

    with pytest.raises(MutationError, match="made in a function that has returned"):
        wg.grad(g)(X)
    kept_table.cache_clear()


# ---------------------------------------------------------------- what cannot be had


@EVERY_WAY
class TestErrors:
    """After a traced value was written, nothing gives the old contents."""

    @pytest.mark.parametrize(
        "read",
        [
            lambda b: b.tolist(), lambda b: b.__array__(), lambda b: pickle.dumps(b),
            lambda b: b.tobytes(), lambda b: scipy.linalg.cosm(b), lambda b: b.data,
            lambda b: np.random.default_rng(0).normal(b), lambda b: memoryview(b),
        ],
    )  # fmt: skip
    def test_values(self, run, read):
        def f(x):
            b = np.zeros(2)
            b[0] = x[0]
            read(b)

        with pytest.raises((ConversionError, AbstractValueError, TypeError, ValueError)):
            run(f)

    @pytest.mark.parametrize(
        "read", [lambda b: float(b[0]), lambda b: b[0].item(), lambda b: math.sqrt(b[0]) ** 2]
    )
    def test_numbers(self, run, read):
        """Python's own functions of numbers are operations in compiled functions."""

        def f(x):
            b = np.zeros(2)
            b[0] = x[0]
            return read(b)

        if run is compiled:
            assert wg.jit(f)(np.array([3.0, 2.0])) == pytest.approx(3.0, rel=1e-15)
            return
        with pytest.raises((ConversionError, AbstractValueError, TypeError, ValueError)):
            run(f)

    @pytest.mark.parametrize(
        "look",
        [
            lambda b: b.view(np.int64), lambda b: b.data,
            lambda b: np.lib.stride_tricks.as_strided(b, (2,), (8,)),
        ],
    )  # fmt: skip
    @pytest.mark.parametrize("value", [lambda x: x[0], lambda x: 3.0])
    def test_views_that_cannot_follow(self, run, look, value):
        def f(x):
            b = np.ones(3)
            look(b)
            b[0] = value(x)

        with pytest.raises(MutationError, match="has given a view of the array"):
            run(f)

    def test_memory(self, run):
        with pytest.raises(ConversionError, match="may not be written to"):
            run(lambda x: np.array([1.0]).ctypes)

    def test_locked_arrays(self, run):
        def f(x):
            b = np.zeros(2)
            b.setflags(write=False)
            b[0] = x[0]

        with pytest.raises(MutationError, match="read-only"):
            run(f)


def test_arrays_made_outside():
    plain = np.zeros(4)

    def element(x):
        plain[0] = x[0]

    def slice_of(x):
        plain[1:] = x[1:]

    def in_place(x):
        total = plain
        total += x

    def out(x):
        np.sin(x, out=plain)

    remedy = "np.array"
    for change in (element, slice_of, in_place, out):
        for run in (evaluated, compiled):
            with pytest.raises((ConversionError, AbstractValueError, ValueError)) as caught:
                run(change)
            error = caught.value
            shown = str(error) if type(error) is not ValueError else str(error.__cause__)
            assert remedy in shown, shown
    same(plain, np.zeros(4))


def test_arrays_of_a_function_around():
    def f(x):
        b = np.zeros(4)

        def inner(y):
            b[0] = y[0]
            return np.sum(y)

        return np.sum(wg.grad(inner)(x))

    with pytest.raises(MutationError, match="made outside the function being traced"):
        wg.grad(f)(X)

    def g(x):
        b = np.zeros(4)

        def inner(y):
            b[0] = 3.0  # plain: as NumPy does
            c = np.zeros(4)
            c[0] = x[1]
            return np.sum(y * c * y)

        return np.sum(wg.grad(inner)(x) * b) * x[2]

    same(wg.grad(g)(X), [6 * X[1] * X[2], 6 * X[0] * X[2], 6 * X[0] * X[1], 0])


# ---------------------------------------------------------------- NumPy's names


def test_functions_that_need_nothing_leave_numpy_alone():
    plainly, otherwise = set(), set()

    def pure(x):
        plainly.add(np.zeros)
        return np.sum(np.sin(x) * np.eye(4)[0]) + x.sum()

    def written(x):
        otherwise.add(np.zeros)
        b = np.eye(4)
        b[0] = x
        return np.sum(b)

    wg.grad(pure)(X)
    wg.grad(written)(X)
    assert plainly == {ORIGINALS["zeros"]} and otherwise == {REPLACEMENTS["zeros"]}
    makes_arrays = lambda f, given=(): bool(places_to_change(f, given))
    assert not makes_arrays(pure) and makes_arrays(written)
    assert not makes_arrays(lambda x: pure(x) * 2) and makes_arrays(lambda x: written(x) * 2)
    assert makes_arrays(lambda x: np.array([x])) and makes_arrays(lambda x: imported_by_name(x))
    assert makes_arrays(HELPER.table) and makes_arrays(lambda x: HELPER.table(x))
    assert makes_arrays(lambda x, f: f(x), [X, written])
    assert makes_arrays(lambda x: wg.grad(written)(x)) and not makes_arrays(lambda x: wnp.sum(x))


def test_a_helper_that_is_defined_anew_is_looked_at_anew():
    scope = {"np": np}
    exec("def f(x): return np.sum(g(x))\ndef g(x): return x * 2", scope)
    same(wg.grad(scope["f"])(X), np.full(4, 2.0))
    exec("def g(x):\n    b = np.zeros(4)\n    b[0] = x[0] * 3\n    return b", scope)
    same(wg.grad(scope["f"])(X), [3.0, 0, 0, 0])


def test_functions_as_arguments():
    same(wg.grad(lambda x, f: np.sum(f(x)))(X, buffers), wg.grad(lambda x: np.sum(buffers(x)))(X))


def test_exceptions_leave_numpy_as_it_was():
    def f(x):
        b = np.zeros(3)
        b[0] = x[0]
        raise KeyError("mine")

    for run in (wg.grad(f), wg.jit(f), wg.vmap(f), wg.jacobian(wg.grad(f))):
        with pytest.raises(KeyError):
            run(X[:, None])
        assert np.zeros is ORIGINALS["zeros"]


def test_other_threads_have_plain_arrays():
    started, checked, found = threading.Event(), threading.Event(), []

    def look():
        started.wait(10)
        found.append(np.zeros is REPLACEMENTS["zeros"])
        found.append(type(np.zeros(3)) is np.ndarray)
        found.append(type(np.array([1.0])) is np.ndarray)
        checked.set()

    def f(x):
        b = np.zeros(4)
        started.set()
        checked.wait(10)
        b[:] = x
        return np.sum(b)

    other = threading.Thread(target=look)
    other.start()
    same(wg.grad(f)(X), np.ones(4))
    other.join()
    assert found == [True, True, True]


def test_many_threads_at_once():
    errors = []

    def trace_often():
        try:
            for _ in range(40):
                same(wg.grad(total(imported_by_name))(X), want)
                same(wg.grad(total(buffers))(X), other)
        except Exception as error:  # told below
            errors.append(error)

    def use_often():
        while tracing:
            if type(np.zeros(2)) is not np.ndarray or type(zeros_by_name(2)) is not np.ndarray:
                errors.append("a traced array outside of traces")

    want, other = wg.grad(total(imported_by_name))(X), wg.grad(total(buffers))(X)
    tracing = [threading.Thread(target=trace_often) for _ in range(3)]
    using = threading.Thread(target=use_often)
    using.start()
    for thread in tracing:
        thread.start()
    for thread in list(tracing):
        thread.join()
    tracing.clear()
    using.join()
    assert not errors


def test_names_in_closures():
    def make():
        from numpy import zeros as fresh

        def f(x):
            b = fresh(2)
            b[0] = x[0]
            return np.sum(b)

        return f, fresh

    f, fresh = make()
    same(wg.grad(f)(X), [1.0, 0, 0, 0])
    assert f.__closure__[0].cell_contents is fresh is ORIGINALS["zeros"]


def test_a_function_that_somebody_replaced_stays(monkeypatch):
    monkeypatch.setattr(np, "identity", lambda n: np.full((n, n), 3.0))

    def f(x):
        b = np.zeros(4)
        b[0] = x[0]
        return np.sum(np.identity(4)[0] * b * x)

    same(wg.grad(f)(X), [6 * X[0], 0, 0, 0])
    monkeypatch.undo()


def test_signatures_are_numpys():
    def f(x):
        assert np.zeros.__name__ == "zeros" and np.zeros.__doc__ == ORIGINALS["zeros"].__doc__
        a = np.zeros(shape=(2, 2), dtype=np.float32, order="C")
        b = np.array([x[0], 1], dtype=np.float32, ndmin=2, order="C", copy=True)
        c = np.asarray(x, dtype=np.float32, order="C")
        d = np.array(x, copy=None)
        e = np.full((2,), x[0], dtype=np.float32, order="C")
        a[0] = b[0] + c[:2] + d[:2] + e
        assert a.dtype == b.dtype == c.dtype == e.dtype == np.float32
        assert d is x and b.shape == (1, 2)
        s, step = np.linspace(0, 1, 5, retstep=True)
        s[0] = x[0]
        return np.sum(a) + np.sum(s) * step

    same(wg.grad(f)(X), [5.25, 2, 0, 0], 1e-6)


def test_custom_rules():
    def rule(x):
        def pullback(g):
            out = np.zeros(4)
            out[:] = g * 2 * x
            return (out,)

        return square(x), pullback

    @wg.custom_rule(vjp=rule)
    def square(x):
        out = np.empty(4)
        out[:] = x * x
        return out

    f = lambda x: np.sum(square(np.array(x)) * np.array([1.0, 2, 3, 4]))
    same(wg.grad(f)(X), 2 * X * [1, 2, 3, 4])
    same(wg.jit(wg.grad(f))(X), 2 * X * [1, 2, 3, 4])


def test_loops_and_checkpoints():
    def body(carry, x):
        b = np.zeros(2)
        b[0], b[1] = carry, x
        return np.sum(b * b), b

    def f(x):
        end, rows = wg.scan(body, 0.5, x)
        return end + np.sum(rows)

    wg.check_grads(f, (X,), order=2)
    same(wg.jit(wg.grad(f))(X), wg.grad(f)(X))
    rows = wg.scan(body, 0.5, X)[1]
    assert rows.shape == (4, 2)
    g = lambda x: np.sum(wg.checkpoint(buffers)(x))
    same(wg.grad(g)(X), wg.grad(lambda x: np.sum(buffers(x)))(X))


def test_writing_from_inside_a_body():
    def f(x):
        b = np.zeros(2)

        def body(carry, v):
            b[0] = 1.0
            return carry * v, None

        return wg.scan(body, 1.0, x)[0] * b[0]

    with pytest.raises(MutationError, match="made outside the body of a loop or branch"):
        wg.grad(f)(X)

    def g(x):
        b = np.zeros(2)

        def yes(y):
            b[0] = 1.0
            return y * 2

        return wg.cond(x[0] > 0, yes, lambda y: y * 3, x[1]) + b[0]

    with pytest.raises(MutationError, match="made outside the body of a loop or branch"):
        wg.jit(g)(X)


def test_branches_and_loops_with_arrays_of_their_own():
    def f(x):
        def yes(y):
            b = np.zeros(2)
            b[0] = y[0] * 2
            return b

        def no(y):
            return np.array([1.0, y[1]])

        def step(i, carry):
            b = np.array(carry)
            b[1] = b[0] * x[2] + i
            return b[::-1]

        return np.sum(wg.fori_loop(0, 5, step, wg.cond(x[0] > 0, yes, no, x)) ** 2)

    for x in (X, -X):
        wg.check_grads(f, (x,), order=2)
        same(wg.jit(wg.grad(f))(x), wg.grad(f)(x))


def test_compiled_functions_inside():
    @wg.jit
    def inner(b):
        return b * 2

    def f(x):
        table = np.arange(4.0)
        doubled = inner(table)  # compiled: there is nothing traced in it
        table[0] = x[0]
        return np.sum(inner(table) * doubled * x)

    same(wg.grad(f)(X), [0, 4, 16, 36])


def test_tensors():
    w = wg.tensor(X, requires_grad=True)

    @wg.jit
    def step(x):
        b = np.zeros(4)
        b[1:] = 2.0
        held = wg.tensor(np.arange(4.0))
        loss = (w * b * x + held).sum()
        loss.backward()
        return loss

    step(X)
    same(w.grad, [0, *(2 * X[1:])])


def filled(x):
    b = np.zeros(4)
    for i in range(4):
        b[i] = x[i]
    return np.sum(b**2)


def with_copy(x):
    copy.deepcopy([1])
    return filled(x)


def with_logging(x):
    logging.getLogger("wengert.tests").debug("a line")
    return filled(x)


def with_patterns(x):
    return filled(x) if re.match("a", "ab") else x


def with_dataclasses(x):
    @dataclasses.dataclass
    class Held:
        array: object

    return filled(Held(x).array)


@pytest.mark.parametrize("f", [with_copy, with_logging, with_patterns, with_dataclasses])
def test_functions_that_use_pythons_own_modules(f):
    """These reach so much that nothing else would be looked at."""
    same(wg.grad(f)(X), 2 * X)


GRID, TABLE = np.array([1.0, 2.0, 3.0]), np.arange(6.0).reshape(2, 3)
HOLDING = {  # functions of plain arrays, with traced values where NumPy does not look for them
    "vectorize": lambda a: np.vectorize(lambda t: a * t)(GRID),
    "vectorize, excluded": lambda a: np.vectorize(lambda t, s: s * t, excluded=[1])(GRID, a),
    "vectorize, two": lambda a: np.vectorize(lambda t: (t, a * t))(GRID)[1],
    "vectorize, by value": lambda a: np.vectorize(lambda t: t if t > 1 else a * t)(GRID),
    "piecewise": lambda a: np.piecewise(GRID, [GRID > 1], [lambda t: a * t, 0.0]),
    "piecewise, imported": lambda a: piecewise_by_name(GRID, [GRID > 1], [lambda t: a * t, a]),
    "apply_along_axis": lambda a: np.apply_along_axis(lambda row: a * row, 1, TABLE),
    "pad": lambda a: np.pad(GRID, 2, constant_values=a),
    "select": lambda a: np.select([GRID > 1], [GRID], default=a),
    "polyint": lambda a: np.polyint(GRID, k=a),
    "unwrap": lambda a: np.unwrap(3 * GRID, period=a + 1),
}


@pytest.mark.parametrize("name", HOLDING)
def test_traced_values_where_numpy_does_not_look_for_them(name):
    f = HOLDING[name]
    np.testing.assert_allclose(wg.jit(f)(0.7), f(0.7), rtol=1e-14)
    slope = (f(0.7 + 1e-6) - f(0.7 - 1e-6)) / 2e-6
    np.testing.assert_allclose(wg.jacobian(f)(0.7), slope, atol=1e-8)


def test_errors_of_functions_that_numpy_calls_are_their_own():
    def refuses(t):
        raise KeyError("refused")

    with pytest.raises(KeyError, match="refused"):
        wg.grad(lambda a: np.sum(a * np.piecewise(GRID, [GRID > 1], [refuses])))(0.7)


def test_functions_that_are_given_by_default():
    """Arrays are made in functions that only the defaults of others name."""

    def doubled(x):
        out = np.zeros(3)
        for i in range(3):
            out[i] = x[i] * 2
        return out

    def by_place(x, f=doubled):
        return np.sum(f(x) ** 2)

    def by_name(x, *, f=doubled):
        return np.sum(f(x) ** 2)

    for function in (by_place, by_name):
        for gradient in (wg.grad(function), wg.jit(wg.grad(function))):
            np.testing.assert_allclose(gradient(np.ones(3)), 8 * np.ones(3))
