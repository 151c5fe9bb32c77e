"""The call path: every way of passing arguments gives what the evaluated function gives."""

import dataclasses
import functools
import gc
import inspect
import pickle
import threading
import timeit
import weakref
from typing import NamedTuple

import numpy as np
import pytest

import wengert as wg
import wengert.numpy as wnp
from wengert.errors import (
    DTypeError,
    IntegerError,
    MutationError,
    OutOfRangeError,
    ShapeError,
    StructureError,
)
from wengert.jit import chain


def same(got, want):
    assert type(got) is type(want)
    if isinstance(want, (tuple, list)):
        assert len(got) == len(want)
        for one, other in zip(got, want, strict=True):
            same(one, other)
        return
    if isinstance(want, dict):
        assert set(got) == set(want)
        for key in want:
            same(got[key], want[key])
        return
    if isinstance(want, (np.ndarray, np.generic)):
        assert got.dtype == want.dtype and got.shape == want.shape
        np.testing.assert_allclose(got, want, rtol=1e-6 if got.dtype.char in "fF" else 1e-12)
    else:
        assert got == want


def polynomial(x):
    return np.sum(x * x * 3.0 + x)


# ---------------------------------------------------------------- decorators, methods, identity


def test_decorator_with_and_without_arguments():
    @wg.jit
    def f(x):
        """Says f."""
        return x + 1

    @wg.jit(static_argnames="n", threads=1)
    def g(x, n):
        return x * n

    assert f(2.0) == 3.0 and g(2.0, n=4) == 8.0
    assert f.__name__ == "f" and f.__doc__ == "Says f." and f.__wrapped__(1) == 2
    assert str(inspect.signature(g)) == "(x, n)"
    assert repr(f) == "<jit of f, 1 program>"


def test_module_and_function_are_both_reachable():
    from wengert.jit import jit

    assert wg.jit is jit


def test_not_a_function():
    with pytest.raises(TypeError, match="jit: got 3 of type int, expected a function"):
        wg.jit(3)
    with pytest.raises(ValueError, match="jit: argument threads: got 0"):
        wg.jit(polynomial, threads=0)


class Scaler:
    def __init__(self, factor):
        self.factor = factor

    @wg.jit
    def scale(self, x):
        return x * self.factor

    @staticmethod
    @wg.jit
    def twice(x):
        return x + x


def test_methods():
    one, two = Scaler(2.0), Scaler(5.0)
    x = np.arange(3.0)
    same(one.scale(x), 2.0 * x)
    same(two.scale(x), 5.0 * x)
    same(Scaler.twice(x), 2.0 * x)
    assert one.scale == one.scale and one.scale != two.scale  # compiled once for each instance


def test_a_method_of_an_instance_without_a_dictionary():
    class Slotted:
        __slots__ = ("factor",)

        @wg.jit
        def scale(self, x):
            return x * self.factor

    one = Slotted()
    one.factor = 3.0
    assert one.scale(2.0) == 6.0 and one.scale == one.scale


def test_a_method_of_a_tree_takes_it_as_an_argument():
    @dataclasses.dataclass
    class Line:
        slope: np.ndarray

        @wg.jit
        def at(self, x):
            return self.slope * x

    line = Line(np.array(2.0))
    assert line.at(3.0) == 6.0
    line.slope = np.array(4.0)
    assert line.at(3.0) == 12.0


def test_pickle_and_partial():
    f = functools.partial(wg.jit(np.add), 1.0)
    assert f(2.0) == 3.0
    assert pickle.loads(pickle.dumps(JITTED))(2.0) == 14.0


JITTED = wg.jit(polynomial)


def test_functions_and_their_programs_are_freed():
    def f(x):
        return x + 1

    jf = wg.jit(f)
    jf(np.ones(3))
    gone = weakref.ref(f)
    del f, jf
    gc.collect()
    assert gone() is None


# ---------------------------------------------------------------- arguments


