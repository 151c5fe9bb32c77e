"""The site: its programs run, every public name has an example, and it builds without a warning."""

import importlib
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = [page for page in DOCS.rglob("*.md") if "api" not in page.relative_to(DOCS).parts]
SMALL = DOCS / "small.md"
GALLERY = sorted(path.stem for path in (DOCS / "gallery").glob("*.py") if path.stem != "draw")


@pytest.fixture
def importable(monkeypatch):
    """A function that imports a script of the site."""
    added = []

    def load(folder, name):
        monkeypatch.syspath_prepend(str(folder))
        added.append(name)
        return importlib.import_module(name)

    yield load
    for name in added:
        sys.modules.pop(name, None)


def python_blocks(page):
    """The fenced programs of a page that are no sessions; pytest itself runs the sessions."""
    found = re.findall(r"^```python\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)
    return [block for block in found if ">>>" not in block]


def test_the_small_wengert_works_and_is_small():
    program = "\n\n".join(python_blocks(SMALL))
    library = program.split("assert ")[0]
    assert sum(1 for line in library.splitlines() if line.strip()) <= 200
    exec(compile(program, str(SMALL), "exec"), {"__name__": "small"})


def test_no_program_on_a_page_is_left_out():
    """`coming-from` shows other libraries; tests/peers runs these."""
    others = {DOCS / "coming-from" / f"{name}.md" for name in ("pytorch", "jax", "autograd")}
    assert {page for page in PAGES if python_blocks(page)} == {SMALL, *others}


def test_every_public_name_has_an_example(importable):
    """In its docstring, or in ``docs/examples``."""
    pytest.importorskip("sklearn")
    reference = importable(DOCS, "reference")
    missing = {module: reference.without_example(module) for module in reference.public_modules()}
    assert not any(missing.values()), missing


def test_examples_are_of_names_that_are_there(importable):
    reference = importable(DOCS, "reference")
    for path in (DOCS / "examples").glob("*.md"):
        assert path.stem in reference.public_modules()
        names = reference.public_names(importlib.import_module(path.stem))
        assert set(reference.examples_of(path.stem)) <= set(names), path


def test_modules_without_a_title_have_a_page_too(importable):
    reference = importable(DOCS, "reference")
    reference.TITLES.pop("wengert.sparse")
    title = reference.public_modules()["wengert.sparse"]
    assert reference.page("wengert.sparse", title).startswith("# `wengert.sparse`\n\n" + title)


def test_the_gallery_shows_every_program():
    page = (DOCS / "gallery.md").read_text()
    assert len(GALLERY) >= 12
    for name in GALLERY:
        assert f"gallery/{name}.py" in page and f"images/gallery/{name}.png" in page
        assert (DOCS / "images" / "gallery" / f"{name}.png").stat().st_size < 100_000


@pytest.mark.slow
@pytest.mark.parametrize("name", GALLERY)
def test_a_program_of_the_gallery(name, importable):
    pytest.importorskip("scipy")
    program = importable(DOCS / "gallery", name)
    program.check(program.run())


@pytest.mark.slow
@pytest.mark.skipif(
    not all(find_spec(name) for name in ("sphinx", "myst_parser", "furo")),
    reason="the extra docs is not installed",
)
def test_the_site_builds_without_warnings_and_needs_no_network(tmp_path):
    command = [sys.executable, "-m", "sphinx", "-W", "-q", str(DOCS), str(tmp_path)]
    built = subprocess.run(command, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    pages = list(tmp_path.rglob("*.html"))
    assert len(pages) > 50
    loaded = re.compile(r'<(?:script|img|link)[^>]*(?:src|href)="(?:https?:)?//[^"]*"')
    for page in [*pages, *tmp_path.rglob("*.css")]:
        text = page.read_text()
        assert not loaded.search(text), (page, loaded.search(text))
        assert not re.search(r"url\(['\"]?https?:", text), page
