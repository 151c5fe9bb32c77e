"""State that several new values are computed from is still updated in place, and right."""

import numpy as np
import pytest

import wengert as wg
from wengert.jit.placement import can_be_direct
from wengert.loops import (
    Affine,
    Apply,
    Buffer,
    Check,
    Choose,
    Contraction,
    InRange,
    Literal,
    Load,
    LoadAt,
    LoopProgram,
    MemoryKind,
    Nest,
    Store,
    Sum,
    Var,
)

N = 1003
F64 = np.dtype(float)


def momentum(p, m, x):
    new = 0.9 * m + x
    m[...] = new
    p -= 0.1 * new


def momentum_last(p, m, x):
    new = 0.9 * m + x
    p -= 0.1 * new
    m[...] = new


def old_and_new(p, m, x):
    p += m * x
    m *= 2.0


def read_again_by_hand(p, m, x):
    m += x
    p += m * m


def reversed_for_the_other(p, m, x):
    new = m + x
    p += m[::-1]
    m[...] = new


def exchanged(p, m, x):
    old = p.copy()
    p[...] = m * x
    m[...] = old + x


def sum_and_new(p, m, x):
    total = np.sum(m)
    m += x
    p += total


def chosen(p, m, x):
    """So many parts of an array become branches in the loop, out of which no value comes."""
    new = m * 0.5 + x
    parts = np.array_split(np.arange(len(x)), 7 if len(x) == 7 else 60)
    signs = [1.0 if number % 2 else -1.0 for number in range(len(parts))]
    m[...] = new
    p += np.concatenate([s * m[i[0] : i[-1] + 1] for s, i in zip(signs, parts, strict=True)])


CASES = [
    (momentum, True),
    (momentum_last, True),
    (old_and_new, True),
    (read_again_by_hand, True),
    (reversed_for_the_other, None),
    (exchanged, None),
    (sum_and_new, True),
    (chosen, None),
]


@pytest.mark.parametrize("size", [7, N, 50_000])
@pytest.mark.parametrize(
    ("function", "in_place"), CASES, ids=lambda case: getattr(case, "__name__", "")
)
def test_two_arrays_of_state(function, in_place, size):
    rng = np.random.default_rng(size)
    start, x = rng.standard_normal((2, size)), rng.standard_normal(size)
    compiled, evaluated = [wg.tensor(a) for a in start], [wg.tensor(a) for a in start]
    step = wg.jit(lambda x: function(*compiled, x))
    for _ in range(3):
        step(x)
        function(*evaluated, x)
        for one, other in zip(compiled, evaluated, strict=True):
            np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-9, atol=1e-9)
    written = [state for state in step.program(x).state if state.written]
    if in_place is not None:
        assert all((state.scratch is None) == in_place for state in written)


# ---------------------------------------------------------------- the rule itself

STEP = Var("i", 8)
AT = Affine.of(STEP)


def buffer(name, kind):
    return Buffer(name, F64, (8,), (1,), kind)


OLD, NEW, OTHER = (
    buffer("old", MemoryKind.INPUT),
    buffer("new", MemoryKind.OUTPUT),
    buffer("other", MemoryKind.OUTPUT),
)


def direct(*stores):
    program = LoopProgram([OLD], [NEW, OTHER], [Nest([STEP], list(stores))])
    return can_be_direct(program, NEW, OLD)


def negative(value):
    return Apply("negative", (value,), F64)


def test_one_load_serves_all_stores():
    load = Load(OLD, AT)
    assert direct(Store(NEW, AT, load), Store(OTHER, AT, negative(load)))
    assert direct(Store(OTHER, AT, negative(load)), Store(NEW, AT, load))


def test_a_second_load_may_come_too_late():
    late = Store(OTHER, AT, Load(OLD, AT))
    assert not direct(Store(NEW, AT, Load(OLD, AT)), late)
    assert direct(late, Store(NEW, AT, Load(OLD, AT)))


