"use strict";
// The schedule, memory, time and code.
{
const el = W.el;
const svg = (tag, attributes, ...children) => {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [key, value] of Object.entries(attributes)) if (value !== null) made.setAttribute(key, value);
  made.append(...children);
  return made;
};
const table = (heads, rows) => el("table", {}, el("thead", {}, el("tr", {}, ...heads.map(([name, kind]) => el("th", { class: kind || null, scope: "col" }, name)))), el("tbody", {}, ...rows));

// What a step tells: candidates with an estimate become a table, with the one that was taken.
W.noted = (notes) => {
  const taken = notes.find((note) => note.startsWith("taken: "));
  if (!taken) return el("div", { class: "mono" }, ...notes.slice(0, 40).map((note) => el("div", {}, note)));
  const name = taken.slice(7);
  const rows = notes.filter((note) => note !== taken).map((note) => {
    const found = note.match(/^(.*?): ([\d.]+ us|[^:]*)$/);
    const [way, estimate] = found ? [found[1], found[2].replace(" us", " µs")] : [note, ""];
    const is = way === name;
    return el("tr", { class: is ? "taken" : null }, el("td", {}, way), el("td", { class: /µs/.test(estimate) ? "n" : null }, estimate), el("td", {}, is ? "taken" : ""));
  });
  return table([["candidate of the cost model"], ["estimate, or why not"], [""]], rows);
};

// ---------------------------------------------------------------- schedule

function kernelTree(kernel) {
  const data = W.data;
  const fused = kernel.children.length ? "" : kernel.nodes.map((id) => data.nodes[id].op).join(", ");
  const role = kernel.role && kernel.role !== "body" ? kernel.role + ": " : "";
  return el("div", { class: "k" + (kernel.long ? " loop" : "") },
    el("button", { type: "button", "data-kernel": kernel.id, onclick: () => W.choose({ kernel: kernel.id }), ondblclick: () => W.open("code") },
      el("span", { class: "kind" }, kernel.kind), el("span", { class: "title" }, role + kernel.title), el("span", { class: "t" }, kernel.seconds ? W.time(kernel.seconds) : "")),
    fused && kernel.nodes.length > 1 ? el("div", { class: "ops" }, "fuses " + fused) : null,
    ...kernel.children.filter((child) => child.role !== "begin" || kernel.children.length < 12).map(kernelTree));
}
W.views.schedule = {
  make(panel) {
    const data = W.data;
    const steps = data.stages.filter((stage) => stage.kind === "step").map((stage) => el("tr", { class: stage.changed || stage.notes.length ? null : "quiet" },
      el("td", {}, stage.name), el("td", {}, stage.text, stage.notes.length ? W.noted(stage.notes) : null)));
    panel.append(el("h2", {}, "Kernels, and what is fused into each"), el("div", { class: "card kernels" }, ...data.kernels.filter((kernel) => kernel.parent === null).map(kernelTree)),
      el("h2", {}, "Regions"), el("div", { class: "card mono" }, ...data.regions.split("\n").map((line) => el("div", {}, line))),
      el("h2", {}, "Steps from the graph to loops"), el("div", { class: "steps" }, table([["step"], ["what it has made, and why"]], steps)));
  },
  chosen() {
    const wanted = new Set(W.chosenKernels());
    let first = null;
    for (const button of document.querySelectorAll("#view-schedule [data-kernel]")) {
      const is = wanted.has(Number(button.dataset.kernel));
      button.classList.toggle("chosen", is);
      if (is && !first) first = button;
    }
    if (first) first.scrollIntoView({ block: "nearest" });
  },
};

// ---------------------------------------------------------------- memory

