"""The table of docs/scipy.md: what `wengert.scipy` has, and how it runs when it is compiled.

    python tests/scipy_table.py

writes it; `tests/scipy/test_table.py` holds that it is as written. How a function runs is found by
calling it: on the arguments of `CASES`, else on the first of `USUAL` that it takes.
"""

import contextlib
import textwrap

import numpy as np

import wengert as wg
import wengert.numpy as wnp
import wengert.scipy as wsp
from layer_table import DOCS, joined, section
from wengert import tree
from wengert.codegen.target import Target
from wengert.loops import Host
from wengert.machine import compiling_for
from wengert.ops.op import Traced
from wengert.passes import optimise
from wengert.schedule import schedule

LINE = np.array([0.25, 0.5, 0.75])
LONG = np.linspace(0.1, 0.9, 6)
MATRIX = np.eye(3) * 2 + np.array([[0.1, 0.2, 0.3], [0.2, 0.4, 0.5], [0.3, 0.5, 0.7]])
USUAL = [(LINE,), (MATRIX,), (LINE, LINE), (MATRIX, MATRIX), (LINE, LINE, LINE), (MATRIX, LINE)]
GRID = (np.arange(3.0), np.arange(3.0))


def _with_order(name, order=2):
    return (lambda x: getattr(wsp.special, name)(order, x), LINE)


def _made(name, *before):
    """An interpolator, made and called."""
    return (lambda y: getattr(wsp.interpolate, name)(np.arange(6.0), y, *before)(LINE), LONG)


def _decays(y, t):
    return -y


# Functions whose arguments are none of the usual: what is called, and on what.
CASES = {
    **{f"special.{n}": _with_order(n) for n in "expn iv ive jn jv polygamma yn yv".split()},
    "special.multigammaln": (lambda x: wsp.special.multigammaln(x + 3, 2), LINE),
    **{f"interpolate.{n}": _made(n) for n in (
        "Akima1DInterpolator CubicSpline PchipInterpolator interp1d").split()},
    "interpolate.CubicHermiteSpline": _made("CubicHermiteSpline", np.ones(6)),
    "interpolate.PPoly": (lambda c: wsp.interpolate.PPoly(c, np.arange(4.0))(LINE), MATRIX),
    "interpolate.RegularGridInterpolator": (
        lambda v: wsp.interpolate.RegularGridInterpolator(GRID, v)([[0.5, 0.5]]), MATRIX),
    "interpolate.interpn": (lambda v: wsp.interpolate.interpn(GRID, v, [[0.5, 0.5]]), MATRIX),
    "interpolate.pchip_interpolate": (
        lambda y: wsp.interpolate.pchip_interpolate(np.arange(6.0), y, LINE), LONG),
    "integrate.fixed_quad": (lambda a: wsp.integrate.fixed_quad(wnp.sin, a, 1.0)[0], LINE[0]),
    "integrate.quad": (lambda a: wsp.integrate.quad(wnp.sin, a, 1.0)[0], LINE[0]),
    "integrate.odeint": (lambda y: wsp.integrate.odeint(_decays, y, LINE), LINE),
    "integrate.solve_ivp": (
        lambda y: wsp.integrate.solve_ivp(lambda t, y: -y, (0.0, 1.0), y, t_eval=LINE).y, LINE),
    "linalg.cho_solve": (lambda c: wsp.linalg.cho_solve((c, True), LINE), MATRIX),
    "linalg.lu_solve": (lambda a: wsp.linalg.lu_solve(wsp.linalg.lu_factor(a), LINE), MATRIX),
    "linalg.cho_factor": (lambda a: wsp.linalg.cho_factor(a)[0], MATRIX),
    "linalg.solve_banded": (lambda a: wsp.linalg.solve_banded((1, 1), a, LINE), MATRIX),
    "linalg.solve_sylvester": (wsp.linalg.solve_sylvester, MATRIX, MATRIX, MATRIX),
    "ndimage.affine_transform": (lambda x: wsp.ndimage.affine_transform(x, np.eye(2)), MATRIX),
    "ndimage.map_coordinates": (
        lambda x: wsp.ndimage.map_coordinates(x, np.ones((2, 2))), MATRIX),
    "ndimage.gaussian_filter": (lambda x: wsp.ndimage.gaussian_filter(x, 1.0), MATRIX),
    "ndimage.gaussian_filter1d": (lambda x: wsp.ndimage.gaussian_filter1d(x, 1.0), MATRIX),
    "ndimage.uniform_filter1d": (lambda x: wsp.ndimage.uniform_filter1d(x, 3), MATRIX),
    "ndimage.shift": (lambda x: wsp.ndimage.shift(x, 0.5), MATRIX),
    "ndimage.zoom": (lambda x: wsp.ndimage.zoom(x, 2), MATRIX),
    "signal.lfilter": (lambda x: wsp.signal.lfilter([1.0], [1.0, -0.5], x), LONG),
}  # fmt: skip
# Parameters of the distributions that cannot all be a half.
SHAPES = {"pareto": (2.0,), "truncnorm": (-1.0, 2.0), "binom": (3.0, 0.5)}
TYPES = {"integrate.OdeResult", "linalg.LinAlgError"}