@pytest.mark.parametrize(
    "argument",
    [3, 2.5, True, 1 + 2j, np.float32(1.5), np.int8(-3), np.bool_(True), np.complex64(1j)],
    ids=lambda a: type(a).__name__,
)
def test_scalars(argument):
    f = lambda x: (x + np.ones(2, np.float32), x * 2)
    jf = wg.jit(f)
    for _ in range(2):
        got, want = jf(argument), f(argument)
        same(got[0], want[0])
        assert np.asarray(got[1]).dtype == np.asarray(want[1]).dtype and got[1] == want[1]


def test_python_numbers_do_not_promote():
    jf = wg.jit(lambda x, a: x * a)
    assert jf(np.ones(2, np.float32), 2.0).dtype == np.float32
    assert jf(np.ones(2, np.float32), np.float64(2.0)).dtype == np.float64


def test_a_huge_integer():
    with pytest.raises(IntegerError, match="does not fit into 64 bits"):
        wg.jit(lambda x: x + 1)(2**80)


def layouts():
    base = np.arange(24.0).reshape(4, 6)
    raw = np.zeros(8 * 24 + 1, np.uint8)
    misaligned = raw[1:].view(np.float64).reshape(4, 6)
    misaligned[...] = base
    frozen = base.copy()
    frozen.flags.writeable = False
    fields = np.zeros(24, [("a", "i1"), ("b", "f8")])
    fields["b"] = base.ravel()
    return {
        "contiguous": base,
        "fortran": np.asfortranarray(base),
        "transposed": base.T,
        "reversed": base[::-1, ::-1],
        "steps": np.arange(96.0).reshape(8, 12)[::2, ::2],
        "broadcast": np.broadcast_to(np.arange(6.0), (4, 6)),
        "single": np.broadcast_to(2.5, (4, 6)),
        "misaligned": misaligned,
        "swapped": base.astype(">f8"),
        "read-only": frozen,
        "field": fields["b"].reshape(4, 6),
        "matrix": base.view(np.memmap),
        "float32": base.astype(np.float32)[:, ::-1],
        "empty": base[:0],
        "one": base[:1, :1],
    }


@pytest.mark.parametrize("name", layouts())
def test_layouts(name):
    x = layouts()[name]
    before = np.array(x)

    def f(x):
        return np.sum(x, axis=0), x * 2.0 + 1.0, wnp.reshape(x, (-1,))

    jf = wg.jit(f)
    plain = np.array(x, x.dtype.newbyteorder("="))
    for _ in range(2):
        same(jf(x), f(plain))
    np.testing.assert_array_equal(x, before)


def test_each_layout_finds_its_program_again():
    jf = wg.jit(polynomial)
    for _ in range(2):
        for x in layouts().values():
            np.testing.assert_allclose(jf(x), polynomial(np.array(x, float)), rtol=1e-6)


@pytest.mark.parametrize("shape", [(3,), (2, 3), ()])
def test_out(shape):
    f = lambda x: (x + 1.0, {"twice": 2.0 * x})
    jf = wg.jit(f)
    x = np.full(shape, 2.0)
    out = (np.empty(shape), {"twice": np.empty(shape)})
    for _ in range(3):
        assert jf(x, out=out) is out
    np.testing.assert_array_equal(out[0], np.full(shape, 3.0))
    np.testing.assert_array_equal(out[1]["twice"], np.full(shape, 4.0))


def test_calls_with_out_have_an_entry_of_their_own(monkeypatch):
    jf = wg.jit(lambda x: x + 1.0)
    x, out = np.arange(3.0), np.empty(3)
    jf(x)
    jf(x, out=out)

    def fell_through(self, native, args, kwargs):
        raise AssertionError("no entry took the call")

    monkeypatch.setattr(type(jf), "_take", fell_through)
    assert jf(x, out=out) is out and out[2] == 3.0
    assert jf(x)[1] == 2.0
    with pytest.raises(AssertionError, match="no entry"):
        jf(x, other=out)


def test_out_overlapping_an_argument():
    jf = wg.jit(lambda x: x[::-1] + np.sum(x))
    for _ in range(3):
        x = np.arange(5.0)
        want = x[::-1] + 10.0
        assert jf(x, out=x) is x
        np.testing.assert_array_equal(x, want)


