"""Loops whose steps need nothing of each other are done for all steps at once."""

import numpy as np
import pytest

import wengert as wg

RNG = np.random.default_rng(3)
A, X = RNG.normal(size=(20, 7)), RNG.normal(size=20)
C = X[:7] / 2


def operators(graph):
    """All operators, at any depth."""
    for node in graph.operators:
        yield node
        if "body" in node.params:
            yield from operators(node.params["body"].graph)


def loops(function, *args):
    """The loops that are left of a function and of its gradient, which give what Python does."""
    np.testing.assert_allclose(wg.jit(function)(*args), function(*args), rtol=1e-12, atol=1e-14)
    total = lambda *args: (function(*args) ** 2).sum()
    places = tuple(k for k, arg in enumerate(args) if np.asarray(arg).dtype.kind == "f")
    slope = wg.grad(total, argnums=places)
    for got, wanted in zip(wg.jit(slope)(*args), slope(*args), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-11, atol=1e-13)
    found = []
    for one in (function, slope):
        graph = wg.jit(one).program(*args).stages.optimised
        found.append(sum(node.op.name == "scan" for node in operators(graph)))
    return found


def of_each(a, x):
    out = np.zeros(20)
    for i in range(20):
        out[i] = np.exp(np.sin(x[i])) * a[i, 2]
    return out


def total_of_each(a, x):
    total = 1.5
    for i in range(20):
        total += np.exp(np.sin(x[i])) * a[i, 2]
    return total


def several_totals(a, x):
    first = second = 0.0
    out = np.zeros(20)
    for i in range(20):
        v = x[i] * a[i, 0]
        first += np.cos(v) + v
        second = second + v * v
        out[i] = v
    return out * first - second


def generator(a, x):
    out = np.zeros(20)
    for i in range(20):
        out[i] = sum(a[i, k] * C[k] for k in range(7)) * x[i]
    return out


def short_generator(a, x):
    out = np.zeros(20)
    for i in range(20):
        out[i] = sum(a[i, k] * C[k] for k in range(3)) + x[i]
    return out


def long_generator(a, x):
    out = np.zeros(7)
    for k in range(7):
        out[k] = sum(a[i, k] * x[i] for i in range(20))
    return out


def pairs(a, x):
    total = 0.0
    for i in range(20):
        total += sum(np.exp(-((x[i] - x[j]) ** 2)) for j in range(20)) * a[i, 1]
    return total


def rows_of_arrays(a, x):
    out = np.zeros((20, 7))
    for i in range(20):
        out[i] = a[i] / (1.0 + np.dot(a[i], a[i])) + x[i]
    return out


def from_the_end(a, x):
    out = np.zeros(20)
    for i in range(19, -1, -1):
        out[i] = x[19 - i] * a[i, 3]
    return out


def windows(a, x):
    out = np.zeros(12)
    for i in range(12):
        total = 0.0
        for k in range(9):
            total += x[i + k] * (k + 1.0)
        out[i] = total * a[i, 0]
    return out


def where(a, x):
    return np.array([v if v > 0 else 0.1 * v for v in x]) * a[:, 0]


INDEPENDENT = (
    of_each,
    total_of_each,
    several_totals,
    generator,
    short_generator,
    long_generator,
    pairs,
    rows_of_arrays,
    from_the_end,
)


@pytest.mark.parametrize("function", INDEPENDENT, ids=lambda f: f.__name__)
def test_no_loop_is_left(function):
    assert loops(function, A, X) == [0, 0]


@pytest.mark.parametrize("function", [where], ids=lambda f: f.__name__)
def test_no_loop_is_left_of_the_function(function):
    assert loops(function, A, X)[0] == 0


def running(a, x):
    out = np.zeros(20)
    total = 0.0
    for i in range(20):
        total += x[i] * a[i, 0]
        out[i] = total
    return out


def compensated(a, x):
    """Adds up what additions have lost: the order of these is what it is about."""
    total = lost = 0.0
    for i in range(20):
        one = x[i] * a[i, 0] - lost
        new = total + one
        lost = (new - total) - one
        total = new
    return total


