"""The `wengert` command: reproduce the papers, compare with peers, look inside, find problems.

Each command's ``--help`` shows an example. The heavy parts are imported by the command that
needs them, so that ``wengert --help`` answers at once.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import importlib.metadata
import importlib.util
import inspect
import os
import platform
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

EXPERIMENT_NAMES = ("example", "cnn", "fashion", "rnn", "circles", "ratio")
PEERS = ("torch", "jax", "keras", "autograd")
TRAINING_PEERS = ("torch", "jax", "keras")  # that `reproduce` can train in
EXECUTORS = ("processes", "mpi", "dask")
PARTS = ("all", "graph", "passes", "regions", "loops", "memory", "llvm", "assembly", "time")
# What the extras bring, and the peers of `wengert bench`.
OPTIONAL = ("scipy", "safetensors", "pooch", "matplotlib", "rich", "mpi4py", *PEERS)
INTERRUPTED = 130  # what a shell reports for a program stopped by Ctrl-C


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; the exit status."""
    parser = make_parser()
    arguments = parser.parse_args(argv)
    try:
        return arguments.run(arguments)
    except KeyboardInterrupt:
        print("\ninterrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:  # the reader, such as `head`, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except UsageError as error:
        print(f"wengert {arguments.command}: {error}", file=sys.stderr)
        return 2


class UsageError(Exception):
    """An argument that argparse cannot judge, with the message for the user."""


def make_parser() -> argparse.ArgumentParser:
    """The parser with all commands."""
    from . import __version__

    parser = argparse.ArgumentParser(
        prog="wengert", description="Automatic differentiation of plain NumPy code."
    )
    parser.add_argument("--version", action="version", version=f"wengert {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    _add_reproduce(commands)
    _add_bench(commands)
    _add_explain(commands)
    _add_doctor(commands)
    return parser


def _add(commands: Any, name: str, run: Callable, help: str, example: str) -> Any:
    parser = commands.add_parser(
        name,
        help=help,
        description=help[0].upper() + help[1:] + ".",
        epilog=f"example:\n{example}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(run=run)
    return parser


# ---------------------------------------------------------------- reproduce


def _add_reproduce(commands: Any) -> None:
    parser = _add(
        commands,
        "reproduce",
        run_reproduce,
        "run the papers' experiments: tables, results.json and report.html",
        "  wengert reproduce cnn --epochs 3 --peers torch --out results",
    )
    parser.add_argument(
        "experiment",
        nargs="?",
        default="all",
        choices=("all", *EXPERIMENT_NAMES),
        help="which experiment (default: all)",
    )
    effort = parser.add_mutually_exclusive_group()
    effort.add_argument(
        "--quick", action="store_true", help="one seed, one fold, no peers (the default)"
    )
    effort.add_argument(
        "--full",
        action="store_true",
        help="all seeds, folds and sizes, and the peers that are here",
    )
    parser.add_argument(
        "--epochs", type=_count, metavar="N", help="train for N epochs (default: the papers')"
    )
    parser.add_argument(
        "--seeds", type=_count, metavar="N", help="train N times; circles: N x 5 folds"
    )
    parser.add_argument(
        "--cv", action="store_true", help="circles: search the learning rates (--full does)"
    )
    parser.add_argument(
        "--executor",
        choices=EXECUTORS,
        help="circles: where folds and learning rates are tried; what is done is not done again",
    )
    parser.add_argument(
        "--ranks",
        type=_count,
        default=1,
        metavar="N",
        help="cnn, rnn: train on N processes with MPI, to the same bits for any N up to 4",
    )
    parser.add_argument(
        "--data", type=Path, metavar="DIR", help="a folder with MNIST and Fashion-MNIST"
    )
    parser.add_argument(
        "--peers",
        type=_names_of(TRAINING_PEERS),
        default=None,
        metavar="NAMES",
        help=f"train beside these too, separated by commas, of {', '.join(TRAINING_PEERS)} "
        "(default: none; with --full all that are installed)",
    )
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("wengert-results"),
        metavar="DIR",
        help="where to write (default: %(default)s)",
    )


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"got {text!r}, expected a whole number of at least 1")
    return int(text)


def run_reproduce(arguments: argparse.Namespace) -> int:
    """Run experiments; what is finished is on disk even after Ctrl-C."""
    from .experiments import EXPERIMENTS, Settings, reproduce

    chosen = EXPERIMENTS
    if arguments.experiment != "all":
        chosen = {arguments.experiment: EXPERIMENTS[arguments.experiment]}
    if arguments.peers is None:
        arguments.peers = [name for name in TRAINING_PEERS if arguments.full and _is_here(name)]
    _check_paths(arguments)
    if arguments.executor and arguments.experiment != "circles":
        raise UsageError("--executor is for circles alone: wengert reproduce circles --executor.")
    settings = Settings(
        quick=not arguments.full,
        epochs=arguments.epochs,
        seeds=arguments.seeds,
        data=str(arguments.data) if arguments.data else None,
        peers=tuple(arguments.peers),
        cv=arguments.cv,
        ranks=arguments.ranks,
        executor=arguments.executor,
        keep=str(arguments.out / "sweep") if arguments.executor else None,
    )
    try:
        with _pool(arguments.executor) as pool:
            if pool is None and arguments.executor:
                return 0  # a rank that has worked for the first one
            reproduce(chosen, arguments.out, replace(settings, pool=pool))
    finally:
        if (arguments.out / "report.html").exists():
            print(f"results: {arguments.out / 'results.json'}, {arguments.out / 'report.html'}")
    return 0


@contextlib.contextmanager
def _pool(name: str | None) -> Iterator[Any]:
    """The executor of this name; None without one."""
    if name is None:
        yield None
        return
    from .experiments.executors import ExecutorError, executor_named

    try:
        with executor_named(name) as executor:
            yield executor
    except ExecutorError as error:
        raise UsageError(str(error)) from None


def _check_paths(arguments: argparse.Namespace) -> None:
    if arguments.out.exists() and not arguments.out.is_dir():
        raise UsageError(f"--out {arguments.out} is a file, expected a folder. Name another one.")
    if arguments.data is not None and not arguments.data.is_dir():
        raise UsageError(f"--data {arguments.data} is not a folder. Name one that holds data sets.")
    for name in arguments.peers:
        if not _is_here(name):
            raise UsageError(f"--peers {name}: it is not installed. Run: pip install {name}.")


# ---------------------------------------------------------------- bench


def _add_bench(commands: Any) -> None:
    parser = _add(
        commands,
        "bench",
        run_bench,
        "compare with whichever peers are installed, in one run, as ratios",
        "  wengert bench --peers jax,autograd --quick --json bench.json",
    )
    parser.add_argument(
        "--peers",
        type=_names_of(PEERS),
        default=None,
        metavar="NAMES",
        help=f"peers separated by commas, of {', '.join(PEERS)} (default: all that are installed)",
    )
    parser.add_argument("--only", default=None, metavar="NAME", help="only workloads of this name")
    parser.add_argument("--json", default=None, metavar="FILE", help="also write the numbers here")
    parser.add_argument("--quick", action="store_true", help="smaller sizes, fewer rounds")


def _names_of(valid: Sequence[str]) -> Callable[[str], list[str]]:
    """A reader of names that are separated by commas."""

    def read(text: str) -> list[str]:
        names = [name.strip() for name in text.split(",") if name.strip()]
        for name in names:
            if name not in valid:
                raise argparse.ArgumentTypeError(
                    f"invalid choice: {name!r} (choose from {', '.join(valid)})"
                )
        return names

    return read


def run_bench(arguments: argparse.Namespace) -> int:
    """Hand over to `wengert.bench`."""
    from .bench import main as bench

    result = bench(arguments.peers, arguments.only, arguments.json, arguments.quick)
    return result if isinstance(result, int) else 0


# ---------------------------------------------------------------- explain


def _add_explain(commands: Any) -> None:
    parser = _add(
        commands,
        "explain",
        run_explain,
        "print how a function is compiled: graph, loops, memory, machine code",
        "  wengert explain wengert.experiments.ratio:rosenbrock f64[1000] --grad --part loops\n"
        "  wengert explain wengert.experiments.ratio:rosenbrock f64[1000] --grad --html page.html",
    )
    parser.add_argument("function", metavar="PACKAGE.MODULE:FUNCTION", help="what to compile")
    parser.add_argument(
        "types",
        nargs="*",
        metavar="TYPE",
        help="the type of each argument: f64[10], f32[8,2], i64, ...",
    )
    parser.add_argument("--grad", action="store_true", help="compile the value with the gradient")
    shown = parser.add_mutually_exclusive_group()
    shown.add_argument(
        "--part", choices=PARTS, default="all", help="which stage (default: %(default)s)"
    )
    shown.add_argument(
        "--html", metavar="FILE", help="write the page with everything here, and print nothing else"
    )


def run_explain(arguments: argparse.Namespace) -> int:
    """Compile a function for arguments of the given types and print the story."""
    from . import value_and_grad
    from .jit import jit

    function = find_function(arguments.function)
    values = [example_argument(text) for text in arguments.types]
    _check_number(function, values)
    if arguments.grad:
        function = value_and_grad(function)
    compiled = function if hasattr(function, "explain") else jit(function)
    story = compiled.explain(*values)
    if arguments.html is not None:
        print(_written(story, arguments.html))
    else:
        print(story if arguments.part == "all" else getattr(story, arguments.part))
    return 0


def _check_number(function: Callable, values: Sequence[Any]) -> None:
    """There must be a type for each argument that has no default."""
    try:
        inspect.signature(function).bind(*values)
    except ValueError:  # of a built-in that has no signature
        return
    except TypeError as error:
        name = getattr(function, "__name__", "the function")
        raise UsageError(
            f"{name}: {error}. Give a type for each argument, such as f64[10] or i64."
        ) from None


def _written(story: Any, path: str) -> str:
    """Where the page is now."""
    try:
        return str(story.html(path))
    except OSError as error:
        raise UsageError(
            f"--html {path}: {error.strerror}. Name a file in another place."
        ) from None


def find_function(path: str) -> Callable:
    """The function that ``package.module:function`` names; the current folder is searched too."""
    module_name, colon, name = path.partition(":")
    if not colon or not name:
        raise UsageError(f"got {path!r}, expected PACKAGE.MODULE:FUNCTION, such as model:loss.")
    if "" not in sys.path and os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        found: Any = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        raise UsageError(f"{error}. Run the command from the folder that holds it.") from error
    for part in name.split("."):
        if not hasattr(found, part):
            names = [n for n, v in vars(found).items() if callable(v) and not n.startswith("_")]
            raise UsageError(f"{module_name} has no {part!r}; it has {', '.join(sorted(names))}.")
        found = getattr(found, part)
    return found


_DTYPES = {"f": "float", "i": "int", "u": "uint"}


def example_argument(text: str) -> Any:
    """An array (of ones) for a type as graphs print it.

    >>> example_argument("f32[2,3]").shape
    (2, 3)
    """
    match = re.fullmatch(r"(?:([fiu])(8|16|32|64)|(bool))(?:\[([\d, ]*)\])?", text)
    name = match and (match[3] or f"{_DTYPES[match[1]]}{match[2]}")
    if match is None or name in ("float8", "float16"):
        raise UsageError(f"got the type {text!r}, expected one such as f64[10], f32[8,2] or i64.")
    shape = tuple(int(length) for length in (match[4] or "").split(",") if length.strip())
    return np.ones(shape, name)[()]


# ---------------------------------------------------------------- doctor


def _add_doctor(commands: Any) -> None:
    _add(
        commands,
        "doctor",
        run_doctor,
        "show the interpreter, processor, LLVM, threads, cache, data sets and optional packages",
        "  wengert doctor",
    )


def run_doctor(arguments: argparse.Namespace) -> int:
    """Print what wengert finds on this machine; the status is 1 if it cannot compile here."""
    checks: dict[str, Callable[[], str]] = {
        "wengert": _wengert_version,
        "python": lambda: f"{platform.python_version()} ({platform.python_implementation()})",
        "system": lambda: f"{platform.system()} {platform.machine()}",
        "numpy": lambda: np.__version__,
        "processor": _processor,
        "llvm": _llvm,
        "threads": _threads,
        "compiler": _compiles,
        "cache": _cache,
        "data": _data,
        **{name: lambda name=name: _package(name) for name in OPTIONAL},  # type: ignore[misc]
    }
    failed = False
    for name, check in checks.items():
        try:
            answer = check()
        except Exception as error:  # a doctor reports what is broken and goes on
            answer = f"FAILED: {type(error).__name__}: {error}"
            failed = True
        print(f"{name + ':':13}{answer}")
    return 1 if failed else 0


def _wengert_version() -> str:
    from . import __version__

    return f"{__version__} ({Path(__file__).parent})"


def _processor() -> str:
    from .codegen.target import Target

    target = Target.host()
    fma = "FMA" if target.has_fma else "no FMA"
    return (
        f"{target.cpu} ({target.architecture}): {target.vector_registers} vector registers of "
        f"{target.vector_bytes} bytes, {fma}, L1d {target.l1d_bytes // 1024} KiB, "
        f"L2 {target.l2_bytes // 1024} KiB"
    )


def _llvm() -> str:
    from .codegen.target import llvm

    version = ".".join(map(str, llvm().llvm_version_info))
    return f"{version} (llvmlite {importlib.metadata.version('llvmlite')})"


def _threads() -> str:
    from .runtime.threads import available_cores, get_threads

    return f"{get_threads()} (cores available: {available_cores()})"


def _compiles() -> str:
    from . import grad
    from .jit import jit

    gradient = jit(grad(lambda x: np.sum(x * x)))(np.array([1.0, 2.0, 3.0]))
    if gradient.tolist() != [2.0, 4.0, 6.0]:
        raise RuntimeError(f"the gradient of sum(x * x) came out as {gradient}")
    return "a compiled gradient is right"


def _cache() -> str:
    from .codegen.cache import ObjectCache

    stats = ObjectCache().stats()
    if stats.folder is None:
        return "off (WENGERT_CACHE)"
    return f"{stats.folder}: {stats.files} files, {stats.bytes / 2**20:.1f} MiB"


def _data() -> str:
    from .data import found

    folder = os.environ.get("WENGERT_DATA")
    if folder and not Path(folder).expanduser().is_dir():
        return f"WENGERT_DATA is {folder}, which is not a folder"
    sets = "; ".join(str(one) for one in found())
    return sets or "no data set is here yet (WENGERT_DATA names a folder; or they are fetched)"


def _is_here(name: str) -> bool:
    return importlib.util.find_spec(name) is not None


def _package(name: str) -> str:
    if not _is_here(name):
        return "not installed"
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "installed, of unknown version"


if __name__ == "__main__":
    sys.exit(main())
