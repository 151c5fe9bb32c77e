"""wengert beside JAX: value, gradient, tangent and Hessian of the functions in ``cases/``.

Every function is written once against a namespace `xp` and run three times: with
`wengert.numpy`, with plain `numpy` (differentiated by wengert all the same), and with JAX.
"""

import functools
import runpy
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import wengert as wg
import wengert.numpy as wnp

jax = pytest.importorskip("jax")

TOLERANCE = 1e-9
# Everything is compiled to be run once.
QUICK_TO_COMPILE = {
    "xla_backend_optimization_level": 0,
    "xla_cpu_parallel_codegen_split_count": 1,
    "xla_llvm_disable_expensive_passes": True,
}
CASES = {
    f"{path.stem}-{name}": case
    for path in sorted((Path(__file__).parent / "cases").glob("*.py"))
    for name, case in runpy.run_path(str(path))["CASES"].items()
}


@pytest.fixture(autouse=True, scope="module")
def float64():
    """JAX in double precision, for this module alone."""
    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", True)
    yield
    jax.config.update("jax_enable_x64", before)


# ---------------------------------------------------------------- the namespaces


class Namespace:
    """Names looked up in several places, the first that has one wins."""

    def __init__(self, *places, **names):
        self.places = places
        self.__dict__.update(names)

    def __getattr__(self, name):
        for place in self.places:
            if hasattr(place, name):
                return getattr(place, name)
        raise AttributeError(name)


def _written(x, key, value):
    y = x.copy()
    y[key] = value
    return y


WRITES = {
    "at_set": _written,
    "at_add": lambda x, key, value: wnp.scatter_add(x, key, value),
    "at_max": lambda x, key, value: wnp.scatter_max(x, key, value),
}


def _wengert():
    return Namespace(wnp, **WRITES)


def _plain():
    """Plain numpy; what it does not have comes from wengert.numpy."""
    linalg, fft = Namespace(np.linalg, wnp.linalg), Namespace(np.fft, wnp.fft)
    return Namespace(np, wnp, linalg=linalg, fft=fft, **WRITES)


def _jax():
    names = {
        "at_set": lambda x, key, value: x.at[key].set(value),
        "at_add": lambda x, key, value: x.at[key].add(value),
        "at_max": lambda x, key, value: x.at[key].max(value),
        "cummax": jax.lax.cummax,
        "cummin": jax.lax.cummin,
        "logcumsumexp": jax.lax.cumlogsumexp,
        "top_k": jax.lax.top_k,
        "gelu": lambda x: jax.nn.gelu(x, approximate=False),
        "conv": _jax_conv,
        "max_pool": lambda x, size, stride=None: _jax_pool(x, size, stride, -np.inf, jax.lax.max),
        "avg_pool": lambda x, size, stride=None: (
            _jax_pool(x, size, stride, 0.0, jax.lax.add) / size ** (x.ndim - 2)
        ),
    }
    special = jax.scipy.special
    linalg = Namespace(jax.numpy.linalg, jax.scipy.linalg)
    return Namespace(jax.numpy, special, jax.nn, linalg=linalg, **names)


def _jax_conv(x, w, stride=1, padding=0, dilation=1, groups=1):
    rank = x.ndim - 2
    return jax.lax.conv_general_dilated(
        jax.numpy.asarray(x),
        jax.numpy.asarray(w),
        (stride,) * rank,
        [(padding, padding)] * rank,
        rhs_dilation=(dilation,) * rank,
        feature_group_count=groups,
    )


def _jax_pool(x, size, stride, start, combine):
    window = (1, 1) + (size,) * (x.ndim - 2)
    strides = (1, 1) + (stride or size,) * (x.ndim - 2)
    return jax.lax.reduce_window(x, start, combine, window, strides, "VALID")


# ---------------------------------------------------------------- the comparison


def _scalar(xp, f):
    """A scalar function whose derivative sees each element of the result differently."""

    def scalar(x):
        result = f(xp, x)
        count = int(np.prod(result.shape))
        return (
            xp.sum(result.reshape(count) * np.cos(np.arange(count) / 2)) if result.ndim else result
        )

    return scalar


def _of_wengert(f, x, direction):
    xp = _wengert()
    scalar = _scalar(xp, f)
    value, tangent = wg.jvp(lambda x: f(xp, x), (x,), (direction,))
    return SimpleNamespace(
        value=value,
        tangent=tangent,
        gradient=wg.grad(scalar)(x),
        hessian=wg.hessian(scalar)(x),
    )


def _of_jax(f, x, direction):
    xp = _jax()
    scalar = _scalar(xp, f)

    def row_of_hessian(x, basis):
        return jax.jvp(jax.grad(scalar), (x,), (basis,))

    # one compilation for all four is much quicker than JAX operation by operation
    @functools.partial(jax.jit, compiler_options=QUICK_TO_COMPILE)
    def everything(x, direction):
        value, tangent = jax.jvp(lambda x: f(xp, x), (x,), (direction,))
        rows = jax.vmap(row_of_hessian, in_axes=(None, 0), out_axes=(None, 0))
        return value, tangent, *rows(x, np.eye(x.size))

    value, tangent, gradient, hessian = map(np.asarray, everything(x, direction))
    return SimpleNamespace(value=value, tangent=tangent, gradient=gradient, hessian=hessian)


def _assert_close(got, expected, what):
    got, expected = np.asarray(got), np.asarray(expected)
    assert got.shape == expected.shape, what
    assert got.dtype == expected.dtype, what
    # relative to the largest element: the zeros beside it are differences of its size
    size = np.max(np.abs(expected), initial=0.0)
    np.testing.assert_allclose(
        got, expected, rtol=TOLERANCE, atol=TOLERANCE * size, err_msg=f"{what} differs"
    )


def test_there_are_enough_cases():
    assert len(CASES) >= 200


@pytest.mark.parametrize("name", CASES)
def test_agrees_with_jax(name):
    f, x = CASES[name]
    direction = np.sin(1.0 + np.arange(x.size)) + 0.1
    ours, theirs = _of_wengert(f, x, direction), _of_jax(f, x, direction)
    for what in ("value", "gradient", "tangent", "hessian"):
        _assert_close(getattr(ours, what), getattr(theirs, what), what)


@pytest.mark.parametrize("name", CASES)
def test_plain_numpy_gives_the_same_gradient(name):
    f, x = CASES[name]
    expected = wg.grad(_scalar(_wengert(), f))(x)
    got = wg.grad(_scalar(_plain(), f))(x)
    np.testing.assert_allclose(got, expected, rtol=1e-13, atol=1e-13 * np.max(np.abs(expected)))
    assert np.any(expected != 0)
