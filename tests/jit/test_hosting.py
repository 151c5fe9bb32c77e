"""Programs in which NumPy evaluates a part: right in every way to call them, and never slower."""

import functools
import gc
import importlib
import threading
import weakref

import numpy as np
import pytest

import wengert as wg
from wengert import machine
from wengert.bench import hosted, measure
from wengert.bench.run import _same
from wengert.ops import REGISTRY

CASES = hosted.cases(True)


@pytest.fixture(autouse=True)
def numpy_itself():
    """NumPy is called for transforms and sorts, as where its loops cannot be."""
    with machine.use(numpy_loops=False):
        yield


@pytest.mark.parametrize("name", [name for name in CASES if "halves" not in name])
def test_compiled_is_what_is_evaluated(name):
    f, x = CASES[name]
    both = wg.value_and_grad(f)
    compiled = wg.jit(both)
    expected = both(x)
    assert _same(compiled(x), expected, 1e-6)
    assert _same(compiled(x.copy()), expected, 1e-6)


def _filtered(x, gain):
    spectrum = np.fft.rfft(x) * gain
    return np.fft.irfft(spectrum * spectrum, len(x)), np.sort(x)[::2] * gain


def test_numbers_other_dtypes_and_out_take_other_ways():
    f = wg.jit(_filtered)
    x = np.linspace(0, 1, 64) ** 2
    for values in (x, x[::-1], x.astype(np.float32), np.repeat(x, 2)[::2]):
        for gain in (2.0, 3, np.float64(0.5)):
            assert _same(f(values, gain), _filtered(values, gain), 1e-5)
    assert _same(f(x, gain=2.0), _filtered(x, 2.0), 1e-12)
    out = (np.empty(64), np.empty(32))
    assert f(x, 2.0, out=out) is out
    assert _same(out, _filtered(x, 2.0), 1e-12)


def test_results_are_new_arrays_and_nothing_is_kept():
    f = wg.jit(lambda x: np.fft.ifft(np.fft.fft(x)) * 1.0)
    x = np.arange(1000.0)
    first = f(x)
    kept = first.copy()
    f(x + 1)
    np.testing.assert_array_equal(first, kept)
    alive = weakref.ref(first)
    del first
    gc.collect()
    assert alive() is None
    argument = np.arange(1000.0)
    alive = weakref.ref(argument)
    f(argument)
    del argument
    gc.collect()
    assert alive() is None


def test_a_view_of_memory_that_is_used_again_is_copied():
    def f(x):
        low = np.linalg.cholesky(x @ x.T + np.eye(8))
        values, vectors = np.linalg.eigh(low @ low.T * 2)
        return np.linalg.solve(vectors, np.linalg.inv(vectors * 3)) @ np.diag(values), low

    x = np.random.default_rng(0).normal(size=(8, 8))
    assert _same(wg.jit(f)(x), f(x), 1e-9)


def test_an_error_of_numpy_is_raised_and_the_next_call_works():
    f = wg.jit(lambda x: np.sum(np.linalg.inv(x * 2)))
    good = np.eye(3)
    f(good)
    with pytest.raises(np.linalg.LinAlgError):
        f(np.zeros((3, 3)))
    assert f(good) == 1.5


def test_a_place_out_of_range_is_found_after_numpys_part():
    f = wg.jit(lambda x, n: np.sort(x)[n.astype(int)] * 2)
    x = np.array([3.0, 1.0, 2.0])
    assert f(x, np.array([2.0]))[0] == 6.0
    with pytest.raises(IndexError):
        f(x, np.array([3.0]))


def test_threads_at_the_same_time():
    f = wg.jit(lambda x: np.sum(np.fft.irfft(np.fft.rfft(x) * 2) ** 2))
    arrays = [np.random.default_rng(n).normal(size=256) for n in range(4)]
    expected = [f(x) for x in arrays]
    wrong = []

    def work(x, value):
        wrong.extend(1 for _ in range(200) if f(x) != value)

    workers = [
        threading.Thread(target=work, args=pair) for pair in zip(arrays, expected, strict=True)
    ]
    for one in workers:
        one.start()
    for one in workers:
        one.join()
    assert not wrong


def test_a_result_is_numpys_array_and_nobody_elses():
    w = np.eye(3) + 0.1
    for f in (lambda x: (np.linalg.inv(x),), lambda x: (np.sort(x, axis=None), np.real(x + 0j))):
        g = wg.jit(f)
        first, second = g(w), g(w)
        assert _same(first, f(w), 1e-12)
        for one, other in zip(first, second, strict=True):
            assert one.flags.c_contiguous and one.flags.writeable and one.flags.owndata
            assert not np.may_share_memory(one, other) and not np.may_share_memory(one, w)


def _is_hosted(f):
    return bool(f._entries) and type(f._entries[0]).__name__ == "HostedEntry"


def test_a_nan_is_found():
    f = wg.jit(lambda x: np.fft.fft(x).real * np.log(x))
    good, bad = np.ones(4), -np.ones(4)
    assert np.isnan(f(bad)).all() and _is_hosted(f)
    with wg.debug_nans():
        np.testing.assert_array_equal(f(good), np.zeros(4))
        with pytest.raises(FloatingPointError):
            f(bad)
    assert np.isnan(f(bad)).all()


def test_state_is_read_and_written():
    total = wg.tensor(np.zeros(4))

    @wg.jit
    def add(x):
        total[...] = total + np.fft.fft(x).real
        return total * 1.0

    x = np.arange(4.0)
    for n in range(1, 4):
        np.testing.assert_allclose(add(x), n * np.fft.fft(x).real)
    total[...] = 0.0
    np.testing.assert_allclose(add(x), np.fft.fft(x).real)


