import numpy.random as _random


def __getattr__(name):
    return getattr(_random, name)
