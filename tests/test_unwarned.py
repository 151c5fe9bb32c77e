"""NumPy's floating-point errors, ignored for a while."""

import contextvars
import threading
import warnings

import numpy as np
import pytest

from wengert.unwarned import unwarned


def divided():
    return np.ones(2) / np.zeros(2) + np.float64(1e308) * 10


def test_errors_are_ignored_inside_and_as_before_outside():
    before = np.geterr()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with unwarned():
            assert set(np.geterr().values()) == {"ignore"}
            assert np.isinf(divided()).all()
        with pytest.raises(RuntimeWarning):
            divided()
    assert np.geterr() == before


def test_what_errors_mean_outside_comes_back_after_an_error():
    with np.errstate(all="raise"):
        with pytest.raises(ZeroDivisionError), unwarned():
            divided()
            raise ZeroDivisionError
        with pytest.raises(FloatingPointError):
            divided()


def test_inside_it_may_be_changed_and_begun_again():
    with unwarned():
        with np.errstate(divide="raise"):
            with unwarned():
                divided()
            with pytest.raises(FloatingPointError):
                divided()
        divided()


def test_other_threads_and_contexts_go_on_as_they_were():
    seen = []
    with unwarned():
        thread = threading.Thread(target=lambda: seen.append(np.geterr()["divide"]))
        thread.start()
        thread.join()
        contextvars.Context().run(lambda: seen.append(np.geterr()["divide"]))
    assert seen == ["warn", "warn"]
