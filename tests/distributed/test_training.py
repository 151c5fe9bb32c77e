"""`fit` on several ranks: the bits of one process, and what happens when a rank dies."""

import os
import random
import signal
import time
from pathlib import Path

import numpy as np
import pytest

import ranks
import wengert as wg
from wengert import nn, optim
from wengert.errors import OptionError
from wengert.train import Source, Steps
from wengert.train.parts import Shares, Subtree, parts_of

PROGRAM = "training.py"
# How often ranks are killed: by command more often, see CONTRIBUTING.md.
KILLS = int(os.environ.get("WENGERT_KILLS", "2"))


def same_bits(one, other):
    with np.load(one) as a, np.load(other) as b:
        assert set(a) == set(b)
        return [name for name in a if a[name].tobytes() != b[name].tobytes()] == []


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """The result of one process, without MPI, in as many parts as the batches have on ranks."""
    out = tmp_path_factory.mktemp("alone") / "out.npz"
    ranks.run(None, PROGRAM, "noisy", out, "parts=4")
    return out


@ranks.needs_mpi
@pytest.mark.parametrize("count", [2, 3])
def test_any_number_of_ranks_gives_the_bits_of_one_process(count, alone, tmp_path):
    """With dropout, batch normalisation, clipping, validation, and a last batch that is small;
    the ranks read files that are mapped into memory, the process alone has the arrays."""
    ranks.run(count, PROGRAM, "noisy", tmp_path / "out.npz", f"mapped={tmp_path}")
    assert same_bits(alone, tmp_path / "out.npz")


@ranks.needs_mpi
@pytest.mark.slow
@pytest.mark.parametrize("count", [1, 4])
def test_more_numbers_of_ranks(count, alone, tmp_path):
    ranks.run(count, PROGRAM, "noisy", tmp_path / "out.npz")
    assert same_bits(alone, tmp_path / "out.npz")


@ranks.needs_mpi
@pytest.mark.slow
def test_eight_ranks(tmp_path):
    for count in (None, 8):
        ranks.run(count, PROGRAM, "mlp", tmp_path / f"{count}.npz", "parts=8", "epochs=1")
    assert same_bits(tmp_path / "None.npz", tmp_path / "8.npz")


@ranks.needs_mpi
@pytest.mark.slow
def test_optimizer_state_in_shards_gives_the_same_bits_and_is_whole_again(alone, tmp_path):
    """Also from a checkpoint that was written with shards, and that of another number of ranks."""
    out, checkpoint = tmp_path / "out.npz", f"checkpoint={tmp_path / 'state'}"
    ranks.run(2, PROGRAM, "noisy", out, checkpoint, "shard=1", "epochs=2")
    assert not same_bits(alone, out)
    ranks.run(3, PROGRAM, "noisy", out, checkpoint, "shard=1")
    assert same_bits(alone, out)


@ranks.needs_mpi
def test_a_rank_that_fails_ends_the_job_and_others_resume_it(alone, tmp_path):
    """With one message, at once; the training goes on with another number of ranks."""
    out, checkpoint = tmp_path / "out.npz", f"checkpoint={tmp_path / 'state.npz'}"
    start = time.monotonic()
    text = ranks.run(2, PROGRAM, "noisy", out, checkpoint, "fail=1", good=False)
    assert time.monotonic() - start < 45
    assert "ValueError: this rank has had enough" in text
    assert text.count("rank 1 of 2 has failed with ValueError, so all ranks end") == 1
    assert not out.exists()
    ranks.run(None, PROGRAM, "noisy", out, checkpoint, "parts=4")
    assert same_bits(alone, out)


