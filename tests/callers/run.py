"""NumPy's own tests, with every call made again on traced values.

    python tests/callers/run.py                        all of it (hours)
    python tests/callers/run.py --calls 20             each function at most 20 times
    python tests/callers/run.py numpy.fft.tests        some modules of NumPy's tests

Further options are pytest's.
"""

import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from callers import hooks

MODULES = """
    numpy._core.tests.test_numeric numpy._core.tests.test_umath numpy._core.tests.test_multiarray
    numpy._core.tests.test_einsum numpy._core.tests.test_shape_base numpy._core.tests.test_ufunc
    numpy._core.tests.test_scalarmath numpy._core.tests.test_nep50_promotions
    numpy._core.tests.test_indexing numpy._core.tests.test_item_selection
    numpy._core.tests.test_umath_complex numpy.lib.tests numpy.linalg.tests numpy.fft.tests
"""


def main(arguments):
    os.environ["NPY_AVAILABLE_MEM"] = "1 GB"  # NumPy's tests of huge arrays skip themselves
    chosen = [one for one in arguments if one.startswith("numpy.")] or MODULES.split()
    options = [one for one in arguments if not one.startswith("numpy.")]
    quiet = ["-q", "-c", "/dev/null", "-p", "no:cacheprovider", "--continue-on-collection-errors"]
    quiet += ["-m", "not slow"]  # its large arrays are nothing to make again
    # an assertion that is rewritten would say what the comparison says already
    return pytest.main(
        [*quiet, "--assert=plain", "-W", "ignore", *options, "--pyargs", *chosen], plugins=[hooks]
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
