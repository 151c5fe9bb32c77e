"""The papers' trainings in Keras, with whichever backend it finds."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import images
from ..workers import Emit
from .common import EVALUATED, emit_memory, run_seeds


def build(network: dict[str, Any], seed: int, lr: float) -> Any:
    """The network with weights from the same distributions; biases are zero."""
    import keras

    keras.utils.set_random_seed(seed)
    start = "glorot_uniform" if network["scheme"] == "glorot" else "he_uniform"
    layers = keras.layers
    if network["kind"] == "rnn":
        steps, hidden = network["steps"], network["hidden"]
        inner = [
            layers.Reshape((steps, 784 // steps)),
            layers.SimpleRNN(hidden, kernel_initializer=start, recurrent_initializer=start),
        ]
    else:
        inner = [
            layers.Conv2D(6, 3, activation="relu", kernel_initializer=start),
            layers.MaxPooling2D(2),
            layers.Conv2D(16, 3, activation="relu", kernel_initializer=start),
            layers.MaxPooling2D(2),
            layers.Flatten(),
            layers.Dense(84, activation="relu", kernel_initializer=start),
        ]
    last = layers.Dense(10, kernel_initializer=start)
    model = keras.Sequential([keras.Input((28, 28, 1)), *inner, last])
    model.compile(
        optimizer=keras.optimizers.SGD(lr),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    return model


class KerasTraining:
    """One network in training."""

    def __init__(self, model: Any, train: Any, test: Any, batch_size: int):
        self.model, self.batch_size = model, batch_size
        self.train, self.held = _channels_last(train), _channels_last(test)

    def epoch(self) -> tuple[list[Any], list[Any]]:
        """All images once, in a new order; Keras tells means over the epoch so far."""
        import keras

        losses, accuracies = [], []

        def note(batch: int, logs: Any) -> None:
            losses.append(float(logs["loss"]))
            accuracies.append(float(logs["accuracy"]))

        seen = keras.callbacks.LambdaCallback(on_train_batch_end=note)
        self.model.fit(*self.train, self.batch_size, 1, verbose=0, callbacks=[seen])
        return losses, accuracies

    def accuracy(self) -> float:
        """On the test images."""
        _, right = self.model.evaluate(*self.held, EVALUATED, verbose=0)
        return float(right)


def _channels_last(split: Any) -> tuple[np.ndarray, np.ndarray]:
    return np.moveaxis(split.x, 1, -1), split.y


def train_seeds(
    emit: Emit,
    *,
    data_name: str,
    network: dict[str, Any],
    lr: float,
    epochs: int,
    seeds: int,
    batch_size: int = 100,
    folder: str | None = None,
    limit: int | None = None,
) -> None:
    """The job: train from each seed."""
    train, test = images.load(data_name, folder, limit)

    def begin(seed: int) -> KerasTraining:
        return KerasTraining(build(network, seed, lr), train, test, batch_size)

    run_seeds(emit, begin, epochs, seeds)
    emit_memory(emit)
