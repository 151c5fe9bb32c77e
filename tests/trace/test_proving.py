"""Proofs that a function writes to no array: what they cover, and what they must not."""

from __future__ import annotations

import math
import types

import numpy as np
import pytest

import wengert as wg
import wengert.numpy as wnp
from wengert import keeping
from wengert.bench.evaluated import cases
from wengert.trace.proving import Proof

A = np.arange(1.0, 4.0)
SCALE, TABLE = 2.0, {"a": A, "b": [A, (1, 2.0)]}


def proved(f, *args, **keywords):
    """Whether there is a proof; there is none at the first call."""
    proof = Proof(f)
    assert not proof.holds(args, keywords)
    return proof.holds(args, keywords)


def helper(x, power=2, *, shift=0.0):
    return (x - shift) ** power


def loops(x):
    total = 0.0
    for i in range(3):
        total = total + np.sum(x * A) * i
    for w, b in zip([x, x], (A, A), strict=True):
        total = total - np.dot(w, b)
    return total


def branches(x):
    y = x if x.ndim == 1 else x.reshape(-1)
    if y.shape[0] > 2 and not SCALE < 0:
        return np.sum(y, axis=0)
    return math.sin(1.0) + y[0]


PROVED = [
    lambda x: np.sum(np.exp(x) * A),
    lambda x: wnp.mean(wnp.dot(x, A)) / SCALE,
    lambda x: (x @ A) ** 2 + x[1:].sum() - TABLE["a"].dot(x),
    lambda x: np.sum(helper(x, shift=A)) + helper(x[0], 3),
    lambda x: np.linalg.norm(x.reshape(3, 1) * A, axis=0).max(),
    lambda x: np.sum(np.maximum(x, 0.0), dtype=np.float64) + float(3),
    lambda x: np.where(x > 1, x, A)[..., 0],
    loops,
    branches,
]


@pytest.mark.parametrize("f", PROVED)
def test_proved(f):
    assert proved(f, A)


@pytest.mark.parametrize("name", cases(True))
def test_the_functions_of_the_benchmark(name):
    f, x = cases(True)[name]
    assert proved(lambda x: f(wnp, x), x)
    assert proved(lambda x: f(np, x), x)
    assert proved(f, np, x)


def adds_in_place(x):
    a = A
    a += 1
    return np.sum(x * a)


def stores(x):
    A[0] = 1
    return np.sum(x * A)


def in_a_branch(x):
    y = np.sum(x * A)
    if y > 100:
        A.fill(0)
    return y


def in_a_loop(x):
    f = np.sum
    for _ in range(2):
        x = f(x)
        f = np.copyto
    return x


def inner(x):
    return sum(x * a for a in A)


def tries(x):
    try:
        return x * A
    finally:
        pass


class Writer:
    shape = (3,)

    def __mul__(self, other):
        A[:] = 0
        return other

    def sum(self):
        A[:] = 0
        return 1.0


WRITER = Writer()
OBJECTS = np.array([WRITER, WRITER], object)


class Number(float):
    def __add__(self, other):
        A[:] = 0
        return other


def star(x, *rest):
    return x * A


UNPROVED = [
    adds_in_place,
    stores,
    in_a_branch,
    in_a_loop,
    inner,
    tries,
    star,
    lambda x: np.exp(A, A) * x,
    lambda x: np.exp(A, out=A) * x,
    lambda x: wnp.exp(A, A) * x,
    lambda x: np.dot(x, A, A),
    lambda x: A.dot(x, A),
    lambda x: A.max(0, A) * x,
    lambda x: np.max(A, 0, A) * x,
    lambda x: np.copyto(A, 0.0),
    lambda x: np.nan_to_num(A, False) * x,
    lambda x: np.median(A, overwrite_input=True) * x,
    lambda x: A.sort(),
    lambda x: A.__setitem__(0, 1.0),
    lambda x: np.add.at(A, [0], 1.0),
    lambda x: np.add.reduce(A, 0, None, A),
    lambda x: WRITER * x,
    lambda x: WRITER.sum() * x,
    lambda x: np.sum(OBJECTS) * x,
    lambda x: Number(1.0) + x,
    lambda x: max(A, key=stores) * x,
    lambda x: list(map(stores, [x])),
    lambda x: helper(x, power=WRITER),
    lambda x: in_a_branch(x) + 1,
    lambda x: (lambda y: y * A)(x),
    lambda x: wg.stop_gradient(x) * A,
    lambda x: exec("A[:] = 0"),
    lambda x: undefined * x,  # noqa: F821
    lambda x: np.random.default_rng(0).normal(size=3) * x,
    lambda x: getattr(A, "sort")() or x,  # noqa: B009
    np.sum,
    math.sin,
    WRITER.sum,
]


@pytest.mark.parametrize("f", UNPROVED)
def test_not_proved(f):
    assert not proved(f, A)


def test_arguments_must_be_data():
    f = lambda x, y: np.sum(x * y)
    assert proved(f, A, A) and proved(f, A, y=2.0) and proved(f, [A, (A,)], {"a": 1.0})
    for other in (WRITER, OBJECTS, Number(1.0), [WRITER], {"a": (WRITER,)}, np.ma.array(A), {1, 2}):
        assert not proved(f, A, other) and not proved(f, A, y=other)
    assert not proved(f, A, [0.0] * 1000)
    assert not proved(f, A, z=1.0)


def write_all(x):
    A[:] = 0
    return x


