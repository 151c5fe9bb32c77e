"""`wengert.scipy.integrate` beside SciPy: values, derivatives, batches, compiled."""

import numpy as np
import pytest
import scipy.integrate

import wengert as wg
from wengert.scipy import integrate

TIMES = np.linspace(0.0, 3.0, 7)


def oscillator(t, y, rate=1.3, force=0.4):
    """Van der Pol's, with a push."""
    return np.stack([y[1], rate * (1 - y[0] ** 2) * y[1] - y[0] + force * np.sin(t)])


START = np.array([0.5, -0.3])
FINE = {"rtol": 1e-11, "atol": 1e-11}


@pytest.mark.parametrize("method", ["RK45", "RK23"])
@pytest.mark.parametrize("span", [(0.0, 3.0), (3.0, 0.0)])
@pytest.mark.parametrize("tolerances", [{}, {"rtol": 1e-6, "atol": np.array([1e-9, 1e-7])}])
def test_solve_ivp_makes_scipys_steps(method, span, tolerances):
    times = TIMES if span[0] < span[1] else TIMES[::-1]
    options = {"method": method, "args": (2.0,), **tolerances}
    expected = scipy.integrate.solve_ivp(oscillator, span, START, t_eval=times, **options)
    for solve in (
        lambda y: integrate.solve_ivp(oscillator, span, y, t_eval=times, **options),
        wg.jit(lambda y: integrate.solve_ivp(oscillator, span, y, t_eval=times, **options)),
    ):
        found = solve(START)
        np.testing.assert_allclose(found.y, expected.y, rtol=1e-12, atol=1e-12)
        np.testing.assert_array_equal(found.t, expected.t)
        assert found.nfev == expected.nfev
        assert found.success
        assert found.message == expected.message


def test_many_times_inside_of_jit():
    times = np.linspace(0, 3, 300)
    found = wg.jit(lambda y: integrate.solve_ivp(oscillator, (0, 3), y, t_eval=times).y)(START)
    expected = scipy.integrate.solve_ivp(oscillator, (0, 3), START, t_eval=times).y
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


def test_without_times_there_are_those_of_the_steps():
    expected = scipy.integrate.solve_ivp(oscillator, (0, 3), START, first_step=0.1, max_step=0.4)
    found = integrate.solve_ivp(oscillator, (0, 3), START, first_step=0.1, max_step=0.4)
    np.testing.assert_allclose(found.t, expected.t, rtol=1e-12)
    np.testing.assert_allclose(found.y, expected.y, rtol=1e-12)
    wg.check_grads(
        lambda y: integrate.solve_ivp(oscillator, (0, 1), y, max_step=0.1).y[:, -1], (START,)
    )


def test_vectorized_functions_get_columns():
    column = lambda t, y: np.array([-1.0, -2.0])[:, None] * y
    found = integrate.solve_ivp(column, (0, 1), START, t_eval=[1.0], vectorized=True, **FINE)
    np.testing.assert_allclose(found.y[:, 0], START * np.exp([-1.0, -2.0]), rtol=1e-6)


def test_odeint_is_as_exact_as_scipys():
    exact = {"tfirst": True, "rtol": 1e-12, "atol": 1e-13}
    expected = scipy.integrate.odeint(oscillator, START, TIMES, (2.0,), **exact)
    found = integrate.odeint(oscillator, START, TIMES, (2.0,), tfirst=True)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    finer = integrate.odeint(oscillator, START, TIMES, (2.0,), **exact)
    np.testing.assert_allclose(finer, expected, rtol=1e-8, atol=1e-8)
    turned = lambda y, t, rate: oscillator(t, y, rate)
    np.testing.assert_array_equal(integrate.odeint(turned, START, TIMES, (2.0,)), found)


