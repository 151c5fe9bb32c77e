"""Data sets, batches and folds.

>>> from wengert import data
>>> train, test = data.digits(train=200, test=50)
>>> for x, y in data.Loader(train, batch_size=100, shuffle=True):
...     print(x.shape, x.dtype, y.shape)
(100, 1, 28, 28) float32 (100,)
(100, 1, 28, 28) float32 (100,)

`mnist` and `fashion_mnist` (`images.py`) are looked for on this machine (`places.py`), else fetched
(`fetching.py`) and proved by their checksums (`catalog.py`); `idx.py` reads their files. `digits`
are drawn (`drawing.py`) from the shapes in `strokes.py`, `circles` are points (`points.py`). A data
set is made of splits (`sets.py`); `loader.py` walks over them or over any tree of arrays, in an
order that `shuffling.py` alone decides.
"""

from .drawing import digits
from .idx import read_idx, write_idx
from .images import fashion_mnist, mnist
from .loader import Loader, kfold
from .places import Found, found
from .points import circles
from .sets import Dataset, Examples, Split
from .shuffling import epoch_order

__all__ = [
    "Dataset",
    "Examples",
    "Found",
    "Loader",
    "Split",
    "circles",
    "digits",
    "epoch_order",
    "fashion_mnist",
    "found",
    "kfold",
    "mnist",
    "read_idx",
    "write_idx",
]
