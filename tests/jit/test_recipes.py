"""Operations given by a NumPy recipe alone are compiled: it is traced."""

import re
from pathlib import Path

import numpy as np
import pytest

import wengert as wg
from wengert.graph import Graph
from wengert.loops import Host
from wengert.ops.elementwise import absolute, square
from wengert.ops.families import unary
from wengert.ops.op import REGISTRY
from wengert.passes import optimise
from wengert.schedule import schedule
from wengert.types import ArrayType

CONTRIBUTING = Path(__file__).parents[2] / "CONTRIBUTING.md"
x = np.linspace(-2.0, 2.0, 9)


@pytest.fixture
def define():
    """Defines operations for the time of a test."""
    before = set(REGISTRY)
    yield unary
    for name in set(REGISTRY) - before:
        del REGISTRY[name]


@pytest.fixture
def softsign(define):
    """The example of CONTRIBUTING.md, word for word."""
    text = re.search(r"^    (softsign = .*)$", CONTRIBUTING.read_text(), re.MULTILINE)
    names = {"unary": define, "np": np, "square": square, "absolute": absolute}
    exec(text[1], names)
    return names["softsign"]


def hosts(f, *args):
    graph = wg.trace(f, *args)
    assert isinstance(graph, Graph)
    kernels = schedule(optimise(graph)).kernels
    return [kernel.label for kernel in kernels if isinstance(kernel, Host)]


def is_native(f):
    return f._entries and type(f._entries[0]).__name__ != "HostedEntry"


def slopes(x):
    """softsign and its first three derivatives."""
    size, sign = 1 + np.abs(x), np.sign(x)
    return x / size, size**-2.0, -2 * sign * size**-3.0, 6 * size**-4.0


def test_the_example_compiles(softsign):
    assert hosts(softsign, x) == []
    f = wg.jit(softsign)
    np.testing.assert_allclose(f(x), slopes(x)[0], rtol=1e-15)
    assert is_native(f)
    assert "numpy" not in str(schedule(optimise(wg.trace(lambda x: softsign(x) @ x, x))))


def test_its_derivatives_of_any_order(softsign):
    for order, want in enumerate(slopes(x)):
        f = softsign
        for _ in range(order):
            f = wg.grad(f)
        f = wg.jit(wg.vmap(f))
        at = x[x != 0]  # |x| has no slope at 0, and the second one none either
        np.testing.assert_allclose(f(at), want[x != 0], rtol=1e-13)
        assert is_native(f), order


def test_vmap_and_gradients_of_sums(softsign):
    xs = np.stack([x, 2 * x])
    f = lambda x: np.sum(softsign(x) ** 2)
    want = 2 * slopes(xs)[0] * slopes(xs)[1]
    compiled = wg.jit(wg.vmap(wg.grad(f)))
    np.testing.assert_allclose(compiled(xs), want, rtol=1e-13)
    assert is_native(compiled)
    wg.check_grads(softsign, (x[x != 0],), order=3, tolerance=1e-5)


@pytest.mark.parametrize("dtype", [np.float32, np.int64, np.int8, bool, np.complex128])
def test_other_dtypes(softsign, dtype):
    values = np.array([0, 1, 1, 0]).astype(dtype)
    got, want = wg.jit(softsign)(values), softsign.type_rule(ArrayType(values.dtype, (4,)))
    assert (got.dtype, got.shape) == (want.dtype, want.shape)
    np.testing.assert_allclose(got, [0, 0.5, 0.5, 0], rtol=1e-6)


def test_no_elements_and_no_axes(softsign):
    assert wg.jit(softsign)(np.zeros((0, 3))).shape == (0, 3)
    assert wg.jit(softsign)(np.float64(1.0)) == 0.5


def test_a_recipe_that_looks_at_values_is_evaluated(define):
    looks = define("looks", lambda x: x * 2.0 if np.sum(x) > 0 else x * 3.0, like=np.exp)
    f = wg.jit(lambda x: looks(x) + 1.0)
    assert hosts(looks, x) == ["looks"]
    np.testing.assert_array_equal(f(x + 9), (x + 9) * 2 + 1)
    np.testing.assert_array_equal(f(x - 9), (x - 9) * 3 + 1)


def test_a_recipe_of_what_numpy_evaluates(define):
    common = define("common", lambda x: 2.0 * np.gcd(x.astype(int), 4), zero="steps", like=np.exp)
    assert hosts(common, 9 * x) == ["gcd"]
    np.testing.assert_array_equal(wg.jit(common)(9 * x), 2.0 * np.gcd((9 * x).astype(int), 4))


def test_recipes_of_recipes(define, softsign):
    outer = define("outer", lambda x: softsign(x) + np.tanh(x), like=np.exp)
    assert hosts(outer, x) == []
    np.testing.assert_allclose(wg.jit(outer)(x), softsign(x) + np.tanh(x), rtol=1e-15)


def test_nothing_is_made_of_itself(define):
    endless = define("endless", lambda x: x if type(x) is np.ndarray else endless(x), like=np.exp)
    assert hosts(endless, x) == ["endless"]
    np.testing.assert_array_equal(wg.jit(endless)(x), x)


def test_a_reason_keeps_a_recipe_from_being_traced(define):
    hosted = define("hosted", lambda x: x * 2, like=np.exp, hosted="for the sake of this test")
    assert hosts(hosted, x) == ["hosted"]
