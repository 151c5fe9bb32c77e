"""Random programs with containers: compiled, they give what Python gives, or an error says why not.

`WENGERT_RANDOM_PROGRAMS` is the number of programs of the slow test, `WENGERT_RANDOM_SEED` its
first seed; a failure names the seed and prints the program.
"""

import os

import pytest

from programs.containers import check, write_container_program
from wengert.errors import WengertError

SHARES = 20  # pieces of the slow test, for several processes
FAST = 16


def run(seeds):
    """The texts of the failures, and how many programs are refused."""
    failures, refused = [], 0
    for seed in seeds:
        try:
            check(write_container_program(seed))
        except WengertError:
            refused += 1
        except Exception as error:
            if "unhashable type: 'Tracer'" in str(error):
                refused += 1
                continue
            notes = "\n".join(getattr(error, "__notes__", []))
            failures.append(f"seed {seed}: {type(error).__name__}: {error}\n{notes}")
    return failures, refused


def test_programs_are_varied():
    sources = {write_container_program(seed).source for seed in range(150)}
    assert len(sources) > 145
    text = "\n".join(source.split("def program")[1] for source in sources)
    pieces = (
        "for i", "while", "break", "continue", "else:", "elif", "try:", "finally:", "nonlocal",
        "yield", "lambda", ":=", "return u", "enumerate", "zip", "reversed", "del ", ".pop(",
        ".insert(", ".extend(", "deque", "setdefault", "deepcopy", "out=", ".T[", "int(",
    )  # fmt: skip
    for piece in pieces:
        assert piece in text, piece


def test_some_random_programs_with_containers():
    failures, refused = run(range(FAST))
    assert not failures, "\n\n".join(failures)
    assert refused <= FAST // 2


@pytest.mark.slow
@pytest.mark.parametrize("share", range(SHARES))
def test_many_random_programs_with_containers(share):
    first = int(os.environ.get("WENGERT_RANDOM_SEED", "0"))
    count = int(os.environ.get("WENGERT_RANDOM_PROGRAMS", "1000"))
    seeds = range(first + share, first + count, SHARES)
    failures, refused = run(seeds)
    assert not failures, f"{len(failures)} of {len(seeds)} failed:\n" + "\n\n".join(failures)
    assert refused <= 2 + len(seeds) // 3
