"""Small things that examples import."""

from .wrap_util import replaced as subvals


def func(f):
    return f


def subval(args, place, value):
    return subvals(args, [(place, value)])


def quick_grad_check(fun, arg0, extra_args=(), kwargs=None, **options):
    from .test_util import check_grads

    check_grads(fun)(arg0, *extra_args, **(kwargs or {}))


def flatten(value):
    from .misc.flatten import flatten as flat

    return flat(value)
