"""Machines and the table of thresholds: what follows from what, and how tests choose another."""

import threading

import numpy as np
import pytest

import wengert as wg
import wengert.numpy as wnp
from batch_loops import batch_loops
from wengert import machine
from wengert.machine import Machine, current, policy, use
from wengert.passes import optimise
from wengert.policy import Record
from wengert.schedule import plan, schedule
from wengert.schedule.verify import verify_loops

LAPTOP = Machine(
    vector_bytes=16, vectors_at_once=4, l1d_bytes=128 << 10, l2_bytes=16 << 20, l2_cores=4, cores=8
)
SERVER = Machine(l1d_bytes=48 << 10, l2_bytes=2 << 20, l3_bytes=256 << 20, l3_cores=32, cores=16)
OLD = Machine(
    vector_bytes=16,
    vector_registers=16,
    has_fma=False,
    l2_bytes=256 << 10,
    l3_bytes=6 << 20,
    cores=1,
)
MACHINES = {"measured": Machine(), "laptop": LAPTOP, "server": SERVER, "old": OLD}


def test_a_machine_is_plain_data():
    assert Machine() == Machine(cores=2) != Machine(cores=3)
    assert hash(Machine()) == hash(Machine())
    assert Machine().replace(cores=3) == Machine(cores=3)
    with pytest.raises(AttributeError, match=r"^Machine: cores cannot be set; use replace$"):
        Machine().cores = 3
    with pytest.raises(TypeError, match=r"^Machine: got speed, expected some of vector_bytes, "):
        Machine(speed=3)
    with pytest.raises(TypeError, match=r"^Times: got no operations$"):
        machine.policy().times.__class__()


def test_thresholds_follow_from_caches():
    measured, server = Machine().policy, SERVER.policy
    assert measured.regions.most_weights == 1 << 19
    assert server.regions.most_weights == 1 << 20
    assert server.matrices.second_level == 2 * measured.matrices.second_level
    assert server.fusion.most_kept == (8 << 20) // 16  # its share of the last level
    assert LAPTOP.policy.regions.most_weights == 2 << 20  # four cores share a cache of 16 MB
    assert Machine(l3_bytes=1 << 30).policy == measured  # what a virtual machine is told


@pytest.mark.parametrize("known", MACHINES.values(), ids=MACHINES)
def test_no_threshold_depends_on_the_number_of_cores(known):
    assert known.replace(cores=1).policy == known.replace(cores=64).policy


def test_the_rates_are_those_that_were_measured():
    times = Machine().policy.times
    assert (times.operations, times.near_bytes, times.far_bytes) == (80e3, 40e3, 25e3)
    assert Machine(vector_bytes=32, vectors_at_once=2).policy.times.operations == 80e3
    assert OLD.flops == 4


def test_code_is_that_of_one_machine():
    assert SERVER.baked == SERVER.replace(cores=16).baked
    assert SERVER.baked != SERVER.replace(cores=64).baked  # memory for so many threads
    with use(regions={"least_work": 0}) as changed:
        assert changed.baked != Machine().baked


def test_use_holds_for_a_while_and_nests():
    with use(SERVER, regions={"least_work": 0}) as outer:
        assert current() is outer and current().cores == 16
        with use(l2_bytes=1 << 20, regions={"shortest": 2}):
            assert policy().regions.most_weights == 1 << 19
            assert (policy().regions.least_work, policy().regions.shortest) == (0, 2)
        assert policy().regions.most_weights == 1 << 20
    assert current() == Machine()


def test_use_ends_with_an_error_too():
    with pytest.raises(ZeroDivisionError), use(cores=1):
        raise ZeroDivisionError
    assert current().cores == 2


def test_use_refuses_what_is_none():
    with pytest.raises(ValueError, match=r"^machine.use: got 'region', expected one of chunks, "):
        use(region={"least_work": 0}).__enter__()
    with pytest.raises(
        TypeError, match=r"^RegionLimits: got leastwork, expected some of layouts, "
    ):
        use(regions={"leastwork": 0}).__enter__()


def test_another_thread_has_its_own():
    found = []
    with use(cores=7):
        thread = threading.Thread(target=lambda: found.append(current().cores))
        thread.start()
        thread.join()
    assert found == [2]


def network(x, w, v):
    return wnp.sum(wnp.tanh(wnp.tanh(x @ w) @ v), axis=0)


def arguments(n, width):
    rng = np.random.default_rng(0)
    return [rng.normal(size=s).astype(np.float32) for s in ((n, 64), (64, width), (width, 32))]


@pytest.mark.parametrize("known", MACHINES.values(), ids=MACHINES)
def test_every_machine_has_programs_that_keep_the_rules(known):
    with use(known):
        verify_loops(plan(schedule(optimise(wg.trace(network, *arguments(256, 256))))))


def test_what_stays_near_depends_on_the_cache():
    """Factors of 900 kB: too many for half of a megabyte, few enough for half of two."""
    x, w = np.ones((600, 400), np.float32), np.ones((400, 600), np.float32)

    def loss(x, w):
        return wnp.sum(wnp.tanh(x @ w), axis=0)

    def has_loop(known):
        with use(known, times={"apart": 1e9}, regions={"layouts": ("lanes",)}):
            program = schedule(optimise(wg.trace(loss, x, w)))
        return bool(batch_loops(program))

    assert [has_loop(Machine()), has_loop(SERVER)] == [False, True]


def test_caches_are_read_from_a_sys_tree(tmp_path):
    caches = [("1", "Data", "48K", "0,64"), ("1", "Instruction", "32K", "0,64")]
    caches += [("2", "Unified", "2M", "0,64"), ("3", "Unified", "9M", "0-7,64-71")]
    for index, values in enumerate(caches):
        folder = tmp_path / f"index{index}"
        folder.mkdir()
        for name, value in zip(("level", "type", "size", "shared_cpu_list"), values, strict=True):
            (folder / name).write_text(f"{value}\n")
    sizes = {"l1d_bytes": 48 << 10, "l2_bytes": 2 << 20, "l3_bytes": 9 << 20}
    assert machine._caches_from_sys(str(tmp_path)) == {**sizes, "l2_cores": 1, "l3_cores": 8}
    (tmp_path / "index0" / "size").write_text("unreadable\n")
    (tmp_path / "index2" / "shared_cpu_list").unlink()
    found = machine._caches_from_sys(str(tmp_path))
    assert found == {"l2_bytes": 2 << 20, "l3_bytes": 9 << 20, "l3_cores": 16}
    assert machine._caches_from_sys(str(tmp_path / "nothing")) == {}


def test_records_take_values_by_name_and_where_they_say_so_by_place():
    class Named(Record):
        first: int
        second: int = 2

    class Placed(Named, kw_only=False):
        second: int = 3  # again, and not one more
        third: int = 4

    assert Placed(1, 5) == Placed(first=1, second=5) != Placed(1)
    assert repr(Placed(1)) == "Placed(first=1, second=3, third=4)"
    with pytest.raises(TypeError, match="Named: got 1 values without a name"):
        Named(1)
    with pytest.raises(TypeError, match="Placed: got 4 values without a name"):
        Placed(1, 2, 3, 4)
    with pytest.raises(TypeError, match="Placed: got first twice"):
        Placed(1, first=2)
