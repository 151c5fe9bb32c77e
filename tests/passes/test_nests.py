"""Loops around loops whose steps need nothing of each other: inner loops are for all of them."""

import numpy as np
import pytest

import wengert as wg
from wengert.machine import use

N, STEPS = 20, 12
RNG = np.random.default_rng(0)
X, TABLE = RNG.normal(size=N), RNG.normal(size=(N, STEPS))
PLACES = RNG.integers(0, N, size=N)


def fill(x):
    out = np.zeros(N)
    for i in range(N):
        t = x[i]
        for k in range(STEPS):
            t = np.sin(t) + x[k] * TABLE[i, k]
        out[i] = t
    return np.sum(out**2)


def fill_between(x):
    out = np.ones((2, N + 3))
    for i in range(N):
        t = out[1, i + 3] * x[i]
        for k in range(STEPS):
            t = np.sin(t) + x[k]
        out[1, i + 3] = t
    return np.sum(out**2 * np.arange(N + 3))


def fill_backward(x):
    out = np.zeros(N)
    for i in range(N - 1, -1, -1):
        t = 0.5
        for _ in range(STEPS):
            t = np.cos(t * x[i])
        out[N - 1 - i] = t
    return np.sum(out * np.arange(N))


def picture(x):
    image = np.zeros((N, STEPS))
    for row in range(N):
        for column in range(STEPS):
            way = np.array([row / N, column / STEPS, 1.0])
            way = way / np.sqrt(way @ way)
            far = 0.0
            for _ in range(9):
                place = far * way - np.array([0.0, 0.0, 2.0])
                far = far + 0.5 * (np.sqrt(place @ place) - x[0] ** 2)
            image[row, column] = np.exp(-far)
    return np.sum(image**2)


def picture_of_hits(x):
    image, depth = np.zeros((N, STEPS)), np.full((N, STEPS), 9.0)
    for row in range(N):
        for column in range(STEPS):
            a, b, far, miss = row / N - 0.5, column / STEPS - 0.4, 0.0, 1.0
            while far < 3.0 and miss > 1e-6:
                miss = np.sqrt((far * a) ** 2 + (far * b) ** 2 + (far - 2.0) ** 2) - x[0] ** 2
                far = far + miss
            if far < 3.0:
                image[row, column] = np.exp(-far)
                depth[row, column] = far
            else:
                image[row, column] = 0.1 * x[1] * far
    return np.sum(image**2) + np.sum(depth)


def fill_where(x):
    out = np.ones(N)
    for i in range(N):
        t = x[i]
        for k in range(STEPS):
            t = np.sin(t) + x[k]
        if t > 0.1:
            out[i] = t * out[i]
        elif t > -0.5:
            out[i] += t
    return np.sum(out**2)


def append(x):
    found = []
    for i in range(N):
        s = x[0]
        for k in range(STEPS):
            s = s + s * 0.1 * TABLE[i, k] * x[1]
        found.append(max(s - x[2], 0.0))
    return np.mean(np.array(found))


def until(x):
    out = np.zeros(N)
    for i in range(N):
        angle, change = X[i], 1.0
        while abs(change) > 1e-12:
            change = (angle - x[0] * np.sin(angle) - X[i]) / (1 - x[0] * np.cos(angle))
            angle = angle - change
        out[i] = np.cos(angle)
    return np.sum(out)


def as_long_as_it_says(x):
    total = 0.0
    for i in range(N):
        t, k = x[i], 0
        while t < 3.0 and k < i:
            t = t + 0.1 + x[0] ** 2
            k += 1
        total += t * k
    return total


def triangle(x):
    total = 0.0
    for i in range(N):
        s = x[i]
        for k in range(i):
            s = np.sin(0.7 * s + k)
        total = total + s
    return total


def sum_inside(x):
    total, other = 1.0, 0.0
    for i in range(N):
        t = x[i]
        for k in range(STEPS):
            t = np.sin(t) + x[k]
            total += t * t
            other = other - t
        total -= t
    return total * other


