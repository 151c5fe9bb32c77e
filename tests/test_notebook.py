"""Displays and progress in a real notebook; skipped where there is nothing to run one with."""

import pytest

nbformat = pytest.importorskip("nbformat")
nbclient = pytest.importorskip("nbclient")
pytest.importorskip("ipykernel")

CELLS = [
    "import numpy as np, wengert as wg\n"
    "from wengert import nn, optim\n"
    "wg.trace(lambda x, y, z: (x + y) * z, -2.0, 5.0, -4.0)",
    "model = nn.Sequential(nn.Linear(3, 1))\nmodel",
    "wg.tensor(np.ones((2, 3)), requires_grad=True)",
    "x = np.ones((40, 3), 'f4')\n"
    "rule = optim.SGD(model.parameters(), lr=0.01)\n"
    "history = wg.fit(model, nn.mse_loss, rule, (x, x[:, :1]), epochs=3, batch_size=20)",
    "history",
]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of Jupyter's own
def test_an_executed_notebook_shows_graphs_modules_tensors_and_progress():
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(text) for text in CELLS])
    nbclient.NotebookClient(book, timeout=240, kernel_name="python3").execute()
    shown = [
        [out.data["text/html"] for out in cell.outputs if "data" in out] for cell in book.cells
    ]
    assert [len(one) for one in shown] == [1] * len(CELLS)
    graph, module, tensor, training, history = [one[0] for one in shown]
    assert "<svg" in graph and "Sequential: 4 parameters" in module
    assert "tensor f64[2,3], requires grad" in tensor
    # the bar is gone, and each epoch has left its line
    assert "<progress" not in training and training.count("epoch ") == 3
    assert "<svg" in history and "<table" in history
