"""The pages of the reference, from the docstrings: one for each public module.

A name that has no example in its docstring has one in ``docs/examples/``; the tests run all of them
and look for names without any.
"""

from __future__ import annotations

import importlib
import inspect
import re
import textwrap
from pathlib import Path
from types import ModuleType
from typing import Any

import wengert as wg

EXAMPLES = Path(__file__).parent / "examples"
# The public modules in the order of their pages, each with a title; what is not named here comes
# last, under the first line of its docstring.
TITLES = {
    "wengert": "Derivatives, compiling, training",
    "wengert.numpy": "NumPy's functions",
    "wengert.numpy.linalg": "Linear algebra",
    "wengert.numpy.fft": "Fourier transforms",
    "wengert.numpy.random": "Random numbers from keys",
    "wengert.nn": "Networks: layers and losses",
    "wengert.nn.functional": "Networks: functions",
    "wengert.nn.init": "Networks: initial weights",
    "wengert.optim": "Optimizers and schedules",
    "wengert.train": "Callbacks and histories of training",
    "wengert.data": "Data",
    "wengert.graph": "Graphs and nodes",
    "wengert.sparse": "Sparse Jacobians and Hessians",
    "wengert.scipy.special": "SciPy: special functions",
    "wengert.scipy.stats": "SciPy: distributions",
    "wengert.scipy.linalg": "SciPy: linear algebra",
    "wengert.scipy.integrate": "SciPy: integrals and differential equations",
    "wengert.scipy.interpolate": "SciPy: interpolation",
    "wengert.scipy.ndimage": "SciPy: images",
    "wengert.scipy.signal": "SciPy: signals",
    "wengert.sklearn": "scikit-learn's estimators",
}
_METHODS_OF = ("Tensor", "Graph", "Module", "History")  # classes whose methods are listed too


def public_modules() -> dict[str, str]:
    """The modules that have a page, with their titles."""
    top = [f"wengert.{name}" for name in wg.__all__ if isinstance(getattr(wg, name), ModuleType)]
    found = [*top, *(f"wengert.scipy.{name}" for name in wg.scipy.__all__)]
    found.remove("wengert.scipy")  # it has modules only
    first_line = lambda name: inspect.getdoc(importlib.import_module(name)).partition("\n")[0]
    return TITLES | {name: first_line(name) for name in found if name not in TITLES}


def public_names(module: Any) -> dict[str, Any]:
    """The names of a module that its page lists: all that are no modules themselves."""
    found = {name: getattr(module, name) for name in sorted(module.__all__, key=str.lower)}
    return {name: value for name, value in found.items() if not isinstance(value, ModuleType)}


def examples_of(module: str) -> dict[str, str]:
    """The examples of a module in ``docs/examples/``, by name."""
    _, *parts = _sections(module)
    pairs = zip(parts[::2], parts[1::2], strict=True)
    return {name: textwrap.dedent(text).strip() for name, text in pairs}


def beginning_of(module: str) -> str:
    """What the examples of a module begin with: imports, and a few arrays."""
    beginning = _sections(module)[0]
    return textwrap.dedent(beginning.partition("\n\n")[2]).strip()


def _sections(module: str) -> list[str]:
    """The text before the first heading of a file of examples, then each name and its text."""
    path = EXAMPLES / f"{module}.md"
    text = path.read_text() if path.exists() else ""
    return re.split(r"^## `(\w+)`\n", text, flags=re.MULTILINE)


def without_example(module: str) -> list[str]:
    """The public names of a module that have no example."""
    names = public_names(importlib.import_module(module))
    extra = examples_of(module)
    return [
        name for name, value in names.items()
        if name not in extra and ">>>" not in (inspect.getdoc(value) or "")
    ]  # fmt: skip


