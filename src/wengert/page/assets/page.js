"use strict";
// The page: data, what is chosen, the source with its costs, and the keys. The views are beside it.
const W = { views: {}, chosen: {}, tab: null };

W.el = (tag, attributes = {}, ...children) => {
  const made = document.createElement(tag);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (value === true) made.setAttribute(key, "");
    else if (value !== null && value !== undefined && value !== false) made.setAttribute(key, value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
};
W.$ = (id) => document.getElementById(id);

W.time = (seconds) => {
  if (seconds === null || seconds === undefined) return "–";
  const us = 1e6 * seconds;
  if (us === 0) return "0";
  if (us < 0.095) return (1000 * us).toFixed(1) + " ns";
  if (us < 1000) return us.toFixed(us < 10 ? 2 : us < 100 ? 1 : 0) + " µs";
  return us < 1e6 ? (us / 1000).toFixed(2) + " ms" : (us / 1e6).toFixed(2) + " s";
};
W.short = (seconds) => (seconds < 5e-9 ? "" : W.time(seconds).replace(" ", " "));
W.size = (bytes) => {
  if (bytes < 1024) return bytes + " B";
  return bytes < 1 << 20 ? (bytes / 1024).toFixed(1) + " KiB" : (bytes / (1 << 20)).toFixed(2) + " MiB";
};
W.count = (n) => {
  for (const [unit, size] of [["G", 1e9], ["M", 1e6], ["k", 1e3]]) if (n >= size) return (n / size).toFixed(1) + " " + unit;
  return String(Math.round(n));
};
// Where the floor is a few cycles, how often it goes into the time says nothing.
W.ratio = ({ seconds, floor }) => (seconds && floor > 2e-8 ? (seconds / floor).toFixed(seconds / floor < 10 ? 1 : 0) + "×" : "–");

// ---------------------------------------------------------------- data

async function unpack() {
  const text = W.$("data").textContent;
  const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  const data = await new Response(stream).json();
  for (const [id, node] of Object.entries(data.nodes)) node.id = Number(id);
  data.kernels.forEach((kernel, number) => { kernel.id = number; kernel.children = []; });
  data.kernels.forEach((kernel) => { if (kernel.parent !== null) data.kernels[kernel.parent].children.push(kernel); });
  data.lines.forEach((line, number) => { line.id = number; line.nodes = []; line.kernels = []; });
  data.kernelOf = new Map();
  for (const kernel of data.kernels) for (const id of kernel.nodes) if (!data.kernelOf.has(id)) data.kernelOf.set(id, kernel.id);
  let last = null;
  for (const stage of data.stages) {
    if (!stage.nodes) { stage.nodes = last.nodes; stage.outputs = last.outputs; stage.value = last.value; }
    last = stage;
  }
  data.final = last;
  for (const id of last.nodes) {
    const line = W.lineOf(data, data.nodes[id]);
    if (line) line.nodes.push(id);
  }
  for (const kernel of data.kernels) {
    if (kernel.children.length) continue;
    for (const id of kernel.nodes) {
      const line = W.lineOf(data, data.nodes[id]);
      if (line && !line.kernels.includes(kernel.id)) line.kernels.push(kernel.id);
    }
  }
  return data;
}
W.lineOf = (data, node) => (node && node.group >= 0 ? data.lines[data.groups[node.group].line] : null);
W.isDerived = (node) => node.group >= 0 && W.data.groups[node.group].derived;
W.where = (line) => line.file.split(/[\\/]/).pop() + ":" + line.number;

// ---------------------------------------------------------------- what is chosen

W.choose = (what) => {
  W.chosen = what;
  for (const row of document.querySelectorAll("#source .row")) row.classList.toggle("chosen", row.dataset.line !== undefined && Number(row.dataset.line) === W.chosenLine());
  drawSelection();
  for (const view of Object.values(W.views)) if (view.shown && view.chosen) view.chosen();
};
W.chosenLine = () => {
  const { line, node } = W.chosen;
  if (line !== undefined) return line;
  const found = node !== undefined ? W.lineOf(W.data, W.data.nodes[node]) : null;
  return found ? found.id : -1;
};
W.chosenKernels = () => {
  const { line, node, kernel } = W.chosen;
  if (kernel !== undefined) return [kernel];
  if (node !== undefined) return W.data.kernelOf.has(node) ? [W.data.kernelOf.get(node)] : [];
  return line !== undefined ? W.data.lines[line].kernels : [];
};
W.isChosenNode = (id) => {
  const { line, node, kernel } = W.chosen;
  if (node !== undefined) return node === id;
  if (kernel !== undefined) return W.data.kernels[kernel].nodes.includes(id);
  const own = W.lineOf(W.data, W.data.nodes[id]);
  return line !== undefined && own !== null && own.id === line;
};

const phaseClass = (id) => (W.isDerived(W.data.nodes[id]) ? " b" : "");
W.nodeChip = (id) => W.el("button", { class: "chip" + phaseClass(id), type: "button", title: W.data.nodes[id].type, onclick: () => { W.choose({ node: id }); W.open("graph"); } }, W.data.nodes[id].op);
W.kernelChip = (id) => {
  const kernel = W.data.kernels[id];
  return W.el("button", { class: "chip k", type: "button", title: kernel.text[0], onclick: () => { W.choose({ kernel: id }); W.open("code"); } },
    `${id}: ${kernel.title.slice(0, 34)}` + (kernel.seconds ? `  ${W.time(kernel.seconds)}` : ""));
};

function facts(pairs) {
  const list = W.el("dl");
  for (const [name, value] of pairs) if (value !== "" && value !== null && value !== undefined) list.append(W.el("dt", {}, name), W.el("dd", {}, String(value)));
  return list;
}

function chips(title, ids, make, most = 60) {
  if (!ids.length) return [];
  const shown = ids.slice(0, most).map(make);
  if (ids.length > most) shown.push(W.el("span", { class: "mono" }, `and ${ids.length - most} more`));
  return [W.el("h3", {}, title), W.el("div", { class: "chips" }, ...shown)];
}

function drawSelection() {
  const box = W.$("selection"), data = W.data, { line, node, kernel } = W.chosen;
  box.replaceChildren();
  if (node !== undefined) {
    const one = data.nodes[node], own = W.lineOf(data, one), group = data.groups[one.group];
    box.append(W.el("h2", {}, `${one.op}  ${one.type}`), facts([
      ["line", own ? W.where(own) + (group.derived ? ", its derivative" : "") : ""],
      ["module", group ? group.layers.join(" / ") : ""], ["parameters", one.params], ["kind", one.kind]]));
    box.append(...chips("computed from", one.inputs.filter((id) => data.nodes[id]), W.nodeChip));
    const users = data.final.nodes.filter((id) => data.nodes[id].inputs.includes(node));
    box.append(...chips("read by", users, W.nodeChip), ...chips("kernel", W.chosenKernels(), W.kernelChip));
  } else if (kernel !== undefined) {
    const one = data.kernels[kernel];
    box.append(W.el("h2", {}, `Kernel ${kernel}: ${one.title}`), facts([
      ["kind", one.kind], ["measured", W.time(one.seconds)], ["floor", W.time(one.floor)], ["ratio", W.ratio(one)],
      ["operations", W.count(one.flops)], ["bytes", one.bytes === null ? "" : W.size(one.bytes)],
      ["runs", one.turns === 1 ? "" : `${W.count(one.turns)} times a call`]]));
    box.append(...chips("computes", one.nodes, W.nodeChip), ...chips("inside", one.children.map((k) => k.id), W.kernelChip));
  } else if (line !== undefined) {
    const one = data.lines[line], forward = one.nodes.filter((id) => !W.isDerived(data.nodes[id])), backward = one.nodes.filter((id) => W.isDerived(data.nodes[id]));
    box.append(W.el("h2", {}, W.where(one)), facts([["forward", W.time(one.forward)], ["backward", W.time(one.backward)]]));
    box.append(...chips("operations", forward, W.nodeChip), ...chips("of its derivative", backward, W.nodeChip), ...chips("kernels, with their loops and assembly", one.kernels, W.kernelChip));
  } else {
    box.append(W.el("h2", {}, "Choose a line, a node or a kernel"), W.el("p", {}, "A line shows its operations, its loops and its machine code. Times are measured, and shared among the lines of a kernel by the work of each."));
  }
}

// ---------------------------------------------------------------- the source

const PYTHON = /(#.*$)|("""[\s\S]*?"""|'[^'\n]*'|"[^"\n]*")|\b(def|class)(\s+)(\w+)|\b(return|for|while|if|elif|else|in|not|and|or|import|from|as|with|lambda|None|True|False|yield|pass|break|continue|raise|try|except|finally|is|self)\b|\b(\d[\d_]*(?:\.\d+)?(?:e[-+]?\d+)?)\b/gm;
function coloured(text) {
  const made = document.createDocumentFragment();
  let at = 0;
  for (const found of text.matchAll(PYTHON)) {
    made.append(text.slice(at, found.index));
    at = found.index + found[0].length;
    if (found[3]) made.append(W.el("span", { class: "kw" }, found[3]), found[4], W.el("span", { class: "def" }, found[5]));
    else made.append(W.el("span", { class: found[1] ? "com" : found[2] ? "str" : found[6] ? "kw" : "num" }, found[0]));
  }
  made.append(text.slice(at));
  return made;
}

// The indentation of the first lines, as far as their numbers follow each other.
function indentOf(lines) {
  const end = lines.findIndex(([number], place) => number !== lines[0][0] + place);
  const indents = lines.slice(0, end < 0 ? lines.length : end).filter(([, text]) => text.trim()).map(([, text]) => text.match(/^ */)[0].length);
  return Math.min(...indents, 80);
}

function drawSource() {
  const box = W.$("source"), data = W.data;
  const most = Math.max(...data.lines.map((line) => Math.max(line.forward, line.backward)), 1e-12);
  for (const file of data.files) {
    const known = new Map(data.lines.filter((line) => line.file === file.path).map((line) => [line.number, line]));
    box.append(W.el("div", { class: "file" }, W.el("span", {}, ""), W.el("span", {}, "forward"), W.el("span", {}, "backward"), W.el("b", { title: file.path }, file.name)));
    let before = null, indent = 0;
    for (const [place, [number, text]] of file.text.entries()) {
      if (before !== null && number > before + 1) box.append(W.el("div", { class: "gap" }));
      if (before === null || number > before + 1) indent = indentOf(file.text.slice(place));
      before = number;
      const line = known.get(number);
      const cost = (kind, seconds) => W.el("span", { class: "cost " + kind }, seconds ? W.el("i", { style: `width:${Math.max(2, (54 * seconds) / most)}px` }) : null, W.el("span", {}, line ? W.short(seconds) : ""));
      box.append(W.el("div", { class: "row" + (line ? " used" : ""), role: "option", id: line ? `line${line.id}` : null, "data-line": line ? line.id : null, onclick: line ? () => W.choose({ line: line.id }) : () => {} },
        W.el("span", { class: "no" }, String(number)), cost("f", line ? line.forward : 0), cost("b", line ? line.backward : 0), W.el("span", {}, coloured(text.slice(indent)))));
    }
  }
  if (!data.files.length) box.append(W.el("p", { class: "empty" }, "No lines of source are known for this function."));
  box.addEventListener("keydown", (event) => {
    const rows = [...box.querySelectorAll(".row.used")], at = rows.findIndex((row) => row.classList.contains("chosen"));
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step === undefined || !rows.length) return;
    event.preventDefault();
    const next = rows[at < 0 ? 0 : Math.min(rows.length - 1, Math.max(0, at + step))];
    W.choose({ line: Number(next.dataset.line) });
    next.scrollIntoView({ block: "nearest" });
    box.setAttribute("aria-activedescendant", next.id);
  });
}

// ---------------------------------------------------------------- views and keys

const TABS = [["graph", "Graph"], ["schedule", "Schedule"], ["memory", "Memory"], ["time", "Time"], ["code", "Code"], ["run", "Run"]];
function drawTabs() {
  TABS.forEach(([name, title], number) => {
    const panel = W.el("div", { class: "view", id: `view-${name}`, role: "tabpanel", "aria-labelledby": `tab-${name}`, hidden: true });
    W.$("views").append(panel);
    W.$("tabs").append(W.el("button", { role: "tab", id: `tab-${name}`, type: "button", "aria-controls": panel.id, onclick: () => W.open(name) }, title, W.el("kbd", {}, String(number + 1))));
  });
  W.$("tabs").addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (step) { const at = TABS.findIndex(([name]) => name === W.tab); W.open(TABS[(at + step + TABS.length) % TABS.length][0], true); }
  });
}
W.open = (name, focus = false) => {
  for (const [one] of TABS) {
    const is = one === name, tab = W.$(`tab-${one}`);
    tab.setAttribute("aria-selected", is); tab.tabIndex = is ? 0 : -1;
    W.$(`view-${one}`).hidden = !is;
    if (W.views[one]) W.views[one].shown = is;
  }
  W.tab = name;
  const view = W.views[name], panel = W.$(`view-${name}`);
  if (!view.made) { view.made = true; view.make(panel); }
  view.shown = true;
  if (view.chosen) view.chosen();
  if (focus) W.$(`tab-${name}`).focus();
};

