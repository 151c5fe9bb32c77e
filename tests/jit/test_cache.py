"""Programs on disk: hits where nothing has changed, misses wherever anything has."""

import functools
import os
import subprocess
import sys
import textwrap

import numpy as np
import pytest

import wengert as wg
from wengert.codegen.cache import ObjectCache
from wengert.jit import building as jit_building
from wengert.jit import entries as jit_entries
from wengert.jit import function as jit_function
from wengert.jit import lookup as jit_lookup
from wengert.jit.fingerprint import graph_fingerprint

X = np.arange(1.0, 5.0)


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    cache = ObjectCache(tmp_path / "cache")
    for module in (jit_entries, jit_function, jit_building, jit_lookup):
        monkeypatch.setattr(module, "object_cache", lambda: cache)
    return tmp_path / "cache"


def define(source, name="f", **names):
    """A function from text, as a fresh process would see it."""
    scope = {"np": np, "wg": wg, **names}
    exec(textwrap.dedent(source), scope)
    return scope[name]


def compiled(function, *args, **options):
    """The result of a call, and whether the program came from the cache."""
    jf = wg.jit(function, **options)
    result = jf(*args)
    (programs,) = jf._programs.values()
    return result, programs[0].from_record


SOURCE = """
    def helper(x):
        return x * 2.0

    def f(x, power=2):
        return np.sum(helper(x) ** power) + SHIFT
"""


def test_the_same_function_is_found():
    first, hit = compiled(define(SOURCE, SHIFT=1.0), X)
    assert not hit
    second, hit = compiled(define(SOURCE, SHIFT=1.0), X)
    assert hit
    assert first == second == 121.0


def test_a_program_from_the_cache_works_like_any_other():
    source = """
        def f(x, tree):
            return {"a": x + np.arange(4.0), "b": [None, "text", 3], "c": (tree["k"] * 2,)}
    """
    tree = {"k": 2.0}
    want, _ = compiled(define(source), X, tree)
    jf = wg.jit(define(source))
    for _ in range(2):
        got = jf(X, tree)
        np.testing.assert_array_equal(got["a"], want["a"])
        assert got["b"] == [None, "text", 3] and got["c"] == (4.0,)
    assert jf.explain(X, tree).graph and "add" in jf.explain(X, tree).assembly
    assert len(jf._entries) == 1
    np.testing.assert_array_equal(jf(X[::-1], tree)["a"], X[::-1] + np.arange(4.0))
    np.testing.assert_array_equal(jf(x=X, tree=tree)["a"], want["a"])


CHANGES = {
    "the function": (SOURCE.replace("np.sum(", "np.prod("), {"SHIFT": 1.0}),
    "a constant": (SOURCE.replace("2.0", "3.0"), {"SHIFT": 1.0}),
    "an operator": (SOURCE.replace(") + SHIFT", ") - SHIFT"), {"SHIFT": 1.0}),
    "a called function": (SOURCE.replace("x * 2.0", "x + 2.0"), {"SHIFT": 1.0}),
    "a global": (SOURCE, {"SHIFT": 2.0}),
    "the type of a global": (SOURCE, {"SHIFT": np.float32(1.0)}),
    "a default": (SOURCE.replace("power=2", "power=3"), {"SHIFT": 1.0}),
    "a captured array": (SOURCE, {"SHIFT": np.array([1.0, 1.0])}),
    "an attribute": (SOURCE.replace("np.sum", "np.max"), {"SHIFT": 1.0}),
}


@pytest.mark.parametrize("what", CHANGES)
def test_a_change_misses(what):
    compiled(define(SOURCE, SHIFT=1.0), X)
    source, names = CHANGES[what]
    function = define(source, **names)
    got, hit = compiled(function, X)
    assert not hit
    np.testing.assert_allclose(got, function(X))


def closure(value):
    def f(x):
        return x + value

    return f


@pytest.mark.parametrize(
    "one, other",
    [
        (1.0, 2.0),
        (1, 1.0),
        (0.0, -0.0),
        (np.zeros(4), np.ones(4)),
        (np.zeros(4), np.zeros(4, np.float32)),
        (np.zeros(4), np.zeros((1, 4))),
        (np.float32(1), np.float64(1)),
    ],
)
def test_closures(one, other):
    assert not compiled(closure(one), X)[1]
    assert compiled(closure(one), X)[1]
    assert not compiled(closure(other), X)[1]


def test_content_of_a_captured_array():
    data = np.zeros(4)
    compiled(closure(data), X)
    data[2] = 5.0
    got, hit = compiled(closure(data), X)
    assert not hit and got[2] == X[2] + 5.0


def test_arguments_are_part_of_the_key():
    f = define("def f(x, n=1):\n    return x * n")
    compiled(f, X)
    for args in ((X[:3],), (X.astype(np.float32),), (X[::-1],), (X, 2), (X, 2.0), (1.0,), ((X),)):
        got, hit = compiled(f, *args)
        assert hit == (len(args) == 1 and args[0] is X)
        np.testing.assert_array_equal(got, f(*args))


def test_static_arguments_are_part_of_the_key():
    f = define("def f(x, n):\n    return x * n")
    for n in (1, 2, 2.0, True, "no"):
        if n == "no":
            continue
        got, hit = compiled(f, X, n, static_argnames="n")
        assert not hit
        np.testing.assert_array_equal(got, X * n)
    assert compiled(f, X, 2, static_argnames="n")[1]


