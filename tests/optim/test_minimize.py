"""minimize: SciPy's methods with exact derivatives, on trees, with bounds and constraints."""

import sys

import numpy as np
import pytest

import wengert as wg
from wengert import nn
from wengert.errors import DTypeError, MissingPackageError, OptionError, StructureError

optimize = pytest.importorskip("scipy.optimize")

START = np.array([1.3, 0.7, 0.8, 1.9])


def rosenbrock(x):
    return np.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)


METHODS = """
    Nelder-Mead CG BFGS L-BFGS-B TNC SLSQP Newton-CG dogleg trust-ncg trust-krylov trust-exact
    trust-constr
"""


def bowl(x):
    return np.sum(np.cosh(x - 1.0))


@pytest.mark.parametrize("method", METHODS.split())
def test_every_method(method):
    f = bowl if method == "dogleg" else rosenbrock  # dogleg is for convex functions
    options = {"maxiter": 2000} if method == "Nelder-Mead" else {}
    result = wg.minimize(f, START, method=method, options=options, tol=1e-8)
    assert result.success
    np.testing.assert_allclose(result.x, 1.0, atol=1e-4)


@pytest.mark.parametrize("method", ["BFGS", "L-BFGS-B", "SLSQP", "CG"])
def test_fewer_evaluations_than_by_differences(method):
    calls, exact = [], 0

    def counted(x):
        calls.append(1)
        return optimize.rosen(x)

    for k in range(8):  # the way that one of them takes is a matter of rounding
        optimize.minimize(counted, START + 0.01 * k, method=method)
        exact += wg.minimize(rosenbrock, START + 0.01 * k, method=method).nfev
    assert exact * 3 < len(calls)


def test_exact_derivatives_reach_SciPy(monkeypatch):
    seen = {}
    original = optimize.minimize

    def spy(fun, x0, **kwargs):
        seen.update(kwargs, fun=fun)
        return original(fun, x0, **kwargs)

    monkeypatch.setattr(optimize, "minimize", spy)
    wg.minimize(rosenbrock, START, method="trust-ncg")
    value, gradient = seen["fun"](START)
    np.testing.assert_allclose(value, optimize.rosen(START), rtol=1e-12)
    np.testing.assert_allclose(gradient, optimize.rosen_der(START), rtol=1e-12)
    v = np.arange(4.0)
    np.testing.assert_allclose(
        seen["hessp"](START, v), optimize.rosen_hess_prod(START, v), rtol=1e-12
    )
    wg.minimize(rosenbrock, START, method="trust-exact")
    np.testing.assert_allclose(seen["hess"](START), optimize.rosen_hess(START), rtol=1e-12)


def test_a_function_is_traced_once():
    calls = []

    def f(x):
        calls.append(1)
        return np.sum((x - 3.0) ** 4)

    result = wg.minimize(f, np.zeros(3))
    assert result.nit > 3 and len(calls) == 1


# ---------------------------------------------------------------- trees and arguments


def test_a_tree_comes_back_as_it_went_in():
    x = np.linspace(0, 1, 20)
    target = 2.0 * np.exp(-1.5 * x) + 0.3

    def misfit(p, x, y):
        curve = p["scale"] * np.exp(-p["rate"] * x) + p["rest"][0]
        return np.sum((curve - y) ** 2)

    start = {"scale": 1.0, "rate": np.float32(1.0), "rest": [np.zeros(1)]}
    result = wg.minimize(misfit, start, args=(x, target), tol=1e-10)
    assert sorted(result.x) == ["rate", "rest", "scale"]
    assert result.x["rate"].dtype == np.float32 and result.x["rest"][0].shape == (1,)
    np.testing.assert_allclose(result.x["scale"], 2.0, rtol=1e-3)
    np.testing.assert_allclose(result.x["rate"], 1.5, rtol=1e-3)
    np.testing.assert_allclose(result.x["rest"][0], [0.3], rtol=1e-2)
    assert np.shape(result.jac["rest"][0]) == (1,)


