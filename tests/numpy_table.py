"""The table of docs/numpy.md: what `wengert.numpy` has, and how it runs when it is compiled.

    python tests/numpy_table.py

writes it; `tests/numpy/test_table.py` holds that it is as written. How a function runs is found by
calling it: on the arguments of `CASES`, else on the first of `USUAL` that it takes.
"""

import contextlib
import functools
import importlib
import textwrap

import numpy as np

import wengert.numpy as wnp
from layer_table import DOCS, joined, section
from wengert import tree
from wengert.codegen.target import Target
from wengert.errors import AbstractValueError, ShapeError
from wengert.graph import Graph
from wengert.loops import Host
from wengert.machine import compiling_for
from wengert.ops.op import Traced
from wengert.passes import optimise
from wengert.schedule import schedule
from wengert.trace import Trace
from wengert.types import type_of

# The modules of wengert.numpy, by what the table calls them.
TOPICS = {
    "making arrays": "creation",
    "element by element": "elementwise",
    "special functions": "special",
    "reductions, running forms": "reductions",
    "statistics": "statistics",
    "medians and quantiles": "quantiles",
    "counting": "histograms",
    "sorting and searching": "sorting",
    "sets": "sets",
    "shapes": "structure",
    "joining and splitting": "joining",
    "borders": "padding",
    "indexing": "indexing",
    "`r_`, `c_`, `vectorize`": "tricks",
    "products": "contractions",
    "windows": "windows",
    "calculus": "calculus",
    "polynomials": "polynomials",
    "`linalg`": "linalg",
    "`fft`": "fft",
    "`random`": "random",
}
KNOWN = "of known values"
LINE, NUMBERS = np.array([0.5, 0.25, 0.75]), np.array([2, 0, 1])
MATRIX = np.eye(3) * 2 + np.arange(9.0).reshape(3, 3) / 10
KEY = np.array([1, 2], np.uint32)
USUAL = [
    (LINE,), (MATRIX,), (LINE, LINE), (MATRIX, MATRIX), (NUMBERS,), (NUMBERS, NUMBERS), (LINE, 1),
    (MATRIX, 0), (MATRIX, 0, 1), (LINE, NUMBERS), ([LINE, LINE],), (KEY, (3,)),
]  # fmt: skip


def _of(name, *args, **options):
    return lambda *given: functools.reduce(getattr, name.split("."), wnp)(*given, *args, **options)


def _written(write):
    def run(x):
        x = x.copy()
        write(x)
        return x

    return run


# Functions whose arguments are none of the usual: what is called, and on what.
CASES = {
    "apply_along_axis": (lambda x: wnp.apply_along_axis(np.sum, 0, x), MATRIX),
    "apply_over_axes": (lambda x: wnp.apply_over_axes(np.sum, x, [0]), MATRIX),
    "c_": (lambda x: wnp.c_[x, x], LINE),
    "r_": (lambda x: wnp.r_[x, x], LINE),
    "vectorize": (lambda x: wnp.vectorize(lambda t: t * t)(x), LINE),
    "einsum": (lambda x: wnp.einsum("ij,jk", x, x), MATRIX),
    "choose": (lambda x: wnp.choose(NUMBERS, [x, x, x]), LINE),
    "select": (lambda x: wnp.select([x > 0.5], [x]), LINE),
    "piecewise": (lambda x: wnp.piecewise(x, [x > 0.5], [np.sin, np.cos]), LINE),
    "where": (lambda x: wnp.where(x > 0.5, x, 0.0), LINE),
    "histogram": (_of("histogram", 3), LINE),
    "bincount": (_of("bincount", length=3), NUMBERS),
    "conv": (wnp.conv, np.ones((1, 1, 5)), np.ones((1, 1, 3))),
    "conv_transpose": (wnp.conv_transpose, np.ones((1, 1, 5)), np.ones((1, 1, 3))),
    "max_pool": (_of("max_pool", 2), np.ones((1, 1, 4))),
    "avg_pool": (_of("avg_pool", 2), np.ones((1, 1, 4))),
    "interp": (wnp.interp, LINE, np.arange(3.0), LINE),
    "allclose": (lambda x: wnp.allclose(x, x), LINE),
    "array_equal": (lambda x: wnp.array_equal(x, x), LINE),
    "array_equiv": (lambda x: wnp.array_equiv(x, x), LINE),
    "fromfunction": (lambda x: wnp.fromfunction(lambda i, j: x[0] * i + j, (2, 3)), LINE),
    "indices": (lambda x: wnp.indices((2, 3)), LINE),
    "full": (lambda x: wnp.full(3, x[0]), LINE),
    "polygamma": (lambda x: wnp.polygamma(1, x), LINE),
    "broadcast_to": (_of("broadcast_to", (2, 3)), LINE),
    "reshape": (_of("reshape", (3, 1)), LINE),
    "vsplit": (_of("vsplit", 3), MATRIX),
    "hsplit": (_of("hsplit", 3), MATRIX),
    "split": (_of("split", 3), MATRIX),
    "array_split": (_of("array_split", 2), MATRIX),
    "compress": (lambda x: wnp.compress([True, False, True], x), LINE),
    "extract": (lambda x: wnp.extract([True, False, True], x), LINE),
    "fill_diagonal": (_written(lambda x: wnp.fill_diagonal(x, 1.0)), MATRIX),
    "put": (_written(lambda x: wnp.put(x, [0], 1.0)), LINE),
    "put_along_axis": (_written(lambda x: wnp.put_along_axis(x, NUMBERS, 1.0, 0)), LINE),
    "putmask": (_written(lambda x: wnp.putmask(x, x > 0.5, 1.0)), LINE),
    "copyto": (_written(lambda x: wnp.copyto(x, 1.0)), LINE),
    "place": (_written(lambda x: wnp.place(x, x > 0.5, [1.0])), LINE),
    "ravel_multi_index": (lambda x: wnp.ravel_multi_index((x, x), (3, 3)), NUMBERS),
    "random.split": (_of("random.split", 2), KEY),
    "random.truncated_normal": (_of("random.truncated_normal", -1.0, 1.0, (3,)), KEY),
    "clip": (_of("clip", 0.3, 0.6), LINE),
    "polyfit": (_of("polyfit", 1), LINE, LINE),
    "dsplit": (_of("dsplit", 1), np.ones((2, 2, 2))),
    "insert": (lambda x: wnp.insert(x, 1, 0.0), LINE),
    "cross": (wnp.cross, LINE, LINE),
    "linalg.cross": (wnp.linalg.cross, LINE, LINE),
    "linalg.multi_dot": (lambda x: wnp.linalg.multi_dot([x, x]), MATRIX),
    "linalg.tensorsolve": (wnp.linalg.tensorsolve, MATRIX, LINE),
    "linalg.tensorinv": (_of("linalg.tensorinv", 1), MATRIX),
    "linalg.solve_triangular": (wnp.linalg.solve_triangular, MATRIX, LINE),
}


