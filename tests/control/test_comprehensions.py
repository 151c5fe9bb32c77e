"""Comprehensions of traced values: traced once where their turns are alike, Python's otherwise."""

import warnings

import numpy as np
import pytest

import wengert as wg
from wengert.errors import ControlFlowError

X = np.random.default_rng(0).normal(size=(40,))
A = X.reshape(10, 4)


def of_places(x):
    return np.sum(np.array([np.sin(x[i]) * x[i - 1] for i in range(len(x))]) ** 2)


def of_items(x):
    return np.sum(np.stack([np.tanh(row) * row[0] for row in x.reshape(10, 4)]) ** 3)


def kept_as_a_list(x):
    rows = [v * v for v in x]
    return rows[3] + rows[-1] * len(rows) + np.sum(np.array(rows))


def products(x):
    return sum(x[i] * x[-i - 1] for i in range(len(x)))


def started(x):
    return sum([v * 2 for v in x], 10.0) + sum((v for v in x), x[0])


def largest(x):
    return max(np.sin(v) for v in x) - min([v * v for v in x])


def matrix(x):
    return np.sum(np.array([[np.exp(-((a - b) ** 2)) for a in x] for b in x[:15]]) ** 2)


def matrix_of_few(x):
    return np.sum(np.array([[a * b for a in x] for b in x[:3]]) @ x)


def three_deep(x):
    made = np.array([[[a * b + c for a in x[:9]] for b in x[:10]] for c in x[:11]])
    return np.sum(made[1] * made[2, 3, 4])


def columns(x):
    return np.sum(np.array([[np.sin(v), v * v] for v in x]) @ np.array([1.0, 2.0]))


def in_tuples(x):
    return sum(a * b for a, b in [(v, v * v) for v in x])


def flat(x):
    return np.sum(np.array([x[i] * x[j] for i in range(12) for j in range(13)]) ** 2)


def added_flat(x):
    return sum(x[i] * x[j] for i in range(12) for j in range(13) if j != 3)


def triangle(x):
    return sum(x[i] * x[j] for i in range(20) for j in range(i))


def triangle_of_rows(x):
    return sum(sum(x[j] for j in range(i)) * x[i] for i in range(20))


def conditions(x):
    return sum(v * v for v in x if v > 0.2) + sum(x[i] for i in range(len(x)) if i % 3 == 0)


def vectors_under_a_condition(x):
    return np.sum(sum(row / row[0] for row in x.reshape(10, 4) if row[0] > 0.1))


def left_out(x):
    return sum(np.prod(np.array([x[j] - x[i] for j in range(12) if j != i])) for i in range(12))


def choices(x):
    return sum(np.sqrt(v) if v > 0 else v * v for v in x)


def pairs(x):
    return sum(a * b for a, b in zip(x, x[2:])) + sum(i * v for i, v in enumerate(x))  # noqa: B905


def backwards(x):
    return np.sum(np.array([2 * v for v in reversed(x)]) * x)


def taken_apart(x):
    return sum(i * a + b for i, (a, b) in enumerate(zip(x, x[::-1])))  # noqa: B905


def named(x):
    made = {name: np.sum(x) * k for name, k in (("a", 1.0), ("b", 2.0))}
    return made["a"] * made["b"]


def step(v, k):
    return v * k if v > 0 else -v


def by_a_helper(x):
    return sum(step(v, 3.0) for v in x)


def in_a_loop(x):
    total = 0.0
    for i in range(20):
        total = total * 0.9 + sum(x[i] * v for v in x)
    return total


def with_counters(x):
    return sum(x[i] for i in range(40) for _ in range(2)) + sum(1.5 for v in x if v > 0)


ALL = [
    *[of_places, of_items, kept_as_a_list, products, started, largest, matrix, matrix_of_few],
    *[three_deep, columns, in_tuples, flat, added_flat, triangle, triangle_of_rows, conditions],
    *[vectors_under_a_condition, left_out, choices, pairs, backwards, taken_apart, named],
    *[by_a_helper, in_a_loop, with_counters],
]