def test_one_argument_needs_no_tuple():
    assert wg.minimize(lambda x, a: (x - a) ** 2, 0.0, args=3.0).x == pytest.approx(3.0)


@pytest.mark.parametrize("x0", [[1, 2.0], (1.0, 2.0)])
def test_a_list_of_numbers_is_an_array(x0):
    result = wg.minimize(lambda x: np.sum((x[1:] - x[:-1] - 1) ** 2) + x[0] ** 2, x0)
    assert isinstance(result.x, np.ndarray)
    np.testing.assert_allclose(result.x, [0.0, 1.0], atol=1e-5)


def test_a_module():
    class Line(nn.Module):
        def __init__(self):
            self.slope, self.offset = nn.Parameter([0.0]), nn.Parameter([0.0])

        def forward(self, x):
            return x * self.slope + self.offset

    model, x = Line(), np.linspace(-1, 1, 9)
    result = wg.minimize(lambda m: np.sum((m(x) - 2 * x - 1) ** 2), model)
    np.testing.assert_allclose(result.x(np.array([1.0, 2.0])), [3.0, 5.0], atol=1e-5)
    assert model.slope.item() == 0.0


def test_shapes():
    a = np.arange(6.0).reshape(2, 3)
    result = wg.minimize(lambda x: np.sum((x - a) ** 2), np.zeros((2, 3)))
    np.testing.assert_allclose(result.x, a, atol=1e-6)
    assert result.jac.shape == (2, 3)


# ---------------------------------------------------------------- bounds and constraints


@pytest.mark.parametrize(
    "bounds",
    [
        (None, 0.5),
        (np.full(3, -9.0), np.full(3, 0.5)),
        [(None, 0.5)] * 3,
        optimize.Bounds(-9.0, 0.5),
    ],
    ids=["numbers", "arrays", "pairs", "Bounds"],
)
def test_bounds(bounds):
    result = wg.minimize(lambda x: np.sum((x - np.arange(3.0)) ** 2), np.zeros(3), bounds=bounds)
    np.testing.assert_allclose(result.x, [0.0, 0.5, 0.5], atol=1e-6)


def test_pairs_for_two_numbers_are_SciPys():
    result = wg.minimize(lambda x: np.sum(x), np.zeros(2), bounds=((-1, 1), (-2, 2)))
    np.testing.assert_allclose(result.x, [-1.0, -2.0])


def test_bounds_of_a_tree():
    start = {"a": np.zeros(2), "b": 0.0}
    result = wg.minimize(
        lambda p: np.sum((p["a"] - 2) ** 2) + (p["b"] + 5) ** 2,
        start,
        bounds=({"a": -1.0, "b": -1.0}, {"a": np.array([1.0, 9.0]), "b": 1.0}),
    )
    np.testing.assert_allclose(result.x["a"], [1.0, 2.0], atol=1e-6)
    np.testing.assert_allclose(result.x["b"], -1.0, atol=1e-6)


def circle(x):
    return x["u"] ** 2 + x["v"] ** 2


@pytest.mark.parametrize("method", ["SLSQP", "trust-constr"])
@pytest.mark.parametrize("kind", ["dict", "nonlinear"])
def test_nonlinear_constraints(method, kind):
    """The lowest point of u + 2 v on the unit disc."""
    calls = []

    def disc(x):
        calls.append(1)
        return 1.0 - circle(x)

    if kind == "dict":
        constraint = {"type": "ineq", "fun": disc}
    else:
        constraint = [optimize.NonlinearConstraint(disc, 0.0, np.inf)]
    start = {"u": 0.1, "v": 0.1}
    result = wg.minimize(
        lambda x: x["u"] + 2 * x["v"], start, method=method, constraints=constraint
    )
    found = [float(result.x["u"]), float(result.x["v"])]
    np.testing.assert_allclose(found, -np.array([1.0, 2.0]) / np.sqrt(5), atol=2e-3)
    assert len(calls) <= 3  # traced for value, Jacobian and Hessian, and then compiled


