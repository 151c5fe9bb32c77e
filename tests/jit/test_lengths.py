"""`jit(dynamic=...)`: whatever Python does with a length, every length gets its own numbers."""

import math
import warnings

import numpy as np
import pytest

import wengert as wg
from wengert.errors import FixedLengthWarning

FUNCTIONS = {
    "even or odd": lambda x: np.sum(x) if len(x) % 2 == 0 else -np.sum(x),
    "threes": lambda x: x * (len(x) % 3),
    "fours": lambda x: x + (len(x) % 4 == 0),
    "sevens": lambda x: x * 2 if len(x) % 7 == 3 else x * 3,
    "halves": lambda x: x * (len(x) // 2),
    "thirds": lambda x: x / (1 + len(x) // 3),
    "one at a time": lambda x: x * (2 if len(x) == 1 else 3),
    "a single length": lambda x: x - 1 if len(x) == 17 else x,
    "small ones": lambda x: x * 5 if len(x) < 4 else x,
    "between": lambda x: x * 5 if 30 < len(x) < 36 else x,
    "large ones": lambda x: x * 5 if len(x) > 2000 else x,
    "powers of two": lambda x: x * (len(x) & (len(x) - 1) == 0),
    "a bit": lambda x: x + (len(x) >> 3 & 1),
    "bits": lambda x: x * len(x).bit_length(),
    "digits": lambda x: x * len(str(len(x))),
    "squares": lambda x: x + (math.isqrt(len(x)) ** 2 == len(x)),
    "a common divisor": lambda x: x * math.gcd(len(x), 6),
    "rounded": lambda x: x * round(len(x), -1),
    "at most": lambda x: x * min(len(x), 5000),
    "at least": lambda x: x * max(len(x), 20),
    "from a table": lambda x: x * {8: 2.0, 12: 3.0}.get(len(x), 1.0),
    "from a set": lambda x: x * (1.0 if len(x) in (4, 5, 6) else 2.0),
    "a loop": lambda x: x + sum(1 for k in range(2, 10) if len(x) % k == 0),
    "a logarithm": lambda x: x * math.floor(math.log2(len(x) + 1)),
    "a slice": lambda x: x * np.ones(len(x))[: len(x) // 1].size,
    "a parity of the shape": lambda x: x * (-1.0) ** x.shape[0],
    "a size": lambda x: x * (x.size % 5),
    "from zero to one": lambda x: x * np.linspace(0, 1, len(x)),
    "counting back": lambda x: x * np.arange(len(x), 0, -1),
    "alternating": lambda x: x * (np.arange(len(x)) % 2),
    "the mean": lambda x: x - np.mean(x),
    "nothing of the kind": lambda x: np.sin(x) * 2,
    "division by n - 1": lambda x: np.sum(x * x) / (len(x) - 1 or 7),
    "the last one": lambda x: x + (len(x) - 1) ** 2,
    "an index": lambda x: x * [2.0, 3.0, 5.0][len(x) % 3],
    "a try": lambda x: x * [2.0] * 1 if False else x * ([9.0] * 30 + [4.0] * 9000)[len(x)],
}
FEW = (5, 0, 1, 2, 4, 6, 12, 17, 35, 2500, 4, 5)
MANY = (*range(41), 63, 64, 65, 99, 100, 128, 255, 256, 330, 331, 332, 1000, 1021, 1024, 2500, 4096)


def check(name, lengths):
    function = FUNCTIONS[name]
    compiled = wg.jit(function, dynamic={"x": 0})
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore", RuntimeWarning)
        warnings.simplefilter("ignore", FixedLengthWarning)
        for n in lengths:
            x = np.random.default_rng(n).standard_normal(n)
            for _ in range(2):
                found, expected = compiled(x), function(x)
                np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-13, err_msg=f"{n}")
                assert found.dtype == expected.dtype
    return compiled


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_length_is_right(name):
    check(name, FEW)


@pytest.mark.slow
@pytest.mark.parametrize("name", FUNCTIONS)
def test_many_lengths_are_right(name):
    check(name, MANY)


def programs(compiled):
    return [program for several in compiled._programs.values() for program in several]


def test_only_other_lengths_have_programs_of_their_own():
    compiled = check("large ones", (5, 40, 3000, 41, 42, 3001, 3000))
    assert [program.any_length for program in programs(compiled)].count(True) == 1
    assert len(programs(compiled)) == 3


def test_a_length_is_looked_at_once():
    calls = []

    def f(x):
        calls.append(len(x))
        return x * 2

    compiled = wg.jit(f, dynamic={"x": 0})
    for n in (5, 6, 5, 6, 6, 1030, 6, 1030):  # 6 and 1030 have one place in the table
        np.testing.assert_array_equal(compiled(np.ones(n)), np.full(n, 2.0))
    assert sorted(calls) == [5, 6, 37, 331, 1021, 1030]
    out = np.empty(9)
    assert compiled(np.ones(9), out=out) is out and out[8] == 2
    assert len(programs(compiled)) == 1


def test_state_is_as_it_would_be_at_new_lengths():
    total = wg.tensor(0.0)

    @wg.jit(dynamic={"x": 0})
    def add(x):
        with wg.no_grad():
            total.__iadd__(np.sum(x) if len(x) % 2 else -np.sum(x))
        return x + 1

    expected = 0.0
    for n in (3, 4, 5, 6, 3, 4, 1, 0, 7):
        add(np.ones(n))
        expected += n if n % 2 else -n
        assert float(total) == expected
