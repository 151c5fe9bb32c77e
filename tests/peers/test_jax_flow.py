"""Branches and loops beside JAX's: results and derivatives of the same functions."""

import numpy as np
import pytest

import wengert as wg

jax = pytest.importorskip("jax")
jnp = jax.numpy


@pytest.fixture(autouse=True)
def double():
    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", True)
    yield
    jax.config.update("jax_enable_x64", before)


def newton(lib, xp, x):
    far = lambda s: (xp.abs(s[0] ** 3 - x) > 1e-12 * x) & (s[1] < 100)
    root, turns = lib.while_loop(
        far, lambda s: (s[0] - (s[0] ** 3 - x) / (3 * s[0] ** 2), s[1] + 1), (x, 0)
    )
    return root * 1.0 + 0 * turns


def powers(lib, xp, x):
    turn = lambda i, s: lib.cond(i % 2 == 0, lambda s: s * x, lambda s: s + xp.sin(x * i), s)
    return lib.fori_loop(0, 7, turn, x)


def kinds(lib, xp, x):
    index = xp.floor(x).astype(int)
    return lib.switch(index, [xp.sin, lambda x: x * x, lambda x: xp.log(x) / x], x)


PROGRAMS = [newton, powers, kinds]
POINTS = np.array([0.3, 1.5, 2.5, 40.0])


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
class TestSame:
    def test_forward(self, program, compiled):
        ours = lambda x: wg.jvp(lambda x: program(wg, np, x), (x,), (1.0,))
        theirs = lambda x: jax.jvp(lambda x: program(jax.lax, jnp, x), (x,), (1.0,))
        ours = wg.jit(ours) if compiled else ours
        for x in map(float, POINTS):
            np.testing.assert_allclose(ours(x), theirs(x), rtol=1e-12)

    def test_second_derivative(self, program, compiled):
        ours = wg.grad(wg.grad(lambda x: program(wg, np, x)))
        theirs = jax.jacfwd(jax.jacfwd(lambda x: program(jax.lax, jnp, x)))
        ours = wg.jit(ours) if compiled else ours
        for x in map(float, POINTS):
            np.testing.assert_allclose(ours(x), theirs(x), rtol=1e-9, atol=1e-12)

    def test_batches(self, program, compiled):
        ours = wg.vmap(wg.grad(lambda x: program(wg, np, x)))
        theirs = jax.vmap(jax.jacfwd(lambda x: program(jax.lax, jnp, x)))
        np.testing.assert_allclose(
            (wg.jit(ours) if compiled else ours)(POINTS), theirs(POINTS), rtol=1e-10
        )
