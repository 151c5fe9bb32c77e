"""The transposes of convolutions: which form they take, and that all forms give the same."""

import numpy as np
import pytest

import wengert as wg
import wengert.numpy as xp
from wengert.graph.rules import verify
from wengert.jit import jit
from wengert.ops.windows import fold
from wengert.passes import optimise
from wengert.passes.convolution import correlate, trim
from wengert.passes.simplify import simplify

RNG = np.random.default_rng(11)


def names(graph):
    return [node.op.name for node in graph.operators]


def back_through(x_shape, w_shape, **options):
    """The graph of the gradient by the input, and its arguments."""
    x, w = RNG.normal(size=x_shape), RNG.normal(size=w_shape)
    g = RNG.normal(size=xp.conv(x, w, **options).shape)

    def pull(g, w):
        return wg.vjp(lambda x: xp.conv(x, w, **options), x)[1](g)[0]

    return verify(wg.trace(pull, g, w)), [g, w]


CASES = {
    "3x3": ((2, 3, 9, 8), (4, 3, 3, 3), {}),
    "one axis": ((2, 3, 30), (2, 3, 5), {}),
    "three axes": ((1, 2, 6, 7, 8), (2, 2, 2, 3, 2), {}),
    "padded": ((2, 3, 7, 7), (4, 3, 3, 3), {"padding": 1}),
    "dilated": ((2, 3, 14, 15), (4, 3, 3, 2), {"dilation": (2, 3)}),
    "groups": ((2, 6, 9, 9), (4, 3, 3, 3), {"groups": 2}),
    "1x1": ((2, 3, 4, 4), (3, 3, 1, 1), {}),
    "strides": ((2, 3, 9, 8), (4, 3, 3, 3), {"stride": 2}),
    "strides apart": ((2, 3, 9, 8), (4, 3, 2, 2), {"stride": 3}),
    "strided groups": ((2, 6, 9, 9), (4, 3, 3, 3), {"groups": 2, "stride": (2, 1)}),
    "mostly zeros": ((2, 3, 4, 4), (4, 3, 3, 3), {}),
    "few channels in": ((2, 1, 12, 12), (16, 1, 3, 3), {}),
}
CORRELATED = {"3x3", "one axis", "three axes", "padded", "dilated", "groups", "1x1"}


@pytest.mark.parametrize("case", CASES)
def test_all_forms_give_the_same(case):
    x_shape, w_shape, options = CASES[case]
    before, args = back_through(x_shape, w_shape, **options)
    after = verify(correlate(before))
    (want,), (got,) = before.evaluate(args), after.evaluate(args)
    np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-12)
    assert ("fold" not in names(after)) == (case in CORRELATED)
    assert names(correlate(after)) == names(after)


@pytest.mark.parametrize("case", CASES)
def test_compiled_equals_evaluated(case):
    x_shape, w_shape, options = CASES[case]
    x, w = RNG.normal(size=x_shape), RNG.normal(size=w_shape)
    f = wg.value_and_grad(lambda x, w: xp.sum(xp.sin(xp.conv(x, w, **options))), (0, 1))
    for got, want in zip(wg.tree.leaves(jit(f)(x, w)), wg.tree.leaves(f(x, w)), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-11, atol=1e-11)


def test_a_transposed_convolution_is_a_correlation():
    x, w = RNG.normal(size=(2, 4, 9, 9)), RNG.normal(size=(4, 3, 3, 3))
    graph = optimise(wg.trace(xp.conv_transpose, x, w))
    assert "fold" not in names(graph)
    (got,) = graph.evaluate([x, w])
    np.testing.assert_allclose(got, xp.conv_transpose(x, w), rtol=1e-12, atol=1e-12)


def test_other_folds_are_left_alone():
    x = RNG.normal(size=(2, 5, 5, 3, 3))
    graph = wg.trace(lambda x: fold(x * x, shape=(7, 7), strides=(1, 1), dilations=(1, 1)), x)
    assert names(correlate(graph)) == names(graph)


TRIMMED = {
    "3x3, padded by 1": ((2, 3, 7, 8), (4, 3, 3, 3), {"padding": 1}),
    "5x5, padded by 2": ((2, 3, 14, 14), (4, 3, 5, 5), {"padding": 2}),
    "fully padded": ((2, 3, 9, 9), (4, 3, 3, 3), {"padding": 2}),
    "padded along one axis": ((2, 3, 9, 9), (4, 3, 3, 3), {"padding": (0, 1)}),
    "dilated": ((2, 3, 14, 15), (4, 3, 3, 2), {"dilation": (2, 3), "padding": (1, 3)}),
    "groups": ((2, 6, 9, 9), (4, 3, 3, 3), {"groups": 2, "padding": 1}),
}


@pytest.mark.parametrize("case", TRIMMED)
def test_edges_that_are_cut_off_are_not_computed(case):
    x_shape, w_shape, options = TRIMMED[case]
    before, args = back_through(x_shape, w_shape, **options)
    after = verify(trim(simplify(correlate(simplify(before)))))
    (want,), (got,) = before.evaluate(args), after.evaluate(args)
    np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-12)
    (product,) = [node for node in after.operators if node.op.name == "contract"]
    assert product.type.shape[-2:] == x_shape[-2:]
    assert ("embed" in names(after)) == (case != "fully padded")


def test_a_product_that_is_needed_whole_is_computed_once():
    """Its edges have to be computed anyway."""
    x_shape, w_shape, _ = TRIMMED["3x3, padded by 1"]
    x, w = RNG.normal(size=x_shape), RNG.normal(size=w_shape)

    def both(x, w):
        whole = xp.conv(x, w, padding=2)
        return whole, whole[:, :, 1:-1, 1:-1]

    after = verify(optimise(wg.trace(both, x, w)))
    assert names(after).count("contract") == 1


def test_windows_that_would_lose_more_than_zeros_are_not_trimmed():
    x, w = RNG.normal(size=(2, 3, 9, 9)), RNG.normal(size=(4, 3, 3, 3))
    before = wg.trace(lambda x, w: xp.conv(x, w, padding=1)[:, :, 3:6, 3:6], x, w)
    after = verify(optimise(before))
    np.testing.assert_allclose(after.evaluate([x, w])[0], before.evaluate([x, w])[0], rtol=1e-12)
