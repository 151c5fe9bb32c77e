"""The same trainings in other libraries, each as a job in a process of its own.

A job has the arguments of `training.train_seeds` and emits the same: the same images, network,
initial distribution, batches, rate and epochs, in the way the library's users write it. A
library is imported when its job runs, never before.
"""

from __future__ import annotations

# The module of this package for each library.
MODULES = {"torch": "in_torch", "jax": "in_jax", "keras": "in_keras"}


def task_of(peer: str) -> str:
    """The job that trains in a library.

    >>> task_of("torch")
    'wengert.experiments.peers.in_torch:train_seeds'
    """
    return f"{__name__}.{MODULES[peer]}:train_seeds"
