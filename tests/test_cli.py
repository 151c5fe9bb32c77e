"""The command line: help, messages, files, exit codes."""

import json
import sys
import types

import numpy as np
import pytest

from wengert import cli
from wengert.data import places
from wengert.data.catalog import FILES
from wengert.experiments import EXPERIMENTS, Experiment, Settings

COMMANDS = ("reproduce", "bench", "explain", "doctor")


def refused(capsys, *argv):
    """The message of a command that argparse refuses."""
    with pytest.raises(SystemExit) as stopped:
        cli.main(argv)
    assert stopped.value.code == 2
    return capsys.readouterr().err


@pytest.mark.parametrize("command", COMMANDS)
def test_help_shows_an_example(command, capsys):
    with pytest.raises(SystemExit) as stopped:
        cli.main([command, "--help"])
    assert stopped.value.code == 0
    assert f"example:\n  wengert {command}" in capsys.readouterr().out


def test_help_lists_all_commands(capsys):
    with pytest.raises(SystemExit):
        cli.main(["--help"])
    shown = capsys.readouterr().out
    assert all(command in shown for command in COMMANDS)


def test_version(capsys):
    import wengert

    with pytest.raises(SystemExit):
        cli.main(["--version"])
    assert capsys.readouterr().out == f"wengert {wengert.__version__}\n"


def test_no_command_is_refused(capsys):
    assert "the following arguments are required: COMMAND" in refused(capsys)


# ---------------------------------------------------------------- reproduce


def test_experiment_names_are_those_that_exist():
    assert tuple(EXPERIMENTS) == cli.EXPERIMENT_NAMES


def test_unknown_experiment_names_the_valid_ones(capsys):
    message = refused(capsys, "reproduce", "speed")
    assert "argument experiment: invalid choice: 'speed'" in message
    assert all(name in message for name in ("all", *EXPERIMENTS))


def test_reproduce_writes_results_and_report(tmp_path, capsys):
    assert cli.main(["reproduce", "example", "--out", str(tmp_path / "new")]) == 0
    shown = capsys.readouterr()
    assert "wg.Tensor  -12     -4     -4      3" in shown.out
    assert "example [1/3] wg.grad" in shown.err
    results = json.loads((tmp_path / "new" / "results.json").read_text())
    assert list(results["experiments"]) == ["example"]
    assert results["experiments"]["example"]["complete"] is True
    assert "<svg" in (tmp_path / "new" / "report.html").read_text()


def test_reproduce_runs_all_by_default(tmp_path, monkeypatch, capsys):
    ran = []

    def note(name):
        run = lambda section, progress, settings: ran.append((name, settings.quick))
        return Experiment(run, name, "")

    monkeypatch.setattr("wengert.experiments.EXPERIMENTS", {n: note(n) for n in ("a", "b")})
    assert cli.main(["reproduce", "--out", str(tmp_path)]) == 0
    assert cli.main(["reproduce", "--full", "--out", str(tmp_path)]) == 0
    assert ran == [("a", True), ("b", True), ("a", False), ("b", False)]


def test_interrupt_leaves_finished_results(tmp_path, monkeypatch, capsys):
    def stop(section, progress, settings):
        section.table("t", "").rows.append({"n": 1})
        raise KeyboardInterrupt

    chosen = {"example": EXPERIMENTS["example"], "stop": Experiment(stop, "stopped", "")}
    monkeypatch.setattr("wengert.experiments.EXPERIMENTS", chosen)
    assert cli.main(["reproduce", "--out", str(tmp_path)]) == 130
    found = json.loads((tmp_path / "results.json").read_text())["experiments"]
    assert found["example"]["complete"] is True and len(found["example"]["tables"]["ways"]) == 3
    assert found["stop"]["complete"] is False and found["stop"]["tables"]["t"] == [{"n": 1}]
    assert "interrupted" in capsys.readouterr().err
    assert "(not finished)" in (tmp_path / "report.html").read_text()


def test_options_become_settings(tmp_path, monkeypatch):
    seen = []
    run = Experiment(lambda section, progress, settings: seen.append(settings), "", "")
    monkeypatch.setattr("wengert.experiments.EXPERIMENTS", {"cnn": run})
    monkeypatch.setattr("importlib.util.find_spec", lambda name: name)
    argv = ["reproduce", "cnn", "--epochs", "3", "--seeds", "2", "--cv", "--peers", "torch, jax"]
    assert cli.main([*argv, "--data", str(tmp_path), "--out", str(tmp_path)]) == 0
    assert seen == [
        Settings(epochs=3, seeds=2, cv=True, peers=("torch", "jax"), data=str(tmp_path))
    ]


