"""Batches worked through in chunks: compiled = evaluated, the same bits, and memory that stays."""

import os
import tracemalloc

import numpy as np
import pytest

import wengert as wg
import wengert.numpy as wnp
from wengert import machine, nn, optim
from wengert.bench import cnn, recurrent
from wengert.bench.steps import wengert_step

WHOLE, WITH_REST = 96, 90


@pytest.fixture
def small_chunks(monkeypatch):
    """Chunks of 16 samples, however little memory there is to save."""
    monkeypatch.setenv("WENGERT_CACHE", "off")
    wg.clear_cache()
    small = {"most_memory": -1, "memory": 0, "least_in_loops": 16, "least_use": 0}
    with machine.use(chunks={**small, "least_saving": 0}):
        yield


@pytest.fixture
def no_disk(monkeypatch):
    monkeypatch.setenv("WENGERT_CACHE", "off")


def told(function, *args):
    """What explain says of the regions."""
    return function.explain(*args).regions


def check(function, *args, chunked=True, rtol=2e-5, atol=2e-6):
    """Compiled = evaluated, and in chunks."""
    compiled = wg.jit(function)
    assert not chunked or "chunks of 16" in told(compiled, *args)
    got, want = compiled(*args), function(*args)
    for one, other in zip(wg.tree.leaves(got), wg.tree.leaves(want), strict=True):
        np.testing.assert_allclose(one, other, rtol=rtol, atol=atol)


# ---------------------------------------------------------------- networks


class Reader(nn.Module):
    """A recurrent layer; a dense one on its last state, or on all of them."""

    def __init__(self, kind, every=False):
        super().__init__()
        self.layer, self.dense = getattr(nn, kind)(6, 24), nn.Linear(24, 5)
        self.every = every

    def __call__(self, x):
        states = self.layer(wnp.swapaxes(x, 0, 1))[0]  # steps first
        return self.dense(states) if self.every else self.dense(states[-1])


class Deep(nn.Module):
    """Two recurrent layers, and dropout between them: its bits have the samples second."""

    def __init__(self):
        super().__init__()
        self.layer, self.dense = nn.LSTM(6, 8, num_layers=2, dropout=0.4), nn.Linear(8, 5)

    def __call__(self, x):
        return self.dense(self.layer(wnp.swapaxes(x, 0, 1))[0][-1])


class Block(nn.Module):
    """Attention, a norm, and a dense layer over the mean of all tokens."""

    def __init__(self):
        super().__init__()
        self.attention, self.norm = nn.MultiHeadAttention(16, 4, batch_first=True), nn.LayerNorm(16)
        self.up, self.down, self.gelu = nn.Linear(16, 32), nn.Linear(32, 5), nn.GELU()

    def __call__(self, x):
        h = self.norm(x + self.attention(x, x, x)[0])
        return self.down(wnp.mean(self.gelu(self.up(h)), axis=1))


class Speaker(nn.Module):
    """Scores of the next token at every place, all places of all samples in one line."""

    def __init__(self):
        super().__init__()
        self.tokens, self.layer = nn.Embedding(5, 16), nn.GRU(16, 24, batch_first=True)
        self.dense = nn.Linear(24, 5)

    def __call__(self, x):
        return self.dense(self.layer(self.tokens(wnp.argmax(x, axis=-1)))[0]).reshape(-1, 5)


def wide():
    return nn.Sequential(nn.Linear(30, 200), nn.ReLU(), nn.Linear(200, 48), nn.Tanh(), *[last(48)])


def last(features):
    return nn.Linear(features, 5)


def with_dropout():
    layers = [nn.Linear(30, 64), nn.ReLU(), nn.Dropout(0.5), nn.Linear(64, 36), nn.Dropout(0.2)]
    return nn.Sequential(*layers, last(36))


def convolutional():
    return nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(8 * 36, 300),
        nn.ReLU(),
        last(300),
    )


# the network, the shape of a sample, labels for each
NETWORKS = {
    "wide": (wide, (30,), 1),
    "with dropout": (with_dropout, (30,), 1),
    "convolutional": (convolutional, (1, 12, 12), 1),
    "RNN": (lambda: Reader("RNN"), (7, 6), 1),
    "GRU": (lambda: Reader("GRU"), (7, 6), 1),
    "LSTM": (lambda: Reader("LSTM"), (7, 6), 1),
    "deep": (Deep, (7, 6), 1),
    "transformer": (Block, (9, 16), 1),
    "tokens": (Speaker, (7, 5), 7),
}


