"""`verify_loops` passes all that is right, and finds what is not: programs changed by hand."""

import contextlib
import itertools

import numpy as np
import pytest

import wengert as wg
from batch_loops import batch_loops
from wengert.errors import LoopError
from wengert.loops import (
    Affine,
    Branch,
    Buffer,
    Contraction,
    Host,
    Load,
    Loop,
    LoopProgram,
    MemoryKind,
    Nest,
    Store,
    Var,
    inside,
    roots_of,
    walk,
)
from wengert.passes import optimise
from wengert.schedule import plan, schedule
from wengert.schedule.memory import loops_of as loops_in
from wengert.schedule.memory import root
from wengert.schedule.verify import verify_loops
from wengert.trace import trace

DOUBLE = np.dtype(float)


def numbers(*shape):
    return np.random.default_rng(0).standard_normal(shape)


def sorted_sum(x):
    return np.sum(np.sin(np.sort(x, axis=0)) * x * np.argsort(x, axis=0))


def solved(x):
    t = np.linalg.solve(2 * np.eye(len(x)), x)
    return np.sum(np.sin(t)) + np.sum(np.sin(x * t))


def network(x, w, v):
    return np.sum(np.tanh(np.tanh(x @ w) @ v) ** 2)


def recurrence(x, w):
    def step(state, row):
        state = np.tanh(state @ w + row)
        return state, state * 2.0

    last, rows = wg.scan(step, np.zeros(x.shape[1:]), x)
    return np.sum(last) + np.sum(rows * rows)


def running(x):
    return np.sum(np.cumsum(np.exp(x), axis=1) * x)


def joined(x):
    return np.concatenate([x[1:], np.pad(x, ((2, 1), (0, 0))), x[::-1]]) * 2.0


def taken(x):
    return np.sum(np.take(x, np.array([0, 2, 2]), axis=0) ** 2)


PROGRAMS = {
    "sort": (sorted_sum, numbers(30, 300)),
    "gradient of solve": (wg.grad(solved), numbers(20, 31)),
    "network": (
        wg.value_and_grad(network, argnums=(1, 2)),
        numbers(1000, 20),
        numbers(20, 30),
        numbers(30, 5),
    ),
    "large network": (
        wg.value_and_grad(network, argnums=(1, 2)),
        numbers(256, 200),
        numbers(200, 300),
        numbers(300, 50),
    ),
    "recurrence": (wg.value_and_grad(recurrence), numbers(12, 16, 8), numbers(8, 8)),
    "running sum": (wg.grad(running), numbers(20, 30)),
    "large running sum": (wg.grad(running), numbers(100, 301)),
    "joined": (joined, numbers(9, 11)),
    "taken": (wg.grad(taken), numbers(6, 40)),
}


def loops_of(name):
    function, *args = PROGRAMS[name]
    return plan(schedule(optimise(trace(function, *args))))


def kinds(programs):
    """The kinds of kernels, at any depth."""
    found = set()
    for program in programs:
        for kernel in program.kernels:
            found |= {type(part).__name__.replace("Fused", "") for part in inside(kernel)}
    return found


@pytest.mark.parametrize("name", PROGRAMS)
def test_what_is_right_passes(name):
    program = loops_of(name)
    assert verify_loops(program) is program


def test_the_programs_have_all_kinds_of_kernels():
    found = kinds(map(loops_of, PROGRAMS))
    assert found >= {"Nest", "Contraction", "Loop", "Branch", "Host", "Check", "Transfer"}


# ---------------------------------------------------------------- changed by hand


def owners(buffers):
    return {id(root(buffer)) for buffer in buffers}


def is_needed(program, number):
    """Whether something that a kernel writes is read later, or is a result."""
    later = [b for kernel in program.kernels[number + 1 :] for b in kernel.reads]
    return bool(owners(program.kernels[number].writes) & owners([*later, *program.outputs]))


def continues_another(program, number):
    """Whether a kernel writes only what another one has written before it."""
    before = [b for kernel in program.kernels[:number] for b in kernel.writes]
    return owners(program.kernels[number].writes) <= owners(before)


@pytest.fixture(scope="module")
def programs():
    """All programs; a test that changes one puts it right again."""
    return {name: loops_of(name) for name in PROGRAMS}


@contextlib.contextmanager
def changed(loop, **fields):
    """A loop with other fields, for a while."""
    before = {name: getattr(loop, name) for name in fields}
    for name, value in fields.items():
        object.__setattr__(loop, name, value)
    yield
    for name, value in before.items():
        object.__setattr__(loop, name, value)


def is_found(program, message):
    """One mutant: it breaks a rule; gives 1, to be counted."""
    with pytest.raises(LoopError, match=message):
        verify_loops(program)
    return 1


