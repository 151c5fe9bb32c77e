"""`wengert.scipy.interpolate` beside SciPy: values, derivatives, batches, compiled."""

import numpy as np
import pytest
import scipy.interpolate

import wengert as wg
from wengert.scipy import interpolate

RNG = np.random.default_rng(3)
X = np.cumsum(RNG.uniform(0.5, 1.5, size=6))
Y, YY = RNG.normal(size=6), RNG.normal(size=(2, 6, 3))
INSIDE = np.sort(RNG.uniform(X[0], X[-1], size=7))
ANYWHERE = np.array([[X[0] - 1.3, X[0], X[2]], [X[-1], X[-1] + 2.1, 0.5 * (X[1] + X[2])]])
PERIODIC = np.concatenate([Y[:-1], Y[:1]])


def both(name, *args, **options):
    return [getattr(one, name)(*args, **options) for one in (interpolate, scipy.interpolate)]


def check(make, x, y, places, order=2):
    """Values, compiled, derivatives by all arguments, batches."""
    function = lambda x, y, at: make(interpolate)(x, y)(at)
    expected = make(scipy.interpolate)(x, y)(places)
    np.testing.assert_allclose(function(x, y, places), expected, rtol=1e-12, atol=1e-12)
    compiled = wg.jit(function)(x, y, places)
    np.testing.assert_allclose(compiled, expected, rtol=1e-12, atol=1e-12)
    wg.check_grads(function, (x, y, places), order=order)
    many = wg.vmap(function)(np.stack([x, x + 1]), np.stack([y, y]), np.stack([places, places + 1]))
    np.testing.assert_allclose(many[1], expected, rtol=1e-11, atol=1e-11)


CURVES = {
    "pchip": lambda m: lambda x, y: m.PchipInterpolator(x, y),
    "akima": lambda m: lambda x, y: m.Akima1DInterpolator(x, y),
    "makima": lambda m: lambda x, y: m.Akima1DInterpolator(x, y, method="makima"),
    "hermite": lambda m: lambda x, y: m.CubicHermiteSpline(x, y, 0.5 * y),
    "spline": lambda m: lambda x, y: m.CubicSpline(x, y),
    "natural": lambda m: lambda x, y: m.CubicSpline(x, y, bc_type="natural"),
    "clamped": lambda m: lambda x, y: m.CubicSpline(x, y, bc_type="clamped"),
    "mixed": lambda m: lambda x, y: m.CubicSpline(x, y, bc_type=((1, 0.3), (2, -0.4))),
    "mixed words": lambda m: lambda x, y: m.CubicSpline(x, y, bc_type=("not-a-knot", "natural")),
}


@pytest.mark.parametrize("make", CURVES.values(), ids=list(CURVES))
def test_curves(make):
    check(make, X, Y, INSIDE)


@pytest.mark.parametrize("make", [CURVES["spline"], CURVES["pchip"], CURVES["natural"]])
@pytest.mark.parametrize("count", [2, 3, 4])
def test_curves_through_few_points(make, count):
    places = X[0] + np.array([0.1, 0.4])
    check(make, X[:count], Y[:count], places, order=1)


@pytest.mark.parametrize("count", [2, 3, 4, 6])
def test_periodic_splines(count):
    y = np.concatenate([Y[: count - 1], Y[:1]])
    make = lambda m: lambda x, y: m.CubicSpline(x, y, bc_type="periodic")
    expected = make(scipy.interpolate)(X[:count], y)(ANYWHERE)
    np.testing.assert_allclose(make(interpolate)(X[:count], y)(ANYWHERE), expected, atol=1e-12)
    ends = lambda y: np.concatenate([y, y[:1]])
    wg.check_grads(lambda x, y: make(interpolate)(x, ends(y))(INSIDE), (X[:count], Y[: count - 1]))


@pytest.mark.parametrize("name", ["CubicSpline", "PchipInterpolator", "Akima1DInterpolator"])
@pytest.mark.parametrize("extrapolate", [None, True, False, "periodic"])
def test_outside_and_axes(name, extrapolate):
    mine, theirs = both(name, X, YY, axis=1, extrapolate=extrapolate)
    found, expected = mine(ANYWHERE), theirs(ANYWHERE)
    assert found.shape == expected.shape == (2, 2, 3, 3)
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(mine(X[1] + 0.2), theirs(X[1] + 0.2), rtol=1e-12)


