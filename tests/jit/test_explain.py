"""Looking inside: every stage has a text, and the numbers in them are true."""

import os
import subprocess
import sys

import numpy as np
import pytest

import wengert as wg
from wengert.jit.debugging import NotANumberError

X = np.arange(1.0, 9.0)


def loss(x):
    return np.sum(np.sin(x) * x)


def test_every_part_has_its_text():
    story = wg.jit(wg.value_and_grad(loss)).explain(X)
    assert "sin(x)" in story.graph and "cos" in story.graph
    assert "after simplify" in story.passes and "no change" in story.passes
    assert story.loops.startswith("input  in0: f64[8]")
    assert "inputs:                64 bytes" in story.memory
    assert 'define i32 @"kernel0"' in story.llvm
    assert "kernel0:" in story.assembly
    assert story.hosts == []
    text = str(story)
    for part in ("# graph", "# after the passes", "all of it is native code", "# memory", "# time"):
        assert part in text
    assert repr(story).startswith("<explanation of loss")


def test_time_per_kernel():
    n = 300
    story = wg.jit(lambda a, b: (a @ b, np.sum(np.exp(a)))).explain(
        np.ones((n, n)), np.ones((n, n))
    )
    assert all(seconds > 0 for _, seconds in story.times)
    product = sum(s for label, s in story.times if "contract" in label)
    assert product > 0.5 * sum(s for _, s in story.times)  # 27 million multiplications
    assert story.time.endswith("us in all")


def test_time_leaves_state_alone():
    w = wg.tensor(np.ones(4))

    @wg.jit
    def f(x):
        w.__iadd__(x)

    f(1.0)
    assert f.explain(1.0).times
    np.testing.assert_array_equal(w.numpy(), np.full(4, 2.0))


def test_numpy_parts_are_named():
    story = wg.jit(lambda x: np.gcd(x, 12)).explain(np.arange(3))
    assert "numpy gcd" in story.hosts[0]
    assert "evaluated by NumPy" in str(story)
    assert any("gcd" in label for label, _ in story.times)


def test_calls_of_lapack_are_named():
    story = wg.jit(np.linalg.cholesky).explain(np.eye(9))
    assert not story.hosts
    assert "by dpotrf('U', 9, out1, 9, " in story.loops
    assert any("dpotrf" in label for label, _ in story.times)


def test_memory():
    data = np.ones((30, 30))
    memory = wg.jit(lambda x: np.tanh(x @ data) @ data).memory(np.ones((2, 30)))
    assert memory["inputs"] == memory["outputs"] == 480
    assert memory["constants"] == 7200 and memory["state"] == 0
    assert memory["arena"] >= 480
    assert memory["allocations_per_call"] == 1


def debug(level, cache):
    code = (
        "import numpy as np, wengert as wg\n"
        "def loss(x): return np.sum(np.sin(x))\n"
        "wg.jit(loss)(np.ones(3))"
    )
    environment = {**os.environ, "WENGERT_DEBUG": level, "WENGERT_CACHE": str(cache)}
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment
    )


def test_debug_levels(tmp_path):
    texts = [debug(str(level), tmp_path / str(level)).stderr for level in range(5)]
    assert texts[0] == ""
    assert texts[1].startswith("wengert: loss(f64[3]) from the compiler: trace ")
    assert texts[1].count("\n") == 1
    parts = ["= sin(x)", "define i32", ".cfi"]
    for level, text in enumerate(texts):
        assert [part in text for part in parts] == [level >= 2, level >= 3, level >= 4]
    debug("1", tmp_path / "again")
    again = debug("1", tmp_path / "again").stderr
    assert again.startswith("wengert: loss(f64[3]) from the cache: ")


def test_debug_level_that_is_none(tmp_path):
    failed = debug("much", tmp_path)
    assert "WENGERT_DEBUG: got 'much', expected 0, 1, 2, 3 or 4" in failed.stderr


# ---------------------------------------------------------------- debug_nans


def test_debug_nans_finds_the_operation():
    f = wg.jit(lambda x: np.sum(np.sqrt(x - 2.0)) * 3.0)
    assert np.isnan(f(X))
    with wg.debug_nans():
        with pytest.raises(NotANumberError, match=r"sqrt \(at test_explain.py:\d+\): made a NaN"):
            f(X)
        assert f(X + 5.0) > 0
        with pytest.raises(FloatingPointError, match=r"log \(at test_explain.py:\d+\): made a NaN"):
            wg.grad(lambda x: np.log(x))(-1.0)
    assert np.isnan(f(X))
    assert len(f._entries) == 1