def test_transforms_are_looked_through():
    source = "def f(x):\n    return np.sum(np.sin(x) * x)"
    for transform in (wg.grad, wg.value_and_grad, functools.partial(wg.grad, argnums=(0,))):
        assert not compiled(transform(define(source)), X)[1]
        assert compiled(transform(define(source)), X)[1]
    assert not compiled(wg.grad(define(source.replace("sin", "cos"))), X)[1]


def test_damaged_records_are_traced(folder):
    f = define(SOURCE, SHIFT=1.0)
    compiled(f, X)
    for path in folder.iterdir():
        path.write_bytes(path.read_bytes()[:-1] + b"!")
    got, hit = compiled(f, X)
    assert not hit and got == 121.0


def test_clear_cache(folder):
    compiled(define(SOURCE, SHIFT=1.0), X)
    assert list(folder.iterdir())
    wg.clear_cache()
    assert not list(folder.iterdir())
    assert not compiled(define(SOURCE, SHIFT=1.0), X)[1]


# ---------------------------------------------------------------- by graph


def way(jf):
    (programs,) = jf._programs.values()
    return programs[0].from_record


def training(lr=0.5, start=1.0):
    w = wg.tensor(np.full(4, start), requires_grad=True)

    @wg.jit
    def step(x):
        w.zero_grad()
        loss = np.sum((w - x) ** 2)
        loss.backward()
        with wg.no_grad():
            w.__isub__(lr * w.grad)
        return {"loss": loss, "step": 1}

    return w, step


def test_a_function_with_state_is_found_by_its_graph():
    for number in range(3):
        w, step = training(0.25, float(number))
        for _ in range(3):
            v = w.numpy().copy()
            assert step(X)["loss"] == pytest.approx(np.sum((v - X) ** 2))
            np.testing.assert_allclose(w.numpy(), v - 0.5 * (v - X))
        assert way(step) == (number > 0)
        assert len(step._entries) == 1
    assert "kernel0" in step.explain(X).assembly


def test_another_graph_misses():
    training(0.25)[1](X)
    w, step = training(0.125)
    step(X)
    assert not way(step)
    np.testing.assert_allclose(w.numpy(), 1.0 - 0.25 * (1.0 - X))


def test_constants_of_the_graph_count():
    values = [[1.0], [2.0], [1.0]]
    ways = []
    for value in values:
        jf = wg.jit(lambda x, value=value: x + value[0] + np.arange(4.0) * value[0])
        np.testing.assert_array_equal(jf(X), X + value[0] + np.arange(4.0) * value[0])
        ways.append(way(jf))
    assert ways == [False, False, True]


def test_the_structure_of_the_result_counts():
    list_of = [0]
    for make in (lambda x: (x, x), lambda x: [x, x], lambda x: {"a": x, "b": x}, lambda x: x):
        jf = wg.jit(lambda x, make=make: make(x + len(list_of)))
        got, want = jf(X), make(X + 1.0)
        assert type(got) is type(want) and str(got) == str(want)
        assert not way(jf)


def test_operations_of_ones_own_are_compiled():
    rule = wg.custom_rule(vjp=lambda g, ans, x: (g * 2.0,))
    own = rule(lambda x: x * 3.0)
    jf = wg.jit(lambda x: own(x) + [1.0][0])
    np.testing.assert_array_equal(jf(X), X * 3.0 + 1.0)


def test_an_operation_defined_by_the_user_has_no_fingerprint():
    from wengert.ops.op import REGISTRY, Op

    assert graph_fingerprint(wg.trace(lambda x: x + 1.0, X)) is not None
    op = Op("own_of_test_cache", lambda x: x * 3.0, lambda t: t)
    try:
        assert graph_fingerprint(wg.trace(lambda x: op(x), X)) is None
    finally:
        del REGISTRY[op.name]


PROGRAM = """
import numpy as np, wengert as wg
def loss(w, x):
    return np.sum(np.tanh(x @ w) ** 2)
f = wg.jit(wg.value_and_grad(loss))
value, gradient = f(np.ones((3, 2)), np.ones((4, 3)))
(programs,) = f._programs.values()
print(programs[0].from_record, float(value), gradient.tolist())
"""


def test_another_process(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(PROGRAM)
    environment = {**os.environ, "WENGERT_CACHE": str(tmp_path / "objects")}
    run = functools.partial(
        subprocess.run, [sys.executable, str(script)], capture_output=True, text=True, check=True
    )
    first = run(env=environment).stdout.split(" ", 1)
    second = run(env=environment).stdout.split(" ", 1)
    off = run(env={**environment, "WENGERT_CACHE": "off"}).stdout.split(" ", 1)
    assert [first[0], second[0], off[0]] == ["False", "True", "False"]
    assert first[1] == second[1] == off[1]


def test_programs_with_many_results_are_found():
    source = """
        def f(x):
            return [x * (1.0 + k) for k in range(80)]
    """
    first, hit = compiled(define(source), X)
    assert not hit
    second, hit = compiled(define(source), X)
    assert hit
    np.testing.assert_array_equal(first, second)
    np.testing.assert_array_equal(first, [X * (1.0 + k) for k in range(80)])


def test_programs_with_very_many_results_go_through_python():
    f = wg.jit(lambda x: [x + k for k in range(jit_entries.MOST_LEAVES)])
    assert [found[0] for found in f(X)] == [1.0 + k for k in range(jit_entries.MOST_LEAVES)]
    assert not f._entries
