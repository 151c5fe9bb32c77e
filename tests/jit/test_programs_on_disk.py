"""Ways to change a program between two processes: what is found on disk is always true.

Each way runs a text with one number and then with another, as a fresh process would each time.
"""

import contextlib
import os
import shutil
import subprocess
import sys
from unittest import mock

import numpy as np
import pytest

import wengert as wg
from wengert.codegen.cache import ObjectCache
from wengert.jit import building as jit_building
from wengert.jit import entries as jit_entries
from wengert.jit import function as jit_function
from wengert.jit import lookup as jit_lookup

X = np.arange(1.0, 5.0)


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    cache = ObjectCache(tmp_path / "cache")
    for module in (jit_entries, jit_function, jit_building, jit_lookup):
        monkeypatch.setattr(module, "object_cache", lambda: cache)
    return cache


START = """
import cmath, collections, contextlib, copy, dataclasses, enum, functools, itertools, math, operator
import os, random, string, sys, tempfile, time, types, weakref
from unittest import mock
import numpy as np
import wengert as wg
import wengert.numpy as wnp
from wengert import nn

class Thing:
    pass

def write(path, text):
    with open(path, "w") as file:
        file.write(text)

def read(path):
    with open(path) as file:
        return file.read()
"""

# Texts that define `f`; N is 2.0 in one process and 3.0 in the other.
WAYS = {
    # functions and what belongs to them
    "the code": "def f(x): return x * N",
    "a constant": "exec(f'def f(x): return x * {N}')",
    "an operator": "exec(f\"def f(x): return x {'*+'[int(N) - 2]} 2.0\")",
    "a function that is called": "g = lambda x: x * N\ndef f(x): return g(x)",
    "a function that a called one calls": "h = lambda: N\ng = lambda: h()\nf = lambda x: x * g()",
    "a default": "def f(x, n=N): return x * n",
    "a default by name": "def f(x, *, n=N): return x * n",
    "a default set later": "def f(x, n=1.0): return x * n\nf.__defaults__ = (N,)",
    "a default by name set later": "def f(x, *, n=1.0): return x * n\nf.__kwdefaults__ = {'n': N}",
    "a default that is a list": "def f(x, n=[N]): return x * n[0]",
    "an attribute of the function": "def f(x): return x * f.n\nf.n = N",
    "an attribute of another function": "g = lambda: 0\ng.n = N\ndef f(x): return x * g.n",
    "a list in an attribute": "def f(x): return x * f.n[0]\nf.n = [N]",
    "the name of the function": "def f(x): return x * len(f.__name__)\nf.__name__ = 'n' * int(N)",
    "the docstring": "def f(x): return x * float(f.__doc__)\nf.__doc__ = str(N)",
    "an annotation": "def f(x: N): return x * f.__annotations__['x']",
    "the code of a function set later": "f = lambda x: x\nf.__code__ = (lambda x: x * N).__code__",
    "a closure": "def make(n): return lambda x: x * n\nf = make(N)",
    "a closure over a list": "def make(n): return lambda x: x * n[0]\nf = make([N])",
    "a closure over a function": "def make(g): return lambda x: g(x)\nf = make(lambda x: x * N)",
    "a cell set later": (
        "def make(n): return lambda x: x * n\nf = make(1.0)\nf.__closure__[0].cell_contents = N"
    ),
    "a nested function": "def f(x):\n    def g(): return N\n    return x * g()",
    "a comprehension": "def f(x): return x * sum([n for n in [N]])",
    "a generator": "def g(): yield N\ndef f(x): return x * next(g())",
    "a recursive function": "def f(x, n=3): return x * N if n == 0 else f(x, n - 1)",
    # wrappers
    "a decorator": (
        "def d(g):\n    @functools.wraps(g)\n    def w(x): return g(x) * N\n    return w\n"
        "@d\ndef f(x): return x"
    ),
    "what a decorator wraps": (
        "def d(g):\n    @functools.wraps(g)\n    def w(x): return g(x)\n    return w\n"
        "@d\ndef f(x): return x * N"
    ),
    "an attribute of a wrapper": (
        "def g(x): return x * f.n\nf = functools.wraps(g)(lambda x: g(x))\nf.n = N"
    ),
    "__wrapped__": ("def f(x): return f.__wrapped__(x)\nf.__wrapped__ = lambda x: x * N"),
    "a partial": "f = functools.partial(lambda n, x: x * n, N)",
    "a partial by name": "f = functools.partial(lambda x, n: x * n, n=N)",
    "a partial of a partial": (
        "f = functools.partial(functools.partial(lambda m, n, x: x * n, 1.0), N)"
    ),
    "an attribute of a partial": "f = functools.partial(lambda x: x * f.n)\nf.n = N",
    "a partial that is called": "g = functools.partial(operator.mul, N)\ndef f(x): return g(x)",
    "a cached function": "@functools.cache\ndef g(): return N\ndef f(x): return x * g()",
    "a cached value of another time": (
        "@functools.cache\ndef g(): return n\nn = N\ng()\nn = 1.0\ndef f(x): return x * g()"
    ),
    "a single dispatch": (
        "@functools.singledispatch\ndef g(n): return 1.0\n"
        "g.register(float, lambda n: N)\ndef f(x): return x * g(1.0)"
    ),
    "a reduction": "def f(x): return x * functools.reduce(operator.mul, [1.0, N])",
    "a jitted function": "g = wg.jit(lambda x: x * N)\ndef f(x): return g(x)",
    "a gradient": "f = wg.grad(lambda x: np.sum(x * x) * N)",
    "a checkpoint": "f = wg.checkpoint(lambda x: x * N)",
    "an operation of one's own": (
        "g = wg.custom_rule(vjp=lambda x: (x * N, lambda g: (g,)))(lambda x: x * N)\n"
        "def f(x): return g(x)"
    ),
    "a rule of one's own": (
        "g = wg.custom_rule(vjp=lambda x: (x * 1.0, lambda g: (g * N,)))(lambda x: x * 1.0)\n"
        "f = wg.grad(lambda x: np.sum(g(x)))"
    ),
    "an attribute of a jitted function": "g = wg.jit(lambda x: x)\ng.n = N\nf = lambda x: x * g.n",
    # objects and classes
    "a bound method": "class C:\n    def g(self, x): return x * self.n\nc = C()\nc.n = N\nf = c.g",
    "a callable object": (
        "class C:\n    def __call__(self, x): return x * self.n\nf = C()\nf.n = N"
    ),
    "an attribute of an object": "t = Thing()\nt.n = N\ndef f(x): return x * t.n",
    "an attribute of a class": "class C: n = N\ndef f(x): return x * C.n",
    "an attribute of a base class": "class B: n = N\nclass C(B): pass\ndef f(x): return x * C.n",
    "an attribute of a metaclass": (
        "class M(type): n = N\nclass C(metaclass=M): pass\ndef f(x): return x * C.n"
    ),
    "a static method": "class C:\n    g = staticmethod(lambda x: x * N)\nf = C.g",
    "a class method": (
        "class C:\n    n = N\n    @classmethod\n    def g(cls, x): return x * cls.n\nf = C.g"
    ),
    "a property": ("class C:\n    n = property(lambda self: N)\nc = C()\ndef f(x): return x * c.n"),
    "__getattr__ of an object": (
        "class C:\n    def __getattr__(self, name): return N\nc = C()\ndef f(x): return x * c.n"
    ),
    "a descriptor": (
        "class D:\n    def __get__(self, *_): return N\nclass C: n = D()\n"
        "c = C()\ndef f(x): return x * c.n"
    ),
    "an object with slots": (
        "class C: __slots__ = 'n'\nc = C()\nc.n = N\ndef f(x): return x * c.n"
    ),
    "a dataclass": (
        "@dataclasses.dataclass\nclass C: n: float\nc = C(N)\ndef f(x): return x * c.n"
    ),
    "a named tuple": "c = collections.namedtuple('C', 'n')(N)\ndef f(x): return x * c.n",
    "an enumeration": "class C(enum.Enum): n = N\ndef f(x): return x * C.n.value",
    "a subclass of float": (
        "class C(float):\n    def __float__(self): return N\ndef f(x): return x * float(C(1))"
    ),
    "a subclass of int": (
        "class C(int):\n    def __int__(self): return int(N)\ndef f(x): return x * int(C(1))"
    ),
    "a subclass of dict": (
        "class C(dict):\n    def __missing__(self, key): return N\nc = C()\n"
        "def f(x): return x * c['n']"
    ),
    "a weak reference": "t = Thing()\nt.n = N\nr = weakref.ref(t)\ndef f(x): return x * r().n",
    "an instance's class": (
        "class A: n = 2.0\nclass B: n = 3.0\nt = (A if N == 2 else B)()\ndef f(x): return x * t.n"
    ),
    # plain data outside
    "a number": "n = N\ndef f(x): return x * n",
    "the type of a number": "n = N if N == 2 else 2\ndef f(x): return x * len(str(n))",
    "a tuple": "n = (N,)\ndef f(x): return x * n[0]",
    "a list": "n = [N]\ndef f(x): return x * n[0]",
    "a dictionary": "n = {'a': N}\ndef f(x): return x * n['a']",
    "the order of a dictionary": (
        "n = dict([('a', 2.0), ('b', 3.0)][::1 if N == 2 else -1])\n"
        "def f(x): return x * next(iter(n.values()))"
    ),
    "a set": "n = {N}\ndef f(x): return x * max(n)",
    "a string": "n = str(N)\ndef f(x): return x * float(n)",
    "a range": "n = range(int(N))\ndef f(x): return x * len(n)",
    "a deque": "n = collections.deque([N])\ndef f(x): return x * n[0]",
    "an iterator": "n = itertools.count(N)\ndef f(x): return x * next(n)",
    "a tensor": "n = wg.tensor(N)\ndef f(x): return x * n",
    "a module": "n = nn.Dropout(N / 10)\ndef f(x): return x * n.p",
    # arrays
    "an array": "n = np.array([N])\ndef f(x): return x * n",
    "a scalar of NumPy": "n = np.float64(N)\ndef f(x): return x * n",
    "the dtype of an array": (
        "n = np.ones(4, np.float32 if N == 2 else np.float64)\ndef f(x): return x * n.itemsize"
    ),
    "the strides of an array": (
        "n = np.ones((2, 3), order='C' if N == 2 else 'F')\ndef f(x): return x * n.strides[0]"
    ),
    "the flags of an array": (
        "n = np.ones(4)\nn.flags.writeable = N == 2\n"
        "def f(x): return x * (2.0 if n.flags.writeable else 3.0)"
    ),
    "the base of an array": (
        "n = np.ones(4)\nn = n[:] if N == 2 else n\n"
        "def f(x): return x * (2.0 if n.base is None else 3)"
    ),
    "the fields of a dtype": (
        "n = np.dtype([('a' * int(N), 'f8')])\ndef f(x): return x * len(n.names[0])"
    ),
    "the offsets of a dtype": (
        "n = np.dtype({'names': ['a'], 'formats': ['f8'], 'offsets': [int(N)], 'itemsize': 16})\n"
        "def f(x): return x * n.fields['a'][1]"
    ),
    "the metadata of a dtype": (
        "n = np.dtype('f8', metadata={'n': N})\ndef f(x): return x * n.metadata['n']"
    ),
    "the byte order of an array": (
        "n = np.ones(4, '<f8' if N == 2 else '>f8')\n"
        "def f(x): return x * (2.0 if n.dtype.isnative else 3.0)"
    ),
    "an array of objects": "n = np.array([N], object)\ndef f(x): return x * float(n[0])",
    "an array of text": "n = np.array([str(N)])\ndef f(x): return x * float(n[0])",
    "a masked array": (
        "n = np.ma.array([N, 5.0], mask=[False, True])\ndef f(x): return x * float(n.max())"
    ),
    "a subclass of ndarray": (
        "class C(np.ndarray): pass\nc = np.ones(4).view(C)\nc.n = N\ndef f(x): return x * c.n"
    ),
    "the alignment of an array": (
        "n = np.zeros(33, np.uint8)[int(N) - 2:][:32].view('f8')\n"
        "def f(x): return x * (2.0 if n.flags.aligned else 3.0)"
    ),
    "an array written meanwhile": ("n = np.zeros(4)\nn[:] = N\ndef f(x): return x * n"),
    # modules
    "a module of one's own": "m = types.ModuleType('m')\nm.n = N\ndef f(x): return x * m.n",
    "a module with a known name": (
        "m = types.ModuleType('numpy.own')\nm.n = N\ndef f(x): return x * m.n"
    ),
    "__getattr__ of a module": (
        "m = types.ModuleType('m')\nm.__getattr__ = lambda name: N\ndef f(x): return x * m.n"
    ),
    "an import inside": (
        "m = types.ModuleType('wg_test_own')\nm.n = N\nsys.modules['wg_test_own'] = m\n"
        "def f(x):\n    import wg_test_own\n    return x * wg_test_own.n"
    ),
    "a global set by a function": (
        "def g():\n    global n\n    n = N\ng()\ndef f(x): return x * n"
    ),
    "globals()": "n = N\ndef f(x): return x * globals()['n']",
    "eval": "n = N\ndef f(x): return x * eval('n')",
    "getattr": "t = Thing()\nt.n = N\ndef f(x): return x * getattr(t, 'n')",
    "vars": "t = Thing()\nt.n = N\ndef f(x): return x * vars(t)['n']",
    "operator.attrgetter": "t = Thing()\nt.n = N\nf = lambda x: x * operator.attrgetter('n')(t)",
    "a name that hides a builtin": "len = lambda x: N\ndef f(x): return x * len(x)",
    "a name that hides a module": (
        "np = types.SimpleNamespace(sin=lambda x: x * N)\ndef f(x): return np.sin(x)"
    ),
    # the world
    "the environment": "os.environ['WG_N'] = str(N)\nf = lambda x: x * float(os.environ['WG_N'])",
    "a file": ("p = tempfile.mktemp()\nwrite(p, str(N))\nf = lambda x: x * float(read(p))"),
    "a file of one name": "f = lambda x: x * float(read(PATH))",
    "np.load": "np.save(PATH + '.npy', N)\nf = lambda x: x * np.load(PATH + '.npy')",
    "np.fromfile": "np.array(N).tofile(PATH)\nf = lambda x: x * np.fromfile(PATH)",
    "np.loadtxt": "f = lambda x: x * np.loadtxt(PATH)",
    "a memory map": (
        "np.array(N).tofile(PATH)\nm = np.memmap(PATH, 'f8', 'r')\nf = lambda x: x * float(m[0])"
    ),
    "wg.load": "wg.save(PATH, {'n': np.array(N)})\nf = lambda x: x * wg.load(PATH)['n']",
    "an IDX file": (
        "write(PATH, bytes([0, 0, 8, 1, 0, 0, 0, 1, int(N)]).decode())\n"
        "f = lambda x: x * float(wg.data.read_idx(PATH)[0])"
    ),
    "the size of a file": "f = lambda x: x * os.stat(PATH).st_size",
    "the working directory": "f = lambda x: x * float(read(os.path.join(os.getcwd(), PATH)))",
    "the arguments of the program": "sys.argv = ['', str(N)]\nf = lambda x: x * float(sys.argv[1])",
    "the recursion limit": "f = lambda x: x * sys.flags.optimize if N == 2 else x * N",
    "random numbers": "random.seed(int(N))\nf = lambda x: x * random.Random(int(N)).random()",
    "random numbers of NumPy": "f = lambda x: x * np.random.default_rng(int(N)).random()",
    "the settings of NumPy": (
        "f = lambda x: x * (2.0 if np.get_printoptions()['precision'] == 2 else 3.0)"
    ),
}
# What a name means while the function runs; `X0` is an array of its own.
PATCHES = {
    "numpy.sin": "np.sin(x)",
    "numpy.sum": "np.sum(x)",
    "numpy.add": "np.add(x, 1.0)",
    "numpy.pi": "x * np.pi",
    "numpy.float64": "x * np.float64(1.0)",
    "numpy.linalg.norm": "np.linalg.norm(x)",
    "numpy.fft.fft": "np.fft.fft(x)",
    "math.sqrt": "x * math.sqrt(4.0)",
    "math.pi": "x * math.pi",
    "cmath.phase": "x * cmath.phase(1j)",
    "operator.mul": "operator.mul(x, 2.0)",
    "wengert.numpy.sin": "wnp.sin(x)",
    "wengert.numpy.exp": "wnp.exp(x)",
    "wengert.nn.functional.relu": "nn.functional.relu(x)",
    "wengert.stop_gradient": "wg.stop_gradient(x)",
    "random.random": "x * random.random()",
    "time.time": "x * time.time()",
    "builtins.pow": "x * pow(1.0, 2)",
    "builtins.round": "x * round(1.0)",
}
for place, call in PATCHES.items():
    result = "N" if "x *" in call else "X0 * N"
    new = result if place.endswith(".pi") else f"lambda *_, **__: {result}"
    WAYS[f"a patch of {place}"] = (
        f"X0 = np.arange(1.0, 5.0)\npatch = mock.patch('{place}', {new})\nf = lambda x: {call}"
    )