@pytest.mark.parametrize("function", [running, compensated], ids=lambda f: f.__name__)
def test_steps_that_need_each_other_stay_steps(function):
    assert loops(function, A, X)[0] == 1


def test_large_rows_stay_rows():
    """What a step makes stays in a near cache, of all steps it does not."""

    def f(a):
        out = np.zeros(40)
        for i in range(40):
            b = np.exp(a * i)
            out[i] = (b / b.sum()).max()
        return out

    a = RNG.normal(size=(300, 300)) / 50
    graph = wg.jit(f).program(a).stages.optimised
    assert [node.op.name for node in operators(graph)].count("scan") == 1
    np.testing.assert_allclose(wg.jit(f)(a), f(a), rtol=1e-12)


def test_integers_and_their_totals():
    def f(n):
        total, out = 3, np.zeros(20, np.int64)
        for i in range(20):
            total += n[i] * i
            out[i] = n[i] // 3 + i
        return total, out

    n = RNG.integers(-50, 50, size=20)
    got, wanted = wg.jit(f)(n), f(n)
    assert got[0] == wanted[0]
    np.testing.assert_array_equal(got[1], wanted[1])


def test_a_total_of_the_same_in_every_step():
    def f(x):
        total = x[0]
        for _ in range(20):
            total += x[1] * 3
        return total

    np.testing.assert_allclose(wg.jit(f)(X), f(X), rtol=1e-14)


def test_places_that_do_not_exist_are_refused_with_their_line():
    def f(x, p):
        out = np.zeros(20)
        for i in range(20):
            out[i] = x[p[i]] ** 2
        return out

    compiled, p = wg.jit(f), np.arange(20)
    np.testing.assert_array_equal(compiled(X, p), f(X, p))
    with pytest.raises(IndexError, match=r"test_all_at_once\.py"):
        compiled(X, p + 1)


def test_float32_stays_float32():
    def f(x):
        total, out = np.float32(0), np.zeros(20, np.float32)
        for i in range(20):
            total += x[i] * 2
            out[i] = np.exp(x[i])
        return total, out

    total, out = wg.jit(f)(X.astype(np.float32))
    assert out.dtype == np.result_type(total) == np.float32
    np.testing.assert_allclose(out, f(X.astype(np.float32))[1], rtol=1e-6)


def test_python_integers_that_are_too_large_are_an_error_when_they_are_computed():
    def f(x, large):
        total = 0.0
        if large:
            for i in range(20):
                for j in range(20):
                    total = total + x[i] * (i * 2**62 + j) ** 0
        return total

    compiled = wg.jit(f)
    assert compiled(X, np.bool_(False)) == 0.0
    with pytest.raises(wg.errors.IntegerError):
        compiled(X, np.bool_(True))


def table(a, x):
    out = np.zeros((20, 7))
    for i in range(20):
        for j in range(7):
            out[i, j] = np.exp(-((x[i] - x[j]) ** 2)) * a[i, j]
    return out


def added_in_place(a, x):
    out = a * 1.0
    for i in range(20):
        for j in range(7):
            out[i, j] += x[i] * x[j]
            out[i, j] *= 2.0
    return out


def turned(a, x):
    out = np.zeros((7, 20))
    for i in range(20):
        for j in range(7):
            out[j, i] = a[i, j] * x[i]
    return out


def columns(a, x):
    out = np.zeros((20, 3))
    for i in range(20):
        out[i, 0] = x[i]
        out[i, 1] = x[i] ** 2
        out[i, 2] = out[i, 1] * out[i, 0] * a[i, 0]
    return out


def downward(a, x):
    out = np.zeros((20, 7))
    for i in range(18, -1, -2):
        for j in range(7):
            out[-1 - i, 6 - j] = a[i, j] + x[j]
    return out


def three_deep(a, x):
    out = np.zeros((12, 9, 10))
    for i in range(12):
        for j in range(9):
            for k in range(10):
                out[i, j, k] = x[i] * x[j] + np.sin(x[k])
    return out


@pytest.mark.parametrize(
    "function",
    [table, added_in_place, turned, columns, downward, three_deep],
    ids=lambda f: f.__name__,
)
def test_steps_that_have_rows_of_their_own(function):
    assert loops(function, A, X) == [0, 0]


