"""Colourings are valid, and matrices come back exactly from their products."""

import numpy as np
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st

from wengert.sparse import Sparsity
from wengert.sparse.colouring import colour_columns, colour_star


@st.composite
def matrices(draw, square=False):
    rows = draw(st.integers(1, 12))
    columns = rows if square else draw(st.integers(1, 12))
    share = draw(st.sampled_from([0.0, 0.1, 0.2, 0.4, 0.8]))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    return rng.uniform(1, 2, (rows, columns)) * (rng.random((rows, columns)) < share)


def recovered(sparsity, products):
    return sparsity.filled(products.reshape(-1)[sparsity.places]).toarray()


def seeds(sparsity):
    return (sparsity.colours == np.arange(sparsity.count)[:, None]).astype(float)


@settings(max_examples=300, deadline=None)
@given(matrices(), st.sampled_from(["auto", "forward", "reverse"]))
def test_jacobians_come_back(matrix, mode):
    sparsity = Sparsity(matrix, mode)
    chosen = seeds(sparsity)
    products = chosen @ (matrix.T if sparsity.mode == "forward" else matrix)
    np.testing.assert_array_equal(recovered(sparsity, products), matrix)
    assert mode in ("auto", sparsity.mode)


@settings(max_examples=300, deadline=None)
@given(matrices())
def test_no_row_has_a_colour_twice(matrix):
    pattern = scipy.sparse.csr_array(matrix != 0)
    colours = colour_columns(pattern)
    for row in matrix != 0:
        assert len(set(colours[row])) == row.sum()


@settings(max_examples=300, deadline=None)
@given(matrices(square=True))
def test_hessians_come_back_exactly_symmetric(matrix):
    matrix = matrix + matrix.T
    sparsity = Sparsity(matrix, "symmetric")
    found = recovered(sparsity, seeds(sparsity) @ matrix)
    np.testing.assert_allclose(found, matrix, rtol=1e-14)
    np.testing.assert_array_equal(found, found.T)


@settings(max_examples=300, deadline=None)
@given(matrices(square=True))
def test_paths_of_four_have_three_colours(matrix):
    joined = (matrix != 0) | (matrix.T != 0)
    np.fill_diagonal(joined, False)
    colours = colour_star(scipy.sparse.csr_array(joined))
    neighbours = [np.flatnonzero(row) for row in joined]
    for a, near in enumerate(neighbours):
        for b in near:
            assert colours[a] != colours[b]
            for c in neighbours[b]:
                for d in neighbours[c]:
                    if len({a, b, c, d}) == 4:
                        assert len({*colours[[a, b, c, d]]}) >= 3


def test_numbers_of_colours():
    size = 60
    band = scipy.sparse.diags_array(
        [np.ones(size - abs(k)) for k in (-1, 0, 1)], offsets=(-1, 0, 1)
    )
    assert Sparsity(band).count == 3
    assert Sparsity(band, "symmetric").count == 3
    arrow = np.eye(size)
    arrow[-1] = arrow[:, -1] = 1
    assert Sparsity(arrow, "symmetric").count == 2
    assert Sparsity(arrow[::-1, ::-1], "symmetric").count == 2
    one_row = Sparsity(np.ones((1, size)))
    assert (one_row.mode, one_row.count) == ("reverse", 1)
    one_column = Sparsity(np.ones((size, 1)))
    assert (one_column.mode, one_column.count) == ("forward", 1)
    assert Sparsity(np.zeros((3, 4))).count == 1


def test_a_grid_takes_few_colours():
    side = 30
    line = scipy.sparse.diags_array([np.ones(side - 1)] * 2, offsets=(-1, 1))
    eye = scipy.sparse.eye_array(side)
    grid = scipy.sparse.kron(line, eye) + scipy.sparse.kron(eye, line)
    assert Sparsity(grid + scipy.sparse.eye_array(side**2)).count <= 7
    assert Sparsity(grid, "symmetric").count <= 6
