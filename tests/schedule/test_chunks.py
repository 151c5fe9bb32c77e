"""Chunks of samples: how large they are, what is in them, and where their sums lie."""

import numpy as np
import pytest

import wengert as wg
import wengert.numpy as wnp
from wengert import machine
from wengert.graph import verify
from wengert.loops import Loop, MemoryKind, root
from wengert.nn.functional import conv2d
from wengert.passes import optimise
from wengert.schedule import chunks, plan, schedule
from wengert.schedule.chunking import LABEL, memory_of, tell_chunks
from wengert.schedule.chunks import choose_width, cut_chunks
from wengert.schedule.sample_axes import SampleClasses

MB = 1 << 20


@pytest.fixture(autouse=True)
def small_chunks():
    small = {"most_memory": -1, "memory": 0, "least_in_loops": 16, "least_use": 0}
    with machine.use(chunks={**small, "least_saving": 0}):
        yield


def graph_of(function, *args):
    return optimise(wg.trace(function, *args))


def cut(function, *args):
    """The operators of a graph in chunks, by kind."""
    found = cut_chunks(graph_of(function, *args), 0)
    return [] if found is None else [node.op.name for node in found.operators]


def chunk_loops(function, *args):
    program = plan(schedule(graph_of(function, *args)))
    return [k for k in program.kernels if isinstance(k, Loop) and k.label == LABEL]


def network(x, w, v):
    return wnp.sum(wnp.tanh(wnp.tanh(x @ w) @ v) ** 2)


def arguments(n):
    rng = np.random.default_rng(n)
    return [rng.normal(size=shape) for shape in ((n, 9), (9, 16), (16, 4))]


# ---------------------------------------------------------------- sizes


@pytest.mark.parametrize("length", [100, 1000, 4096, 20_000, 20_011, 60_000, 1_000_003])
@pytest.mark.parametrize("each", [100, 10_000, 300_000, 5_000_000])
def test_chunks_need_about_what_they_may(length, each):
    with machine.use(chunks={"memory": 16 * MB}):
        width = choose_width(length, length * each, 16)
    assert width * each <= max(16 * MB, 16 * each)
    assert 2 * width * each >= min(16 * MB, length * each) or width >= 16
    assert length % width == 0 or width % 16 == 0


def test_a_width_that_divides_the_batch_is_preferred():
    with machine.use(chunks={"memory": 16 * MB}):
        assert choose_width(960, 320 * MB, 16) == 48
        assert choose_width(1000, 333 * MB, 16) == 48  # not 40: a third of a vector is empty
        assert choose_width(20_000, 250 * MB, 16) == 1250
        assert choose_width(1009, 64 * MB, 16) == 208  # four of them, and one of 177


def test_where_weights_take_long_to_read_chunks_are_larger():
    with machine.use(chunks={"memory": 16 * MB}):
        assert choose_width(1024, 1024 * MB, 16) == 16
        assert choose_width(1024, 1024 * MB, 256) == 256
        assert choose_width(1000, 1000 * MB, 240) == 250  # which divides the batch

    def samples(hidden, steps):
        """In a chunk, at least, of a loop with a square matrix of weights."""
        x, w = np.ones((steps, 64, hidden), np.float32), np.ones((hidden, hidden), np.float32)

        def loss(w, x):
            step = lambda h, row: (wnp.tanh(row + h @ w), None)
            return wnp.sum(wg.scan(step, wnp.zeros((64, hidden), np.float32), x)[0])

        graph = graph_of(wg.grad(loss), w, x)
        classes = SampleClasses(graph.operators)
        kind = classes.find((graph.inputs[1].serial, 1))
        axes = {n.serial: a for n in graph.nodes if (a := classes.axis_in(n, kind)) is not None}
        work, far = chunks.use_of_weights(graph, classes, axes)
        return 64 * far * 64 / work

    assert samples(128, 20) < 32  # read once, and near from then on
    assert samples(1024, 40) == pytest.approx(512, rel=0.1)  # at every step


