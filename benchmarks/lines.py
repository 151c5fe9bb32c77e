"""Counts the lines of the core, of its compiler half and of the spine; run it as a script."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "wengert"
OUTSIDE = ("nn", "optim", "data", "train", "bench", "experiments", "page", "cli.py")
COMPILER = ("loops", "passes", "schedule", "codegen", "jit", "runtime")


def spine() -> list[Path]:
    """The files of the spine, in the order in which `docs/layout.md` lists them."""
    text = (ROOT / "docs" / "layout.md").read_text(encoding="utf-8")
    listed = text.split("## The spine")[1].split("```")[1]
    return [SOURCE / name for name in listed.split()]


def lines(paths: list[Path]) -> int:
    """The lines of all these files."""
    return sum(len(path.read_text(encoding="utf-8").splitlines()) for path in paths)


def main() -> None:
    """Print the three numbers."""
    files = sorted(SOURCE.rglob("*.py"))
    parts = {path: path.relative_to(SOURCE).parts[0] for path in files}
    core = [path for path in files if parts[path] not in OUTSIDE]
    half = [path for path in core if parts[path].removesuffix(".py") in COMPILER]
    for name, found in (("core", core), ("compiler half", half), ("spine", spine())):
        print(f"{lines(found):>7}  {name}")


if __name__ == "__main__":
    main()
