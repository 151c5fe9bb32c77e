"""The tables of docs/nn.md and docs/optim.md: what there is, and how it runs when it is compiled.

    python tests/layer_table.py

writes them; `tests/nn/test_table.py` holds that they are as written.
"""

import inspect
import re
import textwrap
from pathlib import Path

import numpy as np

import wengert as wg
from layer_cases import FUNCTIONS, LAYERS, LOSSES, OTHERS, floats
from wengert import nn, optim, tree
from wengert.loops import Host
from wengert.nn import functional
from wengert.passes import optimise
from wengert.schedule import schedule

DOCS = Path(__file__).parents[1] / "docs"
# of these there is nothing to run
CONTAINERS = {
    "Module", "ModuleDict", "ModuleList", "Parameter", "ParameterDict", "ParameterList",
    "Sequential",
}  # fmt: skip
# the files of nn and of nn.functional, by what the table calls them
TOPICS = {
    "linear maps, tables": ("linear",),
    "convolution": ("convolution",),
    "pooling, other sizes": ("pooling", "resampling"),
    "patches, channels, borders": ("folding",),
    "normalization": ("normalization",),
    "activations, dropout": ("activations", "dropout"),
    "attention": ("attention", "transformer"),
    "recurrence": ("recurrent",),
    "losses": ("losses", "margins", "ctc"),
    "indexing": ("indexing",),
    "modules of modules": ("containers", "module"),
}


def exported(package, files):
    """What the files list in their `__all__`."""
    found = []
    for file in files:
        path = Path(package.__file__).parent / f"{file}.py"
        if path.exists():
            module = __import__(f"{package.__name__}.{file}", fromlist=["__all__"])
            found += [name for name in module.__all__ if name in package.__all__]
    return sorted(found)


def layers():
    """One layer of each class, and its inputs."""
    found = dict(OTHERS)
    for name, keywords, inputs, _ in LOSSES:
        found.setdefault(name, (getattr(nn, name)(**keywords), inputs))
    for name, args, keywords, shapes in LAYERS:
        if name not in found:
            found[name] = (getattr(nn, name)(*args, **keywords), [floats(*s) for s in shapes])
    found["MultiHeadAttention"] = found["MultiheadAttention"]
    return found


def is_float(value):
    return isinstance(value, np.ndarray) and value.dtype.kind == "f"


def called_in(run, arguments):
    """What NumPy computes inside the compiled value and gradient of a function."""
    places = [n for n, value in enumerate(arguments) if is_float(value)]
    arrays = [n for n, value in enumerate(arguments) if isinstance(value, np.ndarray)]

    def value_and_gradient(*given):
        filled = list(arguments)
        for place, value in zip(arrays, given, strict=True):
            filled[place] = value

        def total(*moving):
            for place, value in zip(places, moving, strict=True):
                filled[place] = value
            found = run(*filled)
            return (found[0] if isinstance(found, tuple) else found).sum()

        if not places:
            return total()
        inputs = [filled[place] for place in places]
        return wg.value_and_grad(total, tuple(range(len(places))))(*inputs)

    graph = wg.trace(value_and_gradient, *[arguments[n] for n in arrays])
    return [str(kernel) for kernel in schedule(optimise(graph)).kernels if isinstance(kernel, Host)]


def called_in_layer(layer, inputs):
    """The same for a layer, and the gradients of its parameters too."""
    leaves, structure = tree.flatten(layer)
    count = len(inputs)

    def run(*values):
        return tree.unflatten(structure, values[count:])(*values[:count])

    return called_in(run, [*inputs, *map(np.array, leaves)])


def called():
    """For each name what NumPy computes in it."""
    found = {name: called_in_layer(*case) for name, case in layers().items()}
    functions = {name: getattr(functional, name) for name in functional.__all__}
    return found | {name: called_in(functions[name], FUNCTIONS[name]) for name in functions}


def joined(names):
    return ", ".join(f"`{name}`" for name in names)


def nn_table(hosts):
    """The table of layers and functions; `hosts` is what `called` gave."""
    lines = ["| | layers | functions of `nn.functional` | compiled |", "|---|---|---|---|"]
    for topic, files in TOPICS.items():
        classes = [name for name in exported(nn, files) if isinstance(getattr(nn, name), type)]
        functions = exported(functional, files)
        through = [name for name in (*classes, *functions) if hosts.get(name)]
        how = f"native, but {joined(through)} through NumPy" if through else "native"
        how = "" if set(classes) and set(classes) <= CONTAINERS else how
        lines.append(f"| {topic} | {joined(classes)} | {joined(functions)} | {how} |")
    return "\n".join(lines)


def optim_table():
    """The optimizers with their options and defaults."""
    lines = ["| optimizer | options, and what they are unless given |", "|---|---|"]
    for name in sorted(optim.__all__, key=str.lower):
        kind = getattr(optim, name)
        if (
            isinstance(kind, type)
            and issubclass(kind, optim.Optimizer)
            and kind is not optim.Optimizer
        ):
            options = list(inspect.signature(kind).parameters.values())[1:]
            shown = ", ".join(f"`{one.name}={one.default!r}`" for one in options)
            lines.append(f"| `{name}` | {shown} |")
    return "\n".join(lines)


def section(text):
    """The first table of a text that is marked as made from the code."""
    return re.search(r"<!-- from the code -->\n\n(.*?)\n\n", text, re.DOTALL)


if __name__ == "__main__":
    for path, table in (("nn.md", nn_table(called())), ("optim.md", optim_table())):
        text = (DOCS / path).read_text()
        found = section(text)
        (DOCS / path).write_text(text[: found.start(1)] + table + text[found.end(1) :])
        print(textwrap.shorten(table, 200))
