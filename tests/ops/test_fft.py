"""The Fourier operations: types, exact transposes, batching."""

import numpy as np
import pytest

from wengert.errors import DTypeError, ShapeError
from wengert.ops import REGISTRY
from wengert.ops import fft as ops
from wengert.transforms.batching import vmap
from wengert.transforms.check import check_grads
from wengert.transforms.plans import apply_transpose
from wengert.types import type_of

rng = np.random.default_rng(0)


@pytest.mark.parametrize("name", ["fft", "ifft", "rfft", "irfft"])
def test_types_derivatives_transposes_and_batches(name):
    op = REGISTRY[name]
    for args, params in op.samples(np.random.default_rng(0)):
        (x,) = args
        y = op(x, **params)
        assert type_of(y) == op.type_rule(type_of(x), **params)
        g = rng.normal(size=y.shape).astype(y.dtype)
        back = apply_transpose(op, 0, g, [type_of(x)], params)
        tolerance = 1e-12 if x.dtype.char in "dD" else 1e-4
        np.testing.assert_allclose(
            np.sum(g * y).real, np.sum(back * x).real, rtol=tolerance, atol=tolerance
        )
        stacked = np.stack([x, x + 1])
        got = vmap(lambda x: op(x, **params))(stacked)  # noqa: B023
        want = [op(row, **params) for row in stacked]
        np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)
        if x.dtype.char in "dD":
            check_grads(lambda x: op(x, **params), args, order=2)  # noqa: B023


def test_a_real_array_gets_a_real_cotangent():
    back = apply_transpose(
        ops.rfft, 0, np.ones(3) * 1j, [type_of(np.ones(4))], {"axis": 0, "norm": "backward"}
    )
    assert back.dtype == np.float64
    np.testing.assert_allclose(back, (np.fft.fft(np.array([1, 1, 1, 0]) * 1j)).real, atol=1e-14)


def test_errors():
    with pytest.raises(ShapeError, match=r"n // 2 \+ 1 = 4 elements"):
        ops.irfft.type_rule(type_of(np.ones(3)), axis=0, n=6, norm="ortho")
    with pytest.raises(DTypeError, match=r"fft .*is not defined for f16\[3\]"):
        ops.fft.type_rule(type_of(np.ones(3, np.float16)), axes=(0,), norm="ortho")