def test_a_load_in_a_branch_is_not_known_outside():
    load = Load(OLD, AT)
    branch = Choose(InRange(AT, 0, 3), load, Literal(1.0, F64), F64)
    assert not direct(Store(NEW, AT, branch), Store(OTHER, AT, negative(load)))
    assert direct(Store(OTHER, AT, negative(load)), Store(NEW, AT, branch))


def test_other_places_are_not_in_place():
    elsewhere = AT * -1 + 7
    assert not direct(Store(NEW, AT, Load(OLD, elsewhere)))
    assert not direct(Store(OTHER, AT, Load(OLD, elsewhere)), Store(NEW, AT, Load(OLD, AT)))
    picked = LoadAt(OLD, AT, ())
    assert not direct(Store(OTHER, AT, picked), Store(NEW, AT, Load(OLD, AT)))
    assert not direct(Store(NEW, Affine(0), Load(OLD, AT), "add"))


# ---------------------------------------------------------------- epilogues of products


def product(*stores, out="sums", factor=OTHER):
    """A program of one product over the same index as the stores."""
    sums = buffer("sums", MemoryKind.ARENA) if out == "sums" else out
    other = Buffer("y", F64, (8, 5), (5, 1), MemoryKind.INPUT)
    around = {"vars": {0: STEP}, "stores": list(stores), "keeps_sums": out != "sums"}
    strides = {0: 1}, {1: 1}, {0: 5, 1: 1}
    return Contraction({0: 8, 1: 5}, sums, factor, other, *strides, **around)


def test_an_epilogue_updates_in_place():
    update = Store(NEW, AT, Apply("add", (Sum(F64), Load(OLD, AT)), F64))
    assert can_be_direct(LoopProgram([OLD], [NEW], [product(update)]), NEW, OLD)
    elsewhere = Store(NEW, AT, Apply("add", (Sum(F64), Load(OLD, AT * -1 + 7)), F64))
    assert not can_be_direct(LoopProgram([OLD], [NEW], [product(elsewhere)]), NEW, OLD)


def test_what_is_a_factor_is_read_until_the_end():
    update = Store(NEW, AT, Apply("add", (Sum(F64), Load(OLD, AT)), F64))
    kernel = product(update, factor=OLD)
    assert not can_be_direct(LoopProgram([OLD], [NEW], [kernel]), NEW, OLD)


def test_unfinished_sums_must_not_lie_where_something_is_read():
    difference = Store(OTHER, AT, Apply("subtract", (Sum(F64), Load(OLD, AT)), F64))
    factor = buffer("x", MemoryKind.INPUT)
    kernel = product(difference, out=NEW, factor=factor)
    assert not can_be_direct(LoopProgram([OLD], [NEW, OTHER], [kernel]), NEW, OLD)
    assert can_be_direct(LoopProgram([OLD], [NEW, OTHER], [kernel]), NEW, None)


def test_checks_are_in_the_way_only_afterwards():
    update, flag = (
        Nest([STEP], [Store(NEW, AT, Load(OLD, AT))]),
        Check(buffer("ok", MemoryKind.ARENA), 1),
    )
    assert can_be_direct(LoopProgram([OLD], [NEW], [flag, update]), NEW, OLD)
    assert not can_be_direct(LoopProgram([OLD], [NEW], [update, flag]), NEW, OLD)


def test_a_failing_check_leaves_state_that_is_updated_in_place():
    p, x = wg.tensor(np.ones((3, 2))), np.arange(12.0).reshape(4, 3)

    def step(x, labels):
        picked = x[:, labels]
        p[...] = p - 0.1 * (picked.T @ x[:, :2])

    compiled = wg.jit(step)
    compiled(x, np.array([0, 1, 2]))
    assert [state.scratch for state in compiled.program(x, np.array([0, 1, 2])).state] == [None]
    before = p.numpy().copy()
    with pytest.raises(IndexError):
        compiled(x, np.array([0, 1, 7]))
    np.testing.assert_array_equal(p.numpy(), before)