# The rest takes its time.
OFTEN = (
    "the code", "an attribute of the function", "an attribute of a wrapper", "__wrapped__",
    "an attribute of a partial", "an attribute of a jitted function", "the strides of an array",
    "the flags of an array", "the fields of a dtype", "the metadata of a dtype", "an IDX file",
    "a module with a known name", "a patch of numpy.sin", "a patch of math.sqrt",
    "a patch of operator.mul", "a patch of wengert.numpy.sin",
)  # fmt: skip


@pytest.mark.parametrize(
    "way", [way if way in OFTEN else pytest.param(way, marks=pytest.mark.slow) for way in WAYS]
)
def test_a_changed_program_is_not_found(way, tmp_path):
    path = tmp_path / "file"
    results = []
    for number in (2.0, 3.0, 2.0):
        path.write_text("1" * int(number) if way == "the size of a file" else str(number))
        found, expected = (run(WAYS[way], number, path, how) for how in (wg.jit, lambda f: f))
        np.testing.assert_allclose(found, expected, rtol=1e-15, err_msg=f"{way}, {number}")
        assert found.dtype == expected.dtype
        results.append(found)
    assert not np.array_equal(results[0], results[1]), "the text does not show what it is for"
    assert np.array_equal(results[0], results[2])


def run(text, number, path, how):
    """What the function of a text gives, as in a fresh process."""
    scope = {"N": number, "PATH": str(path)}
    exec(START + text, scope)
    with np.printoptions(precision=int(number)), scope.get("patch", contextlib.nullcontext()):
        return np.array(how(scope["f"])(X))


