"""The explain page: its data is true, and it works in a real browser with the keyboard alone.

One browser serves all tests; where there is no Chromium with its driver they are skipped. With
WENGERT_SCREENSHOTS naming a folder, the pictures of the documentation are written there.
"""

import functools
import json
import os
import time
from pathlib import Path

import numpy as np
import pytest

import wengert as wg
from browser import Browser, executables
from digits import Digits, digit_step, figure
from wengert import nn


def curve(x):
    wave = np.sin(x)
    return np.sum(wave * x)


def line(function, offset):
    return function.__code__.co_firstlineno + offset


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """The pages of (x + y) z and of the CNN's step, and the data of the latter."""
    folder = tmp_path_factory.mktemp("pages")
    rng = np.random.default_rng(0)
    images = rng.normal(size=(100, 1, 28, 28)).astype("f4")
    step, labels = digit_step(), rng.integers(0, 10, 100)
    step(images, labels)
    story = step.explain(images, labels)
    data = story.page_data()
    story.page_data = lambda: data  # made once
    story.html(folder / "cnn.html")
    wg.jit(figure).explain(-2.0, 5.0, -4.0).html(folder / "figure.html")
    return folder, data


@pytest.fixture(scope="module")
def small():
    """The data of a function and its gradient."""
    return wg.jit(wg.value_and_grad(curve)).explain(np.linspace(0.0, 1.0, 9)).page_data()


# ---------------------------------------------------------------- data


def test_lines_have_costs_forward_and_backward(pages):
    _, data = pages
    at = {one["number"]: one for one in data["lines"]}
    for offset in (1, 2, 3):  # of the network: each line has its derivative
        found = at[line(Digits.forward, offset)]
        assert found["forward"] > 0 and found["backward"] > 0
    shared = sum(one["forward"] + one["backward"] for one in data["lines"])
    assert 0.8 * data["seconds"] < shared <= 1.0001 * data["seconds"]
    (file,) = data["files"]
    assert [text for number, text in file["text"] if number == line(Digits.forward, 3)] == [
        "        return self.dense(x.reshape(len(x), -1))"
    ]


def test_what_is_derived_carries_the_line_and_the_module_of_the_forward_operation(pages):
    _, data = pages
    found = {
        (data["lines"][g["line"]]["number"], g["derived"], *g["layers"]) for g in data["groups"]
    }
    second = line(Digits.forward, 2)
    assert (second, False, "Digits", "conv2 Conv2d") in found
    assert (second, True, "Digits", "conv2 Conv2d") in found
    assert (line(Digits.forward, 3), True, "Digits", "dense Sequential", "dense.0 Linear") in found


def test_stages_say_what_changed(pages):
    _, data = pages
    stages = {stage["name"]: stage for stage in data["stages"]}
    assert data["stages"][0]["name"] == "traced"
    assert stages["expand"]["added"] > 0
    notes = stages["regions"]["notes"]
    assert notes[-1].startswith("taken: one lane a sample")
    assert any("one lane a channel" in note and note.endswith(" us") for note in notes)
    assert stages["lower"]["loops"].startswith("input  in0")
    for stage in data["stages"]:
        known = set(stage.get("nodes", ()))
        assert known <= data["nodes"].keys()


def test_kernels_have_times_floors_and_code(pages):
    _, data = pages
    for kernel in data["kernels"]:
        children = [
            one for one in data["kernels"] if one["parent"] == data["kernels"].index(kernel)
        ]
        if children and kernel["seconds"]:
            inner = sum(child["seconds"] for child in children)
            assert inner == pytest.approx(kernel["seconds"], rel=1e-6)
    products = [kernel for kernel in data["kernels"] if kernel["kind"] == "product"]
    assert all(kernel["floor"] > 0 and kernel["nodes"] for kernel in products)
    # the arithmetic of the network: three products for each layer, less one
    layers = 2 * 100 * (6 * 26 * 26 * 9 + 16 * 11 * 11 * 54 + 400 * 84 + 84 * 10)
    first = 2 * 100 * 6 * 26 * 26 * 9
    flops = sum(kernel["flops"] for kernel in products)
    assert 3 * layers - first < flops < 1.8 * (3 * layers - first)
    for number in map(data["kernels"].index, products):
        names = data["code"][number]
        linked = [data["functions"][name] for name in names]
        places = [place for one in linked for place in one["places"]]
        assert sum(place >= 0 for place in places) > 0.7 * len(places)