@pytest.mark.parametrize("f", ALL)
def test_values_and_gradients(f):
    v = np.cos(np.arange(40.0))
    value, gradient = wg.jit(wg.value_and_grad(f))(X)
    np.testing.assert_allclose(value, f(X), rtol=1e-12)
    slope = (f(X + 1e-6 * v) - f(X - 1e-6 * v)) / 2e-6
    np.testing.assert_allclose(np.sum(gradient * v), slope, rtol=1e-6, atol=1e-7)
    _, tangent = wg.jit(lambda x: wg.jvp(f, (x,), (v,)))(X)
    np.testing.assert_allclose(tangent, slope, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("f", ALL)
def test_mapped(f):
    many = np.stack([X, X[::-1], X * 0.5])
    found = wg.jit(wg.vmap(f))(many)
    np.testing.assert_allclose(found, [f(row) for row in many], rtol=1e-12)


def nodes(f, n):
    graph = wg.jit(f).program(np.linspace(0.1, 1, n)).stages.captured.graph
    return len(graph.nodes)


def all_of_a_length(x):
    n = len(x)
    made = np.array([np.sin(x[i]) for i in range(n)]) + sum(x[i] for i in range(n) if i != 2)
    matrix = np.array([[a * b for a in x] for b in x])
    asked = any(v > 3 for v in x) or all(v > x[0] for v in x)
    return np.sum(matrix @ made) + max(v for v in x) + np.where(asked, 1.0, 2.0)


def test_the_length_does_not_make_more_code():
    assert nodes(all_of_a_length, 300) == nodes(all_of_a_length, 30)


def test_any_and_all():
    @wg.jit
    def f(x, bound):
        n = len(x)
        return (
            any(v > bound for v in x),
            all(x[i] < x[i + 1] for i in range(n - 1)),
            any(x[i] > x[j] for i in range(n) for j in range(i)),
            all(v > 0 for v in x if v > bound),
            any(v for v in x if v > bound),
            any([v > bound for v in x]),  # noqa: C419 - the plain form
        )

    for x in (X, np.sort(X), -np.abs(X), np.zeros(40)):
        for bound in (-9.0, 0.0, 9.0):
            assert [bool(a) for a in f(x, bound)] == [bool(a) for a in f.function(x, bound)]


def test_items_are_counted():
    @wg.jit
    def f(x):
        few = len([v for v in x if v > 0.1]), sum([v for v in x if v > 0.1])
        return *few, len([1 for a in x for b in x if a > b]), len([v * 2 for v in x])

    found, expected = f(X), f.function(X)
    np.testing.assert_allclose(found, expected)
    assert found[3] == 40


def test_any_ends_where_it_is_known():
    seen = []

    def look(i):
        seen.append(i)
        return i > 2

    assert wg.jit(lambda x: (any(look(i) for i in range(20)), x)[0])(X)
    assert seen == [0, 1, 2, 3]


def test_a_traced_number_of_items():
    @wg.jit
    def f(x, n):
        return sum(x[i] for i in range(n)), any(x[i] > 2 for i in range(n))

    np.testing.assert_allclose(f(X, 7)[0], np.sum(X[:7]))
    assert bool(f(X, 0)[1]) is False

    with pytest.raises(ControlFlowError, match=r"number of items .* depends on a traced value"):
        wg.jit(lambda x, n: np.array([x[i] for i in range(n)]))(X, 3)
    with pytest.raises(ControlFlowError, match=r"number of items .* depends on a traced value"):
        wg.jit(lambda x: [v for v in x if v > 0])(X)
    with pytest.raises(ControlFlowError, match=r"number of items .* depends on a traced value"):
        wg.jit(lambda x: max(v for v in x if v > 0))(X)


@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.int8, np.bool_])
def test_dtypes_are_those_of_pythons_sum(dtype):
    x = (np.arange(20) % 3).astype(dtype)
    f = lambda x: (sum(v for v in x), sum([v * 1 for v in x]), np.array([v * 2 for v in x]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = [np.asarray(one) for one in f(x)]
    for found, wanted in zip(wg.jit(f)(x), expected, strict=True):
        assert np.asarray(found).dtype == wanted.dtype
        np.testing.assert_array_equal(found, wanted)


def test_names_are_its_own():
    def f(x):
        i, v = 5.0, 7.0
        s = sum(v * i for i, v in enumerate(x))
        t = [v for v in x]  # noqa: C416 - the plain form
        u = [[i * v for i in x] for v in [i * 2 for i in x]]
        return s + t[0] + u[1][2], i, v

    assert np.allclose(wg.jit(f)(X), f(X))


def test_assignments_and_functions_inside():
    def assigns(x):
        made = [(last := v * 2) for v in x]
        return made[3] + last

    def calls_later(x):
        made = [lambda v: v + i for i in range(12)]  # noqa: B023 - all of them have the last
        return made[0](x[0]) + made[3](x[1])

    def calls_a_function(x):
        return sum((lambda w: w * i)(x[i]) for i in range(12))

    for f in (assigns, calls_later, calls_a_function):
        np.testing.assert_allclose(wg.jit(f)(X), f(X))


def test_effects_happen_in_each_turn():
    seen, counts = [], {"n": 0}

    def notes(v):
        counts["n"] += 1
        return v

    def f(x):
        made = [seen.append(i) for i in range(12)]
        return sum(notes(v) for v in x), len(made)

    np.testing.assert_allclose(wg.jit(f)(X), f(X))
    assert seen == [*range(12), *range(12)]
    assert counts["n"] == 80


def test_arrays_that_a_helper_writes():
    def put(a, i, v):
        a[i] = v
        return v

    def f(x):
        a = np.zeros(40)
        made = [put(a, i, x[i] * 2) for i in range(40)]
        return np.sum(a * np.array(made))

    np.testing.assert_allclose(wg.jit(f)(X), f(X))


def test_generators_that_others_take():
    def first(items):
        return next(items) + next(items)

    def f(x):
        first_three = sorted(v * 1 for v in x)[:3] + list(v * 2 for v in x)[:3]  # noqa: C400
        return first(v * 2 for v in x) + next(v for v in x) + sum(first_three)

    np.testing.assert_allclose(wg.jit(f)(X), f(X))


def test_a_function_of_the_same_name():
    def f(x):
        def sum(items):
            return next(items) * 3

        def len(items):
            return items[3] * 5

        found = sum(v * 2 for v in x) + sum(x[i] for i in range(40) if i > 3)
        return found + len([v * 2 for v in x])

    np.testing.assert_allclose(wg.jit(f)(X), f(X))


def test_in_classes_and_closures():
    class Model:
        def __init__(self):
            self.k = 3.0

        def __call__(self, x):
            return sum(self.k * v for v in x) + self.__inner(x)

        def __inner(self, x):
            return max([self.k + v for v in x])

    def f(x):
        k = x[0]

        def inner(y):
            return [k * v for v in y]

        k = k * 2
        return np.array(inner(x))

    np.testing.assert_allclose(wg.jit(Model())(X), Model()(X))
    np.testing.assert_allclose(wg.jit(f)(X), f(X))


def test_of_known_numbers():
    def f(x):
        weights = [k**2 for k in range(30)]
        names = [f"n{k}" for k in range(12)]
        assert type(weights) is list
        assert isinstance(weights[3], int)
        return sum(weights) * x[0] + len({n: n for n in names}) + max(k for k in weights)

    np.testing.assert_allclose(wg.jit(f)(X), f(X))


def test_items_of_different_kinds():
    def f(x):
        made = [x[:i] for i in range(1, 12)]
        mixed = [v if k < 5 else 2 for k, v in enumerate([*x])]
        return sum(np.sum(m) for m in made) + sum(mixed)

    np.testing.assert_allclose(wg.jit(f)(X), f(X))


def test_empty():
    f = lambda x: (sum(v for v in x[:0]), [v for v in x[:0]], any(v for v in x[:0]))  # noqa: C416
    assert f(X) == wg.jit(f)(X) == (0, [], False)
    with pytest.raises(ValueError, match="empty"):
        wg.jit(lambda x: max(v for v in x[:0]))(X)
    assert wg.jit(lambda x: max((v for v in x[:0]), default=4))(X) == 4


def first_above(x):
    return next((e for e in x if e > 0.3), -1.0) * 2.0


def first_place(x):
    return x[next((i for i in range(len(x)) if x[i] > 0.3), 0)]


def first_of_many(x):
    total = 0.0
    for level in np.linspace(-1.0, 1.0, 30):
        total += next((e * level for e in x if e > level), 0.5)
    return total


def first_of_all(x):
    return (
        next(e * 2 for e in x) + next((e for e in x), 0.0) + next((k for k in range(9) if k > 4), 0)
    )


@pytest.mark.parametrize("f", [first_above, first_place, first_of_many, first_of_all])
def test_the_first_item_that_a_condition_holds_for(f):
    both = wg.jit(wg.value_and_grad(f))
    for x in (np.array([0.1, 0.5, 0.9]), np.array([-0.5, 0.2, 0.1]), np.array([0.7, 0.2, 0.4])):
        value, gradient = both(x)
        np.testing.assert_allclose(value, f(x), rtol=1e-12)
        np.testing.assert_allclose(gradient, wg.grad(f)(x), rtol=1e-12)
    rows = np.array([[0.1, 0.5, 0.9], [-0.5, 0.2, 0.1]])
    np.testing.assert_allclose(wg.jit(wg.vmap(f))(rows), [f(x) for x in rows], rtol=1e-12)
