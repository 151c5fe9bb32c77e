"""Loops around code without loops: their values are in registers, and the results the same."""

import numpy as np
import pytest

import wengert as wg
import wengert.numpy as wnp
from wengert import machine
from wengert.codegen.registers import InRegisters, is_straight, written_out
from wengert.loops import Loop, Nest, inside, root

X = np.array([0.3, -0.7, 1.1])


def lorenz(state, x):
    """Runge and Kutta, with arrays that are put together of numbers."""

    def slope(y):
        first = x[0] * (y[1] - y[0])
        return wnp.stack([first, y[0] * (x[1] - y[2]) - y[1], y[0] * y[1] - x[2] * y[2]])

    k1 = slope(state)
    k2 = slope(state + 0.05 * k1)
    return state + 0.1 * (k1 + 2 * k2) / 3


def kepler(state, x):
    q, v = state[:2], state[2:]
    v = v - 0.01 * q / wnp.sqrt(q @ q) ** 3
    return wnp.concatenate([q + 0.01 * v, v * x[0]])


def rotation(state, x):
    r = state.reshape(3, 3)
    turn = wnp.array([[0.0, -x[2], x[1]], [x[2], 0.0, -x[0]], [-x[1], x[0], 0.0]])
    return (r + 0.01 * turn @ r + 0.01 * wnp.outer(x, wnp.cross(x, r[0]))).reshape(9)


def written(state, x):
    """Elements that are set, largest and chosen ones."""
    moved = wnp.concatenate([state[1:], state[:1]])
    moved = wnp.where(moved > 0.2, moved * 0.9, moved + wnp.max(wnp.abs(state)) * 0.1)
    return wnp.stack([moved[0] * x[0], wnp.min(moved), wnp.prod(moved), moved[1] + x[1]])


STEPS = {
    "lorenz": (lorenz, 3),
    "kepler": (kepler, 4),
    "rotation": (rotation, 9),
    "set": (written, 4),
}


def by_scan(step, start, x):
    def turn(state, i):
        new = step(state, x)
        return new, wnp.sum(new * i)

    state, rows = wg.scan(turn, start, np.arange(7.0))
    return wnp.sum(state**2) + wnp.sum(rows)


def by_while(step, start, x):
    def far(pair):
        return (wnp.sum(pair[0] ** 2) < 50.0) & (pair[1] < 9)

    state, turns = wg.while_loop(far, lambda p: (step(p[0], x), p[1] + 1), (start, 0))
    return wnp.sum(state**2) + turns


def nested(step, start, x):
    def turn(state, i):
        inner = wg.fori_loop(0, 3, lambda k, y: step(y, x) * 0.5, state)
        chosen = wg.cond(wnp.sum(inner) > 0, lambda y: y, lambda y: y * 0.5, inner)
        return wg.while_loop(lambda y: y[0] > 0.5, lambda y: y * 0.7, chosen), chosen[0]

    state, rows = wg.scan(turn, start, np.arange(5.0))
    return wnp.sum(state**2) + wnp.sum(rows)


