"""Functions of `nn.functional` under all transforms: batches, and derivatives of derivatives.

Their values and first derivatives are compared with PyTorch's in `tests/peers`.
"""

import numpy as np
import pytest

import wengert as wg
from layer_cases import FUNCTIONS
from wengert.nn import functional

DRAWING = {name for name in FUNCTIONS if "dropout" in name}  # new numbers in each call
# not a function of arrays of floats, or with noise in training
NAMES = sorted(set(FUNCTIONS) - DRAWING - {"one_hot"})


def is_float(value):
    return isinstance(value, np.ndarray) and value.dtype.kind == "f"


def of_floats(name):
    """The function of its arrays of floats alone, and these, in double precision."""
    arguments = FUNCTIONS[name]
    places = [n for n, value in enumerate(arguments) if is_float(value)]

    def run(*arrays):
        filled = list(arguments)
        for place, array in zip(places, arrays, strict=True):
            filled[place] = array
        found = getattr(functional, name)(*filled)
        return found[0] if isinstance(found, tuple) else found

    return run, [arguments[place].astype(np.float64) for place in places]


@pytest.mark.parametrize("name", NAMES)
def test_batches(name):
    run, arrays = of_floats(name)
    others = [array * 0.9 for array in arrays]
    together = [np.stack(pair) for pair in zip(arrays, others, strict=True)]
    wanted = np.stack([run(*arrays), run(*others)])
    np.testing.assert_allclose(wg.vmap(run)(*together), wanted, rtol=1e-12, atol=1e-13)


def in_part(run, arrays):
    """The function along one direction through its arguments: two numbers in, a number out."""
    rng = np.random.default_rng(3)
    directions = [rng.standard_normal((2, *array.shape)) * 0.1 for array in arrays]
    weights = rng.standard_normal(np.shape(run(*arrays)))

    def along(s, t):
        moved = [a + s * d[0] + t * d[1] for a, d in zip(arrays, directions, strict=True)]
        return (run(*moved) * weights).sum()

    return along


@pytest.mark.parametrize("name", NAMES)
def test_second_derivatives(name):
    along = in_part(*of_floats(name))
    wg.check_grads(along, (0.0, 0.0), order=2)
