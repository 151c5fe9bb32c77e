"""The argument `dtype`: every way to name a dtype of numbers, and no other."""

import re

import numpy as np
import pytest

import wengert as wg
import wengert.numpy as wnp
from wengert.errors import DTypeError

NAMES = [float, "float64", "d", np.float64, np.dtype("f8"), np.dtypes.Float64DType]
X = np.array([1.0, 2.0, 3.0], np.float32)


@pytest.mark.parametrize("name", NAMES, ids=str)
@pytest.mark.parametrize(
    "function",
    [
        lambda x, dtype: np.sum(np.multiply(x, x, dtype=dtype)),
        lambda x, dtype: np.sum(x.astype(dtype) ** 2),
        lambda x, dtype: np.sum(x * x, dtype=dtype),
        lambda x, dtype: np.einsum("i,i->", x, x, dtype=dtype),
        lambda x, dtype: np.sum(wnp.array([x[0], x[1], x[2]], dtype=dtype) ** 2),
    ],
)
def test_every_name_of_a_dtype_keeps_the_derivative(function, name):
    value, gradient = wg.value_and_grad(lambda x: function(x, name))(X)
    assert value.dtype == np.float64
    np.testing.assert_array_equal(gradient, 2 * X)


@pytest.mark.parametrize("name", [object, str, "M8[s]", np.dtypes.ObjectDType], ids=str)
def test_others_are_refused(name):
    message = "in which a traced value would lose its derivative. Give a dtype of numbers or bool."
    with pytest.raises(DTypeError, match=re.escape(message)):
        wg.grad(lambda x: np.sum(x.astype(name)))(X)
    with pytest.raises(DTypeError, match=re.escape(message)):
        wg.jit(lambda x: np.multiply(x, x, dtype=name))(X)
