"""What compiled programs do without NumPy, and special functions as accurate as evaluated."""

import numpy as np
import pytest

import wengert as wg
from wengert import machine
from wengert.jit import jit
from wengert.loops import Host
from wengert.ops import REGISTRY
from wengert.passes import optimise
from wengert.schedule import schedule
from wengert.schedule.steps import STEPS

RNG = np.random.default_rng(17)
NAN, INF = np.nan, np.inf
CORNERS = np.array([0.0, -0.0, INF, -INF, NAN, 1.0, -1.0, 2.0, 0.5, -0.5, 1e-310, 1e300])


def wide(low, high, count=60):
    return np.exp(RNG.uniform(np.log(low), np.log(high), count))


def line(low, high):
    return np.concatenate([RNG.uniform(low, high, 60), CORNERS])


# name: points, params, allowed difference in units of 2^-52
CASES = {
    "erf": (np.concatenate([line(-7, 7), wide(1e-300, 8)]), {}, 4),
    "erfc": (line(-7, 26), {}, 8),
    "erfcx": (np.concatenate([line(-26, 10), wide(1e-5, 1e3)]), {}, 8),
    "erfinv": (np.concatenate([line(-1, 1), 1 - wide(1e-15, 0.3)]), {}, 8),
    "erfcinv": (np.concatenate([line(0, 2), wide(1e-300, 0.9)]), {}, 8),
    "ndtr": (line(-37, 37), {}, 8),
    "log_ndtr": (np.concatenate([line(-37, 37), -wide(1e-5, 1e3)]), {}, 8),
    "gammaln": (np.concatenate([line(0.01, 15), wide(1e-300, 1e300)]), {}, 16),
    "gamma": (np.concatenate([line(-15, 171), np.arange(1.0, 172)]), {}, 16),
    "logit": (line(0, 1), {}, 8),
    "expit": (line(-50, 50), {}, 8),
    "softplus": (line(-50, 50), {}, 8),
    "sinc": (line(-5, 5), {"n": 0}, 64),
    "bessel_i": (line(-30, 30), {"n": 1, "scaled": True}, 16),
    "polygamma": (np.concatenate([line(0.01, 15), wide(1e-15, 1e10)]), {"n": 1}, 16),
}


@pytest.mark.parametrize("name", CASES)
def test_compiled_is_as_accurate_as_evaluated(name):
    points, params, allowed = CASES[name]
    function = lambda x: REGISTRY[name](x, **params)
    with np.errstate(all="ignore"):
        want, got = function(points), jit(function)(points)
        finite = np.isfinite(want)
        np.testing.assert_array_equal(got[~finite], want[~finite])
        error = np.abs(got - want)[finite] / np.maximum(np.abs(want[finite]), 1e-290)
    assert error.max() <= allowed * 2.0**-52, points[finite][error.argmax()]


def native_samples(op):
    """Arguments, not empty, of numbers that compiled code has."""
    for args, params in op.samples(np.random.default_rng(1)) if op.samples else []:
        result = op(*args, **params)
        results = result if isinstance(result, tuple) else (result,)
        if all(np.size(x) and np.result_type(x).kind in "biufc" for x in (*args, *results)):
            yield args, params


LIBRARY = {name for step in STEPS if step.name == "library" for name, _ in step.rules}


@pytest.mark.parametrize(
    "name", sorted(name for name, op in REGISTRY.items() if not op.hosted or name in LIBRARY)
)
def test_no_call_of_numpy(name):
    """An operation has loops, or is made of others that have; or its entry says why not."""
    op = REGISTRY[name]
    for args, params in native_samples(op):
        graph = wg.trace(lambda *xs, p=params: op(*xs, **p), *args)
        with machine.use(lapack="numpy64", numpy_loops=True):
            kernels = schedule(optimise(graph)).kernels
        assert not any(isinstance(kernel, Host) for kernel in kernels), (args, params)
