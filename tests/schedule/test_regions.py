"""Regions: what runs as one loop over blocks of samples, and what ends one."""

import numpy as np
import pytest

import wengert as wg
import wengert.numpy as wnp
from batch_loops import batch_loops
from wengert import machine
from wengert.loops import Contraction, Loop, Transfer
from wengert.passes import optimise
from wengert.schedule import cutting, plan, regions, schedule


@pytest.fixture(autouse=True)
def any_size():
    """Regions however small they are."""
    with machine.use(regions={"least_work": 0}, times={"apart": 1e9}):
        yield


def usual():
    """The usual decisions."""
    known = machine.Machine().policy
    return machine.use(
        regions={"least_work": known.regions.least_work}, times={"apart": known.times.apart}
    )


def loops_of(function, *args):
    return plan(schedule(optimise(wg.trace(function, *args))))


def network(x, w, v):
    return wnp.sum(wnp.tanh(x @ w) @ v)


def arguments(n):
    rng = np.random.default_rng(n)
    return rng.normal(size=(n, 5)), rng.normal(size=(5, 4)), rng.normal(size=(4, 2))


def test_a_step_is_one_region():
    program = loops_of(wg.grad(network, argnums=(1, 2)), *arguments(40))
    (loop,) = batch_loops(program)
    assert loop.blocks.count == 3 and loop.blocks.extent == 40
    assert sum(isinstance(part, Contraction) for part in loop.body) == 4
    inward = [part.inward for part in loop.body if isinstance(part, Transfer)]
    assert inward == [True]  # x comes in, nothing goes out


def test_what_is_read_anyway_is_computed_again_and_not_kept():
    def step(x, w, y):  # the mean over those with a label, counted before anything is learned
        known = y >= 0
        share = 1.0 / wnp.sum(known)
        return wnp.sum(wnp.where(known, wnp.sum(wnp.tanh(x @ w), axis=1), 0.0) * share)

    n = 4000
    x, w, _ = arguments(n)
    y = np.arange(n) % 5 - 1
    program = loops_of(wg.grad(step, argnums=1), x, w, y)
    (loop,) = batch_loops(program)
    read = [part.outer.name for part in loop.body if isinstance(part, Transfer)]
    assert sorted(read) == sorted(program.inputs[k].name for k in (0, 2))
    assert program.arena_bytes < n
    jitted = wg.jit(wg.grad(step, argnums=1))(x, w, y)
    np.testing.assert_allclose(jitted, wg.grad(step, argnums=1)(x, w, y), rtol=1e-12)


def test_memory_does_not_grow_with_the_batch():
    few, many, more = (
        loops_of(wg.grad(network, argnums=(1, 2)), *arguments(n)) for n in (1000, 300_008, 900_008)
    )
    assert many.arena_bytes == more.arena_bytes
    assert many.arena_bytes <= few.arena_bytes
    inside = [batch_loops(program)[0].private_bytes for program in (many, more)]
    assert len(set(inside)) == 1
    # what groups have while they are under way
    groups = [next(k for k in program.kernels if isinstance(k, Loop)) for program in (many, more)]
    assert [group.private_bytes for group in groups] == [704, 704]


def test_gradients_of_samples_are_written_block_by_block():
    program = loops_of(wg.grad(network), *arguments(40))
    (loop,) = batch_loops(program)
    outward = [part for part in loop.body if isinstance(part, Transfer) and not part.inward]
    assert [part.outer.base for part in outward] == program.outputs


def test_a_mean_over_samples_ends_a_region():
    def normalised(x, w):
        h = x @ w
        return wnp.sum(wnp.tanh((h - wnp.mean(h, axis=0)) @ w.T), axis=0)

    x, w, _ = arguments(40)
    assert len(batch_loops(loops_of(normalised, x, w))) == 2


def test_a_sort_along_samples_is_outside():
    def sorted_rows(x, w, v):
        return wnp.sum(wnp.sort(wnp.tanh(x @ w), axis=0) @ v, axis=0)

    program = loops_of(sorted_rows, *arguments(70))  # too long a line for native code
    assert any("sort" in str(kernel) for kernel in program.kernels)
    assert not any("sort" in str(loop) for loop in batch_loops(program))


def test_large_weights_stay_outside():
    x, w = np.ones((600, 900), np.float32), np.ones((900, 800), np.float32)
    assert not batch_loops(loops_of(lambda x, w: wnp.sum(wnp.tanh(x @ w), axis=0), x, w))


