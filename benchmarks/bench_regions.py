"""Training steps in each kind of blocks, and operator by operator.

Run ``python benchmarks/bench_regions.py``, with names of networks to choose among them. For each
network the time of a step on one thread is printed; the kind with the smallest estimate is what a
program gets, and what `explain` tells the estimates of. Kinds that do not suit a network leave its
step as it is apart.
"""

import os

os.environ["WENGERT_THREADS"] = "1"
os.environ["WENGERT_CACHE"] = "off"  # it does not know which kind is being measured

import sys
import time

from wengert import machine
from wengert.bench import cnn

SECONDS_A_CASE = 2.0
KINDS = {
    "a lane a sample": ("lanes",),
    "a lane a channel": ("channels",),
    "as outside": ("matrices",),
    "apart": (),
}


def three_convolutions(first, second):
    """A network with padded 3x3 convolutions of so many channels."""
    layers = [("conv", 1, first, 3, 1, 1), ("relu",), ("conv", first, first, 3, 1, 1), ("relu",)]
    layers += [("pool", 2), ("conv", first, second, 3, 1, 1), ("relu",), ("pool", 2), ("flatten",)]
    return [*layers, ("linear", 49 * second, 84), ("relu",), ("linear", 84, 10)]


NETWORKS = {
    "digits": cnn.digit_network(),
    "8-32": cnn.digit_network((8, 32)),
    "5x5": cnn.digit_network(kernel=5, padding=2),
    "8-8-8": three_convolutions(8, 8),
    "8-8-16": three_convolutions(8, 16),
    "12-12-40": three_convolutions(12, 40),
    "16-16-16": three_convolutions(16, 16),
    "16-16-32": three_convolutions(16, 32),
    "vgg": cnn.vgg(),
}


def step_of(layers):
    """A compiled training step, as a function of nothing."""
    return cnn.with_wengert(layers, 100)()


def best_time(function):
    """Milliseconds of the best of many calls."""
    best, end = float("inf"), time.perf_counter() + SECONDS_A_CASE
    while time.perf_counter() < end:
        start = time.perf_counter()
        function()
        best = min(best, time.perf_counter() - start)
    return 1e3 * best


def main(names):
    """Print one line for each network and kind."""
    for name in names or NETWORKS:
        for kind, layouts in KINDS.items():
            with machine.use(regions={"layouts": layouts}):
                run = step_of(NETWORKS[name])
                run()
            print(f"{name:<10} {kind:<17} {best_time(run):8.2f} ms", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