const SHADES = ["#3f6fb8", "#4f86a8", "#5b8f76", "#8a7bb8", "#b07a55", "#5e7f9f", "#7c8f4f", "#a5667e"];
function arenaPicture(picture, number) {
  const width = 980, height = 300, left = 74, bottom = 34, top = 18;
  const n = Math.max(1, picture.steps.length), dx = (width - left - 10) / n, high = Math.max(1, picture.bytes), y = (bytes) => top + (height - top - bottom) * (1 - bytes / high);
  const made = svg("svg", { viewBox: `0 0 ${width} ${height}`, width: "100%", role: "img", "aria-label": picture.title });
  for (let tick = 0; tick <= 4; tick++) {
    const bytes = (high * tick) / 4;
    made.append(svg("line", { x1: left, x2: width - 10, y1: y(bytes), y2: y(bytes), stroke: "#e8ecf2" }), text(left - 8, y(bytes) + 4, W.size(Math.round(bytes)), "end"));
  }
  const px = left + dx * picture.peak;
  made.append(svg("rect", { x: px, y: top, width: dx, height: height - top - bottom, fill: "#f1ebfc" }));
  picture.buffers.forEach((buffer, place) => {
    const x = left + dx * buffer.start, w = dx * (buffer.end - buffer.start + 1) - 1, h = Math.max(1, y(buffer.offset) - y(buffer.offset + buffer.bytes) - 0.6);
    const rect = svg("rect", { class: "b", x, y: y(buffer.offset + buffer.bytes), width: Math.max(1, w), height: h, rx: 1.5, fill: SHADES[place % SHADES.length], tabindex: h > 5 ? 0 : -1, role: "button", "aria-label": `${buffer.name} ${buffer.type} ${W.size(buffer.bytes)}` },
      svg("title", {}, `${buffer.name}: ${buffer.type}, ${W.size(buffer.bytes)}, kernels ${picture.steps[buffer.start]} to ${picture.steps[buffer.end]}`));
    const choose = () => W.choose({ kernel: buffer.made });
    rect.addEventListener("click", choose);
    rect.addEventListener("keydown", (event) => { if (event.key === "Enter") choose(); });
    made.append(rect);
    if (h > 12 && w > 8 * buffer.name.length) made.append(svg("text", { class: "name", x: x + 5, y: y(buffer.offset + buffer.bytes) + Math.min(h / 2 + 4, 14) }, `${buffer.name}`));
  });
  const line = picture.used.map((bytes, step) => `${left + dx * step},${y(bytes)} ${left + dx * (step + 1)},${y(bytes)}`).join(" ");
  made.append(svg("polyline", { points: line, fill: "none", stroke: "#6d3fc4", "stroke-width": 1.6 }));
  made.append(text(Math.min(px + dx / 2, width - 90), top - 5, `peak ${W.size(picture.used[picture.peak] || 0)}`, "middle", "dark"));
  const every = Math.ceil(n / 24);
  picture.steps.forEach((kernel, step) => { if (step % every === 0) made.append(text(left + dx * (step + 0.5), height - bottom + 15, String(kernel), "middle")); });
  made.append(text((left + width) / 2, height - 4, "kernel", "middle"));
  const held = picture.buffers.filter((buffer) => picture.holding.includes(buffer.name) && buffer.start <= picture.peak && picture.peak <= buffer.end).sort((a, b) => b.bytes - a.bytes);
  const rows = held.slice(0, 8).map((buffer) => {
    const kernel = W.data.kernels[buffer.made];
    return el("tr", { tabindex: 0, onclick: () => W.choose({ kernel: buffer.made }), onkeydown: (event) => event.key === "Enter" && W.choose({ kernel: buffer.made }) },
      el("td", {}, el("code", {}, `${buffer.name}: ${buffer.type}`)), el("td", { class: "n" }, W.size(buffer.bytes)), el("td", { class: "n" }, ((100 * buffer.bytes) / Math.max(1, picture.used[picture.peak])).toFixed(1) + " %"), el("td", {}, `${kernel.id}: ${kernel.title.slice(0, 60)}`));
  });
  return el("div", { class: "card" }, el("h2", {}, picture.title), made, el("h3", {}, "what holds the peak"), table([["buffer"], ["bytes", "n"], ["share", "n"], ["written by kernel"]], rows));
}
const text = (x, y, words, anchor, kind) => svg("text", { x, y, "text-anchor": anchor, class: kind || null }, words);
W.views.memory = {
  make(panel) {
    const data = W.data, plan = Object.entries(data.memory).map(([name, value]) => el("tr", {}, el("td", {}, name.replaceAll("_", " ")), el("td", { class: "n" }, name.startsWith("allocations") ? String(value) : W.size(value))));
    panel.append(...data.arena.map(arenaPicture));
    if (!data.arena.length) panel.append(el("p", { class: "empty" }, "No memory between kernels is needed."));
    panel.append(el("h2", {}, "The plan"), el("div", { style: "max-width:420px" }, table([["use"], ["", "n"]], plan)));
  },
};