class Training:
    """Five steps of a network: each with its loss and its scores, and the parameters at the end."""

    def __init__(self, name, batch):
        self.make, self.shape, self.labels = NETWORKS[name]
        self.batch = batch

    def run(self, compiled, threads=None):
        nn.manual_seed(3)
        rng = np.random.default_rng(0)
        model = self.make()
        optimizer = optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

        def step(x, y):
            optimizer.zero_grad()
            scores = model(x)
            loss = nn.cross_entropy(scores, y)
            loss.backward()
            optimizer.step()
            return loss, scores

        run = wg.jit(step, threads=threads) if compiled else step
        found = []
        for _ in range(5):
            x = rng.normal(size=(self.batch, *self.shape)).astype(np.float32)
            y = rng.integers(0, 5, size=self.batch * self.labels)
            found += [np.array(one) for one in run(x, y)]
        if compiled:
            assert "chunks of 16" in told(run, x, y)
        return [*found, *[p.numpy().copy() for p in model.parameters()]]


@pytest.mark.parametrize("batch", [WHOLE, WITH_REST])
@pytest.mark.parametrize("name", NETWORKS)
def test_networks_in_chunks(small_chunks, name, batch):
    training = Training(name, batch)
    got, want = training.run(compiled=True), training.run(compiled=False)
    for one, other in zip(got, want, strict=True):
        scale = np.abs(other).max() + 1e-3
        np.testing.assert_allclose(one / scale, other / scale, atol=2e-4)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["LSTM", "convolutional", "transformer"])
def test_the_same_bits_for_any_number_of_threads(small_chunks, name):
    training = Training(name, WITH_REST)
    want = training.run(compiled=True, threads=1)
    for threads in (2, 3, 4):
        got = training.run(compiled=True, threads=threads)
        assert all(np.array_equal(a, b) for a, b in zip(got, want, strict=True))


# ---------------------------------------------------------------- functions


def arguments(n, dtype=float):
    rng = np.random.default_rng(n)
    shapes = [(n, 9), (9, 64), (64, 64), (64, 4)]
    return [rng.normal(size=shape).astype(dtype) / 2 for shape in shapes]


def hidden(x, w, u, v):
    return wnp.tanh(wnp.tanh(x @ w) @ u) @ v


@pytest.mark.parametrize("n", [WHOLE, WITH_REST])
def test_values_of_every_sample(small_chunks, n):
    check(hidden, *arguments(n))


@pytest.mark.parametrize("n", [WHOLE, WITH_REST])
def test_gradients_of_every_sample(small_chunks, n):
    def loss(x, w, u, v):
        return wnp.sum(hidden(x, w, u, v) ** 2)

    check(wg.vmap(wg.grad(loss, argnums=(0, 3)), in_axes=(0, None, None, None)), *arguments(n))


@pytest.mark.parametrize("n", [WHOLE, WITH_REST])
def test_samples_along_another_axis(small_chunks, n):
    def turned(x, w, u, v):
        h = wnp.tanh(u.T @ wnp.tanh(w.T @ x))
        return v.T @ h, wnp.sum(h, axis=1), wnp.sum(wnp.cos(h) @ x.T)

    x, *weights = arguments(n)
    check(wg.grad(lambda *args: turned(*args)[2], argnums=(1, 2)), x.T, *weights)
    check(turned, x.T, *weights)


def test_arguments_with_any_strides(small_chunks):
    x, w, u, v = arguments(2 * WITH_REST)
    check(hidden, x[::-2], w, u, v)
    check(hidden, np.asfortranarray(x), w[:, ::-1], u.T, v)


def test_what_samples_are_combined_by(small_chunks):
    def combined(x, w, u, v):
        y = hidden(x, w, u, v)
        return (
            wnp.max(y, axis=0),
            wnp.min(y, axis=0),
            wnp.prod(wnp.cos(y / 9), axis=0),
            wnp.sum(wnp.argmax(y, axis=1) == 2),
            wnp.any(y > 3),
            wnp.all(y > 0, axis=0),
        )

    check(combined, *arguments(WITH_REST))


def test_what_mixes_samples_ends_a_chunk(small_chunks):
    def normed(x, w, u, v):
        h = wnp.tanh(x @ w)
        h = wnp.tanh((h - wnp.mean(h, axis=0)) @ u)
        return wnp.sum(h @ v), wnp.sort(h[:, 0])

    compiled = wg.jit(normed)
    args = arguments(WITH_REST)
    for one, other in zip(compiled(*args), normed(*args), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-10)


