"""Modules as arguments of compiled functions are taken apart natively."""

import numpy as np
import pytest

import wengert as wg
import wengert.numpy as wnp
from wengert import nn, tree

X = np.ones((5, 4), np.float32)


def network():
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3))


def total(model, x):
    return wnp.sum(model(x) ** 2)


@pytest.fixture
def native(monkeypatch):
    """Calls made inside raise where they come to Python."""

    class Native:
        def __enter__(self):
            monkeypatch.setattr(tree, "flatten", self.fail)

        def __exit__(self, *_):
            monkeypatch.undo()

        @staticmethod
        def fail(*_):
            raise AssertionError("the call came to Python")

    return Native()


def test_a_module_is_read_natively(native):
    model, f = network(), wg.jit(total)
    expected = f(model, X)
    with native:
        assert f(model, X) == expected
    with wg.no_grad():
        for parameter in model.parameters():
            parameter *= 2.0
    with native:
        found = f(model, X)
    assert found != expected
    np.testing.assert_allclose(found, float(total(model, X)), rtol=1e-5)


def test_another_module_of_the_same_kind_is_read_natively(native):
    model, f = network(), wg.jit(total)
    gradient = wg.jit(wg.grad(total))(model, X)
    f(model, X)
    new = tree.map(lambda p, g: p - 0.01 * g, model, gradient)
    first = f(new, X)  # arrays in the place of parameters: an entry of its own
    newer = tree.map(lambda p, g: p - 0.01 * g, new, gradient)
    f(newer, X)  # the modes of a new module are seen by Python first
    with native:
        assert f(new, X) == first
        assert f(newer, X) < first


def test_what_a_program_depends_on_is_checked():
    model, f = network(), wg.jit(total)
    f(model, X)
    before = f(model, X)
    model[0].extra = 1.0
    assert f(model, X) == before
    other = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
    other.load_state_dict(model.state_dict())
    np.testing.assert_allclose(f(other, X), float(total(other, X)), rtol=1e-5)
    tied = network()
    tied[0].bias = tied[0].bias
    vars(tied)["1"] = vars(model)["1"]
    np.testing.assert_allclose(f(tied, X), float(total(tied, X)), rtol=1e-5)


def test_modes_are_checked(native):
    class Mode(nn.Module):
        def __init__(self):
            self.scale = nn.Parameter(np.array([3.0]))

        def forward(self, x):
            return x * self.scale if self.training else x

    model, f = Mode(), wg.jit(lambda m, x: m(x))
    x = np.array([2.0])
    assert f(model, x) == 6
    model.eval()
    assert f(model, x) == 2
    with native:
        assert f(model, x) == 2
    model.train()
    with native:
        assert f(model, x) == 6


def test_attributes_that_can_change_in_place_keep_calls_in_python():
    class Listed(nn.Module):
        def __init__(self):
            self.scale = nn.Parameter(np.array([3.0]))
            self.powers = [1]

        def forward(self, x):
            return sum(x * self.scale**n for n in self.powers)

    model, f = Listed(), wg.jit(lambda m, x: m(x))
    x = np.array([1.0])
    assert f(model, x) == f(model, x) == 3
    model.powers.append(2)
    assert f(model, x) == 12
