"""`wengert.optim` imports each of its files when a name in it is first asked for."""

import subprocess
import sys

import pytest

from wengert import optim


def test_all_names_are_there_and_listed():
    assert {name: getattr(optim, name).__name__ for name in optim.__all__} == {
        name: name for name in optim.__all__
    }
    assert set(optim.__all__) <= set(dir(optim))
    assert {*optim._NAMES, "Optimizer"} == set(optim.__all__)
    with pytest.raises(AttributeError, match="has no attribute 'Sgd'"):
        optim.Sgd


def test_files_come_when_they_are_asked_for():
    code = """
import sys
from wengert import optim
assert not {"wengert.optim.lbfgs", "wengert.optim.rules"} & {*sys.modules}
assert optim.SGD.__module__ == "wengert.optim.rules"
assert "wengert.optim.lbfgs" not in sys.modules
assert optim.lbfgs.LBFGS is optim.LBFGS
"""
    subprocess.run([sys.executable, "-c", code], check=True)
