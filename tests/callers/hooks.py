"""A pytest plugin that makes every call of NumPy's own tests again, on traced values.

While NumPy's tests run, its functions are hooked. Each call that succeeded is made again in every
way that wengert has: traced, compiled, batched, pushed forward and pulled back, and once more to
see how results lie in memory. Values must
be NumPy's, with its dtypes and shapes; the two derivatives must be transposes of each other,
and where finite differences exist, theirs too. Whether NumPy's own assertions pass does not
matter here (hooked functions are no ufuncs any more), only what the calls gave.

`run.py` starts it: `--calls` bounds how often each function is tried, `--report` names a file for
what was found. An error of wengert's own is a refusal, and is counted; any other error, or another
number, is a finding, and fails the run. What differs on purpose is in `differences.py`.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import inspect
import json
import signal
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import wengert as wg
import wengert.numpy as wnp
from callers.differences import DIFFERENCES, is_expected
from wengert.errors import WengertError
from wengert.trace.lying import is_decided, strides_of
from wengert.trace.orders import copied
from wengert.trace.views import Views

SIZE_LIMIT = 3000
SECONDS = 20  # for one way of one call
LARGEST = 1e8  # of a number, for finite differences to be any good
KINDS = "biufc"
# As accurate as the functions themselves: cancellation in var, det and the like costs digits.
TOLERANCE = {"d": 1e-9, "D": 1e-9, "f": 2e-4, "F": 2e-4}
MODULES = {"": (np, wnp), "linalg.": (np.linalg, wnp.linalg), "fft.": (np.fft, wnp.fft)}


class Call:
    """A call that NumPy answered: the function, what it was given, what it gave."""

    def __init__(self, name, function, args, kwargs, result):
        self.name = name
        self.function = function
        self.args = args
        self.kwargs = kwargs
        self.result = result
        self.places = [k for k, arg in enumerate(args) if _is_plain(arg)]
        self.arrays = [args[k] for k in self.places]
        self.smooth = [k for k, x in enumerate(self.arrays) if np.asarray(x).dtype.char in "fd"]

    def again(self, *arrays):
        """The same call with other arrays in the places of those that can be traced."""
        args = list(self.args)
        for place, array in zip(self.places, arrays, strict=True):
            args[place] = array
        return self.function(*args, **self.kwargs)

    def of_floats(self, *floats):
        """The same call as a function of its real arguments alone."""
        arrays = list(self.arrays)
        for k, x in zip(self.smooth, floats, strict=True):
            arrays[k] = x
        return self.again(*arrays)

    @property
    def floats(self):
        return [self.arrays[k] for k in self.smooth]

    @property
    def can_be_made_again(self):
        large = any(np.size(x) > SIZE_LIMIT for x in [*self.arrays, *leaves(self.result)])
        return bool(self.places) and not large and all(map(_is_plain, leaves(self.result)))

    @functools.cached_property
    def key(self):
        parts = [
            (np.asarray(x).dtype.str, np.shape(x), np.asarray(x).tobytes()) for x in self.arrays
        ]
        others = [arg for k, arg in enumerate(self.args) if k not in self.places]
        return (self.name, repr(parts), repr(others), repr(sorted(self.kwargs.items())))

    def __str__(self):
        text = [np.array2string(np.asarray(x), threshold=20, precision=17) for x in self.arrays]
        pairs = zip(self.arrays, text, strict=True)
        shown = [f"{np.asarray(x).dtype}{list(np.shape(x))} {t}" for x, t in pairs]
        others = {k: arg for k, arg in enumerate(self.args) if k not in self.places}
        return f"np.{self.name}({'; '.join(shown)}; others {others!r}; {self.kwargs!r})"


def _is_plain(value):
    """Whether this is an array or a NumPy number that wengert takes."""
    is_array = type(value) is np.ndarray or isinstance(value, np.generic)
    return is_array and _is_known(value.dtype)


def _is_known(dtype):
    return dtype.kind in KINDS and dtype.isnative and dtype.char in "?bhilqBHILQfdFD"


def leaves(result):
    return list(result) if isinstance(result, (tuple, list)) else [result]


# ---------------------------------------------------------------- the ways to make a call again


def traced(call):
    graph = wg.trace(call.again, *call.arrays)
    compare(graph(*call.arrays), call.result)


def compiled(call):
    compare(wg.jit(call.again)(*call.arrays), call.result)


def batched(call):
    stacked = [np.stack([x, x]) for x in call.arrays]
    for part in leaves(wg.vmap(call.again)(*stacked)):
        assert np.shape(part)[0] == 2
    both = leaves(wg.vmap(call.again)(*stacked))
    for row in range(2):
        compare([part[row] for part in both], leaves(call.result))


def differentiated(call):
    """Forward and reverse agree, and with finite differences where these exist."""
    if not call.smooth or not any(np.asarray(r).dtype.kind == "f" for r in leaves(call.result)):
        return
    generator = np.random.default_rng(0)
    directions = tuple(_direction(x, generator) for x in call.floats)
    value, tangent = wg.jvp(call.of_floats, tuple(call.floats), directions)
    compare(value, call.result)
    _, pullback = wg.vjp(call.of_floats, *call.floats)
    seeds = [_direction(r, generator) for r in leaves(value)]
    found = pullback(like(value, seeds))
    forward = sum(_inner(s, t) for s, t in zip(seeds, leaves(tangent), strict=True))
    backward = sum(_inner(g, v) for g, v in zip(found, directions, strict=True))
    if not np.isfinite(forward) or not np.isfinite(backward):
        return
    pairs = zip(found, directions, strict=True)
    scale = 1 + sum(float(np.sum(np.abs(np.asarray(g) * v))) for g, v in pairs)
    single = any(np.asarray(x).dtype.itemsize < 8 for x in [*call.floats, *leaves(value)])
    tolerance = 2e-3 if single else 1e-8
    assert abs(forward - backward) <= tolerance * scale, f"jvp {forward}, vjp {backward}"
    if not single:
        _check_slope(call, directions, seeds, forward, scale)


def like(value, parts):
    """The parts in the form of a result: a named tuple, a tuple, a list, or the part alone."""
    if hasattr(value, "_fields"):
        return type(value)(*parts)
    return type(value)(parts) if isinstance(value, (tuple, list)) else parts[0]


def _direction(x, generator):
    x = np.asarray(x)
    if x.dtype.kind == "c":
        return (generator.normal(size=x.shape) + 1j * generator.normal(size=x.shape)).astype(
            x.dtype
        )
    if x.dtype.kind != "f":
        return np.zeros(x.shape, x.dtype)
    return generator.normal(size=x.shape).astype(x.dtype)[()]


def _inner(left, right):
    left, right = np.asarray(left), np.asarray(right)
    if left.dtype.kind not in "fc" or right.dtype.kind not in "fc":
        return 0.0
    return float(np.real(np.sum(left * right)))


def _check_slope(call, directions, seeds, expected, scale):
    if any(np.asarray(r).dtype.kind == "c" for r in leaves(call.result)):
        return
    if any(np.max(np.abs(x), initial=0.0) > LARGEST for x in [*call.floats, *leaves(call.result)]):
        return  # too far away for steps of this width

    def loss(width):
        moved = [x + width * v for x, v in zip(call.floats, directions, strict=True)]
        return sum(_inner(s, r) for s, r in zip(seeds, leaves(call.of_floats(*moved)), strict=True))

    slopes = [(loss(h) - loss(-h)) / (2 * h) for h in (1e-5, 5e-6, 2.5e-6)]
    sided = (loss(1e-6) - loss(0.0)) / 1e-6
    doubt = max(abs(slopes[0] - slopes[1]), abs(slopes[1] - slopes[2]), abs(sided - slopes[2]) / 10)
    if not doubt <= 1e-5 * scale:
        return  # a kink, or rounding
    assert abs(expected - slopes[2]) <= 1e-4 * scale, f"jvp {expected}, difference {slopes[2]}"


def laid(call):
    """Results lie in memory as NumPy's do, or it is not known how; and are views of what those are.

    Who writes to one of two arrays must know whether the other one changes.
    """
    for order in "CF":
        arrays = [np.array(x, order=order) for x in call.arrays]
        try:
            want = leaves(call.again(*arrays))
        except Exception:  # an order, or arrays without axes, that NumPy refuses
            continue

        def probe(*xs, arrays=arrays, want=want):
            for mine, theirs in zip(leaves(call.again(*xs)), want, strict=True):
                if isinstance(mine, Views):
                    check_lying(mine, theirs)
                    check_view(mine, xs, theirs, arrays)
            return 0.0

        wg.trace(probe, *arrays)


def check_lying(mine, theirs):
    strides = strides_of(mine) if np.ndim(theirs) > 1 else None
    if strides is not None:
        found, wanted = (copied(mine.type, own) for own in (strides, theirs.strides))
        pairs = zip(found, wanted, theirs.shape, strict=True)
        lies = all(one == other for one, other, length in pairs if length != 1)
        assert lies or 0 in theirs.shape, f"lies by {strides}, NumPy's by {theirs.strides}"


def check_view(mine, xs, theirs, arrays):
    if is_decided(mine) and np.size(theirs):
        for x, array in zip(xs, arrays, strict=True):
            if isinstance(x, Views) and np.ndim(array):
                view = mine._chain()[-1] is x
                shared = isinstance(theirs, np.ndarray) and np.shares_memory(theirs, array)
                assert view == shared, f"view: {view}, NumPy's: {shared}"


WAYS = [traced, compiled, batched, differentiated, laid]


def compare(got, want):
    got, want = leaves(got), leaves(want)
    assert len(got) == len(want), f"{len(got)} results, expected {len(want)}"
    for mine, theirs in zip(got, want, strict=True):
        mine, theirs = np.asarray(mine), np.asarray(theirs)
        assert mine.shape == theirs.shape, f"shape {mine.shape}, NumPy {theirs.shape}"
        assert mine.dtype == theirs.dtype, f"dtype {mine.dtype}, NumPy {theirs.dtype}"
        tolerance = TOLERANCE.get(theirs.dtype.char, 0)
        finite = np.abs(theirs[np.isfinite(theirs)])
        scale = float(np.max(finite, initial=0.0))
        np.testing.assert_allclose(mine, theirs, rtol=tolerance, atol=tolerance * min(scale, 1e300))


# ---------------------------------------------------------------- the hooks


class Callers:
    """Remembers calls and what came of making them again."""

    def __init__(self, limit):
        self.limit = limit
        self.inside = False
        self.seen = set()
        self.tried = Counter()
        self.refused = Counter()
        self.expected = Counter()
        self.findings = []
        self.texts = Counter()
        self.comparisons = 0

    def hook(self, name, function):
        # NumPy's tests call with what is overridable, so that its own function reaches wengert.
        def hooked(*args, **kwargs):
            large = any(type(arg) is np.ndarray and arg.size > SIZE_LIMIT for arg in args)
            if self.inside or large or self.tried[name] >= self.limit:
                return function(*args, **kwargs)
            self.inside = True
            try:
                frozen = [arg.copy() if type(arg) is np.ndarray else arg for arg in args]
                result = function(*args, **kwargs)
                self.consider(Call(name, function, frozen, kwargs, result))
                return result
            finally:
                self.inside = False

        return _Hooked(function, hooked)

    def consider(self, call):
        has_out = "out" in call.kwargs or len(call.args) > getattr(call.function, "nin", 99)
        if has_out or not call.can_be_made_again:
            return
        if any(isinstance(v, np.ndarray) and not _is_plain(v) for v in call.kwargs.values()):
            return
        with contextlib.suppress(Exception):  # what has no text has no key
            if call.key in self.seen:
                return
            self.seen.add(call.key)
        self.tried[call.name] += 1
        for way in WAYS:
            self.make(way, call)

    def make(self, way, call):
        self.comparisons += 1
        try:
            with np.errstate(all="ignore"), limited(SECONDS):
                way(call)
        except Exception as error:
            if is_refusal(error):
                self.refused[call.name, way.__name__, str(error)[:100]] += 1
                return
            if is_expected(call, way.__name__, error):
                self.expected[call.name] += 1
                return
            text = f"{type(error).__name__}: {str(error).strip()}"
            self.texts[call.name, way.__name__] += 1
            if self.texts[call.name, way.__name__] <= 5:
                self.findings.append(f"{way.__name__} {call}\n    {text[:700]}")

    def report(self):
        found = sum(self.texts.values())
        return {
            "functions": len(self.tried),
            "calls": sum(self.tried.values()),
            "comparisons": self.comparisons,
            "refused": sum(self.refused.values()),
            "on purpose": sum(self.expected.values()),
            "found": found,
        }


def is_refusal(error):
    """Whether an error says what cannot be had: wengert's own, or a missing argument."""
    missing = ("unexpected keyword argument", "positional arguments but")
    return isinstance(error, WengertError) or (
        isinstance(error, TypeError) and any(text in str(error) for text in missing)
    )