# ---------------------------------------------------------------- what is in them


def test_a_gradient_is_one_operator():
    names = cut(wg.grad(network, argnums=(1, 2)), *arguments(64))
    assert names == ["chunks", "item", "item"]


def test_the_program_of_a_chunk_is_one_for_fewer_samples():
    graph = graph_of(wg.value_and_grad(network, argnums=(0, 1)), *arguments(90))
    (node,) = [n for n in cut_chunks(graph, 0).operators if n.op.name == "chunks"]
    (whole, count), (rest, one) = node.op.chunks.pieces
    assert (count, one) == (5, 1)
    for program, samples in ((whole, 16), (rest, 10)):
        verify(program)
        shapes = [variable.type.shape for variable in program.inputs]
        assert shapes[-1] == (samples, 9) and (90, 9) not in shapes
        assert program.outputs[0].type.shape == (samples, 9)
    assert node.op.chunks.combines == ["add", "add"]


def test_what_needs_a_sum_comes_after_it():
    def centred(x, w, v):
        h = wnp.tanh(x @ w)
        return wnp.sum(wnp.tanh((h - wnp.mean(h, axis=0)) @ v))

    names = cut(centred, *arguments(64))
    assert names.count("chunks") == 2


def test_a_batch_of_one_chunk_is_left_alone():
    assert cut(network, *arguments(31)) == []
    assert cut(network, *arguments(32))[0] == "chunks"


def test_what_mixes_samples_is_not_in_a_chunk():
    assert cut(lambda x, w, v: wnp.cumsum(x, axis=0) * 2, *arguments(64)) == []
    names = cut(lambda x, w, v: wnp.cumsum(wnp.tanh(x @ w) @ v, axis=0), *arguments(64))
    assert names[0] == "chunks" and "cumsum" in " ".join(names)


def test_axes_behind_a_reshape_are_cut_too():
    def flat(x, w, v):
        h = wnp.tanh(x.reshape(64, 3, 3) @ w[:3]).reshape(192, 16)
        return wnp.sum(wnp.tanh(h @ v).reshape(64, 12) ** 2)

    names = cut(wg.grad(flat, argnums=(1, 2)), *arguments(64))
    assert names.count("chunks") == 1 and "contract" not in names and "reshape" not in names


@pytest.mark.parametrize("shape", [(64, 16), (3, 64, 16), (3, 5, 64, 2), (2, 64)])
def test_random_bits_are_made_in_chunks(shape):
    """Along any axis, as long as chunks are whole blocks of them."""
    axis = shape.index(64)

    def noisy(key, x, w):
        mask = wnp.random.uniform(key, shape, np.float32) < 0.5
        return wnp.sum(wnp.where(mask, wnp.moveaxis(x @ w, -1, axis), 0.0))

    x = np.ones((*shape[:axis], *shape[axis + 1 :], 7))
    found = cut_chunks(graph_of(noisy, wnp.random.key(0), x, np.ones((7, 64))), 0)
    assert [node.op.name for node in found.operators].count("chunks") == 1
    assert max(getattr(node.type, "size", 0) for node in found.operators) < 64


def test_random_bits_that_chunks_would_cut_apart():
    def noisy(key, x, w):
        mask = wnp.random.uniform(key, (4, 66, 1), np.float32) < 0.5
        return wnp.sum(wnp.where(mask, x @ w, 0.0))

    graph = graph_of(noisy, wnp.random.key(0), np.ones((4, 66, 7)), np.ones((7, 5)))
    names = [node.op.name for node in cut_chunks(graph, 0).operators]
    assert "chunks" in names and "random_word" in names  # which are made for all before


# ---------------------------------------------------------------- loops


@pytest.mark.parametrize("n", [64, 70])
def test_sums_stay_where_they_are(n):
    loops = chunk_loops(wg.value_and_grad(network, argnums=(1, 2)), *arguments(n))
    assert [loop.turns for loop in loops] == ([4] if n == 64 else [4, 1])
    for loop in loops:
        assert not loop.carries
        used = [{root(b) for b in buffers} for buffers in (loop.reads, loop.writes)]
        in_place = (used[0] & used[1]) - {root(b) for b in loop.private}
        assert sum(b.kind is MemoryKind.OUTPUT for b in in_place) == 3


