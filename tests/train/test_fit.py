"""`fit` is the loop that one would write by hand, to the bit."""

import io
import os
import subprocess
import sys
import tracemalloc

import numpy as np
import pytest

import wengert as wg
import wengert.numpy as wnp
from wengert import data, nn, optim
from wengert.jit.looping import Repeated
from wengert.train import Callback, EarlyStopping

# Most trainings here are of one kind, so that their programs are compiled once and then cached.
X, Y = data.circles(200)
UNEVEN = data.circles(230)


def network(*extra, seed=0):
    nn.manual_seed(seed)
    return nn.Sequential(nn.Linear(2, 8), nn.Tanh(), *extra, nn.Linear(8, 2))


def fit(model, epochs=2, batch_size=50, train=(X, Y), optimizer=None, **options):
    optimizer = optimizer or optim.SGD(model.parameters(), lr=0.5)
    options = {"progress": False, **options}
    return wg.fit(model, nn.cross_entropy, optimizer, train, epochs, batch_size, **options)


def assert_same_state(one, other):
    one, other = one.state_dict(), other.state_dict()
    assert list(one) == list(other)
    for name, array in one.items():
        np.testing.assert_array_equal(array, other[name], err_msg=name)


def by_hand(model, loader, epochs, optimizer=None, after_step=None, after_epoch=None):
    """The loop that `fit` stands for."""
    optimizer = optimizer or optim.SGD(model.parameters(), lr=0.5)

    @wg.jit
    def step(x, y):
        optimizer.zero_grad()
        output = model(x)
        loss = nn.cross_entropy(output, y)
        loss.backward()
        optimizer.step()
        return loss, (output.argmax(1) == y).mean()

    found = []
    for _ in range(epochs):
        for x, y in loader:
            found.append([float(value) for value in step(x, y)])
            if after_step:
                after_step()
        if after_epoch:
            after_epoch()
    return np.array(found).T


@pytest.mark.parametrize("drop_last", [False, True])
def test_the_same_bits_as_a_loop_by_hand(drop_last):
    model, other = network(), network()
    history = fit(model, train=UNEVEN, drop_last=drop_last, seed=3)
    loader = data.Loader(UNEVEN, 50, shuffle=True, seed=3, drop_last=drop_last)
    losses, accuracies = by_hand(other, loader, 2)
    assert_same_state(model, other)
    np.testing.assert_array_equal(history.loss, losses)
    np.testing.assert_array_equal(history.accuracy, accuracies)
    assert history.step_count == 2 * (4 if drop_last else 5)


def test_all_steps_are_native(monkeypatch):
    made = []

    class Watched(Repeated):
        def __init__(self, function):
            super().__init__(function)
            made.append(self)

    monkeypatch.setattr("wengert.train.steps.Repeated", Watched)
    fit(network(), train=UNEVEN, validation=UNEVEN)
    assert [one.native_calls for one in made] == [2 * 5, 2 * 5]


def test_means_count_examples_not_batches():
    history = fit(network(), epochs=1, train=UNEVEN)
    weights = [50, 50, 50, 50, 30]
    assert history.last["loss"] == np.average(history.loss, weights=weights)
    assert history.last["accuracy"] == np.average(history.accuracy, weights=weights)


def test_a_batch_larger_than_the_data():
    history = fit(network(), batch_size=1000, train=(X[:50], Y[:50]))
    assert history.step_count == 2


def test_one_example_at_a_time():
    model, other = network(), network()
    fit(model, epochs=1, batch_size=1)
    by_hand(other, data.Loader((X, Y), 1, shuffle=True), 1)
    assert_same_state(model, other)


# ---------------------------------------------------------------- data


def test_a_loader_brings_its_settings():
    model, other = network(), network()
    loader = data.Loader(UNEVEN, 50, shuffle=False, drop_last=True)
    history = fit(model, train=loader, batch_size=None)
    by_hand(other, loader, 2)
    assert history.step_count == 2 * 4
    assert_same_state(model, other)


class Images(nn.Module):
    def __init__(self):
        self.layer = nn.Linear(36, 3)

    def forward(self, x):
        assert x.shape[1:] == (1, 6, 6) and x.dtype == np.float32
        return self.layer(x.reshape(len(x), 36))


def split():
    rng = np.random.default_rng(0)
    return data.Split(rng.integers(0, 256, (60, 6, 6), np.uint8), rng.integers(0, 3, 60))


