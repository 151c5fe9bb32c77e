"""Lists, containers and objects in loops: traced once, with what Python would leave in them."""

import dataclasses

import numpy as np
import pytest

import wengert as wg
from wengert.control.runtime import Runtime

X = np.linspace(0.1, 1.4, 12)
PAIRS = [(i, (7 * i + 3) % 12) for i in range(12)]
WEIGHTS = [0.1 * k for k in range(1, 13)]


@dataclasses.dataclass
class State:
    x: object


class Cell:
    def __init__(self, weight):
        self.weight = weight

    def __call__(self, h, x):
        return np.tanh(self.weight * h + x)


class Springs:
    def __init__(self, strength):
        self.strength, self.name, self.size = strength, "springs", 12
        self.x, self.v, self.time = np.linspace(0, 1, 12) ** 2, np.zeros(12), 0.0
        self.energy = 0

    def force(self):
        found = np.zeros(self.size)
        stretch = self.strength * (self.x[1:] - self.x[:-1])
        found[:-1] += stretch
        found[1:] -= stretch
        return found

    def step(self, h):
        self.v += h * self.force()
        self.x = self.x + h * self.v
        self.energy += 0.5 * np.sum(self.v**2)
        self.time += h


# ---------------------------------------------------------------- appended to


def stacked(x):
    outs, h = [], x
    for i in range(20):
        h = np.sin(h) + i
        outs.append(h)
    return np.sum(np.stack(outs)[3:] ** 2) + outs[5][1]


def of_the_last_two(x):
    eps = [x[0], 0.0]
    for t in range(2, 12):
        eps.append(x[t] - 0.3 * eps[-1] - 0.2 * eps[-2])
    return np.sum(np.array(eps) ** 2)


def of_the_one_before(x):
    xs = [x[0]]
    for t in range(1, 12):
        xs.append(0.5 * xs[t - 1] + x[t] ** 2)
    return np.mean(np.array(xs)) + xs[3]


def pairs_appended(x):
    outs, h = [], x
    for _ in range(20):
        h = h * 1.1
        outs.append((h, h.sum()))
        outs.append((h * 2, 1.0))
    return sum(np.sum(p) * q for p, q in outs)


def by_counting(x):
    outs, t = [], 0
    while t < 30:
        outs.append(x * t)
        t += 1
    return np.sum(np.array(outs) ** 2)


def rows_of_rows(x):
    outs = []
    for i in range(11):
        row = []
        for j in range(10):
            row.append(x[1] * i + x[2] * j)
        outs.append(np.stack(row))
    return np.sum(np.stack(outs) ** 2)


def forth_and_back(x):
    outs, h = [], x
    for _ in range(20):
        h = np.sin(h)
        outs.append(h)
    s = 0.0
    for o in reversed(outs):
        s = s * 0.5 + o.sum()
    for t in range(len(outs) - 1, -1, -1):
        s = s * 0.5 + outs[t].sum()
    for k, (o, p) in enumerate(zip(outs[1:], outs[:-1], strict=True)):
        s = s + k * o @ p
    return s + sum(outs)[2]


def at_the_front(x):
    outs = [x[11]]
    for i in range(10, -1, -1):
        outs.insert(0, outs[0] * 0.5 + x[i])
    return outs[0] + outs[3] ** 2 + outs[-1]


def pairs_at_the_front(x):
    outs = [(x[11], x), (x[10], x * 2)]
    for i in range(9, -1, -1):
        number, array = outs[1]
        outs.insert(0, (number * 0.5 + x[i], np.sin(array) + outs[0][1]))
    return sum(p * np.sum(q) for p, q in outs)


# ---------------------------------------------------------------- filled


def filled_forwards(x):
    outs = [None] * 12
    outs[0], outs[1] = x, x * 2
    for i in range(2, 12):
        outs[i] = np.sin(outs[i - 1]) - 0.5 * outs[i - 2]
    return np.sum(np.array(outs) ** 2) + outs[4][2]


def filled_backwards(x):
    given, outs = [], [None] * 12
    for i in range(12):
        given.append((x * i, x[i]))
    outs[-1] = given[-1]
    for i in reversed(range(11)):
        p, q = given[i]
        outs[i] = p + 0.5 * outs[i + 1][0], q * outs[i + 1][1]
    return sum(np.sum(p) + q for p, q in outs)


