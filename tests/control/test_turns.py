"""A `for` with like turns is traced once, and gives what its turns give one by one."""

import dataclasses
import sys

import numpy as np
import pytest
import scipy.linalg
import scipy.ndimage
import scipy.special
import scipy.stats
from scipy.special import logsumexp
from scipy.stats import norm

import wengert as wg
import wengert.numpy as wnp
from wengert.errors import ChangedOutsideWarning

X = np.random.default_rng(0).normal(size=40)


def mirrored(x):
    s = 0.0
    n = len(x)
    for i in range(n):
        s += x[i] * x[n - 1 - i]
    return s


def thomas(d):
    n = len(d)
    c = wnp.zeros(n)
    x = d.copy()
    c[0] = 0.25
    x[0] = d[0] / 4
    for i in range(1, n):
        m = 4 - c[i - 1]
        c[i] = 1 / m
        x[i] = (d[i] - x[i - 1]) / m
    for i in range(n - 2, -1, -1):
        x[i] = x[i] - c[i] * x[i + 1]
    return x


def euler(x):
    t, y, dt = 0.0, x[0], 0.01
    for _ in range(50):
        y = y + dt * (1 - t) * y
        t += dt
    return y * t


def first_turn_is_another(x):
    s = 0
    for i in range(20):
        s = s + x * i
    return s


def integers_become_numbers(x):
    total = 0
    for v in x:
        total += v
    return total


def wraps_around(x):
    s = 0.0
    for i in range(len(x)):
        s = s + x[i - 1] * (i - 3)
    return s


def backwards(x):
    s = 0.0
    for i in reversed(range(len(x))):
        s = s * 0.9 + x[i]
    return s, i


def pairs(x):
    s = 0.0
    for i, (a, b) in enumerate(zip(x[1:], x[:-1])):  # noqa: B905 - the plain form
        s = s + i * a - b
    return s


def numbered(x):
    s = 0.0
    for i, a in enumerate(x, 3):
        for j, b in enumerate(reversed(x), start=-1):
            s = s + i * a - j * a * b
    return s


def of_scipy(x):
    s, a = 0.0, np.eye(2)
    for v in x:
        seen = norm(s, 1.5).logpdf(v) + scipy.stats.norm.cdf(v, s, scale=2.0)
        s = logsumexp([s, v, seen]) - scipy.special.log_softmax(x[:3])[0]
        a = scipy.linalg.solve(a + 3 * np.eye(2), a) + v**2
    return s, a


def branches(x):
    s = 0.0
    for i in range(len(x)):
        if i % 3 == 0:
            s += x[i]
        elif x[i] > 0:
            s -= 2 * x[i]
    return s


def triangle(x):
    s = 0.0
    for i in range(len(x)):
        for j in range(i):
            s += x[i] * x[j] / (1 + i - j)
    return s


def matrix(x):
    m = x.reshape(10, 4)
    out = wnp.zeros((4, 4))
    for i in range(10):
        out += m[i][:, None] * m[i]
    for row in m:
        out = out + row
    return out


def last_values(x):
    for i in range(30):
        y = x[i] * 2
        z = y + 1
    return y, z, i


def trajectory(x):
    path = np.zeros((20, 5))
    y = x[:5]
    for i in range(20):
        y = y + 0.1 * np.sin(y)
        path[i] = y
    return path


def second_order(x):
    y = x.copy()
    s = 0.0
    for i in range(2, 40):
        y[i] = 0.5 * y[i - 1] - 0.3 * y[i - 2] + y[i]
        s = s + y[i] * y[i - 2]
    return s, y


def helped(x):
    def smooth(a, b):
        return (a + b) / 2

    y = x.copy()
    for i in range(1, 40):
        y[i] = smooth(y[i - 1], y[i])
    return y


TABLE = np.sin(np.arange(60.0)).reshape(20, 3)
PLACES = np.arange(20)[::-1].copy()


def plain_tables(x):
    s = 0.0
    for i in range(20):
        s = s + TABLE[i, i % 3] * x[PLACES[i]] + TABLE[PLACES[i]] @ x[:3]
    return s


