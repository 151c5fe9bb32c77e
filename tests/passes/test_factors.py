"""Numbers in products are joined only where the result cannot change."""

import numpy as np
import pytest

import wengert.numpy as wnp
from wengert.graph import verify
from wengert.passes import optimise
from wengert.trace import trace

SPECIAL = np.array([0.0, -0.0, 1.5, -3.7, np.inf, -np.inf, np.nan, 1e308, -1.7e308, 5e-324, 1e-310])


def names(graph):
    return [node.op.name for node in graph.operators]


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(
    ("function", "products"),
    [
        (lambda x: 100 * (2 * x), 1),
        (lambda x: -(100 * (4 * x)), 1),
        (lambda x: (x * -8) * 3, 1),
        (lambda x: -(3 * x), 1),
        (lambda x: 0.1 * (2 * x), 2),  # 2 * x may overflow where 0.2 * x does not
        (lambda x: 100 * (3 * x), 2),  # 3 * x is rounded
        (lambda x: 100 * (0.5 * x), 2),  # 0.5 * x may lose a bit of a subnormal
    ],
)
def test_products_with_numbers(function, products, dtype):
    with np.errstate(all="ignore"):
        x = SPECIAL.astype(dtype)
        graph = trace(lambda x: wnp.negative(wnp.negative(function(x))), x)
        better = verify(optimise(graph))
        assert names(better).count("multiply") == products
        assert "negative" not in names(better)
        got, want = better(x), graph(x)
    np.testing.assert_array_equal(got, want)
    numbers = ~np.isnan(want)
    np.testing.assert_array_equal(np.signbit(got[numbers]), np.signbit(want[numbers]))
    assert got.dtype == dtype
