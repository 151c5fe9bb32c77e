"""Generators: their loops and branches are operations, in which those who take items run turns."""

import numpy as np
import pytest

import wengert as wg
from wengert.errors import ControlFlowError, WengertError

X = np.random.default_rng(0).normal(size=40)


def squares(x):
    for i in range(len(x)):
        yield x[i] ** 2


def steps_of(x):
    y = x[0]
    for i in range(1, len(x)):
        y = np.sin(y) + x[i]
        yield y


def positive(x):
    for i in range(len(x)):
        if x[i] > 0:
            yield x[i] * 2.0


def halves(x):
    while x > 0.1:
        x = x / 2
        yield x


def forever(x):
    while True:
        x = 0.5 * (x + 2.0 / x)
        yield x


def pairs(x):
    for i in range(len(x) - 1):
        yield x[i], x[i + 1]


def added(x):
    return sum(squares(x))


def added_to_something(x):
    return sum(positive(x), x[0])


def gone_over(x):
    s = 0.0
    for v in steps_of(x):
        s = s * 0.9 + v
    return s


def names_of_both(x):
    y, i, given = 0.5, 0, x
    for x in steps_of(given):
        y = y * 0.3 + x
        i += 1
    return y + i


def under_a_condition(x):
    s, n = 0.0, 0
    for v in positive(x):
        s = s * 0.5 + v
        n += 1
    return s * n


def conditions_of_both(x):
    s, last = 0.0, x[0]
    for v in positive(x):
        if v > last:
            s = s + v * last
        last = v
    return s + last


def listed(x):
    values = list(steps_of(x))
    return sum(a * b for a, b in zip(values[1:], values[:-1], strict=True))


def taken_apart(x):
    s = 1.0
    for a, (b) in pairs(x):
        s = s * 0.5 + a * b
    return s


def largest(x):
    return max(squares(x)) + min(steps_of(x)) + sorted(steps_of(x))[3] + tuple(squares(x))[5]


def asked(x):
    if any(v > 2 for v in positive(x)) and not all(v < 4 for v in squares(x)):
        return x[0] * 2
    return x[1]


def in_a_comprehension(x):
    return sum(v * w for v, w in pairs(x) if v > 0) + sum([v * v for v in steps_of(x)])


def until_it_is_small(x):
    s = 0.0
    for v in halves(abs(x[0]) + 3):
        s = s + v * x[1]
    return s


def left_early(x):
    s = x[2] * 0
    for v in forever(abs(x[0]) + 3):
        s = s + v
        if abs(v * v - 2.0) < 1e-9:
            break
    return s


def left_after_known_turns(x):
    s = 0.0
    for k, v in enumerate(forever(abs(x[0]) + 3)):
        s = s + v
        if k == 5:
            break
    return s


def numbered(x):
    s = 0.0
    for k, v in enumerate(positive(x), start=3):
        s = s * 0.5 + v * k
    for k, (a, b) in enumerate(pairs(x)):
        s = s * 0.5 + a * b / (k + 1) + x[k]
    return s


def numbered_inside(x):
    def of_odd():
        for k, v in enumerate(positive(x)):
            if k % 2:
                yield v

    return sum(v * k for k, v in enumerate(of_odd()))


def left_in_a_range(x):
    for v in steps_of(x):
        if v > 1.5:
            return v * 2
    return x[3]


def or_else(x):
    for v in squares(x):
        if v > 100:
            s = v
            break
    else:
        s = x[4]
    return s


def skipping(x):
    s = 0.0
    for v in steps_of(x):
        if v < 0:
            continue
        s = s + v
    return s


def one_in_the_other(x):
    s = 0.0
    for a in positive(x[:12]):
        for b in steps_of(x[:10]):
            s = s * 0.7 + a * b
    return s


def the_same_twice(x):
    s = 0.0
    for a in squares(x[:12]):
        for b in squares(x[:12]):
            s = s * 0.7 + a * b
    return s


def in_a_loop(x):
    s = 0.0
    for k in range(20):
        for v in positive(x * k):
            s = s * 0.5 + v
    return s


def smooth(x):
    kept = 0.0
    for v in positive(x):
        kept = 0.8 * kept + v
        yield kept


def of_another(x):
    s = 0.0
    for v in smooth(x):
        s = s + v * v
    return s