@pytest.mark.parametrize("wrap", [lambda s: s, lambda s: data.Loader(s, 20, True), tuple])
def test_a_split_stays_bytes_until_the_step(wrap):
    images = split()
    nn.manual_seed(0)
    model = Images()
    fit(model, train=wrap(images), batch_size=20)
    nn.manual_seed(0)
    other = Images()
    by_hand(other, data.Loader(tuple(images), 20, shuffle=True), 2)
    assert_same_state(model, other)


def test_arrays_of_any_layout():
    swapped = np.array(X.T, dtype=X.dtype.newbyteorder(">")).T
    packed = np.zeros(len(Y), [("flag", "u1"), ("label", "i8")])
    packed["label"] = Y
    model, other = network(), network()
    fit(model, train=(swapped, packed["label"]))
    fit(other, train=(wg.tensor(X), Y.astype(np.uint8)))
    assert_same_state(model, other)


@pytest.mark.parametrize("scale, factor", [(True, 1 / np.float32(255)), (False, 1.0)])
def test_bytes_are_scaled_unless_not_wanted(scale, factor):
    seen = []

    class Look(nn.Module):
        def __init__(self):
            self.weight = nn.Parameter(np.zeros(1, np.float32))

        def forward(self, x):
            seen.append(x.dtype)
            return (x * self.weight).sum(1)

    x = np.full((4, 2), 51, np.uint8)
    model = Look()
    optimizer = optim.SGD(model.parameters(), lr=1.0)
    y = np.ones(4, np.float32)
    wg.fit(model, nn.mse_loss, optimizer, (x, y), 1, 4, scale=scale, progress=False)
    assert seen[0] == (np.float32 if scale else np.uint8)
    np.testing.assert_allclose(model.weight.numpy(), 2 * 2 * 51 * factor, rtol=1e-6)


def test_trees_of_inputs_and_targets():
    class Two(nn.Module):
        def __init__(self):
            self.left, self.right = nn.Linear(2, 1), nn.Linear(2, 1)

        def forward(self, x):
            return {"sum": self.left(x["a"]) + self.right(x["b"][0]), "left": self.left(x["a"])}

    def loss(output, target):
        return nn.mse_loss(output["sum"], target[0]) + nn.mse_loss(output["left"], target[1])

    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((2, 100, 2)).astype(np.float32)
    targets = ((a + b).sum(1, keepdims=True), a.sum(1, keepdims=True))
    model = Two()
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    pair = {"x": {"a": a, "b": [b]}, "y": targets}
    history = wg.fit(model, loss, optimizer, pair, 30, 10, progress=False)
    assert history.last["loss"] < 1e-6
    assert "accuracy" not in history


# ---------------------------------------------------------------- what is measured


def test_metrics_of_ones_own():
    def close(output, target):
        return abs(output - target) < 0.5

    line = nn.Linear(1, 1)
    x = np.linspace(-1, 1, 50, dtype=np.float32)[:, None]
    optimizer = optim.SGD(line.parameters(), lr=0.5)
    history = wg.fit(
        line, nn.mse_loss, optimizer, (x, 2 * x), 20, 10, (x, 2 * x), metrics={"close": close},
        progress=False,
    )  # fmt: skip
    assert history["close"][-1] == 1.0 == history["validation_close"][-1]
    assert fit(network(), epochs=1, metrics=None).names()[:2] == ["loss", "seconds"]


def test_validation_is_in_evaluation_mode_and_changes_nothing():
    def trained(validation):
        model = network(nn.BatchNorm1d(8), nn.Dropout(0.3))
        return model, fit(model, validation=validation, seed=5)

    held = data.circles(100, seed=9)
    model, history = trained(held)
    without, other = trained(None)
    assert_same_state(model, without)
    np.testing.assert_array_equal(history.loss, other.loss)
    assert model.training and model[2].training
    with wg.no_grad():
        output = model.eval()(held[0])
    expected = float(nn.cross_entropy(output, held[1]))
    assert history.last["validation_loss"] == pytest.approx(expected, rel=1e-6)
    right = (output.numpy().argmax(1) == held[1]).mean()
    assert history.last["validation_accuracy"] == pytest.approx(right, abs=1e-12)
    assert "validation_loss" not in other


def test_modes_are_kept():
    model = network(nn.BatchNorm1d(8))
    model[2].eval()  # frozen
    frozen = np.array(model[2].running_mean.numpy())
    fit(model, validation=(X, Y))
    np.testing.assert_array_equal(model[2].running_mean.numpy(), frozen)
    assert model.training and not model[2].training
    model.eval()
    fit(model)
    assert not model.training  # as it was
    assert (model[2].running_mean.numpy() != frozen).any()  # but trained in training mode


