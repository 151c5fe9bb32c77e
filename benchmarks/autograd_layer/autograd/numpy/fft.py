import numpy as _np

import wengert.numpy as _wnp


def __getattr__(name):
    return getattr(_wnp.fft if hasattr(_wnp.fft, name) else _np.fft, name)
