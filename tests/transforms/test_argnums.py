"""Arguments named by any integer, and indices that are not known while tracing."""

import numpy as np
import pytest

import wengert as wg
from wengert.errors import AbstractValueError


@pytest.mark.parametrize("transform", [wg.grad, wg.jacobian])
def test_numpy_integers_name_arguments(transform):
    function = lambda x, y: x * y * y
    assert transform(function, np.int64(1))(2.0, 3.0) == 12.0
    assert transform(function, (np.int64(0), 1))(2.0, 3.0) == (9.0, 12.0)


def test_a_slice_by_an_abstract_integer_says_so():
    with pytest.raises(AbstractValueError, match="is not known while the function is traced"):
        wg.vmap(lambda a, n: a[:n], (None, 0))(np.ones(3), np.array([1, 2]))


def test_checkpoint_runs_a_function_that_slices_by_a_value():
    def head(x, n):
        return np.sum(x[: int(n)] ** 2)

    x = np.arange(4.0)
    got = wg.grad(lambda x: wg.checkpoint(lambda y: head(y, wg.numpy.argmax(y)))(x))(x)
    np.testing.assert_array_equal(got, [0.0, 2.0, 4.0, 0.0])
