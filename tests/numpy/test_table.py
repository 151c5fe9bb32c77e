"""The table in the documents says what `wengert.numpy` has, and how it runs."""

import pytest

import wengert.numpy as wnp
from layer_table import DOCS, section
from numpy_table import TOPICS, how, public, table, ways
from wengert.codegen.target import Target

HOST = Target.host()


@pytest.mark.skipif(not HOST.lapack or not HOST.numpy_loops, reason="calls NumPy for more here")
def test_the_table_is_not_stale():
    found = section((DOCS / "numpy.md").read_text()).group(1)
    assert found == table(ways()), "run tests/numpy_table.py"


def test_every_name_has_its_place_in_the_table():
    named = {name for module in TOPICS.values() for name in public(module)}
    modules = {"fft", "linalg", "random"}
    assert set(wnp.__all__) - modules <= named


@pytest.mark.parametrize(
    "name, way",
    [
        ("sin", "native"), ("quantile", "native"), ("nonzero", "of known values"),
        ("tril_indices", "NumPy's own"), ("gcd", "through NumPy"),
    ],
)  # fmt: skip
def test_how_a_function_runs(name, way):
    assert how(name, getattr(wnp, name)) == way


def test_what_takes_no_usual_arguments_says_so():
    with pytest.raises(LookupError, match="no usual arguments fit five: give it a case"):
        how("five", lambda a, b, c, d, e: a)