@ranks.needs_mpi
@pytest.mark.slow
def test_killed_ranks_are_resumed_to_the_same_bits(alone, tmp_path):
    """A random rank is killed at random moments; another number of ranks goes on."""
    chance = random.Random(os.environ.get("WENGERT_RANDOM_SEED", "0"))
    out, state = tmp_path / "out.npz", tmp_path / "state.npz"
    arguments = ("noisy", out, f"checkpoint={state}", "pause=0.2")
    for _ in range(KILLS):
        count = chance.choice([2, 3])
        job = ranks.start(count, PROGRAM, *arguments)
        until = time.monotonic() + 60
        before = state.stat().st_mtime_ns if state.exists() else 0
        while job.poll() is None and time.monotonic() < until:  # the first steps are made
            if state.exists() and state.stat().st_mtime_ns != before:
                break
            time.sleep(0.01)
        time.sleep(chance.uniform(0, 0.6))
        if job.poll() is None:
            victim = Path(f"{out}.{chance.randrange(count)}.pid")
            os.kill(int(victim.read_text()), signal.SIGKILL)
        killed = time.monotonic()
        text = job.communicate(timeout=30)[0]
        assert time.monotonic() - killed < 15, "the others have gone on waiting"
        if out.exists():  # it was done before
            assert same_bits(alone, out)
            out.unlink()
            state.unlink()
        else:
            assert job.returncode != 0, text
    ranks.run(2, PROGRAM, *arguments[:3])
    assert same_bits(alone, out)


def test_parts_depend_on_the_batch_alone_and_ranks_have_whole_subtrees():
    assert [parts_of(n) for n in (1, 15, 32, 63, 64, 1024)] == [1, 1, 2, 2, 4, 16]
    for parts in (1, 2, 8, 32):
        for count in range(1, 12):
            shares = Shares(parts, count)
            found = [one for rank in range(count) for one in shares.subtrees(rank)]
            assert sum(one.size for one in found) == parts
            assert all(one.start % one.size == 0 for one in found)
            sizes = {one.size for one in found}
            assert shares.alike == (len(found) == count and len(sizes) == 1)
    assert Subtree(4, 4).halves == (Subtree(4, 2), Subtree(6, 2))


@ranks.needs_mpi
@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/smaps").exists(), reason="Linux tells what is read")
def test_each_rank_reads_the_rows_of_its_parts_and_no_others(tmp_path):
    text = ranks.run(2, "reading.py", tmp_path)
    shares = [float(line.split()[1]) for line in text.splitlines() if line.startswith("read")]
    assert len(shares) == 2
    assert all(0.45 < share < 0.75 for share in shares), shares


def small_fit(batch_size=8, **options):
    x = np.linspace(-1, 1, 20, dtype=np.float32)[:, None]
    line = nn.Linear(1, 1)
    optimizer = options.pop("optimizer", optim.SGD)(line.parameters())
    loss = options.pop("loss", nn.mse_loss)
    return wg.fit(line, loss, optimizer, (x, 2 * x), 1, batch_size, progress=False, **options)


def test_what_cannot_be_cut_into_parts_is_an_error():
    with pytest.raises(OptionError, match="got parts=3 for batch_size=8"):
        small_fit(parts=3)
    with pytest.raises(OptionError, match="LBFGS decides by the whole loss"):
        small_fit(parts=2, optimizer=optim.LBFGS)
    seen = wg.tensor(0.0)

    def counting(output, target):
        seen[...] = seen + 1
        return nn.mse_loss(output, target)

    with pytest.raises(OptionError, match="writes to a tensor that is no buffer of the model"):
        small_fit(parts=2, loss=counting)


def test_a_step_in_parts_learns_the_same():
    """To rounding: the sums are other ones."""
    nn.manual_seed(0)
    whole = small_fit()
    nn.manual_seed(0)
    parted = small_fit(parts=4)
    np.testing.assert_allclose(parted.steps["loss"], whole.steps["loss"], rtol=1e-5)


def test_all_calls_of_a_step_are_made_by_one_native_loop():
    line = nn.Linear(1, 1)
    x = np.linspace(-1, 1, 24, dtype=np.float32)[:, None]
    source = Source("fit", (x, 2 * x))
    parted = Steps(line, nn.mse_loss, optim.SGD(line.parameters()), None).training(source, 4)
    out = {"loss": np.zeros(3)}
    parted.run((source.arrays,), (np.arange(24).reshape(3, 8),), out)
    # those of the first step went through Python, which has compiled them
    calls = [parted._part.native_calls, parted._join.native_calls, parted._finish.native_calls]
    assert calls == [2 * 4, 2 * 3, 2]
    assert out["loss"][0] > out["loss"][2] > 0