def written_in(program):
    """The buffers that its kernels write."""
    owned = [root(buffer) for kernel in program.kernels for buffer in kernel.writes]
    return list({id(buffer): buffer for buffer in owned}.values())


def test_a_kernel_that_is_missing_is_found(programs):
    found = 0
    for program in programs.values():
        for number in range(len(program.kernels)):
            if is_needed(program, number) and not continues_another(program, number):
                kept = [k for position, k in enumerate(program.kernels) if position != number]
                broken = LoopProgram(program.inputs, program.outputs, kept)
                found += is_found(broken, "not stored")
    assert found >= 30


def test_a_kernel_inside_a_loop_that_is_missing_is_found(programs):
    found = 0
    for program in programs.values():
        for loop in loops_in(program.kernels):
            with changed(loop, body=loop.body[1:]):
                found += is_found(program, "not stored")
    assert found >= 3


def test_sums_of_a_batch_loop_that_never_begin_are_found(programs):
    program = programs["network"]
    (loop,) = batch_loops(program)
    for number in range(len(loop.begin)):
        with changed(loop, begin=loop.begin[:number] + loop.begin[number + 1 :]):
            is_found(program, "not stored")
    assert loop.begin and verify_loops(program)


def test_kernels_in_the_wrong_order_are_found(programs):
    found = 0
    for program in programs.values():
        for number in range(len(program.kernels) - 1):
            one, other = program.kernels[number : number + 2]
            before = [b for k in program.kernels[:number] for b in k.writes]
            new = owners(one.writes) - owners(before)
            if new & owners(other.reads):
                kernels = list(program.kernels)
                kernels[number : number + 2] = other, one
                broken = LoopProgram(program.inputs, program.outputs, kernels)
                found += is_found(broken, "not stored yet")
    assert found >= 15


def nests_of(program):
    for kernel in program.kernels:
        parts = list(inside(kernel))
        if not any(part.private for part in parts if isinstance(part, Loop)):
            yield from (part for part in parts if isinstance(part, Nest))


def test_a_store_elsewhere_is_found(programs):
    found = 0
    for program in programs.values():
        for nest in nests_of(program):
            for number, store in enumerate(nest.stores):
                if store.picks or store.guards:
                    continue
                low, high = store.at.bounds()
                last = root(store.buffer).size - 1
                for shift in ([1] if high == last else []) + ([-1] if low == 0 else []):
                    nest.stores[number] = store.changed(at=store.at + shift)
                    found += is_found(program, "outside of its memory|not stored|two turns")
                nest.stores[number] = store
    assert found >= 50


def test_a_load_elsewhere_is_found(programs):
    found = 0
    for program in programs.values():
        for nest in nests_of(program):
            for expr in walk(roots_of(nest.stores)):
                if isinstance(expr, Load) and not expr.buffer.base:
                    before, expr.at = expr.at, expr.at + expr.buffer.size
                    found += is_found(program, "outside of its memory|another|two turns")
                    expr.at = before
    assert found >= 50


def test_a_smaller_buffer_is_found(programs):
    found = 0
    for program in programs.values():
        for buffer in written_in(program):
            if buffer.kind is MemoryKind.ARENA and buffer.size > 1:
                shape, strides = buffer.shape, buffer.strides
                buffer.shape, buffer.strides = (buffer.size - 1,), (1,)
                found += is_found(program, "outside of its memory")
                buffer.shape, buffer.strides = shape, strides
    assert found >= 20


def test_buffers_at_one_place_are_found(programs):
    found = 0
    for program in programs.values():
        for kernel in program.kernels:
            used = map(root, (*kernel.writes, *kernel.reads))
            arena = list(
                {id(b): b for b in used if b.kind is MemoryKind.ARENA and b.nbytes}.values()
            )
            for one, other in itertools.pairwise(arena):
                before, one.offset = one.offset, other.offset
                found += is_found(program, "overlap|but there are")
                one.offset = before
    assert found >= 20


def test_another_dtype_is_found(programs):
    found = 0
    for program in programs.values():
        hosts = [k for k in program.kernels if isinstance(k, Host)]
        for buffer in written_in(program):
            if not any(buffer in host.outputs for host in hosts):
                before, buffer.dtype = buffer.dtype, np.dtype(np.int16)
                found += is_found(program, "is expected there")
                buffer.dtype = before
    assert found >= 30


def test_tasks_that_share_a_place_are_found(programs):
    """As when the parts of one task and of the rest were at one place."""
    found = 0
    for program in programs.values():
        for kernel in loops_in(program.kernels):
            if kernel.parallel and isinstance(kernel.body[0], Branch):
                body, rest = kernel.body[0].parts()
                for number, store in enumerate(rest.stores):
                    there = body.stores[number]
                    rest.stores[number] = store.changed(
                        at=there.at.substitute({kernel.var: Affine(0)})
                    )
                    found += is_found(program, "two turns|outside of its memory")
                    rest.stores[number] = store
    assert found >= 2


