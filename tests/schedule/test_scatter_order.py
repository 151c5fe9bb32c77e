"""Scattered stores happen in the order of their elements, whatever the values are made of."""

import numpy as np

import wengert.numpy as wnp
from wengert.jit import jit


def test_the_last_of_several_writes_wins_when_the_values_are_joined():
    def function(x, places):
        values = wnp.concatenate([x[:3], wnp.zeros(2), x[3:]])
        return wnp.scatter_set(wnp.zeros(4), places, values)

    x = np.arange(1.0, 7.0)
    places = np.array([0, 1, 1, 2, 0, 2, 3, 3])
    np.testing.assert_array_equal(jit(function)(x, places), function(x, places))


def test_sums_into_existing_contents_are_not_reset_when_the_nest_is_split():
    def function(x, base, places):
        values = wnp.pad(x, (2, 2))
        return wnp.scatter_add(base, places, values)

    x, base = np.arange(1.0, 5.0), np.full(3, 10.0)
    places = np.array([0, 1, 2, 0, 1, 2, 0, 1])
    np.testing.assert_allclose(jit(function)(x, base, places), function(x, base, places))