# ---------------------------------------------------------------- schedules and clipping


def test_a_schedule_for_each_epoch():
    model, other = network(), network()
    optimizer = optim.SGD(model.parameters(), lr=0.5)
    history = fit(model, 4, optimizer=optimizer, schedule=optim.StepLR(optimizer, 2))
    second = optim.SGD(other.parameters(), lr=0.5)
    schedule = optim.StepLR(second, 2)
    by_hand(other, data.Loader((X, Y), 50, True), 4, second, after_epoch=schedule.step)
    assert_same_state(model, other)
    np.testing.assert_allclose(history["lr"], [0.5, 0.5, 0.05, 0.05])


@pytest.mark.parametrize("kind", ["cycle", "cosine"])
def test_a_schedule_for_each_step(kind):
    def schedule(optimizer):
        if kind == "cycle":
            return optim.OneCycleLR(optimizer, max_lr=0.05, total_steps=12)
        return optim.CosineLR(optimizer, 12, warmup=3)

    model, other = network(), network()
    optimizer = optim.Adam(model.parameters(), lr=0.02)
    every = "auto" if kind == "cycle" else "step"
    used = schedule(optimizer)
    fit(model, 3, optimizer=optimizer, schedule=used, schedule_every=every)
    second = optim.Adam(other.parameters(), lr=0.02)
    own = schedule(second)
    by_hand(other, data.Loader((X, Y), 50, True), 3, second, after_step=own.step)
    assert_same_state(model, other)
    assert used.last_epoch == own.last_epoch == 12
    assert optimizer.lr == second.lr


def test_a_schedule_that_turns_an_option_off_and_on():
    """Other programs from one step to the next."""

    class Pulse(optim.Schedule):
        def rate(self, group, base):
            group["momentum"] = 0.0 if 3 <= self.last_epoch < 7 else 0.9
            return base

    model, other = network(), network()
    one, two = (optim.SGD(m.parameters(), lr=0.1, momentum=0.9) for m in (model, other))
    fit(model, 3, optimizer=one, schedule=Pulse(one), schedule_every="step")
    pulse = Pulse(two)
    by_hand(other, data.Loader((X, Y), 50, True), 3, two, after_step=pulse.step)
    assert_same_state(model, other)


def test_clipping():
    model = network()
    before = model.state_dict()
    optimizer = optim.SGD(model.parameters(), lr=1.0)
    fit(model, 1, 50, (X[:50], Y[:50]), optimizer, clip_norm=1e-3)
    moved = [np.sum((value - before[name]) ** 2) for name, value in model.state_dict().items()]
    assert np.sqrt(sum(moved)) == pytest.approx(1e-3, rel=1e-3)


# ---------------------------------------------------------------- callbacks


class Recorder(Callback):
    def __init__(self):
        self.events = []

    def on_start(self, run):
        self.events.append(("start", run.epoch))

    def on_progress(self, run):
        assert 0 < run.batch <= 4 and len(run.history.loss) == run.step

    def on_epoch_end(self, run):
        self.events.append(("epoch", run.epoch, run.step, len(run.history)))

    def on_end(self, run):
        self.events.append(("end", run.epoch))


def test_callbacks():
    recorder, seen = Recorder(), []
    fit(network(), callbacks=[recorder, lambda run: seen.append(run.history.last["loss"])])
    assert recorder.events == [("start", 0), ("epoch", 1, 4, 1), ("epoch", 2, 8, 2), ("end", 2)]
    assert len(seen) == 2
    fit(network(), callbacks=lambda run: seen.append(run.epoch))
    assert seen[2:] == [1, 2]


def test_a_callback_can_stop():
    history = fit(network(), 100, callbacks=lambda run: run.epoch == 3 and run.stop())
    assert len(history) == 3


def test_callbacks_leave_the_modes_alone():
    class Predict(Callback):
        def on_progress(self, run):
            run.model.eval()

        on_start = on_epoch_end = on_progress

    model, other = network(nn.Dropout(0.5)), network(nn.Dropout(0.5))
    fit(model, callbacks=Predict())
    fit(other)
    assert_same_state(model, other)


