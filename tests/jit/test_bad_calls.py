"""Bad calls of compiled functions: the evaluated result or an ordinary exception, never a crash.

The calls run in a process of their own, with the fault handler on: whatever kills the interpreter
shows as its exit code. Run this file as a script to repeat them: ``seed count``.
"""

import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import wengert as wg
import wengert.numpy as xp
from wengert.jit import jit

OVERCOMMIT = Path("/proc/sys/vm/overcommit_memory")
PROMISES = OVERCOMMIT.read_text().strip() if OVERCOMMIT.exists() else ""

CALLS = 10_000


class Liar:
    """Says it is an array, and is not."""

    shape = (3,)
    dtype = np.dtype("f8")
    ndim = 1

    def __array__(self, *args, **kwargs):
        raise RuntimeError("no array after all")


class Loud:
    def __float__(self):
        raise ZeroDivisionError("not a float")

    def __index__(self):
        raise ZeroDivisionError("not an index")


class Sub(np.ndarray):
    pass


def read_only(x):
    x.flags.writeable = False
    return x


def misaligned(x):
    raw = np.zeros(x.nbytes + 1, np.uint8)
    view = raw[1:].view(x.dtype).reshape(x.shape)
    view[...] = x
    return view


NAMED = np.zeros(3, [("a", "f8"), ("b", "i4")])
CYCLE: list = [1.0]
CYCLE.append(CYCLE)

JUNK = [
    None, True, 0, -1, 7, 2**31, 2**63, -(2**63), 2**64, 10**40, 0.5, float("nan"), float("inf"),
    1e300, 1j, "text", "", b"bytes", object(), int, len, ..., slice(None), range(3), NotImplemented,
    Liar(), Loud(), Exception("value"), [], (), {}, set(), [1.0, 2.0, 3.0], [1.0, "x"],
    [[1.0], [2.0, 3.0]],
    (1.0, 2.0), {"a": 1.0}, {"a": None, "b": [np.ones(3)]}, {1: 2.0}, [None, None], [[[[[1.0]]]]],
    np.float32(2.0), np.float64(np.nan), np.int8(3), np.uint64(2**63), np.bool_(True),
    np.complex64(1),
    np.str_("t"), np.datetime64("2020-01-01"), np.float16(1), np.longdouble(1),
    np.zeros(3), np.zeros(4), np.zeros(0), np.zeros(()), np.zeros((3, 4)), np.zeros((4, 3)),
    np.zeros((3, 1)), np.zeros((1,) * 9), np.zeros((0, 3)), np.full(3, np.nan), np.full(3, np.inf),
    np.zeros(3, "f4"), np.zeros(3, "i4"), np.zeros(3, "u1"), np.zeros(3, bool), np.zeros(3, "c16"),
    np.zeros(3, "f2"), np.zeros(3, ">f8"), np.zeros(3, "g"), np.zeros(3, "O"), np.zeros(3, "U3"),
    np.zeros(3, "S2"), np.zeros(3, "M8[s]"), np.zeros(3, "m8[s]"), np.zeros(3, "V4"), NAMED,
    NAMED["a"], NAMED["b"], np.arange(6.0)[::2], np.arange(3.0)[::-1], np.broadcast_to(1.0, 3),
    np.asfortranarray(np.ones((3, 4))), misaligned(np.arange(3.0)), read_only(np.arange(3.0)),
    np.arange(3.0).view(Sub), np.ma.masked_array([1.0, 2.0, 3.0], [0, 1, 0]),
    np.array([[1.0, 2.0]]).view(np.matrix),
    np.array([np.nan, 0, 1]), np.array([0, 1, 99]),
    np.array([-99, 0, 1]), np.array([2**62, 0, 1]), memoryview(b"abcdefgh"), bytearray(8),
    iter([1.0]), (x for x in (1.0,)), wg.tensor([1.0, 2.0, 3.0]),
]  # fmt: skip


def product(x, y):
    return x * y + 1.0


def picked(x, at):
    return x[at] * 2.0


def structured(p):
    return {"sum": p["a"] + p["b"][0], "pair": (p["a"], p["b"][1])}


def keyed(x, *, by, shift=0.0):
    return x * by + shift


def reduced(x):
    return xp.sum(x**2)


def multiplied(a, b):
    return a @ b


def inside(x):
    return xp.nextafter(x, 9.0) + 1.0  # NumPy evaluates it between native parts


X = np.arange(3.0)
FUNCTIONS = [
    (product, (X, X + 1), {}),
    (picked, (X, np.array([0, 2, 1])), {}),
    (structured, ({"a": X, "b": [X, np.float64(2.0)]},), {}),
    (keyed, (X,), {"by": 2.0}),
    (reduced, (X,), {}),
    (wg.grad(reduced), (X,), {}),
    (multiplied, (np.ones((3, 4)), np.ones((4, 2))), {}),
    (inside, (X,), {}),
]
NAMES = ["by", "shift", "x", "y", "out", "nothing", "self", "", "a" * 300]


