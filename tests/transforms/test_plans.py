"""Replaying derived rules: the quick way, the careful way, and when each is taken."""

import numpy as np
import pytest

import wengert as wg
import wengert.numpy as wnp
from wengert.ops.layout import broadcast_to
from wengert.ops.op import REGISTRY
from wengert.transforms import modes, replaying


@pytest.fixture
def walks(monkeypatch):
    """Records for every walk back whether it was quick."""
    found = []
    walk = modes._walk_back

    def recorded(outputs, seeds, inputs, keep=False, quick=False):
        found.append(quick)
        return walk(outputs, seeds, inputs, keep, quick)

    monkeypatch.setattr(modes, "_walk_back", recorded)
    return found


def test_one_quick_walk_is_enough_without_a_nan(walks):
    np.testing.assert_array_equal(wg.grad(lambda x: wnp.sum(x**2))(np.ones(3)), [2, 2, 2])
    assert walks == [True]


def test_a_nan_is_walked_again_with_care(walks):
    # 0 * inf: the branch that was not taken has an infinite slope at 0
    with np.errstate(divide="ignore"):
        f = wg.grad(lambda x: wnp.sum(wnp.where(x > 0, wnp.log(x), x)))
        gradient = f(np.array([0.0, 2.0]))
    np.testing.assert_array_equal(gradient, [1.0, 0.5])
    assert walks == [True, False]


def test_a_nan_that_is_really_there_stays():
    gradient = wg.grad(lambda x: wnp.sum(x * x))(np.array([1.0, np.nan]))
    np.testing.assert_array_equal(gradient, [2.0, np.nan])


@pytest.mark.parametrize(
    "result, expected",
    [
        (np.array([1.0, np.nan]), True),
        (np.array([1.0, np.inf, -np.inf]), False),
        (np.array([[1.0, np.nan], [2.0, 3.0]]).T, True),
        (np.broadcast_to(np.float64(np.nan), (3,)), True),
        (np.broadcast_to(np.float64(2.0), (3,)), False),
        (np.float64(np.nan), True),
        (np.float64(1.0), False),
        (np.zeros((0, 3)), False),
        (np.array([1.0, complex(0.0, np.nan)]), True),
        (None, False),
    ],
)
def test_a_nan_is_seen_wherever_it_is(result, expected):
    assert modes._may_hold_nan(result) is expected


@pytest.mark.parametrize("f", [wnp.tanh, wnp.arctan, wnp.erf, wnp.log1p, lambda x: x**3, wnp.sinc])
def test_arrays_used_again_hold_the_same_numbers(f):
    large = np.linspace(0.1, 2.0, 2 * replaying.LARGE)
    small = large[:5].copy()
    of_large = wg.grad(lambda x: wnp.sum(f(x) * x))(large)
    np.testing.assert_array_equal(of_large[:5], wg.grad(lambda x: wnp.sum(f(x) * x))(small))
    np.testing.assert_array_equal(large, np.linspace(0.1, 2.0, 2 * replaying.LARGE))


def test_values_kept_for_the_pullback_are_not_overwritten():
    x = np.linspace(0.1, 2.0, replaying.LARGE)
    _, pullback = wg.vjp(lambda x: wnp.tanh(wnp.exp(x)), x)
    first = pullback(np.ones_like(x))[0]
    np.testing.assert_array_equal(pullback(np.ones_like(x))[0], first)


def test_a_linear_operation_with_many_signatures_stops_deriving_plans():
    reshape = REGISTRY["reshape"]
    reshape.plans.clear()
    x = np.arange(3.0 * modes.LINEAR_PLANS)

    def f(x):
        return sum(wnp.sum(wnp.reshape(x[:k], (1, k, 1)) ** 2) for k in range(1, x.size + 1))

    np.testing.assert_array_equal(wg.grad(f)(x), 2 * x * np.arange(x.size, 0, -1))
    assert len(reshape.plans) == modes.LINEAR_PLANS


@pytest.mark.parametrize(
    "x, shape",
    [
        (np.float64(3.0), (2, 3)),
        (2.5, (4,)),
        (np.ones(()), (2, 0)),
        (np.arange(3.0), (2, 3)),
        (np.arange(3.0).reshape(3, 1), (2, 3, 4)),
        (np.ones((1, 0)), (4, 0)),
        (np.ones(1), (0,)),
        (np.arange(6).reshape(2, 3).T, (4, 3, 2)),
        (np.arange(24.0).reshape(2, 3, 4)[:, ::-1, ::2], (5, 2, 3, 2)),
    ],
)
def test_broadcasting_gives_numpys_view(x, shape):
    ours, theirs = broadcast_to(x, shape=shape), np.broadcast_to(x, shape)
    np.testing.assert_array_equal(ours, theirs)
    assert ours.dtype == theirs.dtype
    assert ours.strides == theirs.strides or ours.size == 0
    assert not ours.flags.writeable


@pytest.mark.parametrize("shape", [(3,), (2, 2, 3)])
def test_broadcasting_what_does_not_fit_is_an_error(shape):
    with pytest.raises(ValueError, match="broadcast_to"):
        broadcast_to(np.ones((2, 2)), shape=shape)


def test_what_guards_against_a_nan_is_not_computed_in_the_quick_walk(walks, monkeypatch):
    calls = []
    evaluate = REGISTRY["isinf"].evaluate
    monkeypatch.setattr(REGISTRY["isinf"], "evaluate", lambda x: calls.append(x) or evaluate(x))
    y = np.array([0.25, -3.0, 7.0, 2.0, 1.5, 9.0])  # of a size that no other test has a plan for
    slope = wg.grad(lambda x: wnp.sum(wnp.logaddexp(x, y)))
    np.testing.assert_allclose(slope(y), np.full(6, 0.5), rtol=1e-15)
    assert walks == [True] and not calls
    walks.clear()
    x = np.array([np.inf, -np.inf, 7.0, 2.0, 1.5, 9.0])
    np.testing.assert_allclose(slope(x), [1.0, 0.0, 0.5, 0.5, 0.5, 0.5], rtol=1e-15)
    assert walks == [True, False] and calls


@pytest.mark.parametrize("size", [3, 2 * replaying.LARGE])
def test_an_array_that_stands_for_a_guarded_one_is_not_overwritten(size):
    x, y = np.linspace(-2, 2, size), np.linspace(1, -3, size)
    share, other = 1 / (1 + np.exp(y - x)), 1 / (1 + np.exp(x - y))
    first, second = wg.grad(lambda x, y: wnp.sum(wnp.logaddexp(x, y)), argnums=(0, 1))(x, y)
    np.testing.assert_allclose(first, share, rtol=1e-14)
    np.testing.assert_allclose(second, other, rtol=1e-14)
    curved = wg.hvp(lambda x: wnp.sum(wnp.logaddexp(x, y)), x, np.ones(size))
    np.testing.assert_allclose(curved, share * other, rtol=1e-12)
