"""Axes of any length: one program, the same numbers as evaluated at every length."""

import gc
import os
import pickle
import signal
import threading
import tracemalloc
import warnings

import numpy as np
import pytest

import wengert as wg
import wengert.numpy as wnp
from wengert import nn, optim, tree
from wengert.codegen.cache import ObjectCache
from wengert.errors import (
    AxisError,
    DTypeError,
    FixedLengthWarning,
    OutOfRangeError,
    ShapeError,
)
from wengert.jit import building as jit_building
from wengert.jit import entries as jit_entries
from wengert.jit import function as jit_function
from wengert.jit import lookup as jit_lookup
from wengert.runtime.threads import set_threads

LENGTHS = (0, 1, 2, 15, 16, 17, 100, 1000)
W = np.random.default_rng(1).standard_normal((3, 4))
TABLE = np.random.default_rng(2).standard_normal((5, 2))


def line(n):
    return (np.random.default_rng(n).standard_normal(n),)


def rows(n):
    return (np.random.default_rng(n).standard_normal((n, 3)),)


def columns(n):
    return (np.random.default_rng(n).standard_normal((3, n)),)


def middle(n):
    return (np.random.default_rng(n).standard_normal((2, n, 3)),)


def single(n):
    return (np.random.default_rng(n).standard_normal((n, 2, 3)).astype(np.float32),)


def labelled(n):
    rng = np.random.default_rng(n)
    return rng.standard_normal((n, 5)), rng.integers(0, 5, n)


def nested(n):
    rng = np.random.default_rng(n)
    return ({"a": rng.standard_normal(n), "b": [rng.standard_normal((n, 2))]},)


def softmax(x, axis):
    exponentials = np.exp(x - np.max(x, axis=axis, keepdims=True))
    return exponentials / np.sum(exponentials, axis=axis, keepdims=True)


def general(compiled):
    """How many programs there are but those for lengths 0 and 1, where axes may be broadcast."""
    found = [program for several in compiled._programs.values() for program in several]
    short = {n for program in found for n, alike in program.lengths.items() if not alike}
    assert short <= {0, 1}, "other lengths have no ways of their own"
    return len(found) - len(short)


def program_count(compiled):
    return sum(map(len, compiled._programs.values()))


def evaluated(function, *args):
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        return function(*args)


def assert_close(found, expected):
    found, expected = tree.leaves(found), tree.leaves(expected)
    assert len(found) == len(expected)
    for a, b in zip(found, expected, strict=True):
        assert np.shape(a) == np.shape(b)
        assert np.asarray(a).dtype == np.asarray(b).dtype
        single = np.asarray(b).dtype == np.float32
        tolerance = {"rtol": 2e-5, "atol": 1e-6} if single else {"rtol": 1e-11, "atol": 1e-13}
        np.testing.assert_allclose(a, b, **tolerance)


