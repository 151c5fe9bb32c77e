"""Python's control flow on traced values, compiled: the same numbers as Python gives."""
# ruff: noqa: SIM108 - the forms are what is tested

import dataclasses
import functools

import numpy as np
import pytest

import wengert as wg
import wengert.numpy as wnp
from wengert import tree
from wengert.errors import ChangedOutsideWarning

LIMIT = 2.0


def absolute(x):
    if x > 0:
        return x
    return -x


def three_ways(x):
    if x < 0:
        y = 0
    elif x < 1:
        y = x
    else:
        y = 1.0
    return y * 2


def newton(x):
    y = 1.0
    err = 1.0
    turns = 0
    while err > 1e-10:
        new = 0.5 * (y + x / y)
        err = abs(new - y)
        y = new
        turns += 1
    return y, turns


def collatz(n):
    k = 0
    while n != 1:
        if n % 2 == 0:
            n = n // 2
        else:
            n = 3 * n + 1
        k += 1
        if k > 50:
            break
    return k


def early_return(x):
    s = 0.0
    for i in range(20):
        s = s + x[i]
        if s > 3.0:
            return s, i
    return -s, 99


def skipping(x):
    s = 0.0
    for v in x:
        if v < 0:
            continue
        if v > 2:
            break
        s += v
    else:
        s = s + 100.0
    return s


def skipping_some(x):
    s = 0.0
    for v in x:
        if v > 1:
            s = s + 1.0
        elif v < 0:
            continue
        s = s * 0.5 + v
    return s


def skipping_behind_try(x):
    s = 0.0
    for i in range(len(x)):
        try:
            if x[i] < 0:
                continue
            s += x[i]
        finally:
            s = s * 0.5
        s += 1.0
    return s


def junctions(x):
    if (x > 0 and x < 1) or not x > -5:
        return 1.0
    return 3.0 if -1 < x < 0.0 else 2.0


def guarded(x):
    i = 0
    while i < 4 and x[i] > 0:
        i += 1
    return i


def helper(x, k):
    if x > k:
        return x - k
    return x


def with_helpers(x):
    for k in range(3):
        x = helper(x, k)
    return x


def until_left(x):
    while True:
        x = x * 1.5
        if x > 10:
            break
    return x


def until_returned(x):
    while True:
        x = x * 1.5
        if x > 10:
            return x


def until_returned_in_parts(x):
    total = 0.0
    for k in range(3):
        while 1:
            x = x * 1.5 - k
            if x > 10 + k:
                break
            if x < -50:
                return x
            total = total + x
    while True:
        total = total - 7
        for k in range(3):
            if total < k:
                return total * x
    print("not reached")


def written(x):
    y = x.copy()
    if x[0] > 0:
        y[1] = 5.0
    else:
        y[0] = -1.0
    i = 0
    while y[i] < 3:
        y[i] = y[i] + 2
        i += 1
    return y


def put(target, i, value):
    target[i] = value


def written_by_helper(x):
    y = x.copy()
    z = y[1:]
    if x[0] > 0:
        put(y, 2, 7.0)
    return y + 0 * np.sum(z), z


def extremes(x):
    return max(x, 0.0) + min(x, 1.0, 2.0)


def nested(x):
    t = 0.0
    while t < x:
        u = 0.0
        while u < t:
            u += 0.7
            if u > 2.5:
                break
        t += 1 + 0.1 * u
    return t


def returns_in_parts(x):
    if x > 0:
        if x > 2:
            return x * 10
        y = 1.0
    else:
        y = 2.0
    return y + x


def returns_from_nested_loops(x):
    for i in range(3):
        for j in range(4):
            if x[i, j] > 1.0:
                return x[i, j] * (10 * i + j)
    return -1.0


def assigned_in_condition(x):
    n = 0
    while (y := x * 0.5**n) > 0.1:
        n += 1
    return y, n


def tuples(x):
    state = (x, {"a": 1.0, "b": [x, 2]})
    if x > 1:
        state = (x + 1, {"a": x, "b": [0.0, 3]})
    return state