# ---------------------------------------------------------------- one rule at a time


def buffer(name, kind, *shape):
    strides = [int(np.prod(shape[axis + 1 :])) for axis in range(len(shape))]
    return Buffer(name, DOUBLE, shape, tuple(strides), kind)


def check(message, inputs, outputs, *kernels):
    with pytest.raises(LoopError) as caught:
        verify_loops(LoopProgram(inputs, outputs, list(kernels)))
    assert str(caught.value) == message


def test_messages_name_kernel_buffer_and_range():
    x, t, out = (
        buffer("x", MemoryKind.INPUT, 10),
        buffer("t", MemoryKind.ARENA, 10),
        buffer("out", MemoryKind.OUTPUT, 10),
    )
    i, short = Var("i", 10), Var("i", 8)
    copy_all = Nest([i], [Store(out, Affine.of(i), Load(t, Affine.of(i)))], "copy")
    some = Nest([short], [Store(t, Affine.of(short) + 1, Load(x, Affine.of(short)))])
    check(
        "kernel 1, Nest 'copy': reads t[i], but 2 elements of t (0 to 9) are not stored yet",
        [x], [out], some, copy_all,
    )  # fmt: skip
    check("the end: 10 elements of the result out (0 to 9) are not stored", [x], [out])
    far = Nest([i], [Store(out, Affine.of(i), Load(x, Affine.of(i) * 2))])
    check(
        "kernel 0, Nest: reads x at 0 to 18, by 2, outside of its memory from 0 to 9",
        [x], [out], far,
    )  # fmt: skip
    back = [Store(out, at, Load(x, Affine.of(i))) for at in (Affine.of(i), Affine.of(i) * -1 + 9)]
    check(
        "kernel 0, Nest: writes what another turn writes, out at i and -1*i + 9",
        [x], [out], Nest([i], back),
    )  # fmt: skip
    onto_one = Nest([i], [Store(out, Affine(3), Load(x, Affine.of(i)))])
    check(
        "kernel 0, Nest: two turns of the loop over i write out[3] at one place",
        [x], [out], onto_one,
    )  # fmt: skip


def test_a_turn_does_not_read_what_another_writes():
    x, out = buffer("x", MemoryKind.INPUT, 10), buffer("out", MemoryKind.OUTPUT, 11)
    i, j = Var("i", 10), Var("j", 11)
    begin = Nest([j], [Store(out, Affine.of(j), Load(x, Affine(0)))])
    shift = Nest([i], [Store(out, Affine.of(i) + 1, Load(out, Affine.of(i)))], "shift")
    check(
        "kernel 1, Nest 'shift': reads what another turn writes, out at i and i + 1",
        [x], [out], begin, shift,
    )  # fmt: skip
    i.ordered = True  # then it may
    verify_loops(LoopProgram([x], [out], [begin, shift]))
    in_place = Nest([j], [Store(out, Affine.of(j), Load(out, Affine.of(j)))])
    verify_loops(LoopProgram([x], [out], [begin, in_place]))


def test_tasks_write_apart():
    x, out = buffer("x", MemoryKind.INPUT, 8), buffer("out", MemoryKind.OUTPUT, 8)
    task, i = Var("task", 2), Var("i", 4)
    body = Nest([i], [Store(out, Affine.of(i) + Affine.of(task) * 4, Load(x, Affine.of(i)))])
    verify_loops(LoopProgram([x], [out], [Loop(task, (body,), True)]))
    near = Nest([i], [body.stores[0].changed(at=Affine.of(i) + Affine.of(task) * 3)])
    check(
        "kernel 0, Loop: two turns of the loop over task meet, and one writes, "
        "out at i + 3*task and i + 3*task",
        [x], [out], Loop(task, (near,), True),
    )  # fmt: skip


def test_a_product_does_not_write_its_factor():
    x, y = buffer("x", MemoryKind.INPUT, 4, 4), buffer("y", MemoryKind.OUTPUT, 4, 4)
    i = Var("i", 16)
    first = Nest([i], [Store(y, Affine.of(i), Load(x, Affine(0)))])
    product = Contraction({0: 4, 1: 4, 2: 4}, y, y, x, {0: 4, 2: 1}, {0: 4, 1: 1}, {1: 4, 2: 1})
    check("kernel 1, Contraction: writes y, a factor that it reads", [x], [y], first, product)


def test_every_compiled_program_is_verified(monkeypatch):
    from wengert.schedule import verify

    seen = []
    monkeypatch.setattr(verify, "verify_loops", seen.append)
    factor = np.random.default_rng().random()  # a program that is found on disk was verified once
    wg.jit(lambda x: x * factor + 1.125)(numbers(3))
    assert len(seen) == 1