def both(x):
    yield x[0]
    yield from squares(x)
    yield from [x[1], x[2]]
    return x


def from_others(x):
    return sum(v * 0.5 for v in both(x)) + sum(both(x))


class Node:
    """A tree."""

    def __init__(self, value, left=None, right=None):
        self.value, self.left, self.right = value, left, right

    def values(self):
        """What is in it, from left to right."""
        if self.left is not None:
            yield from self.left.values()
        yield self.value
        if self.right is not None:
            yield from self.right.values()


def of_a_tree(x):
    tree = Node(x[0], Node(x[1], Node(x[2])), Node(x[3], None, Node(x[4])))
    s = 0.0
    for v in tree.values():
        s = s * 0.5 + v
    return s


def a_variable_of_both(x):
    s = x[0]

    def near():
        for i in range(len(x)):
            yield x[i] + 0.5 * s

    for v in near():
        s = s * 0.3 + v
    return s


def counted_inside(x):
    n = 0

    def counting():
        nonlocal n
        for i in range(len(x)):
            n += 1
            yield x[i] * n

    s = 0.0
    for v in counting():
        s = s + v * n
    return s


def begun_before(x):
    values = steps_of(x[:10])
    s = next(values)
    for v in values:
        s = s * 0.5 + v
    return s + sum(values)


def a_second_time(x):
    values = steps_of(x)
    return sum(values) + 3 * sum(values)


def held_for_later(x):
    y = x * 2.0
    values = squares(y)
    y[1] = 7.0
    return sum(values) + y[0]


def with_arrays(x):
    y = np.zeros(40)

    def rows():
        kept = np.zeros(3)
        for i in range(40):
            kept[i % 3] = kept[i % 3] * 0.5 + x[i]
            yield kept

    for i, row in zip(range(40), rows(), strict=True):
        y[i] = row.sum()
    for k in range(2):
        for row in rows():
            y[k] = y[k] * 0.9 + row[1]
    return (y * y).sum()


def appended(x):
    values = []
    for v in steps_of(x):
        values.append(v)
        if len(values) > 3:
            values[-1] = values[-1] + values[-2]
    return sum(values)


def with_a_default(x, generator=squares):
    return sum(generator(x))


def several_in_turn(x):
    s = 0.0
    for generator in (squares, steps_of, positive):
        for v in generator(x):
            s = s * 0.5 + v
    return s


PROGRAMS = [
    added, added_to_something, gone_over, names_of_both, under_a_condition, conditions_of_both,
    listed, taken_apart, largest, asked, in_a_comprehension, until_it_is_small, left_early,
    left_after_known_turns, left_in_a_range, or_else, skipping, one_in_the_other, the_same_twice,
    in_a_loop, of_another, from_others, of_a_tree, a_variable_of_both, counted_inside,
    begun_before, a_second_time, held_for_later, with_arrays, appended, with_a_default,
    several_in_turn, numbered, numbered_inside,
]  # fmt: skip


@pytest.mark.parametrize("f", PROGRAMS, ids=lambda f: f.__name__)
def test_value_and_gradient(f):
    along, step = np.random.default_rng(1).normal(size=40), 1e-6
    value, gradient = wg.jit(wg.value_and_grad(f))(X)
    np.testing.assert_allclose(value, f(X), rtol=1e-12)
    slope = (f(X + step * along) - f(X - step * along)) / (2 * step)
    np.testing.assert_allclose(gradient @ along, slope, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "f",
    [
        added,
        gone_over,
        under_a_condition,
        listed,
        one_in_the_other,
        in_a_loop,
        of_another,
        numbered,
    ],
)
def test_turns_are_traced_once(f):
    compiled = wg.jit(f)
    compiled(X)
    assert len(compiled.program(X).stages.graph.operators) < 60


def test_each_sample_has_its_own_items():
    x = np.stack([X, -X, np.abs(X)])
    f = wg.vmap(lambda v: sum(positive(v)))
    np.testing.assert_allclose(f(x), [sum(positive(v)) for v in x], rtol=1e-12)
    np.testing.assert_allclose(wg.jit(f)(x), f(x), rtol=1e-12)


def test_what_is_left_as_it_is():
    """Errors of who goes over it would be raised where a generator catches them."""

    def closing(x):
        try:
            for i in range(len(x)):
                yield x[i]
        finally:
            pass

    def sent(x):
        y = 0.0
        for i in range(len(x)):
            y = (yield x[i] + y) or 0.5

    for generator in (closing, sent):
        np.testing.assert_allclose(wg.jit(lambda x: sum(generator(x)))(X), sum(generator(X)))  # noqa: B023