def inner_functions(x):
    total = 0.0

    def add(v):
        nonlocal total
        if v > 0:
            total = total + v
        return total

    for k in range(3):
        add(x[k])
    return total


def in_with_and_try(x):
    with np.errstate(all="ignore"):
        try:
            if x > 1:
                return x * 2
            y = x + 1
        finally:
            z = 3.0
    return y + z


def recursive(x, n=4):
    if n == 0:
        return x
    if x > 1:
        return recursive(x * 0.5, n - 1)
    return recursive(x * 3, n - 1) + 1


class Walker:
    """Has a method that decides."""

    def __init__(self):
        self.limit = 2.0

    def step(self, x):
        if x > self.limit:
            return self._far(x)
        return x

    def _far(self, x):
        return x * 3 if x < 5 else x

    def __call__(self, x):
        return self.step(x) if x > 0 else 0.0


class FarWalker(Walker):
    """Calls the method of its base."""

    def step(self, x):
        if x > LIMIT:
            return super().step(x) + 1
        return super().step(x)


def doubled(f):
    @functools.wraps(f)
    def wrapper(*args):
        return 2 * f(*args)

    return wrapper


@doubled
def decorated(x):
    return x if x > 1 else x * x


lambdas = [lambda x: x if x > 0 else -x, lambda x: x if x > 1 else 1 / x]
over_keyword = functools.partial(lambda k, x: x if x > k else k, 1.5)

NUMBERS = [-9.0, -1.0, -0.5, 0.5, 1.5, 3.0, 7.0]
ON_NUMBERS = {
    "absolute": absolute,
    "three ways": three_ways,
    "junctions": junctions,
    "with helpers": with_helpers,
    "extremes": extremes,
    "nested": nested,
    "returns in parts": returns_in_parts,
    "tuples": tuples,
    "with and try": in_with_and_try,
    "recursive": recursive,
    "method": Walker().step,
    "object": Walker(),
    "super": FarWalker().step,
    "decorated": decorated,
    "first lambda": lambdas[0],
    "partial": over_keyword,
}
ROWS = np.arange(20.0) * 0.1
CASES = [
    *[(name, f, NUMBERS) for name, f in ON_NUMBERS.items()],
    ("second lambda", lambdas[1], [0.5, 2.0]),
    ("newton", newton, [2.0, 9.0]),
    ("collatz", collatz, [6, 7, 27, 97]),
    ("early return", early_return, [ROWS, ROWS * 10, -ROWS]),
    ("skipping", skipping, [np.arange(-3.0, 9), np.full(12, 0.5), np.array([1, -1, 5, 1.0] * 3)]),
    ("skipping some", skipping_some, [np.arange(-3.0, 9), np.array([1, -1, 0.5, 2.0])]),
    ("skipping behind try", skipping_behind_try, [np.arange(-3.0, 9), np.array([1, -1, 0.5])]),
    ("guarded", guarded, [np.ones(4), np.array([1.0, 2, -1, 3])]),
    ("until left", until_left, [0.5, 20.0]),
    ("until returned", until_returned, [0.5, 20.0]),
    ("until returned in parts", until_returned_in_parts, [5.5, 20.0, -1.0]),
    ("written", written, [np.array([1.0, 2, 3]), np.array([-1.0, 2, 5])]),
    ("written by helper", written_by_helper, [np.ones(3), -np.ones(3)]),
    ("nested returns", returns_from_nested_loops, [np.zeros((3, 4)), np.eye(3, 4) * 2]),
    ("assigned in condition", assigned_in_condition, [1.0, 7.0]),
    ("inner functions", inner_functions, [np.array([1.0, -2, 3])]),
]