FUNCTIONS = {
    "elementwise": (lambda x: np.sin(x) * 2 + x**3, line, {"x": 0}),
    "complex inside": (lambda x: np.abs(x * (1 + 2j)), line, {"x": 0}),
    "elementwise rows": (lambda x: np.tanh(x) - W[:, 0], rows, {"x": 0}),
    "float32": (lambda x: (x / len(x), np.sum(x, axis=(1, 2)), x.mean()), single, {"x": 0}),
    "sums": (lambda x: (np.sum(x), np.mean(x, axis=0), np.sum(x * x, axis=1)), rows, {"x": 0}),
    "products": (lambda x: np.prod(1 + 0.01 * x, axis=0), rows, {"x": 0}),
    "centred": (lambda x: x - x.mean(axis=0), rows, {"x": 0}),
    "twice centred": (
        lambda x: np.exp(x - x.mean(0)) - np.exp(x - x.mean(0)).sum(0),
        rows,
        {"x": 0},
    ),
    "variance": (lambda x: np.var(x, axis=0) + np.std(x), rows, {"x": 0}),
    "softmax of each": (lambda x: softmax(x, 1), rows, {"x": 0}),
    "transposed": (lambda x: x.T * 2, rows, {"x": 0}),
    "last axis": (lambda x: (np.exp(x), x.sum(axis=0), x.sum(axis=1)), columns, {"x": 1}),
    "from the end": (lambda x: x.T @ W, columns, {"x": -1}),
    "middle axis": (
        lambda x: (x + 1, x.sum(axis=(0, 2)), x - x.mean(1, keepdims=True)),
        middle,
        {"x": 1},
    ),
    "batched products": (lambda x: (x @ W, np.einsum("bni,bnj->bij", x, x)), middle, {"x": 1}),
    "network": (lambda x: np.tanh(x @ W) @ W.T, rows, {"x": 0}),
    "gram": (lambda x: x.T @ x / len(x), rows, {"x": 0}),
    "counting": (lambda x: x * np.arange(len(x)) + np.arange(len(x))[::-1], line, {"x": 0}),
    "filled": (lambda x: np.full(x.shape, len(x)) * x + np.ones(len(x)), line, {"x": 0}),
    "constants": (lambda x: (np.zeros((len(x), 2)), np.arange(len(x)) * 0.5), line, {"x": 0}),
    "the argument": (lambda x: (x, x, x), rows, {"x": 0}),
    "the length": (
        lambda x: (x * len(x) ** 2 / np.sqrt(len(x) + 1), x - 1 / (len(x) + 2)),
        line,
        {"x": 0},
    ),
    "picked": (lambda x, y: x[np.arange(len(x)), y], labelled, {"x": 0, "y": 0}),
    "looked up": (lambda y: wnp.take(TABLE, y, axis=0), lambda n: labelled(n)[1:], {"y": 0}),
    "one hot": (
        lambda x, y: np.where(y[:, None] == np.arange(5), x, 0).sum(1),
        labelled,
        {"x": 0, "y": 0},
    ),
    "integers": (
        lambda y: (y.sum(), y // 2, y.mean(), np.all(y < 4)),
        lambda n: labelled(n)[1:],
        {"y": 0},
    ),
    "joined": (lambda x: np.concatenate([x, np.stack([x, x])[1]], axis=1), rows, {"x": 0}),
    "reshaped": (lambda x: x.reshape(len(x), 1, 3).sum(axis=2), rows, {"x": 0}),
    "running": (lambda x: np.cumsum(x, axis=1), rows, {"x": 0}),
    "each by itself": (wg.vmap(wg.grad(lambda row: np.sum(np.sin(row) * row))), rows, {"args": 0}),
    "a tree": (lambda p: (p["a"] * 2, p["b"][0].sum(axis=0)), nested, {"p": 0}),
    "decomposed": (lambda x: np.linalg.svd(x.T @ x + np.eye(3))[1], rows, {"x": 0}),
    "value and gradient": (wg.value_and_grad(lambda x: np.sum(np.sin(x) * x)), line, {"x": 0}),
    "gradient of centred": (wg.grad(lambda x: np.sum(np.sin(x - x.mean(0)))), rows, {"x": 0}),
    "by the weights": (lambda x: wg.grad(lambda w: np.sum(np.tanh(x @ w) ** 2))(W), rows, {"x": 0}),
}


@pytest.mark.filterwarnings("error::wengert.errors.FixedLengthWarning")
@pytest.mark.parametrize("name", FUNCTIONS)
def test_one_program_for_all_lengths(name):
    function, make, axes = FUNCTIONS[name]
    if axes == {"args": 0}:
        axes, function = {"x": 0}, (lambda x, inner=function: inner(x))
    compiled = wg.jit(function, dynamic=axes)
    for n in LENGTHS:
        assert_close(compiled(*make(n)), evaluated(function, *make(n)))
    assert general(compiled) == 1


EXTREMES = {
    "largest": (lambda x: (np.max(x, axis=0), np.min(x)), rows),
    "softmax": (lambda x: softmax(x, 0), rows),
    "gradient of softmax": (wg.grad(lambda x: np.sum(np.sin(softmax(x, 0)))), rows),
    "log of a sum": (wg.value_and_grad(lambda x: wnp.logsumexp(x)), line),
    "by n - 1": (lambda x: x.T @ x / (len(x) - 1), rows),
    "between 0 and 1": (lambda x: x * np.linspace(0, 1, len(x)), line),
}


@pytest.mark.filterwarnings("error::wengert.errors.FixedLengthWarning")
@pytest.mark.parametrize("name", EXTREMES)
def test_functions_of_at_least_two(name):
    function, make = EXTREMES[name]
    compiled = wg.jit(function, dynamic={"x": 0})
    for n in (100, 2, 15, 16, 17, 1000):
        assert_close(compiled(*make(n)), evaluated(function, *make(n)))
    assert program_count(compiled) == 1


def test_the_largest_of_nothing_is_an_error_as_in_numpy():
    compiled = wg.jit(lambda x: np.max(x, axis=0), dynamic={"x": 0})
    assert_close(compiled(*rows(3)), np.max(*rows(3), axis=0))
    with pytest.raises(ValueError, match="max"):
        compiled(np.empty((0, 3)))
    assert_close(compiled(*rows(4)), np.max(*rows(4), axis=0))


# ---------------------------------------------------------------- calls


def test_layouts_and_conversions():
    compiled = wg.jit(lambda x: (x * 2, x.sum(0)), dynamic={"x": 0})
    data = np.random.default_rng(0).standard_normal((40, 3))
    for x in (
        data[::2],
        data[::-1],
        np.asfortranarray(data),
        data[5:25],
        data[:, ::-1],
        data.T[:3].T,
    ):
        assert_close(compiled(x), (x * 2, x.sum(0)))
    # one more for arrays in another order: what is computed of them would lie otherwise in NumPy
    assert program_count(compiled) == 2
    shifted = np.zeros(9 * 24 + 1, np.uint8)[1:].view(np.float64).reshape(9, 3)
    assert_close(compiled(shifted), (shifted * 2, shifted.sum(0)))
    assert program_count(compiled) == 2
    compiled(data.astype(np.float32))
    compiled(data[:, :2])
    assert program_count(compiled) == 4


def test_ways_of_calling():
    @wg.jit(dynamic={"x": 0, "rest": 0, "more": 1}, static_argnames="power")
    def f(x, *rest, power=2, **more):
        return sum([x, *rest]) ** power + more["more"].sum(0)

    for n in (3, 5):
        a, b = np.arange(1.0, n + 1), np.ones((2, n))
        assert_close(f(a, a, a, more=b), (3 * a) ** 2 + 2)
        assert_close(f(a, power=3, more=b), a**3 + 2)
    assert program_count(f) == 2
    again = pickle.loads(pickle.dumps(wg.jit(np.sin, dynamic={})))
    assert again.dynamic == {}


class Scaled:
    """Something with a compiled method."""

    def __init__(self, factor):
        self.factor = factor

    @wg.jit(dynamic={"x": 0})
    def apply(self, x):
        return self.factor * x


def test_methods():
    scaled = Scaled(3.0)
    for n in (2, 7):
        assert_close(scaled.apply(np.ones(n)), 3.0 * np.ones(n))
    assert program_count(scaled.apply) == 1


def test_results_into_given_memory():
    compiled = wg.jit(lambda x: (x + 1, x.sum()), dynamic={"x": 0})
    for n in LENGTHS:
        x = np.arange(float(n))
        out = np.empty(n), np.empty(())
        assert compiled(x, out=out) is out
        assert_close(out, (x + 1, np.array(x.sum())))
        compiled(x, out=(x, out[1]))  # over the argument itself
        assert_close(x, np.arange(n) + 1.0)
    message = (
        "<lambda>: argument out holds float64 of shape (4,), expected a writable array of float64 "
        "of shape (3,). Make it with np.empty((3,), np.float64)."
    )
    with pytest.raises(ShapeError) as error:
        compiled(np.ones(3), out=(np.empty(4), np.empty(())))
    assert str(error.value) == message


def test_memory_grows_when_needed_and_is_kept():
    def f(x):
        e = np.exp(x - np.max(x))
        return e / np.sum(e)

    compiled = wg.jit(f, dynamic={"x": 0})
    for n in (5, 50_000, 7, 50_000, 100_000):
        x = np.linspace(0, 1, n)
        assert_close(compiled(x), f(x))
    ((program,),) = compiled._programs.values()
    assert program.layout.room_bytes == 8
    room = program.room.table.copy()
    x, out = np.linspace(0, 1, 60_000), np.empty(60_000)
    compiled(x, out=out)
    gc.collect()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    for _ in range(20):
        compiled(x, out=out)
    grown = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert grown < 1000
    assert list(program.room.table) == list(room)
    assert compiled.memory(x)["arena"] == program.arena_bytes + 8 * 60_032
    assert compiled.memory(x)["outputs"] == 8 * 60_000


def test_large_results_are_used_again():
    compiled = wg.jit(lambda x: x + 1, dynamic={"x": 0})
    for n in (200_000, 300_000, 400_000):
        x = np.zeros(n)
        compiled(x)
        places = {compiled(x).ctypes.data for _ in range(5)}
        assert len(places) == 1, "dropped results should be given again, at any length"
        held = [compiled(x) for _ in range(4)]
        assert len({array.ctypes.data for array in held}) == 4
        assert all(array[0] == 1 for array in held)


def test_threads_of_python_share_one_program():
    def f(x):
        e = np.exp(x - np.max(x))
        return e / np.sum(e)

    compiled = wg.jit(f, dynamic={"x": 0})
    compiled(np.ones(3))
    wrong = []

    def work(seed):
        rng = np.random.default_rng(seed)
        for _ in range(60):
            x = rng.standard_normal(rng.integers(1, 30_000))
            if not np.allclose(compiled(x), f(x), rtol=1e-10):
                wrong.append(len(x))

    workers = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not wrong
    assert program_count(compiled) == 1


class Stopped(Exception):  # noqa: N818 - no error
    """Raised by a signal handler."""


@pytest.mark.skipif(os.name != "posix", reason="sends POSIX signals to itself")
@pytest.mark.parametrize("n", [40, 3_000_000])
def test_long_calls_can_be_interrupted(n):
    def f(x):
        for _ in range(40):
            x = np.sin(x) + np.exp(-x * x)
        return x

    def stop(*args):
        raise Stopped

    compiled = wg.jit(f, dynamic={"x": 0})
    compiled(np.ones(3))
    before = signal.signal(signal.SIGALRM, stop)
    try:
        with pytest.raises(Stopped):
            signal.setitimer(signal.ITIMER_REAL, 0.1)
            while True:
                compiled(np.ones(n))
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert_close(compiled(np.ones(5)), f(np.ones(5)))


def test_bits_do_not_depend_on_the_number_of_threads():
    def f(x):
        h = np.tanh(x @ W)
        return h - h.mean(0), h.T @ h, np.sum(np.exp(x), axis=0)

    compiled = wg.jit(f, dynamic={"x": 0})
    few = wg.jit(f, dynamic={"x": 0}, threads=1)
    try:
        for n in (17, 5000, 20_011):
            found = []
            for threads in (1, 2, 5):
                set_threads(threads)
                found.append(compiled(*rows(n)))
            found.append(few(*rows(n)))
            for one in found[1:]:
                assert all(np.array_equal(a, b) for a, b in zip(one, found[0], strict=True))
    finally:
        set_threads(None)


# ---------------------------------------------------------------- state


def train(model, optimizer):
    def step(x, y):
        optimizer.zero_grad()
        loss = nn.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    return step


def small_network():
    return nn.Sequential(nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, 5))