def counted_by_hand(x):
    s, k = 0.0, 0
    while k < len(x):
        s = s + np.sin(s) * x[k] + x[k] ** 2
        k += 1
    return s * k, x[: k // 2]


def looked_up(x):
    s = 0.0
    for at in np.linspace(0.0, 0.999, 30):
        place = min(int(at * len(x)), len(x) - 2)
        s = s + x[place] * (1 - at) + x[place + int(x[0] > 0)] * at
    return s


@dataclasses.dataclass(frozen=True)
class Planet:
    place: object
    speed: object


def planets(x):
    one = Planet(x[:2], x[2:4])
    for _ in range(30):
        one = Planet(one.place + 0.1 * one.speed, one.speed - 0.1 * np.sin(one.place))
    return one.place, one.speed


def powers_of_integers(x):
    s = 0.0
    for i in range(1, 12):
        t = 0.0
        for k in range(1, 2**i, 2):
            t = t + np.sin(x[i] * k)
        s = s + t / (4**i - 1)
    return s


class Kept:
    def __init__(self):
        self.value = 0.1

    def mix(self, x):
        for v in x:
            self.value = 0.9 * self.value + v


def attribute_set_in_an_inner_loop(x):
    kept = Kept()
    for i in range(len(x)):
        for k in range(len(x)):
            kept.value = 0.9 * kept.value + x[i] * x[k]
        for k in range(i):
            kept.value = 0.5 * kept.value + x[k]
    return kept.value


def attribute_set_in_a_loop_of_a_branch(x):
    one, other = Kept(), Kept()
    if x[0] > 100:
        one.mix(x)
    else:
        other.mix(x)
    return one.value, other.value


def other_names_for_what_was_there(x):
    kept, values = Kept(), [0.0] * 20
    for i in range(20):
        same, now = kept, values
        now[i] = x[i] + now[i - 1]
        same.value = same.value + now[i]
    return now[3] + values[19] + same.value


ALIKE = [
    other_names_for_what_was_there,
    attribute_set_in_an_inner_loop,
    attribute_set_in_a_loop_of_a_branch,
    plain_tables,
    powers_of_integers,
    planets,
    counted_by_hand,
    looked_up,
    mirrored,
    thomas,
    euler,
    first_turn_is_another,
    integers_become_numbers,
    wraps_around,
    backwards,
    pairs,
    numbered,
    of_scipy,
    branches,
    triangle,
    matrix,
    last_values,
    trajectory,
    second_order,
    helped,
]


@pytest.mark.parametrize("f", ALIKE, ids=[f.__name__ for f in ALIKE])
def test_traced_once(f):
    compiled = wg.jit(f)
    got, want = compiled(X), f(X)
    for one, other in zip(wg_leaves(got), wg_leaves(want), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12)
    operators = compiled.program(X).stages.graph.operators
    assert len(operators) < 30
    derivative = wg.jit(wg.grad(lambda x: sum(np.sum(v) for v in wg_leaves(f(x)))))
    want = wg.grad(lambda x: sum(np.sum(v) for v in wg_leaves(f(x))))(X)
    np.testing.assert_allclose(derivative(X), want, rtol=1e-10, atol=1e-10)


def wg_leaves(value):
    return list(value) if isinstance(value, tuple) else [value]


def test_scipys_functions_with_effects_run_turn_by_turn():
    random, seen = np.random.default_rng(0), []

    def drawn(x):
        s = 0.0
        for v in x:
            s = s + v * scipy.stats.norm.rvs(random_state=random)
        return s

    def told(x):
        s = 0.0
        for v in x:
            image = scipy.ndimage.generic_filter(np.ones(2), lambda w: seen.append(1) or 1.0, 1)
            s = s + v * image[0]
        return s

    with pytest.warns(UserWarning, match="drawn"):
        found = wg.jit(drawn)(X)
    np.testing.assert_allclose(found, X @ np.random.default_rng(0).normal(size=40), rtol=1e-12)
    np.testing.assert_allclose(wg.jit(told)(X), X.sum(), rtol=1e-12)
    assert len(seen) == 80


def test_precision_is_kept():
    got = wg.jit(euler)(X.astype(np.float32))
    assert got.dtype == euler(X.astype(np.float32)).dtype == np.float32


def test_numbers_that_are_known_stay_known():
    def f(x):
        k, size = 0, 1
        for i in range(20):
            x = x * 0.5 + i
            k += 2
            size = size + i % 2
        return x * np.ones(k), wnp.zeros(size) + x

    got, want = wg.jit(f)(1.0), f(1.0)
    np.testing.assert_allclose(got[0], want[0])
    np.testing.assert_allclose(got[1], want[1])


def test_python_integers_of_any_size():
    def exponential(x):
        factorial, s = 1, 1.0
        for k in range(1, 30):
            factorial *= k
            s = s + x**k / factorial
        return s

    np.testing.assert_allclose(wg.jit(exponential)(1.5), np.exp(1.5), rtol=1e-12)


@pytest.mark.parametrize("turns", [9, 30])
def test_turns_that_are_not_alike_are_run_one_by_one(turns):
    weights = [float(k) for k in range(turns)]
    kinds = {k: "even" if k % 2 == 0 else "odd" for k in range(turns)}

    def f(x):
        parts, s = [], 0.0
        for i in range(turns):
            s = s + weights[i] * x[i]
            s = s + np.sum(x[:i]) + np.sum(np.ones(i))
            if kinds[i] == "even":
                parts.append(s)
        return s + sum(parts)

    np.testing.assert_allclose(wg.jit(f)(X), f(X), rtol=1e-12)


def test_random_numbers_are_drawn_for_each_turn():
    def f(x):
        rng = np.random.default_rng(3)
        s = 0.0
        for _ in range(20):
            s = s + x * rng.normal()
        return s

    np.testing.assert_allclose(wg.jit(f)(2.0), f(2.0))


def test_effects_happen_once_for_each_turn(capsys):
    count = [0]

    def tick():
        count[0] += 1
        return count[0]

    def f(x):
        s = 0.0
        for i in range(12):
            print(i)
            s = s + x
        for _ in range(12):
            s = s + x * tick()
        return s

    with pytest.warns(ChangedOutsideWarning, match="item 0 of a list"):
        assert wg.jit(f)(1.0) == 12 + 78
    # traced once more, to see that the next call would give something else
    assert capsys.readouterr().out.split() == [str(i) for i in range(12)] * 2
    assert count == [12]


def test_plain_arrays_are_written_by_python():
    def f(x):
        table = np.zeros(20)
        for i in range(20):
            table[i] = i**2
        return np.sum(x * table)

    np.testing.assert_allclose(wg.jit(f)(2.0), f(2.0))


def test_an_index_out_of_range():
    def f(x):
        s = 0.0
        for i in range(len(x) + 1):
            s = s + x[i]
        return s

    with pytest.raises(IndexError):
        wg.jit(f)(X)


def test_breaks_that_are_traced():
    def f(x):
        s, found = 0.0, -1
        for i in range(40):
            s = s + x[i]
            if s > 1:
                found = i
                break
        return s, found

    compiled = wg.jit(f)
    for x in (X, -abs(X), abs(X)):
        assert compiled(x) == pytest.approx(f(x))


@pytest.mark.parametrize("f", [mirrored, lambda x: np.sum(thomas(x))], ids=["mirrored", "thomas"])
def test_graphs_do_not_grow_with_the_turns(f):
    sizes = [
        len(wg.jit(wg.value_and_grad(f)).program(np.ones(n)).stages.graph.operators)
        for n in (50, 200)
    ]
    assert sizes[0] == sizes[1]


@pytest.mark.parametrize("f", [mirrored, thomas])
def test_tracing_takes_no_longer_for_more_turns(f):
    def calls(n):
        count, x, compiled = 0, np.ones(n), wg.jit(wg.grad(lambda x: np.sum(f(x))))

        def called(frame, event, argument):
            nonlocal count
            count += event == "call"

        sys.setprofile(called)
        try:
            compiled.captured(x)
        finally:
            sys.setprofile(None)
        return count

    calls(10)  # the first of all calls converts the source
    # what is kept of long loops is decided otherwise, which makes a few steps more
    few, many = calls(1000), calls(100_000)
    assert many < 1.5 * few


def test_buffers_that_numpy_makes():
    def solve(d):
        n = len(d)
        c, x = np.zeros(n), np.zeros(n)
        c[0], x[0] = 0.25, d[0] / 4
        for i in range(1, n):
            m = 4 - c[i - 1]
            c[i] = 1 / m
            x[i] = (d[i] - x[i - 1]) / m
        for i in range(n - 2, -1, -1):
            x[i] -= c[i] * x[i + 1]
        return x

    compiled = wg.jit(solve)
    np.testing.assert_allclose(compiled(X), thomas(X), rtol=1e-12)
    assert len(compiled.program(X).stages.graph.operators) < 40


def test_a_buffer_filled_while_a_condition_holds():
    def f(x):
        path = np.zeros(30)
        i, y = 0, x
        while y < 100 and i < 30:
            path[i] = y
            y = y * 1.3
            i += 1
        return path, i

    compiled = wg.jit(f)
    for x in (0.1, 50.0, 200.0):
        want, got = f(x), compiled(x)
        np.testing.assert_allclose(got[0], want[0])
        assert got[1] == want[1]
    total = wg.jit(wg.grad(lambda x: np.sum(f(x)[0])))
    np.testing.assert_allclose(total(50.0), wg.grad(lambda x: np.sum(f(x)[0]))(50.0))