@pytest.mark.parametrize("take", [list, max, lambda items: np.array(list(items))])
def test_how_many_items_there_are_must_be_known(take):
    with pytest.raises(ControlFlowError) as caught:
        wg.jit(lambda x: take(positive(x)))(X)
    assert str(caught.value).startswith("positive (test_generators.py:")
    assert "the number of items that a generator gives depends on a traced value" in str(
        caught.value
    )


def test_one_item_of_many():
    with pytest.raises(WengertError, match="something else than a `for`, sum\\(\\) or list"):
        wg.jit(lambda x: next(positive(x)))(X)


def test_arguments_are_checked_where_it_is_called():
    def f(x):
        values = squares(x, x)
        return x if values is None else 2 * x

    with pytest.raises(TypeError, match="takes 1 positional argument but 2 were given"):
        wg.jit(f)(X)


def test_errors_of_turns_and_of_generators():
    def failing(x):
        for i in range(3):
            yield x[i]
        raise ValueError("no more")

    def f(x):
        s = 0.0
        try:
            for v in failing(x):
                s = s + v
        except ValueError:
            return s
        return x[0] * 0

    np.testing.assert_allclose(wg.jit(f)(X), f(X))

    def g(x):
        for v in squares(x):
            raise KeyError(str(type(v) is None))

    with pytest.raises(KeyError):
        wg.jit(g)(X)


@pytest.mark.parametrize("again", [sum, list, lambda rest: sum(v for v in rest), "for", "next"])
def test_what_a_loop_has_left_of_a_generator_is_refused(again):
    def items(x):
        for i in range(5):
            yield x[i] * 2

    def f(x):
        taken = items(x)
        s = 0.0
        for v in taken:
            s += v
            if s > 1.0:
                break
        if again == "for":
            for v in taken:
                s = s * 0.5 + v
            return s
        return s + np.sum(next(taken) if again == "next" else again(taken))

    with pytest.raises(wg.errors.ControlFlowError, match="Make a list of the items first"):
        wg.jit(f)(np.ones(5))


def test_a_generator_that_no_loop_stops_has_an_end():
    def items(x):
        for i in range(5):
            yield x[i] * 2

    def f(x):
        taken, s = items(x), 0.0
        for v in taken:
            s += v
        for _ in taken:
            s += 100.0
        return s + sum(taken)

    np.testing.assert_allclose(wg.jit(f)(np.arange(5.0)), 20.0)


def taken_in_a_branch(x):
    taken, s = squares(x), 0.0
    if x[0] > 0:
        for v in taken:
            s += v
    for v in taken:
        s += 2 * v
    return s


def taken_by_next_in_a_branch(x):
    taken, s = squares(x), 0.0
    if x[0] > 0:
        s += next(taken)
    return s + sum(taken)


def taken_in_every_turn(x):
    taken, s = squares(x), 0.0
    for i in range(10):
        s = s * 0.5 + x[i] * next(taken)
    return s + sum(taken)


def in_a_list(x):
    held = [squares(x)]
    s = 0.0
    if x[0] > 0:
        for v in held[0]:
            s += v
    return s + sum(held[0])


@pytest.mark.parametrize(
    "f", [taken_in_a_branch, taken_by_next_in_a_branch, taken_in_every_turn, in_a_list]
)
def test_generators_that_conditions_or_turns_take_of_are_right_or_refused(f):
    for x in (X, -X):
        try:
            np.testing.assert_allclose(wg.jit(f)(x), f(x), rtol=1e-12)
        except WengertError as error:
            assert "Generated" in str(error) or "generator" in str(error)


def test_what_a_generator_changes_when_next_takes_of_it_in_a_branch():
    def raising(q, x):
        for i in range(2):
            q[i] = q[i] * x[i]
            yield q[i]

    def f(x):
        q, s = [1.0, 2.0, x[1]], x[0]
        if x[0] > 0:
            taken = raising(q, x)
            s = s + next(taken)
            s = s + next(taken)
        return s + sum(q)

    for x in (X, -X):
        np.testing.assert_allclose(wg.jit(f)(x), f(x), rtol=1e-12)
