"""Distributions with their parameters given once, as ``scipy.stats.norm(loc, scale)``."""

from __future__ import annotations

from typing import Any

from ..errors import explain


class Frozen:
    """A distribution and its parameters; the methods are those of the distribution, without them.

    >>> import wengert as wg
    >>> from wengert.scipy import stats
    >>> stats.norm(1.0, scale=2.0)
    <wengert.scipy.stats.norm of given parameters>
    >>> print(f"{wg.grad(lambda scale: stats.norm(1.0, scale).logpdf(2.0))(0.5):.1f}")
    6.0
    """

    def __init__(self, distribution: Any, *args: Any, **named: Any):
        self.dist, self.args, self.kwds = distribution, args, named

    def __repr__(self) -> str:
        return f"<wengert.scipy.stats.{self.dist.name} of given parameters>"

    def __getattr__(self, name: str) -> Any:
        method = None if name.startswith("_") else getattr(type(self.dist), name, None)
        if not callable(method):
            there = ", ".join(sorted(one for one in dir(self.dist) if _is_method(self.dist, one)))
            raise AttributeError(explain(f"{self.dist.name}.{name}", f"is not there; {there} are"))
        return lambda *x: method(self.dist, *x, *self.args, **self.kwds)


def _is_method(distribution: Any, name: str) -> bool:
    return not name.startswith("_") and callable(getattr(type(distribution), name, None))
