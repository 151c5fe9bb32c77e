"""Nests of one step over equal loops, joined; arrays that are turned, in tiles."""

import numpy as np

import wengert as wg
import wengert.numpy as wnp
from wengert.loops import (
    Affine,
    Apply,
    Buffer,
    Load,
    Loop,
    MemoryKind,
    Nest,
    Store,
    Var,
    roots_of,
    walk,
)
from wengert.passes import optimise
from wengert.schedule import schedule
from wengert.schedule.joining import join_nests
from wengert.schedule.shaping import tile_turned

F = np.dtype("float32")


def buffer(name, size=64):
    return Buffer(name, F, (size,), (1,), MemoryKind.ARENA)


def nest(target, place, source, extent=16, **options):
    var = Var("i", extent)
    value = Apply("sin", (Load(source, Affine.of(var)),), F)
    return Nest([var], [Store(target, Affine.of(var) + place, value, **options)])


A, B, X = buffer("a"), buffer("b"), buffer("x")


def test_what_reads_the_same_is_joined_and_computed_once():
    (joined,) = join_nests([nest(A, 0, X), nest(A, 16, X), nest(B, 0, X)])
    assert [store.at.constant for store in joined.stores] == [0, 16, 0]
    assert len({id(store.value) for store in joined.stores}) == 1


def test_sums_that_go_on_are_joined():
    (joined,) = join_nests([nest(A, 0, X), nest(B, 0, X, combine="add", continues=True)])
    assert [store.combine for store in joined.stores] == [None, "add"]


def test_what_must_stay_apart():
    for pair in (
        [nest(A, 0, X), nest(B, 0, A)],  # reads what the other writes
        [nest(A, 0, X), nest(X, 0, X)],  # writes what the other reads
        [nest(A, 0, X), nest(A, 8, X)],  # both write some places
        [nest(A, 0, X), nest(B, 0, buffer("y"))],  # nothing in common
        [nest(A, 0, X), nest(B, 0, X, extent=8)],
        [nest(A, 0, X), nest(B, 0, X, combine="add")],  # would have to begin with zeros
    ):
        assert len(join_nests(pair)) == 2


def test_the_gates_of_a_recurrent_step_are_one_nest():
    def loss(w, h, xs):
        def body(state, x):
            h, c = state
            i, f, g = wnp.split(h @ w + x, 3, axis=-1)
            c = wnp.sigmoid(f) * c + wnp.sigmoid(i) * wnp.tanh(g)
            return (wnp.tanh(c), c), None

        return wnp.sum(wg.scan(body, (h, h), xs)[0][0])

    args = np.ones((8, 24)), np.ones((3, 8)), np.ones((5, 3, 24))
    program = wg.jit(wg.grad(loss)).program(*args)
    _, backward = [k for k in program.stages.loops.kernels if isinstance(k, Loop)]
    assert sum(isinstance(kernel, Nest) for kernel in backward.body) == 1


def test_turned_arrays_are_read_in_tiles():
    i, j = Var("i", 40), Var("j", 70)
    source, target = buffer("x", 2800), buffer("y", 2800)
    value = Load(source, Affine.of(j) * 40 + Affine.of(i))
    turned = Nest([i, j], [Store(target, Affine.of(i) * 70 + Affine.of(j), value)])
    main, rest = tile_turned(turned)
    assert [var.extent for var in main.vars] == [4, 40, 16]
    assert [var.extent for var in rest.vars] == [40, 6]


def test_arrays_are_written_in_tiles_where_more_is_read_the_other_way():
    i, j = Var("i", 40), Var("j", 70)
    source, row, target = buffer("x", 2800), buffer("b", 70), buffer("y", 2800)
    one, other = Load(source, Affine.of(i) * 70 + Affine.of(j)), Load(row, Affine.of(j))
    value = Apply("add", (one, other), source.dtype)
    turned = Nest([i, j], [Store(target, Affine.of(j) * 40 + Affine.of(i), value)])
    main, rest = tile_turned(turned)
    assert [var.extent for var in main.vars] == [4, 40, 16]
    assert [var.extent for var in rest.vars] == [40, 6]


def test_turned_arrays_are_right():
    for shape in ((40, 70), (70, 40), (33, 100)):
        x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
        add = lambda x: ((x + x[:1]) * 2).T
        np.testing.assert_array_equal(wg.jit(add)(x), add(x))
    for shape in ((40, 70), (70, 40), (32, 16), (33, 100), (3, 64, 48)):
        x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
        turn = lambda x: wnp.swapaxes(x, -1, -2) * 2 + 1
        np.testing.assert_array_equal(wg.jit(turn)(x), turn(x))


def test_pieces_of_an_array_are_added_to_zero_once():
    """However many pieces there are; and the zero makes 0.0 of -0.0, as without a compiler."""

    def together(a, b, c):
        pieces = wnp.pad(a, (0, 32)), wnp.pad(b, (16, 16)), wnp.pad(c, (32, 0))
        return wnp.sqrt(pieces[0] + pieces[1] + pieces[2] + 0.0)

    args = tuple(np.where(np.arange(16) % 2, k, -0.0) for k in (1.0, 4.0, 9.0))
    program = schedule(optimise(wg.trace(together, *args)))
    values = [value for kernel in program.kernels for value in walk(roots_of(kernel.stores))]
    sums = [one for one in values if isinstance(one, Apply) and one.name == "add"]
    assert len(sums) == 3
    got, want = wg.jit(together)(*args), together(*args)
    np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(np.signbit(got), np.signbit(want))
