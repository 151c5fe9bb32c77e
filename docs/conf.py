"""The settings of the site: ``sphinx-build -W docs site`` builds it, without a network."""

import re
import sys
from pathlib import Path

from docutils import nodes

sys.path.insert(0, str(Path(__file__).parent))  # reference.py
from reference import write_reference

import wengert

project = "wengert"
author = "The wengert maintainers"
copyright = author
version = release = wengert.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["_static", "examples", "gallery", "images"]  # parts of pages
myst_heading_anchors = 3
myst_links_external_new_tab = False
highlight_language = "python"

html_theme = "furo"
html_title = "wengert"
html_copy_source = False
html_static_path = ["_static"]
html_css_files = ["wengert.css"]
html_theme_options = {"navigation_with_keys": True}

autodoc_typehints = "none"
autodoc_member_order = "bysource"


def highlight_sessions(app, doctree):
    """Indented examples are sessions of Python."""
    for block in doctree.findall(nodes.literal_block):
        if block.astext().lstrip().startswith(">>> "):
            block["language"] = "pycon"


def show_pictures(app, page, source):
    """``<!-- picture FILE ...: CAPTION -->`` shows the first of the files that is there, if any."""

    def picture(match):
        there = [name for name in match[1].split() if (Path(app.srcdir) / name).exists()]
        return f"![{match[2]}]({there[0]})" if there else ""

    source[0] = re.sub(r"<!-- picture ([^:]*): (.*?) -->", picture, source[0])


def setup(app):
    """Write the reference before it is read; show pictures that are there; colour examples."""
    app.connect("builder-inited", lambda app: write_reference(Path(app.srcdir) / "api"))
    app.connect("source-read", show_pictures)
    app.connect("doctree-read", highlight_sessions)
