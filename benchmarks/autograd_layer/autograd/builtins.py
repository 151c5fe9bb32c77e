"""Containers of traced values are Python's own containers here: nothing is wrapped."""

import builtins

isinstance = builtins.isinstance
type = builtins.type


class _OfOwn(builtins.type):
    """The class of plain containers, by the name of this module."""

    def __instancecheck__(cls, instance):
        return builtins.isinstance(instance, cls.__mro__[1])


class tuple(builtins.tuple, metaclass=_OfOwn):
    def __new__(cls, items=()):
        return builtins.tuple(items)


class list(builtins.list, metaclass=_OfOwn):
    def __new__(cls, items=()):
        return builtins.list(items)


class dict(builtins.dict, metaclass=_OfOwn):
    def __new__(cls, *args, **kwargs):
        return builtins.dict(*args, **kwargs)