for _name in "arange empty eye identity ones tri zeros broadcast_shapes random.key".split():
    CASES[_name] = (_of(_name, 3),)
# What takes no numbers.
REFUSED = {"isnat": "of dates and times alone", "linalg.LinAlgError": "an exception"}


def public(module):
    """The names of a module of the namespace, with the prefix under which it is reached."""
    own = importlib.import_module(f"wengert.numpy.{module}")
    prefix = f"{module}." if module in ("fft", "linalg", "random") else ""
    return {f"{prefix}{name}": getattr(own, name) for name in own.__all__}


def how(name, function):
    """How a function runs in a compiled program."""
    if function is functools.reduce(lambda m, n: getattr(m, n, None), name.split("."), np):
        return "NumPy's own"
    if name in REFUSED:
        return REFUSED[name]
    if name in CASES:
        return _run(*CASES[name])
    found = set()
    for arguments in USUAL:
        with contextlib.suppress(ValueError, TypeError, IndexError), np.errstate(all="ignore"):
            found.add(_run(function, *arguments))
            if found != {KNOWN}:
                break
    if not found:
        raise LookupError(f"no usual arguments fit {name}: give it a case")
    return min(found - {KNOWN}, default=KNOWN)


def _run(function, *arguments):
    leaves, structure = tree.flatten(arguments)
    with Trace() as trace:
        filled = [_traced(trace, leaf) for leaf in leaves]
        variables = [leaf.node for leaf in filled if isinstance(leaf, Traced)]
        try:
            found = function(*tree.unflatten(structure, filled))
        except (AbstractValueError, ShapeError) as error:
            if "not known while" in str(error):
                return KNOWN
            raise
        results = [leaf for leaf in tree.leaves(found) if isinstance(leaf, Traced)]
        nodes = [trace.node_of(leaf) for leaf in results]
    graph = Graph(variables, nodes, out_structure=tree.flatten(tuple(range(len(nodes))))[1])
    with compiling_for(Target.host()):
        kernels = schedule(optimise(graph)).kernels
    return "through NumPy" if any(isinstance(one, Host) for one in kernels) else "native"


def _traced(trace, leaf):
    return trace.variable(array_type=type_of(leaf)) if isinstance(leaf, np.ndarray) else leaf


def ways():
    """For each module how its functions run."""
    return {
        module: {name: how(name, function) for name, function in public(module).items()}
        for module in TOPICS.values()
    }


def table(found):
    """The table; `found` is what `ways` gave."""
    lines = ["| | functions | compiled |", "|---|---|---|"]
    for topic, module in TOPICS.items():
        names = sorted(public(module))
        groups = {}
        for name in names:
            groups.setdefault(found[module][name], []).append(name)
        native = groups.pop("native", [])
        rest = "; ".join(f"{way}: {joined(own)}" for way, own in sorted(groups.items()))
        text = "native" if native else ""
        lines.append(f"| {topic} | {joined(names)} | {'; '.join(filter(None, [text, rest]))} |")
    return "\n".join(lines)


if __name__ == "__main__":
    path = DOCS / "numpy.md"
    text = path.read_text()
    place = section(text)
    written = table(ways())
    path.write_text(text[: place.start(1)] + written + text[place.end(1) :])
    print(textwrap.shorten(written, 400))