def filled_every_other(x):
    outs = [0.0] * 24
    for i in range(12):
        outs[2 * i + 1] = x[i] ** 2
    return outs[3] + outs[2] + len(outs) * outs[23]


def read_after_it_is_set(x):
    outs = [1.0] * 12
    for i in range(1, 12):
        outs[i] = x[i] * outs[i - 1]
        x = x + outs[i]
    return outs[11] + outs[0]


# ---------------------------------------------------------------- gone over, read


def over_pairs(x):
    s = 0.0
    for i, j in PAIRS:
        s += (x[i] - x[j]) ** 2
    return s


def read_at_a_traced_place(x):
    s = 0.0
    for k in range(12):
        s = s + WEIGHTS[k] * x[k]
    return s


def numbers_stay_weak(x):
    half = x.astype(np.float32)
    s = half * 0
    for w in WEIGHTS:
        s = s + w * half
    return np.sum(s)


# ---------------------------------------------------------------- changed, called


def dict_by_two_names(x):
    state = {"x": x}
    alias = state
    for _ in range(20):
        state["x"] = state["x"] * 1.1
    return np.sum(alias["x"])


def dataclass_by_two_names(x):
    state = State(x)
    alias = state
    for _ in range(20):
        state.x = state.x * 1.1
    return np.sum(alias.x)


def array_in_a_tuple(x):
    b = x.copy()
    t = (b, 1.0)
    for _ in range(20):
        t[0][1] += x[1]
    return np.sum(b) + np.sum(t[0])


def array_in_a_dict(x):
    b = x.copy()
    t = {"b": b}
    for _ in range(20):
        t["b"] += x[1]
    return np.sum(b) * np.sum(t["b"])


def objects_called(x):
    cell, h = Cell(x[0]), x[1]
    for one in x:
        h = cell(h, one)
    return h


def objects_changed(x):
    springs = Springs(x[3])
    speed, other = springs.v, springs
    for _ in range(20):
        springs.step(0.05 * x[2])
    return np.sum(springs.x**2) + other.energy + springs.time + np.sum(speed)


def added_at(x):
    places, total = np.array([0, 1, 1, 2]), np.zeros(3)
    for t in range(12):
        one = np.zeros(3)
        np.add.at(one, places, x[t] * np.arange(4.0))
        np.subtract.at(total, places, one[places] ** 2)
    return np.sum(total * np.arange(3.0))


def _buffers(x, turns):
    u, new = x.copy(), x.copy()
    first = new
    for i in range(turns):
        new[1:-1] = u[1:-1] + 0.25 * (u[2:] - u[:-2]) + i
        u, new = new, u
    return np.sum(u**2) + 3 * np.sum(new) + 5 * np.sum(first)


def buffers_change_places(x):
    return _buffers(x, 20)


def buffers_end_where_they_were_not(x):
    return _buffers(x, 21)


def three_buffers(x):
    a, b, c = x.copy(), 2 * x, 3 * x
    kept = b
    for i in range(20):
        c[1:] = a[1:] + b[:-1] * i / 20
        a, b, c = b, c, a
    return np.sum(a) + 2 * np.sum(b) + 3 * np.sum(c) + 5 * np.sum(kept)


def added_in_place(x):
    seen = [x[0]]
    for i in range(1, 30):
        seen += [np.sin(seen[-1]) + x[i % 3]]
    return np.sum(np.array(seen) ** 2)


ONCE = [
    added_in_place, stacked, of_the_last_two, of_the_one_before, pairs_appended, by_counting,
    rows_of_rows, forth_and_back, over_pairs, read_at_a_traced_place, numbers_stay_weak,
    dict_by_two_names, dataclass_by_two_names, array_in_a_tuple, array_in_a_dict, objects_called,
    objects_changed, added_at, buffers_change_places, buffers_end_where_they_were_not,
    three_buffers, at_the_front, pairs_at_the_front, filled_forwards, filled_backwards,
    filled_every_other, read_after_it_is_set,
]  # fmt: skip


@pytest.mark.parametrize("f", ONCE)
def test_traced_once(f, monkeypatch):
    turns = []
    plainly = Runtime._plainly

    def watched(self, over, done, *rest):
        if type(over) is list:  # what is made of the lists behind the loop
            plainly(self, over, done, *rest)
        else:
            turns.append(done)

    monkeypatch.setattr(Runtime, "_plainly", watched)
    found, gradient = wg.jit(wg.value_and_grad(f))(X)
    assert set(turns) <= {-1}
    assert np.allclose(found, f(X), rtol=1e-6 if found.dtype == np.float32 else 1e-12)
    assert found.dtype == f(X).dtype
    assert np.allclose(gradient, wg.grad(f)(X), rtol=1e-6)