def batch_normal_network():
    return nn.Sequential(nn.Linear(5, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 5))


def twins(make, optimizer, **options):
    first, second = make(), make()
    second.load_state_dict(first.state_dict())
    compiled = wg.jit(
        train(first, optimizer(first.parameters(), **options)), dynamic={"x": 0, "y": 0}
    )
    plain = train(second, optimizer(second.parameters(), **options))
    return first, second, compiled, plain


@pytest.mark.filterwarnings("error::wengert.errors.FixedLengthWarning")
@pytest.mark.parametrize("make", [small_network, batch_normal_network])
def test_a_training_step_compiles_once(make):
    first, second, compiled, plain = twins(make, optim.SGD, lr=0.1, momentum=0.9)
    counts = []
    for n in (8, 30, 2, 17, 100, 16):
        x, y = labelled(n)
        x = x.astype(np.float32)
        np.testing.assert_allclose(float(compiled(x, y)), float(plain(x, y)), rtol=1e-4)
        counts.append(program_count(compiled))
    for name, value in first.state_dict().items():
        other = second.state_dict()[name]
        np.testing.assert_allclose(np.asarray(value), np.asarray(other), rtol=1e-3, atol=1e-5)
    # one while there are no gradients, one from then on
    assert counts[1:] == [counts[1]] * 5