def test_under_a_patch_nothing_is_kept(cache):
    with mock.patch("numpy.prod", lambda *args, **kwargs: 1):
        wg.jit(lambda x: x * 2.0)(X[:1])
    f = wg.jit(lambda x: x * 2.0)
    f(X[:1])
    assert not f.program(X[:1]).from_record
    again = wg.jit(lambda x: x * 2.0)
    again(X[:1])
    assert again.program(X[:1]).from_record


# ---------------------------------------------------------------- processes

HEAD = """
import functools, os, sys, time
import numpy as np
import wengert as wg
"""
# Texts, and what is different around the second process.
PROCESSES = {
    "the order of a set": (
        "f = lambda x: x * float(next(iter({'2', '3', '4', '5', '6', '7'})))",
        {"PYTHONHASHSEED": "1"},
        {"PYTHONHASHSEED": "2"},
    ),
    "the environment": ("f = lambda x: x * float(os.environ['N'])", {"N": "2"}, {"N": "3"}),
    "the clock": ("f = lambda x: x * time.time()", {}, {}),
    "the process": ("f = lambda x: x * os.getpid()", {}, {}),
    "an address": ("f = lambda x: x * id(f)", {}, {}),
    "a module of one's own": ("import config\nf = lambda x: x * config.n", {"N": "2"}, {"N": "3"}),
    "a patch before the import": (
        "import math\nif os.environ['N'] == '3': math.sqrt = lambda x: 3.0\n"
        "f = lambda x: x * math.sqrt(4.0)",
        {"N": "2"},
        {"N": "3"},
    ),
}
TAIL = """
seen = []
def g(x):
    seen.append(f(np.ones(4)))
    return x * seen[-1]
compiled = wg.jit(g)
found = compiled(np.ones(4))
print(len(seen) == 1 and np.array_equal(found, seen[0]), float(found[0]))
"""


