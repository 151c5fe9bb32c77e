"""Run the programs of the gallery and draw their pictures.

python docs/gallery/draw.py            # all
python docs/gallery/draw.py lens heat  # some
"""

import importlib
import sys
import time
from pathlib import Path

FOLDER = Path(__file__).parent
PICTURES = FOLDER.parent / "images" / "gallery"
PROGRAMS = sorted(path.stem for path in FOLDER.glob("*.py") if path.stem != "draw")


def main(names):
    """Run, check, draw."""
    from matplotlib.figure import Figure

    sys.path.insert(0, str(FOLDER))
    for name in names or PROGRAMS:
        program = importlib.import_module(name)
        started = time.perf_counter()
        found = program.run()
        program.check(found)
        figure = Figure(figsize=(7.5, 3.0), dpi=80, layout="constrained")
        program.draw(figure, found)
        figure.savefig(PICTURES / f"{name}.png")
        print(f"{name}: {time.perf_counter() - started:.1f} s")


if __name__ == "__main__":
    main(sys.argv[1:])
