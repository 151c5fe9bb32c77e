"""Products in the order of axes in which they are needed."""

import numpy as np

import wengert as wg
from wengert.graph.rules import verify
from wengert.passes.products import turn_products

X, W = np.arange(6.0).reshape(2, 3), np.arange(12.0).reshape(3, 4)


def turned(function, *args):
    graph = wg.trace(function, *args)
    found = verify(turn_products(graph))
    for a, b in zip(found.forward(*args), graph.forward(*args), strict=True):
        np.testing.assert_array_equal(a, b)
    return [node.op.name for node in found.operators], found


def test_a_transposed_product_is_computed_transposed():
    names, graph = turned(lambda x, w: (np.tanh((x @ w).T),), X, W)
    assert names == ["contract", "tanh"]
    assert graph.operators[0].params["spec"] == ((0, 1), (1, 2), (2, 0))
    assert graph.operators[0].type.shape == (4, 2)


def test_a_product_that_is_needed_as_it_is_stays():
    both = lambda x, w: ((x @ w).T, np.exp(x @ w))
    x, w = X, W

    def once(x, w):
        product = x @ w
        return product.T, np.exp(product)

    assert turned(once, x, w)[0] == ["contract", "permute", "exp"]
    assert sorted(turned(both, x, w)[0]) == ["contract", "contract", "exp"]


def test_a_product_that_is_an_output_stays():
    def function(x, w):
        product = x @ w
        return product, product.T

    assert turned(function, X, W)[0] == ["contract", "permute"]


def test_stacks_of_products_too():
    x, y = np.ones((2, 3, 4, 5)), np.arange(120.0).reshape(2, 3, 5, 4)
    names, graph = turned(lambda x, y: (np.transpose(x @ y, (0, 2, 1, 3)),), x, y)
    assert names == ["contract"]
    assert graph.operators[0].type.shape == (2, 4, 3, 4)


def test_axes_of_a_product_that_are_split_are_split_in_the_factors():
    """The heads of attention: no product is stored to be turned afterwards."""

    def heads(x, w):
        return (np.moveaxis((x @ w).reshape(2, 2, 2), 1, 0),)

    names, graph = turned(heads, X, W)
    assert names == ["reshape", "contract"]
    assert graph.operators[1].params["spec"] == ((0, 1), (1, 2, 3), (2, 0, 3))
    np.testing.assert_array_equal(wg.jit(heads)(X, W)[0], heads(X, W)[0])
    assert "permute" not in wg.jit(heads).explain(X, W).passes


def test_both_factors_and_axes_of_length_one():
    def function(x, w):
        return (np.transpose((x @ w).reshape(2, 2, 1, 2, 3), (4, 0, 2, 3, 1)),)

    names, _ = turned(function, np.arange(12.0).reshape(4, 3), np.arange(18.0).reshape(3, 6))
    assert names == ["reshape", "reshape", "contract"]


def test_axes_that_are_put_together_stay():
    merged = lambda x, w: (np.moveaxis((x @ w).reshape(4, 2), 1, 0),)
    assert turned(merged, X, W)[0] == ["contract", "reshape", "permute"]
    crossed = lambda x, w: (np.moveaxis((x @ w).reshape(2, 6), 1, 0),)
    assert turned(crossed, X.reshape(3, 2), W.reshape(2, 6)[:, :4])[0][1:] == ["reshape", "permute"]
    turned_factor = lambda x, w: (np.moveaxis((x @ w.T).reshape(2, 2, 2), 1, 0),)
    assert "reshape" in turned(turned_factor, X, W.reshape(4, 3))[0]
