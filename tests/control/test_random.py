"""Random programs with control flow: compiled, they give what Python gives."""

import importlib.util
import itertools
import os

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import wengert as wg

_numbers = itertools.count()
NAMES = ["a", "b", "c"]
RUNS = int(os.environ.get("WENGERT_RANDOM_PROGRAMS", "25"))


@st.composite
def expressions(draw, index):
    name, other = draw(st.sampled_from(NAMES)), draw(st.sampled_from(NAMES))
    places = [
        f"v[{draw(st.integers(0, 3))}]",
        *([f"v[{index}]", f"v[3 - {index}]"] if index else []),
    ]
    place = draw(st.sampled_from(places))
    forms = [
        f"np.sin({name} + {other})",
        f"{name} * 0.5 - {other}",
        f"{place} + 0.1 * {name}",
        f"helper({name}, {place})",
        f"({name} if {other} > 0.2 else {place})",
        f"max({name}, {other})",
        f"abs({name}) - 1",
        "0.5",
        *([f"{name} + 0.1 * {index}"] if index else []),
    ]
    return draw(st.sampled_from(forms))


@st.composite
def conditions(draw):
    name, other = draw(st.sampled_from(NAMES)), draw(st.sampled_from(NAMES))
    forms = [
        f"{name} > 0.3",
        f"{name} < {other}",
        f"not {name} > {other}",
        f"-0.5 < {name} < {other} + 1",
        f"{name} > 0 and {other} < 1",
        f"{name} > 1 or v[0] < {other}",
        "True",
        "n > 2",
    ]
    return draw(st.sampled_from(forms))


@st.composite
def blocks(draw, depth, loop, index, counter):
    lines = []
    for _ in range(draw(st.integers(1, 3))):
        kind = draw(st.integers(0, 9 if depth else 4))
        value = draw(expressions(index))
        name = draw(st.sampled_from(NAMES))
        if kind <= 1:
            lines.append(f"{name} = {value}")
        elif kind == 2:
            lines.append(f"{name} += {value}")
        elif kind == 3:
            place = index if index and draw(st.booleans()) else str(draw(st.integers(0, 3)))
            lines.append(f"v[{place}] {draw(st.sampled_from(['=', '+=']))} {value}")
        elif kind == 4:
            jumps = ["break", "continue"] if loop else []
            jump = draw(st.sampled_from([*jumps, f"return {name} + {value}"]))
            lines += [f"if {draw(conditions())}:", f"    {jump}"]
        elif kind <= 6:
            lines.append(f"if {draw(conditions())}:")
            lines += ["    " + s for s in draw(blocks(depth - 1, loop, index, counter))]
            if draw(st.booleans()):
                lines.append(f"elif {draw(conditions())}:")
                lines += ["    " + s for s in draw(blocks(depth - 1, loop, index, counter))]
            if draw(st.booleans()):
                lines.append("else:")
                lines += ["    " + s for s in draw(blocks(depth - 1, loop, index, counter))]
        elif kind <= 8:
            own = f"i{next(counter)}"
            turns = draw(st.sampled_from(["4", "range4", "4", "10"]))
            inner = own if turns != "10" else f"{own} % 4"
            over = "range(n)" if turns == "range4" else f"range({turns})"
            lines.append(f"for {own} in {over}:")
            lines += ["    " + s for s in draw(blocks(depth - 1, True, inner, counter))]
            if draw(st.integers(0, 4)) == 0:
                lines += ["else:", f"    {name} = {value}"]
        else:
            own = f"k{next(counter)}"
            lines += [
                f"{own} = 0",
                f"while {own} < 6 and ({draw(conditions())}):",
                f"    {own} += 1",
            ]
            lines += ["    " + s for s in draw(blocks(depth - 1, True, index, counter))]
    return lines


@st.composite
def programs(draw):
    body = draw(blocks(2, False, "", itertools.count()))
    head = ["v = x.copy()", "a, b, c = x[0], 0.25, x[1] * x[2]"]
    lines = [*head, *body, "return a + np.tanh(b) * c + np.sum(np.tanh(v))"]
    return "\n".join(
        [
            "import numpy as np",
            "def helper(p, q):",
            "    if p > q:",
            "        return p - q",
            "    return np.cos(q)",
            "def program(x, n):",
            *["    " + line for line in lines],
        ]
    )


def load(text, folder):
    path = folder / f"program{next(_numbers)}.py"
    path.write_text(text + "\n")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.program


def check(text, folder):
    program = load(text, folder)
    compiled = wg.jit(program)
    derived = wg.jit(wg.grad(program))
    for seed in range(3):
        x = np.random.default_rng(seed).normal(size=4)
        for n in (2, 4):
            np.testing.assert_allclose(compiled(x, n), program(x, n), rtol=1e-9, atol=1e-9)
            want = wg.grad(program)(x, n)
            np.testing.assert_allclose(derived(x, n), want, rtol=1e-7, atol=1e-7)


@pytest.mark.slow
@settings(max_examples=RUNS, deadline=None, suppress_health_check=list(HealthCheck))
@given(text=programs())
def test_programs(text, tmp_path_factory):
    check(text, tmp_path_factory.mktemp("programs"))


@settings(max_examples=4, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(text=programs())
def test_a_few_programs(text, tmp_path_factory):
    check(text, tmp_path_factory.mktemp("programs"))
