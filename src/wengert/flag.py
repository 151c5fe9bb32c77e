"""A Boolean that compiled programs watch.

`jit` reads Python values once, while tracing; `model.eval()` would then be lost on a program that
was traced in training. What programs do watch is whether a gradient is there: they are bound to
that (see `jit/state.py`) and checked natively. So a flag keeps its value as the absence of a
gradient, and a function that reads it gets one program for each value.

>>> import numpy as np
>>> import wengert as wg
>>> flag = Flag(True)
>>> @wg.jit
... def f(x):
...     return x + 1 if flag.value else x
>>> x = np.zeros(2)
>>> f(x)
array([1., 1.])
>>> flag.value = False
>>> f(x)
array([0., 0.])
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .parts import Parts, Same, Unchanged
from .snapshot import snapshot
from .tensor import Tensor

_SET = np.zeros(())


class Flag:
    """A Boolean that compiled programs watch."""

    __slots__ = ("_witness",)

    def __init__(self, value: bool):
        self._witness = Tensor(_SET, requires_grad=True)
        self.value = value

    @property
    def value(self) -> bool:
        """The Boolean; a program that reads it while it is traced is bound to it."""
        return self._witness._leaf.get_gradient() is None  # type: ignore[union-attr]

    @value.setter
    def value(self, value: bool) -> None:
        if value != self.value:
            self._witness.grad = None if value else _SET

    def parts(self) -> Parts:
        """How a compiled function sees that another flag is as this one, which it got."""
        leaf: Any = self._witness._leaf
        if leaf._cell is None:  # as in a module just rebuilt
            inside = (Same(None), Unchanged(snapshot(leaf.gradient)))
            home = Parts(type(leaf), ("_cell", "gradient"), inside)
        else:
            present = Parts(type(leaf._cell), ("_present",), (Same(leaf._cell.present),))
            home = Parts(type(leaf), ("_cell",), (present,))
        return Parts(Flag, ("_witness",), (Parts(Tensor, ("_leaf",), (home,)),))

    def __deepcopy__(self, memo: Any) -> Flag:
        return Flag(self.value)

    def __reduce__(self) -> Any:
        return Flag, (self.value,)
