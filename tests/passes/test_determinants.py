"""Derivatives of determinants: singular values are computed where a matrix is singular alone."""

import numpy as np
import pytest

import wengert as wg


def squares(a):
    return np.sum(np.linalg.det(a) ** 2 + np.linalg.det(a))


@pytest.fixture(scope="module")
def matrices():
    return np.random.default_rng(0).normal(size=(5, 6, 6))


@pytest.fixture(scope="module")
def gradient():
    return wg.jit(wg.grad(squares))


def test_regular_matrices_take_determinants_and_inverses(matrices, gradient):
    det = np.linalg.det(matrices)
    cofactors = det[:, None, None] * np.linalg.inv(matrices).transpose(0, 2, 1)
    wanted = (2 * det + 1)[:, None, None] * cofactors
    np.testing.assert_allclose(gradient(matrices), wanted, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("rank", [5, 4, 3, 0])
def test_singular_ones_among_them_have_their_cofactors(matrices, gradient, rank):
    a = matrices.copy()
    a[2] = a[2, :, :rank] @ a[3, :rank]
    found, wanted = gradient(a), wg.grad(squares)(a)
    np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-11 * np.abs(wanted).max())
    assert (np.abs(found[2]).max() > 1e-12) == (rank == 5)


def test_nearly_singular_ones_lose_nothing(matrices, gradient):
    """Cofactors do not depend on the singular value that is left out of them."""
    a = matrices.copy()
    u, s, v = np.linalg.svd(a[1])
    nearly, singular = ((u * np.array([*s[:-1], last])) @ v for last in (1e-7, 0.0))
    a[1] = nearly
    found = gradient(a)[1]
    a[1] = singular
    np.testing.assert_allclose(found, gradient(a)[1], rtol=1e-4, atol=1e-4 * np.abs(found).max())


def test_singular_values_are_in_a_branch(matrices, gradient):
    lines = gradient.explain(matrices).loops.splitlines()
    (call,) = [number for number, line in enumerate(lines) if "gesdd" in line]
    depth = len(lines[call]) - len(lines[call].lstrip())
    # in the loop over the matrices, and that in the branch
    outer = [line for line in lines[:call] if len(line) - len(line.lstrip()) < depth - 2]
    assert outer[-1].startswith("if ")
