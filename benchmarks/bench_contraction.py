"""Generated contractions against NumPy's, on one thread, in turns.

Run ``python benchmarks/bench_contraction.py``, with words to choose among the cases if wanted.
The best of many single calls counts for each, since everything else a machine does only adds time.
Both go through a Python call of about half a microsecond.
"""

import os

os.environ["OPENBLAS_NUM_THREADS"] = "1"  # before NumPy is imported

import ctypes
import sys
import time

import numpy as np
from llvmlite import ir

from wengert.codegen.compile import compile_module
from wengert.codegen.contraction import emit_contraction, flops
from wengert.codegen.target import Target
from wengert.loops import Buffer, Contraction

SECONDS_A_CASE = 1.5
CASES = [
    ("mk,kn->mn", (64, 64, 64), "f4"),
    ("mk,kn->mn", (256, 256, 256), "f4"),
    ("mk,kn->mn", (1024, 1024, 1024), "f4"),
    ("mk,kn->mn", (100, 400, 84), "f4"),
    ("mk,kn->mn", (128, 784, 512), "f4"),
    ("mk,kn->mn", (512, 512, 512), "f8"),
    ("mk,nk->mn", (100, 400, 84), "f4"),
    ("mk,nk->mn", (512, 512, 512), "f4"),
    ("km,kn->mn", (512, 512, 512), "f4"),
    ("km,kn->mn", (784, 128, 512), "f4"),
    ("mk,kn->nm", (256, 256, 256), "f4"),
    ("mk,k->m", (512, 512), "f4"),
    ("km,k->m", (512, 512), "f4"),
    ("k,k->", (10000,), "f4"),
    ("m,n->mn", (300, 300), "f4"),
    ("bmk,bkn->bmn", (50, 16, 16, 16), "f4"),
]


def arrays_of(spec, sizes, dtype):
    """Random operands and a result; `sizes` go with the letters m, k, n (after b)."""
    letters = [c for c in "bmkn" if c in spec]
    extent = dict(zip(letters, sizes, strict=True))
    inputs, result = spec.split("->")
    generator = np.random.default_rng(0)
    shapes = [[extent[c] for c in part] for part in (*inputs.split(","), result)]
    x, y = (generator.standard_normal(shape).astype(dtype) for shape in shapes[:2])
    return x, y, np.empty(shapes[2], dtype)


def kernel_of(spec, x, y, out):
    """The contraction that einsum's notation describes."""
    inputs, result = spec.split("->")
    parts = (result, *inputs.split(","))
    arrays = (out, x, y)
    labelled = [(tuple(map(ord, part)), array) for part, array in zip(parts, arrays, strict=True)]
    extents = {label: n for labels, a in labelled for label, n in zip(labels, a.shape, strict=True)}
    strides = [
        dict(zip(labels, (step // a.itemsize for step in a.strides), strict=True))
        for labels, a in labelled
    ]
    buffers = [Buffer("", a.dtype, a.shape, (), "input") for a in arrays]
    return Contraction(extents, *buffers, *strides)


def compiled_function(kernel, arrays):
    """A call without arguments, and the milliseconds that it took to make."""
    start = time.perf_counter()
    target, module = Target.host(), ir.Module()
    module.triple = target.triple
    nbytes = emit_contraction(module, target, kernel, "contraction")
    module.globals["contraction"].linkage = ""
    compiled = compile_module(module, target)
    function = compiled.function("contraction", None, *[ctypes.c_void_p] * 4)
    elapsed = 1e3 * (time.perf_counter() - start)
    room = np.empty(nbytes + 64, np.uint8)
    scratch = ctypes.c_void_p(room.ctypes.data + -room.ctypes.data % 64)
    pointers = [ctypes.c_void_p(array.ctypes.data) for array in arrays]

    def call(keep=room):
        function(*pointers, scratch)

    return call, elapsed


def numpy_function(spec, x, y, out):
    """NumPy's fastest way to the same product."""
    if spec.startswith("b"):
        return lambda: np.matmul(x, y, out=out)
    left, right = spec.split("->")[0].split(",")
    if spec == "m,n->mn":
        return lambda: np.multiply(x[:, None], y, out=out)
    x, y = (x.T if left == "km" else x), (y.T if right == "nk" else y)
    if spec == "mk,kn->nm":
        return lambda: np.dot(y.T, x.T, out=out)
    return lambda: np.dot(x, y, out=out)


def best_times(functions, seconds):
    """The shortest time of each function, called in turns."""
    best = [float("inf")] * len(functions)
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        for number, function in enumerate(functions):
            for _ in range(3):
                start = time.perf_counter()
                function()
                best[number] = min(best[number], time.perf_counter() - start)
    return best


def main():
    wanted = sys.argv[1:]
    print(f"{Target.host()}\n{'product':<30}{'us':>10}{'GFLOP/s':>10}{'NumPy us':>10}"
          f"{'ratio':>8}{'built ms':>10}")  # fmt: skip
    for spec, sizes, dtype in CASES:
        name = f"{spec} {'x'.join(map(str, sizes))} {dtype}"
        if wanted and not any(word in name for word in wanted):
            continue
        x, y, out = arrays_of(spec, sizes, dtype)
        kernel = kernel_of(spec, x, y, out)
        ours, built = compiled_function(kernel, (out, x, y))
        theirs = numpy_function(spec, x, y, np.empty_like(out))
        own, other = best_times([ours, theirs], SECONDS_A_CASE)
        rate = flops(kernel) / own / 1e9
        print(f"{name:<30}{1e6 * own:>10.2f}{rate:>10.1f}{1e6 * other:>10.2f}"
              f"{other / own:>8.2f}{built:>10.0f}", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
