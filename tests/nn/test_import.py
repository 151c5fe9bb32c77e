"""`wengert.nn` and `wengert.nn.functional` import files when a name in them is first asked for."""

import importlib.resources
import pickle
import subprocess
import sys

import pytest

from wengert import nn
from wengert.nn import functional


@pytest.mark.parametrize("package", [nn, functional], ids=lambda package: package.__name__)
def test_the_table_has_the_names_that_the_files_list(package):
    for file, names in package._FILES.items():
        module = importlib.import_module(f"{package.__name__}.{file}")
        assert sorted(names.split()) == sorted(module.__all__)
        for name in names.split():
            assert getattr(package, name) is getattr(module, name)
    assert set(package.__all__) <= set(dir(package))
    with pytest.raises(AttributeError, match="has no attribute 'Lineer'"):
        package.Lineer


def test_every_file_of_functions_is_in_the_table():
    folder = importlib.resources.files(functional)
    files = {path.name.removesuffix(".py") for path in folder.iterdir() if path.suffix == ".py"}
    assert files - {"__init__", "ranks"} == set(functional._FILES)


def test_files_come_when_they_are_asked_for():
    code = """
import sys
from wengert import nn
late = {f"wengert.nn.{file}" for file in ("transformer", "recurrent", "losses", "functional.ctc")}
assert not late & {*sys.modules}
assert nn.Linear.__module__ == "wengert.nn.linear"
nn.functional.relu, nn.functional.linear, nn.functional.dropout
assert not late & {*sys.modules}
assert nn.recurrent.LSTM is nn.LSTM
from wengert.nn import *
assert Transformer is nn.transformer.Transformer and ctc_loss is nn.functional.ctc_loss
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_layers_are_pickled_by_name_and_found_by_a_new_process():
    stored = pickle.dumps(nn.Sequential(nn.ReLU(), nn.Flatten()))
    code = f"import pickle; print(pickle.loads({stored!r}))"
    ran = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert "ReLU" in ran.stdout
