"""`is` of containers and arrays is what Python says, or an error where a traced value decides."""

import numpy as np
import pytest

import wengert as wg
from wengert.errors import MutationError

X = np.array([0.7, -0.3, 0.4, 1.1, -0.6])


class Body:
    def __init__(self, place, speed):
        self.place, self.speed = place, speed


def rows_of(x):
    return [[1.0 * i, x[i % 5]] for i in range(12)]


def all_other_rows(x):
    rows, s = rows_of(x), 0.0
    for one in rows:
        for other in rows:
            if one is not other:
                s = s + np.tanh(one[0] * other[1])
    return s


def rows_at_other_places(x):
    rows, s = rows_of(x), 0.0
    for i in range(12):
        for j in range(12):
            if rows[i] is not rows[j]:
                s = s + np.tanh(rows[i][0] * rows[j][1])
    return s


def the_row_of_the_turn_before(x):
    rows, s = rows_of(x), 0.0
    row = rows[1]
    for i in range(12):
        if row is rows[i]:
            s = s + x[1] + row[1]
        row = rows[i - 11]
    return s


def all_other_bodies(x):
    bodies = [Body(x[i % 5] + i, 0.1 * i) for i in range(3)]
    t = 0.0
    while t < 0.1:
        for one in bodies:
            for other in bodies:
                if one is not other:
                    one.speed = one.speed + 0.1 / (1 + (one.place - other.place) ** 2)
        t = t + 0.02 + 0.001 * bodies[0].speed ** 2
    return sum(one.speed for one in bodies)


def an_array_of_the_turn_before(x):
    a, b, s = x * 2, x * 3, 0.0
    for _ in range(12):
        if a is b:
            s = s + 1
        b = a
        a = a * 0.25 + b * 0.5
        s = s + a[0]
    return s


@pytest.mark.parametrize(
    "f",
    [
        all_other_rows,
        rows_at_other_places,
        the_row_of_the_turn_before,
        all_other_bodies,
        an_array_of_the_turn_before,
    ],
    ids=lambda f: f.__name__,
)
def test_it_is_what_python_says(f):
    for x in (X, -X):
        np.testing.assert_allclose(wg.jit(f)(x), f(x), rtol=1e-12)


def one_of_two_rows(x):
    rows = [[1.0, 2.0], [3.0, x[0]]]
    row = rows[0] if x[0] > 0 else rows[1]
    return 1.0 if row is rows[0] else 2.0


def one_of_two_arrays(x):
    a, b = x * 2, x * 3
    c = a
    if x[1] > 0:
        c = b
    return 1.0 if c is a else 0.0


def all_but_the_largest(x):
    rows = [[1.0, 2.0], [3.0, x[0]], [4.0, 5.0]]
    best = max(rows, key=lambda row: row[0] * x[0])
    return sum(row[0] for row in rows if row is not best)


def the_row_at_a_traced_place(x):
    rows = [[1.0, 2.0], [3.0, x[0]], [4.0, 5.0]]
    row = rows[np.argmax(x[:3])]
    return sum(1.0 for one in rows if 0 < x[0] is not one is row)


def an_array_from_before_a_while(x):
    a = x * 2
    b, s = a, 0.0
    while s < 3:
        if a is b:
            s = s + 1
        a = a * 0.5 + b
        s = s + a[0] ** 2
    return s


@pytest.mark.parametrize(
    "f",
    [
        one_of_two_rows,
        one_of_two_arrays,
        all_but_the_largest,
        the_row_at_a_traced_place,
        an_array_from_before_a_while,
    ],
    ids=lambda f: f.__name__,
)
def test_it_is_an_error_where_a_traced_value_decides(f):
    with pytest.raises(MutationError, match=r"`is` .* whether two arrays or containers are one"):
        wg.jit(f)(X)
