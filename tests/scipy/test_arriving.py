"""SciPy's own functions on traced values arrive at those of `wengert.scipy`."""

import functools
import subprocess
import sys
import threading

import numpy as np
import pytest

import wengert as wg
import wengert.scipy as wsp
from wengert.errors import ConversionError, OptionError
from wengert.scipy import arriving
from wengert.trace.foreign import scipy_function

scipy = pytest.importorskip("scipy")
for _module in ("sparse", *wsp.__all__):
    pytest.importorskip(f"scipy.{_module}")

LINE = np.array([0.25, 0.5, 0.75])
MATRIX = np.array([[2.0, 0.3, 0.1], [0.2, 3.0, 0.2], [0.1, 0.4, 4.0]])
WAYS = {
    "by the module": "import scipy.{m}\ndef called(x): return scipy.{m}.{call}",
    "by its name": "from scipy.{m} import {n}\ndef called(x): return {call}",
    "by another name": "import scipy as sp\ndef called(x): return sp.{m}.{call}",
    "inside": "def called(x):\n from scipy.{m} import {n}\n return {call}",
    "in a helper": "from scipy.{m} import {n}\ndef own(x): return {call}\n"
    "def called(x): return own(x)",
    "around": "import scipy.{m}\ndef make(s): return lambda x: s.{call}\ncalled = make(scipy.{m})",
}
CALLS = {
    "integrate": ["trapezoid(x)", "simpson(x)", "quad(np.sin, x[0], 1.0)[0]",
        "quad(lambda t: np.exp(t * x[0]), 0.0, 1.0)[0]", "odeint(lambda y, t: -y, x, LINE)"],
    "interpolate": ["interp1d([0.0, 0.4, 1.0], LINE)(x)", "CubicSpline(LINE, x)(0.4)",
        "PchipInterpolator(LINE, x)(0.4)"],
    "linalg": [f"{name}(x * MATRIX)" for name in "det expm inv norm pinv svdvals".split()]
        + ["solve(MATRIX, x, check_finite=False)", "sqrtm(A=MATRIX * x)"],
    "ndimage": ["gaussian_filter1d(x, 1.0, mode='nearest')", "zoom(x, 2)"],
    "signal": ["fftconvolve(x, LINE)", "lfilter([1.0], [1.0, -0.5], x)"],
    "special": ["logsumexp(a=x)", "softmax(x)", "polygamma(1, x)", "multigammaln(x + 3, 2)"],
    "stats": ["norm.logpdf(x, scale=2.0)", "gamma(a=2.0).logpdf(x)", "norm(x).cdf(LINE)",
        "multivariate_normal(LINE, MATRIX @ MATRIX.T).logpdf(x)", "poisson.logpmf(2, mu=x)"],
}  # fmt: skip


def made(way, module, call):
    scope = {"np": np, "LINE": LINE, "MATRIX": MATRIX}
    name = call.partition("(")[0].partition(".")[0]
    exec(WAYS[way].format(m=module, n=name, call=call), scope)
    return scope["called"]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("module, call", [(m, call) for m in CALLS for call in CALLS[m]])
