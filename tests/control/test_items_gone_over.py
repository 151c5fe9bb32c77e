"""Loops over lists of lists and arrays: what a turn has of a list is that item itself.

Each program is run by Python itself, and compiled it must give the same, or say that it cannot.
"""

import numpy as np
import pytest

import wengert as wg
from wengert.errors import MutationError

X = np.linspace(0.1, 1, 30)


def rows_of(x, width=20):
    rows = [[0.0] * width for _ in range(30)]
    for i in range(1, 30):
        for j in range(width):
            rows[i][j] = x[i] * x[j]
    return rows


def arrays_of(x):
    found = [x * 1.0]
    for k in range(12):
        found.append(found[-1] * 1.1 + k)
    return found


def total(rows):
    return sum(map(sum, rows))


def in_another_list(x):
    rows = rows_of(x)
    other = [row for row in rows]  # noqa: C416
    other[3][2] = 7.0
    return total(rows) + 2 * total(other)


def short_ones_in_another_list(x):
    rows = rows_of(x, 3)
    other = [row for i, row in enumerate(rows) if i > 3]
    other[3][2] = 7.0
    return total(rows) + 2 * total(other)


def appended(x):
    rows, other = rows_of(x), []
    for row in rows:
        other.append(row)
    other[3][2] = 7.0
    return total(rows) + 2 * total(other)


def read_at_a_counter_and_appended(x):
    rows, other = rows_of(x), []
    for i in range(30):
        other.append(rows[i])
    other[3][2] = 7.0
    return total(rows) + 2 * total(other)


def put_in_places(x):
    rows, other = rows_of(x, 3), [None] * 30
    for i, row in enumerate(rows):
        other[i] = row
    other[3][2] = 7.0
    return total(rows) + 2 * total(other)


def inside_of_others(x):
    rows = rows_of(x, 3)
    pairs = [[a, b] for a, b in zip(rows, rows[::-1], strict=True)]
    pairs[3][0][2] = 7.0
    return total(rows)


def the_last_one(x):
    rows = rows_of(x)
    last = rows[0]
    for row in rows:
        last = row
    last[2] = 7.0
    return total(rows)


def the_one_before(x):
    rows, s = rows_of(x), 0.0
    before = rows[0]
    for row in rows:
        s += row[1] * before[2]
        before = row
    before[2] = 7.0
    return rows[29][2] + s


def set_in_turns(x):
    rows, s = rows_of(x), 0.0
    for row in rows:
        row[0] = row[0] * 2.0 + row[3]
    for i, row in enumerate(rows):
        row[1] = row[0] * i + row[3]
    for row in rows:
        s = s * 0.5 + row[0] * row[1]
    return s


def arrays_in_another_list(x):
    arrays = arrays_of(x)
    other = [one for one in arrays]  # noqa: C416
    other[3][2] = 7.0
    return sum(arrays).sum() + 2 * sum(other)[2]


def arrays_inside_of_others(x):
    arrays, other = arrays_of(x), []
    for one in arrays:
        other.append([one, 1.0])
    for pair in other:
        pair[0][2] = 7.0
    return sum(arrays).sum()


def the_array_before(x):
    arrays, before, s = arrays_of(x), x * 0.0, 0.0
    for one in arrays:
        s = s + (before * one).sum()
        before = one
    before[2] = 7.0
    return arrays[12][2] + s


@pytest.mark.parametrize(
    "f",
    [
        in_another_list, short_ones_in_another_list, appended, read_at_a_counter_and_appended,
        put_in_places, inside_of_others, the_last_one, the_one_before, set_in_turns,
        arrays_in_another_list, arrays_inside_of_others, the_array_before,
    ],
)  # fmt: skip
def test_an_item_is_that_of_the_list(f):
    value, gradient = wg.jit(wg.value_and_grad(f))(X)
    np.testing.assert_allclose(value, f(X), rtol=1e-13)
    np.testing.assert_allclose(gradient, wg.grad(f)(X), rtol=1e-12, atol=1e-14)


def the_best_row(x):
    rows, best = rows_of(x), [0.0] * 20
    for row in rows:
        if row[1] > best[1]:
            best = row
    best[2] = 7.0
    return rows[29][2] + best[1]


def the_best_array(x):
    arrays, best = arrays_of(x), x * 0.0
    for one in arrays:
        if one[2] > best[2]:
            best = one
    best[2] = 7.0
    return arrays[12][2] + best[1]


@pytest.mark.parametrize("f", [the_best_row, the_best_array])
def test_which_item_it_is_may_be_traced(f):
    with pytest.raises(MutationError, match="decides whether both are the same"):
        wg.jit(f)(X)