function drawHelp() {
  const keys = [["1 … 6", "the views"], ["/", "search; Enter goes to the next place"], ["s", "the source: ↑ ↓ choose a line"],
    ["g", "the graph: arrows walk along its edges, Enter opens a group, + − zoom, 0 shows all"], ["[  ]", "one pass or step back, on"],
    [", .", "the run: one step back, on"], ["c", "the code of what is chosen"], ["Esc", "nothing is chosen; closes this"], ["Tab", "everything that can be pressed"]];
  const list = W.el("dl");
  for (const [key, text] of keys) list.append(W.el("dt", {}, W.el("kbd", {}, key)), W.el("dd", {}, text));
  const dialog = W.$("help");
  dialog.append(W.el("h2", {}, "Keys"), list, W.el("button", { type: "button", onclick: () => dialog.close() }, "Close"));
  W.$("help-button").addEventListener("click", () => dialog.showModal());
}

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const typing = event.target.matches("input[type=search], select");
  if (event.key === "Escape") { if (typing) event.target.blur(); W.choose({}); W.search(""); return; }
  if (typing) return;
  const tab = TABS[Number(event.key) - 1];
  if (tab) return W.open(tab[0], true);
  const actions = {
    "?": () => W.$("help").showModal(), "/": () => W.$("search").focus(), s: () => W.$("source").focus(),
    g: () => { W.open("graph"); W.views.graph.focus(); }, c: () => W.open("code", true),
    "[": () => { W.open("graph"); W.views.graph.step(-1); }, "]": () => { W.open("graph"); W.views.graph.step(1); },
    ",": () => { W.open("run"); W.views.run.step(-1); }, ".": () => { W.open("run"); W.views.run.step(1); },
  };
  if (actions[event.key]) { event.preventDefault(); actions[event.key](); }
}

