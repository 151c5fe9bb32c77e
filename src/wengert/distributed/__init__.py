"""Many processes as one program, over MPI: `mpiexec -n 64 python train.py`.

Each process is a *rank*; all run the same script. `wg.fit` shares the work out by itself. Whoever
writes training loops of their own finds the operations here: they are differentiated, batched and
compiled like any other, and inside `jit` the generated code calls MPI itself. With a single process
they need no MPI and give back what they got.

>>> import numpy as np
>>> from wengert import distributed
>>> distributed.rank(), distributed.size()
(0, 1)
>>> distributed.all_reduce(np.arange(3.0))
array([0., 1., 2.])
"""

from ..job import init, rank, size
from .functions import all_gather, all_reduce, broadcast, reduce_scatter

__all__ = [
    "all_gather",
    "all_reduce",
    "broadcast",
    "init",
    "rank",
    "reduce_scatter",
    "size",
]
