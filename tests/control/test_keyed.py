"""Dictionaries at traced keys."""

import numpy as np
import pytest

import wengert as wg
from wengert.errors import ControlFlowError, MutationError

X = np.array([0.7, -0.4, 1.3])


def numbers(x):
    kinds = {0: 1.0, 1: x[1], 5: 2.0 * x[0]}
    return kinds[int(x[0] > 0)] * x[2] + kinds[5 * int(x[1] > 0)]


def pairs(x):
    table = {(i, j): x[i] * j for i in range(3) for j in range(3)}
    return table[int(x[0] > 0), 2] + table[1, int(x[1] > 0)] + table[2, 2]


def arrays(x):
    parts = {3: x * 2, 4: np.sin(x)}
    return parts[3 + int(x[0] > 0)][1] * parts[3][2]


def tuples(x):
    steps = {-1: (x[0], 2), 1: (x[1], 3)}
    a, b = steps[int(np.sign(x[0]))]
    return a * b


def in_a_loop(x):
    following = {0: 1, 1: 2, 2: 0}
    weight = {0: x[0], 1: x[1], 2: x[2]}
    state, s = 0, 0.0
    for k in range(20):
        s = s * 0.5 + weight[state]
        state = following[state] if s * k > 0.3 else state
    return s


@pytest.mark.parametrize("x", [X, -X], ids=["x", "negative"])
@pytest.mark.parametrize("f", [numbers, pairs, arrays, tuples, in_a_loop], ids=lambda f: f.__name__)
def test_values_and_gradients(f, x):
    value, gradient = wg.jit(wg.value_and_grad(f))(x)
    np.testing.assert_allclose(value, f(x), rtol=1e-13)
    np.testing.assert_allclose(gradient, wg.grad(f)(x), rtol=1e-12, atol=1e-14)


def test_a_key_that_is_not_there():
    compiled = wg.jit(lambda x: {0: x, 2: 2 * x}[np.rint(x)])
    assert compiled(2.0) == 4.0
    with pytest.raises(KeyError):
        compiled(1.0)


def test_keys_of_other_kinds():
    with pytest.raises(
        ControlFlowError, match=r"compared with keys that are no numbers\. Use a list"
    ):
        wg.jit(lambda x: {"a": x}[int(x)])(1.0)


def test_a_traced_key_is_not_set():
    def f(x):
        found = {0: 1.0, 1: 2.0}
        found[int(x > 0)] = x
        return found[0]

    with pytest.raises(
        ControlFlowError, match="setting an item of a dictionary: the key is traced"
    ):
        wg.jit(f)(1.0)


def test_a_write_to_one_of_several():
    def f(x):
        rows = {0: [1.0, x], 1: [2.0, x]}
        rows[int(x > 0)][0] = 5.0
        return rows[0][0]

    with pytest.raises(MutationError):
        wg.jit(f)(1.0)
