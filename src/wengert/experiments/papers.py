"""What the sources report, each figure once.

Accuracies are on test data, after the epoch that the key names. Bytes are what was allocated in
the whole training, added up, as Julia and the PyTorch profiler count them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

GIB = 2**30


@dataclass(frozen=True)
class Reported:
    """One row of a paper's table."""

    system: str
    source: str
    accuracy: Mapping[int, float] = field(default_factory=dict)
    seconds: float | None = None
    epoch_seconds: float | None = None
    allocated: float | None = None


# J. Maciejewski, M. Ziober: Fast implementation of an automatic backward differentiation in Julia
_CNN_A = "Maciejewski, Ziober"
# D. Stankowski, T. Gryczka: Implementation of automatic differentiation in Julia
_CNN_B = "Stankowski, Gryczka"
# M. Ankiersztajn, P. Tecza: Performant and accurate automatic differentiation for RNNs
_RNN = "Ankiersztajn, Tecza"

CNN = (
    Reported("Keras", _CNN_A, {5: 0.9655}),
    Reported("their Julia", _CNN_A, {5: 0.96202}, epoch_seconds=35.0, allocated=7442 * GIB),
    Reported("Flux", _CNN_A, {5: 0.9536}, allocated=41576 * GIB),
    Reported("their Julia", _CNN_B, {5: 0.9559}, seconds=168.7, allocated=250.632 * GIB),
    Reported("Flux", _CNN_B, {5: 0.9467}, seconds=33.5, allocated=15.80 * GIB),
    Reported("PyTorch", _CNN_B, {5: 0.9459}, seconds=36.9),
)
# Reached "eventually"; the paper does not say after how many epochs.
FASHION_ACCURACY = 0.85
FASHION_SOURCE = _CNN_A

RNN = (
    Reported("their Julia", _RNN, {5: 0.9224}, seconds=11.53, allocated=4.59 * GIB),
    Reported("Flux", _RNN, {5: 0.944}, seconds=12.78, allocated=13.16 * GIB),
    Reported("PyTorch", _RNN, {5: 0.9455}, seconds=11.88, allocated=31.57 * GIB),
)

# E. Salimbeni, M. Zeller, F. Mutlu: Automatic differentiation (training and test accuracy)
CIRCLES = {
    "tanh": (0.983, 0.969),
    "tanh clipped": (0.985, 0.970),
    "relu": (0.976, 0.965),
    "relu clipped": (0.968, 0.964),
    "sigmoid": (0.980, 0.970),
    "sigmoid clipped": (0.970, 0.960),
}

# Digits that wengert draws are easier than MNIST's, so they have bars of their own: half a point
# less than was reached on them, the least of three runs of `cnn` and of `rnn` with the lower rate.
DRAWN_CNN = 0.978
DRAWN_FASHION = 0.99
DRAWN_RNN = {0.015: 0.957, 0.1: 0.984}


def best(rows: tuple[Reported, ...], epoch: int) -> float:
    """The highest accuracy that any row reports after an epoch.

    >>> best(CNN, 5)
    0.9655
    """
    return max(row.accuracy[epoch] for row in rows if epoch in row.accuracy)