class TestWhatAProofRestsOn:
    def make(self):
        scope = {"np": types.SimpleNamespace(), "A": A, "helper": helper, "k": 1.0}
        scope["np"] = np
        exec("def f(x, y=1.0): return np.sum(helper(x)) * abs(k) + np.sum(A)", scope)
        proof = Proof(scope["f"])
        assert [proof.holds((A,), {}) for _ in range(3)] == [False, True, True]
        return scope, proof

    @pytest.mark.parametrize(
        "name, value",
        [
            ("helper", write_all), ("np", types.SimpleNamespace(sum=write_all)), ("A", WRITER),
            ("k", Number(1.0)), ("abs", write_all), ("A", OBJECTS),
        ],
    )  # fmt: skip
    def test_names(self, name, value):
        scope, proof = self.make()
        scope[name] = value
        assert not proof.holds((A,), {})

    def test_data_may_change(self):
        scope, proof = self.make()
        scope["k"], scope["A"] = 3, np.ones((2, 2))
        assert proof.holds((np.float32(1),), {})
        assert proof.attempts == Proof.attempts - 1

    def test_names_that_are_gone(self):
        scope, proof = self.make()
        del scope["helper"]
        assert not proof.holds((A,), {})

    def test_code_and_defaults(self):
        scope, proof = self.make()
        scope["f"].__code__ = write_all.__code__.replace(co_varnames=("x",))
        assert not proof.holds((A,), {})
        scope, proof = self.make()
        scope["f"].__defaults__ = (WRITER,)
        assert not proof.holds((A,), {})

    def test_functions_of_modules(self, monkeypatch):
        _, proof = self.make()
        monkeypatch.setattr(np, "sum", write_all)
        assert not proof.holds((A,), {})

    def test_cells(self):
        held = A

        def f(x):
            return x * held  # noqa: F821  # it is deleted below

        proof = Proof(f)
        assert [proof.holds((A,), {}) for _ in range(2)] == [False, True]
        held = WRITER
        assert not proof.holds((A,), {})
        held = 2.0
        assert proof.holds((A,), {})
        del held
        assert not proof.holds((A,), {})

    def test_functions_whose_names_keep_changing_are_given_up(self):
        scope, proof = self.make()
        for k in range(4):
            scope["helper"] = types.FunctionType(helper.__code__, {}, None, (k,))
            scope["helper"].__kwdefaults__ = {"shift": 0.0}
            assert proof.holds((A,), {}) is (k < 2)


class TestGradients:
    """Large arrays are not copied where there is a proof, and results are the caller's own."""

    @pytest.fixture
    def copies(self, monkeypatch):
        found = []
        keep_large = keeping._keep_large
        monkeypatch.setattr(keeping, "_keep_large", lambda a: found.append(a) or keep_large(a))
        return found

    def test_no_copies(self, copies):
        matrix, x = np.random.default_rng(0).normal(size=(200, 200)), np.ones(200)
        gradient = wg.grad(lambda x: np.sum((matrix @ x) ** 2))
        expected = 2 * matrix.T @ (matrix @ x)
        for _ in range(3):
            np.testing.assert_allclose(gradient(x), expected, rtol=1e-12)
        assert len(copies) == 1
        matrix[:] = 1.0
        np.testing.assert_allclose(gradient(x), 2 * matrix.T @ (matrix @ x), rtol=1e-12)
        assert len(copies) == 1

    def test_arguments(self, copies):
        def loss(w, inputs, *, targets):
            return np.sum((inputs @ w - targets) ** 2)

        inputs = np.random.default_rng(0).normal(size=(20000, 2))
        both = wg.value_and_grad(loss)
        first = both(np.ones(2), inputs, targets=inputs[:, 0])
        assert copies
        copies.clear()
        second = both(np.ones(2), inputs, targets=inputs[:, 0])
        assert not copies
        np.testing.assert_array_equal(first[1], second[1])

    def test_functions_that_write_are_right_at_every_call(self):
        buffer = np.zeros(20000)

        def f(x):
            s = 0.0
            for i in range(3):
                buffer[:] = i + 1
                s = s + np.sum(buffer * x * x)
            return s

        gradient = wg.grad(f)
        for _ in range(4):
            np.testing.assert_array_equal(gradient(np.ones(20000)), np.full(20000, 12.0))

    def test_results_are_the_caller_s_own(self):
        a, x = np.full(20000, 3.0), np.full(20000, 2.0)
        gradient = wg.grad(lambda x: np.sum(x * a))
        with_aux = wg.grad(lambda x: (np.sum(x * a), x), has_aux=True)
        square = wg.grad(lambda x: np.sum(x * x) * 0.5)
        for _ in range(3):
            for result in (gradient(x), *with_aux(x), square(x)):
                assert not np.shares_memory(result, a) and not np.shares_memory(result, x)
                result[:] = -1
        assert (a == 3).all() and (x == 2).all()

    def test_gradients_of_gradients(self):
        a, x = np.full((200, 100), 3.0), np.ones(100)
        inner = wg.grad(lambda x: np.sum((a @ x) ** 3))
        outer = wg.grad(lambda x: np.sum(inner(x) ** 2))
        expected = wg.grad(lambda x: np.sum(wg.grad(lambda x: np.sum((a @ x) ** 3))(x) ** 2))(x)
        for _ in range(3):
            np.testing.assert_array_equal(outer(x), expected)

    def test_pullbacks_outlive_the_call(self):
        a = np.full(20000, 3.0)
        f = lambda x: x * a
        for _ in range(3):
            _, pullback = wg.vjp(f, np.ones(20000))
            a[:] = 0
            np.testing.assert_array_equal(pullback(np.ones(20000))[0], np.full(20000, 3.0))
            a[:] = 3
