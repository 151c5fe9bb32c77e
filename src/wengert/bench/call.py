"""What a call costs: value and gradient of eight numbers, where the work itself is nothing."""

from __future__ import annotations

import numpy as np

from .ratio import mixed_sum, with_jax, with_torch, with_wengert
from .workload import Workload, plain


def workloads(quick: bool) -> list[Workload]:
    """One function of eight numbers."""
    del quick
    x = np.linspace(-0.7, 1.0, 8)  # a sum that is not zero by symmetry
    return [
        Workload(
            "call",
            "value and gradient of 8 numbers",
            {
                "wengert": with_wengert(mixed_sum, x),
                "numpy f": plain(mixed_sum, np, x),
                "jax": with_jax(mixed_sum, x),
                "torch": with_torch(mixed_sum, x),
            },
            goals={"jax": 10.0},
            same=("jax", "torch"),
            limit=0.6e-6,
        )
    ]