@pytest.mark.slow
@pytest.mark.parametrize("way", PROCESSES)
def test_two_processes(way, tmp_path):
    text, *environments = PROCESSES[way]
    script = tmp_path / "script.py"
    script.write_text(HEAD + text + TAIL)
    found = []
    for number, environment in enumerate(environments):
        (tmp_path / "config.py").write_text(f"n = {number + 2.0}")
        shutil.rmtree(tmp_path / "__pycache__", ignore_errors=True)
        around = {**os.environ, "WENGERT_CACHE": str(tmp_path / "objects"), **environment}
        ran = subprocess.run(
            [sys.executable, str(script)], capture_output=True, text=True, check=True, env=around
        )
        found.append(ran.stdout.split())
    assert [one[0] for one in found] == ["True", "True"]
    assert found[0][1] != found[1][1]


STEP = """
import sys
import numpy as np
import wengert as wg
w = np.linspace(-1.0, 1.0, 3)
wg.jit(wg.value_and_grad(lambda w: 0.5 * (w @ w) ** 2))(w)
late = "schedule.steps schedule.memory control.pieces control.jumps control.purity trace.made"
print(*[name for name in late.split() if f"wengert.{name}" in sys.modules])
"""


def test_a_program_that_is_found_needs_no_modules_that_compile(tmp_path):
    """Reading them is a good part of the time of a first call."""
    around = {**os.environ, "WENGERT_CACHE": str(tmp_path / "objects"), "WENGERT_SCHEDULE": ""}
    found = [
        subprocess.run(
            [sys.executable, "-c", STEP], capture_output=True, text=True, check=True, env=around
        ).stdout.split()
        for _ in range(2)
    ]
    assert "schedule.steps" in found[0]
    assert found[1] == []
