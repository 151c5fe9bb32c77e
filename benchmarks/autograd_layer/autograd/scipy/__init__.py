"""SciPy's names, by `wengert.scipy`."""

import importlib


def of_wengert(name):
    """The module of `wengert.scipy`, or None where there is none."""
    try:
        return importlib.import_module(f"wengert.scipy.{name}")
    except ModuleNotFoundError:
        return None


from . import integrate, linalg, signal, special, stats  # noqa: E402