def test_stores_are_linked_to_their_lines_of_llvm(pages):
    _, data = pages
    nests = [k for k in data["kernels"] if k["kind"] == "loops" and k["symbol"]]
    linked = [kernel for kernel in nests if kernel["symbol"] in data["statements"]]
    assert len(linked) == len(nests)
    for kernel in linked:
        lines = data["functions"][kernel["symbol"]]["llvm"]
        text = "\n".join(kernel["text"])
        for number, store in data["statements"][kernel["symbol"]].items():
            assert store in text and lines[number].startswith("  ")
        writes = [n for n, one in enumerate(lines) if one.startswith("  store ")]
        named = [n for n in writes if n in data["statements"][kernel["symbol"]]]
        assert len(named) >= 0.5 * len(writes)


def test_products_are_linked_to_what_adds_them_up_and_to_their_stores(pages):
    """The statement that sums, and those behind a product, which are functions of their own."""
    _, data = pages
    products = [(n, k) for n, k in enumerate(data["kernels"]) if k["kind"] == "product"]
    behind = 0
    for number, kernel in products:
        found = {
            text
            for name in data["code"][number]
            for text in data["statements"].get(name, {}).values()
        }
        assert "+=" in found
        stores = [t.split(" = ")[0].strip() for t in kernel["text"][2:] if " = " in t]
        assert all(any(store.startswith(text) for text in found) for store in stores)
        behind += len(stores)
    assert behind > 0


def test_memory_over_time(pages):
    _, data = pages
    for picture in data["arena"]:
        peak = picture["used"][picture["peak"]]
        assert peak == max(picture["used"]) <= picture["bytes"]
        for one in picture["buffers"]:
            for other in picture["buffers"]:
                if (
                    one is not other
                    and one["start"] <= other["end"]
                    and other["start"] <= one["end"]
                ):
                    apart = one["offset"] + one["bytes"] <= other["offset"]
                    assert apart or other["offset"] + other["bytes"] <= one["offset"]


def test_a_run_has_values_and_adjoints(small):
    run, nodes = small["run"], small["nodes"]
    inputs = [n for n in run["nodes"] if nodes[n]["kind"] == "Variable"]
    x = np.linspace(0.0, 1.0, 9)
    expected = np.array2string(
        np.sin(x) + x * np.cos(x), precision=4, threshold=24, separator=", ", max_line_width=80
    )
    assert run["adjoints"][inputs[0]]["text"] == expected
    assert run["values"][run["outputs"][0]]["text"] == f"{np.sum(np.sin(x) * x):.6g}"
    assert run["adjoints"][run["outputs"][0]]["text"] == "1"


def test_a_gradient_alone_is_run_from_its_value(small):
    """Where nobody returns the value, the run has it all the same."""
    data = wg.jit(wg.grad(curve)).explain(np.linspace(0.0, 1.0, 9)).page_data()
    for part in ("values", "adjoints"):
        texts = [[one["text"] for one in d["run"][part].values()] for d in (data, small)]
        assert texts[0] == texts[1]


def test_whole_numbers_are_run_without_adjoints():
    run = wg.jit(lambda x: x // 3).explain(np.arange(4)).page_data()["run"]
    assert run["exact"] and not run["adjoints"]
    assert run["values"][run["outputs"][0]]["text"] == "[0, 0, 0, 1]"


def cube_root(a):
    x, change = 1.0, 1.0
    while abs(change) > 1e-12:
        change = (x**3 - a) / (3 * x**2)
        x = x - change
    return x


def test_all_time_in_loops_is_that_of_lines():
    """What is derived of a loop's body, and all that transforms add, has a line of the function."""
    data = wg.jit(wg.grad(cube_root)).explain(8.0).page_data()
    first = line(cube_root, 0)
    assert {one["number"] for one in data["lines"]} <= set(range(first, first + 6))
    shared = sum(one["forward"] + one["backward"] for one in data["lines"])
    assert shared == pytest.approx(data["seconds"])
    # inside a loop, nodes are computed from what the loop begins with, and the loop from them
    loops = [one for one in data["nodes"].values() if one["op"] == "while"]
    assert loops and all(one["inside"] for one in loops)


def test_a_program_for_any_length_is_told_like_others():
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))

    @functools.partial(wg.jit, dynamic={"x": 0})
    def loss(x):
        return wg.value_and_grad(lambda m: nn.mse_loss(m(x), x[:, :1]))(model)

    data = loss.explain(np.ones((7, 3), "f4")).page_data()
    assert data["arguments"] == ["x: f32[n,3]"]
    found = {(g["derived"], *g["layers"][-1:]) for g in data["groups"]}
    assert {(False, "0 Linear"), (True, "0 Linear")} <= found
    types = {data["nodes"][node]["type"] for node in data["run"]["nodes"]}
    assert "f32[7,4]" in types  # the run is that of the arguments
    assert any("f32[n,4]" in data["nodes"][node]["type"] for node in data["stages"][0]["nodes"])


