"""L-BFGS: convergence, the line search, state, and what it refuses."""

import numpy as np
import pytest

import wengert as wg
from wengert import optim
from wengert.errors import AbstractValueError, OptionError, ShapeError, StructureError
from wengert.optim.line_search import DECREASE, FLATTEN, Point, strong_wolfe


def quadratic(size=6):
    rng = np.random.default_rng(2)
    root = rng.standard_normal((size, size))
    return root @ root.T + np.eye(size), rng.standard_normal(size)


def closure_of(optimizer, loss_of):
    def closure():
        optimizer.zero_grad()
        loss = loss_of()
        loss.backward()
        return loss

    return closure


@pytest.mark.parametrize("search", [None, "strong_wolfe"])
@pytest.mark.parametrize("compiled", [False, True])
def test_a_quadratic_in_two_parameters(search, compiled):
    matrix, right = quadratic()
    u, v = (wg.tensor(np.zeros(3), requires_grad=True) for _ in range(2))
    optimizer = optim.LBFGS(
        [u, v], lr=1 if search else 0.3, max_iter=60, tolerance_change=1e-15, line_search_fn=search
    )

    def loss_of():
        x = np.concatenate([u, v])
        return 0.5 * x @ matrix @ x - right @ x

    closure = closure_of(optimizer, loss_of)
    closure = wg.jit(closure) if compiled else closure
    for _ in range(3):
        optimizer.step(closure)
    found = np.concatenate([u.numpy(), v.numpy()])
    np.testing.assert_allclose(found, np.linalg.solve(matrix, right), atol=1e-5)


@pytest.mark.parametrize("first", [1e-3, 0.1, 1.0, 30.0])
def test_strong_wolfe_conditions(first):
    def evaluate(t):
        value = (t - 1.0) ** 4 + 0.3 * np.sin(5 * t) + 0.1 * t
        slope = 4 * (t - 1.0) ** 3 + 1.5 * np.cos(5 * t) + 0.1
        return Point(t, value, np.array([slope]), slope)

    start = evaluate(0.0)
    found, evaluations = strong_wolfe(evaluate, start, first, 1.0, 1e-9)
    assert found.value <= start.value + DECREASE * found.length * start.slope
    assert abs(found.slope) <= -FLATTEN * start.slope
    assert 1 <= evaluations <= 26


def test_a_search_on_a_function_without_end_stops():
    start = Point(0.0, 0.0, np.array([-1.0]), -1.0)
    falling = lambda t: Point(t, -t, np.array([-1.0]), -1.0)
    found, evaluations = strong_wolfe(falling, start, 1.0, 1.0, 1e-9)
    assert found.length > 1.0 and evaluations == 26


def test_parameters_without_gradient_count_as_flat():
    used, unused = (wg.tensor([3.0], requires_grad=True) for _ in range(2))
    optimizer = optim.LBFGS([used, unused], line_search_fn="strong_wolfe")
    optimizer.step(closure_of(optimizer, lambda: (used * used).sum()))
    np.testing.assert_allclose(used.numpy(), [0.0], atol=1e-6)
    assert unused.item() == 3.0


def test_at_the_minimum_nothing_happens():
    w = wg.tensor([0.0], requires_grad=True)
    optimizer = optim.LBFGS([w])
    calls = []

    def loss_of():
        calls.append(1)
        return (w * w).sum()

    assert float(optimizer.step(closure_of(optimizer, loss_of))) == 0.0
    assert len(calls) == 1 and optimizer.memory.iterations == 0


def test_training_goes_on_from_a_state_dict():
    def make(start):
        w = wg.tensor(start, requires_grad=True)
        optimizer = optim.LBFGS([w], max_iter=4, line_search_fn="strong_wolfe")
        loss = lambda: (100 * (w[1:] - w[:-1] ** 2) ** 2 + (1 - w[:-1]) ** 2).sum()
        return w, optimizer, closure_of(optimizer, loss)

    w, optimizer, closure = make(np.array([-1.2, 1.0, 0.5]))
    optimizer.step(closure)
    saved = optimizer.state_dict()
    v, restored, other = make(w.numpy())
    restored.load_state_dict(saved)
    for _ in range(3):
        optimizer.step(closure)
        restored.step(other)
        np.testing.assert_array_equal(w.numpy(), v.numpy())
    with pytest.raises(ShapeError, match="the state is of 3 numbers, expected 2"):
        make(np.zeros(2))[1].load_state_dict(saved)
    restored.load_state_dict(make(np.zeros(3))[1].state_dict())
    assert restored.memory.pairs == []


def test_history_is_limited():
    matrix, right = quadratic()
    w = wg.tensor(np.zeros(6), requires_grad=True)
    optimizer = optim.LBFGS([w], history_size=3, max_iter=10, lr=0.1)
    optimizer.step(closure_of(optimizer, lambda: 0.5 * w @ matrix @ w - right @ w))
    assert len(optimizer.memory.pairs) == 3


def test_what_is_refused():
    w, v = (wg.tensor([1.0], requires_grad=True) for _ in range(2))
    with pytest.raises(OptionError, match="line_search_fn='armijo', expected 'strong_wolfe' or"):
        optim.LBFGS([w], line_search_fn="armijo")
    with pytest.raises(StructureError, match=r"got several groups\. Give all parameters in one"):
        optim.LBFGS([{"params": [w]}, {"params": [v]}])
    with pytest.raises(StructureError, match=r"LBFGS: step .*: got no closure\. Give a function"):
        optim.LBFGS([w]).step()
    optimizer = optim.LBFGS([w])
    closure = closure_of(optimizer, lambda: (w * w).sum())
    with pytest.raises(AbstractValueError, match="Compile the closure instead, and call step out"):
        wg.jit(lambda: optimizer.step(closure))()