def test_static_arguments_have_programs_of_their_own():
    def f(x, power=2.0, scale=3.0):
        return np.fft.fft(x).real ** power * scale

    g = wg.jit(f, static_argnames=("power",))
    x = np.arange(4.0)
    for args in ((x, 3.0), (x, 2.0), (x, 3.0), (x,), (x, 2.0, 5.0), (x, 3.0, 5.0)):
        np.testing.assert_allclose(g(*args), f(*args))


def test_warnings_are_off_inside_and_as_they_were_outside():
    f = wg.jit(lambda x: np.fft.fft(1 / x).real)
    with np.errstate(all="raise"):
        f(np.zeros(4))
        f(np.zeros(4))
        assert np.geterr()["divide"] == "raise"


def test_threads_may_change_between_calls():
    f = wg.jit(lambda x: np.sum(np.sin(np.sort(x)) * x))
    x = np.random.default_rng(0).normal(size=200_000)
    expected = f(x)
    try:
        for count in (1, 2):
            wg.set_threads(count)
            assert f(x) == pytest.approx(expected, rel=1e-12)
    finally:
        wg.set_threads(None)


@pytest.mark.parametrize("clears", [False, True])
def test_a_call_and_even_forgetting_all_programs_inside_of_a_call(clears, monkeypatch):
    f = wg.jit(lambda x: np.gcd(x * 2, 12) + 1)
    x = np.arange(6)
    expected = f(x)
    gcd, inside = REGISTRY["gcd"].evaluate, [1]

    def again(a, b):
        if not inside:
            inside.append(1)
            if clears:
                f.clear()
                gc.collect()
            np.testing.assert_array_equal(f(x), expected)
        return gcd(a, b)

    monkeypatch.setattr(REGISTRY["gcd"], "evaluate", again)
    f.clear()
    f(x)
    assert _is_hosted(f)
    inside.clear()
    np.testing.assert_array_equal(f(x), expected)
    assert inside


class _Filter:
    def __init__(self, gain):
        self.gain = gain

    @wg.jit
    def run(self, x):
        return np.fft.irfft(np.fft.rfft(x) * self.gain)


def test_methods():
    x = np.arange(8.0)
    one, two = _Filter(2.0), _Filter(3.0)
    for _ in range(2):
        np.testing.assert_allclose(one.run(x), 2 * x, atol=1e-12)
        np.testing.assert_allclose(two.run(x), 3 * x, atol=1e-12)
    assert _is_hosted(_Filter.run._methods[id(one)])


def test_programs_are_forgotten_with_their_entries(monkeypatch):
    for module, name, count in (("function", "PROGRAMS", 4), ("chain", "CHAIN", 2)):
        # wengert.jit itself is a function
        monkeypatch.setattr(importlib.import_module(f"wengert.jit.{module}"), name, count)
    f = wg.jit(np.fft.fft)
    for n in (*range(1, 9), 7, 6, 5, 8, 1):
        np.testing.assert_allclose(f(np.arange(float(n))), np.fft.fft(np.arange(float(n))))
    held = {id(entry.program) for entry in [*f._entries, *f._evicted]}
    known = {id(program) for programs in f._programs.values() for program in programs}
    assert held <= known and len(known) <= 4


def test_beside_axes_of_any_length():
    def f(x, w):
        return np.tanh(x @ np.linalg.inv(w)), np.linalg.inv(w)

    g, w = wg.jit(f, dynamic={"x": 0}), np.eye(3) + 0.1
    for n in (4, 7, 100, 3):
        x = np.random.default_rng(n).normal(size=(n, 3))
        assert _same(g(x, w), f(x, w), 1e-12)


def test_what_only_numpy_touches_takes_no_arena():
    x = np.ones(4096)
    f = wg.jit(lambda x: np.fft.irfft(np.fft.rfft(np.fft.irfft(np.fft.rfft(x)))))
    assert f.memory(x)["arena"] <= 2 * x.nbytes


@pytest.mark.timing
@pytest.mark.parametrize("workload", hosted.workloads(True), ids=lambda one: one.name)
def test_compiled_is_not_slower_than_evaluated(workload):
    calls = {name: build() for name, build in workload.contestants.items()}
    times = measure.alternate(calls, measure.Effort(9, 0.01))
    assert times["wengert"] <= times["wengert evaluated"]


@pytest.mark.timing
def test_a_call_of_numpy_costs_little_more_than_its_own():
    def chain(count):
        def f(x):
            for _ in range(count):
                x = np.fft.ifft(x)
            return x

        return f

    x = np.ones(64) + 0j
    calls = {}
    for count in (1, 21):
        f = chain(count)
        calls[f"plain {count}"] = functools.partial(f, x)
        calls[f"compiled {count}"] = functools.partial(wg.jit(f), x)
    times = measure.alternate(calls, measure.Effort(15, 0.01))
    plain = times["plain 21"] - times["plain 1"]
    compiled = times["compiled 21"] - times["compiled 1"]
    assert compiled - plain <= 20 * 2e-6


def test_python_numbers_do_not_promote():
    x = np.array([-5.0, 3.0, 0.0, -1.0], np.float32)
    for f in (lambda x, c: np.nextafter(c, x), lambda x, c: np.nextafter(x, c)):
        for number in (0.0, 1, 1.0):
            got, want = wg.jit(f)(x, number), f(x, number)
            assert got.dtype == np.float32
            np.testing.assert_array_equal(got, want)
            np.testing.assert_array_equal(wg.jit(lambda x, f=f, c=number: f(x, c))(x), want)