def test_early_stopping_restores_the_best():
    model, states = network(), []
    held = data.circles(100, seed=2)
    watch = EarlyStopping(patience=2, monitor="validation_accuracy")
    history = fit(
        model,
        60,
        validation=held,
        optimizer=optim.SGD(model.parameters(), lr=3.0),
        callbacks=[watch, lambda run: states.append(run.model.state_dict())],
    )
    curve = history["validation_accuracy"]
    best = int(np.argmax(curve))
    assert len(history) == best + 3 < 60
    assert watch.best_epoch == best + 1 and watch.best == curve[best]
    for name, array in model.state_dict().items():
        np.testing.assert_array_equal(array, states[best][name])


def test_a_validation_that_is_not_finite_is_not_the_best():
    held = np.full((50, 2), np.nan, np.float32), Y[:50]
    model = network()
    watch = EarlyStopping(2)
    history = fit(model, 9, validation=held, callbacks=watch)
    assert len(history) == 2 and watch.best is None
    assert np.isnan(history["validation_loss"]).all()


def test_patience_is_short_for_it():
    optimizer = lambda model: optim.SGD(model.parameters(), lr=0.0)
    model = network()
    assert len(fit(model, 50, optimizer=optimizer(model), patience=3, validation=(X, Y))) == 4
    assert len(fit(model, 50, optimizer=optimizer(model), patience=2)) < 50  # the loss itself


# ---------------------------------------------------------------- the same bits, nothing allocated


def test_dropout_depends_on_the_seed_alone():
    def trained(stream, seed):
        model = network(nn.Dropout(0.5))
        nn.manual_seed(stream)
        fit(model, seed=seed)
        return model, nn.get_rng_state()

    one, after = trained(1, seed=0)
    other, _ = trained(2, seed=0)
    assert_same_state(one, other)
    nn.manual_seed(1)
    np.testing.assert_array_equal(nn.get_rng_state(), after)  # the stream is left as it was
    third, _ = trained(1, seed=1)
    assert (third[0].weight.numpy() != one[0].weight.numpy()).any()


PROGRAM = """
import hashlib
import numpy as np
import wengert as wg
from wengert import nn, optim
rng = np.random.default_rng(0)
x = rng.standard_normal((4000, 100)).astype(np.float32)
y = (x.sum(1) > 0).astype(int)
nn.manual_seed(0)
model = nn.Sequential(nn.Linear(100, 200), nn.Tanh(), nn.Linear(200, 2))
optimizer = optim.SGD(model.parameters(), lr=0.1)
history = wg.fit(model, nn.cross_entropy, optimizer, (x, y), 1, 1000, (x, y), progress=False)
state = hashlib.sha256(b"".join(a.tobytes() for a in model.state_dict().values()))
state.update(history.loss.tobytes() + history["validation_loss"].tobytes())
print(state.hexdigest())
"""


def test_any_number_of_threads_gives_the_same_bits():
    found = set()
    for threads in "124":
        environment = {**os.environ, "WENGERT_THREADS": threads}
        command = [sys.executable, "-c", PROGRAM]
        found.add(subprocess.run(command, env=environment, stdout=-1, check=True, text=True).stdout)
    assert len(found) == 1


def test_nothing_is_allocated_in_the_steps():
    model = network()
    sizes = []

    class Measure(Callback):
        def on_progress(self, run):
            sizes.append(tracemalloc.get_traced_memory()[0])
            tracemalloc.reset_peak()

    x = np.tile(X, (1000, 1))
    y = np.tile(Y, 1000)
    tracemalloc.start()
    try:
        fit(model, 1, 50, (x, y), callbacks=[Measure()])
    finally:
        tracemalloc.stop()
    # what grows is the history alone: two numbers of eight bytes for a step
    steps = len(x) // 50
    assert len(sizes) >= 3
    assert sizes[-1] - sizes[1] < 2 * 8 * steps + 20_000


# ---------------------------------------------------------------- the rest


def test_no_epochs():
    assert len(fit(network(), epochs=0)) == 0


def test_operations_of_numpy_inside_the_model():
    class Slow(nn.Module):
        def __init__(self):
            self.layer = nn.Linear(2, 2)

        def forward(self, x):
            return self.layer(x) + wnp.linalg.svd(self.layer.weight, compute_uv=False).sum()

    nn.manual_seed(0)
    model = Slow()
    history = fit(model, 3)
    assert history.last["loss"] < history.epochs[0]["loss"]


def test_progress_is_written_to_a_stream():
    stream = io.StringIO()
    fit(network(), 2, progress=stream, validation=(X, Y))
    lines = stream.getvalue().splitlines()
    assert lines[0].startswith("epoch 1/2  loss 0.") and "|  validation: loss" in lines[0]
    assert lines[-1].startswith("epoch 2/2  ") and lines[-1].endswith(" examples/s")
