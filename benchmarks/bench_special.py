"""Special functions compiled, beside SciPy's ufuncs: nanoseconds an element, on one thread.

    WENGERT_THREADS=1 python benchmarks/bench_special.py [names]

Each function gets 100,000 numbers drawn evenly from its domain in float64; times are the least of
fifteen, in seconds of the processor, one of each in turn. A line ends in "slower" where SciPy is
faster. Functions of two arguments and more are measured again as "wide", over all orders of
magnitude from a hundredth to ten thousand alike, where many of the results are 0, 1 or infinite.
"""

import sys
import time

import numpy as np
import scipy.special

import wengert as wg
import wengert.scipy as wsp

COUNT = 100_000
RNG = np.random.default_rng(0)
PROBABILITY, SHAPE = (0.001, 0.999), (0.1, 20)
# The domains of the arguments by name; a number before them is given as it is.
CASES = {
    "beta": (SHAPE, SHAPE), "betainc": (SHAPE, SHAPE, PROBABILITY),
    "betaincc": (SHAPE, SHAPE, PROBABILITY), "betaln": (SHAPE, SHAPE), "binom": ((10, 50), (0, 10)),
    "digamma": (SHAPE,), "entr": ((0, 5),), "erf": ((-5, 5),), "erfc": ((-5, 20),),
    "erfcinv": ((0, 2),), "erfcx": ((-5, 20),), "erfinv": ((-1, 1),), "exp1": (SHAPE,),
    "expi": ((0.01, 40),), "expit": ((-20, 20),), "expn": (2, SHAPE), "factorial": ((0, 50),),
    "gamma": (SHAPE,), "gammainc": (SHAPE, (0.1, 30)), "gammaincc": (SHAPE, (0.1, 30)),
    "gammaln": ((0.1, 50),), "i0": ((-20, 20),), "i0e": ((-50, 50),), "i1": ((-20, 20),),
    "i1e": ((-50, 50),), "iv": (2.5, (0.1, 30)), "ive": (2, (0.1, 30)), "j0": ((0, 30),),
    "j1": ((0, 30),), "jn": (5, (0.1, 30)), "kl_div": ((0, 5), (0.1, 5)),
    "lambertw": ((-0.3, 10),), "log_expit": ((-20, 20),), "log_ndtr": ((-20, 5),),
    "loggamma": ((0.1, 50),), "logit": (PROBABILITY,), "ndtr": ((-5, 5),), "ndtri": (PROBABILITY,),
    "poch": ((0.5, 10), (0, 10)), "polygamma": (1, SHAPE), "rel_entr": ((0, 5), (0.1, 5)),
    "rgamma": (SHAPE,), "spence": ((0, 10),), "xlog1py": ((0, 5), (-0.5, 5)),
    "xlogy": ((0, 5), (0.1, 5)), "y0": ((0.01, 30),), "y1": ((0.01, 30),), "yn": (5, (0.1, 30)),
    "zeta": ((1.1, 30),),
}  # fmt: skip
MAGNITUDES = (1e-2, 1e4)
WIDE = {
    "beta": (MAGNITUDES, MAGNITUDES), "betainc": (MAGNITUDES, MAGNITUDES, PROBABILITY),
    "betaincc": (MAGNITUDES, MAGNITUDES, PROBABILITY), "betaln": (MAGNITUDES, MAGNITUDES),
    "binom": (MAGNITUDES, MAGNITUDES), "expn": (2, MAGNITUDES),
    "gammainc": (MAGNITUDES, MAGNITUDES), "gammaincc": (MAGNITUDES, MAGNITUDES),
    "iv": (2.5, MAGNITUDES), "ive": (2, MAGNITUDES),
    "jn": (5, MAGNITUDES), "kl_div": (MAGNITUDES, MAGNITUDES), "poch": (MAGNITUDES, MAGNITUDES),
    "polygamma": (1, MAGNITUDES), "rel_entr": (MAGNITUDES, MAGNITUDES),
    "xlog1py": (MAGNITUDES, MAGNITUDES), "xlogy": (MAGNITUDES, MAGNITUDES), "yn": (5, MAGNITUDES),
    "zeta": (2.5, MAGNITUDES),
}  # fmt: skip
COMPLEX = {
    "erf": (), "erfc": (), "erfcx": (), "gamma": (), "rgamma": (), "loggamma": (), "digamma": (),
    "exp1": (), "expi": (), "spence": (), "ndtr": (), "log_ndtr": (), "zeta": (), "iv": (1.5,),
    "ive": (2,), "jv": (0,), "yv": (1,),
}  # fmt: skip


def nanoseconds(functions, arguments):
    """Of each function; they take turns, so that what else the machine does meets all alike."""
    times = [[] for _ in functions]
    for _ in range(15):
        for function, own in zip(functions, times, strict=True):
            start = time.thread_time()
            function(*arguments)
            own.append(time.thread_time() - start)
    return [min(own) / COUNT * 1e9 for own in times]


def compare(label, name, fixed, arguments):
    own, theirs = getattr(wsp.special, name), getattr(scipy.special, name)
    compiled = wg.jit(lambda *given: own(*fixed, *given))
    compiled(*arguments)
    ours, peers = nanoseconds([compiled, lambda *given: theirs(*fixed, *given)], arguments)
    verdict = "slower" if ours > peers else ""
    print(f"{label:18} {ours:8.2f} {peers:8.2f}  {peers / ours:6.2f} times  {verdict}", flush=True)


def drawn(bounds, wide):
    if not wide:
        return RNG.uniform(*bounds, COUNT)
    low, high = np.log(bounds)
    return np.exp(RNG.uniform(low, high, COUNT))


def main():
    wide, complex_ = (f"wide {name}" for name in WIDE), (f"complex {name}" for name in COMPLEX)
    for label in sys.argv[1:] or [*CASES, *wide, *complex_]:
        kind, name = label.split()[:-1], label.split()[-1]
        if kind == ["complex"]:
            square = RNG.uniform(-5, 5, COUNT) + 1j * RNG.uniform(-5, 5, COUNT)
            compare(label, name, COMPLEX[name], (square,))
            continue
        case = WIDE[name] if kind == ["wide"] else CASES[name]
        fixed = [one for one in case if not isinstance(one, tuple)]
        compare(label, name, fixed, [drawn(b, bool(kind)) for b in case if isinstance(b, tuple)])


if __name__ == "__main__":
    main()