def sum_in_branches(x):
    total, rest = 0.0, 0.0
    for i in range(N):
        t = x[i]
        for k in range(STEPS):
            t = np.sin(t) + x[k]
            if t > 0.2:
                total += t
        if t > 0.1:
            total += t * t
        else:
            rest = rest + t
    return total * rest


def sum_while(x):
    total = 0.0
    for i in range(N):
        t = x[i]
        while t < 2.0:
            t = t + 0.3 + t * t
            total += t
    return total


def vectors(x):
    force = np.zeros((N, 3))
    for i in range(N):
        pull = np.zeros(3)
        for j in range(N):
            if i != j:
                apart = np.array([x[j] - x[i], TABLE[i, 0] - TABLE[j, 0], 1.0])
                pull += apart / (apart @ apart + 0.1)
        force[i] = pull
    return np.sum(force**2)


def counted(x):
    inside, several, total = 0, 10, 0.0
    for i in range(N):
        t = x[i]
        while t < 2.0:
            t = t + 0.3 + t * t
            several += 2
        if t > 2.3:
            inside += 1
        total += t
    return total * inside / several


def two_of_each(x):
    total, out = np.zeros(3), np.zeros(N)
    for i in range(N):
        v = np.array([x[i], 1.0, 0.5])
        for k in range(STEPS):
            v = np.sin(v) * x[k] + v[0]
        total += v
        out[i] = v[1]
    return np.sum(total**2) + np.sum(out)


SIDE_BY_SIDE = [
    fill, fill_between, fill_backward, picture, picture_of_hits, fill_where, append, until,
    as_long_as_it_says, triangle, sum_inside, sum_in_branches, sum_while, vectors, counted,
    two_of_each,
]  # fmt: skip


# ---------------------------------------------------------------- what must not be


def carried(x):
    s = 0.3
    for i in range(N):
        for k in range(STEPS):
            s = np.sin(s) + x[i] * x[k]
    return s


def faded(x):
    total = 0.0
    for i in range(N):
        t = x[i]
        for k in range(STEPS):
            t = np.sin(t) + x[k]
        total = 0.9 * total + t
    return total


def seen_in_between(x):
    total, out = 0.0, np.zeros(N)
    for i in range(N):
        t = x[i]
        for k in range(STEPS):
            t = np.sin(t) + x[k]
        total += t
        out[i] = total
    return np.sum(out**2)


def seen_inside(x):
    total, sums = 0.0, 0.0
    for i in range(N):
        t = x[i]
        for k in range(STEPS):
            t = np.sin(t) + x[k]
            total += t
            sums += total
    return sums


def decides(x):
    total = 0.0
    for i in range(N):
        t = x[i]
        while t < 2.0 and total < 9.0:
            t = t + 0.3 + t * t
            total += t
    return total


def of_the_one_before(x):
    out = np.ones(N + 1)
    for i in range(N):
        t = out[i] * x[i]
        for k in range(STEPS):
            t = np.sin(t) + x[k]
        out[i + 1] = t
    return np.sum(out**2)


def of_another_one(x):
    out = np.ones(N)
    for i in range(N):
        t = x[i]
        for k in range(STEPS):
            t = np.sin(t) + x[k]
        out[i] = t + out[N - 1 - i]
    return np.sum(out**2)


def same_places(x):
    out = np.ones(N)
    for i in range(N):
        t = x[i]
        for k in range(STEPS):
            t = np.sin(t) + x[k]
        out[i % 3] = t
    return np.sum(out**2)


def places_of_data(x, places=PLACES):
    out = np.ones(N)
    for i in range(N):
        t = x[i]
        for k in range(STEPS):
            t = np.sin(t) + x[k]
        out[places[i]] = t * out[places[i]]
    return np.sum(out**2)


def one_of_two_places(x):
    out = np.ones(N + 1)
    for i in range(N):
        t = x[i]
        for k in range(STEPS):
            t = np.sin(t) + x[k]
        if t > 0.1:
            out[i] = t
        else:
            out[i + 1] = t * out[i]
    return np.sum(out**2)


