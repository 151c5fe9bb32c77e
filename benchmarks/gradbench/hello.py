"""hello: the square of a number, and its derivative."""

import wengert as wg


def square(x):
    return x * x


def prepare(sent):
    return (float(sent),)


functions = {"square": wg.jit(square), "double": wg.jit(wg.grad(square))}