def test_values_and_derivatives_are_those_of_scipy(module, call, way):
    called = made(way, module, call)
    value, tangent = wg.jvp(called, (LINE,), (np.ones(3),))
    np.testing.assert_allclose(value, called(LINE), rtol=1e-6, atol=1e-9)
    around = (called(LINE + 1e-5) - called(LINE - 1e-5)) / 2e-5
    np.testing.assert_allclose(tangent, around, rtol=1e-4, atol=1e-5)
    gradient = wg.grad(lambda x: np.sum(called(x)))(LINE)
    np.testing.assert_allclose(np.sum(gradient), np.sum(around), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("module, call", [(m, CALLS[m][0]) for m in CALLS])
def test_mapped_and_compiled(module, call):
    called = made("by the module", module, call)
    np.testing.assert_allclose(wg.jit(called)(LINE), called(LINE), rtol=1e-6, atol=1e-9)
    both = np.stack([LINE, LINE + 0.01])
    expected = [called(one) for one in both]
    np.testing.assert_allclose(wg.vmap(called)(both), expected, rtol=1e-6, atol=1e-9)


def test_what_is_held_and_what_is_passed():
    held = {"logpdf": scipy.stats.norm.logpdf, "psi": functools.partial(scipy.special.polygamma, 1)}
    before = dict(held)
    np.testing.assert_allclose(wg.grad(lambda x: held["logpdf"](x))(0.3), -0.3)
    assert wg.grad(lambda x: held["psi"](x))(2.0) == wg.grad(wsp.special.polygamma, 1)(1, 2.0)
    assert all(held[name] is before[name] for name in held)
    assert wg.grad(scipy.special.logsumexp)(LINE).sum() == pytest.approx(1.0)


@pytest.mark.parametrize("fails", [False, True])
def test_nothing_stays_changed(fails):
    own = scipy.linalg.det, scipy.interpolate.CubicSpline, scipy.stats.rv_continuous.logpdf
    seen = []

    def look(x):
        seen.append(scipy.linalg.det is own[0])
        thread = threading.Thread(target=lambda: seen.append(scipy.linalg.det(MATRIX)))
        thread.start()
        thread.join()
        scipy.interpolate.CubicSpline(LINE, LINE)
        if fails:
            raise LookupError
        return scipy.stats.norm.logpdf(x)

    if fails:
        with pytest.raises(LookupError):
            wg.grad(look)(0.3)
    else:
        wg.grad(look)(0.3)
    assert seen == [False, own[0](MATRIX)]
    now = scipy.linalg.det, scipy.interpolate.CubicSpline, scipy.stats.rv_continuous.logpdf
    assert all(one is other for one, other in zip(own, now, strict=True))


FIRST = """
import numpy as np, scipy.interpolate, wengert as wg
from scipy.interpolate import PchipInterpolator
own = PchipInterpolator
line = np.array([0.25, 0.5, 0.75])
wg.grad(lambda x: PchipInterpolator(line, x)(0.4))(line)
wg.grad(lambda x: scipy.interpolate.PchipInterpolator(line, x)(0.4))(line)
assert PchipInterpolator is own and scipy.interpolate.PchipInterpolator is own
"""


def test_nothing_stays_changed_by_the_first_of_all_calls():
    subprocess.run([sys.executable, "-c", FIRST], check=True, timeout=120)


def test_what_is_not_there_is_an_error_that_names_it():
    with pytest.raises(ConversionError, match=r"scipy\.linalg\.cosm .*is not available"):
        wg.grad(lambda x: scipy.linalg.cosm(x).sum())(MATRIX)
    with pytest.raises(OptionError, match=r"scipy\.linalg\.logm .*disp"):
        wg.grad(lambda x: scipy.linalg.logm(x, disp=False)[0].sum())(MATRIX)
    with pytest.raises(ConversionError, match=r"Call wengert\.scipy\.linalg\.det"):
        wg.grad(lambda x: getattr(scipy.linalg, "det")(x))(MATRIX)  # noqa: B009


SHARED = [
    (module, name)
    for module in wsp.__all__
    for name in getattr(wsp, module).__all__
    if hasattr(getattr(scipy, module), name)
]


@pytest.mark.parametrize("module, name", SHARED)
def test_every_name_that_both_have_arrives(module, name):
    own = getattr(getattr(scipy, module), name)
    if isinstance(own, np.ufunc):
        assert scipy_function(own, own.__name__) is not None
    elif hasattr(own, "rvs"):
        ours = type(getattr(getattr(wsp, module), name))
        methods = [one for one in dir(ours) if not one.startswith("_") and hasattr(own, one)]
        methods = [one for one in methods if callable(getattr(own, one))]
        assert methods
        assert all(arriving.stand_in(getattr(own, one)) for one in methods)
    else:
        assert own.__module__.startswith("numpy") or arriving.stand_in(own) is not None


def test_a_distribution_of_another_support_is_not_taken_for_the_usual_one():
    half = type(scipy.stats.norm)(a=0.0, name="half")
    assert half.logpdf(-0.3) == -np.inf
    for called in (half.logpdf, lambda x: half.logpdf(x), lambda x: half(0.0, 2.0).logpdf(x)):
        with pytest.raises(ConversionError, match=r"\.logpdf .*is not available"):
            wg.grad(called)(-0.3)


def test_a_spline_of_three_points_compiles():
    called = made("by the module", "interpolate", "CubicSpline(LINE, x)(0.4)")
    np.testing.assert_allclose(wg.jit(called)(LINE), called(LINE), rtol=1e-13)


def test_sparse_matrices_of_traced_values_are_refused_by_scipy_with_its_own_words():
    with pytest.raises(ValueError, match=r"csr_matrix"):
        wg.grad(lambda x: scipy.sparse.csr_matrix(x).sum())(MATRIX)


class Kinds:
    """SciPy's functions in methods of all kinds, each the only one to name what it calls."""

    scale = 2.0

    @staticmethod
    def static(x):
        return scipy.stats.gamma.cdf(x, a=2.0, scale=1.3)

    @classmethod
    def of_class(cls, x):
        return scipy.stats.norm.sf(x, scale=cls.scale)

    @property
    def logsf(self):
        return scipy.stats.norm.logsf(self.x)

    @functools.cached_property
    def logcdf(self):
        return scipy.stats.norm.logcdf(self.x)


@pytest.mark.parametrize(
    "call",
    [
        lambda kinds, x: kinds.static(x),
        lambda kinds, x: Kinds.static(x),
        lambda kinds, x: kinds.of_class(x),
        lambda kinds, x: kinds.logsf,
        lambda kinds, x: kinds.logcdf,
    ],
)
def test_methods_of_all_kinds(call):
    def called(x):
        kinds = Kinds()
        kinds.x = x
        return np.sum(call(kinds, x))

    np.testing.assert_allclose(wg.jit(called)(LINE), called(LINE), rtol=1e-12)
    wg.check_grads(called, (LINE,), order=1)


def test_options_of_ufuncs():
    """As NumPy's have them. (SciPy's own with `where` on plain arrays are not called: they err.)"""
    some = np.array([True, False, True])
    want = np.where(some, scipy.special.gammaln(LINE), 0.0)

    def called(x):
        return scipy.special.gammaln(x, out=np.zeros(3), where=some)

    np.testing.assert_allclose(wg.jit(called)(LINE), want)
    slope = wg.grad(lambda x: np.sum(called(x)))(LINE)
    np.testing.assert_allclose(slope, np.where(some, scipy.special.psi(LINE), 0.0), rtol=1e-14)
    with pytest.raises(wg.errors.ShapeError, match=r"^gammaln .*: got where= without out="):
        wg.jit(lambda x: scipy.special.gammaln(x, where=some))(LINE)
    single = wg.jit(lambda x: scipy.special.gammaln(x, dtype=np.float32))(LINE)
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, scipy.special.gammaln(LINE), rtol=1e-6)