def greatest(x):
    best = -9.0
    for i in range(N):
        t = x[i]
        for k in range(STEPS):
            t = np.sin(t) + x[k]
        best = max(best, t)
    return best


def or_something_else(x):
    total = 0.0
    for i in range(N):
        t = x[i]
        for k in range(STEPS):
            t = np.sin(t) + x[k]
        if t > 1.5:
            total = 0.0
        else:
            total += t
    return total


def first_of_them(x):
    found, at = 0.0, x[0]
    for i in range(N):
        t = x[i]
        for k in range(STEPS):
            t = np.sin(t) + x[k]
        if found == 0.0 and t > 1.0:
            found, at = t, x[i]
    return found * at


ONE_AFTER_THE_OTHER = [
    carried, faded, seen_in_between, seen_inside, decides, of_the_one_before, of_another_one,
    same_places, places_of_data, one_of_two_places, greatest, or_something_else, first_of_them,
]  # fmt: skip


def wide(x):
    """Rows that are vectors already."""
    total = 0.0
    for i in range(N):
        row = np.arange(500) * x[i]
        for k in range(STEPS):
            row = np.sin(row) + x[k]
        total += np.sum(row)
    return total


def few(x):
    total = 0.0
    for i in range(5):
        t = x[i]
        for k in range(STEPS):
            t = np.sin(t) + x[k]
        total += t
    return total


def rarely(x):
    """A loop that few of the turns come to."""
    total = 0.0
    for i in range(N):
        if x[i] > 1.0:
            t = x[i]
            for k in range(STEPS):
                t = np.sin(t) + x[k]
            total += t
    return total


def here_and_there(x):
    """Vectors are no faster for places of their own, and would wait for the longest row."""
    total = 0.0
    for i in range(N):
        s, k = x[i], i
        while k > 0:
            s = 0.5 * s + x[k]
            k = k // 2
        total += s
    return total


def up_to_the_end(x):
    """Places that do not exist, in turns that do not come to them."""
    out = np.ones(N)
    for i in range(N):
        t = x[i]
        for k in range(STEPS):
            t = np.sin(t) + x[k]
        if i + 3 < N:
            out[i + 3] = t
    return np.sum(out**2)


NOT_WORTH_IT = [wide, few, rarely, here_and_there, up_to_the_end]


def loops_of(length, function):
    """How many loops of so many steps there are, at any depth."""
    graphs, count = [wg.jit(function).program(X).stages.optimised], 0
    while graphs:
        for node in graphs.pop().operators:
            count += node.op.name == "scan" and node.params["length"] == length
            for name in {"body", "turn", "branches"} & {*node.params}:
                inside = node.params[name]
                graphs += [body.graph for body in getattr(inside, "programs", [inside])]
    return count


@pytest.mark.parametrize("function", SIDE_BY_SIDE)
def test_side_by_side(function):
    assert loops_of(N, function) == 0


@pytest.mark.parametrize("function", [*ONE_AFTER_THE_OTHER, wide, rarely, here_and_there])
def test_one_after_the_other(function):
    assert loops_of(N, function) == 1


