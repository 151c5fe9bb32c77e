"""Functions that are traced once, and then are their graph."""

import wengert as wg

from ..wrap_util import wraps


def const_graph(fun, *args, **kwargs):
    graphs = []

    @wraps(fun)
    def repeated(*rest):
        if graphs:
            return graphs[0](*rest)
        graphs.append(wg.trace(lambda *rest: fun(*args, *rest, **kwargs), *rest))
        return graphs[0].outputs[0].output

    return repeated


def full_graph(fun, *args, **kwargs):
    return wg.trace(lambda *args: fun(*args, **kwargs), *args)
