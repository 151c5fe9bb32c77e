"""Operations on what all ranks have: alone here, and on several ranks with mpiexec."""

import subprocess
import sys

import numpy as np
import pytest

import ranks
import wengert as wg
from wengert import distributed, job
from wengert.errors import MissingPackageError, OptionError, ShapeError
from wengert.graph import Constant, Graph, Operator
from wengert.ops import collectives
from wengert.passes.simplify import fold_constants
from wengert.types import ArrayType


@ranks.needs_mpi
@pytest.mark.parametrize("count", [2, 3])
def test_every_operation_in_every_mode(count):
    assert f"all is right on {count} ranks" in ranks.run(count, "together.py")


@ranks.needs_mpi
def test_plain_programs_sum_too(monkeypatch):
    monkeypatch.setenv("WENGERT_SCHEDULE", "plain")
    code = "import numpy as np, wengert as wg; d = wg.distributed; "
    code += "assert (wg.jit(lambda x: d.all_reduce(x * 2))(np.ones(3)) == 4).all()"
    done = [ranks.MPIEXEC, "-n", "2", sys.executable, "-c", code]
    subprocess.run(done, env=ranks.environment(), check=True, timeout=60)


def test_the_public_names():
    operations = {"all_reduce", "all_gather", "broadcast", "reduce_scatter"}
    assert set(distributed.__all__) == {"init", "rank", "size", *operations}
    assert not hasattr(distributed, "world") and not hasattr(distributed, "end_job")


def test_one_process_is_one_rank_and_needs_no_mpi():
    x = np.arange(6.0).reshape(1, 6)
    assert (distributed.rank(), distributed.size()) == (0, 1)
    for f in (distributed.all_reduce, distributed.broadcast):
        np.testing.assert_array_equal(wg.jit(f)(x), x)
    np.testing.assert_array_equal(wg.vmap(distributed.all_gather)(x), x[:, None])
    np.testing.assert_array_equal(wg.jit(distributed.reduce_scatter)(x), x[0])


def test_without_mpi_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "mpi4py", None)
    monkeypatch.setenv("PMI_SIZE", "2")  # as mpiexec does
    monkeypatch.setattr(job, "_started", None)
    with pytest.raises(MissingPackageError, match=r"pip install 'wengert\[mpi\]'"):
        distributed.rank()


def test_a_process_that_a_rank_starts_is_no_rank(monkeypatch):
    monkeypatch.setenv("PMI_SIZE", "2")
    monkeypatch.setenv("WENGERT_RANK_PROCESS", "1")
    assert distributed.size() == 1


def test_errors_say_what_is_wrong():
    with pytest.raises(OptionError, match='got operation=\'product\', expected "sum", "mean"'):
        distributed.all_reduce(1.0, "product")
    with pytest.raises(OptionError, match="got root=1, expected one of the ranks 0 to 0"):
        distributed.broadcast(1.0, 1)
    with pytest.raises(ShapeError, match=r"shape \(2,\) for 1 ranks. Give it one row for each"):
        distributed.reduce_scatter(np.ones(2))
    with pytest.raises(OptionError, match="got 2 ranks in a process that is none of them"):
        collectives.all_reduce(np.ones(2), size=2)


def test_nothing_is_summed_while_a_program_is_compiled(monkeypatch):
    """Ranks compile each in their own time, or find the program on disk."""
    calls = []
    monkeypatch.setattr(collectives, "perform", lambda *call: calls.append(call))
    value = Constant(np.ones(3), ArrayType(np.dtype("f8"), (3,)))
    node = Operator(collectives.all_reduce, [value], {"size": 2}, array_type=value.type)
    fold_constants(Graph([], [node]))
    assert not calls