def spoil(rng, args, kwargs):
    """The call with something wrong in it."""
    args, kwargs = list(args), dict(kwargs)
    for _ in range(1 if rng.random() < 0.9 else 2):
        kind = rng.randrange(8)
        if kind <= 3 and args:
            args[rng.randrange(len(args))] = rng.choice(JUNK)
        elif kind == 4:
            kwargs[rng.choice(NAMES)] = rng.choice(JUNK)
        elif kind == 5 and rng.random() < 0.5 and args:
            args.pop()
        elif kind == 5:
            args.append(rng.choice(JUNK))
        elif kind == 6 and kwargs:
            kwargs[rng.choice(list(kwargs))] = rng.choice(JUNK)
        elif kind == 7 and args:
            args[rng.randrange(len(args))] = rng.choice(
                [[rng.choice(JUNK)], {"a": rng.choice(JUNK)}]
            )
    return args, kwargs


def attempt(function, args, kwargs):
    try:
        with np.errstate(all="ignore"):
            return "value", function(*args, **kwargs)
    except Exception as error:
        return "error", error


def equal(got, want):
    """The same numbers in the same structure."""
    got, want = wg.tree.leaves(got), wg.tree.leaves(want)
    return len(got) == len(want) and all(map(equal_leaves, got, want))


def equal_leaves(one, other):
    one, other = np.asarray(one), np.asarray(other)
    if one.shape != other.shape:
        return False
    with np.errstate(all="ignore"):
        return np.allclose(one, other, rtol=1e-5, atol=1e-8, equal_nan=True)


def check(number, f, compiled, args, kwargs):
    """A complaint about one call, or None."""
    kind, got = attempt(compiled, args, kwargs)
    if kind == "error":
        if isinstance(got, (SystemError, RecursionError, AssertionError)):
            return f"{number}: {f.__name__} raised {got!r}"
        return None if str(got).strip() else f"{number}: {f.__name__} raised {got!r} without a text"
    kwargs = {name: value for name, value in kwargs.items() if name != "out"}
    if any(matches(got, f, *call) for call in ((args, kwargs), wg.tree.map(typed, (args, kwargs)))):
        return None
    kind, want = attempt(f, args, kwargs)
    if kind == "error":
        return f"{number}: {f.__name__} gave {got!r:.80}, evaluated it raises {want!r:.120}"
    return f"{number}: {f.__name__} gave {got!r:.80}, evaluated {want!r:.80}"


def matches(got, f, args, kwargs):
    kind, want = attempt(f, args, kwargs)
    try:
        return kind == "value" and equal(got, want)
    except Exception:  # results that cannot be compared are not equal
        return False


def typed(leaf):
    """The argument as a program sees it: numbers have 64 bits, a subclass is an array."""
    if isinstance(leaf, np.ndarray):
        return np.asarray(leaf)
    if type(leaf) is float:
        return np.float64(leaf)
    return np.int64(leaf) if type(leaf) is int and -(2**63) <= leaf < 2**63 else leaf


def run(seed, count):
    """Make the calls; print complaints; 0 if there are none."""
    rng = random.Random(seed)
    compiled = [jit(f) for f, _, _ in FUNCTIONS]
    for function, (_, args, kwargs) in zip(compiled, FUNCTIONS, strict=True):
        function(*args, **kwargs)
    complaints = {}
    for number in range(count):
        place = rng.randrange(len(FUNCTIONS))
        f, args, kwargs = FUNCTIONS[place]
        args, kwargs = spoil(rng, args, kwargs)
        text = check(number, f, compiled[place], args, kwargs)
        if text is not None:
            shown = ", ".join(
                [*map(describe, args), *(f"{k}={describe(v)}" for k, v in kwargs.items())]
            )
            complaints.setdefault(text.split(": ", 1)[1][:60], f"{text}\n    called with {shown}")
    for function, (f, args, kwargs) in zip(compiled, FUNCTIONS, strict=True):
        assert equal(function(*args, **kwargs), f(*args, **kwargs)), "good calls still work"
    print("\n".join(complaints.values()))
    print(f"{count} calls, {len(complaints)} kinds of complaint")
    return 1 if complaints else 0


def describe(value):
    if isinstance(value, np.ndarray):
        return f"{type(value).__name__} {value.dtype}{value.shape}"
    return f"{value!r:.60}"


def test_bad_calls_never_crash():
    command = [sys.executable, "-X", "faulthandler", __file__, "1", str(CALLS)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, f"exit code {done.returncode}\n{done.stdout}\n{done.stderr}"
    assert f"{CALLS} calls, 0 kinds" in done.stdout


@pytest.mark.parametrize(
    "args, kwargs",
    [((), {}), ((X,), {}), ((X, X, X), {}), ((X, X), {"z": X}), ((X, None), {}), (("a", X), {})],
)
def test_the_error_says_what_is_wrong(args, kwargs):
    compiled = jit(product)
    compiled(X, X)
    with pytest.raises(Exception, match=r"product|argument|multiply|operand|None|str") as caught:
        compiled(*args, **kwargs)
    assert len(str(caught.value)) > 15


@pytest.mark.skipif(PROMISES == "1", reason="the system promises any memory, and kills")
def test_a_result_too_large_for_memory():
    huge = np.broadcast_to(np.zeros(1), (2**40,))
    with pytest.raises(MemoryError):
        jit(product)(huge, 1.0)


if __name__ == "__main__":
    sys.exit(run(int(sys.argv[1]), int(sys.argv[2])))
