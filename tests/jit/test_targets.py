"""Code for every processor: generated for all of them, run on those this machine can be."""

import os
import re
import subprocess
import sys

import numpy as np
import pytest

import wengert as wg
import wengert.numpy as xp
from wengert.codegen.compile import compile_module
from wengert.codegen.program import emit_program
from wengert.codegen.target import Target
from wengert.jit import jit
from wengert.passes import optimise
from wengert.schedule import plan, schedule

TARGETS = ["skylake-avx512", "haswell", "x86-64", "apple-m1", "neoverse-n1"]


def mixed(x, y):
    return xp.where(x > 0, x * 2, -x), xp.astype(y, "int32") + 1, xp.sum(x) - xp.max(y, axis=0)


def moved(x, y):
    return xp.concatenate([x[::-2], y[1::2]], axis=0), xp.pad(x.T, [(1, 0), (2, 1)])


PROGRAMS = {
    "elementwise": lambda x, y: xp.sin(x) * xp.exp(-y * y) + xp.sqrt(xp.abs(x)),
    "special": lambda x, y: xp.tanh(x) + xp.log1p(x * x) + xp.arctan2(y, x) + xp.expm1(-y),
    "reductions": lambda x, y: (xp.sum(x * y), xp.max(x, axis=1), xp.prod(xp.cos(y), axis=0)),
    "mixed": mixed,
    "moved": moved,
    "matmul": lambda x, y: x @ y.T,
    "gradient": wg.value_and_grad(lambda x, y: xp.sum(xp.tanh(x @ y.T))),
    "singles": lambda x, y: xp.sum(xp.astype(x, "float32") * xp.astype(y, "float32"), axis=0),
}


def arguments():
    rng = np.random.default_rng(11)
    return [np.round(rng.uniform(-2, 2, (13, 9)), 2) for _ in range(2)]


@pytest.mark.parametrize("name", TARGETS)
@pytest.mark.parametrize("program", PROGRAMS)
def test_code_is_generated_for(program, name):
    target = Target.named(name)
    graph = optimise(wg.trace(PROGRAMS[program], *arguments()))
    module = emit_program(plan(schedule(graph)), target).module
    assert module.triple == target.triple
    compiled = compile_module(module, target)
    text = compiled.assembly()
    assert len(text.splitlines()) > 20
    wide = {"skylake-avx512": "zmm", "haswell": "ymm", "x86-64": "xmm"}
    assert re.search(wide.get(name, r"\.(2d|4s|16b)\b"), text)
    if name == "x86-64":
        assert "ymm" not in text


def results():
    """The results of all programs, by name and number."""
    found = {}
    for name, program in PROGRAMS.items():
        for number, part in enumerate(wg.tree.leaves(jit(program)(*arguments()))):
            found[f"{name}-{number}"] = np.asarray(part)
    return found


@pytest.mark.parametrize("name", [n for n in TARGETS if Target.named(n).runs_here()])
def test_results_are_those_of_the_host(name, tmp_path):
    environment = {**os.environ, "WENGERT_CPU": name, "WENGERT_CACHE": str(tmp_path / "cache")}
    place = tmp_path / "results.npz"
    command = [sys.executable, "-X", "faulthandler", __file__, str(place)]
    done = subprocess.run(
        command, capture_output=True, text=True, env=environment, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == str(Target.named(name).cpu)
    want = results()
    with np.load(place) as got:
        assert set(got.files) == set(want)
        for key in got.files:
            assert got[key].dtype == want[key].dtype
            tolerance = 1e-5 if got[key].dtype == np.float32 else 1e-13
            np.testing.assert_allclose(
                got[key], want[key], rtol=tolerance, atol=tolerance, err_msg=key
            )


def test_some_target_runs_here():
    assert any(Target.named(name).runs_here() for name in TARGETS)


if __name__ == "__main__":
    np.savez(sys.argv[1], **results())
    print(Target.host().cpu)
