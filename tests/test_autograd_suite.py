"""The runner of autograd's tests and examples over wengert, on a checkout made here."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]

TESTS = """
import autograd.numpy as np
import pytest
from autograd import grad, jacobian, make_jvp, value_and_grad
from autograd.core import vspace
from autograd.extend import defvjp, primitive
from autograd.misc import const_graph, flatten
from autograd.misc.optimizers import adam
from autograd.test_util import check_grads, combo_check


def test_checks():
    combo_check(np.tensordot, (0, 1))([np.ones((3, 3))], [np.ones((3, 3))], axes=[0, 1])
    check_grads(lambda d: np.sum(d["a"] ** 2) * d["b"][0])({"a": np.arange(3.0), "b": [2.0]})


def test_a_wrong_rule_is_found():
    twice = primitive(lambda x: 2.0 * x)
    defvjp(twice, lambda ans, x: lambda g: 2.1 * g)
    with pytest.raises(AssertionError, match=r"\\(VJP\\) check of"):
        check_grads(twice, modes=["rev"])(1.0)


def test_operators():
    assert grad(lambda x, y: x * y, 1)(3.0, 2.0) == 3.0
    assert value_and_grad(lambda x: x * x)(3.0) == (9.0, 6.0)
    assert jacobian(lambda x: x * x)(np.ones(2)).shape == (2, 2)
    assert make_jvp(np.sin)(0.0)(2.0) == (0.0, 2.0)
    line, back = flatten([1.0, {"a": np.ones(2)}])
    assert back(line * 2)[1]["a"][1] == 2.0
    assert abs(adam(grad(lambda x, i: x * x), 1.0, num_iters=300, step_size=0.05)) < 1e-2
    assert const_graph(lambda x, y: x * y, 2.0)(3.0) == 6.0
    assert vspace([1.0, np.zeros(3)]).size == 4


def test_fails():
    raise ValueError("for this reason")


@pytest.mark.skip(reason="not today")
def test_skipped():
    pass
"""


def suite(*arguments):
    command = [sys.executable, str(ROOT / "benchmarks" / "autograd_suite.py"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)


def test_what_passes_and_why_others_do_not(tmp_path):
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_some.py").write_text(TESTS)
    done = suite(str(tmp_path))
    assert done.stdout.startswith("3 of 5 passed, 1 failed, 1 skipped"), done.stdout + done.stderr
    assert "ValueError: for this reason" in done.stdout
    assert "not today" in done.stdout
    assert done.returncode == 1


def test_examples(tmp_path):
    folder = tmp_path / "examples"
    folder.mkdir()
    (folder / "data.py").write_text("raise ValueError('no example')")
    (folder / "good.py").write_text("from autograd import grad\nassert grad(abs)(2.0) == 1.0")
    (folder / "bad.py").write_text("import autograd\nautograd.nothing_of_ours")
    (folder / "broken.py").write_text("raise KeyError('missing')")
    (tmp_path / "autograd.py").write_text("nothing_of_ours = 1")  # the original
    done = suite(str(tmp_path), "--examples")
    lines = {line.split()[1]: line.split()[0] for line in done.stdout.splitlines()[:3]}
    assert lines == {"bad.py": "failed", "broken.py": "likewise", "good.py": "works"}
    assert "KeyError: 'missing'" in done.stdout and "1 examples failed" in done.stdout