def test_a_count_of_samples_that_is_needed_first(small_chunks):
    def masked(x, w, u, v):
        ok = x[:, 0] > 0
        return wnp.sum(wnp.where(ok, hidden(x, w, u, v)[:, 1] ** 2, 0.0)) / wnp.sum(ok)

    check(wg.value_and_grad(masked, argnums=(1, 2, 3)), *arguments(WITH_REST))


def test_rows_that_indices_pick(small_chunks):
    def picked(table, rows, w, u, v):
        return wnp.sum(hidden(table[rows], w, u, v) ** 2)

    table, *weights = arguments(11)
    rows = np.random.default_rng(0).integers(0, 11, size=WITH_REST)
    check(wg.value_and_grad(picked, argnums=(0, 2)), table, rows, *weights)


def test_indices_are_checked_in_every_chunk(small_chunks):
    def loss(x, w, u, v, y):
        return nn.cross_entropy(hidden(x, w, u, v), y)

    args = arguments(WITH_REST)
    y = np.zeros(WITH_REST, int)
    compiled = wg.jit(loss)
    np.testing.assert_allclose(compiled(*args, y), loss(*args, y), rtol=1e-12)
    for place in (0, 40, WITH_REST - 1):
        wrong = y.copy()
        wrong[place] = 7
        with pytest.raises(IndexError):
            compiled(*args, wrong)
    assert "chunks of 16" in told(compiled, *args, y)


# ---------------------------------------------------------------- loops


def read(w, x, **how):
    """A loop over steps whose rows have samples second."""

    def step(state, row):
        h, number, energy = state
        new = wnp.tanh(row @ w + h)
        return (new, number + 1, energy + wnp.sum(new**2)), (new * number, wnp.sum(new))

    start = (wnp.zeros((x.shape[1], w.shape[1])), 0.0, 0.0)
    return wg.scan(step, start, x, **how)


def sequences(n):
    rng = np.random.default_rng(n)
    return rng.normal(size=(5, 12)) / 2, rng.normal(size=(8, n, 5))


@pytest.mark.parametrize("how", [{}, {"reverse": True}, {"checkpoint": 3}], ids=str)
@pytest.mark.parametrize("n", [WHOLE, WITH_REST])
def test_loops_with_sums(small_chunks, how, n):
    def last_and_sums(w, x):
        (h, _, energy), (rows, sums) = read(w, x, **how)
        return h, energy, rows, sums

    def loss(w, x):
        h, energy, rows, sums = last_and_sums(w, x)
        return wnp.sum(h**2) + energy + wnp.sum(rows**2) + wnp.sum(sums)

    # a number that is counted on from one loop to the next belongs to no sample
    chunked = "checkpoint" not in how
    check(last_and_sums, *sequences(n), chunked=chunked)
    check(wg.value_and_grad(loss, argnums=(0, 1)), *sequences(n), chunked=chunked)


@pytest.mark.parametrize("every", [3, 4])
def test_loops_in_loops(small_chunks, every):
    def loss(w, x):
        start = wnp.zeros((x.shape[1], w.shape[1]))
        step = lambda h, row: (wnp.tanh(row @ w + h), h)
        h, rows = wg.scan(step, start, x, checkpoint=every)
        return wnp.sum(h**2) + wnp.sum(rows**3)

    check(wg.value_and_grad(loss, argnums=(0, 1)), *sequences(WITH_REST))


def test_a_loop_along_the_samples(small_chunks):
    def one_by_one(w, x):
        return wg.scan(lambda h, row: (wnp.tanh(row @ w + h), h), wnp.zeros(12), x)

    w, x = sequences(WHOLE)
    check(one_by_one, w, x[0], chunked=False)


def test_a_loop_that_mixes_samples(small_chunks):
    def mixing(w, x):
        def step(h, row):
            new = wnp.tanh(row @ w + h)
            return new - wnp.mean(new, axis=0), None

        return wg.scan(step, wnp.zeros((x.shape[1], 12)), x)[0]

    check(mixing, *sequences(WHOLE), chunked=False)


# ---------------------------------------------------------------- at random


