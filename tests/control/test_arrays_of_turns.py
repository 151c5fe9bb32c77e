"""Arrays that variables hold behind a loop: those that containers hold too are the very same."""

import numpy as np
import pytest

import wengert as wg
from wengert.errors import MutationError

X = np.array([-0.13, 1.2, 2.9, -0.03, 0.73])


def beside_one_that_is_replaced(x):
    arrays = [np.zeros(5), x * 0.5, x * 2]
    for i in range(12):
        arrays[1] = x * i
        one = arrays[0]
    one[0] = x[0]
    return one.sum() + sum((a * a).sum() for a in arrays)


def beside_two_that_change_places(x):
    arrays = [x * 0.3, x * 0.5, x * 2]
    for _ in range(12):
        arrays[1], arrays[2] = arrays[2], arrays[1]
        one = arrays[0]
    for i in range(9):
        one[i % 5] = x[i % 5]
    return one.sum() + sum((a * a).sum() for a in arrays)


def one_in_place_of_itself(x):
    arrays = [np.full(5, 0.5), x * 0.5, np.zeros(5)]
    for _ in range(12):
        arrays[2], arrays[-1] = arrays[-1], arrays[2]
        one = arrays[0]
    one[1] = x[0]
    return one.sum() + sum((a * a).sum() for a in arrays)


def in_a_dictionary(x):
    held = {"a": np.zeros(5), "b": x[0]}
    for _ in range(12):
        held["b"] = held["b"] * 0.5
        one = held["a"]
    one[0] = x[0]
    return one.sum() + held["a"].sum() * 2 + held["b"]


def written_in_the_turns_too(x):
    arrays = [np.zeros(5), x * 0.5]
    for i in range(12):
        arrays[0][i % 5] += x[i % 5]
        arrays[1] = x * i
        one = arrays[0]
    one[1] = x[0]
    return one.sum() * 3 + sum((a * a).sum() for a in arrays)


def of_the_other(x):
    arrays, one = [np.zeros(5), x * 0.5, x * 3], x * 2
    for i in range(12):
        one = arrays[2]
        arrays[1] = x * i
    arrays[2][1] = x[0]
    return one.sum() * 3 + sum((a * a).sum() for a in arrays)


@pytest.mark.parametrize(
    "f",
    [
        beside_one_that_is_replaced,
        beside_two_that_change_places,
        one_in_place_of_itself,
        in_a_dictionary,
        written_in_the_turns_too,
        of_the_other,
    ],
    ids=lambda f: f.__name__,
)
def test_a_write_behind_the_loop_is_seen(f):
    value, gradient = wg.jit(wg.value_and_grad(f))(X)
    np.testing.assert_allclose(value, f(X), rtol=1e-12)
    np.testing.assert_allclose(gradient, wg.grad(f)(X), rtol=1e-9, atol=1e-12)


def test_a_view_that_a_turn_took_is_right_or_refused():
    def f(x):
        m = np.ones((5, 5))
        row = m[1]
        for _ in range(12):
            m = m.T
            break
        row[1] += x[0]
        row[2] += x[1]
        return (m * np.arange(25.0).reshape(5, 5)).sum() + row.sum()

    try:
        value = wg.jit(f)(X)
    except MutationError as error:
        assert "whether it was changed" in str(error)
    else:
        np.testing.assert_allclose(value, f(X), rtol=1e-12)


def replaced_in_some_turns(x):
    m = np.ones((5, 5))
    r = m[:, -1]
    for i in range(9):
        r += np.tanh(r[0] * x[0])
        if i % 2 == 0:
            continue
        r = r * 0.9
    return m.sum() * 2 + r.sum()


def replaced_in_every_turn(x):
    m = np.ones(5)
    r = m
    for _ in range(9):
        r += np.tanh(r[0] * x[0])
        r = r * 0.9
    return m.sum() * 2 + r.sum()


@pytest.mark.parametrize("f", [replaced_in_some_turns, replaced_in_every_turn])
def test_an_array_that_turns_write_to_and_replace(f):
    value, gradient = wg.jit(wg.value_and_grad(f))(X)
    np.testing.assert_allclose(value, f(X), rtol=1e-12)
    np.testing.assert_allclose(gradient, wg.grad(f)(X), rtol=1e-9, atol=1e-12)


def test_whether_an_array_is_one_that_a_branch_gave_is_an_error():
    def f(x):
        a, b = np.zeros(5), np.ones(5) * x[0]
        if x[1] > 0:
            a[1:] += 0.1
            b = a
        return 1.0 if a is b else 2.0 + x[0]

    with pytest.raises(MutationError, match="`is`"):
        wg.jit(f)(X)
