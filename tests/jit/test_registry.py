"""Compiled = evaluated, for every operation of the registry and its derivative."""

import numpy as np
import pytest

import wengert as wg
from wengert.jit import jit
from wengert.ops import REGISTRY
from wengert.types import type_of

SEED = 20240


def samples_of(op):
    return list(op.samples(np.random.default_rng(SEED))) if op.samples else []


AT_ONCE = 3  # samples of each operation that the fast tests compile
CASES = [
    pytest.param(
        op,
        args,
        params,
        id=f"{name}-{number}",
        marks=[pytest.mark.slow] if number >= AT_ONCE else [],
    )
    for name, op in sorted(REGISTRY.items())
    for number, (args, params) in enumerate(samples_of(op))
]


def leaves(result):
    return list(result) if isinstance(result, (tuple, list)) else [result]


def assert_same(got, want):
    """Equal up to the rounding of sums in another order and 2 ulp of elementary functions."""
    for one, other in zip(leaves(got), leaves(want), strict=True):
        assert type_of(one).dtype == type_of(other).dtype
        assert np.shape(one) == np.shape(other)
        if type_of(other).dtype.kind not in "fc":
            np.testing.assert_array_equal(one, other)
            continue
        single = type_of(other).dtype.char in "fF"
        tolerance = 2e-5 if single else 1e-12
        np.testing.assert_allclose(one, other, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("op, args, params", CASES)
def test_compiled_equals_evaluated(op, args, params):
    want = op(*args, **params)
    got = jit(lambda *xs: op(*xs, **params))(*args)
    assert_same(got, want)


@pytest.mark.parametrize("op, args, params", [case for case in CASES if not case.marks][::12])
def test_some_on_the_spine_alone(op, args, params, monkeypatch):
    on_the_spine(op, args, params, monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize("op, args, params", CASES)
def test_all_on_the_spine_alone(op, args, params, monkeypatch):
    on_the_spine(op, args, params, monkeypatch)


def on_the_spine(op, args, params, monkeypatch):
    """With every step left out that is there for speed."""
    monkeypatch.setenv("WENGERT_SCHEDULE", "plain")
    test_compiled_equals_evaluated(op, args, params)


def weighted(part):
    """A scalar of the result in which every element has another weight."""
    kind = type_of(part).dtype.kind
    if kind not in "fc":
        return 0.0
    weights = np.cos(np.arange(float(np.prod(np.shape(part))))).reshape(np.shape(part))
    if kind == "c":
        return wg.numpy.sum(weights * part.real + weights**2 * part.imag)
    return wg.numpy.sum(weights.astype(type_of(part).dtype) * part)


def gradient_cases():
    for case in CASES:
        op, args, _ = case.values
        floats = [np.result_type(a).char == "d" and not isinstance(a, (bool, int)) for a in args]
        if op.zero is None and "jvp" not in op.absent and any(floats):
            yield case


@pytest.mark.parametrize("op, args, params", list(gradient_cases()))
def test_compiled_gradient_equals_evaluated(op, args, params):
    places = [
        k for k, a in enumerate(args) if np.result_type(a).char == "d" and not isinstance(a, int)
    ]

    def loss(*active):
        full = list(args)
        for place, value in zip(places, active, strict=True):
            full[place] = value
        return sum(weighted(part) for part in leaves(op(*full, **params)))

    point = [args[k] for k in places]
    function = wg.value_and_grad(loss, tuple(range(len(point))))
    want_value, want = function(*point)
    got_value, got = jit(function)(*point)
    assert_same(got_value, want_value)
    assert_same(got, want)
