"""What errors and docstrings tell people to use is there: every dotted name in them resolves."""

import ast
import contextlib
import functools
import importlib
import re
from pathlib import Path

import numpy as np

import wengert as wg
import wengert.numpy as wnp
from wengert import data, nn, optim

SOURCE = Path(wg.__file__).parent
ROOT = Path(__file__).parents[1]
MODULES = {"wg": wg, "wengert": wg, "wnp": wnp, "np": np, "numpy": np, "nn": nn, "optim": optim}
NAME = re.compile(rf"(?<![\w./\-])({'|'.join(MODULES)})((?:\.[A-Za-z_]\w*)+)")
# In the texts of these folders np and nn are other libraries too.
PEERS = ("experiments", "bench")


@functools.cache
def nodes(path):
    return list(ast.walk(ast.parse(path.read_text())))


def texts(path):
    """The strings of a file, parts of f-strings included, with their lines."""
    for node in nodes(path):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value


def resolves(module, attributes):
    """Whether the name is there, as an attribute or in a module (`wengert.jit` is both)."""
    value, name = MODULES[module], MODULES[module].__name__
    for attribute in attributes:
        name += f".{attribute}"
        if hasattr(value, attribute):
            value = getattr(value, attribute)
            continue
        for module in (name, name.rpartition(".")[0]):
            with contextlib.suppress(ImportError):
                value = importlib.import_module(module)
                break
        else:
            return False
        if module != name and not hasattr(value, attribute):
            return False
        value = getattr(value, attribute, value)
    return True


FILES = [
    path for path in sorted(SOURCE.rglob("*.py"))
    if path.relative_to(SOURCE).parts[0] not in PEERS
]  # fmt: skip


def test_every_name_resolves():
    found, missing = 0, []
    for path in FILES:
        # generated code has functions of its own
        generated = path.relative_to(SOURCE).parts[0] == "codegen"
        for line, text in texts(path):
            for module, dotted in NAME.findall(text):
                found += 1
                attributes = dotted[1:].split(".")
                own = generated and module == "wengert"
                if own or attributes[-1] in ("py", "md") or resolves(module, attributes):
                    continue
                missing.append(f"{path.relative_to(SOURCE)}:{line}: {module}{dotted}")
    assert found > 300
    assert not missing, "\n".join(missing)


# What was once, and what other libraries have, is told of in the changelog and the comparisons.
PAGES = [
    path for path in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")] if path.name != "CHANGELOG.md"
]


def test_names_in_the_documentation():
    found, missing = 0, []
    for path in PAGES:
        for module, dotted in NAME.findall(path.read_text(encoding="utf-8")):
            attributes = dotted[1:].split(".")
            if module in ("wg", "wnp") and attributes[-1] not in ("py", "md"):
                found += 1
                if not resolves(module, attributes):
                    missing.append(f"{path.name}: {module}{dotted}")
    assert found > 50
    assert not missing, "\n".join(missing)


def remedies(path):
    """The strings inside of calls that make an error: its text as people read it."""
    for node in nodes(path):
        if isinstance(node, ast.Raise) and node.exc is not None:
            for part in ast.walk(node.exc):
                if isinstance(part, ast.Constant) and isinstance(part.value, str):
                    yield part.lineno, part.value


CALL = re.compile(r"(?<![\w.`])(?:Use|use|Call|call) ([a-z_][a-z_0-9]*)(?=\()")


PLACES = (wg, wnp, wnp.linalg, wnp.fft, nn, nn.functional, nn.Module, optim, data, np.ndarray)


def test_functions_that_remedies_name():
    """``Use where(mask, ...)``: a function of one of the namespaces, or a method of arrays."""
    found, missing = 0, []
    for path in FILES:
        for line, text in remedies(path):
            for name in CALL.findall(text):
                found += 1
                if not any(hasattr(place, name) for place in PLACES):
                    missing.append(f"{path.relative_to(SOURCE)}:{line}: {name}()")
    assert found > 5
    assert not missing, "\n".join(missing)
