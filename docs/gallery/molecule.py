"""Molecular physics: the cluster of 13 atoms with the least energy.

Atoms attract and repel each other by Lennard-Jones' potential. The forces are its gradient. From
random places the atoms settle; the Hessian's eigenvalues are the squared frequencies of the
cluster's vibrations.
"""

import numpy as np
from scipy.optimize import minimize

import wengert as wg

ATOMS = 13
BEST = -44.326801  # the icosahedron, known from the literature
PAIRS = np.triu_indices(ATOMS, 1)


def potential(places):
    apart = places[PAIRS[0]] - places[PAIRS[1]]
    inverse = 1 / np.sum(apart**2, axis=1) ** 3
    return 4 * np.sum(inverse**2 - inverse)


def run():
    rng = np.random.default_rng(0)
    flat = lambda v: potential(np.reshape(v, (ATOMS, 3)))
    forces = wg.jit(wg.value_and_grad(flat))  # compiled once for all starts
    starts = rng.uniform(-1.2, 1.2, (40, 3 * ATOMS))
    results = [minimize(forces, start, jac=True, method="CG") for start in starts]
    best = min(results, key=lambda result: result.fun).x
    energies = [float(result.fun) for result in results]
    modes = np.linalg.eigvalsh(wg.hessian(flat)(best))
    return {"places": best.reshape(ATOMS, 3), "energies": energies, "modes": modes}


def check(found):
    assert abs(min(found["energies"]) - BEST) < 1e-3, min(found["energies"])
    # six motions cost nothing: three shifts and three rotations
    assert np.sum(np.abs(found["modes"]) < 1e-2) == 6, found["modes"][:8]


def draw(figure, found):
    left, middle, right = figure.subplots(1, 3)
    middle.hist(found["energies"], 15)
    middle.set(title="energies of 40 starts")
    right.plot(np.sort(found["modes"]), ".")
    right.set(title="squared frequencies")
    x, y, z = found["places"].T
    order = np.argsort(z)
    left.scatter(x[order], y[order], s=300, c=z[order], edgecolors="k")
    left.set(aspect="equal", title=f"energy {min(found['energies']):.4f}", xticks=[], yticks=[])
