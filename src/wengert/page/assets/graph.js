"use strict";
// Graphs, laid out by dagre and drawn by Cytoscape: forward, backward and update side by side.
{
const COLOURS = {
  forward: ["#e8f0fc", "#2867c4"], backward: ["#fdeee3", "#c2571a"], update: ["#e4f4ea", "#2f7d4f"],
  Variable: ["#eefaf0", "#5f9e72"], Constant: ["#f2f4f7", "#a3acb9"],
};
const PHASES = ["forward", "backward", "update"];
const MANY = 44; // nodes: of more, lines are closed at first
const GAP = 110;

W.graphStyle = [
  { selector: "node", style: { shape: "round-rectangle", width: "data(w)", height: "data(h)", label: "data(label)", "text-valign": "center", "text-halign": "center", "text-wrap": "wrap", "font-size": 12, "font-family": "system-ui, sans-serif", color: "#1d2430", "line-height": 1.25, "background-color": "data(fill)", "border-width": 1, "border-color": "data(edge)" } },
  { selector: "node.closed", style: { "font-weight": 600, "border-width": 1.5 } },
  { selector: "node:parent", style: { shape: "round-rectangle", "background-color": "#ffffff", "background-opacity": 0.75, "border-color": "#cfd6e1", label: "data(label)", "text-valign": "top", "text-halign": "center", "text-margin-y": -3, "font-size": 11, color: "#5c6675", padding: 12 } },
  { selector: "node.new", style: { "border-width": 2.5 } },
  { selector: "node.match", style: { "background-color": "#ffe9a3", "border-color": "#b58900", "border-width": 2 } },
  { selector: "node.chosen", style: { "border-color": "#6d3fc4", "border-width": 3.5 } },
  { selector: "node.dim", style: { opacity: 0.32 } },
  { selector: "edge", style: { width: 1.2, "line-color": "#c3cbd7", "target-arrow-color": "#c3cbd7", "target-arrow-shape": "triangle", "arrow-scale": 0.8, "curve-style": "bezier" } },
  { selector: "edge.across", style: { "line-style": "dashed", "line-dash-pattern": [4, 4], "line-color": "#dfe4ec", "target-arrow-color": "#dfe4ec", width: 1 } },
  { selector: "edge.chosen", style: { "line-color": "#6d3fc4", "target-arrow-color": "#6d3fc4", width: 2, "z-index": 9 } },
];

W.dagre = (boxes, edges, direction) => {
  const graph = new dagre.graphlib.Graph().setGraph({ rankdir: direction, nodesep: 22, ranksep: 34, marginx: 0, marginy: 0 }).setDefaultEdgeLabel(() => ({}));
  for (const box of boxes) graph.setNode(String(box.id), { width: box.w, height: box.h });
  for (const [from, to] of edges) if (from !== to) graph.setEdge(String(from), String(to));
  dagre.layout(graph);
  const places = new Map(boxes.map((box) => { const at = graph.node(String(box.id)); return [box.id, { x: at.x, y: at.y }]; }));
  mirror(boxes, edges, places, direction, graph.graph());
  return { places, width: graph.graph().width || 0, height: graph.graph().height || 0 };
};

// What comes first is to stand on the left, or above: of two layouts that mirror each other, that one.
function mirror(boxes, edges, places, direction, size) {
  const read = new Set(edges.map(([, to]) => to)), first = boxes.filter((box) => !read.has(box.id)), axis = direction === "LR" ? "y" : "x";
  if (first.length < 2 || places.get(first[0].id)[axis] <= places.get(first[first.length - 1].id)[axis]) return;
  const whole = axis === "y" ? size.height : size.width;
  for (const at of places.values()) at[axis] = whole - at[axis];
}

// What a node is computed from, the programs that it runs included.
const sourcesOf = (id) => { const { inputs, inside } = W.data.nodes[id]; return [...new Set([...inputs, ...inside])]; };
const linesOf = (text) => text.split("\n");
W.boxSize = (label) => ({ w: Math.max(62, 18 + 7.2 * Math.max(...linesOf(label).map((line) => line.length))), h: 14 + 16 * linesOf(label).length });

const open = new Set();
let byHand = false; // whether somebody has opened or closed something
let cy, canvas, slider, only, text, constants, stageNumber = 0, opened = false, shown = null;

// What the value is computed from is forward, also where the derivative uses it; what is derived is
// backward, and what is made of derivatives is the update.
function phases(stage) {
  const found = new Map(), value = new Set(), pending = stage.value === null ? [] : [stage.value];
  while (pending.length) {
    const id = pending.pop();
    if (value.has(id) || !W.data.nodes[id]) continue;
    value.add(id); pending.push(...sourcesOf(id));
  }
  for (const id of stage.nodes) {
    if (value.has(id)) { found.set(id, 0); continue; }
    const node = W.data.nodes[id];
    const before = Math.max(0, ...node.inputs.map((input) => found.get(input) || 0));
    found.set(id, W.isDerived(node) ? 1 : node.kind === "Constant" || node.kind === "Variable" ? 0 : before >= 1 ? 2 : 0);
  }
  return found;
}

function visible(stage) {
  const keep = constants.checked, many = stage.nodes.length > MANY;
  return stage.nodes.filter((id) => {
    const node = W.data.nodes[id];
    return keep || (node.kind !== "Constant" && !(many && node.kind === "Variable" && node.state));
  });
}

function nodeBox(id, phase) {
  const node = W.data.nodes[id], operator = node.kind.endsWith("Operator");
  const label = node.op === node.type ? node.op : `${node.op}\n${node.type.length > 30 ? node.type.slice(0, 29) + "…" : node.type}`;
  const [fill, edge] = COLOURS[operator ? PHASES[phase] : node.kind];
  return { id, label, fill, edge, ...W.boxSize(label) };
}

// Units are what is placed as one: a group of nodes, open or closed, or a single node.
function unitsOf(ids, phase) {
  const units = new Map();
  for (const id of ids) {
    const node = W.data.nodes[id];
    const operator = node.kind.endsWith("Operator");
    const key = operator && node.group >= 0 ? `g${phase.get(id)}.${node.group}` + (node.parent === null ? "" : `.${node.parent}`) : `n${id}`;
    if (!units.has(key)) units.set(key, { id: key, nodes: [], phase: phase.get(id), group: operator ? node.group : -1, parent: node.parent });
    units.get(key).nodes.push(id);
  }
  return units;
}

function groupLabel(unit) {
  const group = W.data.groups[unit.group], line = W.data.lines[group.line];
  const layer = group.layers.length ? group.layers[group.layers.length - 1] : "";
  const box = unit.parent === null ? "" : W.data.boxes[unit.parent] || "";
  return `${W.where(line)}${layer ? " · " + layer : ""}${unit.phase === 1 ? " · derivative" : ""}${box && !box.startsWith("region") ? " · " + box : ""}`;
}

function closedLabel(unit) {
  const counts = new Map();
  for (const id of unit.nodes) counts.set(W.data.nodes[id].op, (counts.get(W.data.nodes[id].op) || 0) + 1);
  const names = [...counts].sort((one, other) => other[1] - one[1]).map(([name, n]) => (n > 1 ? `${name} ×${n}` : name));
  return groupLabel(unit) + "\n" + names.slice(0, 3).join(", ") + (names.length > 3 ? " …" : "");
}

function elements(stage, before) {
  const ids = visible(stage), inside = new Set(ids), phase = phases(stage), units = unitsOf(ids, phase);
  const old = new Set(before ? before.nodes : stage.nodes), place = new Map(), found = [], homes = new Map();
  for (const unit of units.values()) {
    const grouped = unit.group >= 0;
    unit.closed = grouped && unit.nodes.length > 1 && !open.has(unit.id.replace(/\.\d+$/, "")) && !open.has(unit.id);
    if (unit.closed) Object.assign(unit, W.boxSize((unit.label = closedLabel(unit))));
    else {
      unit.boxes = unit.nodes.map((id) => nodeBox(id, unit.phase));
      const own = new Set(unit.nodes);
      const edges = unit.nodes.flatMap((id) => sourcesOf(id).filter((input) => own.has(input)).map((input) => [input, id]));
      unit.layout = W.dagre(unit.boxes, edges, unit.phase === 1 ? "BT" : "TB");
      unit.framed = grouped && unit.nodes.length > 1;
      unit.w = unit.layout.width + (unit.framed ? 40 : 0); unit.h = unit.layout.height + (unit.framed ? 46 : 0);
    }
    for (const id of unit.nodes) homes.set(id, unit);
  }
  const edges = [];
  for (const id of ids) for (const input of sourcesOf(id)) if (inside.has(input)) edges.push([input, id]);
  let left = 0;
  const columns = [];
  for (const phaseNumber of [0, 1, 2]) {
    const own = [...units.values()].filter((unit) => unit.phase === phaseNumber);
    if (!own.length) continue;
    const between = new Map();
    for (const [from, to] of edges) {
      const one = homes.get(from), other = homes.get(to);
      if (one !== other && one.phase === phaseNumber && other.phase === phaseNumber) between.set(one.id + ">" + other.id, [one.id, other.id]);
    }
    const layout = W.dagre(own, [...between.values()], phaseNumber === 1 ? "BT" : "TB");
    for (const unit of own) { const at = layout.places.get(unit.id); place.set(unit, { x: left + at.x, y: at.y }); }
    columns.push({ phase: phaseNumber, left, width: layout.width, height: layout.height });
    left += layout.width + GAP;
  }
  const tallest = Math.max(...columns.map((column) => column.height), 0);
  const lowered = new Map(columns.map((column) => [column.phase, column.phase === 1 ? tallest - column.height : 0]));
  for (const [unit, at] of place) {
    at.y += lowered.get(unit.phase);
    const [fill, edge] = COLOURS[PHASES[unit.phase]];
    if (unit.closed) {
      const fresh = unit.nodes.some((id) => !old.has(id));
      found.push({ data: { id: unit.id, label: unit.label, w: unit.w, h: unit.h, fill, edge, nodes: unit.nodes }, position: at, classes: "closed" + (fresh ? " new" : "") });
      continue;
    }
    if (unit.framed) found.push({ data: { id: unit.id, label: groupLabel(unit), w: 10, h: 10, fill: "#fff", edge, nodes: unit.nodes } });
    for (const box of unit.boxes) {
      const inner = unit.layout.places.get(box.id);
      found.push({ data: { ...box, id: `n${box.id}`, node: box.id, nodes: [box.id], parent: unit.framed ? unit.id : undefined },
        position: { x: at.x - unit.layout.width / 2 + inner.x, y: at.y - unit.layout.height / 2 + inner.y + (unit.framed ? 5 : 0) }, classes: old.has(box.id) ? "" : "new" });
    }
  }
  const end = (id) => (homes.get(id).closed ? homes.get(id).id : `n${id}`);
  const seen = new Set();
  for (const [from, to] of edges) {
    const source = end(from), target = end(to), key = source + ">" + target;
    if (source === target || seen.has(key)) continue;
    seen.add(key);
    found.push({ data: { id: "e" + key, source, target }, classes: homes.get(from).phase === homes.get(to).phase ? "" : "across" });
  }
  return { found, columns };
}

function draw(fit = true) {
  const stage = W.data.stages[stageNumber], number = [...W.data.stages.keys()].filter((n) => n < stageNumber && W.data.stages[n].nodes !== stage.nodes).pop();
  const made = elements(stage, number === undefined ? null : W.data.stages[number]);
  cy.startBatch(); cy.elements().remove(); cy.add(made.found); cy.endBatch();
  shown = made;
  if (fit) fitAll();
  mark();
  W.views.graph.ready = true;
}

function fitAll() {
  cy.fit(undefined, 34);
  if (cy.zoom() > 1.25) { cy.zoom(1.25); cy.center(); }
  if (cy.zoom() < 0.42) { // too much to read at once: begin at the top
    cy.zoom(0.42); const box = cy.elements().boundingBox();
    cy.pan({ x: Math.max(20, (cy.width() - box.w * 0.42) / 2) - box.x1 * 0.42, y: 40 - box.y1 * 0.42 });
  }
}

function mark() {
  const matches = new Set(W.matches);
  const chosen = W.chosen.node !== undefined || W.chosen.line !== undefined || W.chosen.kernel !== undefined;
  cy.batch(() => cy.nodes().forEach((one) => {
    const ids = one.data("nodes") || [];
    one.toggleClass("match", ids.some((id) => matches.has(id)) && !one.isParent());
    one.toggleClass("chosen", chosen && !one.isParent() && ids.some(W.isChosenNode));
  }));
  cy.edges().removeClass("chosen");
  cy.nodes(".chosen").connectedEdges().addClass("chosen");
}

function describe() {
  const stage = W.data.stages[stageNumber], kinds = { trace: "", pass: "pass", step: "step of the schedule" };
  text.replaceChildren();
  const said = W.el("div", {}, W.el("b", {}, stage.name), ` ${kinds[stage.kind] ? "— " + kinds[stage.kind] : ""}: ${stage.text}`);
  if (stage.added) said.append("; ", W.el("span", { class: "plus" }, `${stage.added} nodes new`));
  if (stage.gone) said.append(", ", W.el("span", { class: "minus" }, `${stage.gone} gone`));
  text.append(said);
  if (stage.notes.length) text.append(W.noted(stage.notes));
}

function go(number) {
  stageNumber = Math.min(W.data.stages.length - 1, Math.max(0, number));
  slider.value = stageNumber;
  slider.setAttribute("aria-valuetext", W.data.stages[stageNumber].name);
  W.$("stage-name").textContent = `${stageNumber + 1} of ${W.data.stages.length}`;
  describe();
  if (!byHand) openAll(visible(W.data.stages[stageNumber]).length <= MANY, false);
  draw();
}

function toggle(one) {
  byHand = true;
  if (one.isParent() || one.hasClass("closed")) {
    if (open.has(one.id())) open.delete(one.id()); else open.add(one.id());
    const before = one.id();
    draw(false);
    const again = cy.getElementById(before);
    if (again.length) cy.animate({ center: { eles: again } }, { duration: 150 });
  }
}

function walk(event) {
  const keys = { ArrowUp: "up", ArrowDown: "down", ArrowLeft: "left", ArrowRight: "right" };
  const zooms = { "+": 1.25, "=": 1.25, "-": 0.8 };
  if (event.key === "0") { fitAll(); event.preventDefault(); event.stopPropagation(); return; }
  if (zooms[event.key]) { cy.zoom({ level: cy.zoom() * zooms[event.key], renderedPosition: { x: cy.width() / 2, y: cy.height() / 2 } }); return; }
  const now = cy.nodes(".chosen").first();
  if (event.key === "Enter" && now.length) { toggle(now.hasClass("closed") || now.isOrphan() ? now : now.parent()); return; }
  if (!keys[event.key]) return;
  event.preventDefault();
  const leaves = cy.nodes().filter((one) => !one.isParent());
  if (!now.length) return pick(leaves.sort((a, b) => a.position("y") - b.position("y"))[0]);
  const at = now.position(), [dx, dy] = { up: [0, -1], down: [0, 1], left: [-1, 0], right: [1, 0] }[keys[event.key]];
  let best = null, least = Infinity;
  const near = now.neighborhood("node");
  leaves.forEach((one) => {
    if (one.id() === now.id()) return;
    const x = one.position("x") - at.x, y = one.position("y") - at.y, along = x * dx + y * dy, aside = Math.abs(x * dy) + Math.abs(y * dx);
    if (along <= 4) return;
    const score = (along + 2.5 * aside) * (near.contains(one) ? 0.4 : 1);
    if (score < least) { least = score; best = one; }
  });
  if (best) pick(best);
}

function pick(one) {
  const ids = one.data("nodes"), node = W.data.nodes[ids[0]];
  if (one.hasClass("closed")) W.choose({ line: W.lineOf(W.data, node).id }); else W.choose({ node: ids[0] });
  if (one.hasClass("closed")) { cy.nodes(".chosen").removeClass("chosen"); one.addClass("chosen"); }
  canvas.setAttribute("aria-label", "graph; chosen: " + one.data("label").replace("\n", ", "));
  const box = one.renderedBoundingBox();
  if (box.x1 < 0 || box.y1 < 0 || box.x2 > cy.width() || box.y2 > cy.height()) cy.animate({ center: { eles: one } }, { duration: 120 });
}

W.newGraph = (container) => {
  const made = cytoscape({ container, style: W.graphStyle, layout: { name: "preset" }, minZoom: 0.05, maxZoom: 3, wheelSensitivity: 0.3, autoungrabify: true, boxSelectionEnabled: false, autounselectify: true, hideEdgesOnViewport: false, pixelRatio: "auto" });
  new ResizeObserver(() => made.resize()).observe(container);
  return made;
};

W.views.graph = {
  nodes: () => W.data.stages[stageNumber].nodes,
  ready: false,
  make(panel) {
    panel.classList.add("flow");
    slider = W.el("input", { type: "range", min: 0, max: W.data.stages.length - 1, step: 1, "aria-label": "pass or step", oninput: () => move(Number(slider.value)) });
    only = W.el("input", { type: "checkbox", checked: true });
    constants = W.el("input", { type: "checkbox", onchange: () => draw() });
    const button = (label, title, action) => W.el("button", { type: "button", title, onclick: action }, label);
    panel.append(W.el("div", { class: "bar" },
      button("‹", "one stage back  [", () => W.views.graph.step(-1)), W.el("span", { class: "grow" }, slider), button("›", "one stage on  ]", () => W.views.graph.step(1)),
      W.el("span", { id: "stage-name", class: "mono" }), W.el("label", {}, only, "changes only"), W.el("label", {}, constants, "constants"),
      button("open all", "show every node", () => { byHand = true; openAll(true); }), button("lines", "one box for each line", () => { byHand = true; openAll(false); }), button("fit", "show all  0", fitAll)));
    text = W.el("div", { class: "stage", "aria-live": "polite" });
    canvas = W.el("div", { tabindex: 0, role: "application", "aria-label": "graph" });
    const legend = W.el("div", { class: "legend" });
    for (const [name, key] of [["forward", "forward"], ["backward", "backward"], ["update", "update"], ["input", "Variable"]]) legend.append(W.el("span", {}, W.el("i", { style: `background:${COLOURS[key][0]};border-color:${COLOURS[key][1]}` }), name));
    panel.append(text, W.el("div", { class: "canvas" }, canvas, legend));
    cy = W.views.graph.cy = W.newGraph(canvas);
    cy.on("tap", "node", (event) => { canvas.focus(); if (!event.target.isParent()) pick(event.target); });
    cy.on("dbltap", "node", (event) => toggle(event.target));
    cy.on("tap", (event) => { if (event.target === cy) W.choose({}); });
    canvas.addEventListener("keydown", walk);
    const last = [...W.data.stages.keys()].filter((n) => W.data.stages[n].kind !== "step" && W.data.stages[n].changed).pop();
    go(last === undefined ? 0 : last);
  },
  chosen() { if (cy) { mark(); center(); } },
  matched() { if (cy) mark(); },
  focus() { canvas.focus(); },
  step(by) {
    let next = stageNumber + by;
    while (only.checked && W.data.stages[next] && !W.data.stages[next].changed && !W.data.stages[next].notes.length && next > 0) next += by;
    if (W.data.stages[next]) go(next);
  },
  go,
};
function move(number) { go(number); }
function center() {
  const found = cy.nodes(".chosen");
  if (!found.length) return;
  const box = found.renderedBoundingBox();
  if (box.x2 < 0 || box.y2 < 0 || box.x1 > cy.width() || box.y1 > cy.height()) cy.animate({ center: { eles: found } }, { duration: 150 });
}
function openAll(is, redraw = true) {
  open.clear();
  if (is) for (const phase of [0, 1, 2]) for (let group = 0; group < W.data.groups.length; group++) open.add(`g${phase}.${group}`);
  if (redraw) draw();
}
}
