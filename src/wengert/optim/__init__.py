"""Optimizers, schedules of the learning rate, and clipping of gradients.

Names, arguments and defaults are PyTorch's, and so are the numbers, step by step. All of it works
on tensors as they are, and inside `jit` as a part of the compiled step.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..lazily import by_name
from .optimizer import Optimizer

if TYPE_CHECKING:  # these are imported on first use, see below
    from .adaptive import ASGD, Adadelta, Adamax, NAdam, RAdam, Rprop
    from .clipping import clip_grad_norm_, clip_grad_value_
    from .lbfgs import LBFGS
    from .matrices import Adafactor, Muon
    from .rules import SGD, Adagrad, Adam, AdamW, RMSprop
    from .schedules import CosineLR, OneCycleLR, Schedule, StepLR

__all__ = [
    "ASGD", "LBFGS", "SGD", "Adadelta", "Adafactor", "Adagrad", "Adam", "AdamW", "Adamax",
    "CosineLR", "Muon", "NAdam", "OneCycleLR", "Optimizer", "RAdam", "RMSprop", "Rprop", "Schedule",
    "StepLR", "clip_grad_norm_", "clip_grad_value_",
]  # fmt: skip

_FILES = {
    "adaptive": "ASGD Adadelta Adamax NAdam RAdam Rprop",
    "clipping": "clip_grad_norm_ clip_grad_value_",
    "lbfgs": "LBFGS",
    "matrices": "Adafactor Muon",
    "rules": "SGD Adagrad Adam AdamW RMSprop",
    "schedules": "CosineLR OneCycleLR Schedule StepLR",
}
_NAMES = by_name(__name__, _FILES)
