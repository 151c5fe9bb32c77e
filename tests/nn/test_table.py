"""The tables in the documents say what there is, and how it runs."""

import pytest

from layer_cases import FUNCTIONS
from layer_table import (
    CONTAINERS,
    DOCS,
    TOPICS,
    called_in,
    called_in_layer,
    exported,
    layers,
    nn_table,
    optim_table,
    section,
)
from wengert import nn
from wengert.nn import functional

CASES = layers()


@pytest.mark.parametrize("name", sorted(CASES))
def test_layers_run_natively(name):
    """The table says so of all of them."""
    assert called_in_layer(*CASES[name]) == []


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_functions_run_natively(name):
    assert called_in(getattr(functional, name), FUNCTIONS[name]) == []


def test_there_is_a_case_for_everything():
    classes = {name for name in nn.__all__ if isinstance(getattr(nn, name), type)}
    assert classes - CONTAINERS == set(CASES)
    assert set(functional.__all__) == set(FUNCTIONS)


def test_every_name_has_its_place_in_the_table():
    files = [file for topic in TOPICS.values() for file in topic]
    classes = {name for name in nn.__all__ if isinstance(getattr(nn, name), type)}
    assert classes <= set(exported(nn, files))
    assert sorted(functional.__all__) == exported(functional, files)


@pytest.mark.parametrize(
    "document, table", [("nn.md", nn_table({})), ("optim.md", optim_table())], ids=["nn", "optim"]
)
def test_the_tables_are_not_stale(document, table):
    """All is native (see above), so that the table is that of no calls of NumPy."""
    found = section((DOCS / document).read_text()).group(1)
    assert found == table, "run tests/layer_table.py"
