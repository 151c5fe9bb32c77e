"""Random programs as people write them: NumPy, every derivative and compiled code agree.

`WENGERT_RANDOM_PROGRAMS` is the number of programs of the slow test, `WENGERT_RANDOM_SEED` its
first seed; a failure names the seed and prints the program.
"""

import os
import random

import pytest

from programs.checks import UndecidedError, check
from programs.writer import write_program

SHARES = 20  # pieces of the slow test, for several processes
FAST = 12


def run(seeds):
    """The texts of the failures, and how many finite differences decided nothing."""
    failures, undecided = [], 0
    for seed in seeds:
        try:
            check(write_program(seed), random.Random(seed))
        except UndecidedError:
            undecided += 1
        except Exception as error:
            notes = "\n".join(getattr(error, "__notes__", []))
            failures.append(f"seed {seed}: {type(error).__name__}: {error}\n{notes}")
    return failures, undecided


def test_programs_are_varied():
    sources = {write_program(seed).source for seed in range(100)}
    assert len(sources) == 100
    text = "\n".join(sources)
    for piece in ("for i in", "while", "[::-1]", "np.linalg", "*= 0.5", "single", "def f", "scan"):
        assert piece in text, piece


def test_some_random_programs():
    failures, undecided = run(range(FAST))
    assert not failures, "\n\n".join(failures)
    assert undecided <= 1


@pytest.mark.slow
@pytest.mark.parametrize("share", range(SHARES))
def test_many_random_programs(share):
    first = int(os.environ.get("WENGERT_RANDOM_SEED", "0"))
    count = int(os.environ.get("WENGERT_RANDOM_PROGRAMS", "2000"))
    seeds = range(first + share, first + count, SHARES)
    failures, undecided = run(seeds)
    assert not failures, f"{len(failures)} of {len(seeds)} failed:\n" + "\n\n".join(failures)
    assert undecided <= 2 + len(seeds) // 10