// ---------------------------------------------------------------- time

function flame() {
  const data = W.data, width = 1000, row = 22, rows = [];
  const place = (kernels, from, level) => {
    let at = from;
    for (const kernel of kernels) {
      if (!kernel.seconds) continue;
      rows.push({ at, level, kernel });
      place(kernel.children, at, level + 1);
      at += kernel.seconds;
    }
  };
  place(data.kernels.filter((kernel) => kernel.parent === null), 0, 1);
  const depth = Math.max(...rows.map((one) => one.level), 0) + 1, scale = width / data.seconds;
  const made = svg("svg", { viewBox: `0 0 ${width} ${depth * row}`, width: "100%", role: "img", "aria-label": "flame view: kernels by time, those inside of others below them" });
  made.append(svg("rect", { x: 0, y: 0, width, height: row - 2, rx: 2, fill: "#e3e7ee" }), svg("text", { x: 6, y: 14, class: "dark" }, `${data.name}  ${W.time(data.seconds)}`));
  for (const { at, level, kernel } of rows) {
    const w = kernel.seconds * scale;
    if (w < 0.5) continue;
    const leaf = !kernel.children.length, derived = leaf && kernel.nodes.length && W.isDerived(data.nodes[kernel.nodes[kernel.nodes.length - 1]]);
    const fill = kernel.children.length ? "#b9c4d4" : !kernel.nodes.length ? "#c9ced8" : derived ? "#e2915c" : "#6f9be0";
    const rect = svg("rect", { class: "b", x: at * scale, y: level * row, width: Math.max(0.7, w - 0.8), height: row - 2, rx: 2, fill, tabindex: w > 6 ? 0 : -1, role: "button", "aria-label": `${kernel.title} ${W.time(kernel.seconds)}` }, svg("title", {}, `${kernel.title}\n${W.time(kernel.seconds)}, floor ${W.time(kernel.floor)}`));
    rect.addEventListener("click", () => W.choose({ kernel: kernel.id }));
    rect.addEventListener("keydown", (event) => event.key === "Enter" && W.choose({ kernel: kernel.id }));
    made.append(rect);
    const fits = Math.floor((w - 8) / 6.4);
    if (fits > 3) made.append(svg("text", { class: "dark", x: at * scale + 4, y: level * row + 14, "pointer-events": "none" }, kernel.title.slice(0, fits)));
  }
  return made;
}
const activate = (action) => ({ onclick: action, onkeydown: (event) => event.key === "Enter" && action() });
W.views.time = {
  make(panel) {
    const data = W.data;
    if (!data.seconds) return panel.append(el("p", { class: "empty" }, "Nothing was measured."));
    const leaves = data.kernels.filter((kernel) => !kernel.children.length && kernel.seconds > 5e-11).sort((one, other) => other.seconds - one.seconds);
    const most = leaves.length ? leaves[0].seconds : 1;
    const rows = leaves.slice(0, 60).map((kernel) => el("tr", { tabindex: 0, "data-kernel": kernel.id, ...activate(() => W.choose({ kernel: kernel.id })) },
      el("td", { class: "n" }, String(kernel.id)), el("td", {}, el("code", {}, kernel.title.slice(0, 60)), el("div", { style: "color:var(--faint);font-size:11.5px" }, places(kernel))),
      el("td", { class: "n" }, W.time(kernel.seconds)), el("td", { class: "n" }, ((100 * kernel.seconds) / data.seconds).toFixed(1) + " %"), el("td", { class: "n" }, W.time(kernel.floor)), el("td", { class: "n" }, W.ratio(kernel)),
      el("td", {}, el("div", { class: "meter", title: "measured, and its floor" }, el("i", { style: `width:${(100 * kernel.seconds) / most}%` }), el("b", { style: `width:${Math.min(100, (100 * kernel.floor) / most)}%` })))));
    const lines = [...data.lines].filter((line) => line.forward + line.backward > 0).sort((one, other) => other.forward + other.backward - one.forward - one.backward);
    const lineRows = lines.map((line) => el("tr", { tabindex: 0, ...activate(() => W.choose({ line: line.id })) }, el("td", {}, el("code", {}, W.where(line))), el("td", { class: "n" }, W.time(line.forward)), el("td", { class: "n" }, W.time(line.backward)), el("td", { class: "n" }, ((100 * (line.forward + line.backward)) / data.seconds).toFixed(1) + " %")));
    panel.append(el("h2", {}, "Where the time goes"), el("div", { class: "card" }, flame()),
      el("h2", {}, "Kernels"), el("p", { style: "margin:0 0 8px;color:var(--soft)" }, `The floor is what the operations and bytes of a kernel take at ${W.count(data.rates.flops)}flop/s and ${W.count(data.rates.bytes)}B/s, or the near cache's rate where all fits in there. Inside loops, time is shared as measured for one block.`),
      table([["", "n"], ["kernel"], ["measured", "n"], ["share", "n"], ["floor", "n"], ["ratio", "n"], [""]], rows),
      el("h2", { style: "margin-top:20px" }, "Lines"), table([["line"], ["forward", "n"], ["backward", "n"], ["share", "n"]], lineRows));
  },
  chosen() {
    const wanted = new Set(W.chosenKernels());
    for (const row of document.querySelectorAll("#view-time tr[data-kernel]")) row.classList.toggle("chosen", wanted.has(Number(row.dataset.kernel)));
  },
};
const places = (kernel) => [...new Set(kernel.nodes.map((id) => { const line = W.lineOf(W.data, W.data.nodes[id]); return line ? W.where(line) + (W.isDerived(W.data.nodes[id]) ? " (derivative)" : "") : null; }).filter(Boolean))].join(", ");