def write_reference(folder: Path) -> None:
    """Write all pages and their index; files that stay the same are left alone."""
    folder.mkdir(exist_ok=True)
    modules = public_modules()
    for module, title in modules.items():
        _write(folder / f"{module}.md", page(module, title))
    pages = "\n".join(modules)
    rows = "\n".join(f"| [{name}]({name}.md) | {title} |" for name, title in modules.items())
    _write(
        folder / "index.md",
        "# Reference\n\nEvery public name, with an example that the tests run.\n\n"
        f"| module | what |\n|---|---|\n{rows}\n\n```{{toctree}}\n:hidden:\n{pages}\n```\n",
    )


def page(module: str, title: str) -> str:
    """The page of one module."""
    found = importlib.import_module(module)
    extra = examples_of(module)
    names = public_names(found)
    links = ", ".join(f"[{name}](#{_anchor(module, name)})" for name in names)
    parts = [f"# `{module}`", f"{title}.", _markdown(inspect.getdoc(found) or ""), links]
    if extra:
        parts.append(
            f"Examples without imports begin with:\n\n```pycon\n{beginning_of(module)}\n```"
        )
    parts += [entry(module, name, value, extra.get(name)) for name, value in names.items()]
    return "\n\n".join(parts) + "\n"


def entry(module: str, name: str, value: Any, example: str | None) -> str:
    """A name: its signature, its docstring, its example and, of some classes, its methods."""
    parts = [f"({_anchor(module, name)})=\n## {_escaped(name)}"]
    parts += [_signature(name, value)] if callable(value) else []
    parts.append(_markdown(inspect.getdoc(value) or ""))
    if example:
        parts.append(f"```pycon\n{example}\n```")
    if name in _METHODS_OF and isinstance(value, type):
        parts.append(_methods(value))
    return "\n\n".join(filter(None, parts))


def _anchor(module: str, name: str) -> str:
    words = re.sub(r"([A-Z]+)", r"-\1", name).strip("-")  # nn has names that differ in case alone
    kind = "class-" if name[:1].isupper() else ""
    return f"{module}-{kind}{words}".lower().replace("_", "-").replace(".", "-")


def _escaped(name: str) -> str:
    return name.replace("_", "\\_")


def _methods(cls: type) -> str:
    rows = []
    for name, value in sorted(vars(cls).items()):
        text = inspect.getdoc(value)
        if not name.startswith("_") and text and (callable(value) or isinstance(value, property)):
            first = text.split("\n\n")[0].replace("\n", " ").replace("|", "\\|")
            rows.append(f"| `{name}` | {first} |")
    return "| method | does |\n|---|---|\n" + "\n".join(rows)


def _signature(name: str, value: Any) -> str:
    try:
        found = inspect.signature(value)
    except (TypeError, ValueError):
        return ""
    bare = [
        parameter.replace(annotation=parameter.empty, default=_default(parameter.default))
        for parameter in found.parameters.values()
    ]
    text = f"{name}{inspect.Signature(bare)}"
    if len(text) > 90:
        text = textwrap.fill(text, 90, subsequent_indent=" " * 4, break_long_words=False)
    return f"```python\n{text}\n```"


class _Shown:
    """A default that prints as people write it."""

    def __init__(self, text: str):
        self.text = text

    def __repr__(self) -> str:
        return self.text


def _default(value: Any) -> Any:
    if isinstance(value, type) and value is not inspect.Parameter.empty:
        return _Shown(value.__name__)
    if " at 0x" in repr(value):
        return _Shown("...")
    return value


def _markdown(text: str) -> str:
    """A docstring as Markdown: prose as it is, examples as code."""
    lines, inside = [], False
    for line in text.splitlines():
        begins = line.lstrip().startswith(">>> ")
        if begins and not inside:
            lines += ["", "```pycon"]
            inside = True
        elif inside and not line.strip():
            lines.append("```")
            inside = False
        lines.append(line if inside else line.replace("docs/", "").replace("<", "\\<"))
    if inside:
        lines.append("```")
    return "\n".join(lines)


def _write(path: Path, text: str) -> None:
    if not path.exists() or path.read_text() != text:
        path.write_text(text)
