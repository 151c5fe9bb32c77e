"""The fixed point of a function, with the derivative of the equation that it solves."""

from ..core import defvjp, make_vjp, primitive, vspace


@primitive
def fixed_point(f, a, x0, distance, tol):
    step = f(a)
    before, now = x0, step(x0)
    while distance(now, before) > tol:
        before, now = now, step(now)
    return now


def _vjp(ans, f, a, x0, distance, tol):
    def adjoint(point):
        a, solution, cotangent = point
        pull = make_vjp(f(a), solution)[0]
        return lambda g: vspace(solution).add(pull(g), cotangent)

    def vjp(g):
        start = vspace(x0).zeros()
        return make_vjp(lambda a: f(a)(ans), a)[0](
            fixed_point(adjoint, (a, ans, g), start, distance, tol)
        )

    return vjp


defvjp(fixed_point, None, _vjp, None)