def test_a_product_alone_is_not_worth_a_region():
    x = np.ones((300, 300))
    with usual():
        assert not batch_loops(loops_of(lambda x, w: x @ w, x, x))


def test_the_loop_is_explained():
    program = loops_of(wg.grad(network, argnums=1), *arguments(40))
    text = str(batch_loops(program)[0])
    assert "\n3 blocks of 16, a share for each group:\n" in text
    assert "block of in0 along axis 0" in text
    program = loops_of(lambda x, w: wnp.max(x @ w, axis=0), *arguments(40)[:2])
    text = str(program)
    assert "then for" in text and "# join" in text


def told(function, *args):
    return regions.tell_regions(optimise(wg.trace(function, *args))).splitlines()


def test_regions_are_told():
    lines = told(wg.grad(network, argnums=(1, 2)), *arguments(40))
    assert lines[0] == "along axis 0 of x (length 40): 3 blocks of 16, one lane a sample"
    assert lines[1].startswith("region 1: ")
    assert lines[1].endswith("100% of the arithmetic; it ends with 2 sums over the axis")
    assert len(lines) == 2


def test_what_ends_a_region_is_told():
    def normed(x, w, v):
        h = wnp.tanh(x @ w)
        return wnp.tanh((h - wnp.mean(h, axis=0)) @ v)

    first, second = told(normed, *arguments(64))[1:3]
    assert first.startswith("region 1: ") and first.endswith("ends with 1 sums over the axis")
    assert second.startswith("region 2: ") and second.endswith("ends with 0 sums over the axis")


def test_what_stays_outside_is_told():
    def mixed(x, w, v):
        return wnp.tanh(wnp.cumsum(wnp.tanh(x @ w), axis=0) @ v)

    assert told(mixed, *arguments(64))[-1].endswith(": mixes samples")


def test_why_there_are_no_regions_is_told():
    with machine.use(times={"apart": 0.0}):
        head, *tried = told(network, *arguments(64))
    assert head == "no regions; tried:"
    assert any("one lane a sample, along axis 0 of x (length 64)" in line for line in tried)
    assert tried[0].endswith("us in blocks, 0 us without (4)")
    assert told(lambda x: x + 1, np.ones(3)) == [
        "no regions: little arithmetic, or no axis that most of it runs along"
    ]


def test_a_loop_beside_a_region(monkeypatch):
    """A `scan` is weighed as one of the operators outside, whatever it gives out."""
    monkeypatch.setenv("WENGERT_CACHE", "off")
    rng = np.random.default_rng(0)
    x = rng.normal(size=(64, 1, 28, 28)).astype(np.float32)
    kernel = rng.normal(size=(8, 1, 3, 3)).astype(np.float32) / 3

    def read(x, kernel):
        rows = wnp.mean(wnp.tanh(wnp.conv(x, kernel)), axis=3)
        return wg.scan(lambda h, row: (wnp.tanh(h + row), None), x[:, 0, :8, 0].T, rows.T)[0]

    def summed(x, kernel):
        return wnp.sum(read(x, kernel) ** 2)

    with usual():
        got = wg.jit(summed)(x, kernel)
    np.testing.assert_allclose(got, summed(x, kernel), rtol=1e-5)


def test_what_a_region_reads_is_found_once(monkeypatch):
    """Regions of small products one after the other are many, and each asks what others need."""
    calls = []
    found = cutting.Cut._with_cheap_sources

    def counted(cut, members):
        calls.append(cut)
        return found(cut, members)

    monkeypatch.setattr(cutting.Cut, "_with_cheap_sources", counted)

    def basis(a, v):
        vectors, total = [v], 0.0
        for _ in range(8):
            w = a @ vectors[-1]
            for u in vectors:
                w = w - (w @ u) * u
            vectors.append(w / wnp.sqrt(w @ w))
            total = total + w @ w
        return total

    a = np.diag(np.arange(1.0, 33.0)) + 0.1
    graph = optimise(wg.trace(wg.grad(basis, argnums=(0, 1)), a, np.ones(32)))
    assert len(regions.candidates(graph)) > 0
    phases = sum(len(set(cut.phases.values())) for cut in set(calls))
    assert phases > 50
    assert len(calls) <= 2 * phases