def modules():
    """The modules of `wengert.scipy` by their names."""
    return {name: getattr(wsp, name) for name in wsp.__all__}


def names_of(module):
    """What a module has to run."""
    return sorted(name for name in modules()[module].__all__ if f"{module}.{name}" not in TYPES)


def how(module, name):
    """How a function runs in a compiled program."""
    full, function = f"{module}.{name}", getattr(modules()[module], name)
    if full in CASES:
        return _run(*CASES[full])
    if module == "stats":
        return max(_run(*call) for call in _methods(name, function))
    for arguments in USUAL:
        with contextlib.suppress(ValueError, TypeError, IndexError), np.errstate(all="ignore"):
            return _run(function, *arguments)
    raise LookupError(f"no usual arguments fit {full}: give it a case")


def methods(name):
    """The methods of a distribution."""
    own = getattr(wsp.stats, name)
    if not hasattr(own, "formulas"):
        return [method for method in ("logpdf", "pdf", "entropy") if hasattr(own, method)]
    density = "pdf" if "logpdf" in own.formulas else "pmf"
    others = ["cdf", "sf", "logcdf", "logsf"] if "cdf" in own.formulas else []
    return [f"log{density}", density, *others]


def _methods(name, own):
    if name == "multivariate_normal":
        return [(own.logpdf, LINE, LINE, MATRIX), (own.entropy, LINE, MATRIX)]
    if name == "dirichlet":
        return [(own.logpdf, LINE, LINE + 1)]
    shapes = [np.float64(one) for one in SHAPES.get(name, (0.5,) * len(own.shapes))]
    return [(getattr(own, method), LINE, *shapes) for method in methods(name)]


def _run(function, *arguments):
    def results(*given):
        return [leaf for leaf in tree.leaves(function(*given)) if isinstance(leaf, Traced)]

    graph = wg.trace(results, *arguments)
    with compiling_for(Target.host()):
        kernels = schedule(optimise(graph)).kernels
    return "through NumPy" if any(isinstance(one, Host) for one in kernels) else "native"


def ways():
    """For each module how its functions run."""
    return {module: {name: how(module, name) for name in names_of(module)} for module in modules()}


def table(found):
    """The table; `found` is what `ways` gave."""
    lines = ["| | functions | compiled |", "|---|---|---|"]
    for module, own in found.items():
        groups = {"": own}
        if module == "stats":  # by what they have
            groups = {}
            for name in own:
                groups.setdefault(f": {joined(methods(name))}", []).append(name)
        for what, names in groups.items():
            through = [name for name in names if own[name] != "native"]
            text = f"native, but {joined(through)} through NumPy" if through else "native"
            text = "through NumPy" if len(through) == len(names) else text
            lines.append(f"| `{module}`{what} | {joined(names)} | {text} |")
    return "\n".join(lines)


if __name__ == "__main__":
    path = DOCS / "scipy.md"
    text = path.read_text()
    found = section(text)
    made = table(ways())
    path.write_text(text[: found.start(1)] + made + text[found.end(1) :])
    print(textwrap.shorten(made, 200))
