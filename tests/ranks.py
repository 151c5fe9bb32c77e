"""Running a program on several ranks with the real mpiexec; what has no MPI skips."""

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent / "distributed"
BESIDE = Path(sys.executable).parent / "mpiexec"
MPIEXEC = str(BESIDE) if BESIDE.exists() else shutil.which("mpiexec")
needs_mpi = pytest.mark.skipif(
    MPIEXEC is None or importlib.util.find_spec("mpi4py") is None,
    reason="MPI is not installed: pip install 'wengert[mpi]'",
)


def environment():
    """One thread a rank; modules beside the tests can be imported."""
    root = Path(importlib.util.find_spec("wengert").origin).parents[1]
    path = os.pathsep.join([str(root), str(HERE)])
    return os.environ | {"WENGERT_THREADS": "1", "PYTHONPATH": path}


def command(ranks, program, *arguments):
    """`ranks` processes of a program; None: one process without mpiexec."""
    python = [sys.executable, "-W", "error", str(HERE / program), *map(str, arguments)]
    return python if ranks is None else [MPIEXEC, "-n", str(ranks), *python]


def run(ranks, program, *arguments, timeout=60, good=True):
    """Run it to the end; what it wrote."""
    done = subprocess.run(
        command(ranks, program, *arguments),
        env=environment(),
        capture_output=True,
        text=True,
        timeout=timeout,
    )
    text = done.stdout + done.stderr
    assert (done.returncode == 0) is good, text
    return text


def start(ranks, program, *arguments):
    """Begin to run it."""
    return subprocess.Popen(
        command(ranks, program, *arguments),
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
