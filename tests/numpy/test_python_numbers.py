"""Python numbers beside arrays in functions that make arrays of them: the dtypes of NumPy."""

import numpy as np
import pytest

import wengert as wg
import wengert.numpy as wnp
from wengert.errors import OutOfRangeError

DTYPES = ("?", "i1", "u1", "i4", "u8", "f2", "f4", "f8")
PRODUCTS = {
    "dot": np.dot,
    "inner": np.inner,
    "outer": np.outer,
    "kron": np.kron,
    "tensordot": lambda number, x: np.tensordot(number, x, 0),
    "einsum": lambda number, x: np.einsum(",i->i", number, x),
    "einsum summed": lambda number, x: np.einsum("i,->", x, number),
    "einsum of three": lambda number, x: np.einsum("i,,i->i", x, number, x),
    "linspace": lambda number, x: np.linspace(x, number, 3),
    "linspace from": lambda number, x: np.linspace(number, x, 3),
}


def assert_like_numpy(function, *args):
    want = function(*args)
    batched = wg.vmap(function)(*[arg[None] for arg in args])[0]
    for got in (wg.jit(function)(*args), batched):
        assert got.dtype == want.dtype
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("name", PRODUCTS)
def test_numbers_beside_arrays(name):
    for dtype in DTYPES:
        for number in (3, 2.5, True):
            assert_like_numpy(
                lambda x, number=number: PRODUCTS[name](number, x), np.arange(3).astype(dtype)
            )


def test_powers_of_masks():
    mask = np.array([True, False])
    for exponent in (0, 1, 2, 3, 2.0, True):
        assert_like_numpy(lambda x, exponent=exponent: x**exponent, mask)


# ---------------------------------------------------------------- positions

POSITIONS = {
    "ravel_multi_index": lambda k: np.ravel_multi_index((k, 1 - k), (2, 2)),
    "ravel_multi_index F": lambda k: np.ravel_multi_index((k, k), (2, 3), order="F"),
    "unravel_index": lambda k: np.unravel_index(k, (1, 2))[1],
    "choose": lambda k: np.choose(k, [np.arange(2), 5]),
}


@pytest.mark.parametrize("name", POSITIONS)
def test_positions_are_checked(name):
    function = POSITIONS[name]
    for dtype in (np.int8, np.int64, np.uint8):
        assert_like_numpy(function, np.array([0, 1], dtype))
        for wrong in ([0, 2], [-1, 1], [100, 0]):
            if min(wrong) < 0 and dtype is np.uint8:
                continue
            k = np.array(wrong, dtype)
            for run in (function, wg.jit(function), lambda k: wg.vmap(function)(k[None])):
                with pytest.raises(ValueError):
                    run(k)


def test_the_error_of_a_wrong_position():
    f = wg.jit(POSITIONS["choose"])
    with pytest.raises(OutOfRangeError, match="got the position 7, expected 0 to 1"):
        f(np.array([0, 7]))


def test_modes_of_positions():
    for mode in ("wrap", "clip", ("wrap", "clip")):
        assert_like_numpy(
            lambda k, mode=mode: np.ravel_multi_index((k, k), (2, 3), mode), np.array([-1, 5])
        )


@pytest.mark.parametrize("number", [-3, 2.5])
def test_an_array_of_a_number_is_one_of_64_bits(number):
    """As in NumPy, where it widens what it meets, and is cut off by a conversion."""
    for f in (
        lambda n: wnp.asarray(n) * np.ones(2, np.float32),
        lambda n: wnp.astype(wnp.asarray(n * n), np.uint8),
    ):
        want = f(number)
        got = wg.jit(f)(number)
        assert got.dtype == want.dtype
        np.testing.assert_array_equal(got, want)
