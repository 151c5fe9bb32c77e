"""`wengert.scipy.special`: SciPy's names, on plain and on traced values."""

import numpy as np
import pytest
import scipy.special

import wengert as wg
import wengert.scipy as wsp


def test_unknown_names():
    with pytest.raises(AttributeError, match=r"^wengert\.scipy has no 'nothing'\. .*special"):
        wsp.nothing


def test_names_are_scipys():
    assert [name for name in wsp.special.__all__ if not hasattr(scipy.special, name)] == []


@pytest.mark.parametrize("name", wsp.special.__all__)
def test_scipys_own_ufunc_on_traced_values(name):
    """What SciPy's ufunc gives for a traced value is what the function of its name gives."""
    theirs = getattr(scipy.special, name)
    if not isinstance(theirs, np.ufunc):
        pytest.skip("a function of Python's, which asks nobody")
    own = getattr(wsp.special, name)
    args = [np.array([0.3, 0.7])] * theirs.nin
    got = wg.jvp(theirs, args, [np.ones(2)] * theirs.nin)
    want = wg.jvp(own, args, [np.ones(2)] * theirs.nin)
    np.testing.assert_array_equal(got, want)
    np.testing.assert_allclose(got[0], theirs(*args), rtol=1e-13)


def test_ufunc_that_is_missing():
    with pytest.raises(wg.errors.DTypeError, match=r"^scipy\.special\.airye \(at .*\): is not ava"):
        wg.grad(lambda x: scipy.special.airye(x)[0])(1.0)
