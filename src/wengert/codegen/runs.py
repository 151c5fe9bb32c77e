"""How the long sums of products are cut into runs; see `summation`."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

# What an accumulator of a product adds up before it hands it on. Those of matrix products fill the
# registers, so that handing on what is in them takes a way through memory; those of products that
# are sums of vectors do not. One run may be longer than each of many: blocks of 256 are not cut.
PRODUCT_RUN, PRODUCT_LONGEST = 132, 264
VECTOR_RUN, VECTOR_LONGEST = 64, 96
# A run consists of whole turns of loops in which up to four positions are written out.
_WHOLE_TURNS = 12
# Up to so many runs are just added up: this loses no more than a run does.
FEW_RUNS = 16


@dataclass(frozen=True)
class Runs:
    """How the loop of a sum of products is cut: turns in a run, and how many runs there are."""

    turns: int
    count: int

    @classmethod
    def across(cls, extent: int, each: int, unroll: int) -> Runs | None:
        """For accumulators that take `each` products at each of `extent` positions of a loop with
        `unroll` of them in a turn; None: these are few, or so many that the loops inside are cut.

        >>> Runs.across(784, 1, 4)
        Runs(turns=33, count=6)
        >>> Runs.across(256, 1, 4), Runs.across(64, 1000, 1)
        (None, None)
        """
        unit = _WHOLE_TURNS if each == 1 else 1
        return cls._cut(extent, each, unroll, PRODUCT_RUN, PRODUCT_LONGEST, unit)

    @classmethod
    def along(cls, extent: int, each: int) -> Runs | None:
        """The same for accumulators that take vectors along the sum."""
        return cls._cut(extent, each, 1, VECTOR_RUN, VECTOR_LONGEST, 1)

    @classmethod
    def _cut(
        cls, extent: int, each: int, unroll: int, run: int, longest: int, unit: int
    ) -> Runs | None:
        if each > longest or extent * each <= longest:
            return None
        most = max(1, run // each)
        positions = ceil(ceil(extent / ceil(extent / most)) / unit) * unit
        return cls(positions // unroll, ceil(extent / positions))
