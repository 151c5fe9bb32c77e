"""det: the determinant by expansion along the first row, minor by minor, with nothing shared."""

import functools

import numpy as np

import wengert as wg


@functools.cache
def columns(size, left):
    """The columns that are left after each choice of those before, a row for each."""
    table = np.arange(size, dtype=np.int8)
    for count in range(size, left, -1):
        others = np.array([[c for c in range(count) if c != j] for j in range(count)])
        table = table[..., others]
    return table.reshape(-1, left)


def determinant(a):
    size = len(a)
    minors = a[size - 1][columns(size, 1)[:, 0]]
    for left in range(2, size + 1):
        signed = a[size - left][columns(size, left)] * (-1.0) ** np.arange(left)
        minors = np.einsum("pj,pj->p", signed, minors.reshape(-1, left))
    return minors[0]


def prepare(sent):
    return (np.array(sent["A"]).reshape(sent["ell"], sent["ell"]),)


functions = {"primal": wg.jit(determinant), "gradient": wg.jit(wg.grad(determinant))}
answers = {"gradient": lambda found: found.ravel().tolist()}
