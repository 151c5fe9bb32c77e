"""Variables and attributes that change places in every turn: so many turns are one that all are
back where they were."""

import numpy as np
import pytest

import wengert as wg

X = np.random.default_rng(0).normal(size=6)


class Field:
    def __init__(self, values):
        self.values = values


class Simulation:
    def __init__(self, x):
        self.now, self.new, self.turns = x.copy(), np.zeros_like(x), 0

    def step(self):
        for i in range(1, len(self.now) - 1):
            self.new[i] = 0.5 * self.now[i] + 0.25 * (self.now[i - 1] + self.now[i + 1])
        self.now, self.new = self.new, self.now
        self.turns += 1


def objects(x):
    one, other = Field(x.copy()), Field(0.5 * x)
    for k in range(31):
        other.values = 0.9 * np.sin(one.values) + 0.01 * k * other.values
        one, other = other, one
    return np.sum(one.values**2) + np.sum(other.values) + k


def attributes(x):
    simulation = Simulation(np.concatenate([x, x]))
    for _ in range(30):
        simulation.step()
    return np.sum(simulation.now**2) + np.sum(simulation.new) * simulation.turns


def lists(x):
    now, new = list(np.concatenate([x, x])), [0.0] * 12
    for _ in range(33):
        for i in range(1, 11):
            new[i] = now[i] + 0.1 * (now[i - 1] - 2 * now[i] + now[i + 1])
        now, new = new, now
    return sum(v * v for v in now) + sum(new)


def three_objects(x):
    before, now, new = Field(0.9 * x), Field(x.copy()), Field(x * 0)
    for k in range(32):
        new.values = 1.9 * now.values - before.values + 0.01 * np.sin(k * now.values)
        before, now, new = now, new, before
    return np.sum(now.values**2) + np.sum(before.values) + np.sum(new.values)


def kept_by_another_name(x):
    one, other = Field(x.copy()), Field(0.5 * x)
    first = one
    for _ in range(31):
        other.values = 0.9 * np.sin(one.values) + 0.1 * first.values
        one, other = other, one
    return np.sum(one.values**2) + np.sum(first.values)


def dictionaries(x):
    one, other = {"x": x[0], "v": x[1]}, {"x": 0.0, "v": 0.0}
    for _ in range(31):
        other["v"] = one["v"] - 0.1 * np.sin(one["x"])
        other["x"] = one["x"] + 0.1 * other["v"]
        one, other = other, one
    return one["x"] ** 2 + other["v"]


def left_early(x):
    one, other = Field(x.copy()), Field(0.5 * x)
    for k in range(31):
        other.values = 0.9 * np.sin(one.values) + 0.01 * k
        one, other = other, one
        if k == 20:
            break
    return np.sum(one.values**2) + np.sum(other.values)


@pytest.mark.parametrize(
    ("f", "most"),
    [
        (objects, 90),
        (attributes, 90),
        (lists, 200),
        (three_objects, 150),
        (kept_by_another_name, 1000),
        (dictionaries, 90),
        (left_early, 1000),
    ],
    ids=lambda one: getattr(one, "__name__", ""),
)
def test_values_gradients_and_size(f, most):
    compiled = wg.jit(wg.value_and_grad(f))
    value, gradient = compiled(X)
    np.testing.assert_allclose(value, f(X), rtol=1e-12)
    along, step = np.arange(6.0) - 2.2, 1e-6
    slope = (f(X + step * along) - f(X - step * along)) / (2 * step)
    np.testing.assert_allclose(gradient @ along, slope, rtol=1e-6, atol=1e-7)
    assert len(compiled.program(X).stages.graph.operators) < most