def test_out_that_is_not_contiguous():
    target = np.zeros((3, 2))[:, 0]
    wg.jit(lambda x: x + 1.0)(np.arange(3.0), out=target)
    np.testing.assert_array_equal(target, [1.0, 2.0, 3.0])


def test_bad_out():
    jf = wg.jit(lambda x: x + 1.0)
    frozen = np.zeros(3)
    frozen.flags.writeable = False
    for bad in (np.zeros(4), np.zeros(3, np.float32), [0.0, 0.0, 0.0], "out", frozen):
        with pytest.raises((ShapeError, StructureError)):
            jf(np.arange(3.0), out=bad)
    with pytest.raises(ShapeError, match="holds float64 of shape \\(4,\\), expected a writable"):
        jf(np.arange(3.0), out=np.zeros(4))


def test_keywords_and_defaults():
    traces = []

    @wg.jit
    def f(x, y=2.0, *, z=3.0):
        traces.append(1)
        return x * y + z

    x = np.ones(2)
    for _ in range(2):
        same(f(x, 5.0), x * 5 + 3)
        same(f(x, y=5.0), x * 5 + 3)
        same(f(y=5.0, x=x), x * 5 + 3)
    assert len(traces) == 1
    for _ in range(2):
        same(f(x), x * 2 + 3)
        same(f(x, z=1.0), x * 2 + 1)
        same(f(x, z=1.0, y=4.0), x * 4 + 1)
    assert len(traces) == 4


def test_keywords_in_any_order_stay_native():
    jf = wg.jit(lambda x, y: x - y)
    assert jf(x=3.0, y=1.0) == 2.0
    jf._entries[0].next = None
    assert jf(y=1.0, x=3.0) == 2.0


def test_wrong_calls_raise_pythons_error():
    jf = wg.jit(lambda x: x + 1.0)
    jf(np.ones(2))
    with pytest.raises(TypeError, match="positional argument"):
        jf(np.ones(2), np.ones(2))
    with pytest.raises(TypeError, match="unexpected keyword argument 'y'"):
        jf(np.ones(2), y=1.0)
    with pytest.raises(TypeError, match="missing 1 required positional"):
        jf()


def test_static_arguments():
    traces = []

    @wg.jit(static_argnames=("mode", "n"))
    def f(x, mode, n=1):
        traces.append(mode)
        return x**n if mode == "power" else x * n

    x = np.arange(1.0, 4.0)
    for _ in range(2):
        same(f(x, "power", 2), x**2)
        same(f(x, mode="power", n=2), x**2)
        same(f(x, "times", n=2), x * 2)
        same(f(x, "times"), x)
    assert len(traces) == 3
    assert f(2.0, "times", 1) == f(2.0, "times", True)  # of other types: compiled apart
    assert len(traces) == 5


def test_static_errors():
    jf = wg.jit(lambda x, n: x, static_argnames="n")
    with pytest.raises(DTypeError, match=r"static argument 1 is \[1\] of type list, which cannot"):
        jf(1.0, [1])
    with pytest.raises(ValueError, match="static_argnames has 'k', but <lambda> has"):
        wg.jit(lambda x: x, static_argnames="k")


class Point(NamedTuple):
    x: object
    y: object


@dataclasses.dataclass
class Pair:
    a: object
    b: object


def test_trees():
    def f(tree):
        return {
            "sum": tree["p"].x + tree["p"].y,
            "list": [tree["d"].a, None, (tree["d"].b,)],
            "point": Point(tree["n"][0], 1.0),
        }

    jf = wg.jit(f)
    tree = {"p": Point(np.ones(2), 2.0), "d": Pair(np.zeros(3), 1.0), "n": [np.arange(3), None]}
    for _ in range(2):
        got, want = jf(tree), f(tree)
        same(got["sum"], want["sum"])
        assert got["list"][1] is None and isinstance(got["point"], Point)
        np.testing.assert_array_equal(got["point"].x, want["point"].x)


