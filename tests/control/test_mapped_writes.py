"""Loops that end for each sample in its own turn: those that have ended stay what they are."""

import importlib

import numpy as np
import pytest

import wengert as wg

WRITES = {
    "at a place": "a[k] = a[k] + 2",
    "at a known place": "a[1] = a[1] + 2",
    "at the end": "a[-1] += 1",
    "at a place modulo": "a[k % 3] = n",
    "a sum": "a[k] += n",
    "a slice": "a[1:3] = a[0:2] + 1",
    "all": "a[:] = a + 1",
    "at several": "a[np.array([0, 2])] = a[np.array([3, 1])] + 1",
    "at several places": "a[np.array([k, k + 1])] = a[np.array([1, 0])] + n",
    "under a condition": "if a[k] < 3: a[k] = a[k] + 2",
    "by a condition": "a[a > 1] = 0; a[k] += 3",
    "an exchange": "a[k], a[k + 1] = a[k + 1], a[k] + 1",
    "a function": "np.add.at(a, k, 2)",
    "after another": "a[k] = n; a[k + 1] = a[k] + 1; n = n + a[k]",
    "another name": "b = a; b[k] = b[k] + 2",
    "a copy": "a = a.copy(); a[k] = a[k] + 2",
    "in a loop": "for j in range(k + 1): a[j] += 1",
    "in a loop inside": "for j in range(2): a[j + k] = a[j] + n",
}
ENDS = {
    "its own": "while x > 0.5 and k < 5:",
    "what was written": "while a[0] + x * k < 3 and k < 5:",
    "a break": "for k in range(5):\n        if x * k > 1.5: break",
}
ORDERED = [
    (write, end, dtype)
    for write, text in WRITES.items()
    for end in ENDS
    for dtype in ("i8", "i4", "f8", "f4", "c16")
    if dtype != "c16" or not (end == "what was written" or "<" in text or ">" in text)
]


def program(write, end, dtype):
    lines = ["import numpy as np", "def f(x):"]
    lines += [f"    a = np.arange(7).astype({dtype!r}); n = a[2]; k = 0", f"    {ENDS[end]}"]
    body = [
        "x = x * 0.8",
        *WRITES[write].split(";"),
        *["k = k + 1"] * ENDS[end].startswith("while"),
    ]
    lines += [f"        {statement.strip()}" for statement in body]
    return "\n".join([*lines, "    return a, k, n"])


@pytest.mark.parametrize(("write", "end", "dtype"), ORDERED)
def test_written_arrays(write, end, dtype, tmp_path, monkeypatch):
    # control flow is read from the source text, so there must be a file
    name = f"written_{ORDERED.index((write, end, dtype))}"
    (tmp_path / f"{name}.py").write_text(program(write, end, dtype))
    monkeypatch.syspath_prepend(tmp_path)
    f = importlib.import_module(name).f
    xs = np.array([0.3, 0.7, 1.1, 2.9])
    expected = [f(x) for x in xs]
    for mapped in (wg.vmap(f), wg.jit(wg.vmap(f))):
        for number, found in enumerate(mapped(xs)):
            wanted = np.array([one[number] for one in expected])
            np.testing.assert_allclose(found, wanted, rtol=1e-6)


BANDS = np.array([[0.0, 0.1, 0.1], [1.0, 1.0, 1.0], [0.1, 0.1, 0.0]])
REFUSALS = {
    "solve": lambda a: np.linalg.solve(a, np.ones(len(a)))[0],
    "inv": lambda a: np.linalg.inv(a)[0, 0],
    "inverse power": lambda a: np.linalg.matrix_power(a, -1)[0, 0],
    "cholesky": lambda a: np.linalg.cholesky(a @ a.T)[0, 0],
    "eigh": lambda a: np.linalg.eigh(a / a[0, 0])[0][0],
    "svd": lambda a: np.linalg.svd(a / a[0, 0])[1][0],
    "solve_triangular": lambda a: wg.scipy.linalg.solve_triangular(a, np.ones(len(a)))[0],
    "sqrtm": lambda a: wg.scipy.linalg.sqrtm(a)[0, 0],
    "solve_sylvester": lambda a: wg.scipy.linalg.solve_sylvester(a, a, np.ones(a.shape))[0, 0],
    "solve_banded": lambda a: wg.scipy.linalg.solve_banded(
        (1, 1), BANDS * a[0, 0], np.ones(BANDS.shape[1])
    )[0],
    "division": lambda a: 7.0 + 7 // np.rint(a[0, 0] * 4).astype(int),
}


def of_matrix(x, n):
    a = np.eye(n) * 2.0 + 0.1
    a[0, 0] = x
    return a


@pytest.mark.parametrize("n", [2, 12])
@pytest.mark.parametrize("name", REFUSALS)
class TestRefusals:
    """What an operation refuses is no error in samples that do not come to it."""

    def check(self, f, xs):
        with np.errstate(all="ignore"):
            expected = np.array([f(x) for x in xs])
            slopes = np.array([wg.grad(f)(x) for x in xs])
            for wrap in (lambda f: f, wg.jit):
                np.testing.assert_allclose(wrap(wg.vmap(f))(xs), expected, rtol=1e-9)
                np.testing.assert_allclose(
                    wrap(wg.vmap(wg.grad(f)))(xs), slopes, rtol=1e-7, atol=1e-12
                )

    def test_after_the_end(self, name, n):
        refuses = REFUSALS[name]

        def f(x):
            total, k = 0.0, 0
            while x > 1e-9 and k < 6:
                total = total + refuses(np.eye(n) * x)
                x = x - 0.25
                k = k + 1
            return total

        self.check(f, np.array([0.25, 0.5, 0.75, 2.0]))

    def test_branch(self, name, n):
        refuses = REFUSALS[name]

        def f(x):
            if x > 0.0:
                return refuses(of_matrix(x, n) * x)
            return x

        self.check(f, np.array([0.0, -1.0, 1.5, 2.0]))


class TestFirstTurn:
    """The first turn writes to an array from before the loop, the others to the one before."""

    def check(self, f):
        xs = np.array([0.05, 0.4, 1.0, 2.2])
        expected, slopes = [f(x) for x in xs], [wg.grad(f)(x) for x in xs]
        for found in (wg.vmap(f)(xs), wg.jit(wg.vmap(f))(xs), list(map(wg.jit(f), xs))):
            np.testing.assert_allclose(found, expected)
        for found in (wg.jit(wg.vmap(wg.grad(f)))(xs), list(map(wg.jit(wg.grad(f)), xs))):
            np.testing.assert_allclose(found, slopes)

    def test_while(self):
        def f(x):
            a, k = np.linspace(0.0, 1.0, 5) * x, 0
            held, part = a, a[1:3]
            while np.sum(a) < 4.0 and k < 6:
                a[k % 5] += 0.5
                a = a * 1.1
                k += 1
            return np.sum(a * a) + k + np.sum(held) + np.sum(part**2)

        self.check(f)

    def test_for(self):
        def f(x):
            a = np.linspace(0.0, 1.0, 5) * x
            held = [a]
            for k in range(int(abs(x) * 3)):
                a[k % 5] += 0.5
                a = a * 1.1
                if a[0] > 1.5:
                    break
            return np.sum(a * a) + np.sum(held[0])

        self.check(f)

    def test_another_function(self):
        def turns(a, x):
            while x > 0.3:
                a[0] += x
                a = a * 2.0
                x = x * 0.5
            return a

        def f(x):
            a = np.ones(3) * x
            return np.sum(turns(a, x)) + np.sum(a * a)

        self.check(f)