@pytest.mark.parametrize("order", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_derivatives_by_all_arguments(order):
    times = np.array([0.2, 0.7, 1.1]) if order == 1 else np.array([0.2, 0.35])

    def solution(y, times, rate, force):
        args = (rate, force)
        return integrate.odeint(oscillator, y, times, args, tfirst=True, **FINE)[1:]

    wg.check_grads(solution, (START, times, 1.3, 0.4), order=order)


def test_second_derivatives():
    def end(y, rate):
        return integrate.odeint(lambda y, t: -rate * y, y, [0.0, 0.3], rtol=1e-9)[-1]

    wg.check_grads(end, (1.5, 0.8), order=2)


def test_derivatives_by_the_interval_and_by_what_is_outside():
    def end(rate, first, last):
        inner = lambda t, y: -rate * np.cos(t) * y
        return integrate.solve_ivp(inner, (first, last), [2.0], t_eval=[last], **FINE).y[0, 0]

    rate, first, last = 0.7, 0.1, 1.4
    exact = 2 * np.exp(-rate * (np.sin(last) - np.sin(first)))
    assert end(rate, first, last) == pytest.approx(exact, rel=1e-9)
    found = wg.grad(end, argnums=(0, 1, 2))(rate, first, last)
    expected = (
        -exact * (np.sin(last) - np.sin(first)), exact * rate * np.cos(first),
        -exact * rate * np.cos(last),
    )  # fmt: skip
    np.testing.assert_allclose(found, expected, rtol=1e-8)


@pytest.mark.parametrize("many", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_compiled_gradients_and_batches(many):
    def loss(y, rate):
        return np.sum(integrate.odeint(oscillator, y, TIMES, (rate,), tfirst=True)[-1] ** 2)

    gradient = wg.grad(loss, argnums=(0, 1))
    if not many:
        plain = gradient(START, 1.3)
        for one, other in zip(wg.jit(gradient)(START, 1.3), plain, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-9)
        return
    starts = np.stack([START, 3 * START, -START])
    rates = np.array([0.5, 1.3, 2.0])
    found = wg.jit(wg.vmap(gradient))(starts, rates)
    for n in range(3):
        alone = gradient(starts[n], rates[n])
        np.testing.assert_allclose(found[0][n], alone[0], rtol=1e-9)
        np.testing.assert_allclose(found[1][n], alone[1], rtol=1e-9)


def test_states_of_any_shape_and_complex_ones():
    matrix = np.array([[0.0, 1.0], [-1.0, 0.0]])
    turned = integrate.odeint(lambda y, t: matrix @ y, np.eye(2), [0.0, np.pi / 2], **FINE)
    np.testing.assert_allclose(turned[-1], matrix, atol=1e-9)
    wave = integrate.odeint(lambda y, t: 1j * y, np.array([1.0 + 0j]), [0.0, np.pi], **FINE)
    np.testing.assert_allclose(wave[-1], [-1], atol=1e-9)
    assert integrate.odeint(lambda y, t: 1.0, 2, [0.0, 1.0])[-1] == pytest.approx(3.0)


def test_a_solution_that_ends_is_not_a_number_after_that():
    found = integrate.solve_ivp(lambda t, y: y**2, (0, 2), [1.0], t_eval=[0.5, 1.5])
    assert found.y[0, 0] == pytest.approx(2.0, rel=1e-2)
    assert np.isnan(found.y[0, 1])
    assert not found.success
    assert found.message == "Required step size is less than spacing between numbers."


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: integrate.solve_ivp(oscillator, (0, 1), START, method="BDF"), "got method='BDF'"),
        (lambda: integrate.solve_ivp(oscillator, (0, 1), np.eye(2)), r"got y0 of shape \(2, 2\)"),
        (
            lambda: integrate.solve_ivp(oscillator, (0, 1), START, t_eval=[0.5, 2.0]),
            "The times must lie in t_span and follow each other",
        ),
        (
            lambda: integrate.odeint(lambda y, t: y[:1], START, TIMES),
            r"the function gives shape \(1,\) for a state of shape \(2,\)",
        ),
        (lambda: integrate.odeint(oscillator, START, 1.0), r"got times of shape \(\)"),
        (
            lambda: wg.jit(lambda y: integrate.solve_ivp(oscillator, (0, 1), y).y)(START),
            "how many steps there will be is not known while tracing",
        ),
        (lambda: integrate.simpson(np.ones((2, 3)), np.ones(4)), r"got x of shape \(1, 4\) for y"),
    ],
)
def test_errors(call, text):
    with pytest.raises((ValueError, TypeError), match=text):
        call()


