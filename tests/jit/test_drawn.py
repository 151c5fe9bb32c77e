"""Random numbers that are drawn while a function is compiled are constants, and that is said."""

import random
import subprocess
import sys
import warnings

import numpy as np
import pytest

import wengert as wg
import wengert.numpy as wnp
from wengert.errors import ConstantRandomWarning

RNG = np.random.default_rng(0)


class Noise:
    def __init__(self):
        self.rng = np.random.RandomState(1)

    def added(self, x):
        return x + self.rng.normal()


def helper(x):
    return x * RNG.uniform()


OWN = np.random.default_rng(1)
NOISE = Noise()


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x + np.random.rand(),
        lambda x: x + random.random(),
        lambda x: x + RNG.normal(size=3),
        lambda x: helper(x) + 1.0,
        lambda x: NOISE.added(x),
        lambda x, rng=OWN: x + rng.normal(),
        wg.grad(lambda x: np.sum(x * RNG.normal(size=3))),
    ],
)
def test_drawing_is_told_at_the_line_of_the_call(function):
    compiled = wg.jit(function)
    with pytest.warns(ConstantRandomWarning, match="are the same in every call") as record:
        first = compiled(np.ones(3))
    assert [one.filename for one in record] == [__file__]
    np.testing.assert_array_equal(compiled(np.ones(3)), first)


def test_what_is_no_use_of_a_generator():
    def steady(x):
        return x + np.random.default_rng(0).normal() + wnp.random.normal(wnp.random.key(0))

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        wg.jit(steady)(1.0)
        wg.jit(lambda x: x * 2.0)(1.0)
        helper(1.0)
        assert wg.grad(lambda x: helper(x))(1.0) != wg.grad(lambda x: helper(x))(1.0)


FIRST = """
import sys, warnings
import numpy as np
import wengert as wg
warnings.simplefilter("error")
assert "numpy.random" not in sys.modules
try:
    wg.jit(lambda x: x + {drawn})(1.0)
except wg.errors.ConstantRandomWarning:
    print("told")
"""


@pytest.mark.parametrize(
    ("drawn", "said"), [("np.random.rand()", "told"), ("np.random.default_rng(0).normal()", "")]
)
def test_the_first_use_of_all(drawn, said):
    """NumPy imports its random numbers when somebody first asks for them."""
    code = FIRST.format(drawn=drawn)
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == said
