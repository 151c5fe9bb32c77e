"""The spine: what a plain program needs, and nothing that is there for speed."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
# Ways of a program that are no spine and not there for speed, by what they are for.
BESIDE = {
    "tensors as state": "tensor jit.state snapshot keeping folders functions",
    "NumPy's indexing by masks": "trace.masked",
    "indexing by traced integers": "trace.elements",
    "Python's control flow": "control.conversion control.source control.rewriting control.jumps "
    "control.names control.assigned control.stack_names control.counters control.pieces "
    "control.purity control.values control.yields control.matches trace.preparing "
    "trace.conditional "
    "jit.converting",
    "loops and programs in programs": "transforms.control transforms.loop transforms.bodies "
    "transforms.residuals transforms.calls transforms.flow transforms.choice "
    "transforms.repetition transforms.sums transforms.versions",
    "more transforms": "transforms.batching transforms.harmless transforms.jacobian "
    "transforms.check",
    "operations that NumPy evaluates": "jit.hosting",
    "memory that is used again": "runtime.arena",
    "functions of libraries, complex numbers": "loops.library loops.pairs",
    "limits of size": "schedule.inlining",
    "steps that the environment chooses": "schedule.setting",
    "rules that every program must keep": "jit.verifying graph.rules schedule.verify.accesses "
    "schedule.verify schedule.verify.arena schedule.verify.dtypes schedule.verify.places "
    "schedule.verify.stored loops.loop loops.products",
    "Ctrl-C": "codegen.interrupts codegen.objects",
    "the machine and its thresholds": "machine policy runtime.lapack runtime.numpy_loops",
    "limits, and what threads there are": "runtime.limits runtime.layout runtime.threads",
    "warnings and looking inside": "jit.debugging jit.drawn jit.outside jit.often jit.waiting "
    "lines loops.infix",
    "any length, many calls as one": "jit.dynamic jit.looping",
    "the order of instructions": "codegen.ordering",
    "arrays that NumPy makes": "trace.reaching trace.creating trace.lists trace.made trace.flat",
    "NumPy's warnings": "unwarned",
    "errors that a handler of the user's hides": "trace.hidden",
    "functions of SciPy": "trace.foreign",
    "how arrays lie in memory": "trace.orders trace.lying",
    "arrays that are one of several": "trace.either",
    "reads and writes at fixed places": "trace.writes transforms.places",
}
ENTRIES = ("ops", "numpy", "codegen.vmath", "codegen.functions")
PROGRAM = """
import sys
import numpy as np
import wengert as wg

def loss(w, x):
    return np.sum(np.tanh(x @ w) ** 2)

w, x = np.ones((3, 2)) / 4, np.ones((4, 3))
value, gradient = wg.jit(wg.value_and_grad(loss))(w, x)
found = np.tanh(x @ w)
np.testing.assert_allclose(value, np.sum(found**2))
np.testing.assert_allclose(gradient, x.T @ (2 * found * (1 - found**2)))
print(*sys.modules)
"""


def lines_module():
    spec = importlib.util.spec_from_file_location("lines", ROOT / "benchmarks" / "lines.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def imported(setting):
    """The modules of wengert that a compiled program has imported, without the packages."""
    environment = {**os.environ, "WENGERT_SCHEDULE": setting, "WENGERT_CACHE": "off"}
    found = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True, env=environment
    ).stdout
    names = [name.removeprefix("wengert.") for name in found.split() if name[:8] == "wengert."]
    packages = {path.parent.name for path in (ROOT / "src").rglob("__init__.py")}
    return {name for name in names if name not in packages and not name.startswith(ENTRIES)}


def spine():
    module = lines_module()
    names = [path.relative_to(module.SOURCE).with_suffix("") for path in module.spine()]
    return {str(name).replace(os.sep, ".") for name in names}


def test_a_plain_program_imports_the_spine_and_nothing_for_speed():
    beside = {name for names in BESIDE.values() for name in names.split()}
    found = imported("plain")
    assert found <= spine() | beside, sorted(found - spine() - beside)
    assert spine() - found - {"ops.op"} == set()
    assert not beside & spine()


def test_the_test_sees_what_is_there_for_speed():
    assert {"schedule.regions", "codegen.kernels", "codegen.entry"} <= imported("")


def test_the_spine_is_short(capsys):
    module = lines_module()
    assert all(path.exists() for path in module.spine())
    assert module.lines(module.spine()) <= MOST_LINES
    module.main()
    assert "spine" in capsys.readouterr().out


MOST_LINES = 10_000
