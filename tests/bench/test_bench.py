"""The benchmark's own machinery: who is measured, how, and what is said about failures."""

import json

import numpy as np
import pytest

from wengert.bench import circles, evaluated, machine, measure, memory, report, run
from wengert.bench.workload import Workload, plain

FLOOR = machine.Floor(1e11, 2e11, 1e10, 2e10)


class Clock:
    """A clock that only moves when a contestant works."""

    def __init__(self):
        self.now = 0.0
        self.order = []

    def __call__(self):
        return self.now

    def work(self, name, seconds):
        def call():
            self.now += seconds
            self.order.append(name)

        return call


def test_times_are_per_call_whatever_the_number_of_repeats():
    clock = Clock()
    calls = {"slow": clock.work("slow", 0.5), "fast": clock.work("fast", 0.001)}
    best = measure.alternate(calls, measure.Effort(3, 0.01), clock)
    assert best == pytest.approx({"slow": 0.5, "fast": 0.001})


def test_the_best_round_counts():
    clock = Clock()
    seconds = iter([1.0] * 4 + [3.0, 2.0, 5.0])

    def call():
        clock.now += next(seconds)

    effort = measure.Effort(rounds=3, slice=0.5, warm_up=3)
    assert measure.alternate({"x": call}, effort, clock) == {"x": 2.0}


def test_every_round_measures_everyone_and_starts_with_another():
    clock = Clock()
    calls = {name: clock.work(name, 1.0) for name in "abc"}
    measure.alternate(calls, measure.Effort(3, 0.5, 1), clock)
    assert "".join(clock.order) == "aabbcc" + "abc" + "bca" + "cab"


def test_the_floor_is_the_slower_of_operations_and_bytes():
    assert FLOOR.seconds(1e11, None, 1) == 1.0
    assert FLOOR.seconds(1e11, 4e10, 1) == 4.0
    assert FLOOR.seconds(1e11, 4e10, 0) == 2.0
    assert FLOOR.seconds(None, None, 1) is None


def test_the_measured_floor_is_positive():
    found = machine.measure_floor(quick=True)
    assert found.flops_all >= found.flops_one > 1e6
    assert found.bandwidth_all >= found.bandwidth_one > 1e6


def _workload(**contestants):
    return Workload("group", "name", contestants, goals={"numpy": 1e-9})


def test_a_failure_of_wengert_is_reported_and_fails_the_run():
    def broken():
        raise ValueError("no such thing\nand more")

    outcome = run.run_workload(_workload(wengert=broken, numpy=plain(sum, [1])), [], FLOOR, True)
    assert outcome.failed
    assert outcome.failures == {"wengert": "ValueError: no such thing"}
    assert "numpy" in outcome.figures
    assert outcome.ratio("numpy") is None


def test_a_failure_of_a_peer_is_reported_but_is_not_ours():
    def broken():
        raise ImportError("not today")

    workload = _workload(wengert=plain(sum, [1]), jax=broken)
    outcome = run.run_workload(workload, ["jax"], FLOOR, True)
    assert not outcome.failed
    assert outcome.failures == {"jax": "ImportError: not today"}


def test_a_peer_that_was_not_asked_for_is_not_run():
    workload = _workload(wengert=plain(sum, [1]), jax=lambda: pytest.fail("built"))
    assert list(run.run_workload(workload, [], FLOOR, True).figures) == ["wengert"]


def test_a_wrong_result_is_a_failure():
    workload = Workload(
        "group",
        "name",
        {"wengert": plain(np.add, 1.0, 1.0), "numpy": plain(np.add, 1.0, 2.0)},
        same=("numpy",),
    )
    outcome = run.run_workload(workload, [], FLOOR, True)
    assert outcome.failures == {"wengert": "its result differs from that of numpy"}


@pytest.mark.parametrize(
    "ours, theirs, same",
    [
        ((1.0, np.ones(3)), (1.0, np.ones(3)), True),
        ((1.0, np.ones(3)), (1.0, np.ones(4)), False),
        ((1.0, np.ones(3)), (1.0,), False),
        (np.array([1.0, 1e-12]), np.array([1.0, 0.0]), True),
        (np.nan, 1.0, False),
    ],
)
def test_results_are_compared_leaf_by_leaf(ours, theirs, same):
    assert run._same(ours, theirs, 1e-9) is same


def test_missed_goals_and_limits_are_named():
    workload = Workload("group", "name", {}, goals={"numpy": 2.0, "jax": 1.0}, limit=0.5)
    outcome = run.Outcome(workload, {"wengert": 1.0, "numpy": 1.5, "jax": 3.0})
    assert outcome.missed == ["1.50x numpy, 2x wanted", "1 s, at most 500 ms wanted"]


def test_main_writes_json_and_returns_the_status(tmp_path, monkeypatch, capsys):
    good = _workload(wengert=plain(sum, [1]), numpy=plain(sum, [2]))
    monkeypatch.setattr(run, "_matching", lambda topics, only, quick: [good])
    monkeypatch.setattr(machine, "measure_floor", lambda quick: FLOOR)
    path = tmp_path / "bench.json"
    assert run.main([], None, str(path), quick=True) == 0
    document = json.loads(path.read_text())
    assert document["workloads"][0]["ratios"].keys() == {"numpy"}
    assert document["floor"]["flops_all"] == 2e11
    assert "wengert fails on 0" in capsys.readouterr().out


