"""What nobody reads is not computed: sorting without its order, decompositions without vectors."""

import numpy as np
import pytest

import wengert as wg
from wengert.ops import REGISTRY
from wengert.passes import optimise
from wengert.trace import trace

LONG = np.random.default_rng(0).normal(size=(3, 100))
SQUARE = np.random.default_rng(1).normal(size=(2, 4, 4)) + 5 * np.diag([1, 2, 3, 4])
SQUARE = SQUARE + SQUARE.swapaxes(1, 2)


def made_of(f, x):
    """The operations that a function is compiled to."""
    return {node.op.name for node in optimise(trace(f, x)).operators}


@pytest.mark.parametrize(
    "f, x, present, gone",
    [
        (np.sort, LONG, "sort", "argsort"),
        (lambda x: np.sort(x, axis=None), LONG, "sort", "argsort"),
        (lambda x: np.sort(x.T, axis=0)[-2:], LONG, "sort", "argsort"),
        (lambda x: wg.numpy.sort(x, descending=True), LONG, "sort", "argsort"),
        (np.linalg.eigvalsh, SQUARE, "eigvalsh", "eigh"),
        (lambda x: np.linalg.eigh(x)[0], SQUARE, "eigvalsh", "eigh"),
        (np.linalg.eigvals, SQUARE, "eigvals", "eig"),
        (lambda x: np.linalg.svd(x, compute_uv=False), SQUARE, "svdvals", "svd"),
        (lambda x: np.linalg.svd(x)[1], SQUARE, "svdvals", "svd"),
        (lambda x: np.sort(np.linalg.eigvalsh(x)[..., None] * LONG[0]), SQUARE, "sort", "argsort"),
        (lambda x: np.sort(np.linalg.eigvalsh(x)[..., None] * LONG[0]), SQUARE, "eigvalsh", "eigh"),
    ],
)
def test_only_what_is_wanted(f, x, present, gone):
    made = made_of(f, x)
    assert present in made and gone not in made
    np.testing.assert_allclose(wg.jit(f)(x), f(x), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(
    "f, x, present, gone",
    [
        (lambda x: (np.sort(x), np.argsort(x)), LONG, "argsort", "sort"),
        (lambda x: x[1][np.argsort(x[0])], LONG, "argsort", "sort"),
        (lambda x: x[np.arange(3)[::-1][:, None], np.argsort(x)], LONG, "argsort", "sort"),
        (wg.grad(lambda x: np.sum(np.sort(x) ** 3)), LONG, "argsort", "sort"),
        (lambda x: np.linalg.eigh(x), SQUARE, "eigh", "eigvalsh"),
        (lambda x: np.linalg.eigh(x)[1], SQUARE, "eigh", "eigvalsh"),
        (wg.grad(lambda x: np.sum(np.linalg.eigvalsh(x) ** 3)), SQUARE, "eigh", "eigvalsh"),
        # one decomposition for both
        (
            lambda x: (np.linalg.svd(x, compute_uv=False), np.linalg.svd(x, False)),
            SQUARE,
            "svd",
            "svdvals",
        ),
    ],
)
def test_what_is_read_is_computed(f, x, present, gone):
    made = made_of(f, x)
    assert present in made and gone not in made


@pytest.mark.parametrize("name", [name for name, op in REGISTRY.items() if op.alone])
def test_a_result_alone_is_the_same(name):
    op = REGISTRY[name]
    for args, params in op.samples(np.random.default_rng(0)):
        for place, alone in op.alone.items():
            found, expected = alone(*args), op(*args, **params)[place]
            rtol = 1e-5 if expected.real.dtype == np.float32 else 1e-12
            order = np.sort_complex if expected.dtype.kind == "c" else np.sort
            np.testing.assert_allclose(order(found), order(expected), rtol=rtol, atol=rtol)
            assert found.dtype == expected.dtype


def test_special_values_and_ties_are_sorted_alike():
    x = np.tile([0.5, np.inf, -np.inf, np.nan, 1.0, 3.0, 1.0], 20)
    for descending in (False, True):

        def f(x, descending=descending):
            return wg.numpy.sort(x, descending=descending)

        assert "sort" in made_of(f, x)
        np.testing.assert_array_equal(wg.jit(f)(x), f(x))
        assert np.isnan(f(x)[0 if descending else -1])