@pytest.mark.parametrize("name", ["CubicSpline", "PchipInterpolator"])
def test_derivatives_and_integrals_of_curves(name):
    mine, theirs = both(name, X, YY, axis=1)
    for nu in range(5):
        found, expected = mine(INSIDE, nu), theirs(INSIDE, nu)
        np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-12)
    for nu in (1, 2):
        found, expected = mine.derivative(nu)(ANYWHERE), theirs.derivative(nu)(ANYWHERE)
        np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-12)
        found, expected = mine.antiderivative(nu)(ANYWHERE), theirs.antiderivative(nu)(ANYWHERE)
        np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-12)
    a, b = X[0] - 0.5, X[3] + 0.1
    np.testing.assert_allclose(mine.integrate(a, b), theirs.integrate(a, b), rtol=1e-11)
    wg.check_grads(lambda y, b: interpolate.CubicSpline(X, y).integrate(X[0], b), (Y, b))


def test_many_points():
    x = np.linspace(0, 10, 300)
    spline = wg.jit(lambda x, y, at: interpolate.CubicSpline(x, y)(at))
    at = np.linspace(-0.1, 10.1, 1000)
    expected = scipy.interpolate.CubicSpline(x, np.sin(x))(at)
    np.testing.assert_allclose(spline(x, np.sin(x), at), expected, rtol=1e-11, atol=1e-12)


KINDS = ["linear", "nearest", "nearest-up", "previous", "next", "zero", "cubic"]


@pytest.mark.parametrize("kind", KINDS)
def test_interp1d(kind):
    steps = kind not in ("linear", "cubic")
    make = lambda m: lambda x, y: m.interp1d(x, y, kind)
    check(make, X, Y, INSIDE, order=1 if steps else 2)
    halves = np.concatenate([X, 0.5 * (X[1:] + X[:-1])])
    mine, theirs = both("interp1d", X, YY, kind, axis=1)
    np.testing.assert_allclose(mine(halves), theirs(halves), rtol=1e-12, atol=1e-12)
    shuffled = RNG.permutation(6)
    mine, theirs = both("interp1d", X[shuffled], Y[shuffled], kind)
    np.testing.assert_allclose(mine(INSIDE), theirs(INSIDE), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("fill", ["extrapolate", 7.0, (1.0, 2.0), "none"])
def test_interp1d_outside(kind, fill):
    options = {"bounds_error": False, "fill_value": np.nan if fill == "none" else fill}
    mine, theirs = both("interp1d", X, YY, kind, axis=1, **options)
    np.testing.assert_allclose(mine(ANYWHERE), theirs(ANYWHERE), rtol=1e-12, atol=1e-12)


GRID = (np.cumsum([0.3, 0.5, 1.1, 0.4]), np.cumsum([0.1, 0.9, 0.8]), np.array([0.0, 2.0]))
VALUES = RNG.normal(size=(4, 3, 2))
PLACES = np.stack([RNG.uniform(g[0], g[-1], size=5) for g in GRID], -1)


@pytest.mark.parametrize("method", ["linear", "nearest"])
def test_grids(method):
    def function(one, values, places):
        grid = (one, *GRID[1:])
        return interpolate.RegularGridInterpolator(grid, values, method)(places)

    expected = scipy.interpolate.RegularGridInterpolator(GRID, VALUES, method)(PLACES)
    np.testing.assert_allclose(function(GRID[0], VALUES, PLACES), expected, rtol=1e-12)
    np.testing.assert_allclose(wg.jit(function)(GRID[0], VALUES, PLACES), expected, rtol=1e-12)
    wg.check_grads(function, (GRID[0], VALUES, PLACES), order=2)
    many = wg.vmap(function, in_axes=(None, 0, None))(GRID[0], np.stack([VALUES, -VALUES]), PLACES)
    np.testing.assert_allclose(many[1], -expected, rtol=1e-12)
    np.testing.assert_allclose(interpolate.interpn(GRID, VALUES, PLACES, method), expected)


@pytest.mark.parametrize("method", ["linear", "nearest"])
@pytest.mark.parametrize("fill", [np.nan, 3.0, None])
def test_grids_outside_and_other_shapes(method, fill):
    more = RNG.normal(size=(4, 3, 2, 2))
    options = {"method": method, "bounds_error": False, "fill_value": fill}
    mine, theirs = both("RegularGridInterpolator", GRID, more, **options)
    far = np.concatenate([PLACES, PLACES + 1.5, np.stack([g[:2] for g in GRID], -1)])
    np.testing.assert_allclose(mine(far), theirs(far), rtol=1e-12, atol=1e-12)
    pairs = PLACES[:4].reshape(2, 2, 3)
    np.testing.assert_allclose(mine(pairs), theirs(pairs), rtol=1e-12)
    np.testing.assert_allclose(mine(PLACES[0]), theirs(PLACES[0]), rtol=1e-12)
    parts = tuple(PLACES.T)
    np.testing.assert_allclose(mine(parts), theirs(parts), rtol=1e-12)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: interpolate.CubicSpline(X, Y[:3]), r"got x of shape \(6,\) and y of shape \(3,\)"),
        (lambda: interpolate.CubicSpline(X[::-1], Y), "the places x do not ascend"),
        (lambda: interpolate.CubicSpline(X, Y, bc_type="free"), "got bc_type='free'"),
        (lambda: interpolate.CubicSpline(X, Y, bc_type="periodic"), "the first and the last value"),
        (lambda: interpolate.CubicSpline(X[:1], Y[:1]), "got 1 points, expected at least 2"),
        (lambda: interpolate.PPoly(np.ones((2, 3)), X), r"got c of shape \(2, 3\) and x of shape"),
        (lambda: interpolate.interp1d(X, Y)(X[-1] + 1), "got places outside of the points"),
        (lambda: interpolate.interp1d(X, Y, "quintic"), "got kind='quintic'"),
        (lambda: interpolate.RegularGridInterpolator(GRID, Y), r"values of shape \(6,\)"),
        (lambda: interpolate.interpn(GRID, VALUES, PLACES + 9), "got places outside of the grid"),
        (lambda: interpolate.interpn(GRID, VALUES, PLACES[:, :2]), "must have 3 numbers"),
        (lambda: interpolate.interpn(GRID, VALUES, PLACES, "slinear"), "got method='slinear'"),
    ],
)
def test_errors(call, text):
    with pytest.raises((ValueError, IndexError), match=text):
        call()