def gradients_of(model):
    def step(x):
        for p in model.parameters():
            p.zero_grad()
        loss = wnp.sum(wnp.sin(model(x))) / len(x)
        loss.backward()
        return loss, [p.grad.detach() for p in model.parameters()]

    return step


LAYERS = {
    "layer norm": (lambda: nn.Sequential(nn.LayerNorm(6), nn.GELU(), nn.Linear(6, 2)), (6,)),
    "batch norm": (
        lambda: nn.Sequential(nn.Conv2d(1, 3, 3), nn.BatchNorm2d(3), nn.ReLU()),
        (1, 6, 6),
    ),
    "attention": (lambda: Attention(), (5, 8)),
    "transposed": (lambda: nn.Sequential(nn.ConvTranspose2d(2, 3, 3, stride=2)), (2, 4, 4)),
    "dropout": (lambda: nn.Sequential(nn.Linear(6, 5), nn.Dropout(0.4)), (6,)),
    "embedding": (lambda: nn.Sequential(nn.Embedding(11, 6), nn.Linear(6, 2)), None),
}


class Attention(nn.Module):
    """Attention of a sequence to itself."""

    def __init__(self):
        super().__init__()
        self.attention = nn.MultiHeadAttention(8, 2, batch_first=True)

    def forward(self, x):
        found = self.attention(x, x, x)
        return found[0] if isinstance(found, tuple) else found


