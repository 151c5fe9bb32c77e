"""Loops whose turns read and write rows at places that counters and values decide: with vectors."""

import numpy as np
import pytest

import wengert as wg

# One row's length is that of a vector or not, and loops over it have vectors that end early.
LENGTHS = [1, 2, 3, 8, 9, 16, 33]
TURNS = 12  # too many to be written out


def overlapping(y, w):
    for i in range(TURNS):
        y[i : i + len(w)] += w * y[i]


def shifted(y, w):
    for i in range(TURNS):
        y[i + 1 : i + 1 + len(w)] = 0.5 * y[i : i + len(w)] + w


def backwards(y, w):
    for i in range(TURNS):
        y[i : i + len(w)] = y[i : i + len(w)][::-1] * w


def written_backwards(y, w):
    for i in range(TURNS):
        y[i : i + len(w)][::-1] -= y[i + 1 : i + 1 + len(w)] * w


def far_apart(y, w):
    for i in range(TURNS):
        y[3 * i : 3 * i + len(w)] += np.sin(y[i : i + len(w)]) * w


def from_the_last_on(y, w):
    for i in range(TURNS - 1, -1, -1):
        y[i : i + len(w)] -= w * y[i + len(w)]


def every_second(y, w):
    for i in range(TURNS):
        y[i : i + 2 * len(w) : 2] *= 1.0 + 0.1 * w


def a_part_of_a_part(y, w):
    for i in range(TURNS):
        part = y[i : i + len(w) + 4]
        part[2:-2] += w * part[1:-3]
        part[0] = 2.0


def a_product(y, w):
    for i in range(TURNS):
        y[i + len(w)] -= y[i : i + len(w)] @ w


def largest(y, w):
    for i in range(TURNS):
        y[i : i + len(w)] = np.maximum(y[i : i + len(w)], w)


def summed_twice(y, w):
    for i in range(TURNS):
        for j in range(5):
            y[i + j : i + j + len(w)] += w * y[i + 3 * j]


def two_rows(y, w):
    table = y[: 13 * len(w)].reshape(13, len(w))
    for i in range(TURNS):
        table[i + 1] = table[i] * w + table[i + 1, ::-1]


def inner_parts_of_rows(y, w):
    table = y[: 13 * len(w)].reshape(13, len(w))
    for i in range(TURNS):
        table[i + 1, 1:-1] = table[i, 1:-1] + w[1:-1] * (table[i, 2:] - table[i, :-2])


def blocks(y, w):
    table = y[: 13 * (len(w) + 5)].reshape(13, len(w) + 5)
    for i in range(TURNS - 1):
        for j in range(5):
            table[i : i + 2, j : j + len(w)] += w * table[i + 1, j]


def columns(y, w):
    table = y[: 13 * len(w)].reshape(len(w), 13)
    for j in range(TURNS):
        table[:, j + 1] -= w * table[:, j]


def in_branches(y, w):
    for i in range(TURNS):
        if y[i] > 0:
            y[i : i + len(w)] += w * y[i]
        else:
            for j in range(TURNS):
                y[i + j : i + j + len(w)] -= 0.1 * w


def in_a_loop_that_ends(y, w):
    for i in range(TURNS):
        if y[i] > 2.5:
            break
        y[i : i + len(w)] += w * y[i]


PROGRAMS = [
    *[overlapping, shifted, backwards, written_backwards, far_apart, from_the_last_on],
    *[every_second, a_part_of_a_part, a_product, largest, summed_twice, two_rows],
    *[inner_parts_of_rows, blocks, columns, in_branches, in_a_loop_that_ends],
]


def result_of(program):
    def f(y, w):
        y = y.copy()
        program(y, w)
        return y

    return f


def loss_of(program):
    f = result_of(program)
    return lambda y, w: np.sum(np.cos(f(y, w)))


def arguments(length, dtype="f8"):
    generator = np.random.default_rng(length)
    y = generator.normal(size=13 * (length + 5)).astype(dtype)
    return y, (0.2 * generator.normal(size=length)).astype(dtype)


by_name = pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)


@by_name
@pytest.mark.parametrize("length", LENGTHS)
def test_values_and_gradients(program, length):
    y, w = arguments(length)
    np.testing.assert_allclose(wg.jit(result_of(program))(y, w), result_of(program)(y, w), 1e-12)
    both = wg.value_and_grad(loss_of(program), argnums=(0, 1))
    value, gradients = wg.jit(both)(y, w)
    plain, slopes = both(y, w)
    np.testing.assert_allclose(value, plain, rtol=1e-12)
    for gradient, slope in zip(gradients, slopes, strict=True):
        np.testing.assert_allclose(gradient, slope, rtol=1e-10, atol=1e-12)


@by_name
def test_differences(program):
    wg.check_grads(wg.jit(loss_of(program)), arguments(5))


