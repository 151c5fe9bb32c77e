"""The table in the documents says what `wengert.scipy` has, and how it runs."""

import pytest

import wengert.scipy as wsp
from layer_table import DOCS, section
from scipy_table import TYPES, how, methods, names_of, table, ways
from wengert.codegen.target import Target

HOST = Target.host()


@pytest.mark.skipif(not HOST.lapack or not HOST.numpy_loops, reason="calls NumPy for more here")
def test_the_table_is_not_stale():
    found = section((DOCS / "scipy.md").read_text()).group(1)
    assert found == table(ways()), "run tests/scipy_table.py"


def test_everything_is_in_the_table():
    for module in wsp.__all__:
        own = set(getattr(wsp, module).__all__)
        assert own == set(names_of(module)) | {name for name in own if f"{module}.{name}" in TYPES}


@pytest.mark.parametrize(
    "full, way", [("special.gammainc", "native"), ("stats.t", "native"), ("special.j0", "native")]
)
def test_how_a_function_runs(full, way):
    assert how(*full.split(".")) == way


def test_methods_of_distributions():
    assert methods("norm") == ["logpdf", "pdf", "cdf", "sf", "logcdf", "logsf"]
    assert methods("poisson")[:2] == ["logpmf", "pmf"]
    assert methods("dirichlet") == ["logpdf", "pdf"]