# ---------------------------------------------------------------- turn by turn, where it must be


def the_same_array_again(x):
    b, outs = x.copy(), []
    for _ in range(10):
        b += 1
        outs.append(b)
    return np.sum(np.stack(outs))


def known_to_two_lists(x):
    outs = []
    both = [outs, outs]
    for i in range(10):
        outs.append(x * i)
        both[1].append(x)
    return np.sum(np.stack(both[0]))


def as_long_as_it_is(x):
    outs, s = [], 0.0
    for _ in range(10):
        outs.append(x)
        s = s + len(outs) * x[0]
    return s


def one_buffer_is_new(x):
    u, new = x.copy(), x.copy()
    alias = u
    for _ in range(10):
        new[1:] = u[:-1] * 1.1
        u = new
        new = u.copy()
    return np.sum(u) + 2 * np.sum(alias)


def attributes_that_come_late(x):
    springs = Springs(x[3])
    for i in range(10):
        springs.late = springs.time * x[0]
        springs.time += i
    return springs.late


def set_twice(x):
    outs = [0.0] * 13
    for i in range(12):
        outs[i] = x[i]
        outs[i + 1] = 2 * x[i]
    return sum(outs)


def set_and_read_as_it_was(x):
    outs = [0.5 * k for k in range(12)]
    for i in range(11):
        outs[i] = x[i] + outs[i + 1]
    return sum(outs)


def filled_with_what_is_written_later(x):
    outs, a = [None] * 12, x.copy()
    for i in range(12):
        a += 1
        outs[i] = a
    return sum(np.sum(o) for o in outs)


def what_is_read_is_written(x):
    outs = [x * k for k in range(12)]
    for i in range(1, 12):
        before = outs[i - 1]
        before += x[i]
        outs[i] = before * 2
    return sum(np.sum(o) for o in outs)


def known_to_two_names(x):
    outs = [0.0] * 12
    also = outs
    for i in range(1, 12):
        outs[i] = outs[i - 1] + x[i] + also[i - 1]
    return sum(also)


def front_and_end(x):
    outs = [x[0]]
    for i in range(12):
        outs.insert(0, outs[0] + x[i])
        outs.append(outs[-1] * x[i])
    return sum(outs)


def objects_by_two_arrays(x):
    springs = Springs(x[3])
    speed, s = springs.v, 0.0
    for _ in range(10):
        springs.step(0.05)
        s = s + np.sum(speed)
    return s


def two_names_in_the_loop(x):
    b = x.copy()
    t = {"b": b}
    s = 0.0
    for _ in range(10):
        t["b"] += x[1]
        s = s + b[0]
    return s


@pytest.mark.parametrize(
    "f",
    [
        *[the_same_array_again, known_to_two_lists, as_long_as_it_is, two_names_in_the_loop],
        *[one_buffer_is_new, attributes_that_come_late, objects_by_two_arrays, set_twice],
        *[set_and_read_as_it_was, filled_with_what_is_written_later, known_to_two_names],
        *[what_is_read_is_written, front_and_end],
    ],
)
def test_turn_by_turn(f):
    assert np.allclose(wg.jit(f)(X), f(X))


def test_functions_of_lists():
    def f(x):
        parts = [x[0], x[1] ** 2, 3.0]
        return np.mean(parts) + np.max(np.exp(parts)) + np.dot(parts, (x[2], 1.0, x[3]))

    assert np.allclose(wg.jit(f)(X), f(X))


