"""Networks: modules, layers, losses and initialisers, with PyTorch's names and shapes.

>>> import numpy as np
>>> from wengert import nn
>>> model = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1))
>>> loss = nn.mse_loss(model(np.ones((4, 2), np.float32)), np.zeros((4, 1), np.float32))
>>> loss.backward()
>>> model[0].weight.grad.shape
(8, 2)
"""

from . import functional, init
from .activations import *  # noqa: F403
from .attention import *  # noqa: F403
from .containers import *  # noqa: F403
from .convolution import *  # noqa: F403
from .folding import *  # noqa: F403
from .functional.ctc import *  # noqa: F403
from .functional.losses import *  # noqa: F403
from .functional.margins import *  # noqa: F403
from .linear import *  # noqa: F403
from .losses import *  # noqa: F403
from .module import *  # noqa: F403
from .normalization import *  # noqa: F403
from .pooling import *  # noqa: F403
from .recurrent import *  # noqa: F403
from .seeding import *  # noqa: F403
from .transformer import *  # noqa: F403

# what the files list in theirs
__all__ = [
    "functional",
    "init",
    *(name for name, value in vars().copy().items() if callable(value) and name[0] != "_"),
]
