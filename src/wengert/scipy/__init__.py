"""SciPy's names with derivatives: `wengert.scipy.special` and its neighbours.

Each module is imported on first use. SciPy itself is not needed.

>>> import wengert.scipy as wsp
>>> print(f"{wsp.special.erf(1.0):.9f}")
0.842700793
"""

from __future__ import annotations

import importlib
from typing import Any

__all__ = ["integrate", "interpolate", "linalg", "ndimage", "signal", "special", "stats"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(
            f"wengert.scipy has no {name!r}. It has {', '.join(__all__)}; wg.custom_rule gives "
            "a function of SciPy a derivative."
        )
    return importlib.import_module(f".{name}", __name__)
