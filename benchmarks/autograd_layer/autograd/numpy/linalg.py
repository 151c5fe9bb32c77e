import numpy as _np

import wengert.numpy as _wnp


def T(x):
    return _wnp.matrix_transpose(x)


def _dot(a, b):
    return _wnp.matmul(a, b)


def __getattr__(name):
    return getattr(_wnp.linalg if hasattr(_wnp.linalg, name) else _np.linalg, name)