@pytest.mark.filterwarnings("error::wengert.errors.FixedLengthWarning")
@pytest.mark.parametrize("name", LAYERS)
def test_layers(name):
    make, shape = LAYERS[name]
    rng = np.random.default_rng(0)
    nn.manual_seed(0)
    first, second = make(), make()
    second.load_state_dict(first.state_dict())
    compiled, plain = wg.jit(gradients_of(first), dynamic={"x": 0}), gradients_of(second)
    for n in (4, 17, 2):
        x = rng.integers(0, 11, (n, 3)) if shape is None else rng.standard_normal((n, *shape))
        x = x if shape is None else x.astype(np.float32)
        nn.manual_seed(n)
        found = compiled(x)
        nn.manual_seed(n)
        expected = plain(x)
        for a, b in zip(tree.leaves(found), tree.leaves(expected), strict=True):
            np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=1e-3, atol=1e-4)


def test_a_failing_step_changes_nothing():
    first, _, compiled, _ = twins(small_network, optim.SGD, lr=0.1)
    x, y = labelled(20)
    x = x.astype(np.float32)
    compiled(x, y)
    before = {name: np.array(value) for name, value in first.state_dict().items()}
    with pytest.raises(OutOfRangeError, match="got the index 9 for an axis of length 5"):
        compiled(x, np.where(np.arange(20) == 19, 9, y))
    for name, value in first.state_dict().items():
        np.testing.assert_array_equal(np.asarray(value), before[name])
    assert np.isfinite(compiled(x[:3], y[:3]))


@pytest.mark.slow
@pytest.mark.filterwarnings("error::wengert.errors.FixedLengthWarning")
def test_the_convolutional_step_compiles_once():
    def network():
        return nn.Sequential(
            nn.Conv2d(1, 6, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 16, 3), nn.ReLU(),
            nn.MaxPool2d(2), nn.Flatten(), nn.Linear(400, 84), nn.ReLU(), nn.Linear(84, 10),
        )  # fmt: skip

    first, second, compiled, plain = twins(network, optim.SGD, lr=0.01)
    rng = np.random.default_rng(0)
    for n in (20, 1, 16, 33):
        x = rng.standard_normal((n, 1, 28, 28)).astype(np.float32)
        y = rng.integers(0, 10, n)
        np.testing.assert_allclose(float(compiled(x, y)), float(plain(x, y)), rtol=1e-4)
    for a, b in zip(first.parameters(), second.parameters(), strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-3, atol=1e-5)
    assert program_count(compiled) <= 2  # a single sample broadcasts, and has its own


