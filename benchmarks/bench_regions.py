"""Training steps in each kind of blocks, and operator by operator.

Run ``python benchmarks/bench_regions.py``, with names of networks to choose among them. For each
network the time of a step on one thread is printed beside what `schedule.regions` estimates for
two; the kind with the smallest estimate is what a program gets. A dash: the kind does not suit it.
"""

import os

os.environ["WENGERT_THREADS"] = "1"
os.environ["WENGERT_CACHE"] = "off"  # it does not know which kind is being measured

import sys
import time

from wengert.bench import cnn
from wengert.schedule import regions, weighing

SECONDS_A_CASE = 2.0
KINDS = {
    "a lane a sample": [regions.LaneCutter],
    "a lane a channel": [regions.ChannelCutter],
    "as outside": [regions.MatrixCutter],
    "apart": [],
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


def estimates():
    """A list that the estimates of all graphs cut from now on go to."""
    found, cut = [], regions.cut_regions

    def watched(graph):
        best = regions.best_of(regions.cutters_of(graph))
        apart = None if regions.CUTTERS else weighing.time_apart(graph.operators)
        found.append(best.time if best else apart)
        return cut(graph)

    import wengert.schedule.fusion

    wengert.schedule.fusion.cut_regions = watched
    return found


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
    found = estimates()
    for name in names or NETWORKS:
        for kind, cutters in KINDS.items():
            regions.CUTTERS = cutters
            found.clear()
            run = step_of(NETWORKS[name])
            run()
            if found[0] is None:
                print(f"{name:<10} {kind:<17}        -")
                continue
            print(f"{name:<10} {kind:<17} {best_time(run):8.2f} ms  estimated "
                  f"{found[0] / 1e3:8.2f} ms", flush=True)  # fmt: skip


if __name__ == "__main__":
    main(sys.argv[1:])
