"""Run on every rank: each operation on what all ranks have, in every mode."""

import numpy as np

import wengert as wg
from wengert import distributed as d
from wengert.ops import collectives

RANK, SIZE = d.rank(), d.size()
RNG = np.random.default_rng(3)  # the same on all ranks


def everybodys(*shape, dtype="f8"):
    """What each rank has, and what this one has."""
    if dtype[0] in "iu":
        rows = RNG.integers(0, 50, (SIZE, *shape)).astype(dtype)
    else:
        rows = (100 * RNG.normal(size=(SIZE, *shape))).astype(dtype)
    return rows, rows[RANK]


def tree_sum(rows):
    """The order of summation that is promised, for any number of ranks."""
    core = 1 << (SIZE.bit_length() - 1)
    parts = [rows[r] + rows[r + core] if r + core < SIZE else rows[r] for r in range(core)]
    while len(parts) > 1:
        parts = [one + other for one, other in zip(parts[::2], parts[1::2], strict=True)]
    return parts[0]


def check_values():
    # short and long ones are exchanged in other ways; odd counts have unequal halves
    for shape in ((), (5,), (3, 0), (63, 65), (9001,)):
        for dtype in ("f4", "f8", "i4", "u1", "c16"):
            rows, x = everybodys(*shape, dtype=dtype)
            for f, want in [
                (d.all_reduce, tree_sum(rows)),
                (d.all_gather, rows),
                (lambda x: d.broadcast(x, SIZE - 1), rows[-1]),
            ]:
                np.testing.assert_array_equal(f(x), want)
                np.testing.assert_array_equal(wg.jit(f)(x), want)
    rows, x = everybodys(SIZE, 40)
    total = wg.jit(d.reduce_scatter)(x)
    np.testing.assert_array_equal(total, d.reduce_scatter(x))
    np.testing.assert_allclose(total, rows.sum(0)[RANK], rtol=1e-13)
    rows, x = everybodys(7)
    for name in ("max", "min"):
        want = getattr(rows, name)(0)
        np.testing.assert_array_equal(wg.jit(lambda x: d.all_reduce(x, name))(x), want)  # noqa: B023
    np.testing.assert_array_equal(d.all_reduce(x, "mean"), tree_sum(rows) / SIZE)


def everywhere(one, other):
    """The inner product of what all ranks have."""
    return d.all_reduce(np.vdot(one, other))


def check_derivatives():
    """Forward mode against differences, reverse mode against forward mode: over all ranks."""
    _, x = everybodys(SIZE, 4)
    _, t = everybodys(SIZE, 4)
    functions = [
        lambda x: d.all_reduce(np.sin(x)),
        lambda x: d.all_reduce(x, "mean") * x,
        lambda x: d.all_gather(x) * RANK,
        lambda x: d.broadcast(x**2, SIZE - 1) * (RANK + 1),
        d.reduce_scatter,
        lambda x: d.all_reduce(x, "max") * x,
    ]
    for f in functions:
        for g in (f, wg.jit(f)):
            y, tangent = wg.jvp(g, (x,), (t,))
            step = 1e-6
            difference = (f(x + step * t) - f(x - step * t)) / (2 * step)
            np.testing.assert_allclose(tangent, difference, rtol=1e-6, atol=1e-3)
            y, pullback = wg.vjp(g, x)
            weights = np.cos(np.arange(y.size)).reshape(y.shape) + RANK
            (back,) = pullback(weights)
            one, other = everywhere(weights, tangent), everywhere(back, t)
            np.testing.assert_allclose(one, other, rtol=1e-10)
        loss = lambda x: (f(x) ** 2).sum()  # noqa: B023
        np.testing.assert_allclose(wg.jit(wg.grad(loss))(x), wg.grad(loss)(x), rtol=1e-12)
        square = wg.grad(lambda x: np.vdot(wg.grad(loss)(x), t))  # noqa: B023
        np.testing.assert_allclose(wg.jit(square)(x), square(x), rtol=1e-10, atol=1e-8)


def check_batches():
    _, x = everybodys(3, SIZE, 2)
    for f in (d.all_reduce, d.all_gather, d.broadcast, d.reduce_scatter):
        want = np.stack([f(row) for row in x])
        np.testing.assert_allclose(wg.vmap(f)(x), want, rtol=1e-13)
        np.testing.assert_allclose(wg.jit(wg.vmap(f))(x), want, rtol=1e-13)
    total, rows = wg.scan(lambda c, row: (c + d.all_reduce(row), d.all_gather(row)), x[0], x)
    np.testing.assert_allclose(total, x[0] + sum(d.all_reduce(row) for row in x), rtol=1e-13)
    assert rows.shape == (3, SIZE, SIZE, 2)


def check_all_ranks_make_the_same_calls():
    """Also where a rank could do without: it multiplies by zero, or has two that are equal."""
    x = np.arange(5.0)

    def f(x):
        zero = float(RANK) * d.all_reduce(x)
        same = d.all_reduce(x * 2.0) + d.all_reduce(x * (2.0 + RANK))
        return zero + same

    np.testing.assert_allclose(wg.jit(f)(x), f(x), rtol=1e-14)


def check_programs_inside_of_operations_too():
    """Loops, branches and checkpoints that a rank could do without, and their order."""
    x = np.arange(6.0).reshape(3, 2) + RANK

    def step(carry, row):
        total = d.all_reduce(carry * row) * float(RANK)
        return carry + total, d.all_reduce(row + carry) + d.all_reduce(row + carry)

    def scanned(x):
        return wg.scan(step, x[0], x)

    def turns(x):
        return wg.while_loop(
            lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1] + d.all_reduce(c[1]) * RANK), (0, x)
        )[1]

    def chosen(x):
        return wg.cond(d.all_reduce(x)[0, 0] > 0, lambda x: d.all_reduce(x * 2), lambda x: x, x)

    def f(x):
        last, rows = scanned(x)
        inside = wg.checkpoint(lambda x: d.all_reduce(np.sin(x)))(x)
        unused = scanned(x)[0] * float(RANK)
        return d.all_gather(x).sum(0) + rows + last * RANK + turns(x) + inside + chosen(x) + unused

    want = f(x)
    np.testing.assert_allclose(wg.jit(f)(x), want, rtol=1e-13)
    loss = lambda x: np.sum(np.sin(f(x) * 1e-3))
    np.testing.assert_allclose(wg.jit(wg.grad(loss))(x), wg.grad(loss)(x), rtol=1e-9)


def check_it_is_native():
    """Generated code calls MPI itself: Python is not asked."""
    x = np.full(100, float(RANK))
    f = wg.jit(lambda x: d.all_reduce(x * 2) + d.all_reduce(np.sin(x)).sum())
    want = d.all_reduce(x * 2) + d.all_reduce(np.sin(x)).sum()
    assert f.program(x).single
    assert "wengert_mpi_all_reduce" in str(f.explain(x).llvm)
    perform, collectives.perform = collectives.perform, None
    np.testing.assert_allclose(f(x), want, rtol=1e-14)
    collectives.perform = perform


if __name__ == "__main__":
    check_values()
    check_derivatives()
    check_batches()
    check_all_ranks_make_the_same_calls()
    check_programs_inside_of_operations_too()
    check_it_is_native()
    if RANK == 0:
        print(f"all is right on {SIZE} ranks")