@pytest.mark.parametrize("option", ["--epochs", "--seeds"])
@pytest.mark.parametrize("value", ["0", "-1", "two", "1.5"])
def test_counts_are_whole_and_positive(option, value, capsys):
    message = refused(capsys, "reproduce", f"{option}={value}")
    assert f"argument {option}: got '{value}', expected a whole number of at least 1" in message


def test_reproduce_refuses_unknown_peers(capsys):
    message = refused(capsys, "reproduce", "--peers", "torch,autograd")
    assert "invalid choice: 'autograd' (choose from torch, jax, keras)" in message


@pytest.mark.parametrize(
    ("options", "peers"), [([], ()), (["--full"], ("jax",)), (["--full", "--peers", ""], ())]
)
def test_a_full_run_has_the_peers_that_are_here(options, peers, tmp_path, monkeypatch, capsys):
    found = []
    run = lambda section, progress, settings: found.append(settings.peers)
    monkeypatch.setattr("wengert.experiments.EXPERIMENTS", {"example": Experiment(run, "", "")})
    monkeypatch.setattr(cli, "_is_here", lambda name: name == "jax")
    assert cli.main(["reproduce", *options, "--out", str(tmp_path)]) == 0
    assert found == [peers]


def test_peers_must_be_installed(monkeypatch, capsys):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert cli.main(["reproduce", "example", "--peers", "keras"]) == 2
    expected = "wengert reproduce: --peers keras: it is not installed. Run: pip install keras.\n"
    assert capsys.readouterr().err == expected


def test_data_must_be_a_folder(tmp_path, capsys):
    assert cli.main(["reproduce", "example", "--data", str(tmp_path / "none")]) == 2
    assert "is not a folder. Name one that holds data sets." in capsys.readouterr().err


def test_quick_and_full_exclude_each_other(capsys):
    assert "not allowed with argument" in refused(capsys, "reproduce", "--quick", "--full")


def test_out_must_not_be_a_file(tmp_path, capsys):
    path = tmp_path / "file"
    path.write_text("mine")
    assert cli.main(["reproduce", "example", "--out", str(path)]) == 2
    assert "is a file, expected a folder. Name another one." in capsys.readouterr().err
    assert path.read_text() == "mine"


# ---------------------------------------------------------------- bench


def test_bench_hands_its_arguments_over(monkeypatch):
    calls = []
    module = types.ModuleType("wengert.bench")
    module.main = lambda *given: calls.append(given)
    monkeypatch.setitem(sys.modules, "wengert.bench", module)
    argv = ["bench", "--peers", "jax, torch", "--only", "mlp", "--json", "f.json", "--quick"]
    assert cli.main(argv) == 0
    assert cli.main(["bench"]) == 0
    assert calls == [(["jax", "torch"], "mlp", "f.json", True), (None, None, None, False)]


def test_bench_refuses_unknown_peers(capsys):
    message = refused(capsys, "bench", "--peers", "jax,theano")
    assert "invalid choice: 'theano' (choose from torch, jax, keras, autograd)" in message


# ---------------------------------------------------------------- explain


def test_explain_prints_every_stage(capsys):
    assert cli.main(["explain", "wengert.experiments.ratio:rosenbrock", "f64[5]"]) == 0
    shown = capsys.readouterr().out
    assert "rosenbrock(x: f64[5]):" in shown
    assert all(f"# {part}" in shown for part in ("graph", "after the passes", "loops", "memory"))


