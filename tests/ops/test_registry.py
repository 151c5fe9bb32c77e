"""Every operation of the registry x everything an operation must have."""

import numpy as np
import pytest

import wengert.numpy  # noqa: F401  # registers every operation
from wengert.graph import verify
from wengert.ops import REGISTRY
from wengert.trace import trace
from wengert.transforms.batching import vmap
from wengert.transforms.check import check_grads
from wengert.transforms.forward import jvp
from wengert.types import ArrayType, type_of

SEED = 20240


def samples_of(op):
    return list(op.samples(np.random.default_rng(SEED))) if op.samples else []


CASES = [
    pytest.param(op, args, params, id=f"{name}-{number}")
    for name, op in sorted(REGISTRY.items())
    for number, (args, params) in enumerate(samples_of(op))
]


def is_float(value, dtypes="d"):
    return np.result_type(value).char in dtypes and not isinstance(value, (bool, int))


def leaves(result):
    return list(result) if isinstance(result, tuple) else [result]


@pytest.mark.parametrize("name", sorted(REGISTRY))
def test_has_everything_or_says_why_not(name):
    op = REGISTRY[name]
    parts = {
        "samples": op.samples,
        "jvp": op.zero or op.derivative or op.jvp or op.linear or op.push_rule,
        "transpose": not op.linear or op.transpose,
        "batch": op.batch,
    }
    missing = [part for part, present in parts.items() if not present and part not in op.absent]
    assert not missing, f"{name} lacks {missing} and gives no reason in `absent`"
    assert all(len(reason) > 10 for reason in op.absent.values())
    # compiled, or NumPy evaluates it for a reason; tests/jit/test_native.py looks whether it is so
    assert op.loops or op.compose or len(op.hosted) > 10
    assert not op.hosted or not (op.loops or op.compose)


@pytest.mark.parametrize("op, args, params", CASES)
def test_evaluation_has_the_type_of_the_type_rule(op, args, params):
    result = op(*args, **params)
    expected = op.type_rule(*[type_of(arg) for arg in args], **params)
    for got, want in zip(leaves(result), leaves_of_type(expected), strict=True):
        assert type_of(got).dtype == want.dtype
        assert type_of(got).shape == want.shape


def leaves_of_type(expected):
    return [expected] if isinstance(expected, ArrayType) else list(expected)


@pytest.mark.parametrize("op, args, params", CASES)
def test_traced_equals_evaluated(op, args, params):
    graph = verify(trace(lambda *xs: op(*xs, **params), *args))
    for got, want in zip(leaves(graph(*args)), leaves(op(*args, **params)), strict=True):
        np.testing.assert_array_equal(got, want)


def differentiable_cases():
    for case in CASES:
        op, args, _ = case.values
        if op.zero is None and "jvp" not in op.absent and any(is_float(a, "dD") for a in args):
            yield case


@pytest.mark.parametrize("op, args, params", list(differentiable_cases()))
def test_derivatives_match_finite_differences(op, args, params):
    places = [k for k, arg in enumerate(args) if is_float(arg, "dD")]

    def function(*active):
        full = list(args)
        for place, value in zip(places, active, strict=True):
            full[place] = value
        result = op(*full, **params)
        return [r for r in leaves(result) if type_of(r).inexact]

    if any(type_of(r).dtype.char in "fF" for r in leaves(op(*args, **params))):
        pytest.skip("float32 results are too coarse for finite differences")
    check_grads(function, [args[k] for k in places], order=2)


@pytest.mark.parametrize("op, args, params", list(differentiable_cases()))
def test_float32_derivatives_stay_float32(op, args, params):
    if any(is_float(arg, "D") for arg in args):
        pytest.skip("complex sample")
    narrow = [
        np.asarray(a).astype(np.float32) if is_float(a) and not isinstance(a, float) else a
        for a in args
    ]
    out = op(*narrow, **params)
    places = [k for k, a in enumerate(narrow) if is_float(a, "f")]
    if not places or not all(type_of(r).dtype != np.float64 for r in leaves(out)):
        pytest.skip("computes in float64 by its own rules")

    def function(*active):
        full = list(narrow)
        for place, value in zip(places, active, strict=True):
            full[place] = value
        return op(*full, **params)

    point = [narrow[k] for k in places]
    value, tangent = jvp(function, point, point)
    for v, t in zip(leaves(value), leaves(tangent), strict=True):
        assert type_of(t).dtype == type_of(v).dtype


def batched_cases():
    for case in CASES:
        op, args, _ = case.values
        if "batch" not in op.absent and args:
            yield case


@pytest.mark.parametrize("op, args, params", list(batched_cases()))
def test_vmap_equals_loop(op, args, params):
    arrays = [k for k, a in enumerate(args) if isinstance(a, (np.ndarray, np.generic))]
    choices = [arrays, *[[k] for k in arrays]] if len(arrays) > 1 else [arrays]
    for chosen in choices:
        stacked = [np.stack([a, np.flip(a)]) if k in chosen else a for k, a in enumerate(args)]
        axes = tuple(0 if k in chosen else None for k in range(len(args)))
        got = leaves(vmap(lambda *xs: op(*xs, **params), in_axes=axes)(*stacked))
        rows = [
            leaves(op(*[a[n] if k in chosen else a for k, a in enumerate(stacked)], **params))
            for n in range(2)
        ]
        for part, column in zip(got, zip(*rows, strict=True), strict=True):
            want = np.stack(column)
            assert part.dtype == want.dtype
            np.testing.assert_allclose(part, want, rtol=1e-12, atol=1e-12)
