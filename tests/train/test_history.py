"""The history of a training: curves, plain data, a table, a picture."""

import json
import sys

import numpy as np
import pytest

import wengert as wg


def history(epochs=2, accuracy=True):
    made = wg.History()
    for epoch in range(epochs):
        curves = {"loss": np.array([2.0, 1.0]) / (epoch + 1)}
        record = {"loss": 1.5 / (epoch + 1), "validation_loss": 1.75 / (epoch + 1)}
        if accuracy:
            curves["accuracy"] = np.array([0.25, 0.5])
            record |= {"accuracy": 0.375, "validation_accuracy": 0.5}
        made.add_steps(curves)
        made.add_epoch({**record, "seconds": 0.5, "examples_per_second": 12345.6})
    return made


def test_curves():
    one = history()
    np.testing.assert_array_equal(one.loss, [2.0, 1.0, 1.0, 0.5])
    np.testing.assert_array_equal(one.accuracy, [0.25, 0.5, 0.25, 0.5])
    np.testing.assert_array_equal(one["validation_loss"], [1.75, 0.875])
    assert one.last["loss"] == 0.75
    assert (len(one), one.step_count, one.seconds) == (2, 4, 1.0)
    assert "loss" in one and "precision" not in one
    assert list(one)[:2] == ["loss", "validation_loss"]


def test_what_was_not_measured():
    with pytest.raises(ValueError) as caught:
        history(accuracy=False)["accuracy"]
    assert str(caught.value).endswith(
        "there is no 'accuracy'. Known are loss, validation_loss, seconds, examples_per_second."
    )
    with pytest.raises(ValueError) as caught:
        history(accuracy=False).accuracy
    assert str(caught.value).endswith(
        "no accuracy was measured. It is measured for integer labels, or as fit(..., metrics=...) "
        "says."
    )
    assert len(wg.History().loss) == 0 and wg.History().last == {}


def test_a_number_that_only_some_epochs_have():
    one = history()
    one.add_epoch({"loss": 0.1, "special": 3.0})
    np.testing.assert_array_equal(one["special"], [np.nan, np.nan, 3.0])


def test_plain_data(tmp_path):
    one = history()
    again = wg.History.from_dict(json.loads(json.dumps(one.to_dict())))
    assert again.to_dict() == one.to_dict()
    one.add_epoch({"loss": np.nan})
    text = one.to_json(tmp_path / "history.json")
    assert (tmp_path / "history.json").read_text() == text
    assert json.loads(text)["epochs"][2]["loss"] is None


def test_the_table():
    lines = repr(history(1)).splitlines()
    assert lines == [
        "1 epoch, 2 steps, 0.5 s",
        "  epoch    loss  validation loss  accuracy  validation accuracy  seconds  "
        "examples per second",
        "      1  1.5000           1.7500    37.50%               50.00%      0.5  "
        "             12,346",
    ]
    long = repr(history(100)).splitlines()
    assert len(long) == 1 + 1 + 8 + 1 + 8
    assert long[10].split() == ["..."] and long[11].split()[0] == "93"
    assert repr(wg.History()) == "no steps yet"


@pytest.mark.parametrize("suffix", ["png", "svg"])
def test_the_picture(tmp_path, suffix):
    pytest.importorskip("matplotlib")
    path = tmp_path / f"curves.{suffix}"
    figure = history().plot(path)
    assert path.stat().st_size > 1000
    loss, accuracy = figure.axes
    assert (loss.get_ylabel(), accuracy.get_ylabel()) == ("loss", "accuracy")
    step, epoch, validation = loss.lines
    np.testing.assert_allclose(step.get_xdata(), [0.5, 1.0, 1.5, 2.0])
    np.testing.assert_array_equal(epoch.get_ydata(), [1.5, 0.75])
    np.testing.assert_array_equal(validation.get_ydata(), [1.75, 0.875])


def test_the_picture_of_nothing():
    pytest.importorskip("matplotlib")
    assert len(wg.History().plot().axes) == 1


def test_without_matplotlib(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ImportError) as caught:
        history().plot()
    assert str(caught.value).endswith(
        "matplotlib is not installed. Install it with: pip install 'wengert[plots]'."
    )
