"""Optimizers, schedules of the learning rate, and clipping of gradients.

Names, arguments and defaults are PyTorch's, and so are the numbers, step by step. All of it works
on tensors as they are, and inside `jit` as a part of the compiled step.
"""

from .adaptive import ASGD, Adadelta, Adamax, NAdam, RAdam, Rprop
from .clipping import clip_grad_norm_, clip_grad_value_
from .lbfgs import LBFGS
from .matrices import Adafactor, Muon
from .optimizer import Optimizer
from .rules import SGD, Adagrad, Adam, AdamW, RMSprop
from .schedules import CosineLR, OneCycleLR, Schedule, StepLR

__all__ = [
    "ASGD", "LBFGS", "SGD", "Adadelta", "Adafactor", "Adagrad", "Adam", "AdamW", "Adamax",
    "CosineLR", "Muon", "NAdam", "OneCycleLR", "Optimizer", "RAdam", "RMSprop", "Rprop", "Schedule",
    "StepLR", "clip_grad_norm_", "clip_grad_value_",
]  # fmt: skip
