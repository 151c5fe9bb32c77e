"""The pages of the reference, from the docstrings: one for each public module.

A name that has no example in its docstring has one in ``docs/examples/``; the tests run all of them
and look for names without any.
"""

from __future__ import annotations

import importlib
import inspect
import re
import textwrap
import types
from pathlib import Path
from typing import Any

EXAMPLES = Path(__file__).parent / "examples"
# The public modules, the title of their pages, and the file of examples.
MODULES = {
    "wengert": ("Derivatives, compiling, training", "wengert"),
    "wengert.numpy": ("NumPy's functions", "numpy"),
    "wengert.numpy.linalg": ("Linear algebra", "linalg"),
    "wengert.numpy.fft": ("Fourier transforms", "fft"),
    "wengert.numpy.random": ("Random numbers from keys", ""),
    "wengert.nn": ("Networks: layers and losses", "nn"),
    "wengert.nn.functional": ("Networks: functions", "functional"),
    "wengert.nn.init": ("Networks: initial weights", ""),
    "wengert.optim": ("Optimizers and schedules", "optim"),
    "wengert.train": ("Callbacks and histories of training", "train"),
    "wengert.data": ("Data", "data"),
    "wengert.graph": ("Graphs and nodes", "graph"),
    "wengert.sparse": ("Sparse Jacobians and Hessians", ""),
    "wengert.scipy.special": ("SciPy: special functions", "special"),
    "wengert.scipy.stats": ("SciPy: distributions", "stats"),
    "wengert.scipy.linalg": ("SciPy: linear algebra", "scipy_linalg"),
    "wengert.scipy.integrate": ("SciPy: integrals and differential equations", "integrate"),
    "wengert.scipy.interpolate": ("SciPy: interpolation", ""),
    "wengert.scipy.ndimage": ("SciPy: images", ""),
    "wengert.scipy.signal": ("SciPy: signals", ""),
    "wengert.sklearn": ("scikit-learn's estimators", ""),
}
_METHODS_OF = ("Tensor", "Graph", "Module", "History")  # classes whose methods are listed too


def public_names(module: Any) -> dict[str, Any]:
    """The names of a module that its page lists: all that are no modules themselves."""
    found = {name: getattr(module, name) for name in sorted(module.__all__, key=str.lower)}
    return {name: value for name, value in found.items() if not isinstance(value, types.ModuleType)}


def examples_of(file: str) -> dict[str, str]:
    """The examples of a file in ``docs/examples/``, by name."""
    _, *parts = _sections(file)
    pairs = zip(parts[::2], parts[1::2], strict=True)
    return {name: textwrap.dedent(text).strip() for name, text in pairs}


def beginning_of(file: str) -> str:
    """What the examples of a file begin with: imports, and a few arrays."""
    beginning = _sections(file)[0]
    return textwrap.dedent(beginning.partition("\n\n")[2]).strip()


def _sections(file: str) -> list[str]:
    """The text before the first heading of a file of examples, then each name and its text."""
    text = (EXAMPLES / f"{file}.md").read_text() if file else ""
    return re.split(r"^## `(\w+)`\n", text, flags=re.MULTILINE)


def without_example(module: str) -> list[str]:
    """The public names of a module that have no example."""
    names = public_names(importlib.import_module(module))
    extra = examples_of(MODULES[module][1])
    return [
        name for name, value in names.items()
        if name not in extra and ">>>" not in (inspect.getdoc(value) or "")
    ]  # fmt: skip


def write_reference(folder: Path) -> None:
    """Write all pages and their index; files that stay the same are left alone."""
    folder.mkdir(exist_ok=True)
    for module in MODULES:
        _write(folder / f"{module}.md", page(module))
    pages = "\n".join(MODULES)
    rows = "\n".join(f"| [{name}]({name}.md) | {title} |" for name, (title, _) in MODULES.items())
    _write(
        folder / "index.md",
        "# Reference\n\nEvery public name, with an example that the tests run.\n\n"
        f"| module | what |\n|---|---|\n{rows}\n\n```{{toctree}}\n:hidden:\n{pages}\n```\n",
    )


def page(module: str) -> str:
    """The page of one module."""
    found = importlib.import_module(module)
    title, file = MODULES[module]
    extra = examples_of(file)
    names = public_names(found)
    links = ", ".join(f"[{name}](#{_anchor(module, name)})" for name in names)
    parts = [f"# `{module}`", f"{title}.", _markdown(inspect.getdoc(found) or ""), links]
    if file:
        parts.append(f"Examples without imports begin with:\n\n```pycon\n{beginning_of(file)}\n```")
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