# ---------------------------------------------------------------- what cannot be done


FALLBACKS = {
    "sorted": (lambda x: np.sort(x), "argsort (at test_dynamic.py"),
    "shifted": (lambda x: np.sum(x[1:] - x[:-1]), "makes an axis whose length is not the dynamic"),
    "reversed": (lambda x: x[::-1] + 0, "what it is told changes with the length"),
    "running": (lambda x: np.cumsum(x), "does not treat what lies along the dynamic axis"),
    "pairs": (lambda x: x[:, None] - x, "makes a value with two axes of the dynamic length"),
    "branching": (lambda x: x * 2 if len(x) > 50 else x, "the steps that the function takes"),
    "a number": (lambda x: (x, len(x)), "what the function returns or changes depends"),
    "capped": (lambda x: x * min(len(x), 400), "the number 331 at length 331 and 37 at 37"),
    "first": (lambda x: x[0] * 2, "index (at test_dynamic.py"),
    "squares": (
        lambda x: x * np.arange(len(x)) ** 2,
        "a constant array of shape (331,) lies along",
    ),
    "complex": (lambda x: np.exp(1j * x), "return real and imaginary parts instead"),
    "divisors": (lambda x: np.gcd(x.astype(int), 12), "has no loops of its own"),
    "joined": (lambda x: np.concatenate([x, x]), "makes an axis whose length is not the dynamic"),
}


@pytest.mark.parametrize("name", FALLBACKS)
def test_what_cannot_be_general_is_compiled_for_each_length(name):
    function, reason = FALLBACKS[name]
    compiled = wg.jit(function, dynamic={"x": 0})
    with pytest.warns(FixedLengthWarning) as record:
        for n in (3, 60, 3, 60, 5):
            assert_close(compiled(*line(n)), evaluated(function, *line(n)))
    assert len(record) == 1, "once is enough"
    assert reason in str(record[0].message)
    assert program_count(compiled) == 3