W.matches = [];
W.search = (text) => {
  const wanted = text.trim().toLowerCase(), data = W.data;
  const has = (node) => {
    const group = data.groups[node.group], line = W.lineOf(data, node);
    return [node.op, node.type, node.params, group ? group.layers.join(" ") : "", line ? W.where(line) : ""].some((part) => part.toLowerCase().includes(wanted));
  };
  W.matches = wanted ? W.views.graph.nodes().filter((id) => has(data.nodes[id])) : [];
  const lines = new Set(W.matches.map((id) => W.lineOf(data, data.nodes[id])).filter(Boolean).map((line) => line.id));
  for (const row of document.querySelectorAll("#source .row")) row.classList.toggle("match", lines.has(Number(row.dataset.line)));
  if (W.views.graph.matched) W.views.graph.matched();
};
function wireSearch() {
  const box = W.$("search");
  let at = -1;
  box.addEventListener("input", () => { at = -1; W.search(box.value); });
  box.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || !W.matches.length) return;
    at = (at + 1) % W.matches.length;
    W.open("graph"); W.choose({ node: W.matches[at] });
  });
}

function drawHeader() {
  const data = W.data, figures = W.$("figures");
  W.$("signature").textContent = data.arguments.join(", ");
  W.$("signature").title = data.arguments.join("\n");
  const compiled = Object.values(data.clock).reduce((sum, one) => sum + one, 0);
  const add = (name, value) => figures.append(W.el("div", {}, W.el("dt", {}, name), W.el("dd", {}, value)));
  if (data.seconds) {
    add("measured", W.time(data.seconds)); add("floor", W.time(data.floor));
    if (W.ratio(data) !== "–") add("ratio", W.ratio(data));
  }
  add("arena", W.size(data.memory.arena)); add("operators", String([...data.stages].reverse().find((stage) => stage.kind !== "step").nodes.filter((id) => data.nodes[id].kind.endsWith("Operator")).length));
  if (compiled) add("compiled in", W.time(compiled));
}

window.addEventListener("DOMContentLoaded", async () => {
  W.data = await unpack();
  drawHeader(); drawSource(); drawTabs(); drawHelp(); drawSelection(); wireSearch();
  document.addEventListener("keydown", onKey);
  const small = W.data.run && W.data.run.nodes.length <= 12 && W.data.final.nodes.length <= 12;
  W.open(W.data.view || (small ? "run" : "graph"));
  document.body.dataset.ready = String(Math.round(performance.now()));
});
