"""`wengert.scipy.special`: SciPy's names, on plain and on traced values."""

import pytest
import scipy.special

import wengert.scipy as wsp


def test_unknown_names():
    with pytest.raises(AttributeError, match=r"^wengert\.scipy has no 'nothing'\. .*special"):
        wsp.nothing


def test_names_are_scipys():
    assert [name for name in wsp.special.__all__ if not hasattr(scipy.special, name)] == []