def test_sums_that_cannot_stay_go_back_and_forth(monkeypatch):
    """The same numbers, from buffer to buffer."""
    from wengert.schedule import chunking

    monkeypatch.setenv("WENGERT_CACHE", "off")
    function, args = wg.value_and_grad(network, argnums=(0, 1, 2)), arguments(70)
    want = wg.jit(function)(*args)
    monkeypatch.setattr(chunking, "may_share", lambda *ignored: False)
    assert all(len(loop.carries) == 3 for loop in chunk_loops(function, *args))
    got = wg.jit(wg.value_and_grad(network, argnums=(0, 1, 2)))(*args)
    for one, other in zip(wg.tree.leaves(got), wg.tree.leaves(want), strict=True):
        np.testing.assert_array_equal(one, other)


def test_chunks_are_told():
    program = schedule(graph_of(wg.grad(network, argnums=1), *arguments(70)))
    head, *inside = tell_chunks(program).splitlines()
    assert head == (
        "along axis 0 of x (length 70): 4 chunks of 16 and one of 6, one after the other; "
        "in a chunk:"
    )
    assert inside == ["  no regions: little arithmetic, or no axis that most of it runs along"]


def test_programs_that_need_little_are_left_as_they_are():
    with machine.use(chunks={"most_memory": 64 * MB}):
        program = plan(schedule(graph_of(wg.grad(network, argnums=1), *arguments(4096))))
    assert 0 < memory_of(program) < 64 * MB
    assert tell_chunks(program) is None


def test_programs_that_save_little_are_left_as_they_are():
    """What is kept for all samples anyway, because they are mixed in the end."""

    def mixed(x, w, v):
        return wnp.sort(wnp.cumsum(x @ w, axis=0), axis=0)

    kept = 512 * 16 * 8  # x @ w
    with machine.use(chunks={"least_saving": 2}):
        assert not chunk_loops(mixed, *arguments(512))
        graph = graph_of(mixed, *arguments(512))
        assert cut_chunks(graph, 2 * kept - 1) is None
        assert cut_chunks(graph, 2 * kept) is not None


def test_what_numpy_evaluates_is_not_in_a_chunk():
    def inverse(x, w, v):
        return wnp.linalg.svd((x @ w) @ v)[1]

    assert "svdvals" in cut(inverse, *arguments(64))


def test_what_is_the_same_for_all_chunks_is_computed_before_the_first():
    """Weights in the order of a convolution's lanes, and their gradients: none in the loop."""
    rng = np.random.default_rng(3)
    w, v = rng.normal(size=(32, 3, 3, 3)) / 5, rng.normal(size=(32, 32, 3, 3)) / 18
    x = rng.normal(size=(70, 3, 28, 28))

    def loss(w, v, x):
        return np.sum(np.square(conv2d(np.tanh(conv2d(x, w, padding=1)), v)))

    step = wg.jit(wg.value_and_grad(loss, argnums=(0, 1)))
    kernels = step.explain(w, v, x).program.stages.loops.kernels
    loops = [kernel for kernel in kernels if isinstance(kernel, Loop) and kernel.label == LABEL]
    assert len(loops) == 2  # the second for the rest
    for loop in loops:
        ordered = [one for one in loop.body if getattr(one, "label", "") == "weights in order"]
        assert not ordered
    before = [one for one in kernels if getattr(one, "label", "") == "weights in order"]
    assert before and kernels.index(before[0]) < kernels.index(loops[0])
    for got, want in zip(
        wg.tree.leaves(step(w, v, x)),
        wg.tree.leaves(wg.value_and_grad(loss, argnums=(0, 1))(w, v, x)),
        strict=True,
    ):
        np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-9)