@pytest.mark.parametrize("function", [*SIDE_BY_SIDE, *ONE_AFTER_THE_OTHER, *NOT_WORTH_IT])
def test_what_python_computes(function):
    np.testing.assert_allclose(wg.jit(function)(X), function(X), rtol=1e-11)
    slope = wg.jit(wg.grad(function))(X)
    np.testing.assert_allclose(slope, wg.grad(function)(X), rtol=1e-9, atol=1e-10)
    v = np.cos(np.arange(N))
    _, along = wg.jit(lambda x: wg.jvp(function, (x,), (v,)))(X)
    np.testing.assert_allclose(along, slope @ v, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("function", SIDE_BY_SIDE)
def test_mapped(function):
    many = np.stack([X, X * 0.9, X[::-1] * 0.8])
    found = wg.jit(wg.vmap(function))(many)
    np.testing.assert_allclose(found, [function(row) for row in many], rtol=1e-11)


def place_of_one_turn(x, first):
    out = np.zeros(N)
    for i in range(N):
        t = x[i]
        for k in range(STEPS):
            t = np.sin(t) + x[first[i] + k]
        out[i] = t
    return np.sum(out)


def test_errors_of_one_turn():
    compiled, first = wg.jit(place_of_one_turn), PLACES // 3
    np.testing.assert_allclose(compiled(X, first), place_of_one_turn(X, first))
    first[5] = 9
    with pytest.raises(IndexError, match="got the index 20 for an axis of length 20"):
        compiled(X, first)
    first[5] = -9
    np.testing.assert_allclose(compiled(X, first), place_of_one_turn(X, first))


def place_that_some_come_to(x, last):
    total = 0.0
    for i in range(N):
        t = x[i]
        for k in range(STEPS):
            t = np.sin(t) + x[k]
        if i < last:
            total += t * x[i + N - last]
    return total


def test_no_errors_of_those_that_do_not_come_to_it():
    assert loops_of(N, lambda x: place_that_some_come_to(x, 3)) == 0
    for last in (0, 3, N):
        found = wg.jit(place_that_some_come_to)(X, last)
        np.testing.assert_allclose(found, place_that_some_come_to(X, last))


def doubled(x, n):
    total = 0.0
    for i in range(N):
        number = n
        for _ in range(STEPS):
            number = number + number
        total += x[i] * number
    return total


def test_integers_that_do_not_fit():
    compiled = wg.jit(doubled)
    np.testing.assert_allclose(compiled(X, 3), doubled(X, 3))
    with pytest.raises(OverflowError):
        compiled(X, 1 << 60)


@pytest.mark.parametrize("count", [50, 1000])
def test_the_same_bits_for_any_number_of_threads(count):
    data = np.random.default_rng(1).normal(size=(count, 50))

    def paths(x):
        total = 0.0
        for p in range(count):
            s = x[0]
            for k in range(50):
                s = s * np.exp(0.1 * x[1] * data[p, k])
            total += s
        return total

    x = np.array([1.0, 0.2])
    compiled = wg.jit(wg.value_and_grad(paths))
    found = []
    try:
        for threads in (1, 2, 3):
            wg.set_threads(threads)
            value, slope = compiled(x)
            found.append((float(value), slope.tobytes()))
    finally:
        wg.set_threads(None)
    assert found[0] == found[1] == found[2]
    np.testing.assert_allclose(found[0][0], paths(x), rtol=1e-12)


def test_what_would_not_fit_stays_a_loop():
    assert loops_of(N, fill) == 0
    with use(scans={"most_kept_near": 100, "most_kept": 100}):
        assert loops_of(N, fill) == 1


@pytest.mark.parametrize("function", SIDE_BY_SIDE)
def test_in_blocks(function):
    with use(scans={"most_kept_near": 100, "most_in_block": 100, "block_of_turns": 10}):
        np.testing.assert_allclose(wg.jit(function)(X), function(X), rtol=1e-11)
        slope = wg.jit(wg.grad(function))(X)
    np.testing.assert_allclose(slope, wg.grad(function)(X), rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("count, lengths", [(1000, [8]), (1009, [8, STEPS])])
def test_blocks_that_are_even_or_leave_some(count, lengths):
    def rows_and_total(x):
        total, out = 0.0, np.ones(count)
        for i in range(count):
            s = x[0] * i
            for _ in range(STEPS):
                s = np.sin(s) + x[1]
            out[i] = s * out[i]
            total += s
        return np.sum(out * np.arange(count)) + total

    with use(scans={"most_kept_near": 100, "most_in_block": 100}):
        compiled = wg.jit(wg.value_and_grad(rows_and_total))
        nodes = wg.jit(rows_and_total).program(X).stages.optimised.operators
        assert [one.params["length"] for one in nodes if one.op.name == "scan"] == lengths
        value, slope = compiled(X)
    np.testing.assert_allclose(value, rows_and_total(X), rtol=1e-10)
    np.testing.assert_allclose(slope, wg.grad(rows_and_total)(X), rtol=1e-9, atol=1e-10)
