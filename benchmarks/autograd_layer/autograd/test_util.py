"""Derivatives against differences, to second order, along random directions, as autograd does."""

import itertools

from .core import make_jvp, make_vjp, vspace
from .wrap_util import get_name, unary_to_nary

TOLERANCE = STEP = 1e-6


def scalar_close(a, b):
    return abs(a - b) < TOLERANCE or abs(a - b) / abs(a + b) < TOLERANCE


def _difference(f, x, v):
    x_space, y_space = vspace(x), vspace(f(x))
    above, below = (f(x_space.add(x, x_space.scalar_mul(v, s * STEP / 2))) for s in (1, -1))
    return y_space.scalar_mul(y_space.add(above, y_space.scalar_mul(below, -1.0)), 1 / STEP)


def check_vjp(f, x):
    vjp, y = make_vjp(f, x)
    x_space, y_space = vspace(x), vspace(y)
    x_v, y_v = x_space.randn(), y_space.randn()
    found = x_space.covector(vjp(y_space.covector(y_v)))
    assert vspace(found) == x_space
    exact = x_space.inner_prod(x_v, found)
    numeric = y_space.inner_prod(y_v, _difference(f, x, x_v))
    assert scalar_close(numeric, exact), (
        f"Derivative (VJP) check of {get_name(f)} failed with arg {x}:\n"
        f"analytic: {exact}\nnumeric:  {numeric}"
    )


def check_jvp(f, x):
    v = vspace(x).randn()
    check_equivalent(make_jvp(f, x)(v)[1], _difference(f, x, v))


def check_equivalent(x, y):
    x_space, y_space = vspace(x), vspace(y)
    assert x_space == y_space, f"VSpace mismatch:\nx: {x_space}\ny: {y_space}"
    v = x_space.randn()
    close = scalar_close(x_space.inner_prod(x, v), x_space.inner_prod(y, v))
    assert close, f"Value mismatch:\nx: {x}\ny: {y}"


@unary_to_nary
def check_grads(f, x, modes=("fwd", "rev"), order=2):
    checks = {
        "fwd": (check_jvp, "jvp", lambda x, v: make_jvp(f, x)(v)[1], lambda: vspace(x).randn()),
        "rev": (check_vjp, "vjp", lambda x, v: make_vjp(f, x)[0](v), lambda: vspace(f(x)).randn()),
    }
    for mode in modes:
        check, name, derivative, direction = checks[mode]
        check(f, x)
        if order > 1:
            derivative.__name__ = f"{name}_{get_name(f)}"
            check_grads(derivative, (0, 1), modes, order=order - 1)(x, direction())


def combo_check(fun, *options, **named):
    """Checks all combinations of the arguments."""

    def combined(*args, **kwargs):
        pairs = [[(key, value) for value in values] for key, values in kwargs.items()]
        for chosen in itertools.product(*args):
            for words in itertools.product(*pairs):
                check_grads(fun, *options, **named)(*chosen, **dict(words))

    return combined