def random_step(seed):
    """A step of random operations on samples, sums over them and, rarely, what mixes them."""
    choose = np.random.default_rng(seed)
    plan = choose.integers(0, 10_000, size=(9, 3))
    mixes = choose.random() < 0.3

    def step(ws, carry, row):
        h, total, products = carry
        values = [h, row, h * 0.5]
        for kind, one, other in plan:
            a, b = values[one % len(values)], values[other % len(values)]
            made = [
                lambda a, b, w: a @ w,
                lambda a, b, w: wnp.tanh(a + b),
                lambda a, b, w: a * b + wnp.sum(w, axis=0),
                lambda a, b, w: wnp.sin(a) - b @ w / 4,
                lambda a, b, w: a.reshape(-1, 2, 3).reshape(-1, 3)[:, ::-1].reshape(-1, 6) + b,
                lambda a, b, w: wnp.where(a > 0, a, wnp.mean(b, axis=1, keepdims=True)),
                lambda a, b, w: a - wnp.mean(b, axis=0) if mixes else a - b,
            ]
            values.append(made[kind % 7](a, b, ws[other % len(ws)]))
        new, gain = wnp.tanh(values[-1]), values[-2].T @ values[-3]
        return (new, total + wnp.sum(values[-2]), products + gain), (values[-4], wnp.sum(new))

    return step


def compare_at_random(seed):
    step = random_step(seed)
    data = np.random.default_rng(seed)
    n, every = int(data.integers(32, 80)), [None, None, 2, 3][seed % 4]
    ws = [data.normal(size=(6, 6)) / 3 for _ in range(2)]
    x, w = data.normal(size=(4, n, 6)) / 2, data.normal(size=(6, 6)) / 3

    def loss(ws, w, x):
        h = wnp.tanh(x[0] @ w)
        start = (h, 0.0, wnp.zeros((6, 6)))
        one = lambda carry, row: step(ws, carry, row)
        found = wg.scan(one, start, x, reverse=seed % 3 == 1, checkpoint=every)
        (h, total, products), (rows, sums) = found
        ends = wnp.sum(wnp.cos(h @ w)) + wnp.sum(wnp.max(rows, axis=1)) + wnp.sum(sums**2)
        return ends + wnp.sin(total / n) + wnp.sum(wnp.tanh(products / n))

    check(wg.value_and_grad(loss, (0, 1, 2)), ws, w, x, chunked=False, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("seed", range(4))
def test_random_loops(small_chunks, seed):
    compare_at_random(seed)


@pytest.mark.slow
def test_many_random_loops(small_chunks):
    first = int(os.environ.get("WENGERT_RANDOM_SEED", "1000"))
    for seed in range(first, first + int(os.environ.get("WENGERT_RANDOM_LOOPS", "12"))):
        compare_at_random(seed)


# ---------------------------------------------------------------- memory


def steps(name, batch):
    """A training step and its arguments."""
    if name == "VGG":
        return cnn.compiled_step(cnn.vgg(), batch)
    if name == "MLP":
        layers = [nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), last(512)]
        model = nn.Sequential(*layers)
        values = [parameter.numpy() for parameter in model.parameters()]
        step = wengert_step(model, model.parameters(), values, nn.cross_entropy)
        return step, (np.zeros((batch, 784), np.float32), np.zeros(batch, int))
    network = recurrent.Network(name, 28, 28, 128)
    layer, dense = getattr(nn, name)(28, 128), nn.Linear(128, 10)
    step = wengert_step(
        lambda x: dense(layer(x)[0][-1]),
        [*layer.parameters(), *dense.parameters()],
        network.weights(),
        nn.cross_entropy,
    )
    return step, network.data(batch)


@pytest.mark.parametrize("name", ["VGG", "MLP", "LSTM"])
def test_memory_does_not_grow_with_the_batch(no_disk, name):
    step, args = steps(name, 20_000)
    assert step.memory(*args)["arena"] < 2 * machine.policy().chunks.memory
    assert "one after the other; in a chunk:" in told(step, *args)


def test_a_chunk_is_explained(no_disk):
    """With the regions in it, and the arguments by their names."""
    step, args = steps("VGG", 250)
    head, inside, *_ = told(step, *args).splitlines()
    assert head == (
        "along axis 0 of x, axis 0 of y (length 250): 5 chunks of 48 and one of 10, "
        "one after the other; in a chunk:"
    )
    assert inside.startswith("  along axis 0 of x, axis 0 of y (length 48): ")


def test_small_batches_are_left_alone(no_disk):
    step, args = steps("LSTM", 100)
    assert "chunk" not in told(step, *args)


def test_a_step_allocates_nothing(small_chunks):
    step, args = steps("RNN", WITH_REST)
    out = np.empty((), np.float32)
    assert "chunks of 16" in told(step, *args)

    def run(count):
        for _ in range(count):
            step(*args, out=out)

    run(3)
    tracemalloc.start()
    try:
        run(1)
        before, _ = tracemalloc.get_traced_memory()
        run(20)
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert after - before < 100