def test_plain_trees_stay_native():
    jf = wg.jit(lambda tree, skip: {"a": tree["x"] + tree["y"][0], "none": skip})
    tree = {"y": (np.ones(2), 1.0), "x": np.ones(2)}
    for _ in range(2):
        result = jf(tree, None)
        np.testing.assert_array_equal(result["a"], [2.0, 2.0])
        assert result["none"] is None
    assert len(jf._entries) == 1


def make_object(x):
    return object()


def test_results_that_are_not_arrays():
    jf = wg.jit(lambda x: (None, "text", 3, 2.5, x))
    for _ in range(2):
        same(jf(np.ones(2)), (None, "text", 3, 2.5, np.ones(2)))
    assert wg.jit(lambda x: None)(1.0) is None
    with pytest.raises(DTypeError, match="make_object: the result holds <object object"):
        wg.jit(make_object)(1.0)


def test_captured_arrays_are_constants():
    data = np.arange(3.0)
    jf = wg.jit(lambda x: (x + data, data))
    first = jf(1.0)
    data[:] = 100.0
    same(jf(1.0), first)
    first[1][:] = -1.0  # the result is the caller's own
    same(jf(1.0)[1], np.arange(3.0))


def test_arguments_cannot_be_written_to():
    def f(x):
        x[0] = 1.0
        return x

    with pytest.raises(MutationError, match="the array is an argument"):
        wg.jit(f)(np.zeros(3))


def test_bad_arguments():
    jf = wg.jit(lambda x: x)
    for bad in ("text", object(), np.array(["a"]), np.array([object()]), {1, 2}):
        with pytest.raises(DTypeError, match="expected"):
            jf(bad)


# What `f(x: f64[3], i: integers)` below cannot take in either place.
BAD = [
    "text", b"bytes", object(), {}, [1.0, 2.0], {"x": 1.0}, {1, 2}, 2**70, -(2**64), np.zeros(4),
    np.zeros((2, 3)), np.zeros(0), np.array(["a"]), np.array([None] * 3), np.zeros(3, "M8[s]"),
    np.zeros(3, "V8"), np.broadcast_to(0.0, (2**40,)), np.nan, float("inf"), np.array([np.nan, 0]),
    np.array([3]), np.array([-4, 0]), np.array([2**62]), type, len, lambda: 1, 1j,
    np.zeros(3, [("a", "f8")]), Exception("x"), memoryview(b"abc"), iter([1.0]), slice(1), ...,
    NotImplemented, np.ma.masked, np.dtype(float), np.longdouble(1), np.zeros((2,) * 30),
]  # fmt: skip


def test_bad_calls_raise_and_nothing_else():
    jf = wg.jit(lambda x, i: np.sum(x + np.arange(3.0)) + x[i])
    x, i = np.ones(3), np.array([0, 2])
    want = jf(x, i)
    rng = np.random.default_rng(11)
    for number in range(10_000):
        bad = BAD[rng.integers(len(BAD))]
        args = (bad, i) if rng.random() < 0.5 else (x, bad)
        extra = {"out": BAD[rng.integers(len(BAD))]} if rng.random() < 0.1 else {}
        with pytest.raises(
            (TypeError, ValueError, IndexError, AttributeError, MemoryError, OverflowError)
        ):
            jf(*args, **extra)
        if number % 100 == 0:
            np.testing.assert_array_equal(jf(x, i), want)
    for bad in BAD:
        if not (isinstance(bad, np.ndarray) and bad.shape == want.shape):
            with pytest.raises((TypeError, ValueError)):
                jf(x, i, out=bad)


# ---------------------------------------------------------------- many signatures, threads


def test_more_signatures_than_the_chain_holds():
    jf = wg.jit(polynomial)
    sizes = range(1, chain.CHAIN + 5)
    for _ in range(2):
        for n in sizes:
            np.testing.assert_allclose(jf(np.ones(n)), 4.0 * n)
    assert len(jf._entries) == chain.CHAIN
    assert len(jf._evicted) == 4
    x, out = np.ones(1), np.empty(())  # the first, now outside the chain
    assert jf(x, out=out) is out and out == 4.0
    jf._evicted[0].next = None
    assert jf(x) == 4.0  # natively: it did not ask what comes next