def along_rows(a, x):
    out = a * 1.0
    for i in range(20):
        for j in range(1, 7):
            out[i, j] = out[i, j - 1] * x[j] + out[i, j]
    return out


def down_columns(a, x):
    out = a * 1.0
    for i in range(1, 20):
        for j in range(7):
            out[i, j] = out[i - 1, j] * x[j] + out[i, j]
    return out


def everywhere(a, x):
    """Gauss and Seidel: each element needs those before it."""
    out = a * 1.0
    for i in range(1, 19):
        for j in range(1, 6):
            out[i, j] = (out[i - 1, j] + out[i + 1, j] + out[i, j - 1] + out[i, j + 1]) / 4 + x[i]
    return out


def one_place(a, x):
    """All steps write to the same places, and the last remains."""
    out = np.zeros(7)
    for i in range(20):
        for j in range(7):
            out[j] = a[i, j] * x[j]
    return out


def shifted(a, x):
    """Each step overwrites what the one before has written."""
    out = np.zeros(21)
    for i in range(20):
        out[i] = x[i] * a[i, 0]
        out[i + 1] = x[i] * 3
    return out


def read_by_others(a, x):
    out = np.zeros((20, 7))
    for i in range(20):
        for j in range(7):
            out[i, j] = a[i, j] + out[19 - i, j] * x[j]
    return out


@pytest.mark.parametrize(
    "function",
    [along_rows, down_columns, everywhere, one_place, shifted, read_by_others],
    ids=lambda f: f.__name__,
)
def test_steps_that_meet_what_others_write(function):
    loops(function, A, X)


def test_places_known_only_in_a_call():
    def f(a, p, q):
        out = np.zeros((20, 7))
        for i in range(20):
            for j in range(7):
                out[p[i], j] = a[i, j] + q
        return out

    compiled, p = wg.jit(f), RNG.permutation(20)
    for one in (p, p % 3):
        np.testing.assert_array_equal(compiled(A, one, 2.0), f(A, one, 2.0))
    with pytest.raises(IndexError):
        compiled(A, p + 1, 2.0)


def test_mapped_tables():
    for function in (table, added_in_place, turned, columns, along_rows):
        mapped = wg.jit(wg.vmap(function, in_axes=(0, None)))
        batch = np.stack([A, A * 2 - 1, A + 0.5])
        wanted = np.stack([function(one, X) for one in batch])
        np.testing.assert_allclose(mapped(batch, X), wanted, rtol=1e-12)


PLACES = RNG.integers(-7, 7, size=20)


def histogram(a, x):
    out = np.zeros(7)
    for i in range(20):
        out[PLACES[i]] += x[i] * a[i, 0]
    return out


def one_row_for_all(a, x):
    out = np.zeros((3, 7))
    for i in range(20):
        out[1] += a[i] * x[i]
    return out


def convolved(a, x):
    out = np.zeros(28)
    for i in range(20):
        for k in range(9):
            out[i + k] += x[i] * a[k, 0]
    return out


def correlated(a, x):
    out = np.zeros((14, 4))
    for i in range(14):
        for j in range(4):
            for k in range(6):
                for m in range(4):
                    out[i, j] += a[i + k, j + m] * x[k] * x[m]
    return out


def assembled(a, x):
    """Elements of one dimension: a matrix is added up of small ones."""
    out = np.zeros((21, 21))
    for e in range(20):
        for i in range(2):
            for j in range(2):
                out[e + i, e + j] += x[e] * (1.0 if i == j else -1.0)
    return out


@pytest.mark.parametrize(
    "function",
    [histogram, one_row_for_all, convolved, correlated, windows, assembled],
    ids=lambda f: f.__name__,
)
def test_sums_at_places(function):
    assert loops(function, A, X) == [0, 0]


def test_sums_at_places_that_a_call_tells():
    def f(a, p):
        out = np.zeros((7, 7))
        for i in range(20):
            out[p[i]] += a[i]
        return out

    compiled = wg.jit(f)
    np.testing.assert_allclose(compiled(A, PLACES), f(A, PLACES), rtol=1e-13)
    with pytest.raises(IndexError, match=r"test_all_at_once\.py"):
        compiled(A, PLACES + 7)
