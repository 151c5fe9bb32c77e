"""Types and signatures survive the transforms: for a type checker, and for `inspect`."""

import inspect
import runpy
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import wengert as wg

ROOT = Path(__file__).parent.parent
TYPED = ROOT / "tests" / "typed.py"


def check(*paths):
    command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", *map(str, paths)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False).stdout


@pytest.mark.slow
def test_a_type_checker_knows_the_results(tmp_path):
    pytest.importorskip("mypy")
    wrong = tmp_path / "wrong.py"
    wrong.write_text(
        "import wengert as wg\n"
        "def f(x: float) -> float:\n    return x\n"
        "s: str = wg.jit(wg.grad(f))(1.0)\n"
    )
    found = check(TYPED, wrong).splitlines()
    assert [line.split(": ", 1)[1] for line in found if line.startswith(("tests", "/"))] == [
        "error: Incompatible types in assignment "
        '(expression has type "float", variable has type "str")  [assignment]'
    ]


def test_what_is_typed_runs():
    runpy.run_path(str(TYPED))


def loss(x: float, *, scale: float = 1.0) -> float:
    """Doubled."""
    return 2.0 * scale * x


ruled = wg.custom_rule(vjp=lambda x: (x, lambda g: (g,)))
TRANSFORMS = [
    wg.jit, wg.grad, wg.value_and_grad, wg.vmap, wg.checkpoint, wg.jacobian, wg.jacfwd, wg.jacrev,
    wg.hessian, ruled,
]  # fmt: skip


@pytest.mark.parametrize("transform", TRANSFORMS)
def test_names_and_parameters_survive(transform):
    made = transform(loss)
    assert inspect.signature(made).parameters == inspect.signature(loss).parameters
    assert (made.__name__, made.__doc__) == ("loss", "Doubled.")


def test_the_package_says_that_it_is_typed(tmp_path):
    assert (Path(wg.__file__).parent / "py.typed").exists()


@pytest.mark.slow
def test_the_wheel_says_so_too(tmp_path):
    pytest.importorskip("hatchling")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    assert "wengert/py.typed" in zipfile.ZipFile(wheel).namelist()