def test_loops_are_in_infix_notation(small):
    text = "\n".join(t for kernel in small["kernels"] for t in kernel["text"])
    assert "sin(in0[i]) * in0[i]" in text.replace("in0[i] * sin(in0[i])", "sin(in0[i]) * in0[i]")


def test_programs_of_every_kind_have_a_page(tmp_path):
    """NumPy between native parts, loops, branches, any length, no floats, nothing at all."""
    cases = [
        (lambda x: np.gcd(x, 12), {}, [np.arange(3)]),
        (lambda x: wg.fori_loop(0, 3, lambda i, s: np.sin(s) @ s, x), {}, [np.eye(2)]),
        (lambda x: np.tanh(x) * 2.0, {"dynamic": {"x": 0}}, [np.ones(5)]),
        (lambda x: x, {}, [2.0]),
    ]
    for number, (function, options, arguments) in enumerate(cases):
        path = tmp_path / f"{number}.html"
        assert wg.jit(function, **options).explain(*arguments).html(path) == str(path)
        assert path.stat().st_size > 400_000


# ---------------------------------------------------------------- in the browser


def test_it_is_small_and_needs_nothing_else(pages):
    folder, _ = pages
    page = (folder / "cnn.html").read_text()
    assert len(page) <= 5 << 20
    own = page.partition('id="data">')[0]
    assert "src=" not in own and "href=" not in own and "import(" not in own


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    if executables() is None:
        pytest.skip("needs Chromium and chromedriver")
    with Browser(tmp_path_factory.mktemp("browser")) as one:
        yield one


def picture(browser, name):
    """Write a picture for the documentation, if one is asked for."""
    folder = os.environ.get("WENGERT_SCREENSHOTS")
    if folder:
        from PIL import Image

        time.sleep(0.4)  # drawing goes on for some frames
        browser.screenshot(Path(folder) / name)
        with Image.open(Path(folder) / name) as full:
            few = full.convert("RGB").quantize(128)  # text on paper: a third of the bytes
        few.save(Path(folder) / name, optimize=True)


def chosen(browser):
    return browser.run("return W.chosen")


def test_the_steps_page_opens_within_two_seconds(pages, browser):
    folder, _ = pages
    assert min(browser.open(folder / "cnn.html") for _ in range(3)) <= 2000
    assert browser.errors() == []
    assert browser.run("return performance.getEntriesByType('resource').length") == 0
    picture(browser, "explain-cnn-graph.png")


def test_source_graph_and_code_by_keyboard(pages, browser):
    folder, data = pages
    browser.open(folder / "cnn.html")
    browser.press("s", "Down", "Down")
    number = chosen(browser)["line"]
    assert data["lines"][number]["number"] == line(Digits.forward, 2)
    boxes = browser.run("return W.views.graph.cy.nodes('.chosen').map((n) => n.data('label'))")
    assert any("conv2 Conv2d" in label for label in boxes)
    assert "conv2" not in browser.run("return W.$('selection').textContent")
    assert "kernels" in browser.run("return W.$('selection').textContent")
    browser.press("c")
    assert (
        browser.run("return document.querySelectorAll('#view-code .lines:not(.wrap) div').length")
        > 20
    )
    # a line of assembly shows the line of LLVM that it comes from
    browser.run("document.querySelector('#view-code section:last-child .lines').focus()")
    browser.press("Down", "Down", "Down", "Down")
    lit = "return document.querySelectorAll('#view-code section:nth-child(%d) .lit').length"
    assert browser.run(lit % 2) == 1 and browser.run(lit % 3) >= 1
    # a store in the loops shows what computes it, and back
    browser.run(
        "const rows = [...document.querySelectorAll('#view-code .wrap div')];"
        "rows.find((row) => row.textContent.includes('t47[i] =')).focus()"
    )
    browser.press("Enter")
    assert browser.run(lit % 2) > 5 and browser.run(lit % 3) > 5
    picture(browser, "explain-cnn-code.png")
    browser.run("document.querySelector('#view-code section:nth-child(2) .lit').click()")
    assert browser.run(lit % 1) == 1
    assert browser.errors() == []


def test_stages_and_groups_by_keyboard(pages, browser):
    folder, _ = pages
    browser.open(folder / "cnn.html")
    name = "return document.querySelector('#view-graph .stage b').textContent"
    before = browser.run(name)
    browser.press("[")
    assert browser.run(name) != before
    for _ in range(8):
        browser.press("]")
        if browser.run(name) == "regions":
            break
    assert browser.run(name) == "regions"
    taken = browser.run("return document.querySelector('#view-graph tr.taken').textContent")
    assert "one lane a sample" in taken and "µs" in taken
    browser.press("g", "Down", "Down")
    count = "return W.views.graph.cy.nodes().length"
    closed = browser.run(count)
    browser.press("Enter")
    browser.wait(f"W.views.graph.cy.nodes().length > {closed}")
    zoom = browser.run("return W.views.graph.cy.zoom()")
    browser.press("+")
    assert browser.run("return W.views.graph.cy.zoom()") > zoom


