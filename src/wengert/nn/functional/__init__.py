"""What the layers compute, as plain functions: names, arguments and shapes are PyTorch's.

>>> import numpy as np
>>> from wengert.nn import functional as F
>>> F.relu(F.linear(np.ones((1, 3)), np.array([[1.0, 2.0, 3.0], [-1.0, 0.0, 0.0]])))
array([[6., 0.]])
"""

from .activations import *  # noqa: F403
from .attention import *  # noqa: F403
from .convolution import *  # noqa: F403
from .ctc import *  # noqa: F403
from .dropout import *  # noqa: F403
from .folding import *  # noqa: F403
from .indexing import *  # noqa: F403
from .linear import *  # noqa: F403
from .losses import *  # noqa: F403
from .margins import *  # noqa: F403
from .normalization import *  # noqa: F403
from .pooling import *  # noqa: F403
from .resampling import *  # noqa: F403

# what the files list in theirs
__all__ = [name for name, value in vars().copy().items() if callable(value) and name[0] != "_"]
