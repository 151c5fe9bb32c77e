"""Types of values."""

import numpy as np
import pytest

import wengert as wg
from wengert.types import (
    ArrayType,
    dtype_name,
    inexact_dtype,
    is_weak,
    result_dtype,
    type_of,
    weaken,
)


@pytest.mark.parametrize(
    "value, text",
    [
        (np.zeros((8, 2), np.float32), "f32[8,2]"), (np.zeros(3), "f64[3]"), (np.float32(1), "f32"),
        (np.zeros((0, 1)), "f64[0,1]"), (1.0, "f64*"), (1, "i64*"), (1j, "c128*"), (True, "bool"),
        (np.bool_(True), "bool"), (np.zeros(2, np.uint8), "u8[2]"), (np.int16(3), "i16"),
        (np.zeros(1, np.complex64), "c64[1]"), ([1.0, 2.0], "f64[2]"),
        (np.zeros(1, np.float16), "f16[1]"),
    ],
)  # fmt: skip
def test_text(value, text):
    assert str(type_of(value)) == text


def test_tuples_and_traced_values():
    assert type_of((1.0, np.ones(2))) == (type_of(1.0), type_of(np.ones(2)))
    seen = []
    wg.grad(lambda x: seen.append(type_of(x)) or np.sum(x))(np.ones((2, 3)))
    assert seen == [ArrayType(np.dtype(float), (2, 3))]


def test_sizes():
    assert (ArrayType(np.dtype(float), (2, 3)).size, ArrayType(np.dtype(float), ()).size) == (6, 1)
    assert ArrayType(np.dtype(float), (2, 0)).size == 0
    assert ArrayType(np.dtype(float), (2, 3)).ndim == 2


def test_inexact():
    kinds = {"float32": True, "complex64": True, "int64": False, "bool": False}
    for name, expected in kinds.items():
        assert ArrayType(np.dtype(name), ()).inexact is expected
    assert inexact_dtype(np.dtype(np.int8)) == np.float64
    assert inexact_dtype(np.dtype(np.float32)) == np.float32


@pytest.mark.parametrize("one", ["float32", "float64", "int8", "int64", "bool", "complex64"])
@pytest.mark.parametrize("other", [1, 1.0, 1j, "float32", "float64", "int32", "uint8", "bool"])
def test_promotion_is_numpys(one, other):
    array = np.ones(1, one)
    second = np.ones(1, other) if isinstance(other, str) else other
    assert result_dtype(type_of(array), type_of(second)) == np.result_type(array, second)


def test_names():
    assert dtype_name(np.dtype(np.float32)) == "f32"
    assert dtype_name(np.dtype("<U3")) == "<U3"


def test_weaken():
    assert type(weaken(np.float64(2))) is float and type(weaken(np.int64(2))) is int
    assert type(weaken(np.array(2.0))) is float
    assert weaken(np.bool_(True)) is np.bool_(True)
    assert is_weak(type_of(1.0)) and not is_weak(type_of(np.float64(1)))
    assert not is_weak((type_of(1.0), type_of(1.0)))
