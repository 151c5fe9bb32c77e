"""The programs that are measured: compiled derivatives against differences of plain NumPy."""

import numpy as np
import pytest

import wengert as wg
from wengert.bench import programs_jax
from wengert.bench.programs import PROGRAMS, UNBOUNDED


def test_every_program_has_its_words_in_jax():
    assert list(programs_jax.PROGRAMS) == list(PROGRAMS)
    assert set(UNBOUNDED) <= set(PROGRAMS)


@pytest.mark.slow
@pytest.mark.parametrize("name", PROGRAMS)
def test_value_and_gradient(name):
    program = PROGRAMS[name]
    f, x = program.written(*program.data), program.at
    value, gradient = wg.jit(wg.value_and_grad(f))(x)
    plain = wg.jit(f) if name == "Kepler" else f  # its map is wengert's own
    assert value == pytest.approx(plain(x), rel=1e-9)
    direction = np.random.default_rng(3).normal(size=x.shape)
    step = 1e-6
    slope = (plain(x + step * direction) - plain(x - step * direction)) / (2 * step)
    assert np.sum(gradient * direction) == pytest.approx(slope, rel=1e-5, abs=1e-6)
