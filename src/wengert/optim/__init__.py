"""Optimizers, schedules of the learning rate, and clipping of gradients.

Names, arguments and defaults are PyTorch's, and so are the numbers, step by step. All of it works
on tensors as they are, and inside `jit` as a part of the compiled step.
"""

from .clipping import clip_grad_norm_, clip_grad_value_
from .lbfgs import LBFGS
from .optimizer import Optimizer
from .rules import SGD, Adagrad, Adam, AdamW, RMSprop
from .schedules import CosineLR, OneCycleLR, Schedule, StepLR

__all__ = [
    "LBFGS",
    "SGD",
    "Adagrad",
    "Adam",
    "AdamW",
    "CosineLR",
    "OneCycleLR",
    "Optimizer",
    "RMSprop",
    "Schedule",
    "StepLR",
    "clip_grad_norm_",
    "clip_grad_value_",
]
