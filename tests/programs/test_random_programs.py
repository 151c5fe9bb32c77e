"""Random programs as people write them: NumPy, every derivative and compiled code agree.

`WENGERT_RANDOM_PROGRAMS` is the number of programs of the slow test, `WENGERT_RANDOM_SEED` its
first seed; a failure names the seed and prints the program.
"""

import os
import random

import numpy as np
import pytest

import wengert as wg
from programs.checks import (
    UndecidedError,
    check,
    check_compiled,
    check_compiled_curvature,
    evaluated,
)
from programs.writer import Program, write_program

SHARES = 20  # pieces of the slow test, for several processes
FAST = 12
# What is refused, as it says: whether NumPy has a view or a copy is not known, or an array is read
# by one name that is written to by another where a traced condition decides.
REFUSED = (
    "is not known here", "decides whether both are the same", "shares its memory with an array",
    "may share its memory in a turn",
)  # fmt: skip


def run(seeds):
    """The texts of the failures, and how many programs are not decided."""
    failures, undecided = [], 0
    for seed in seeds:
        try:
            check(write_program(seed), random.Random(seed))
        except UndecidedError:
            undecided += 1
        except Exception as error:
            if any(text in str(error) for text in REFUSED):
                undecided += 1
                continue
            notes = "\n".join(getattr(error, "__notes__", []))
            failures.append(f"seed {seed}: {type(error).__name__}: {error}\n{notes}")
    return failures, undecided


def test_programs_are_varied():
    sources = {write_program(seed).source for seed in range(1000)}
    assert len(sources) > 950
    text = "\n".join(sources)
    pieces = (
        "for i in", "while", "[::-1]", "np.linalg", "*= 0.5", "single", "def f", "scan", "break",
        "else:", "out=", "wg.cond", "G1 =", "uint8", "->", "in_axes", "nonlocal", "mode='reflect'",
        "finally:", ":=", "class Held",
    )  # fmt: skip
    for piece in pieces:
        assert piece in text, piece


def test_some_random_programs():
    failures, undecided = run(range(FAST))
    assert not failures, "\n\n".join(failures)
    assert undecided <= 1


ROUGH = """def program(x):
    s = x[1:] + x[0]
    for i in range(12):
        s = s - (s * s - 2.0) / (2.0 + np.abs(2 * s))
    return np.tanh(s * 0.25)
"""


def test_rounding_in_single_precision_is_told_from_an_error():
    """The curvature of some steps of Newton's method has few digits; another number is an error."""
    program = Program(ROUGH, [np.array([-0.51149416, -1.0047269], np.float32)], True)
    check_compiled_curvature(program)
    scaled = lambda function, inputs, way: [
        result * (1.0 if way is evaluated else 1.01)
        for result in wg.hvp(lambda x: np.sum(function(x[0])), inputs, inputs)
    ]
    with pytest.raises(AssertionError, match="in double precision"):
        check_compiled(program, scaled, wg.jit, "hvp")


@pytest.mark.slow
@pytest.mark.parametrize("share", range(SHARES))
def test_many_random_programs(share):
    first = int(os.environ.get("WENGERT_RANDOM_SEED", "0"))
    count = int(os.environ.get("WENGERT_RANDOM_PROGRAMS", "2000"))
    seeds = range(first + share, first + count, SHARES)
    failures, undecided = run(seeds)
    assert not failures, f"{len(failures)} of {len(seeds)} failed:\n" + "\n\n".join(failures)
    assert undecided <= 2 + len(seeds) // 10