def difference(x):
    y = np.arcsin(x)
    return np.sum(y - np.arcsin(x * x))


def by_tensors(x):
    t = wg.tensor(x, requires_grad=True)
    difference(t).backward()
    return t.grad


WAYS = {
    "evaluated": wg.grad(difference),
    "compiled": wg.jit(wg.grad(difference)),
    "tensors": by_tensors,
    "tensors, compiled": wg.jit(lambda x: by_tensors(x)),
}


@pytest.mark.parametrize("way", WAYS)
def test_debug_nans_names_the_operation_that_a_derivative_is_of(way):
    function = WAYS[way]
    assert np.isnan(function(np.ones(2))).all()  # also compiled before the check is on
    first = difference.__code__.co_firstlineno + 1
    told = rf"add \(in the derivative of arcsin, at test_explain.py:{first}\): made a NaN from "
    with (
        wg.debug_nans(),
        pytest.raises(NotANumberError, match=told + r"\[-inf -inf\], \[inf inf\]"),
    ):
        function(np.ones(2))
    assert np.isnan(function(np.ones(2))).all()


def scanned(x):
    def body(h, v):
        h = np.sqrt(h - v)
        return h, h

    return wg.scan(body, 1.0, x)[0]


def repeated(x):
    y = 0.0
    while x > -2.0:
        x = x - 1.0
        y = np.sqrt(x)
    return y


@pytest.mark.parametrize(
    ("function", "line", "argument"),
    [
        (scanned, 2, np.array([0.1, 3.0])),
        (wg.jit(scanned), 2, np.array([0.1, 3.0])),
        (wg.jit(wg.grad(scanned)), 2, np.array([0.1, 3.0])),
        (wg.jit(repeated), 4, 1.0),
        (wg.jit(wg.vmap(repeated)), 4, np.ones(2)),
    ],
    ids=["scan, evaluated", "scan", "scan, gradient", "while", "while, batched"],
)
def test_debug_nans_names_the_line_inside_a_loop(function, line, argument):
    plain = repeated if line == 4 else scanned
    told = rf"sqrt \(at test_explain.py:{plain.__code__.co_firstlineno + line}\): made a NaN"
    with wg.debug_nans(), pytest.raises(NotANumberError, match=told):
        function(argument)


def test_debug_nans_names_the_module():
    class Logs(wg.nn.Module):
        def __init__(self):
            self.inner = wg.nn.Linear(2, 2)

        def forward(self, x):
            return np.log(self.inner(x) - 100.0)

    network = wg.nn.Sequential(Logs())
    told = r"log \(at test_explain.py:\d+, in Sequential / 0 Logs\): made a NaN from "
    for function in (network, wg.jit(lambda x: network(x).sum())):
        with wg.debug_nans(), pytest.raises(NotANumberError, match=told):
            function(np.ones((1, 2), "f4"))


def test_debug_nans_as_a_switch():
    f = wg.jit(lambda x: np.log(x))
    wg.debug_nans()
    try:
        with pytest.raises(NotANumberError):
            f(-1.0)
    finally:
        wg.debug_nans(False)
    assert np.isnan(f(-1.0))


def test_debug_nans_lets_nans_of_the_argument_pass():
    with wg.debug_nans():
        assert np.isnan(wg.jit(lambda x: x + 1.0)(np.nan))


def test_debug_nans_with_state():
    w = wg.tensor(4.0)

    @wg.jit
    def f(x):
        w.__isub__(x)
        return np.sqrt(w)

    with wg.debug_nans():
        assert f(3.0) == 1.0
        with pytest.raises(NotANumberError):
            f(3.0)
        assert w.item() == 1.0


def test_derivatives_capture_no_arrays_of_ones():
    """The seed of reverse mode is one number, however large the array it is spread over."""
    x = np.linspace(0.0, 1.0, 5000)
    function = wg.jit(wg.value_and_grad(lambda x: np.sum(100 * (x[1:] - x[:-1] ** 2) ** 2)))
    assert function.memory(x)["constants"] == 0


def test_lines_of_what_is_derived():
    def f(x):
        y = np.sin(x)
        return np.sum(y * y)

    def line(offset):
        return f"test_explain.py:{f.__code__.co_firstlineno + offset}"

    for transformed, x in ((wg.grad(f), np.ones(3)), (wg.vmap(wg.grad(f)), np.ones((2, 3)))):
        nodes = wg.jit(transformed).explain(x)._stages.graph.operators
        assert {node.source for node in nodes} == {line(1), line(2)}
        assert {node.source for node in nodes if node.op.name == "cos"} == {line(1)}
