"""The documents match the project."""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "wengert"
BUILT = ROOT / "docs" / "api"  # pages that a build of the site has made
DOCUMENTS = [
    *ROOT.glob("*.md"),
    *(path for path in (ROOT / "docs").rglob("*.md") if BUILT not in path.parents),
]
FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)


def parts():
    """The folders and top-level modules of the package, as the map names them."""
    folders = [f"{p.name}/" for p in PACKAGE.iterdir() if (p / "__init__.py").exists()]
    modules = [p.name for p in PACKAGE.glob("*.py") if not p.name.startswith("_")]
    return sorted(folders + modules)


@pytest.mark.parametrize("part", parts())
def test_the_map_names_every_part(part):
    assert part in (ROOT / "docs" / "layout.md").read_text()


def test_the_map_names_every_file_under_the_heading_of_its_folder():
    text = (ROOT / "docs" / "layout.md").read_text()
    sections = {part.split("/")[0]: part for part in text.split("\n## ")}
    missing = []
    for path in PACKAGE.rglob("[!_]*.py"):
        where = sections.get(path.relative_to(PACKAGE).parts[0], text)
        if f"`{path.name}`" not in where and f"/{path.name}`" not in where:
            missing.append(path.name)
    assert missing == []


def test_the_map_names_no_file_that_is_not_there():
    text = (ROOT / "docs" / "layout.md").read_text()
    named = set(re.findall(r"`([\w/]+\.py)`", text))
    there = {str(p.relative_to(PACKAGE)) for p in PACKAGE.rglob("*.py")}
    there |= {str(p.relative_to(ROOT)) for p in (ROOT / "tests").rglob("*.py")}
    names = there | {Path(name).name for name in there}
    assert named - names == set()


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_lead_somewhere(document):
    for target in re.findall(r"\]\(([^)#]+)\)", FENCED.sub("", document.read_text())):
        assert target.startswith("https://") or (document.parent / target).exists(), target


def table(text):
    """The rows of the first table in a text, as lists of cells."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def test_there_are_ten_words_to_cut_and_each_has_one_meaning():
    cuts, standard = (ROOT / "docs" / "glossary.md").read_text().split("## Standard words")
    words = [word for word, _, _ in table(cuts)]
    assert len(words) == len(set(words)) == 10
    instead = {word for row in table(standard) for word in row[1].split(", ")}
    assert not instead & set(words), "what is to be avoided is not one of the words"


@pytest.mark.parametrize("name", ["test", "reproduce"])
def test_ci_runs_the_commands_of_the_readme(name):
    readme = (ROOT / "README.md").read_text()
    assert re.search(rf"^<!-- {name} -->\n```sh\npython3 -m venv .*\n```$", readme, re.MULTILINE)
    assert f"readme_command {name}" in (ROOT / ".ci" / "run").read_text()


def test_ci_is_a_valid_script():
    script = ROOT / ".ci" / "run"
    assert script.stat().st_mode & 0o111
    assert "set -euo pipefail" in script.read_text()
    subprocess.run(["bash", "-n", str(script)], check=True)
