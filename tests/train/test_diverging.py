"""A loss that is not finite: the step, the layer, what to try, and the state of before."""

import contextlib

import numpy as np
import pytest

import wengert as wg
import wengert.numpy as wnp
from wengert import nn, optim
from wengert.train.not_finite import where_it_began
from wengert.train.source import Source


class Logarithm(nn.Module):
    def forward(self, x):
        return wnp.log(x)


def examples(bad=None):
    """Rows of ones; the logarithm of one of them is not finite."""
    x = np.ones((60, 3), np.float32)
    if bad is not None:
        x[bad] = -1.0
    return x, np.zeros((60, 2), np.float32)


def network():
    nn.manual_seed(0)
    return nn.Sequential(Logarithm(), nn.Linear(3, 2))


def fit(model, train, **options):
    optimizer = optim.Adam(model.parameters(), lr=0.25)
    options = {"shuffle": False, "progress": False, **options}
    return wg.fit(model, nn.mse_loss, optimizer, train, 2, 5, **options)


@pytest.mark.parametrize("row", [0, 26, 59])
def test_the_step_the_layer_and_what_to_try(row):
    model = network()
    with pytest.raises(FloatingPointError) as caught:
        fit(model, examples(row))
    error = caught.value
    assert str(error).partition("): ")[2] == (
        f"the loss is nan in step {row // 5 + 1} of epoch 1; it began in layer 0 (Logarithm), "
        "which made nan. Try a smaller learning rate (it is 0.25), clip_norm=1.0, or inputs of a "
        "smaller scale. The model is as it was before that step."
    )
    assert error.step == row // 5 and error.layer == "0"
    assert row in error.rows and len(error.rows) == 5
    assert error.history.step_count == row // 5


@pytest.mark.parametrize("each_step", [False, True])
def test_the_state_is_that_of_before_the_step(each_step):
    """With dropout, running means, and a schedule: all is as if training had ended there."""

    def training(x, y):
        nn.manual_seed(0)
        model = nn.Sequential(
            Logarithm(), nn.BatchNorm1d(3), nn.Dropout(0.5), nn.Linear(3, 2)
        )  # fmt: skip
        optimizer = optim.Adam(model.parameters(), lr=0.25)
        schedule = optim.CosineLR(optimizer, 100)
        every = "step" if each_step else "epoch"
        options = {"schedule": schedule, "schedule_every": every, "shuffle": False}
        history = None
        try:
            history = wg.fit(model, nn.mse_loss, optimizer, (x, y), 1, 5, progress=False, **options)
        except FloatingPointError as error:
            history = error.history
        return model.state_dict(), optimizer.state_dict(), schedule, history

    x = np.random.default_rng(0).uniform(0.5, 2.0, (60, 3)).astype(np.float32)
    y = np.zeros((60, 2), np.float32)
    bad = x.copy()
    bad[42] = -1.0
    model, optimizer, schedule, history = training(bad, y)
    expected = training(x[:40], y[:40])
    for name, array in expected[0].items():
        np.testing.assert_array_equal(model[name], array)
    for place, kept in expected[1]["state"].items():
        for name, array in kept.items():
            np.testing.assert_array_equal(optimizer["state"][place][name], array)
    np.testing.assert_array_equal(history.loss, expected[3].loss)
    if each_step:
        assert schedule.last_epoch == expected[2].last_epoch == 8
        assert optimizer["param_groups"][0]["lr"] == expected[1]["param_groups"][0]["lr"]


def test_a_schedule_that_turns_options_on_and_off():
    """The steps that are made again are made by the programs that made them first."""

    class Pulse(optim.Schedule):
        def rate(self, group, base):
            group["momentum"] = 0.0 if 3 <= self.last_epoch < 7 else 0.9
            return base

    def training(x, y):
        model = network()
        optimizer = optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
        options = {"schedule": Pulse(optimizer), "schedule_every": "step", "shuffle": False}
        with contextlib.suppress(FloatingPointError):
            wg.fit(model, nn.mse_loss, optimizer, (x, y), 1, 5, progress=False, **options)
        return model.state_dict(), optimizer.param_groups[0]["momentum"]

    x, y = np.full((60, 3), 2.0, np.float32), np.zeros((60, 2), np.float32)
    for step in (2, 6, 9):
        bad = x.copy()
        bad[5 * step] = -1.0
        found, expected = training(bad, y), training(x[: 5 * step], y[: 5 * step])
        for name, array in expected[0].items():
            np.testing.assert_array_equal(found[0][name], array)
        assert found[1] == expected[1]