MODES = {
    "value": lambda f: f,
    "gradient": lambda f: wg.value_and_grad(f, argnums=(0, 1)),
    "forward": lambda f: lambda s, x: wg.jvp(f, (s, x), (wnp.cos(s), wnp.sin(x))),
    "forward over reverse": lambda f: (
        lambda s, x: wg.jvp(lambda s, x: wg.grad(f, argnums=(0, 1))(s, x), (s, x), (s, x))
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("loop", [by_scan, by_while, nested], ids=lambda f: f.__name__)
@pytest.mark.parametrize("name", STEPS)
def test_every_mode(name, loop, mode):
    step, size = STEPS[name]
    f = MODES[mode](lambda start, x: loop(step, start, x))
    start = np.linspace(0.4, 1.3, size)
    found, wanted = wg.tree.leaves(wg.jit(f)(start, X)), wg.tree.leaves(f(start, X))
    for one, other in zip(found, wanted, strict=True):
        assert np.result_type(one) == np.result_type(other)
        np.testing.assert_allclose(one, other, rtol=1e-11, atol=1e-11)


def loops_of(f, *args):
    return [k for k in wg.jit(f).program(*args).stages.loops.kernels if isinstance(k, Loop)]


@pytest.mark.parametrize("name", STEPS)
def test_small_arrays_are_held(name):
    step, size = STEPS[name]
    f = lambda start: by_scan(step, start, X)
    start = np.linspace(0.4, 1.3, size)
    loops = loops_of(f, start)
    if name != "set":  # whose pullback puts back by places that depend on values
        loops += loops_of(wg.value_and_grad(f), start)
        assert len(loops) == 3
    for loop in loops:
        assert is_straight(loop)
        held = InRegisters(loop)
        assert all(map(held.holds, loop.carries))


def test_places_that_depend_on_values_are_in_memory():
    """What is read at a place that a turn computes cannot be in registers; the rest is."""

    def turn(i, pair):
        table, total = pair
        changed = table.copy()
        changed[i % 3] += total
        return changed, total + table[(i * 2) % 3]

    f = lambda table: wg.fori_loop(0, 20, turn, (table, 0.5))
    (loop,) = loops_of(f, X)
    held = InRegisters(loop)
    assert is_straight(loop)
    assert [carry.before.shape for carry in loop.carries if held.holds(carry)] == [(), ()]
    written = {root(store.buffer) for nest in loop.body for store in getattr(nest, "stores", ())}
    assert [buffer for buffer in written if buffer.shape and buffer in held.owners] == []
    for found, wanted in zip(wg.jit(f)(X), f(X), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-12)


def test_a_wide_step_stays_in_memory():
    f = lambda x: wg.fori_loop(0, 5, lambda i, y: wnp.tanh(y) + x, x)
    (loop,) = loops_of(f, np.ones(100))
    assert not is_straight(loop)


def test_no_turn_at_all():
    """A loop that is not entered leaves what it was given."""
    f = lambda x, n: wg.fori_loop(0, n, lambda i, y: kepler(y, X), x)
    start = np.arange(1.0, 5.0)
    np.testing.assert_array_equal(wg.jit(f)(start, 0), start)
    slope = wg.jit(wg.grad(lambda x, n: wnp.sum(f(x, n) ** 2)))(start, 0)
    np.testing.assert_array_equal(slope, 2 * start)


def test_any_dtype():
    """Booleans, integers and float32 are carried too."""

    def turn(i, state):
        x, n, flag = state
        return x * np.float32(0.5), n * 2 + i, (n > 5) & ~flag

    f = lambda x, n: wg.fori_loop(0, 6, turn, (x, n, wnp.sum(x) > 0))
    args = np.ones(2, np.float32), np.int64(1)
    for found, wanted in zip(wg.jit(f)(*args), f(*args), strict=True):
        assert found.dtype == wanted.dtype
        np.testing.assert_array_equal(found, wanted)


def test_branches_in_turns_are_held_too():
    """A descent with steps that are taken or not: all of it is one loop without memory."""

    def turn(state):
        x, rate, count = state
        new = x - rate * 2 * x
        smaller = wnp.sum(new**2) < wnp.sum(x**2)
        return wg.cond(smaller, lambda: (new, rate, count + 1), lambda: (x, rate / 2, count))

    f = lambda x: wg.while_loop(lambda s: wnp.sum(s[0] ** 2) > 1e-6, turn, (x, 0.6, 0))
    (loop,) = loops_of(f, X)
    assert is_straight(loop)
    assert all(map(InRegisters(loop).holds, loop.carries))
    for found, wanted in zip(wg.jit(f)(X), f(X), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-12)


ROWS = np.random.default_rng(0).uniform(0.5, 1.5, size=(11, 4))


def rows_at_places(rows):
    """Rows that are read and written at places known at run time, and what is combined of them."""
    total, sums = np.zeros(rows.shape), 0.0
    for i in range(11):
        for j in range(i, 11):
            d = rows[j] - rows[i]
            total[i] += d / np.sqrt(np.sum(d * d) + 0.1)
            total[j] -= rows[i] * np.max(rows[j]) + np.min(d) - np.prod(rows[j])
            sums = sums + np.sum(d * rows[i]) * (j + 1)
    return np.sum(total * total) + sums


def matrices_at_places(rows):
    a = rows.reshape(11, 2, 2)
    b = a.copy()
    for i in range(11):
        for j in range(11):
            b[i] = b[i] * 0.5 + a[j] * np.sum(b[j], axis=0) - np.sum(a[i], axis=1)
    return np.sum(b * b)


def counted(rows):
    """Of which some are integers, and some are True."""
    much, many = np.zeros(4), 0
    for i in range(11):
        for j in range(11):
            more = rows[i] > rows[j]
            many = many + np.sum(more) * i
            much = much + np.where(more, rows[j], -rows[i]) * np.any(more)
    return np.sum(much) * many


@pytest.mark.parametrize("f", [rows_at_places, matrices_at_places, counted])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_rows_of_few_elements_are_numbers(f, dtype):
    rows = ROWS.astype(dtype)
    found = wg.jit(f)(rows)
    np.testing.assert_allclose(found, f(rows), rtol=1e-12 if dtype == np.float64 else 2e-4)
    if dtype == np.float64:
        gradient = wg.jit(wg.grad(f))(rows)
        np.testing.assert_allclose(gradient, wg.grad(f)(rows), rtol=1e-10, atol=1e-10)
    with machine.use(scans={"fewest_lanes": 1 << 30}):  # turns one after the other
        kernels = wg.jit(f).program(rows).stages.loops.kernels
    assert all(is_straight(one) for one in kernels if isinstance(one, Loop))


def test_long_functions_and_long_rows_stay_vectors():
    def f(x):
        for _ in range(20):
            x = np.exp(-x) * x[0]
        return x

    for length in (4, 5):
        loops = wg.jit(f).program(np.ones(length)).stages.loops
        parts = [part for one in loops.kernels for part in inside(one)]
        nests = [one for one in parts if isinstance(one, Nest) and one.vars]
        long = [one for one in nests if "exp" in str(one)]
        assert all(written_out(one) is one for one in long)