// ---------------------------------------------------------------- code

let loops, llvm, assembly, title, current = null;
function drawLoops() {
  loops.replaceChildren();
  for (const buffer of W.data.buffers) loops.append(el("div", { class: "lab" }, `${buffer.use} ${buffer.text}`));
  const add = (kernel, depth) => {
    const choose = (line) => { W.choose({ kernel: kernel.id }); lightStore(kernel.id, line.trim()); };
    kernel.text.forEach((line, number) => loops.append(el("div", { "data-kernel": kernel.id, role: "option", tabindex: -1, onclick: () => choose(line), onkeydown: (event) => event.key === "Enter" && choose(line) }, "  ".repeat(depth) + (kernel.role && !["body", "yes"].includes(kernel.role) && !number ? kernel.role + ": " : "") + line)));
    kernel.children.forEach((child) => add(child, depth + 1));
  };
  W.data.kernels.filter((kernel) => kernel.parent === null).forEach((kernel) => add(kernel, 0));
}
function drawCode(kernel) {
  current = kernel;
  llvm.replaceChildren(); assembly.replaceChildren();
  const names = W.data.code[kernel] || [];
  title.textContent = names.length ? `Kernel ${kernel}: ${W.data.kernels[kernel].title.slice(0, 70)}` : "This kernel has no function of its own: it is written into the loop around it.";
  for (const name of names) {
    const made = W.data.functions[name];
    if (!made) continue;
    llvm.append(el("div", { class: "fn" }, name)); assembly.append(el("div", { class: "fn" }, name));
    const stores = W.data.statements[name] || {};
    made.llvm.forEach((line, number) => llvm.append(el("div", { "data-key": `${name}#${number}`, "data-store": stores[number] || null, class: /^[.\w]+:$/.test(line) ? "lab" : null }, line)));
    made.assembly.forEach((line, number) => assembly.append(el("div", { "data-key": made.places[number] < 0 ? null : `${name}#${made.places[number]}`, class: /:$/.test(line) ? "lab" : null }, line)));
  }
}
// Whether a line of loops is the statement that a line of LLVM says it belongs to: by what stands
// on the left, or as the one that adds up a product.
const belongs = (line, store) => (store === "+=" ? / \+= /.test(line) : line.split(/ \S*= /)[0].includes(store));
// A store in the loops, and the lines of LLVM and assembly that compute it and put it into memory.
function lightStore(kernel, line) {
  light(null);
  const keys = new Set();
  for (const one of llvm.children) if (one.dataset.store && belongs(line, one.dataset.store)) { one.classList.add("lit"); keys.add(one.dataset.key); }
  for (const one of assembly.children) if (keys.has(one.dataset.key)) one.classList.add("lit");
  for (const box of [llvm, assembly]) { const first = box.querySelector(".lit"); if (first) first.scrollIntoView({ block: "center" }); }
}
function lightLoop(key) {
  const line = [...llvm.children].find((one) => one.dataset.key === key), store = line && line.dataset.store;
  for (const one of loops.children) {
    const is = Boolean(store) && Number(one.dataset.kernel) === current && belongs(one.textContent, store);
    one.classList.toggle("lit", is);
    if (is) one.scrollIntoView({ block: "nearest" });
  }
}
function light(key, from) {
  lightLoop(key);
  for (const box of [llvm, assembly]) {
    let first = null;
    for (const line of box.querySelectorAll(".lit, .at")) line.classList.remove("lit", "at");
    if (!key) continue;
    for (const line of box.children) if (line.dataset.key === key) { line.classList.add("lit"); first = first || line; }
    if (first && box !== from) first.scrollIntoView({ block: "nearest" });
  }
}
function wire(box) {
  box.addEventListener("click", (event) => { const line = event.target.closest("div[data-key]"); if (line) { light(line.dataset.key, box); line.classList.add("at"); } });
  box.addEventListener("keydown", (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    const keyed = [...box.querySelectorAll("div[data-key]")], at = keyed.indexOf(box.querySelector(".at"));
    const next = keyed[at < 0 ? 0 : Math.min(keyed.length - 1, Math.max(0, at + step))];
    if (!next) return;
    light(next.dataset.key, box); next.classList.add("at"); next.scrollIntoView({ block: "nearest" });
  });
}
// One stop of Tab for all lines of the loops: arrows go from one to the next, Enter shows its code.
function walkLoops(event) {
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (!step) return;
  event.preventDefault();
  const rows = [...loops.querySelectorAll("div[data-kernel]")], at = rows.indexOf(document.activeElement);
  const next = rows[at < 0 ? Math.max(0, rows.findIndex((row) => row.classList.contains("chosen"))) : Math.min(rows.length - 1, Math.max(0, at + step))];
  if (next) { next.focus(); next.scrollIntoView({ block: "nearest" }); }
}
W.views.code = {
  make(panel) {
    panel.classList.add("flow");
    title = el("b", {});
    loops = el("div", { class: "lines wrap", role: "listbox", tabindex: 0, "aria-label": "loops", onkeydown: walkLoops }); llvm = el("div", { class: "lines", tabindex: 0, "aria-label": "LLVM" }); assembly = el("div", { class: "lines", tabindex: 0, "aria-label": "assembly" });
    panel.append(el("div", { class: "bar" }, title), el("div", { class: "code" }, el("section", {}, el("h3", {}, "Loops"), loops), el("section", {}, el("h3", {}, "LLVM"), llvm), el("section", {}, el("h3", {}, "Assembly"), assembly)));
    wire(llvm); wire(assembly);
    drawLoops();
    const slowest = W.data.kernels.filter((kernel) => W.data.code[kernel.id] && !kernel.children.length).sort((one, other) => (other.seconds || 0) - (one.seconds || 0))[0];
    if (slowest) drawCode(slowest.id);
  },
  chosen() {
    const found = W.chosenKernels(), wanted = new Set(found);
    if (found.length && found[0] !== current) drawCode(found[0]);
    let first = null;
    for (const line of loops.children) {
      const is = line.dataset.kernel !== undefined && (wanted.size ? wanted.has(Number(line.dataset.kernel)) : Number(line.dataset.kernel) === current);
      line.classList.toggle("chosen", is);
      if (is && !first) first = line;
    }
    if (first) first.scrollIntoView({ block: "nearest" });
  },
};
}
