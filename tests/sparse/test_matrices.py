"""`sparse_jacobian` and `sparse_hessian` against the dense ones, their options and errors."""

import time

import numpy as np
import pytest
import scipy.sparse

import wengert as wg
from wengert.sparse import Sparsity


def broyden(x):
    inner = np.concatenate([np.zeros(1), x, np.zeros(1)])
    return (3 - 2 * x) * x - inner[:-2] - 2 * inner[2:] + 1


def chain(x):
    return np.sum((x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)


def scene(parameters):
    """Bundle adjustment in small: cameras and points that meet in observations."""
    cameras, points = parameters["cameras"], parameters["points"]
    at, seen = np.array([0, 1, 1, 2, 0]), np.array([0, 0, 1, 2, 3])
    moved = points[seen] - cameras[at, :3]
    return {"error": moved[:, :2] / moved[:, 2:] * cameras[at, 3:], "weight": np.sum(moved, axis=1)}


def assert_equal(found, dense):
    assert isinstance(found, scipy.sparse.csr_matrix)
    assert found.has_sorted_indices
    np.testing.assert_allclose(found.toarray(), dense, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("mode", ["auto", "forward", "reverse"])
@pytest.mark.parametrize(
    "f", [broyden, np.cumsum, lambda x: np.sum(x**2), lambda x: x[:2] * x[2:4]]
)
def test_jacobians_are_the_dense_ones(f, mode):
    x = np.linspace(0.5, 2.0, 7)
    dense = np.reshape(wg.jacobian(f)(x), (-1, 7))
    assert_equal(wg.sparse_jacobian(f, x, mode=mode), dense)


@pytest.mark.parametrize("mode", ["auto", "forward", "reverse"])
def test_trees_and_shapes(mode):
    rng = np.random.default_rng(0)
    x = {"cameras": rng.normal(size=(3, 4)), "points": rng.normal(size=(4, 3)) + 3}
    dense = wg.jacobian(scene)(x)
    rows = [
        np.concatenate(
            [np.reshape(dense[out][name], (-1, 12)) for name in ("cameras", "points")], 1
        )
        for out in ("error", "weight")
    ]
    assert_equal(wg.sparse_jacobian(scene, x, mode=mode), np.concatenate(rows))


HESSIANS = {
    "chain": chain,
    "linear": lambda x: np.sum(3 * x),
    "squares": lambda x: x @ x,
    "product": lambda x: np.prod(x[:3]) + x[4],
    "dense": lambda x: np.log(np.sum(np.exp(x))),
    "arrow": lambda x: x[0] * np.sum(np.sin(x[1:])),
    "loop": lambda x: wg.scan(lambda c, r: (np.sin(c * r), None), 1.0, x[:3])[0],
    "rows": lambda x: np.sum(np.max(x.reshape(3, 2), axis=1) ** 3),
}


@pytest.mark.parametrize("f", HESSIANS.values(), ids=HESSIANS)
def test_hessians_are_the_dense_ones(f):
    x = np.array([0.7, 1.3, 0.9, 1.1, 1.6, 0.4])
    found = wg.sparse_hessian(f, x)
    assert_equal(found, wg.hessian(f)(x))
    assert (found != found.T).nnz == 0


def test_linear_parts_have_no_second_derivatives():
    assert wg.sparse_hessian(lambda x: np.sum(3 * x) + x[0] * x[4], np.ones(5)).nnz == 2


def test_single_precision_stays():
    x = np.ones(5, np.float32)
    assert wg.sparse_jacobian(lambda x: x[1:] * x[:-1], x).dtype == np.float32
    assert wg.sparse_hessian(chain, x).dtype == np.float32


def test_zeros_stay_in_the_pattern():
    at_zero = wg.sparse_jacobian(lambda x: x[1:] * x[:-1], np.zeros(4))
    assert at_zero.nnz == 6
    assert not at_zero.toarray().any()


def test_a_derivative_is_found_once_and_used_again():
    traced = []

    def f(x):
        traced.append(None)
        return broyden(x)

    derivative = wg.sparse_jacobian(f)
    for x in (np.ones(5), np.zeros(5)):
        assert_equal(derivative(x), wg.jacobian(broyden)(x))
    before = len(traced)
    assert_equal(derivative(np.full(5, 2.0)), wg.jacobian(broyden)(np.full(5, 2.0)))
    assert len(traced) == before
    assert repr(derivative) == "<sparse_jacobian of f>"
    assert repr(derivative.sparsity(np.ones(5))) == (
        "<Sparsity: 13 entries in (5, 5), forward, 3 colours>"
    )


def test_matrices_share_nothing():
    derivative = wg.sparse_jacobian(broyden)
    one, two = derivative(np.ones(5)), derivative(np.ones(5))
    one.data[:] = 0
    one.eliminate_zeros()
    assert_equal(two, wg.jacobian(broyden)(np.ones(5)))
    assert_equal(derivative(np.ones(5)), wg.jacobian(broyden)(np.ones(5)))


def test_what_is_read_from_outside_is_read_at_every_call():
    scale = [2.0]
    mask = np.eye(3)

    def f(x):
        return scale[0] * (mask @ x)

    first = wg.sparse_jacobian(f, np.ones(3))
    scale[0], mask[0, 2] = 3.0, 1.0
    assert_equal(first, 2 * np.eye(3))
    assert_equal(wg.sparse_jacobian(f, np.ones(3)), 3 * mask)


def test_tensors_are_told_apart():
    tensors = [wg.tensor(np.array([2.0, 3.0])), wg.tensor(np.array([5.0, 7.0]))]
    for tensor in tensors:
        found = wg.sparse_jacobian(lambda x, t=tensor: t * x, np.ones(2))
        assert_equal(found, np.diag(tensor.numpy()))


def test_compiled_functions_keep_their_derivative():
    f = wg.jit(broyden)
    first = wg.sparse_jacobian(f, np.ones(4))
    programs = f._sparse_derivatives["auto"]
    assert_equal(wg.sparse_jacobian(f, np.ones(4)), first.toarray())
    assert f._sparse_derivatives["auto"] is programs
    assert_equal(wg.sparse_hessian(wg.jit(chain), np.ones(4)), wg.hessian(chain)(np.ones(4)))


@pytest.mark.parametrize("form", [Sparsity, np.asarray, scipy.sparse.csc_matrix])
def test_a_pattern_can_be_given(form):
    x = np.linspace(1, 2, 6)
    flags = np.abs(np.subtract.outer(np.arange(6), np.arange(6))) <= 2
    found = wg.sparse_jacobian(broyden, x, sparsity=form(flags))
    assert found.nnz == flags.sum()
    assert_equal(found, wg.jacobian(broyden)(x))
    found = wg.sparse_hessian(chain, x, sparsity=form(np.tril(flags)))
    assert found.nnz == flags.sum()
    assert_equal(found, wg.hessian(chain)(x))


def test_the_jacobian_itself_is_a_pattern():
    x = np.linspace(1, 2, 6)
    pattern = wg.sparse_jacobian(broyden, np.zeros(6))
    assert_equal(wg.sparse_jacobian(broyden, x, sparsity=pattern), wg.jacobian(broyden)(x))


def looped(x):
    y = np.zeros(len(x))
    for i in range(1, len(x) - 1):
        y[i] = x[i - 1] * x[i] + np.sin(x[i + 1])
    return y


def branched(x):
    if x[0] > 1:
        return x * 2
    return x[::-1] * x


def repeated(x):
    total = 0.0
    while total < x[0]:
        total += 0.3 * x[1]
    return x * total


@pytest.mark.parametrize("f", [looped, branched, repeated])
def test_pythons_own_control_flow(f):
    """One pattern for both sides of a branch, and for any number of turns."""
    derivative = wg.sparse_jacobian(f)
    for first in (0.5, 1.5, 2.5):
        x = np.array([first, 0.9, 1.2, 0.7, 1.1])
        assert_equal(derivative(x), wg.jacobian(f)(x))
    assert derivative.sparsity(np.ones(5)).nnz < 20


def test_nothing_to_compute():
    found = wg.sparse_jacobian(lambda x: np.sign(x), np.ones(3))
    assert found.shape == (3, 3)
    assert found.nnz == 0
    assert wg.sparse_jacobian(lambda x: x * 2, np.ones(0)).shape == (0, 0)


def test_errors():
    x = np.ones(4)
    with pytest.raises(wg.errors.ShapeError, match="the pattern has 3 columns, x has 4 elements"):
        wg.sparse_jacobian(broyden, x, sparsity=np.ones((4, 3)))
    with pytest.raises(wg.errors.ShapeError, match="the pattern has 3 rows, broyden gives 4"):
        wg.sparse_jacobian(broyden, x, sparsity=np.ones((3, 4)))
    with pytest.raises(wg.errors.ShapeError, match="expected a square"):
        wg.sparse_hessian(chain, x, sparsity=np.ones((3, 4)))
    with pytest.raises(wg.errors.OptionError, match="got str as a pattern, expected a matrix"):
        wg.sparse_jacobian(broyden, x, sparsity="band")
    with pytest.raises(wg.errors.OptionError, match="lacks entries that the derivative"):
        wg.sparse_jacobian(broyden, x, sparsity=np.eye(4))
    with pytest.raises(wg.errors.OptionError, match="got mode 'sideways'"):
        wg.sparse_jacobian(broyden, x, mode="sideways")
    with pytest.raises(wg.errors.DTypeError, match="x of broyden holds int64, expected real"):
        wg.sparse_jacobian(broyden, np.arange(4))
    with pytest.raises(wg.errors.DTypeError, match="returns c128"):
        wg.sparse_jacobian(lambda x: x * 1j, x)
    with pytest.raises(wg.errors.StructureError, match=r"Write sparse_jacobian\(f, x\)"):
        wg.sparse_jacobian(x, broyden)
    with pytest.raises(wg.errors.ShapeError, match="scalar"):
        wg.sparse_hessian(broyden, x)


def test_a_hundred_thousand_unknowns():
    """Quickly found, and a small multiple of the function once it is compiled."""
    x = np.linspace(0, 1, 100_000)
    derivative = wg.sparse_jacobian(broyden)
    start = time.perf_counter()
    found = derivative(x)
    assert time.perf_counter() - start < 20
    assert found.nnz == 299_998
    np.testing.assert_allclose(found @ x, wg.jvp(broyden, (x,), (x,))[1], rtol=1e-12, atol=1e-12)
    second = wg.sparse_hessian(chain)(x)
    assert second.nnz == 299_998
    np.testing.assert_allclose(second @ x, wg.hvp(chain, x, x), rtol=1e-10, atol=1e-10)