def test_every_view_is_reached_with_tab_arrows_and_enter(pages, browser):
    """No letters: Tab goes from part to part, arrows inside of one, Enter presses."""
    folder, _ = pages
    browser.open(folder / "cnn.html")
    focused = "return document.activeElement.%s"

    def tab_to(condition, most=30):
        for _ in range(most):
            browser.press("Tab")
            if browser.run(f"const at = document.activeElement; return Boolean({condition})"):
                return
        raise AssertionError(f"{condition}: not reached with {most} times Tab")

    tab_to("at.id === 'source'")
    browser.press("Down")
    assert "line" in chosen(browser)
    tab_to("at.closest('#selection .chip')")  # what is chosen can be followed
    browser.press("Enter")
    assert "node" in chosen(browser)
    for name, inside in [
        ("graph", "at.getAttribute('role') === 'application'"),
        ("schedule", "at.closest('#view-schedule [data-kernel]')"),
        ("memory", "at.closest('#view-memory rect.b')"),
        ("time", "at.closest('#view-time rect.b')"),
        ("code", "at.getAttribute('aria-label') === 'loops'"),
        ("run", "at.closest('#view-run button')"),
    ]:
        browser.run("W.$('help-button').focus()")  # the last before the source
        tab_to("at.id.startsWith('tab-')", 90)
        while browser.run(focused % "id") != f"tab-{name}":
            before = browser.run(focused % "id")
            browser.press("Right")
            assert browser.run(focused % "id") != before
        assert not browser.run(f"return W.$('view-{name}').hidden")
        tab_to(inside)
        if name in ("schedule", "memory", "time"):
            browser.press("Enter")
            assert "kernel" in chosen(browser)
        if name == "code":
            browser.press("Down", "Down", "Enter")
            tab_to("at.getAttribute('aria-label') === 'LLVM'", 2)
            tab_to("at.getAttribute('aria-label') === 'assembly'", 2)
    assert browser.errors() == []


def test_search(pages, browser):
    folder, data = pages
    browser.open(folder / "cnn.html")
    browser.press("/")
    browser.press(*"contract")
    matches = browser.run("return W.matches")
    assert matches and all(data["nodes"][node]["op"] == "contract" for node in matches)
    browser.press("Enter")
    assert chosen(browser)["node"] == matches[0]
    browser.press("Escape")
    assert chosen(browser) == {}


def test_other_views(pages, browser):
    folder, _ = pages
    browser.open(folder / "cnn.html")
    browser.press("2")
    assert (
        browser.run("return document.querySelectorAll('#view-schedule [data-kernel]').length") > 30
    )
    browser.press("3")
    assert browser.run("return document.querySelectorAll('#view-memory rect.b').length") > 20
    assert "peak" in browser.run("return W.$('view-memory').textContent")
    picture(browser, "explain-cnn-memory.png")
    browser.press("4")
    assert browser.run("return document.querySelectorAll('#view-time svg rect.b').length") > 20
    picture(browser, "explain-cnn-time.png")
    browser.press("?")
    assert browser.run("return W.$('help').open")
    browser.press("Escape")
    assert not browser.run("return W.$('help').open")
    assert browser.errors() == []


def test_a_run_is_stepped_through(pages, browser):
    folder, _ = pages
    browser.open(folder / "figure.html")
    rows = "return [...document.querySelectorAll('#view-run tbody tr')].map((r) => r.innerText)"
    ends = [row.split("\t") for row in browser.run(rows)]
    picture(browser, "explain-figure.png")
    assert ends == [
        ["x", "f64", "-2", "-4"],
        ["y", "f64", "5", "-4"],
        ["z", "f64", "-4", "3"],
        ["v1", "x + y", "3", "-4"],
        ["v2", "v1 × z", "-12", "1"],
    ]
    browser.run("W.views.run.go(0)")
    said = "return document.querySelector('.say').textContent"
    browser.press(".")
    assert browser.run(said) == "v1 = x + y = 3"
    browser.press(".")
    assert browser.run(said) == "v2 = v1 × z = -12"
    browser.press(".")
    assert browser.run(said).startswith("adjoint of v2: 1")
    browser.press(".")
    assert browser.run(said).startswith("adjoint of v1: -4\nfrom v2")
    browser.press(",", ",")
    assert browser.run(said) == "v2 = v1 × z = -12"
    assert browser.errors() == []


def test_data_is_json(pages):
    _, data = pages
    assert json.loads(json.dumps(data, default=lambda value: value.item()))["name"] == "step"
