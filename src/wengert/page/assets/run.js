"use strict";
// A run with numbers, stepped through: values forward, adjoints backward.
{
const el = W.el;
const SIGNS = { add: "+", subtract: "−", multiply: "×", divide: "/", power: "^" };
let cy, said, slider, rows, names, order, at = 0, back;

function nameAll(run) {
  names = new Map();
  let number = 0;
  for (const id of run.nodes) {
    const node = W.data.nodes[id];
    names.set(id, node.kind.endsWith("Operator") ? `v${++number}` : node.kind === "Constant" && node.op !== "constant" ? node.op : node.op === "constant" ? "c" : node.op);
  }
}
const valueOf = (id) => W.data.run.values[id], adjointOf = (id) => W.data.run.adjoints[id];
const brief = (value) => (value === undefined ? "" : value.text.includes("\n") || value.text.length > 26 ? value.text.split("\n")[0].slice(0, 24) + "…" : value.text);
function formula(id) {
  const node = W.data.nodes[id], inputs = node.inputs.map((input) => names.get(input) || "?"), sign = SIGNS[node.op];
  if (sign && inputs.length === 2) return `${inputs[0]} ${sign} ${inputs[1]}`;
  if (node.op === "negative") return `−${inputs[0]}`;
  return `${node.op}(${inputs.join(", ")})`;
}

function labels() {
  const run = W.data.run, forward = order.length;
  const done = new Set(order.slice(0, at)), pulled = new Set(back.slice(0, Math.max(0, at - forward)));
  const now = at === 0 ? null : at <= forward ? order[at - 1] : back[at - forward - 1];
  cy.batch(() => {
    for (const id of run.nodes) {
      const node = W.data.nodes[id], operator = node.kind.endsWith("Operator"), known = !operator || done.has(id), own = cy.getElementById(`n${id}`);
      if (!own.length) continue;
      const first = operator ? `${names.get(id)} = ${formula(id)}` : names.get(id);
      own.data("label", [first.length > 34 ? first.slice(0, 33) + "…" : first, known && names.get(id) !== (valueOf(id) || {}).text ? brief(valueOf(id)) : "", pulled.has(id) ? `adjoint ${brief(adjointOf(id))}` : ""].filter((line, n) => n === 0 || line || run.nodes.length < 40).join("\n"));
      own.toggleClass("chosen", id === now);
      own.toggleClass("dim", operator && !known);
      own.data("fill", pulled.has(id) ? "#fdeee3" : operator ? "#e8f0fc" : "#eefaf0");
      own.data("edge", pulled.has(id) ? "#c2571a" : operator ? "#2867c4" : "#5f9e72");
    }
    cy.edges().forEach((edge) => edge.toggleClass("chosen", now !== null && (at <= forward ? edge.data("to") === now : edge.data("to") === now)));
  });
  for (const [id, row] of rows) {
    const node = W.data.nodes[id], operator = node.kind.endsWith("Operator");
    row.classList.toggle("now", id === now);
    row.classList.toggle("wait", operator && !done.has(id));
    row.children[2].textContent = !operator || done.has(id) ? brief(valueOf(id)) : "";
    row.children[3].textContent = pulled.has(id) ? brief(adjointOf(id)) : "";
  }
  if (now !== null) {
    const row = rows.get(now);
    if (row) row.scrollIntoView({ block: "nearest" });
    const box = cy.getElementById(`n${now}`).renderedBoundingBox();
    if (box.x1 < 0 || box.y1 < 0 || box.x2 > cy.width() || box.y2 > cy.height()) cy.center(cy.getElementById(`n${now}`));
  }
  said.textContent = say(now, forward);
  slider.value = at;
}

function say(now, forward) {
  if (now === null) return "The inputs have their values. Step forward: each operation takes the values of its inputs.";
  const node = W.data.nodes[now], value = (valueOf(now) || {}).text || "", about = (valueOf(now) || {}).about;
  if (at <= forward) return `${names.get(now)} = ${formula(now)} = ${value}${about ? `\n${about}` : ""}`;
  const adjoint = (adjointOf(now) || {}).text || "", output = W.data.run.outputs.includes(now);
  const users = W.data.run.nodes.filter((id) => W.data.nodes[id].inputs.includes(now) && adjointOf(id)).map((id) => names.get(id));
  if (output) return `adjoint of ${names.get(now)}: ${adjoint}\n${W.data.run.scalar ? "The output by itself: 1." : "Of the sum of the output: ones."}`;
  return `adjoint of ${names.get(now)}: ${adjoint}\nfrom ${users.join(" and ")}, which ${users.length > 1 ? "read" : "reads"} it${users.length > 1 ? "; what they send back is added" : ""}`;
}

function table(run) {
  rows = new Map();
  const body = el("tbody");
  for (const id of run.nodes) {
    const node = W.data.nodes[id];
    if (node.kind === "Constant") continue;
    const operator = node.kind.endsWith("Operator");
    const row = el("tr", { title: node.type }, el("td", {}, el("code", {}, names.get(id))), el("td", {}, el("code", {}, operator ? formula(id).slice(0, 40) : node.type)), el("td", { class: "v" }), el("td", { class: "v" }));
    rows.set(id, row); body.append(row);
  }
  return el("table", {}, el("thead", {}, el("tr", {}, ...["node", "operation", "value", "adjoint"].map((name) => el("th", { scope: "col" }, name)))), body);
}

function go(number) { at = Math.min(order.length + back.length, Math.max(0, number)); labels(); }

W.views.run = {
  step(by) { if (W.data.run) go(at + by); },
  go,
  make(panel) {
    const run = W.data.run;
    if (!run) return panel.append(el("p", { class: "empty" }, "There is no run to step through: nothing is computed, or there is too much of it. A run is for small arguments: call explain with smaller ones."));
    panel.classList.add("flow");
    nameAll(run);
    order = run.steps.filter((id) => run.nodes.includes(id));
    const operators = [...order].reverse().filter((id) => adjointOf(id)), leaves = run.nodes.filter((id) => W.data.nodes[id].kind === "Variable" && adjointOf(id));
    back = [...operators, ...leaves];
    const total = order.length + back.length;
    slider = el("input", { type: "range", min: 0, max: total, value: 0, step: 1, "aria-label": "step of the run", oninput: () => go(Number(slider.value)) });
    const button = (label, title, action) => el("button", { type: "button", title, onclick: action }, label);
    panel.append(el("div", { class: "bar" }, button("« inputs", "before the first step", () => go(0)), button("‹", "one step back  ,", () => go(at - 1)), el("span", { class: "grow" }, slider),
      button("›", "one step on  .", () => go(at + 1)), button("forward ›", "all values", () => go(order.length)), run.exact ? null : button("backward »", "all adjoints", () => go(total))));
    const canvas = el("div", {}), holder = el("div", { class: "canvas" }, canvas);
    said = el("div", { class: "say", "aria-live": "polite", style: "white-space:pre-wrap" });
    panel.append(el("div", { class: "run" }, holder, el("div", { class: "values" }, said, table(run))));
    cy = W.views.run.cy = W.newGraph(canvas);
    const boxes = run.nodes.map((id) => {
      const operator = W.data.nodes[id].kind.endsWith("Operator"), first = operator ? `${names.get(id)} = ${formula(id)}` : names.get(id);
      const widest = `${first.slice(0, 34)}\n${brief(valueOf(id))}\nadjoint ${brief(adjointOf(id))}`;
      return { id, ...W.boxSize(widest) };
    });
    const inside = new Set(run.nodes), edges = run.nodes.flatMap((id) => W.data.nodes[id].inputs.filter((input) => inside.has(input)).map((input) => [input, id]));
    const numbers = boxes.every((box) => box.w < 170); // small ones read best from left to right
    const layout = W.dagre(boxes, edges, run.nodes.length < 16 && numbers ? "LR" : "TB");
    cy.add(boxes.map((box) => ({ data: { id: `n${box.id}`, label: "", w: box.w, h: box.h, fill: "#fff", edge: "#ccc" }, position: layout.places.get(box.id) })));
    cy.add(edges.map(([from, to], number) => ({ data: { id: `e${number}`, source: `n${from}`, target: `n${to}`, from, to } })));
    cy.fit(undefined, 40);
    if (cy.zoom() > 1.5) { cy.zoom(1.5); cy.center(); }
    if (cy.zoom() < 0.45) { cy.zoom(0.85); cy.center(cy.getElementById(`n${run.nodes[0]}`)); }
    go(run.nodes.length < 40 ? total : 0);
  },
};
}
