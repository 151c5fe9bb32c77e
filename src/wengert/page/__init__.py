"""One page that shows a compiled program: what `explain(...).html(path)` writes.

The rest of this folder turns what the stages of a compilation made into plain data: `sources` the
user's lines, `graphs` the graph after each pass and step, `kernels` the loops with their times and
floors, `arena` memory over time, `code` LLVM and assembly, `teaching` a run with small numbers.
`writing` puts it, with the programs of `assets/` that draw it, into one file.
"""

from .building import Compilation, page_data
from .writing import page_text, write_page

__all__ = ["Compilation", "page_data", "page_text", "write_page"]
