"""Connectionist temporal classification: the likelihood of labels without their times.

A path says a label, or blank, at each time; labels that follow each other at once are one, and
blanks are left out. The sum over all paths that say the targets is made from time to time, over
the places in the targets with blanks between them (Graves et al. 2006).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import numpy as wnp
from ...errors import ShapeError, explain
from ...transforms import scan
from .losses import reduced

__all__ = ["ctc_loss"]

# The logarithm of what is impossible; sums of them stay finite, and so do their derivatives.
_NEVER = -1e30


def ctc_loss(
    log_probs: Any,
    targets: Any,
    input_lengths: Any,
    target_lengths: Any,
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
) -> Any:
    """Minus the log-likelihood of label sequences under (times, samples, classes) of
    log-probabilities.

    `targets` are (samples, labels), or all sequences one after the other; the lengths say how
    much of each counts. The mean is that of the losses divided by the lengths of the targets.
    Targets longer than the input can say have the loss infinity, or 0 with `zero_infinity`, and
    no derivative.

    >>> import numpy as np
    >>> even = np.log(np.full((2, 1, 2), 0.5))
    >>> loss = ctc_loss(even, np.array([[1]]), np.array([2]), np.array([1]))
    >>> float(np.exp(-loss).round(6))  # of four paths "1 1", "1 _" and "_ 1"
    0.75
    """
    single = len(np.shape(log_probs)) == 2
    if single:
        log_probs = wnp.expand_dims(log_probs, 1)
    given, lengths = (_each_sample(one) for one in (input_lengths, target_lengths))
    labels = _rows(targets, lengths, np.shape(log_probs)[1])
    _check(np.shape(log_probs), np.shape(labels), np.shape(given), np.shape(lengths))
    losses = -_likelihood(log_probs, labels, given, lengths, blank)
    impossible = losses > -1e-10 * _NEVER
    losses = wnp.where(impossible, 0.0 if zero_infinity else np.inf, losses)
    if reduction == "mean":
        losses = losses / wnp.maximum(lengths, 1).astype(losses.dtype)
    losses = wnp.squeeze(losses, 0) if single and reduction == "none" else losses
    return reduced("ctc_loss", losses, reduction)


def _each_sample(lengths: Any) -> Any:
    lengths = np.asarray(lengths) if isinstance(lengths, (int, tuple, list)) else lengths
    return wnp.reshape(lengths, (-1,))


def _rows(targets: Any, lengths: Any, samples: int) -> Any:
    """(samples, labels), whatever stands behind the end of each."""
    own = np.shape(targets)
    if len(own) == 2:
        return targets
    if samples == 1:
        return wnp.expand_dims(targets, 0)
    known = type(lengths) is np.ndarray
    longest = int(lengths.max(initial=0)) if known else own[0]
    starts = wnp.cumsum(lengths) - lengths
    places = wnp.expand_dims(starts, 1) + np.arange(longest)
    return wnp.take(targets, wnp.minimum(places, own[0] - 1))


def _check(probs: Any, labels: Any, given: Any, lengths: Any) -> None:
    samples = probs[1] if len(probs) == 3 else -1
    if not (labels[0] == samples and given == lengths == (samples,)):
        raise ShapeError(
            explain(
                "ctc_loss",
                f"got log_probs of shape {probs}, targets of {labels[0]} samples, input_lengths "
                f"of shape {given} and target_lengths of shape {lengths}",
                "Give (times, samples, classes), and targets and both lengths of each sample.",
            )
        )


def _likelihood(log_probs: Any, labels: Any, given: Any, lengths: Any, blank: int) -> Any:
    """The logarithm of the sum over all paths, for each sample."""
    times, samples, _ = np.shape(log_probs)
    count = np.shape(labels)[1]
    places = 2 * count + 1
    counts = np.arange(count) < wnp.expand_dims(lengths, 1)
    labels = wnp.where(counts, labels, blank)
    blanks = np.full((samples, count), blank)
    between = wnp.reshape(wnp.stack([blanks, labels], axis=2), (samples, 2 * count))
    said = wnp.concatenate([between, np.full((samples, 1), blank)], axis=1)
    # from a label to the next one, unless they are equal: then a blank must be between
    skips = wnp.concatenate(
        [np.zeros((samples, 2), bool), (said[:, 2:] != blank) & (said[:, 2:] != said[:, :-2])],
        axis=1,
    )  # fmt: skip
    index = wnp.broadcast_to(wnp.expand_dims(said, 0), (times, samples, places))
    rows = wnp.take_along_axis(log_probs, index, axis=2)
    begins = np.arange(places) < 2
    start = wnp.where(begins, rows[0], _NEVER)
    never = np.full((samples, 1), _NEVER, log_probs.dtype)

    def step(reached: Any, now: Any) -> tuple[Any, None]:
        row, time = now
        before = wnp.concatenate([never, reached], axis=1)[:, :-1]
        skipped = wnp.concatenate([never, before], axis=1)[:, :-1]
        total = wnp.logaddexp(reached, before)
        total = wnp.logaddexp(total, wnp.where(skips, skipped, _NEVER))
        on = wnp.expand_dims(time < given, 1)
        return wnp.where(on, wnp.maximum(total + row, _NEVER), reached), None

    reached, _ = scan(step, start, (rows[1:], np.arange(1, times)))
    last = wnp.expand_dims(2 * lengths, 1)
    ends = wnp.take_along_axis(reached, last, axis=1)
    labelled = wnp.take_along_axis(reached, wnp.maximum(last - 1, 0), axis=1)
    total = wnp.logaddexp(ends, wnp.where(last > 0, labelled, _NEVER))
    return wnp.squeeze(total, 1)
