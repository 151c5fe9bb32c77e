"""Traced arrays say that they are NumPy arrays; compiled code does not take them for memory."""

from __future__ import annotations

import numpy as np
import pytest

import wengert as wg
import wengert.numpy as wnp
from wengert.errors import ShapeError

X = np.arange(3.0)


def test_result_of_plain_arguments_into_a_traced_array():
    double = wg.jit(lambda x: x * 2)
    for make in (lambda x: x, lambda x: wnp.zeros(3)):
        with pytest.raises(ShapeError, match=r"argument out holds Tracer.*expected a writable"):
            wg.grad(lambda x, make=make: np.sum(double(X, out=make(x)) * x))(X)


def test_result_of_traced_arguments_into_a_traced_array():
    double = wg.jit(lambda x: x * 2)

    def f(x):
        out = wnp.zeros(3)
        double(x, out=out)
        return np.sum(out * x)

    np.testing.assert_array_equal(wg.grad(f)(X), 4 * X)
    assert wg.jit(f)(X) == 10


def test_isinstance_of_a_traced_array_is_not_asked_for_its_class():
    """Where `isinstance` fails it asks for `__class__`, which takes longer than all the rest."""
    import sys

    asked = []
    code = wg.trace.__globals__["Tracer"].__dict__["__class__"].fget.__code__

    def look(frame, event, _):
        if event == "call" and frame.f_code is code:
            asked.append(frame.f_back.f_code.co_qualname)

    def f(x):
        y = wnp.tanh(wnp.dot(np.ones((3, 3)), x) + 1.0) * x[::-1]
        return wnp.sum(y**2) + wnp.mean(-x / 2)

    sys.setprofile(look)
    try:
        wg.grad(f)(X)
    finally:
        sys.setprofile(None)
    assert not asked