def test_an_update_that_was_too_large():
    line = nn.Linear(1, 1)
    x = np.full((20, 1), 1e20, np.float32)
    optimizer = optim.SGD(line.parameters(), lr=1e30)
    with pytest.raises(FloatingPointError) as caught:
        wg.fit(line, nn.l1_loss, optimizer, (x, x), 5, 10, progress=False)
    assert "weight had " in str(caught.value)
    assert "before it: the update of the step before was too large" in str(caught.value)


def test_the_checkpoint_is_that_of_before(tmp_path):
    path = tmp_path / "run.safetensors"
    with pytest.raises(FloatingPointError):
        fit(network(), examples(59), checkpoint=path, checkpoint_steps=2)
    assert wg.load(path)["run"]["step"] == 10
    with pytest.raises(FloatingPointError, match="in step 12 of epoch 1"):
        fit(network(), examples(59), checkpoint=path)


def test_what_callbacks_change_is_not_lost():
    """The state of before is that with the changes of a callback in the same epoch."""

    class Reset:
        def on_progress(self, run):
            if run.step == 5:
                with wg.no_grad():
                    run.model[1].weight[...] = 0.0
                    run.model[1].bias[...] = 0.0
                run.optimizer.lr = 0.0

    model = network()
    with pytest.raises(FloatingPointError):
        fit(model, examples(59), callbacks=Reset())
    assert not model[1].weight.numpy().any() and not model[1].bias.numpy().any()


# ---------------------------------------------------------------- where it began


def where(model, x, y, loss=nn.mse_loss):
    return where_it_began(model, loss, np.asarray(x, np.float32), np.asarray(y, np.float32))


def test_the_innermost_module_is_named():
    class Block(nn.Module):
        def __init__(self):
            self.first, self.second = nn.Tanh(), Logarithm()

        def forward(self, x):
            return self.second(self.first(x))

    model = nn.Sequential(nn.ReLU(), Block(), nn.Softmax(-1))
    assert where(model, [[-1.0]], [[0.0]]) == (
        "1.second",
        "it began in layer 1.second (Logarithm), which made -inf",
    )
    assert "forward" not in vars(model) and "forward" not in vars(model[1].second)


def test_the_model_itself():
    class Inverse(nn.Module):
        def forward(self, x):
            return 1 / x

    assert where(Inverse(), [0.0], [0.0])[1] == (
        "it began in the model itself (Inverse), which made inf"
    )


def test_the_batch():
    assert where(nn.Tanh(), [np.nan], [0.0])[1] == "the batch itself has nan"


def test_a_buffer():
    model = nn.BatchNorm1d(2)
    model.running_var[...] = np.array([np.inf, 1.0], np.float32)
    x = np.ones((3, 2), np.float32)
    assert where(model, x, x)[1] == "the buffer running_var had inf before it"


def test_the_loss():
    def loss(output, y):
        return wnp.log(output - y).mean()

    assert where(nn.Tanh(), [0.0], [0.0], loss) == (
        "",
        "all layers are finite, the loss function made -inf",
    )


def test_nothing_to_find():
    assert where(nn.Tanh(), [0.0], [0.0])[1].startswith("evaluated by NumPy the same batch is")


def test_sources_scale_bytes_as_data_sets_do():
    values = np.arange(256, dtype=np.uint8)[:, None]
    x, _ = Source("fit", (values, values)).batch((values, values), np.arange(256))
    np.testing.assert_array_equal(x, values / np.float32(255))
    assert x.dtype == np.float32
