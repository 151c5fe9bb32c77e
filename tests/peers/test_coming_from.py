"""What the pages for people from other libraries show of these runs there."""

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize(
    ("page", "library"), [("pytorch", "torch"), ("jax", "jax"), ("autograd", "autograd")]
)
def test_the_other_side_runs(page, library):
    pytest.importorskip(library)
    text = (DOCS / "coming-from" / f"{page}.md").read_text()
    blocks = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert blocks
    for block in blocks:
        exec(compile(block, f"{page}.md", "exec"), {"__name__": page})
