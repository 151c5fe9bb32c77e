"""The source of a function is found, and known to be its own."""

import importlib.util
import linecache

import pytest

from wengert.control.source import Unconvertible, definition


def decorate(f):
    return f


class Holder:
    """Has methods."""

    def method(self, x):
        self.__hidden = x
        return super().__init__()

    def another(self):
        return Holder() if self.__hidden else Holder

    @decorate
    @decorate
    def decorated(self, a, *, b=3):
        """Documented."""
        if a:
            return [i for i in range(3) if i < b]
        return None


def recursive(n):
    return 0 if n == 0 else recursive(n - 1)


def closures(n):
    def inner(x):
        return x + n

    return inner, lambda x: x * n, [lambda y: y + 1, lambda y: y + 2]


def local_class():
    class Local:
        def another(self):
            return Local()

    return Local


INNER, SCALED, (FIRST, SECOND) = closures(3)
FUNCTIONS = [Holder.method, Holder.decorated, recursive, closures, INNER, SCALED, decorate]
FUNCTIONS += [Holder.another, local_class().another]


@pytest.mark.parametrize("f", FUNCTIONS, ids=[f.__qualname__ for f in FUNCTIONS])
def test_found(f):
    found = definition(f)
    assert getattr(found, "name", "<lambda>") == f.__name__


def test_lambdas_on_one_line():
    numbers = [definition(f).body.right.value for f in (FIRST, SECOND)]
    assert numbers == [1, 2]


def test_a_file_that_has_changed(tmp_path):
    path = tmp_path / "changing.py"
    path.write_text("def f(x):\n    if x > 0:\n        return x\n    return -x\n")
    spec = importlib.util.spec_from_file_location("changing", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert definition(module.f).name == "f"
    path.write_text("def f(x):\n    if x > 1:\n        return x\n    return -x\n")
    linecache.checkcache()
    with pytest.raises(Unconvertible, match="its source has changed since it was imported"):
        definition(module.f)


def test_without_source():
    made: dict = {}
    # of "<string>" Python 3.13 knows a source: that of `python -c`
    exec(compile("def f(x):\n    return x\n", "<no file>", "exec"), made)
    with pytest.raises(Unconvertible, match="its source cannot be read"):
        definition(made["f"])