def test_threads_share_a_program():
    jf = wg.jit(lambda x: np.sum(np.sin(x) @ np.cos(x).T, axis=0) + np.sum(x))
    rng = np.random.default_rng(1)
    inputs = [rng.standard_normal((80, 80)) for _ in range(4)]
    wants = [jf(x) for x in inputs]
    wrong = []

    def work(x, want):
        for _ in range(30):
            if not np.array_equal(jf(x), want):
                wrong.append(1)

    threads = [threading.Thread(target=work, args=pair) for pair in zip(inputs, wants, strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_threads_compile_once():
    traces = []

    @wg.jit
    def f(x):
        traces.append(1)
        return x * 2.0

    threads = [threading.Thread(target=f, args=(np.ones(5),)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(traces) == 1


def test_limited_threads_give_the_same_bits():
    x = np.random.default_rng(2).standard_normal(300_000)
    f = lambda x: (np.sum(np.sin(x)), np.exp(x))
    one, many = wg.jit(f, threads=1)(x), wg.jit(f)(x)
    assert one[0] == many[0]
    np.testing.assert_array_equal(one[1], many[1])
    assert "wengert_parallel_for_limited" in wg.jit(f, threads=1).explain(x).llvm


def test_the_arena_of_a_busy_program_is_not_shared():
    jf = wg.jit(lambda x: np.sum(np.sin(x) @ np.cos(x)))
    x = np.random.default_rng(0).standard_normal((60, 60))
    want = jf(x)
    (program,) = next(iter(jf._programs.values()))
    assert program.arena is not None
    program.arena._lock.value = 1  # as if another thread were inside
    assert jf(x) == want
    program.arena._lock.value = 0


# ---------------------------------------------------------------- transforms and errors


def test_under_transforms():
    jf = wg.jit(lambda x: np.sum(np.sin(x) ** 2))
    x = np.arange(3.0)
    np.testing.assert_allclose(wg.grad(jf)(x), np.sin(2 * x))
    np.testing.assert_allclose(wg.jit(wg.grad(jf))(x), np.sin(2 * x))
    rows = np.arange(6.0).reshape(2, 3)
    np.testing.assert_allclose(wg.vmap(jf)(rows), [jf(row) for row in rows])
    np.testing.assert_allclose(wg.jit(lambda x: jf(x) + jf(2 * x))(x), jf(x) + jf(2 * x))
    np.testing.assert_allclose(wg.jit(wg.hessian(jf))(x), np.diag(2 * np.cos(2 * x)), atol=1e-15)


def test_a_function_that_closes_over_a_traced_value():
    def f(x):
        inner = wg.jit(lambda y: x * y)
        return inner(3.0)

    assert wg.grad(f)(2.0) == 3.0


def test_errors_of_the_function_come_through_and_leave_no_trace():
    jf = wg.jit(lambda x, y: x + y)
    with pytest.raises(ShapeError):
        jf(np.ones(2), np.ones(3))
    same(jf(np.ones(2), np.ones(2)), np.full(2, 2.0))


def test_index_out_of_range_is_numpys_error():
    jf = wg.jit(lambda x, i: x[i])
    x = np.arange(4.0)
    for _ in range(2):
        assert jf(x, np.array([3]))[0] == 3.0
        for bad in (4, -5):
            with pytest.raises(OutOfRangeError):
                jf(x, np.array([bad]))


def test_operations_that_numpy_evaluates():
    jf = wg.jit(lambda x: (np.linalg.svd(x)[1], x + 1.0))
    x = np.arange(6.0).reshape(2, 3)
    for _ in range(2):
        np.testing.assert_allclose(jf(x)[0], np.linalg.svd(x)[1])
    out = (np.empty(2), np.empty((2, 3)))
    jf(x, out=out)
    same(out[1], x + 1.0)


def test_long_doubles_and_half():
    for dtype in (np.longdouble, np.float16):
        x = np.ones(3, dtype)
        got = wg.jit(lambda x: x + x)(x)
        assert got.dtype == dtype
        np.testing.assert_array_equal(got, x + x)


@pytest.mark.timing
def test_overhead():
    jf = wg.jit(wg.value_and_grad(polynomial))
    x = np.ones(8)
    jf(x)
    best = min(timeit.repeat(lambda: jf(x), number=20_000, repeat=10)) / 20_000
    assert best < 0.6e-6


LAYERS = {"in": 2.0, "hidden": np.array([3.0, 5.0]), "last": 0.5}


def through(layers, x=1.0):
    for number, weight in enumerate(layers.values()):
        x = np.sum(x * weight) + number
    return {"sum": x, "all": list(layers.values())}


def as_keywords(x, **layers):
    return through(layers, x)["sum"]


class TestOrderOfDicts:
    """A program that goes over a dictionary sees the order that the caller's has."""

    def test_every_way_to_run(self):
        want = through(LAYERS)
        for found in (
            wg.jit(through)(LAYERS),
            wg.vjp(through, LAYERS)[0],
            wg.linearize(through, LAYERS)[0],
            wg.jit(wg.checkpoint(through))(LAYERS),
        ):
            assert list(found) == ["sum", "all"]
            assert found["sum"] == want["sum"]
            assert [np.shape(one) for one in found["all"]] == [(), (2,), ()]
        slopes = wg.grad(lambda layers: through(layers)["sum"])(LAYERS)
        assert list(slopes) == list(LAYERS)
        rows = {name: np.stack([weight, weight]) for name, weight in LAYERS.items()}
        np.testing.assert_array_equal(wg.vmap(through)(rows)["sum"], [want["sum"]] * 2)

    def test_each_order_is_a_program_of_its_own(self):
        compiled = wg.jit(through)
        turned = dict(reversed(LAYERS.items()))
        for _ in range(3):
            for layers in (LAYERS, turned):
                assert compiled(layers)["sum"] == through(layers)["sum"]
        assert through(LAYERS)["sum"] != through(turned)["sum"]

    def test_keywords_that_the_function_goes_over(self):
        compiled = wg.jit(as_keywords)
        turned = dict(reversed(LAYERS.items()))
        for _ in range(3):
            for layers in (LAYERS, turned):
                assert compiled(1.0, **layers) == as_keywords(1.0, **layers)

    def test_a_dict_that_a_loop_makes_anew(self):
        def halved(x):
            held = {"b": x, "a": x * 2.0}
            for _ in range(20):
                held = {name: 0.5 * value for name, value in held.items()}
            return held

        for way in (wg.jit, lambda f: f):
            found = way(halved)(1.0)
            assert list(found) == ["b", "a"] and found["a"] == 2 * found["b"]

    def test_trees_that_must_match_may_be_in_any_order(self):
        def body(carry, _):
            return {"a": carry["a"] * 2.0, "b": carry["b"] + carry["a"]}, None

        total, _ = wg.scan(body, {"b": 0.0, "a": 1.0}, length=3)
        assert total == {"a": 8.0, "b": 7.0}
        x = {"b": 1.0, "a": 2.0}
        assert wg.jvp(lambda x: x["a"] * x["b"], (x,), ({"a": 1.0, "b": 0.0},)) == (2.0, 1.0)
        _, pullback = wg.vjp(lambda x: x, x)
        assert pullback({"a": 1.0, "b": 2.0}) == ({"b": 2.0, "a": 1.0},)
        chosen = wg.cond(True, lambda: {"b": 1.0, "a": 2.0}, lambda: {"a": 0.0, "b": 0.0})
        assert chosen == {"b": 1.0, "a": 2.0}
        axes = {"a": None, "b": 0}
        assert list(wg.vmap(lambda x: x["b"], in_axes=(axes,))({"b": np.ones(2), "a": 1.0})) == [
            1,
            1,
        ]
