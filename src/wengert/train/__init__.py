"""Training: `fit`, what it returns, and what can watch it.

>>> import wengert as wg
>>> from wengert import data, nn, optim
>>> nn.manual_seed(0)
>>> model = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 2))
>>> points = data.circles(2000)
>>> optimizer = optim.Adam(model.parameters(), lr=0.03)
>>> history = wg.fit(model, nn.cross_entropy, optimizer, points, 10, 50, progress=False)
>>> history.last["accuracy"] > 0.9
True
"""

from .callbacks import Callback, EarlyStopping
from .fitting import fit
from .history import History
from .run import Run
from .source import Source
from .steps import Steps
from .sweep import grid, sweep

__all__ = ["Callback", "EarlyStopping", "History", "Run", "Source", "Steps", "fit", "grid", "sweep"]
