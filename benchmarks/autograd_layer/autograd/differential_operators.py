"""Gradients and the like, by `wg.vjp`, `wg.jvp`, `wg.jacobian` and `wg.checkpoint`."""

import inspect
import warnings

import wengert as wg
import wengert.numpy as np

from . import core
from .wrap_util import unary_to_nary

make_vjp = unary_to_nary(core.make_vjp)
make_jvp = unary_to_nary(core.make_jvp)
checkpoint = wg.checkpoint


@unary_to_nary
def grad(fun, x):
    return _value_and_grad(fun, x, "grad")[1]


# autograd's tests ask how the text begins
grad.__doc__ = "\n    Returns a function which computes the gradient of `fun`."


@unary_to_nary
def value_and_grad(fun, x):
    return _value_and_grad(fun, x, "value_and_grad")


def _value_and_grad(fun, x, name):
    vjp, ans = core.make_vjp(fun, x)
    if core.vspace(ans).size != 1:
        raise TypeError(f"{name} only applies to real scalar-output functions.")
    return ans, vjp(core.vspace(ans).ones())


@unary_to_nary
def elementwise_grad(fun, x):
    vjp, ans = core.make_vjp(fun, x)
    if core.vspace(ans).iscomplex:
        raise TypeError("elementwise_grad only applies to real-output functions.")
    return vjp(core.vspace(ans).ones())


@unary_to_nary
def deriv(fun, x):
    return core.make_jvp(fun, x)(core.vspace(x).ones())[1]


@unary_to_nary
def jacobian(fun, x):
    return wg.jacobian(fun)(x)


@unary_to_nary
def hessian(fun, x):
    return wg.jacobian(wg.jacobian(fun))(x)


@unary_to_nary
def holomorphic_grad(fun, x):
    if not core.vspace(x).iscomplex:
        warnings.warn("Input to holomorphic_grad is not complex")
    return grad(lambda x: np.real(fun(x)))(x)


def grad_named(fun, argname):
    return grad(fun, list(inspect.signature(fun).parameters).index(argname))


@unary_to_nary
def make_hvp(fun, x):
    return core.make_vjp(grad(fun), x)


def hessian_tensor_product(fun, argnum=0):
    gradient = grad(fun, argnum)

    def along(*args, **kwargs):
        return np.tensordot(gradient(*args[:-1], **kwargs), args[-1], np.ndim(args[-1]))

    return grad(along, argnum)


def tensor_jacobian_product(fun, argnum=0):
    def along(*args, **kwargs):
        return np.tensordot(args[-1], fun(*args[:-1], **kwargs), np.ndim(args[-1]))

    return jacobian(along, argnum)


hessian_vector_product, vector_jacobian_product = hessian_tensor_product, tensor_jacobian_product


@unary_to_nary
def make_jvp_reversemode(fun, x):
    return lambda v: core.make_jvp(fun, x)(v)[1]


def make_ggnvp(f, g=lambda x: 0.5 * np.sum(x**2, axis=-1), f_argnum=0):
    @unary_to_nary
    def of_one(f, x):
        pull, out = core.make_vjp(f, x)
        curvature, _ = core.make_vjp(grad(g), out)
        return lambda v: pull(curvature(core.make_jvp(f, x)(v)[1]))

    return of_one(f, f_argnum)


@unary_to_nary
def grad_and_aux(fun, x):
    vjp, (ans, aux) = core.make_vjp(fun, x)
    return vjp((core.vspace(ans).ones(), core.vspace(aux).zeros())), aux


def multigrad_dict(fun):
    signature = inspect.signature(fun)

    def gradients(*args, **kwargs):
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()

        def of_arguments(arguments):
            bound.arguments = arguments
            return fun(*bound.args, **bound.kwargs)

        return grad(of_arguments)(dict(bound.arguments))

    return gradients