def test_any_function_of_an_array_takes_a_list():
    """NumPy makes an array of a list itself, and asks none of the items whether it is traced."""

    def f(x):
        a, b, c = x[0], x[1] ** 2, x[2] + x[3]
        curve = np.interp(0.4, [0.0, 1.0, 2.0], [a, b, c]) + np.trapezoid([a, b], [c, 2 * c])
        steps = np.cumsum([a, b, c])[1] * np.gradient([a, b, c])[2] + np.polyval([a, b, c], 0.3)
        square = np.diag([a, b]) + np.diag([c], 1) + np.outer([a, b], [c, 1.0])
        larger = np.vstack([[a, b], [c, 1.0]]) + np.stack([square[0], [b, c]])
        solved = np.linalg.det([[a, b], [c, 2.0]]) + np.linalg.solve(larger, [a, 1.0])[0]
        return curve + steps + solved + np.sum(np.concatenate([[a, b], x]) ** 2)

    value, gradient = wg.jit(wg.value_and_grad(f))(X)
    np.testing.assert_allclose(value, f(X), rtol=1e-12)
    direction = np.cos(np.arange(12))
    slope = (f(X + 1e-6 * direction) - f(X - 1e-6 * direction)) / 2e-6
    np.testing.assert_allclose(gradient @ direction, slope, rtol=1e-7)


def test_a_list_becomes_an_array_outside_of_the_loop_that_reads_it():
    """Under a condition too, where it would be put together anew in every turn."""

    def f(x):
        found, total = [x[0]], 0.0
        for k in range(1, 12):
            found.append(np.sin(found[-1]) * x[k])
        found.reverse()
        for k, one in enumerate(found):
            total += one**2
            if k > 0:
                total += found[k - 1] * one
        return total

    def joins(graph, depth=0):
        for node in graph.nodes:
            if "concatenate" in str(getattr(node, "op", "")) or "index" in str(
                getattr(node, "op", "")
            ):
                yield depth, node.type.shape
            for value in getattr(node, "params", {}).values():
                bodies = getattr(value, "bodies", [value] if hasattr(value, "graph") else [])
                for body in bodies:
                    yield from joins(body.graph, depth + 1)

    value, gradient = wg.jit(wg.value_and_grad(f))(X)
    np.testing.assert_allclose(value, f(X), rtol=1e-13)
    np.testing.assert_allclose(gradient, wg.grad(f)(X), rtol=1e-12)
    made = list(joins(wg.jit(f).program(X).stages.captured.graph))
    assert (0, (12,)) in made
    assert all(shape == () for depth, shape in made if depth)


def test_copies_of_plain_arrays_can_be_written_to():
    start = np.arange(3)

    def f(x):
        u, v, w = start.copy(), start.astype(float), start.flatten()
        v += x[:3]
        u[0], w[:2] = 5, v[1:].astype(int)
        return np.sum(v * u) + w[0]

    assert np.allclose(wg.jit(f)(X), f(X))
    assert np.array_equal(start, [0, 1, 2])


def test_until_converged():
    def by_two_names(x):
        state = {"x": x}
        alias = state
        while np.sum(state["x"]) < 100.0:
            state["x"] = state["x"] * 1.1
        return np.sum(alias["x"])

    assert np.allclose(wg.jit(by_two_names)(X), by_two_names(X))


def test_lists_of_blocks_say_where_arrays_stand():
    def f(x):
        rows = x[:6].reshape(2, 3)
        both = np.block([[rows, rows * 2.0], [np.ones((1, 3)), x[None, :3]]])
        return both, np.block([x[0], x[1]]), np.block([[x[0], 2.0], [x[1], x[2]]])

    for found, wanted in zip(wg.jit(f)(X), f(X), strict=True):
        np.testing.assert_allclose(found, wanted)


def test_lists_are_sorted_in_place():
    def f(x):
        pairs = [(x[k], float(k)) for k in range(5)]
        same = pairs
        pairs.sort(key=lambda pair: -pair[0])
        names = [3, 1, 2]
        names.sort()
        return same[0][0] * 10 + same[1][1] + sum(p * w for p, w in pairs) + names[0]

    x = np.array([0.3, 2.0, -1.0, 0.7, 1.1])
    np.testing.assert_allclose(wg.jit(f)(x), f(x), rtol=1e-14)
    want = np.array([f(x + 1e-6 * e) - f(x - 1e-6 * e) for e in np.eye(5)]) / 2e-6
    np.testing.assert_allclose(wg.jit(wg.grad(f))(x), want, rtol=1e-7)


def test_known_items_are_sorted_by_traced_keys():
    def f(x):
        best = sorted([[1.0, 0.0], [0.0, 2.0], [3.0, 3.0]], key=lambda p: (p[0] - x) ** 2 + p[1])
        return best[0][0] + 10 * best[2][1] + x

    assert [float(wg.jit(f)(x)) for x in (0.9, 3.1)] == [f(0.9), f(3.1)]
