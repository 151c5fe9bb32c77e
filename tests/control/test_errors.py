"""What cannot become an operation is an error with the line, the reason and the remedy."""
# ruff: noqa: SIM108 - the forms are what is tested

import numpy as np
import pytest

import wengert as wg
import wengert.numpy as wnp

STATE = {"count": 0}
COUNT = 0


def returns_nothing(x):
    if x > 0:
        return 1.0


def appends(x):
    out = []
    if x > 0:
        out.append(1)
    return x * len(out)


def counts(x):
    if x > 0:
        STATE["count"] += 1
    return x


def counting(x):
    STATE["count"] += 1
    return x * 2


def counts_in_helper(x):
    if x > 0:
        x = counting(x)
    return x


def changes_the_module(x):
    global COUNT
    if x > 0:
        COUNT += 1
    return x


class Box:
    """Has an attribute."""

    value = 0.0

    def put(self, x):
        if x > 0:
            self.value = x
        return x


def other_shape(x):
    if x > 0:
        y = np.ones(3)
    else:
        y = np.ones(2)
    return y


def other_structure(x):
    if x > 0:
        return x, 1
    return [x, 2]


class OwnError(Exception):
    """One of the user's."""


def raises(x):
    if x > 0:
        raise OwnError("too large")
    return x


def grows(x):
    n = 0.0
    while np.sum(x) < 10:
        x = np.concatenate([x, x])
    return n


def wider(x):
    while x < 10:
        x = x * np.float64(2)
    return x


def ambiguous(x):
    if x > 0:
        return 1.0
    return 2.0


def in_place_of_the_caller(x):
    if x[0] > 0:
        x[1] = 0.0
    return x


def stale_view(x):
    y = x.copy()
    first = y[:1]
    if x[0] > 0:
        y[0] = 5.0
        z = first[0]
    else:
        z = 0.0
    return z


def late_variable(x):
    for i in range(int(x)):
        y = x / (i + 1)
    return y * 2


def matches_a_condition(x):
    match x > 0, x > 1:
        case (True, False):
            return x
    return -x


CASES = [
    (matches_a_condition, 0.5, "`match` compares a traced condition with True or False"),
    (
        returns_nothing,
        1.0,
        r"the function returns f64\* if a traced condition holds and None if not",
    ),
    (appends, 1.0, r"append\(\) changes a list from outside"),
    (changes_the_module, 1.0, "the global variable 'COUNT' is changed in a branch or loop"),
    (Box().put, 1.0, "an assignment changes a Box from outside"),
    (other_shape, 1.0, r"'y' is f64\[3\] if a traced condition holds and f64\[2\] if not"),
    (other_structure, 1.0, r"the function returns \(f64\*, i64\*\) if .* and \[f64\*, i64\*\] if"),
    (raises, -1.0, r"OwnError is raised in a branch .* \(too large\)"),
    (grows, np.ones(3), r"'x' is f64\[3\] before a turn of the loop and f64\[6\] after it"),
    (wider, np.float32(1), "'x' is f32 before a turn of the loop and f64 after it"),
    (ambiguous, np.ones(2), r"the truth of bool\[2\] is ambiguous: it has 2 elements"),
    (in_place_of_the_caller, np.ones(2), "the array is an argument of the function being traced"),
    (stale_view, np.ones(2), "it shares its memory with an array that is written to"),
    (late_variable, 8.0, "the variable 'y' has a value only if a traced condition says so"),
]


@pytest.mark.parametrize("f", [counts, counts_in_helper])
def test_the_state_of_the_module(f):
    with pytest.raises(wg.errors.LeakedTracerError, match="it changes 'count' of a dict"):
        wg.jit(f)(1.0)
    assert STATE == {"count": 0}


@pytest.mark.parametrize(("f", "x", "text"), CASES, ids=[case[0].__name__ for case in CASES])
def test_errors(f, x, text):
    with pytest.raises((TypeError, ValueError), match=text) as caught:
        wg.jit(f)(x)
    line = getattr(f, "__func__", f).__code__.co_firstlineno
    places = [f"test_errors.py:{line + offset}" for offset in range(9)]
    assert any(place in str(caught.value) for place in places)
    assert str(caught.value).endswith(".") or "remedy" in str(caught.value)
    assert STATE == {"count": 0} and COUNT == 0


def test_functions_that_are_not_converted():
    def numbers(x):
        if x > 0:
            yield x

    def lists(x):
        return next(numbers(x))

    with pytest.raises(TypeError, match="numbers is not converted: it is a generator"):
        wg.jit(lists)(1.0)

    def looks(x):
        if x > 0:
            return len(locals())
        return 0

    with pytest.raises(TypeError, match=r"looks is not converted: it calls locals\(\)"):
        wg.jit(looks)(1.0)
    made: dict = {}
    exec("def f(x):\n    if x > 0:\n        return x\n    return -x\n", made)
    with pytest.raises(TypeError, match="f is not converted: its source cannot be read"):
        wg.jit(made["f"])(1.0)


def test_what_is_not_converted_runs_where_nothing_is_traced():
    def numbers(n):
        if n > 1:
            yield from range(n)

    assert wg.jit(lambda x: x * sum(numbers(4)))(2.0) == 12.0


def test_nothing_is_left_of_an_attempt():
    seen = []

    def f(x):
        s = 0.0
        for i in range(20):
            s = s + x[i]
            if i == 3:
                seen.append(i)
        return s

    assert wg.jit(f)(np.arange(20.0)) == 190.0
    assert seen == [3]


def test_a_range_outside_of_a_statement():
    with pytest.raises(TypeError, match="is not known while the function is traced"):
        wg.jit(lambda n: wnp.sum(wnp.array(list(range(n)))))(3)


def extends_in_place(x):
    out = [1.0]
    if x > 0:
        out += [2.0]
    return x * len(out)


def repeats_in_place(x):
    out = [1.0]
    if x > 0:
        out *= 2
    return x * len(out)


def unites_in_place(x):
    out = {1}
    if x > 0:
        out |= {2}
    return x * len(out)


def add_one(out):
    out += [1.0]


def extends_in_a_helper(x):
    out = []
    if x > 0:
        add_one(out)
    return x * len(out)


@pytest.mark.parametrize(
    ("function", "kind"),
    [
        (extends_in_place, "list"),
        (repeats_in_place, "list"),
        (unites_in_place, "set"),
        (extends_in_a_helper, "list"),
    ],
)
def test_containers_are_not_changed_in_place(function, kind):
    with pytest.raises(wg.errors.ControlFlowError, match=f"changes a {kind} from outside"):
        wg.jit(function)(1.0)
