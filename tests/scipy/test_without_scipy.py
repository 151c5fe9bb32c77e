"""`wengert.scipy` does not need SciPy, except where SciPy evaluates a function."""

import subprocess
import sys
import textwrap


def run(script):
    text = "import sys\nsys.modules['scipy'] = None\n" + textwrap.dedent(script)
    return subprocess.run(
        [sys.executable, "-c", text], capture_output=True, text=True, check=True
    ).stdout


def test_what_is_made_of_operations_runs_without_scipy():
    found = run("""
        import numpy as np
        import wengert.scipy as wsp
        times = np.array([0.0, 1.0])
        print(wsp.integrate.odeint(lambda y, t: -y, 1.0, times)[-1].round(4))
        print(wsp.interpolate.CubicSpline(np.arange(4.0), np.arange(4.0) ** 3)(1.5).round(4))
        print(wsp.linalg.lu_solve(wsp.linalg.lu_factor(2 * np.eye(2)), np.ones(2)))
        print(wsp.ndimage.uniform_filter(np.array([3.0, 0.0, 6.0])))
        print(wsp.signal.lfilter([1.0], [1.0, -0.5], np.array([1.0, 0.0])))
    """)
    assert found.split("\n")[:5] == ["0.3679", "3.375", "[0.5 0.5]", "[2. 3. 4.]", "[1.  0.5]"]


def test_what_scipy_evaluates_says_what_is_missing():
    found = run("""
        import numpy as np
        from wengert.scipy import linalg
        for call in (linalg.sqrtm, linalg.schur, lambda a: linalg.solve_sylvester(a, a, a)):
            try:
                call(np.eye(2))
            except ImportError as error:
                print(error)
    """)
    lines = found.strip().split("\n")
    assert [line.split(" ")[0].rstrip(":") for line in lines] == [
        "sqrtm", "schur", "solve_sylvester",
    ]  # fmt: skip
    assert all("SciPy is not installed. Install it: pip install scipy" in line for line in lines)