def test_explain_of_a_gradient_prints_one_part(capsys):
    path = "wengert.experiments.ratio:waves"
    assert cli.main(["explain", path, "f64[7]", "--grad", "--part", "loops"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("input  in0: f64[7]")
    assert shown.count("output out") == 2


def test_explain_writes_the_page(tmp_path, capsys):
    path = tmp_path / "page.html"
    function = "wengert.experiments.ratio:rosenbrock"
    assert cli.main(["explain", function, "f64[5]", "--grad", "--html", str(path)]) == 0
    assert capsys.readouterr().out == f"{path}\n"
    assert path.read_text().startswith("<!doctype html>")
    nowhere = str(tmp_path / "none" / "page.html")
    assert cli.main(["explain", function, "f64[5]", "--html", nowhere]) == 2
    assert "No such file or directory. Name a file in another place." in capsys.readouterr().err


def test_explain_of_a_step_that_is_compiled_already(tmp_path, monkeypatch, capsys):
    (tmp_path / "my_step_of_explain.py").write_text(
        "import numpy as np\nimport wengert as wg\nw = wg.tensor(np.ones(3), requires_grad=True)\n"
        "@wg.jit\ndef step(x):\n    loss = ((w - x) ** 2).sum()\n    loss.backward()\n"
        "    with wg.no_grad():\n        w[...] = w - 0.1 * w.grad\n    return loss\n"
    )
    monkeypatch.chdir(tmp_path)
    assert cli.main(["explain", "my_step_of_explain:step", "f64[3]", "--part", "loops"]) == 0
    assert "in0[i]" in capsys.readouterr().out


def test_explain_finds_modules_in_the_current_folder(tmp_path, monkeypatch, capsys):
    (tmp_path / "my_model_of_explain.py").write_text("def twice(x):\n    return x + x\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [p for p in sys.path if p])
    assert cli.main(["explain", "my_model_of_explain:twice", "f32[3]", "--part", "graph"]) == 0
    assert "add(x, x)" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["math"], "got 'math', expected PACKAGE.MODULE:FUNCTION, such as model:loss."),
        (
            ["no_such:f"],
            "No module named 'no_such'. Run the command from the folder that holds it.",
        ),
        (["wengert.experiments.timing:best"], "wengert.experiments.timing has no 'best'; it has"),
        (
            ["wengert.experiments.ratio:waves", "f12[3]"],
            "got the type 'f12[3]', expected one such as f64[10], f32[8,2] or i64.",
        ),
        (
            ["wengert.experiments.ratio:waves"],
            "waves: missing a required argument: 'x'. Give a type for each argument, such as "
            "f64[10] or i64.",
        ),
    ],
)
def test_explain_says_what_is_wrong(argv, message, capsys):
    assert cli.main(["explain", *argv]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "dtype", "shape"),
    [
        ("f64", np.float64, ()),
        ("f32[8,2]", np.float32, (8, 2)),
        ("i64[3]", np.int64, (3,)),
        ("u8[0]", np.uint8, (0,)),
        ("bool[2]", np.bool_, (2,)),
    ],
)
def test_types_are_written_as_graphs_print_them(text, dtype, shape):
    value = cli.example_argument(text)
    assert (value.dtype, value.shape) == (np.dtype(dtype), shape)


# ---------------------------------------------------------------- doctor


def test_doctor_reports_every_part(tmp_path, monkeypatch, capsys):
    folder = tmp_path / "mnist"
    folder.mkdir()
    for name in FILES:
        (folder / f"{name}.gz").write_bytes(b"")
    monkeypatch.setenv("WENGERT_DATA", str(tmp_path))
    assert cli.main(["doctor"]) == 0
    lines = dict(line.split(":", 1) for line in capsys.readouterr().out.splitlines())
    assert lines["compiler"].strip() == "a compiled gradient is right"
    assert f"mnist in {tmp_path}/mnist (WENGERT_DATA)" in lines["data"]
    assert "vector registers of" in lines["processor"]
    assert {"python", "llvm", "threads", "cache", *cli.OPTIONAL} <= set(lines)


@pytest.mark.parametrize(
    ("value", "answer"),
    [(None, "no data set is here yet"), ("/no/such", "which is not a folder")],
)
def test_doctor_without_data(value, answer, monkeypatch):
    monkeypatch.delenv("WENGERT_DATA", raising=False)
    monkeypatch.setattr(places, "places", lambda folder=None: [])
    if value:
        monkeypatch.setenv("WENGERT_DATA", value)
    assert answer in cli._data()


def test_doctor_fails_when_something_is_broken(monkeypatch, capsys):
    monkeypatch.setenv("WENGERT_CPU", "abacus")
    assert cli.main(["doctor"]) == 1
    shown = capsys.readouterr().out
    assert "processor:   FAILED: ValueError: environment variable WENGERT_CPU" in shown
    assert "numpy:" in shown
