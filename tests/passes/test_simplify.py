"""Each pass: before -> after as its docstring says, the same values on NaN, infinities and -0.0."""

import time

import numpy as np
import pytest

import wengert as wg
import wengert.numpy as xp
from wengert.graph import Constant, Graph, Operator
from wengert.graph.rules import verify
from wengert.ops import REGISTRY
from wengert.passes import PASSES, optimise
from wengert.passes.expand import expand
from wengert.passes.rewriting import apply, compact
from wengert.passes.simplify import _RULES, fold_constants, share_common, simplify

CORNERS = np.array([0.0, -0.0, 1.0, -2.5, np.inf, -np.inf, np.nan, 1e-310])
X = CORNERS.reshape(2, 4)
Y = np.roll(CORNERS, 3).reshape(2, 4)
N = np.array([[0, 1, -7, 9], [2, -(2**63), 5, 3]])


def op(name, *args, **params):
    return REGISTRY[name](*args, **params)


def scale(x, y):
    return op("scale", x, y)


def trace(function, *args):
    with np.errstate(all="ignore"):
        return wg.trace(function, *args)


def names(graph):
    return [node.op.name for node in graph.operators]


def assert_equal(one, other, args, signs=True):
    """The two graphs give the same; with `signs` also the same zeros."""
    with np.errstate(all="ignore"):
        for got, want in zip(one.evaluate(args), other.evaluate(args), strict=True):
            got, want = np.asarray(got), np.asarray(want)
            assert got.dtype == want.dtype
            assert got.shape == want.shape
            np.testing.assert_array_equal(got, want)
            if want.dtype.kind == "f" and signs:
                zeros = want == 0
                np.testing.assert_array_equal(np.signbit(got)[zeros], np.signbit(want)[zeros])


