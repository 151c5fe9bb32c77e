"""Run on every rank: the last one leaves in some way, the others go on or not.

python leaving.py HOW
"""

import os
import signal
import sys
import time

import numpy as np

import wengert as wg
from wengert.job import world

RANK, SIZE = wg.distributed.rank(), wg.distributed.size()
SUM = wg.jit(lambda x: wg.distributed.all_reduce(x))


def leave(how):
    """What the last rank does."""
    if how == "raise":
        raise SystemExit(1)
    if how == "exit":
        sys.exit("enough")
    if how.startswith("SIG"):
        time.sleep(0.5)  # mpiexec passes on what was written, before it ends all
        os.kill(os.getpid(), getattr(signal, how))
        time.sleep(60)


if __name__ == "__main__":
    how = sys.argv[1]
    print("ready", SUM(np.ones(3))[0], flush=True)
    SUM(np.ones(3))  # all have written it
    if how in ("good", "all leave"):  # each in its own time, which is nobody's fault
        time.sleep(0.4 * RANK)
        sys.exit(3 if how == "all leave" else 0)
    if RANK == SIZE - 1:
        leave(how)
    else:
        SUM(np.ones(3))
        if how == "early":
            world().agreed(1)