def test_main_fails_when_wengert_fails(monkeypatch, capsys):
    bad = _workload(wengert=plain(sum, None))
    monkeypatch.setattr(run, "_matching", lambda topics, only, quick: [bad])
    monkeypatch.setattr(machine, "measure_floor", lambda quick: FLOOR)
    assert run.main([], None, None, quick=True) == 1
    assert "TypeError: 'NoneType' object is not iterable" in capsys.readouterr().out


def test_an_unknown_workload_is_refused_with_the_names(capsys):
    assert run.main([], ["no such workload"], None, quick=True) == 2
    assert "evaluated, ratio, call, matmul, mlp" in capsys.readouterr().out


def test_unknown_and_missing_peers_become_notes(monkeypatch):
    monkeypatch.setattr(run, "available", lambda peer: peer != "keras")
    chosen, notes = run._choose_peers(["jax", "keras", "abacus"])
    assert chosen == ["jax"]
    assert notes == [
        "abacus is not a peer: torch, jax, keras, autograd",
        "keras is not installed: skipped",
    ]


def test_every_topic_has_workloads_with_a_wengert_side():
    found = list(run._matching(run.TOPICS, None, True))
    assert {workload.group for workload in found} == set(run.TOPICS)
    assert all("wengert" in workload.contestants for workload in found)
    titles = [workload.title for workload in found]
    assert len(set(titles)) == len(titles)


def test_only_chooses_by_part_of_the_title():
    found = list(run._matching(run.TOPICS, ["rosenbrock n=10"], True))
    assert [w.name.split()[0] for w in found] == ["rosenbrock"] * len(found)
    assert found[0].title == "ratio: rosenbrock n=10"


def test_there_are_ten_evaluated_functions_in_two_sizes():
    names = list(evaluated.cases(True))
    functions = {name.split(" ")[0] for name in names}
    assert len(names) == 20
    assert len(functions) == 10


def test_plain_table_lines_up():
    lines = report.plain_table(["name", "a"], [["long name", "1"], ["x", "1000"]])
    assert len({len(line) for line in lines}) == 1


def test_growth_is_compared_with_the_smaller_workload(capsys):
    seconds = {"small": 1.0, "twice": 2.1, "four times": 9.0}
    smaller = {"twice": "small", "four times": "twice"}
    outcomes = [
        run.Outcome(
            Workload("group", name, {}, smaller=smaller.get(name), growth=2.5), {"wengert": time}
        )
        for name, time in seconds.items()
    ]
    run.compare_sizes(outcomes)
    assert [one.growth for one in outcomes] == [None, 2.1, pytest.approx(9 / 2.1)]
    assert [one.missed for one in outcomes] == [
        [],
        [],
        ["4.29 times twice, at most 2.5 wanted"],
    ]
    report.print_group("group", outcomes)
    assert "4.29x" in capsys.readouterr().out


def test_graphs_to_compile_have_as_many_operations_as_they_say():
    import wengert as wg
    import wengert.numpy as wnp
    from wengert.bench import compile as bench_compile

    for graph in bench_compile.GRAPHS.values():
        x = np.linspace(0.0, 1.0, 16).reshape(4, 4)
        found = wg.trace(lambda x, graph=graph: graph(wnp, x, 440), x)
        count = len(found.operators) if hasattr(found, "operators") else len(found.nodes)
        assert 0.9 * 440 <= count <= 1.1 * 440


def test_bytes_are_reported_as_such():
    workload = Workload("group", "name", {}, unit="bytes", limit=0)
    outcome = run.Outcome(workload, {"wengert": 2_000_000.0, "torch": 3e6})
    assert outcome.missed == ["2 MB, at most 0 B wanted"]
    assert outcome.ratio("torch") == 1.5
    assert run.Outcome(workload, {"wengert": 0.0, "torch": 3e6}).ratio("torch") is None


def test_the_memory_of_a_step_keeps_its_limits():
    for workload in memory.workloads(quick=True):
        outcome = run.run_workload(workload, [], FLOOR, True)
        assert not outcome.failures and not outcome.missed


@pytest.mark.parametrize("model", circles.MODELS)
def test_one_sample_at_a_time_learns_the_same_in_all_forms(model):
    step, loop = circles.call_wengert(model)(), circles.loop_wengert(model)()
    losses = np.asarray(loop())
    assert losses.shape == (circles.STEPS,)
    assert float(step()) == pytest.approx(float(losses[0]), rel=1e-5)
    np.testing.assert_allclose(circles.loop_fit(model)()(), losses, rtol=1e-3, atol=1e-5)


def test_a_transformer_block_has_the_operations_it_says():
    import wengert as wg
    from wengert import nn
    from wengert.bench import transformer
    from wengert.schedule.building import flops_of

    sizes = transformer.Sizes(width=16, heads=2, tokens=6, batch=3)
    model, (x, y) = transformer.module_of(nn, sizes), transformer.sequences(sizes)
    shapes = [value.shape for value in transformer.weights(sizes)]
    assert [parameter.shape for parameter in model.parameters()] == shapes
    step = wg.grad(lambda model: nn.mse_loss(model(x), y))
    graph = wg.trace(step, model)
    assert sum(map(flops_of, graph.operators)) == sizes.flops