@pytest.mark.parametrize(("f", "arguments"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_values(f, arguments):
    compiled = wg.jit(f)
    for x in arguments:
        want, got = tree.leaves(f(x)), tree.leaves(compiled(x))
        assert len(want) == len(got)
        for one, other in zip(want, got, strict=True):
            np.testing.assert_allclose(other, one, rtol=1e-12)


@pytest.mark.parametrize("f", [absolute, junctions, with_helpers, nested, recursive, decorated])
def test_derivatives(f):
    derivative = wg.jit(wg.grad(lambda x: f(x) * x))
    for x in NUMBERS[1:]:
        np.testing.assert_allclose(derivative(x), wg.grad(lambda x: f(x) * x)(x), rtol=1e-12)


def test_derivative_of_a_loop_until_a_return():
    derivative = wg.jit(wg.grad(until_returned))
    for x in (0.5, 20.0):
        assert derivative(x) == wg.grad(until_returned)(x)


def test_samples():
    x = np.array(NUMBERS)
    np.testing.assert_allclose(wg.jit(wg.vmap(absolute))(x), abs(x))
    np.testing.assert_allclose(wg.vmap(wg.jit(absolute))(x), abs(x))
    np.testing.assert_allclose(wg.grad(wg.jit(absolute))(-2.0), -1.0)
    want = [nested(v) for v in x]
    np.testing.assert_allclose(wg.jit(wg.vmap(nested))(x), want)


def test_gradients_through_a_loop_until_converged():
    derivative = wg.jit(wg.grad(lambda x: newton(x)[0]))
    np.testing.assert_allclose(derivative(9.0), 1 / 6, rtol=1e-9)


def test_a_loop_is_not_written_twice():
    graph = wg.jit(newton).program(2.0).stages.graph
    assert [node.op.name for node in graph.operators if node.op.name != "item"] == ["while"]


def test_a_branch_of_a_few_cheap_operations_is_a_choice():
    """Of sums, products and small powers both sides are computed: such a branch costs more."""

    def near(x):
        energy, weight = 0.0, x[3]
        for k in range(3):
            far = x[k]
            if far < 1.0:
                energy = energy + (1 - far) ** 2 * weight**3
        return energy

    x = np.array([0.3, 2.0, np.inf, 0.5])
    value, gradient = wg.jit(wg.value_and_grad(near))(x)
    np.testing.assert_allclose(value, near(x), rtol=1e-14)
    np.testing.assert_allclose(gradient, [-1.4 * 0.125, 0.0, 0.0, 0.49 * 0.75], rtol=1e-14)
    assert "switch" not in str(wg.jit(near).program(x).stages.captured.graph)


def test_loops_whose_turns_are_known_are_pythons_own():
    def f(x):
        k = 0
        while k < 5:
            x = x * 2
            k += 1
        return x * np.ones(k)

    np.testing.assert_array_equal(wg.jit(f)(1.0), f(1.0))


def test_a_length_that_is_traced():
    def powers(n, x):
        s = x
        for i in range(n):
            s = s * 0.5 + i
        return s

    compiled = wg.jit(powers)
    assert [compiled(n, 2.0) for n in (0, 1, 5)] == [powers(n, 2.0) for n in (0, 1, 5)]


def test_dtypes_are_promoted_as_numpy_does():
    def f(x):
        if x > 0:
            y = 0
        else:
            y = x
        return y

    assert wg.jit(f)(np.float32(1)).dtype == np.float32
    assert wg.jit(f)(2.0) == 0 and wg.jit(f)(2.0).dtype == np.float64


def test_conditions_with_a_number_are_pythons_own():
    seen = []

    def f(x, n):
        for i in range(n):
            seen.append(i)
            if i == 2:
                break
        return x * len(seen)

    with pytest.warns(ChangedOutsideWarning, match="item 0 of a list"):
        assert wg.jit(f, static_argnames="n")(1.0, 10) == 3.0
    assert seen == [0, 1, 2]


def test_globals_and_closures_are_live():
    limit = 1.0

    def f(x):
        if x > limit:
            return x - limit
        return x * LIMIT

    compiled = wg.jit(f)
    assert compiled(3.0) == 2.0 and compiled(0.5) == 1.0
    limit = 2.0
    compiled.clear()
    assert compiled(3.0) == 1.0


def test_tracing_only():
    with pytest.raises(TypeError, match="is not known while the function is traced"):
        wg.jit(absolute, control="trace")(1.0)
    with pytest.raises(ValueError, match="got control='jax', expected 'python' or 'trace'"):
        wg.jit(absolute, control="jax")


def test_inner_functions_follow_their_own_jit():
    inner = wg.jit(absolute, control="trace")
    with pytest.raises(TypeError, match="is not known while the function is traced"):
        wg.jit(lambda x: inner(x))(1.0)
    assert wg.jit(lambda x: wg.jit(absolute)(x), control="trace")(-1.0) == 1.0


def test_bodies_of_loops_are_converted():
    def body(total, x):
        if x > 0:
            total = total + x
        return total, None

    x = np.array([1.0, -2, 3])
    assert wg.jit(lambda x: wg.scan(body, 0.0, x)[0])(x) == 4.0
    halved = wg.jit(
        lambda x: wg.while_loop(lambda s: s > 1, lambda s: s / 2 if s < 5 else s - 4, x)
    )
    assert halved(7.0) == 0.75


def test_modules():
    from wengert import nn

    class Gate(nn.Module):
        def forward(self, x):
            if wnp.sum(x) > 0:
                return x
            return -x

    compiled = wg.jit(Gate())
    np.testing.assert_array_equal(compiled(-np.ones(3)), np.ones(3))


# ---------------------------------------------------------------- Python numbers


def counted(x, n):
    turn, found = 0, x
    while turn < 4:
        turn += 1
        found = np.tanh(found * 0.9 + x * turn)
    return found * n


def chosen(x, n):
    twice = n * 2
    if np.sum(x) > 0:
        x = x * twice
    else:
        x = x - twice
    return x * n


def returned(x, n):
    def scaled(a):
        if np.sum(a) > 100:
            return a * n
        return a * (n + 1)

    return scaled(x) + scaled(x * 2)


def searched(x, n):
    twice = n * 2
    while np.sum(x) > 0.4:
        x = np.tanh(x) * twice * 0.1
    return x


@pytest.mark.parametrize("function, n", [(chosen, 2), (returned, 0.25), (searched, 2)])
def test_python_numbers_are_ones_in_programs_inside_too(function, n):
    """They take on the dtype of arrays: where they are captured, carried, and kept for later."""

    def all_of(x, n):
        loss = lambda x: np.sum(function(x, n) ** 2)
        tangent = wg.jvp(lambda x: function(x, n), (x,), (x,))[1]
        return function(x, n), wg.grad(loss)(x), tangent, wg.hvp(loss, x, x)

    x = np.linspace(0.1, 0.9, 4).astype(np.float32)
    for got, want in zip(wg.jit(all_of)(x, n), all_of(x, n), strict=True):
        assert got.dtype == want.dtype == np.float32
        np.testing.assert_allclose(got, want, rtol=2e-4, atol=1e-4)


def test_a_counter_that_is_kept_for_the_derivative_is_a_python_number():
    slope = wg.grad(lambda x: np.sum(counted(x, 2)))
    x = np.linspace(0.1, 0.9, 4).astype(np.float32)
    got, want = wg.jit(slope)(x), slope(x)
    assert got.dtype == want.dtype == np.float32
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


@dataclasses.dataclass
class Affine:
    """An object that is called, and that has no hash because it can be compared."""

    weight: float
    shift: float = 0.5

    def __call__(self, x):
        return np.sum(np.asarray(x) * self.weight) + self.shift


class Ambiguous(Affine):
    """One whose comparisons are arrays."""

    def __eq__(self, other):
        return np.ones(3) == 1.0

    __hash__ = None


@pytest.mark.parametrize("kind", [Affine, Ambiguous])
def test_objects_without_a_hash_are_called(kind):
    layer, x = kind(2.0), np.linspace(0.0, 1.0, 30)

    def in_a_loop(x):
        y = 0.0
        for i in range(30):
            y = layer(y) * 0.1 + x[i]
        return y

    def of_comprehensions(x):
        return layer([2.0 * v for v in x]) + layer(x)

    def until(x):
        y = x[0]
        while y < 3:
            y = y + kind(0.5)(y)
        return y

    for f in (in_a_loop, of_comprehensions, until):
        np.testing.assert_allclose(wg.jit(f)(x), f(x), rtol=1e-14)