@contextlib.contextmanager
def limited(seconds):
    """Stop what takes too long."""

    def stop(signum, frame):
        raise TimeoutError(f"took more than {seconds} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


class _Hooked:
    """A function that is watched; whatever else is asked of it, the function itself answers."""

    def __init__(self, function, hooked):
        self.__wrapped__ = function
        self._hooked = hooked

    def __call__(self, *args, **kwargs):
        return self._hooked(*args, **kwargs)

    def __getattr__(self, name):
        return getattr(self.__wrapped__, name)

    def __eq__(self, other):
        return self.__wrapped__ == getattr(other, "__wrapped__", other)

    def __hash__(self):
        return hash(self.__wrapped__)


def names():
    """The functions that NumPy and wengert both have: prefix, name, NumPy's function."""
    for prefix, (module, ours) in MODULES.items():
        for name in module.__all__:
            function = getattr(module, name, None)
            hooked = callable(function) and not inspect.isclass(function) and hasattr(ours, name)
            if hooked and f"{prefix}{name}" not in UNTRACED:
                yield module, prefix, name, function


# Functions that make arrays, look at Python objects, or answer about types: nothing to trace.
UNTRACED = set(
    "array asarray asanyarray ascontiguousarray asfortranarray zeros ones empty full arange "
    "linspace logspace geomspace eye identity fromfunction frombuffer fromiter copyto shape ndim "
    "size result_type can_cast promote_types isdtype iscomplexobj isrealobj isscalar dtype finfo "
    "iinfo shares_memory may_share_memory save load broadcast_shapes errstate put place putmask "
    "fill_diagonal tri indices meshgrid common_type iterable einsum_path put_along_axis "
    "empty_like".split()
)


def pytest_addoption(parser):
    group = parser.getgroup("wengert")
    group.addoption("--calls", type=int, default=10**9, help="how often each function is tried")
    group.addoption("--report", default=None, help="a file for what was found, as JSON")


def pytest_configure(config):
    with contextlib.suppress(ImportError):  # it registers loops with the real ufuncs
        importlib.import_module("numpy._core._rational_tests")
    config.callers = callers = Callers(config.getoption("--calls"))
    callers.started = time.time()
    for module, prefix, name, function in list(names()):
        setattr(module, name, callers.hook(f"{prefix}{name}", function))


@pytest.hookimpl(trylast=True)
def pytest_runtest_call(item):
    item.config.callers.test = item.nodeid


def pytest_runtest_makereport(item, call):
    """NumPy's own verdict does not count here."""
    if call.excinfo is not None and not call.excinfo.errisinstance(KeyboardInterrupt):
        call.excinfo = None


def pytest_sessionfinish(session):
    callers = session.config.callers
    if callers.texts and session.exitstatus in (0, 1):
        session.exitstatus = 1
    path = session.config.getoption("--report")
    if path:
        refused = [[*key, count] for key, count in callers.refused.most_common()]
        found = {"counts": callers.report(), "findings": callers.findings, "refused": refused}
        found["differences"] = list(DIFFERENCES)
        Path(path).write_text(json.dumps(found, indent=1))


def pytest_terminal_summary(terminalreporter, config):
    callers = config.callers
    terminalreporter.section("NumPy's calls on traced values")
    for finding in callers.findings:
        terminalreporter.line(finding)
    counts = ", ".join(f"{count} {name}" for name, count in callers.report().items())
    terminalreporter.line(f"{counts}, {time.time() - callers.started:.0f} s")