def test_plain_points_and_traced_places():
    for at in (INSIDE, INSIDE[0]):
        for make in CURVES.values():
            curve = make(interpolate)(X, Y)
            np.testing.assert_allclose(wg.jit(curve)(at), curve(at), rtol=1e-12)
    line = interpolate.interp1d(X, Y)
    np.testing.assert_allclose(wg.vmap(wg.grad(line))(INSIDE), np.diag(wg.jacobian(line)(INSIDE)))


def test_compiled_places_outside_are_not_numbers():
    line = wg.jit(lambda at: interpolate.interp1d(X, Y)(at))
    assert np.isnan(line(X[-1] + 1.0))
    grid = wg.jit(lambda at: interpolate.interpn(GRID, VALUES, at))
    assert np.isnan(grid(PLACES + 9)).all()


def test_names_are_scipys():
    assert [name for name in interpolate.__all__ if not hasattr(scipy.interpolate, name)] == []


@pytest.mark.parametrize("kind", ["linear", "nearest", "previous", "cubic"])
def test_interp1d_between_places_that_are_not_known(kind):
    shuffled = RNG.permutation(X.size)
    at = 0.5 * (X[1:] + X[:-1]) + 0.01
    f = lambda x, y: interpolate.interp1d(x, y, kind)(at)
    want = scipy.interpolate.interp1d(X, Y, kind)(at)
    np.testing.assert_allclose(wg.jit(lambda x: f(x, Y[shuffled]))(X[shuffled]), want, rtol=1e-12)
    np.testing.assert_allclose(wg.jit(lambda y: f(X[shuffled], y))(Y[shuffled]), want, rtol=1e-12)
    wg.check_grads(lambda x: f(x, Y), (X,), order=1)
