"""Trees of arrays as one line of numbers."""

import wengert.numpy as np


def flatten(value):
    parts, rebuild = _parts(value)
    line = np.concatenate([np.ravel(part) for part in parts]) if parts else np.zeros(0)

    def unflatten(line):
        place, found = 0, []
        for part in parts:
            size = np.size(part)
            found.append(np.reshape(line[place : place + size], np.shape(part)))
            place += size
        return rebuild(iter(found))

    return line, unflatten


def _parts(value):
    """The arrays in a tree, and a function that makes the tree of others."""
    if isinstance(value, dict):
        keys = sorted(value)
        inner = [_parts(value[key]) for key in keys]
        rebuild = lambda found: {key: make(found) for key, (_, make) in zip(keys, inner)}
    elif isinstance(value, (list, tuple)):
        inner = [_parts(item) for item in value]
        rebuild = lambda found: type(value)(make(found) for _, make in inner)
    else:
        return [value], next
    return [part for parts, _ in inner for part in parts], rebuild


def flatten_func(func, example):
    line, unflatten = flatten(example)
    return lambda x, *args: flatten(func(unflatten(x), *args))[0], unflatten, line
