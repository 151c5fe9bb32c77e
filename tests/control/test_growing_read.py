"""Lists that a loop appends to, whose items its turns read at any place."""

import numpy as np
import pytest

import wengert as wg

X = np.random.default_rng(0).uniform(0.5, 1.5, 6)
A = np.eye(6) * 2 + np.arange(36.0).reshape(6, 6) / 40


def basis(x):
    found = [x / np.sqrt((x * x).sum())]
    h = np.zeros((21, 20))
    for k in range(20):
        v = np.tanh(A @ found[k])
        for j in range(k + 1):
            h[j, k] = found[j] @ v
            v = v - 0.1 * h[j, k] * found[j]
        found.append(v / np.sqrt((v * v).sum() + 0.1))
    return (h * h).sum() + found[7][2] * found[-1][1]


def read_inside_alone(x):
    found = [x]
    for _ in range(20):
        s = x * 0
        for j in range(len(found)):
            s = s + found[j] / (j + 1)
        found.append(np.cos(s))
    return sum(found)[1]


def gone_over(x):
    found = [x[0], x[1]]
    for k in range(20):
        s = 0.0
        for v in found:
            s = s * 0.5 + v
        found.append(np.sin(s) + k)
    return sum(found)


def numbers(x):
    catalan = [x[0]]
    for n in range(1, 15):
        s = 0.0
        for i in range(n):
            s = s + catalan[i] * catalan[n - 1 - i] * 0.1
        catalan.append(s)
    return catalan[14] + catalan[3]


def from_nothing(x):
    found = []
    for k in range(20):
        s = x[2]
        for j in range(k):
            s = s + 0.1 * found[j] * found[j // 2]
        found.append(np.sin(s))
    return found[-1] + found[3]


def both_ends(x):
    found = [x[0], 1]
    for _ in range(20):
        found.append(found[0] * 0.5 + found[-1] * found[len(found) // 2] * 0.3 + found[2 - 2])
    return found[-1] + found[4]


def pairs(x):
    found = [(x[0], x[1])]
    for k in range(20):
        a, b = found[k // 2]
        found.append((a * 0.5 + b, np.sin(a)))
    return sum(a * b for a, b in found)


def at_traced_places(x):
    found, place = [x[0]], 0
    for k in range(20):
        v = np.sin(found[place] + k)
        place = place + 1 if v > 0.3 else place // 2
        found.append(v)
    return sum(found) + found[place]


def in_the_list_that_is_made(x):
    found = [x[0]]
    for k in range(12):
        found.append(sum(found[j] * x[j % 6] for j in range(k + 1)) * 0.2)
    return found[-1]


def written_behind(x):
    found = [x * 1.0]
    for k in range(12):
        found.append(np.sin(found[k // 2]))
    found[3][1] = 7.0
    return sum(found)[1] + found[6][1]


def written_in_a_turn(x):
    found = [x * 1.0]
    for k in range(12):
        v = found[k // 2]
        v[0] = v[0] * 0.5
        found.append(v * 0.9)
    return sum(found).sum()


def kept_by_a_variable(x):
    found, kept = [x * 1.0], x * 0
    for k in range(12):
        kept = found[k // 2]
        found.append(kept * 0.9 + k)
    kept[0] = 7.0
    return sum(found).sum()


def appended_once_more(x):
    found = [x * 1.0]
    for k in range(12):
        v = found[k // 2]
        found.append(v)
        found[k + 1][0] = found[k + 1][0] + 1.0
    return sum(found).sum()


def sometimes_appended(x):
    found = [x[0]]
    for k in range(12):
        v = found[len(found) // 2] * 0.5
        if k % 3:
            found.append(v + x[k % 6])
    return sum(found)


def appended_twice(x):
    found = [x[0]]
    for k in range(12):
        v = found[k // 2] * 0.5
        found.append(v + x[k % 6])
        found.append(v * found[len(found) // 2])
    return sum(found)


def set_at_once(x):
    kept = {"x": [x[0]], "t": [0.0]}
    for i in range(1, 20):
        kept["x"].append(kept["x"][-1] * 0.9 + x[i % 6])
        kept["x"][-1] = np.tanh(kept["x"][-1])
        kept["t"].append(kept["t"][-1] + 0.1)
        kept["t"][-1] += 0.05
    return sum(kept["x"]) * kept["t"][-1]


def one_of_two_set_at_once(x):
    found = [x[0]]
    for i in range(20):
        found.append(found[i] * 0.5)
        if i % 2 == 0:
            found.append(1.0)
            found.append(found[-2] + found[i // 2])
            found[-2] = found[-1] * x[i % 6]
            del found[-1]
            del found[-1]
    return sum(found)


def set_and_read(x):
    found = [x[0]]
    for i in range(20):
        found.append(found[i // 2] * 0.5)
        found[-1] = found[-1] + x[i % 6] * found[i // 3]
    return sum(found)


def an_earlier_one_set(x):
    found = [x[0]]
    for i in range(20):
        found[-1] = found[-1] + x[i % 6]
        found.append(found[-1] * 0.5)
    return sum(found)


PROGRAMS = [
    set_at_once, one_of_two_set_at_once, set_and_read, an_earlier_one_set,
    basis, read_inside_alone, gone_over, numbers, from_nothing, both_ends, pairs, at_traced_places,
    in_the_list_that_is_made, written_behind, written_in_a_turn, kept_by_a_variable,
    appended_once_more, sometimes_appended, appended_twice,
]  # fmt: skip


@pytest.mark.parametrize("f", PROGRAMS, ids=lambda f: f.__name__)
def test_value_and_gradient(f):
    value, gradient = wg.jit(wg.value_and_grad(f))(X)
    np.testing.assert_allclose(value, f(X), rtol=1e-12)
    along, step = np.arange(6.0) - 2.5, 1e-6
    slope = (f(X + step * along) - f(X - step * along)) / (2 * step)
    np.testing.assert_allclose(gradient @ along, slope, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize(
    "f",
    [
        basis, read_inside_alone, gone_over, numbers, from_nothing, both_ends, pairs, set_at_once,
        set_and_read,
    ],
    ids=lambda f: f.__name__,
)  # fmt: skip
def test_turns_are_traced_once(f):
    compiled = wg.jit(f)
    compiled(X)
    assert len(compiled.program(X).stages.graph.operators) < 70


def test_an_index_out_of_range():
    """Items that are not there yet have room, but are none."""

    def f(x, far):
        found = [x]
        for k in range(20):
            found.append(np.sin(found[k // 2 + (far > 0.5) * (k > 10) * 12]))
        return found[-1]

    compiled = wg.jit(f)
    np.testing.assert_allclose(compiled(0.5, 0.0), f(0.5, 0.0))
    with pytest.raises(IndexError, match="list index out of range"):
        f(0.5, 1.0)
    with pytest.raises(IndexError, match="list index out of range"):
        compiled(0.5, 1.0)


def test_single_precision_is_kept():
    for f in (numbers, from_nothing, pairs):
        got = wg.jit(f)(X.astype(np.float32))
        assert got.dtype == f(X.astype(np.float32)).dtype == np.float32