# function, arguments, what is left of it
CASES = {
    "times one": (lambda x: x * 1.0, (X,), []),
    "one times": (lambda x: np.ones((2, 4)) * x, (X,), []),
    "times one of another dtype": (lambda n: n * 1.0, (N,), ["multiply"]),
    "times one that broadcasts": (lambda x: x * np.ones((3, 2, 4)), (X,), ["multiply"]),
    "times ones and others": (lambda x: x * np.arange(1.0, 5.0), (X,), ["multiply"]),
    "scale by zero": (lambda x: scale(x, np.zeros((2, 4))), (X,), []),
    "scale by a number": (lambda x: scale(x + 1.0, 3.0), (X,), ["add", "multiply"]),
    "plus minus zero": (lambda x: x + -0.0, (X,), []),
    "plus zero is not nothing": (lambda x: x + 0.0, (X,), ["add"]),
    "integer plus zero": (lambda n: n + 0, (N,), []),
    "plus negative": (lambda x, y: x + (-y), (X, Y), ["subtract"]),
    "negative plus": (lambda x, y: (-x) + y, (X, Y), ["subtract"]),
    "minus negative": (lambda x, y: x - (-y), (X, Y), ["add"]),
    "integer minus negative": (lambda n: n - (-(n * 3)), (N,), ["multiply", "add"]),
    "two negatives multiplied": (lambda x, y: (-x) * (-y), (X, Y), ["multiply"]),
    "two negatives divided": (lambda x, y: (-x) / (-y), (X, Y), ["divide"]),
    "over one": (lambda x: x / 1.0, (X,), []),
    "negative twice": (lambda x: xp.negative(xp.negative(x)), (X,), []),
    "first power": (lambda x: op("integer_power", x, n=1), (X,), []),
    "square": (lambda x: op("integer_power", x, n=2), (X,), ["multiply"]),
    "own dtype": (lambda x: op("convert", x, dtype=np.dtype("f8")), (X,), []),
    "there and back": (
        lambda x: op("convert", op("convert", x, dtype=np.dtype("f8")), dtype=np.dtype("f4")),
        (X.astype("f4"),),
        [],
    ),
    "there and not quite back": (
        lambda n: op("convert", op("convert", n, dtype=np.dtype("f8")), dtype=np.dtype("i8")),
        (np.array([2**53 + 1, 7]),),
        ["convert", "convert"],
    ),
    "narrow and back": (
        lambda x: op("convert", op("convert", x, dtype=np.dtype("f4")), dtype=np.dtype("f8")),
        (X,),
        ["convert", "convert"],
    ),
    "own shape": (lambda x: op("reshape", x, shape=(2, 4)), (X,), []),
    "reshape twice": (lambda x: xp.reshape(xp.reshape(x, 8), (4, 2)), (X,), ["reshape"]),
    "reshape and back": (lambda x: xp.reshape(xp.reshape(x, 8), (2, 4)), (X,), []),
    "broadcast twice": (
        lambda x: op("broadcast_to", op("broadcast_to", x, shape=(3, 2, 4)), shape=(5, 3, 2, 4)),
        (X,),
        ["broadcast_to"],
    ),
    "transpose twice": (lambda x: x.T.T, (X,), []),
    "permutations join": (
        lambda x: xp.transpose(xp.transpose(x[None], (1, 0, 2)), (2, 0, 1)),
        (X,),
        ["permute"],
    ),
    "sum over length 1": (lambda x: xp.sum(x[:, None], axis=1), (X,), ["reshape"]),
    "ties": (lambda x: op("max", x, axes=(1,), ties="first"), (X,), ["max"]),
    "where true": (lambda x, y: xp.where(np.ones((2, 4), bool), x, y), (X, Y), []),
    "where false": (lambda x, y: xp.where(np.zeros((2, 4), bool), x, y), (X, Y), []),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_before_and_after(case):
    function, args, left = CASES[case]
    before = verify(trace(function, *args))
    # the second round sees what the first has made
    after = verify(simplify(simplify(before)))
    # a sum starts with 0.0 or with its first element: what -0.0 becomes is open
    assert_equal(after, before, list(args), signs=case != "sum over length 1")
    assert [name for name in names(after) if name != "index"] == left


def test_scale_by_zero_is_zero_even_of_infinity():
    after = simplify(trace(lambda x: scale(x, np.zeros((2, 4))), X))
    (value,) = after.evaluate([X])
    assert not after.operators
    np.testing.assert_array_equal(value, np.zeros((2, 4)))


SUMS = {
    "leading": (lambda x: xp.sum(xp.broadcast_to(x, (5, 2, 4)), axis=0), 5),
    "length one": (lambda x: xp.sum(xp.broadcast_to(x[:, :1], (2, 6)), axis=1), 6),
    "both": (lambda x: xp.sum(xp.broadcast_to(x[:, :1], (3, 2, 4)), axis=(0, 2)), 12),
}


@pytest.mark.parametrize("case", SUMS)
@pytest.mark.parametrize("dtype", ["float64", "float32", "int64"])
def test_sum_of_equals_is_a_product(case, dtype):
    function, _ = SUMS[case]
    x = np.arange(8).reshape(2, 4).astype(dtype)
    before = trace(function, x)
    after = verify(optimise(before))
    assert "sum" not in names(after)
    np.testing.assert_array_equal(after.evaluate([x])[0], before.evaluate([x])[0])


def test_ties_are_one_operation_without_derivatives():
    def both(x):
        return [op("max", x, axes=(1,), ties=ties) for ties in ("first", "equal")]

    assert names(optimise(trace(both, X))) == ["max"]


def test_sum_of_what_is_not_repeated_stays():
    function = lambda x: xp.sum(xp.broadcast_to(x, (5, 2, 4)), axis=(0, 1))
    assert "sum" in names(simplify(trace(function, X)))
    nothing = lambda x: xp.sum(xp.broadcast_to(x, (0, 2, 4)), axis=0)
    graph = trace(nothing, X)
    after = simplify(graph)
    assert_equal(after, graph, [X])


def test_products_of_numbers_are_not_reassociated():
    graph = trace(lambda x: x * 0.1 * 3.0, X)
    assert names(optimise(graph)) == ["multiply", "multiply"]
    assert_equal(optimise(graph), graph, [X])


def test_every_rule_says_before_and_after():
    for found in _RULES.values():
        for rule in found:
            assert "->" in rule.__doc__, rule.__name__
    for function in PASSES:
        assert "->" in function.__doc__, function.__name__


# ---------------------------------------------------------------- constants


def with_constants(build):
    """``x + build(constant)``, where tracing has computed nothing beforehand."""
    graph = trace(lambda x: x + 1.0, X)
    total = graph.outputs[0]
    node = apply(total.op, graph.inputs[0], build(), params={})
    return verify(Graph(graph.inputs, [node], graph.in_structure, graph.out_structure))


def of(name, *inputs, **params):
    return apply(REGISTRY[name], *inputs, params=params)


def test_constants_are_folded():
    graph = with_constants(lambda: of("multiply", of("sin", Constant(2.0)), Constant(3.0)))
    after = verify(fold_constants(graph))
    assert names(after) == ["add"]
    assert_equal(after, graph, [X])


def test_small_arrays_are_folded_and_large_ones_left_alone():
    for size, left in ((4, ["add"]), (1 << 14, ["sin", "sum", "add"])):
        table = Constant(np.arange(float(size)))
        build = lambda table=table: of("sum", of("sin", table), axes=(0,))
        graph = with_constants(build)
        assert names(verify(fold_constants(graph))) == left
        assert_equal(fold_constants(graph), graph, [X])


def test_uniform_constants_take_no_memory():
    seed = lambda: of("exp", of("broadcast_to", Constant(2.0), shape=(2, 4)))
    after = fold_constants(with_constants(seed))
    (constant,) = [node for node in after.nodes if isinstance(node, Constant)]
    assert constant.output.shape == (2, 4)
    assert not any(constant.output.strides)


# ---------------------------------------------------------------- common subexpressions


def test_common_subexpressions_are_shared():
    graph = trace(lambda x: (np.sin(x) * 2.0, np.sin(x) * 2.0 + np.sin(x)), X)
    assert sorted(names(verify(share_common(graph)))) == ["add", "multiply", "sin"]
    assert_equal(share_common(graph), graph, [X])


def test_numbers_that_only_compare_equal_are_not_shared():
    graph = trace(lambda x: (x * 0.0, x * -0.0, x + 1, x + 1.0), X)
    shared = share_common(graph)
    assert names(shared).count("multiply") == 2
    assert_equal(shared, graph, [X])


def test_the_same_array_is_one_constant():
    table = np.arange(8.0).reshape(2, 4)
    graph = trace(lambda x: x * table + x * table, X)
    assert names(share_common(graph)).count("multiply") == 1


def test_what_nothing_uses_is_dropped():
    graph = trace(lambda x: (np.cos(x), x + 1.0)[1], X)
    assert names(optimise(graph)) == ["add"]


# ---------------------------------------------------------------- all passes

PROGRAMS = {
    "rosenbrock": lambda x: xp.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2),
    "norm": lambda x: xp.sqrt(xp.sum(x * x)),
    "softmax": lambda x: xp.sum(xp.softmax(x) * x),
    "outer": lambda x: xp.sum(xp.outer(x, x) @ x),
    "mean": lambda x: xp.mean((x - xp.mean(x)) ** 2),
    "write": lambda x: xp.sum(xp.concatenate([x[::-1], x * 2]) ** 2),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_all_passes_keep_derivatives(name):
    x = np.linspace(-1.0, 1.5, 7)
    graph = trace(wg.value_and_grad(PROGRAMS[name]), x)
    current = graph
    for function in PASSES:
        current = verify(function(current))
        for got, want in zip(current.evaluate([x]), graph.evaluate([x]), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("name", PROGRAMS)
def test_passes_come_to_rest(name):
    graph = optimise(trace(wg.value_and_grad(PROGRAMS[name]), np.linspace(-1.0, 1.5, 7)))
    assert names(optimise(optimise(graph))) == names(optimise(graph))


def test_watch_sees_every_pass():
    seen = []
    optimise(trace(lambda x: x * 1.0, X), lambda name, graph: seen.append(name))
    assert seen == [function.__name__ for function in PASSES]


@pytest.mark.parametrize("name", ["logsumexp", "softmax", "log_softmax"])
@pytest.mark.parametrize("shape", [(3, 4), (0, 4), (4, 0)])
def test_expanded_operations_give_the_same(name, shape):
    x = np.random.default_rng(0).normal(size=shape)
    graph = trace(lambda x: getattr(xp, name)(x, axis=1), x)
    after = verify(expand(graph))
    assert (name in names(after)) == (shape[1] == 0)  # there is no largest of no elements
    np.testing.assert_allclose(after.evaluate([x])[0], graph.evaluate([x])[0], rtol=1e-14)


def chain(count):
    def f(x):
        for k in range(count // 7):
            x = np.sin(-(x * 1.0001 + 0.5)) - (-x) * (1.0 / (k + 2))
        return x

    return trace(f, np.linspace(0, 1, 3))


def test_cost_grows_with_the_graph_and_no_faster():
    graphs = {count: chain(count) for count in (2_500, 10_000)}
    times = {}
    for count, graph in graphs.items():
        best = np.inf
        for _ in range(3):
            start = time.process_time()
            optimised = optimise(graph)
            best = min(best, time.process_time() - start)
        times[count] = best
        assert all(isinstance(node, Operator) for node in optimised.operators)
    # four times the operations: quadratic cost would be sixteen times
    assert times[10_000] < 9 * times[2_500]
    assert times[10_000] < 5.0


@pytest.mark.parametrize(
    ("value", "compacted"),
    [
        (np.zeros((3, 4)), True),
        (np.ones((2, 2), bool), True),
        (np.full((2, 3), 1 + 2j), True),
        (np.ones((4, 4))[::2, ::2], True),
        (np.array([0.0, -0.0, 0.0]), False),
        (np.array([1, 2, 1]), False),
        (np.broadcast_to(2.0, (3,)), False),  # is so already
        (np.zeros(1), False),  # nothing to save
    ],
)
def test_constants_of_one_number_take_no_memory(value, compacted):
    before = Constant(value)
    after = compact(before)
    assert (after is not before) is compacted
    assert after.type == before.type
    assert not compacted or not any(after.output.strides)
    np.testing.assert_array_equal(np.signbit(after.output.real), np.signbit(value.real))
    np.testing.assert_array_equal(after.output, value)


@pytest.mark.parametrize("dtype", ["i1", "i4", "i8", "u2", "u8"])
@pytest.mark.parametrize(
    "labels",
    "ij,jk->ik ij,jk->ki bij,bjk->bik i,i-> i,j->ji ij,kjl->lki ij,j->i".split(),
)
def test_products_of_integers(labels, dtype):
    """Sums that go round like NumPy's, and no operation is left to NumPy."""
    lengths, rng = {"i": 3, "j": 4, "k": 5, "l": 2, "b": 2}, np.random.default_rng(0)
    limits = np.iinfo(dtype)
    x, y = (
        rng.integers(limits.min, limits.max, [lengths[n] for n in part], dtype, endpoint=True)
        for part in labels.split("->")[0].split(",")
    )
    f = lambda x, y: np.einsum(labels, x, y)
    assert "contract" not in names(optimise(trace(f, x, y)))
    got = wg.jit(f)(x, y)
    assert got.dtype == x.dtype
    np.testing.assert_array_equal(got, f(x, y))


def test_products_of_integers_and_floats():
    x, y = np.arange(6).reshape(2, 3), np.linspace(0, 1, 6).reshape(3, 2)
    compiled = wg.jit(lambda x, y: (x @ y, y @ x, x @ np.zeros((3, 0), int)))
    for got, want in zip(compiled(x, y), (x @ y, y @ x, np.zeros((2, 0), int)), strict=True):
        assert got.dtype == want.dtype
        np.testing.assert_allclose(got, want, rtol=1e-15)
    assert type(compiled._entries[0]).__name__ != "HostedEntry"