# ---------------------------------------------------------------- quadrature

SAMPLES = np.random.default_rng(0).normal(size=(3, 8))


@pytest.mark.parametrize("count", [2, 3, 4, 5, 8])
@pytest.mark.parametrize("axis", [0, -1])
@pytest.mark.parametrize("name", ["simpson", "cumulative_trapezoid", "trapezoid"])
@pytest.mark.parametrize("spaced", ["x", "dx", "whole x"])
def test_samples(count, axis, name, spaced):
    y = SAMPLES[:, :count] if axis else SAMPLES[:, :count].T
    x = np.cumsum(np.arange(1.0, count + 1))
    places = {"x": {"x": x}, "dx": {"dx": 0.3}}
    options = places.get(spaced) or {"x": np.broadcast_to(x if axis else x[:, None], y.shape) + 0}
    expected = getattr(scipy.integrate, name)(y, **options, axis=axis)
    function = lambda y, **given: getattr(integrate, name)(y, **given, axis=axis)
    np.testing.assert_allclose(function(y, **options), expected, rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(wg.jit(function)(y, **options), expected, rtol=1e-12, atol=1e-13)
    if spaced != "dx":
        wg.check_grads(lambda y, x: function(y, x=x), (y, options["x"]), order=2)


def test_more_of_samples():
    y = np.arange(4)
    assert integrate.simpson(y) == pytest.approx(scipy.integrate.simpson(y), rel=1e-14)
    expected = scipy.integrate.cumulative_trapezoid(SAMPLES, initial=0)
    np.testing.assert_allclose(integrate.cumulative_trapezoid(SAMPLES, initial=0), expected)


INTEGRALS = [
    (lambda x, k: np.exp(-k * x) * np.sin(3 * x), 0.2, 2.0),
    (lambda x, k: 1 / (1e-4 + (x - 0.3 * k) ** 2), 0.0, 1.0),
    (lambda x, k: np.abs(x - k / 5) ** 3, 1.0, -1.0),
    (lambda x, k: np.exp(-k * x**2), 0.5, np.inf),
    (lambda x, k: np.exp(k * x), -np.inf, 1.0),
    (lambda x, k: np.exp(-k * (x - 1) ** 2), -np.inf, np.inf),
    (lambda x, k: np.exp(-k * (x - 1) ** 2), np.inf, -np.inf),
    (lambda x, k: np.exp(-k * x), np.inf, 0.5),
]


@pytest.mark.parametrize(("f", "a", "b"), INTEGRALS)
def test_quad(f, a, b):
    expected, _ = scipy.integrate.quad(f, a, b, (1.1,), epsabs=1e-13, epsrel=1e-13)
    value, error = integrate.quad(f, a, b, (1.1,))
    assert abs(value - expected) <= error + 1e-13
    integral = lambda k: integrate.quad(f, a, b, (k,))[0]
    assert wg.jit(integral)(1.1) == pytest.approx(float(value), rel=1e-13)
    h = 1e-4
    ends = [scipy.integrate.quad(f, a, b, (1.1 + d,), epsabs=1e-13, epsrel=1e-13) for d in (h, -h)]
    slope = (ends[0][0] - ends[1][0]) / (2 * h)
    assert wg.grad(integral)(1.1) == pytest.approx(slope, rel=1e-5)
    assert wg.jvp(integral, (1.1,), (1.0,))[1] == pytest.approx(wg.jit(wg.grad(integral))(1.1))


def test_quad_to_rounding_and_by_its_ends():
    value, _ = integrate.quad(np.cos, 0.0, 1.0)
    assert value == pytest.approx(np.sin(1.0), rel=1e-15)
    ends = wg.grad(lambda a, b: integrate.quad(lambda x: np.exp(x), a, b)[0], argnums=(0, 1))
    np.testing.assert_allclose(ends(0.2, 1.5), [-np.exp(0.2), np.exp(1.5)], rtol=1e-12)
    wg.check_grads(lambda a, b: integrate.quad(lambda x: np.exp(x) * a, a, b)[0], (0.2, 1.5))
    each = wg.vmap(lambda b: integrate.quad(lambda x: np.abs(np.cos(x)), 0.0, b)[0])
    np.testing.assert_allclose(
        each(np.array([1.0, 6.0])), [np.sin(1.0), 4 + np.sin(6.0)], rtol=1e-8
    )


def test_fixed_quad():
    f = lambda x, k: np.exp(-k * x)
    expected, _ = scipy.integrate.fixed_quad(f, 0.1, 2.0, (0.7,), n=7)
    assert integrate.fixed_quad(f, 0.1, 2.0, (0.7,), n=7)[0] == pytest.approx(expected, rel=1e-14)
    wg.check_grads(lambda a, b, k: integrate.fixed_quad(f, a, b, (k,))[0], (0.1, 2.0, 0.7))


def test_names_are_scipys():
    own = {"OdeResult"}
    assert [n for n in integrate.__all__ if not hasattr(scipy.integrate, n) and n not in own] == []


# ---------------------------------------------------------------- stiff equations


def kinetics(t, y, rates):
    """Robertson's three reactions, of rates that are far from each other."""
    slow, middle, fast = rates[0] * y[0], rates[1] * y[1] * y[2], rates[2] * y[1] * y[1]
    return np.array([middle - slow, slow - middle - fast, fast])


RATES = np.array([0.04, 1e4, 3e7])


def at_the_end(rates):
    times, start = np.array([0.5, 40.0]), np.array([1.0, 0.0, 0.0])
    options = {"method": "Radau", "t_eval": times, "rtol": 1e-8, "atol": 1e-11}
    return integrate.solve_ivp(kinetics, (0.0, 40.0), start, args=(rates,), **options).y


@pytest.mark.slow
def test_radau_solves_stiff_equations():
    exact = scipy.integrate.solve_ivp(
        kinetics, (0, 40), [1, 0, 0], "Radau", [0.5, 40], args=(RATES,), rtol=1e-11, atol=1e-14
    )
    found, slopes = wg.jit(lambda rates: wg.jvp(at_the_end, (rates,), (rates,)))(RATES)
    np.testing.assert_allclose(found, exact.y, rtol=1e-6)
    # rates that are all larger are another unit of time
    np.testing.assert_allclose(slopes[:, 1], 40 * kinetics(40, found[:, 1], RATES), rtol=1e-5)


def test_derivatives_through_radaus_steps():
    """Of y' = -k y they are known, to second order."""

    def end(k):
        options = {"method": "Radau", "t_eval": [1.0], "rtol": 1e-8, "atol": 1e-12}
        return integrate.solve_ivp(lambda t, y: -k * y * y, (0.0, 1.0), [1.0], **options).y[0, 0]

    np.testing.assert_allclose(end(2.0), 1 / 3, rtol=1e-7)
    np.testing.assert_allclose(wg.grad(end)(2.0), -1 / 9, rtol=1e-6)
    np.testing.assert_allclose(wg.grad(wg.grad(end))(2.0), 2 / 27, rtol=1e-5)


def test_backward_and_all_steps_of_radau():
    found = integrate.solve_ivp(lambda t, y: -y, (1.0, 0.0), [1.0], "Radau", rtol=1e-6)
    assert found.t[0] == 1 and found.t[-1] == 0 and found.success
    np.testing.assert_allclose(found.y[0], np.exp(1 - found.t), rtol=1e-4)


@pytest.mark.parametrize("method", ["BDF", "LSODA", "DOP853"])
def test_methods_that_are_not_there(method):
    with pytest.raises(
        wg.errors.OptionError, match=rf"got method='{method}'.*'Radau' is for stiff equ"
    ):
        integrate.solve_ivp(lambda t, y: -y, (0, 1), [1.0], method)
    with pytest.raises(wg.errors.OptionError, match=r"got a complex y0 for method='Radau'"):
        integrate.solve_ivp(lambda t, y: -y, (0, 1), [1j], "Radau")
