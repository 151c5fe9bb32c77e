"""What a step keeps for its pullback."""

from typing import NamedTuple

import numpy as np
import pytest

import wengert as wg
import wengert.numpy as wnp
from wengert import machine
from wengert.graph import Operator
from wengert.passes import optimise
from wengert.transforms import residuals
from wengert.transforms.loop import is_loop


def kept(step, start):
    """The shapes of the rows that the forward half of a scan keeps."""
    traced = wg.trace(wg.grad(lambda x: wnp.sum(wg.scan(step, x, length=5)[0])), start)
    forward = next(node for node in traced.nodes if is_loop(node))
    assert isinstance(forward, Operator)
    body = forward.params["body"]
    return [t.shape for t in body.types[body.carry :]]


def test_small_steps_keep_the_fewest_bytes():
    """What is quickly computed again from where a step began is not kept, in whatever pieces."""

    def step(y, _):
        moved = wnp.stack([y[1], y[2], y[0]]) + 1.0
        twice = moved * 2.0
        return moved * twice + twice * twice * y, None

    assert kept(step, np.ones(3)) == [(3,)]


def test_rows_that_come_from_far_away_are_few():
    """Where rows do not stay near, quick values are computed again."""

    def step(y, _):
        middle = y + 0.1 * y * y
        return middle * wnp.concatenate([y[:1], middle[:-1]]) / 2 * y, None

    assert len(kept(step, np.ones(100))) > 1
    with machine.use(scans={"most_kept_near": 256}):
        assert kept(step, np.ones(100)) == [(100,)]


def test_long_chains_are_not_computed_again():
    """A sum of many terms is kept, though all of them could be computed again."""

    def step(y, _):
        total = y
        for n in range(9):
            total = total + y * (n + 0.5)
        return total * total, None

    assert kept(step, np.ones(3)) == [(3,)]
    traced = wg.trace(wg.grad(lambda x: wnp.sum(wg.scan(step, x, length=5)[0])), np.ones(3))
    backward = [node for node in traced.nodes if is_loop(node)][-1].params["body"].graph
    assert len(backward.operators) < 30


def test_what_takes_long_is_kept():
    step = lambda y, _: (wnp.exp(y) * 0.1 + y * y, None)
    assert kept(step, np.ones(3)) == [(3,), (3,)]  # the carry and its exponential


def test_the_nearest_of_equal_cuts():
    """What is kept is computed again as little as possible."""
    step = lambda y, _: (wnp.sin((y + 1.0) * 2.0), None)
    traced = wg.trace(wg.grad(lambda x: wg.scan(step, x, length=5)[0]), 0.5)
    loops = [node for node in traced.nodes if is_loop(node)]
    backward = loops[-1].params["body"].graph
    assert len(loops) == 2
    assert not any(node.op.name == "add" for node in backward.operators)


def backward_of(f, *args):
    """The body of the last loop in the gradient of a function."""
    traced = optimise(wg.trace(wg.grad(f), *args))
    return [node for node in traced.nodes if is_loop(node)][-1].params["body"]


def test_what_the_end_is_decided_by_has_no_cotangent():
    """How far a step went is carried along, and nothing that is differentiated depends on it."""

    def step(state, _):
        x = state[0]
        new = wnp.cos(x)
        return (new, wnp.max(wnp.abs(new - x)), x), None

    def end(x):
        return wnp.sum(wg.scan(step, (x, 1.0, x), length=5)[0][0] ** 2)

    body = backward_of(end, np.ones(3))
    assert body.carry == 1
    assert body.rows == 1  # the step's own x, and nothing of the distance
    slopes = np.ones(3)
    x = np.ones(3)
    for _ in range(5):
        slopes, x = -np.sin(x) * slopes, np.cos(x)
    np.testing.assert_allclose(wg.grad(end)(np.ones(3)), 2 * x * slopes, rtol=1e-14)


def test_what_reaches_the_result_in_a_later_step_has_a_cotangent():
    """Carries that are shifted through each other: none is used in the step that it comes from."""

    def step(state, i):
        a, b, c = state
        return (wnp.sin(b), wnp.cos(c), a * i), None

    def end(x):
        return wg.scan(step, (x, x * x, x * x * x), np.arange(1.0, 5.0))[0][0]

    x = 0.7
    assert backward_of(end, x).carry == 3
    np.testing.assert_allclose(wg.grad(end)(x), wg.grad(wg.jit(end))(x))
    h = 1e-6
    np.testing.assert_allclose(wg.grad(end)(x), (end(x + h) - end(x - h)) / (2 * h), rtol=1e-8)


class Value(NamedTuple):
    """What the smallest cut asks of a node."""

    serial: int
    inputs: tuple
    bytes: float
    time: float


def random_values(seed, count):
    rng, values = np.random.default_rng(seed), []
    for serial in range(count):
        sources = rng.permutation(serial)[: rng.integers(0, 4)]
        time = np.inf if rng.random() < 0.2 or not len(sources) else float(rng.integers(0, 5))
        values.append(
            Value(serial, tuple(values[k] for k in sources), float(rng.integers(1, 9)), time)
        )
    frontier = [values[k] for k in rng.permutation(count)[: 1 + count // 4]]
    return values, {value.serial: value for value in frontier}


def smallest_cut(frontier):
    time = lambda value: value.time
    always = lambda value: True
    region = residuals._region(frontier, always, time)
    return residuals._smallest_cut(frontier, region, always, lambda value: value.bytes, time)


def cost(kept, frontier):
    """What it takes to keep these and to compute the frontier of them."""
    computed, pending = {}, [value for value in frontier if value not in kept]
    while pending:
        value = pending.pop()
        if value.serial not in computed:
            computed[value.serial] = value
            pending += [source for source in value.inputs if source not in kept]
    times = sum(value.time for value in computed.values())
    return sum(value.bytes for value in kept) + times


@pytest.mark.parametrize("seed", range(20))
def test_no_other_values_take_fewer_bytes_and_time(seed):
    values, frontier = random_values(seed, 10)
    found = smallest_cut(frontier)
    assert set(found) <= set(values)
    every = (
        [value for k, value in enumerate(values) if choice >> k & 1]
        for choice in range(2 ** len(values))
    )
    assert cost(found, frontier.values()) == min(cost(kept, frontier.values()) for kept in every)


def test_many_values_are_looked_through_a_few_times(monkeypatch):
    searches, search = [], residuals._steps
    monkeypatch.setattr(residuals, "_steps", lambda room: searches.append(1) or search(room))
    _, frontier = random_values(0, 2000)
    assert smallest_cut(frontier)
    assert len(searches) < 50
