"""Kernels of one form share their code, and others do not."""

import numpy as np
import pytest

import wengert as wg
import wengert.numpy as wnp
from wengert.codegen.program import emit_program
from wengert.codegen.target import Target
from wengert.passes import optimise
from wengert.schedule import plan, schedule


def layers(x, weights, rates):
    """Products, and nests of their own after them, which read other elements."""
    for weight, rate in zip(weights, rates, strict=True):
        x = wnp.tanh((x @ weight)[::-1]) * rate
    return x


def fused_layers(x, weights, rates):
    """Products with epilogues."""
    for weight, rate in zip(weights, rates, strict=True):
        x = wnp.tanh(x @ weight) * rate
    return x


def text(f, *args):
    graph = optimise(wg.trace(f, *args))
    return str(emit_program(plan(schedule(graph)), Target.host()).module)


def bodies(code):
    """How many forms of nests there are, and how many products."""
    defined = [line for line in code.splitlines() if line.startswith("define")]
    return sum(".form" in line for line in defined), sum('.product"' in line for line in defined)


X, WEIGHTS = np.ones((8, 8)), list(np.random.default_rng(0).normal(size=(6, 8, 8)))


def test_equal_layers_are_generated_once():
    few = text(lambda x, *w: layers(x, w, [0.5] * 2), X, *WEIGHTS[:2])
    many = text(lambda x, *w: layers(x, w, [0.5] * 6), X, *WEIGHTS)
    assert bodies(few) == bodies(many) == (1, 1)
    # the same but for a number that is in the code
    different = text(lambda x, *w: layers(x, w, [0.5, 0.25] * 3), X, *WEIGHTS)
    assert bodies(different) == (2, 1)


def test_equal_products_with_equal_epilogues_are_generated_once():
    few = text(lambda x, *w: fused_layers(x, w, [0.5] * 2), X, *WEIGHTS[:2])
    many = text(lambda x, *w: fused_layers(x, w, [0.5] * 6), X, *WEIGHTS)
    assert bodies(few) == bodies(many) == (0, 1)
    # other epilogues, but the same tiles
    different = text(lambda x, *w: fused_layers(x, w, [0.5, 0.25] * 3), X, *WEIGHTS)
    assert bodies(different) == (0, 2)
    assert tiles(different) == tiles(many)
    # the result of the second product is kept as well
    kept = text(lambda x, u, v: (fused_layers(x, [u], [0.5]), x @ v, wnp.tanh(x @ v) * 0.5),
                X, *WEIGHTS[:2])  # fmt: skip
    assert bodies(kept) == (0, 2)


def tiles(code):
    return sum("define" in line and ".tile" in line for line in code.splitlines())


def rows(x, weights):
    """Products that are added to what is there, and written to one array, each at its place."""
    found = [x]
    for weight in weights:
        found.append(0.5 * found[-1] + x[::-1] @ weight)
    return wnp.stack(found)


def test_products_into_places_of_one_array_are_generated_once():
    few = text(lambda x, *w: rows(x, w), X, *WEIGHTS[:3])
    many = text(lambda x, *w: rows(x, w), X, *WEIGHTS)
    assert bodies(few)[1] == bodies(many)[1]
    got = wg.jit(rows)(X * np.arange(8), WEIGHTS)
    np.testing.assert_allclose(got, rows(X * np.arange(8), WEIGHTS), rtol=1e-12)


@pytest.mark.parametrize("size", [8, 200])
@pytest.mark.parametrize("layers", [layers, fused_layers])
def test_shared_code_computes_the_same(layers, size):
    rng = np.random.default_rng(0)
    x, weights = rng.normal(size=(size, size)), list(rng.normal(size=(5, size, size)) / size)

    def f(x, *weights):
        y = layers(x, weights, [0.5] * 5)
        sums = [wnp.sum(w * w, axis=0) for w in weights]
        return y, sums, wnp.sum(y)

    found, expected = wg.jit(f)(x, *weights), f(x, *weights)
    for a, b in zip(wg.tree.leaves(found), wg.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-14)


def test_parallel_nests_share_their_tasks():
    rng = np.random.default_rng(0)
    xs = list(rng.normal(size=(3, 1500, 1000)))

    def f(xs, shift):
        found = []
        for x in xs:
            shift = wnp.sum(wnp.exp(x + shift)) / 1e7
            found.append(shift)
        return found

    for a, b in zip(wg.jit(f)(xs, 0.0), f(xs, 0.0), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)
    code = text(f, xs, 0.0)
    assert sum(".task" in line for line in code.splitlines() if line.startswith("define")) == 1


def test_many_outputs_are_cut_into_several_nests():
    f = wg.jit(lambda x: [x * (1.0 + k) for k in range(300)], control="trace")
    program = f.program(np.ones(5))
    assert len(program.stages.loops.kernels) > 1
    assert max(len(nest.stores) for nest in program.stages.loops.kernels) <= 64
    for k, found in enumerate(f(np.ones(5))):
        assert found.tolist() == [1.0 + k] * 5