def test_linear_and_several_constraints():
    """The point closest to the origin on a line, and on a plane with arguments."""
    linear = optimize.LinearConstraint(np.array([[1.0, 1.0, 0.0]]), 2.0, 2.0)
    plane = {"type": "eq", "fun": lambda x, a: (x[2] - a, x[0] - x[1]), "args": (3.0,)}
    result = wg.minimize(lambda x: np.sum(x**2), np.zeros(3), constraints=[linear, plane])
    np.testing.assert_allclose(result.x, [1.0, 1.0, 3.0], atol=1e-6)


# ---------------------------------------------------------------- callbacks, own derivatives


def test_callbacks():
    seen = []
    tree = {"x": np.zeros(2)}
    f = lambda p: np.sum((p["x"] - 1) ** 4)
    wg.minimize(f, tree, callback=lambda p: seen.append(p["x"].shape))
    assert seen and set(seen) == {(2,)}
    values = []

    def callback(intermediate_result):
        values.append((intermediate_result.fun, intermediate_result.x["x"].shape))

    wg.minimize(f, tree, callback=callback)
    assert values[-1][0] < values[0][0] and values[0][1] == (2,)
    steps = []
    wg.minimize(
        f,
        tree,
        method="trust-constr",
        callback=lambda p, state: steps.append((p["x"].shape, state.nit)),
    )
    assert steps[0] == ((2,), 1)


def test_a_callback_can_stop():
    def callback(intermediate_result):
        raise StopIteration

    assert wg.minimize(rosenbrock, START, callback=callback).nit == 1


def test_derivatives_of_ones_own():
    given = wg.minimize(rosenbrock, START, jac=optimize.rosen_der, method="BFGS")
    np.testing.assert_allclose(given.x, wg.minimize(rosenbrock, START).x, atol=1e-4)
    differences = wg.minimize(rosenbrock, START, jac="2-point")
    assert differences.nfev > 3 * given.nfev
    newton = wg.minimize(rosenbrock, START, method="trust-exact", hess=optimize.rosen_hess)
    assert newton.success
    without = wg.minimize(rosenbrock, START, method="Newton-CG", hess=None)
    assert without.nhev == 0


# ---------------------------------------------------------------- errors


def refused(error, text, *args, **kwargs):
    with pytest.raises(error) as caught:
        wg.minimize(*args, **kwargs)
    assert str(caught.value).split("): ")[-1] == text


def test_errors(monkeypatch):
    refused(
        DTypeError,
        "x0 holds complex128, expected real numbers. "
        "Split complex numbers into real and imaginary parts.",
        rosenbrock,
        np.zeros(2, complex),
    )
    refused(
        OptionError,
        'jac=True, but f gives its value alone here. Leave jac at "exact": the gradient is '
        "derived from f.",
        rosenbrock,
        START,
        jac=True,
    )
    refused(StructureError, "x0 holds no numbers. Give the point to start from.", rosenbrock, {})
    refused(
        OptionError,
        "got the method 'newton'. Choose one of bfgs, cg, cobyla, cobyqa, dogleg, l-bfgs-b, "
        "nelder-mead, newton-cg, powell, slsqp, tnc, trust-constr, trust-exact, trust-krylov, "
        "trust-ncg.",
        rosenbrock,
        START,
        method="newton",
    )
    refused(
        StructureError,
        'got 3 as a constraint. Give {"type": "eq" or "ineq", "fun": function}, or SciPy\'s '
        "LinearConstraint or NonlinearConstraint.",
        rosenbrock,
        START,
        constraints=3,
    )
    monkeypatch.setitem(sys.modules, "scipy.optimize", None)
    refused(
        MissingPackageError,
        "SciPy is not installed. Install it: pip install scipy, or pip install 'wengert[sparse]'.",
        rosenbrock,
        START,
    )
