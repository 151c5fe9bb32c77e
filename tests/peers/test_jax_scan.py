"""`scan` beside JAX's: results and gradients of the same body."""

import numpy as np
import pytest

import wengert as wg

jax = pytest.importorskip("jax")
rng = np.random.default_rng(2)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("compiled", [False, True])
def test_same_results_and_gradients(reverse, compiled):
    w = rng.normal(size=(5, 5)).astype(np.float32) / 2
    h, xs = rng.normal(size=(3, 5)).astype(np.float32), rng.normal(size=(6, 3, 5)).astype("f4")

    def loss(scan, tanh, w, h, xs):
        def body(carry, x):
            h, n = carry
            new = tanh(h @ w + x * n)
            return (new, n + 1), {"y": (new * x).sum(), "n": n}

        (h, n), ys = scan(body, (h, np.float32(1)), xs, reverse=reverse)
        return (h**2).sum() * n + (ys["y"] * ys["n"]).sum()

    ours = wg.value_and_grad(lambda *a: loss(wg.scan, np.tanh, *a), (0, 1, 2))
    theirs = jax.value_and_grad(lambda *a: loss(jax.lax.scan, jax.numpy.tanh, *a), (0, 1, 2))
    got, want = (wg.jit(ours) if compiled else ours)(w, h, xs), theirs(w, h, xs)
    for one, other in zip(wg.tree.leaves(got), wg.tree.leaves(want), strict=True):
        np.testing.assert_allclose(one, np.asarray(other), rtol=2e-5, atol=2e-5)
