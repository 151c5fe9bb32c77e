"""Operators of functions of one argument, made operators of functions of many."""

import functools


def get_name(f):
    return getattr(f, "__name__", "[unknown name]")


def replaced(args, pairs):
    """The arguments, with others at some places."""
    found = list(args)
    for place, value in pairs:
        found[place] = value
    return tuple(found)


def wraps(fun, name="{fun}", text="{doc}", **words):
    def decorate(f):
        doc = getattr(fun, "__doc__", "") or ""
        f.__name__ = name.format(fun=get_name(fun), **words)
        f.__doc__ = text.format(fun=get_name(fun), doc=doc, **words)
        return f

    return decorate


def unary_to_nary(operator):
    """`operator(f, x)` as ``operator(f, argnum)(*args)``; several numbers give a tuple `x`."""

    @functools.wraps(operator)
    def of_many(fun, argnum=0, *options, **named):
        name = "{op}_of_{fun}_wrt_argnum_{argnum}"
        text = "    {op} of function {fun} with respect to argument {argnum}."

        @wraps(fun, name, text, op=get_name(operator), argnum=argnum)
        def applied(*args, **kwargs):
            one = isinstance(argnum, int)

            @wraps(fun)
            def of_one(x):
                pairs = [(argnum, x)] if one else zip(argnum, x)
                return fun(*replaced(args, pairs), **kwargs)

            x = args[argnum] if one else tuple(args[k] for k in argnum)
            return operator(of_one, x, *options, **named)

        return applied

    return of_many
