"""GradBench's problems in `benchmarks/gradbench`: derivatives against finite differences, and the
protocol. Nothing of GradBench itself is needed."""

import importlib.util
import json
from pathlib import Path

import numpy as np
import pytest

FOLDER = Path(__file__).parents[1] / "benchmarks" / "gradbench"
WIDTH = 1e-6


def load_tool():
    spec = importlib.util.spec_from_file_location("gradbench_tool", FOLDER / "tool.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


tool = load_tool()
rng = np.random.default_rng(7)


def normal(*shape):
    return rng.normal(size=shape).tolist()


def evaluated(name, function, sent):
    """The answer of a problem, as it goes out."""
    return tool.run(tool.load(name), function, sent | {"min_runs": 1, "min_seconds": 0})["output"]


def slopes(name, function, sent, field):
    """The derivative of the answer by one field of what was sent: an axis for its elements last."""
    start = np.array(sent[field], float)
    found = []
    for place in np.ndindex(start.shape):
        ends = []
        for sign in (1, -1):
            moved = start.copy()
            moved[place] += sign * WIDTH
            answer = evaluated(name, function, sent | {field: moved.tolist()})
            ends.append(np.asarray(answer, float))
        found.append((ends[0] - ends[1]) / (2 * WIDTH))
    return np.stack(found, axis=-1)


def assert_close(found, wanted):
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


def test_hello():
    hello = tool.load("hello")
    assert tool.run(hello, "square", 3.0)["output"] == 9.0
    assert tool.run(hello, "double", 9.0)["output"] == 18.0


SCALAR = {
    "lse": ({"x": normal(6)}, "x"),
    "llsq": ({"x": normal(4), "n": 7}, "x"),
    "det": ({"A": normal(9), "ell": 3}, "A"),
}


@pytest.mark.parametrize("name", SCALAR)
def test_gradients(name):
    sent, field = SCALAR[name]
    wanted = slopes(name, "primal", sent, field)
    assert_close(evaluated(name, "gradient", sent), wanted)


def test_values():
    x = np.array(SCALAR["lse"][0]["x"])
    assert_close(evaluated("lse", "primal", SCALAR["lse"][0]), np.log(np.sum(np.exp(x))))
    sent = {"A": normal(16), "ell": 4}
    wanted = np.linalg.det(np.reshape(sent["A"], (4, 4)))
    assert_close(evaluated("det", "primal", sent), wanted)
    sent = SCALAR["llsq"][0]
    t = np.linspace(-1, 1, 7)
    wanted = 0.5 * np.sum((np.sign(t) - np.polyval(sent["x"][::-1], t)) ** 2)
    assert_close(evaluated("llsq", "primal", sent), wanted)


def test_ode():
    sent = {"x": normal(3), "s": 5}
    wanted = slopes("ode", "primal", sent, "x")[-1]
    assert_close(evaluated("ode", "gradient", sent), wanted)
    # y0 = x0 t and y1 = x0 x1 t^2 / 2 at t = 2
    x = sent["x"]
    assert_close(evaluated("ode", "primal", sent)[:2], [2 * x[0], 2 * x[0] * x[1]])


def test_gmm():
    n, k, d = 4, 2, 3
    sent = {"n": n, "k": k, "d": d, "m": 1, "gamma": 0.8, "x": normal(n, d)}
    sent |= {"alpha": normal(k), "mu": normal(k, d), "q": normal(k, d), "l": normal(k, 3)}
    found = evaluated("gmm", "jacobian", sent)
    for name in ("alpha", "mu", "q", "l"):
        assert_close(np.ravel(found[name]), slopes("gmm", "objective", sent, name))


def test_kmeans():
    points = normal(8, 2)
    sent = {"points": points, "centroids": points[-2:]}
    gradient = slopes("kmeans", "cost", sent, "centroids")
    squared = np.sum((np.array(points)[:, None] - np.array(points[-2:])) ** 2, axis=2)
    sizes = np.bincount(np.argmin(squared, axis=1), minlength=2)
    assert_close(evaluated("kmeans", "cost", sent), np.sum(np.min(squared, axis=1)))
    assert_close(evaluated("kmeans", "dir", sent), gradient.reshape(2, 2) / (2 * sizes[:, None]))


def test_lstm():
    layers, bits = 2, 3
    sent = {"main_params": normal(2 * layers, 4 * bits), "extra_params": normal(3, bits)}
    sent |= {"state": normal(2 * layers, bits), "sequence": normal(4, bits)}
    wanted = [slopes("lstm", "objective", sent, name) for name in ("main_params", "extra_params")]
    assert_close(evaluated("lstm", "jacobian", sent), np.concatenate(wanted))


def test_ba():
    sent = {"n": 1, "m": 1, "p": 1, "cam": normal(11), "x": [0.3, -0.2, 4.0], "w": 0.7}
    sent |= {"feat": normal(2)}
    found = evaluated("ba", "jacobian", sent)
    assert found["rows"][:4] == [0, 15, 30, 31]
    assert found["cols"] == [*range(15), *range(15), 14]

    def errors(sent):
        return evaluated("ba", "objective", sent)["reproj_error"]["elements"]

    for field, place in (("cam", 0), ("x", 11)):
        for number, value in enumerate(sent[field]):
            ends = []
            for sign in (1, -1):
                moved = list(sent[field])
                moved[number] = value + sign * WIDTH
                ends.append(np.array(errors(sent | {field: moved})))
            wanted = (ends[0] - ends[1]) / (2 * WIDTH)
            values = [found["vals"][place + number], found["vals"][15 + place + number]]
            assert_close(values, wanted)
    assert_close([found["vals"][14], found["vals"][29]], np.array(errors(sent)) / sent["w"])
    assert_close(found["vals"][30], -2 * sent["w"])


def hand(points, triangles):
    bones, vertices = 22, 5
    model = {"parents": [-1, *range(bones - 1)], "is_mirrored": False}
    near = np.eye(4) + 0.01 * rng.normal(size=(bones, 4, 4))
    model |= {"base_relatives": near.tolist(), "inverse_base_absolutes": near[::-1].tolist()}
    model |= {"base_positions": normal(vertices, 4), "weights": normal(vertices, bones)}
    model |= {"triangles": [[0, 1, 2], [2, 3, 4]]}
    data = {"model": model, "points": normal(points, 3)}
    data |= {"correspondences": rng.integers(0, 2, points).tolist()}
    us = normal(points, 2) if triangles else []
    return {"theta": (0.1 * rng.normal(size=26)).tolist(), "data": data, "us": us}


def test_ht_to_vertices():
    sent = hand(3, triangles=False)
    wanted = slopes("ht", "objective", sent, "theta")
    assert_close(evaluated("ht", "jacobian", sent), wanted)


def test_ht_to_triangles():
    sent = hand(2, triangles=True)
    found = np.array(evaluated("ht", "jacobian", sent))
    assert_close(found[:, 2:], slopes("ht", "objective", sent, "theta"))
    by_place = slopes("ht", "objective", sent, "us")  # four columns: two for each point
    assert_close(found[:3, :2], by_place[:3, :2])
    assert_close(found[3:, :2], by_place[3:, 2:])


def test_ht_is_compiled_once_for_any_number_of_points():
    jacobian = tool.load("ht").simple["jacobian"]
    for points in (5, 6, 7):
        evaluated("ht", "jacobian", hand(points, triangles=False))
    assert sum(map(len, jacobian._programs.values())) == 1


FOUND = {"particle": ({"w": 0.0}, 0.2071918746), "saddle": ({"start": [1.0, 1.0]}, 8.24632e-06)}


@pytest.mark.parametrize(
    "mode", ["fr", *[pytest.param(m, marks=pytest.mark.slow) for m in ("ff", "rf", "rr")]]
)
@pytest.mark.parametrize("name", FOUND)
def test_searches_converge(name, mode):
    sent, wanted = FOUND[name]
    np.testing.assert_allclose(evaluated(name, mode, sent), wanted, rtol=1e-5)


def test_the_protocol():
    messages = [
        {"kind": "start", "eval": "lse"},
        {"kind": "define", "module": "lse"},
        {"kind": "evaluate", "module": "lse", "function": "primal",
         "input": {"x": [0.0, 0.0], "min_runs": 3, "min_seconds": 0}},
        {"kind": "analysis", "of": 2, "valid": True},
        {"kind": "define", "module": "nothing"},
        {"kind": "evaluate", "module": "lse", "function": "primal", "input": {}},
    ]  # fmt: skip
    written = []
    lines = [json.dumps({"id": number} | message) for number, message in enumerate(messages)]
    tool.serve(lines, written.append)
    start, define, evaluate, analysis, missing, wrong = map(json.loads, written)
    assert start == {"id": 0, "tool": "wengert"}
    assert define == {"id": 1, "success": True}
    assert evaluate["success"]
    assert evaluate["output"] == pytest.approx(np.log(2))
    assert [timing["name"] for timing in evaluate["timings"]] == ["evaluate"] * 3
    assert analysis == {"id": 3}
    assert not missing["success"]
    assert "there is no problem 'nothing'" in missing["error"]
    assert not wrong["success"]
    assert "KeyError: 'x'" in wrong["error"]