@by_name
def test_single_precision(program):
    y, w = arguments(21, "f4")
    found = wg.jit(result_of(program))(y, w)
    np.testing.assert_allclose(found, result_of(program)(y, w), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", ["i1", "u2", "i8"])
@pytest.mark.parametrize("program", [overlapping, backwards, summed_twice, two_rows, columns])
def test_integers(program, dtype):
    y, w = np.arange(13 * 25).astype(dtype), np.arange(20).astype(dtype)
    np.testing.assert_array_equal(wg.jit(result_of(program))(y, w), result_of(program)(y, w))


def reads(at):
    return lambda y, i, p, q: y[i + at : i + at + len(p)]


def copies(at):
    return lambda y, i, p, q: y[i + at : i + at + len(p)] * q[0]


def writes(at):
    def statement(y, i, p, q):
        y[i + at : i + at + len(p)] = np.tanh(p - 0.5 * q)
        return p

    return statement


def adds(at):
    def statement(y, i, p, q):
        y[i + at : i + at + len(p)] += 0.3 * np.tanh(p * q)
        return q

    return statement


def reverses(at):
    def statement(y, i, p, q):
        y[i + at : i + at + len(p)] = 0.5 * y[i + at : i + at + len(p)][::-1] + np.tanh(p)
        return y[i : i + len(p)]

    return statement


def sums(at):
    def statement(y, i, p, q):
        y[i + at] = np.tanh(p @ q + y[i + at : i + at + len(p)] @ p)
        return q

    return statement


def multiplies(at):
    def statement(y, i, p, q):
        y[i + at : i + at + len(p)] -= np.tanh(np.outer(p, q) @ y[i : i + len(p)])
        return np.tanh(y[i + at : i + at + len(p)])

    return statement


STATEMENTS = [reads, copies, writes, adds, reverses, sums, multiplies]


def program_of(numbers):
    """A loop of five statements, of which each may use what two before it have read."""
    kinds = numbers.integers(len(STATEMENTS), size=5)
    one, two, three, four, five = (STATEMENTS[k](int(numbers.integers(3))) for k in kinds)

    def program(y, w):
        for i in range(TURNS):
            a = one(y, i, w, w)
            b = two(y, i, w, a)
            c = three(y, i, a, b)
            d = four(y, i, b, c)
            five(y, i, c, d)
            y[-1] += np.tanh(np.sum(a * d))

    return program


@pytest.mark.parametrize("seed", range(25))
def test_parts_are_read_before_they_are_overwritten(seed):
    program = program_of(np.random.default_rng(seed))
    y, w = arguments(3 + seed % 8)
    np.testing.assert_allclose(wg.jit(result_of(program))(y, w), result_of(program)(y, w), 1e-10)
    both = wg.value_and_grad(loss_of(program), argnums=(0, 1))
    (value, gradients), (plain, slopes) = wg.jit(both)(y, w), both(y, w)
    np.testing.assert_allclose(value, plain, rtol=1e-10)
    for gradient, slope in zip(gradients, slopes, strict=True):
        np.testing.assert_allclose(gradient, slope, rtol=1e-8, atol=1e-10)


IN_ROWS = [overlapping, shifted, far_apart, from_the_last_on, a_part_of_a_part, largest, two_rows]


@pytest.mark.parametrize("program", [*IN_ROWS, summed_twice, inner_parts_of_rows, in_branches])
def test_rows_are_written_with_vectors(program):
    y, w = arguments(32)
    code = wg.jit(result_of(program)).explain(y, w).llvm
    assert "store <" in code
    assert code.count("extractelement") < 2


def at_given_places(table, w, places):
    for i in range(len(places)):
        table[places[i]] += w * table[places[i], 0]
        table[places[i], 1:] -= 0.1 * w[1:]
    return table


@pytest.mark.parametrize("length", LENGTHS)
def test_rows_at_given_places(length):
    generator = np.random.default_rng(length)
    table, w = generator.normal(size=(7, length)), 0.2 * generator.normal(size=length)
    places = np.array([3, -1, 3, 0, 6, -7, 2, 2, 1, 0, -2])
    f = lambda table, w: at_given_places(table.copy(), w, places)
    np.testing.assert_allclose(wg.jit(f)(table, w), f(table, w), rtol=1e-12)
    traced = lambda table, w, places: at_given_places(table.copy(), w, places)
    np.testing.assert_allclose(wg.jit(traced)(table, w, places), f(table, w), rtol=1e-12)
    slope = wg.grad(lambda table, w: np.sum(np.cos(traced(table, w, places))), argnums=(0, 1))
    for found, plain in zip(wg.jit(slope)(table, w), slope(table, w), strict=True):
        np.testing.assert_allclose(found, plain, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("bad", [7, -8, 2**40, -(2**62)])
def test_rows_that_do_not_exist(bad):
    table, w = np.ones((7, 9)), np.ones(9)
    f = wg.jit(lambda table, w, places: at_given_places(table.copy(), w, places))
    places = np.arange(11) % 7
    f(table, w, places)
    places[8] = bad
    with pytest.raises(IndexError):
        f(table, w, places)