def test_loops_along_the_axis_stay_loops_in_the_program_of_a_length():
    """It is told to write them as operations on arrays; each length has one loop, not its turns."""

    def smoothed(x):
        level = 0.0
        for i in range(len(x)):
            level = 0.5 * level + x[i] * np.sin(x[i])
        return level

    compiled = wg.jit(smoothed, dynamic={"x": 0})
    with pytest.warns(FixedLengthWarning, match="what a loop does along the axis as operations"):
        for n in (40, 2000):
            assert_close(compiled(*line(n)), smoothed(*line(n)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        graph = compiled.explain(*line(2000)).graph
    assert graph.count("sin(") == 1


def test_the_text_of_the_warning():
    def tail(x):
        return x[1:]

    with pytest.warns(FixedLengthWarning) as record:
        wg.jit(tail, dynamic={"x": 0})(np.ones(3))
    place = f"test_dynamic.py:{tail.__code__.co_firstlineno + 1}"
    assert str(record[0].message) == (
        "tail: compiled anew for each length of its dynamic axes, because one program for any "
        f"length cannot be had: index (at {place}): makes an axis whose length is not the dynamic "
        "one but changes with it."
    )


def test_a_function_of_one_length_only():
    fixed = np.arange(7.0)
    compiled = wg.jit(lambda x: x + fixed, dynamic={"x": 0})
    with pytest.warns(FixedLengthWarning, match="it does not run at every length: ShapeError: add"):
        assert_close(compiled(fixed), 2 * fixed)
    with pytest.raises(ShapeError, match="do not broadcast together"):
        compiled(np.ones(5))


def test_an_error_of_the_function_is_its_own():
    def broken(x):
        raise KeyError("mine")

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(KeyError, match="mine"):
            wg.jit(broken, dynamic={"x": 0})(np.ones(3))


# ---------------------------------------------------------------- bad calls


def two(x, y):
    return x + y


BAD_OPTIONS = {
    "jit: argument dynamic is 0 of type int, expected a dictionary of argument names and axes, "
    'such as {"x": 0}': (TypeError, 0),
    "jit: argument dynamic has 'x': 0.5, expected the name of an argument and an axis or a tuple "
    'of axes, such as {"x": 0}': (TypeError, {"x": 0.5}),
    "jit: dynamic has 'z', but two has the parameters x, y. Name one of them.": (
        ValueError,
        {"z": 0},
    ),
}


@pytest.mark.parametrize("message", BAD_OPTIONS)
def test_bad_options(message):
    kind, dynamic = BAD_OPTIONS[message]
    with pytest.raises(kind) as error:
        wg.jit(two, dynamic=dynamic)
    assert str(error.value) == message


def test_static_and_dynamic():
    with pytest.raises(ValueError) as error:
        wg.jit(two, dynamic={"x": 0}, static_argnames="x")
    assert str(error.value) == (
        "jit: argument 'x' is both in dynamic and in static_argnames. A static argument has no "
        "axes; name it in one of them."
    )


def test_lengths_that_differ():
    compiled = wg.jit(two, dynamic={"x": 0, "y": 0})
    compiled(np.ones(3), np.ones(3))
    for x, y in ((np.ones(5), np.ones(6)), (np.ones(1), np.ones(6))):
        with pytest.raises(ShapeError) as error:
            compiled(x, y)
        assert str(error.value) == (
            f"two: argument x has length {len(x)} along axis 0, argument y has length 6 along "
            "axis 0; expected the same length along all dynamic axes of a call. Give arrays of "
            "one length, or leave one of the arguments out of dynamic."
        )


def test_arguments_without_the_axis():
    compiled = wg.jit(two, dynamic={"x": 1})
    with pytest.raises(AxisError) as error:
        compiled(np.ones(3), 1.0)
    assert str(error.value) == (
        "two: argument x has the shape (3,), expected an array with the dynamic axis 1. Give such "
        "an array, or name another axis in dynamic."
    )
    with pytest.raises(DTypeError) as error:
        compiled(2.0, np.ones(3))
    assert str(error.value) == (
        "two: argument x is in dynamic but holds 2.0 of type float, expected arrays. Give an "
        "array, or leave it out of dynamic."
    )


# ---------------------------------------------------------------- around it


def test_explain_names_the_length():
    compiled = wg.jit(lambda x: np.tanh(x) / len(x), dynamic={"x": 0})
    story = compiled.explain(*rows(5))
    assert "one program for any length n" in str(story)
    assert "x: f64[n,3]" in story.graph
    assert "length / 64 blocks of 64" in story.loops
    assert "time per kernel" in str(story)
    assert "331" not in story.graph + story.passes + story.loops


def test_debug_nans_sees_the_length_of_the_call():
    compiled = wg.jit(lambda x: np.log(x) - np.arange(len(x)), dynamic={"x": 0})
    compiled(np.ones(3))
    with wg.debug_nans():
        assert_close(compiled(np.ones(4)), -np.arange(4.0))
        with pytest.raises(FloatingPointError, match="log"):
            compiled(-np.ones(6))


def test_inside_another_function():
    inner = wg.jit(lambda x: np.sum(x * x) / len(x), dynamic={"x": 0})
    assert_close(wg.grad(inner)(np.ones(4)), np.full(4, 0.5))
    outer = wg.jit(lambda x: inner(x[1:]))
    assert_close(outer(np.ones(4)), np.float64(1.0))


@pytest.mark.parametrize("with_state", [False, True])
def test_programs_for_any_length_are_kept_on_disk(with_state, tmp_path, monkeypatch):
    cache = ObjectCache(tmp_path / "cache")
    for module in (jit_entries, jit_function, jit_building, jit_lookup):
        monkeypatch.setattr(module, "object_cache", lambda: cache)
    total = wg.tensor(0.0) if with_state else 0.0

    def make():
        def f(x):
            e = np.exp(x - np.max(x))
            return e / np.sum(e) + total

        return wg.jit(f, dynamic={"x": 0})

    first, again = make(), make()
    found = first(*line(10)), again(*line(10))
    assert_close(*found)
    assert_close(again(*line(2000)), first(*line(2000)))
    ((program,),) = again._programs.values()
    assert program.from_record
    assert program_count(again) == 1
    fixed = wg.jit(make().function)
    fixed(*line(10))
    ((program,),) = fixed._programs.values()
    assert not program.from_record, "a program for one length has another key"
