"""Numbers at several lengths are recognised as functions of the length, or not at all."""

import math

import numpy as np
import pytest

from wengert.graph import Graph, Variable
from wengert.passes.formulas import fit
from wengert.passes.lengths import LENGTHS
from wengert.types import ArrayType

F64, F32, I64 = np.dtype(np.float64), np.dtype(np.float32), np.dtype(np.int64)

FORMULAS = {
    "1.0 / n": (lambda n: 1 / n, F64),
    "2.5 * n": (lambda n: 2.5 * n, F64),
    "0.1 * n + 0.7": (lambda n: 0.1 * n + 0.7, F64),
    "3.0 / (n - 1)": (lambda n: 3 / (n - 1), F64),
    "1.0 / n**0.5": (lambda n: 1 / math.sqrt(n), F64),
    "0.5 * n**0.5": (lambda n: math.sqrt(n) / 2, F64),
    "1.0 / n**2": (lambda n: 1 / n**2, F64),
    "1.0 / (n - 1) + 1.0": (lambda n: n / (n - 1), F64),
    "-1.0 / n + 1.0": (lambda n: (n - 1) / n, F64),
    "7 * n + -3": (lambda n: 7 * n - 3, I64),
    "1 * n**2": (lambda n: n * n, I64),
    "1.0 / n ": (lambda n: 1 / n, F32),
}


@pytest.mark.parametrize("text", FORMULAS)
def test_simple_functions(text):
    function, dtype = FORMULAS[text]
    formula = fit([dtype.type(function(n)) for n in LENGTHS], LENGTHS, dtype)
    assert str(formula) == text.strip()
    for n in (2, 3, 1000, 12345):
        assert formula.at(n) == pytest.approx(function(n), rel=1e-6 if dtype == F32 else 1e-13)


def test_a_count_without_some_is_found():
    function = lambda n: 36 * n / (36 * n - 1)
    formula = fit([function(n) for n in LENGTHS], LENGTHS, F64)
    for n in (1, 2, 50, 10**6):
        assert formula.at(n) == pytest.approx(function(n), rel=1e-14)


@pytest.mark.parametrize(
    ("function", "dtype"),
    [
        (math.log, F64),
        (lambda n: min(n, 400), I64),
        (lambda n: n // 100, I64),
        (lambda n: float(min(n, 400)), F64),
        (lambda n: n % 7, I64),
        (lambda n: math.inf if n > 100 else 1.0, F64),
        (lambda n: n > 100, np.dtype(bool)),
    ],
)
def test_other_functions(function, dtype):
    assert fit([dtype.type(function(n)) for n in LENGTHS], LENGTHS, dtype) is None


@pytest.mark.parametrize("text", FORMULAS)
def test_computed_numbers(text):
    function, dtype = FORMULAS[text]
    formula = fit([dtype.type(function(n)) for n in LENGTHS], LENGTHS, dtype)
    for weak in (False, True) if dtype != F32 else (False,):
        length = Variable("length", None, ArrayType(I64, ()), False)
        node = formula.computed(length, ArrayType(dtype, (), weak))
        assert node.type == ArrayType(dtype, (), weak)
        for n in (2, 1000):
            (value,) = Graph([length], [node]).evaluate([np.int64(n)])
            assert value == pytest.approx(function(n), rel=1e-6 if dtype == F32 else 1e-13)
