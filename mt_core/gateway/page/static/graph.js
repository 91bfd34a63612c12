// The drawing of the graph: zoom, arrow keys that walk along edges, and the edges of the node under the pointer.

const LEAST = 0.2, MOST = 3, STEP = 1.25, READABLE = 0.7;
const $ = (selector, root = document) => root.querySelector(selector);
const $$ = (selector, root = document) => [...root.querySelectorAll(selector)];

// What survives when a new drawing replaces this one.
let scale = 0, current = "", place = null;

const canvas = () => $("#graph .canvas");
const drawing = () => $("#graph .graph-picture");

// ----------------------------------------------------------------------------------------------- zoom

function fitting() {
  return Math.min(1, (canvas().clientWidth - 2) / drawing().viewBox.baseVal.width);
}

// Zoom so that the point of the drawing at (x, y) of the canvas stays where it is.
function zoom(to, x = canvas().clientWidth / 2, y = canvas().clientHeight / 2) {
  const at = canvas(), box = drawing().viewBox.baseVal, before = drawing().clientWidth / box.width || 1;
  scale = Math.min(MOST, Math.max(LEAST, to));
  const left = (at.scrollLeft + x) * scale / before - x, top = (at.scrollTop + y) * scale / before - y;
  drawing().setAttribute("width", Math.round(box.width * scale));
  drawing().setAttribute("height", Math.round(box.height * scale));
  at.scrollTo(left, top);
}

function zoomBy(word) {
  if (word === "fit") zoom(fitting());
  else zoom(word === "in" ? scale * STEP : scale / STEP);
}

document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-zoom]");
  if (button && drawing()) zoomBy(button.dataset.zoom);
});

// Without a key, the wheel scrolls, so that a reader who scrolls past the drawing is not caught in it.
document.addEventListener("wheel", (event) => {
  if (!(event.ctrlKey || event.metaKey) || !event.target.closest?.(".canvas")) return;
  event.preventDefault();
  const area = canvas().getBoundingClientRect();
  zoom(scale * Math.exp(-event.deltaY / 300), event.clientX - area.left, event.clientY - area.top);
}, { passive: false });

// ---------------------------------------------------------------------------------------------- moving

let drag = null;

document.addEventListener("pointerdown", (event) => {
  const at = event.target.closest?.(".canvas");
  if (!at || event.button !== 0 || event.pointerType === "touch" || event.target.closest("a")) return;
  drag = { x: event.clientX + at.scrollLeft, y: event.clientY + at.scrollTop };
  at.classList.add("is-dragged");
});
document.addEventListener("pointermove", (event) => {
  if (drag && canvas()) canvas().scrollTo(drag.x - event.clientX, drag.y - event.clientY);
});
for (const name of ["pointerup", "pointercancel", "blur"]) {
  addEventListener(name, () => {
    drag = null;
    canvas()?.classList.remove("is-dragged");
  });
}

// --------------------------------------------------------------------------------------- nodes and edges

const nodes = () => $$(".graph-picture .node");
const named = (ids) => ids.split(" ").filter(Boolean).map((id) => document.getElementById(id)).filter(Boolean);

function middle(node) {
  const box = $(".box", node);
  return Number(box.getAttribute("y")) + Number(box.getAttribute("height")) / 2;
}

function nearest(node, others) {
  const distance = (other) => Math.abs(middle(other) - middle(node));
  return others.sort((one, other) => distance(one) - distance(other))[0];
}

function beside(node, key) {
  if (key === "ArrowLeft") return nearest(node, named(node.dataset.left));
  if (key === "ArrowRight") return nearest(node, named(node.dataset.right));
  const way = key === "ArrowUp" ? -1 : key === "ArrowDown" ? 1 : 0;
  const column = nodes().filter((each) => each.dataset.layer === node.dataset.layer);
  return way ? nearest(node, column.filter((each) => (middle(each) - middle(node)) * way > 0)) : undefined;
}

document.addEventListener("keydown", (event) => {
  const node = event.target.closest?.(".graph-picture .node");
  if (event.ctrlKey || event.metaKey || event.altKey || !event.target.closest?.(".canvas")) return;
  const word = { "+": "in", "-": "out", "0": "fit" }[event.key];
  const next = node && beside(node, event.key);
  if (word) zoomBy(word);
  else if (next) next.focus();
  else if (!node || !event.key.startsWith("Arrow")) return;
  event.preventDefault();
});

// The tabulator key stops at one node and at the links on its edge; arrow keys go on from there.
function choose(node) {
  current = node.id;
  for (const each of $$(".graph-picture a")) {
    each.setAttribute("tabindex", each === node || each.dataset.of === node.id ? "0" : "-1");
  }
}

function show(node) {
  for (const edge of $$(".graph-picture .edge")) {
    edge.classList.toggle("near", Boolean(node) && (edge.dataset.source === node.id || edge.dataset.reader === node.id));
  }
}

for (const name of ["pointerover", "focusin"]) {
  document.addEventListener(name, (event) => {
    if (!drawing()) return;
    const node = event.target.closest?.(".graph-picture .node");
    if (node && name === "focusin") choose(node);
    show(node ?? document.activeElement?.closest(".graph-picture .node"));
  });
}

// ---------------------------------------------------------------------------------------------- drawings

document.addEventListener("scroll", (event) => {
  if (event.target === canvas()) place = [canvas().scrollLeft, canvas().scrollTop];
}, true);

function begin() {
  if (!drawing() || !canvas().clientWidth) return;
  const center = $(".node[data-center]") ?? nodes()[0];
  if (scale) {
    const [left, top] = place ?? [0, 0];
    zoom(scale);
    canvas().scrollTo(left, top);
  } else {
    zoom(Math.max(fitting(), READABLE));
    const box = $(".box", center), [x, y, width] = ["x", "y", "width"].map((each) => Number(box.getAttribute(each)));
    if (center.dataset.center !== undefined) {
      canvas().scrollTo((x + width / 2) * scale - canvas().clientWidth / 2, middle(center) * scale - canvas().clientHeight / 2);
    }
  }
  const chosen = document.getElementById(current) ?? center;
  choose(chosen);
}

begin();
addEventListener("resize", () => { if (!scale) begin(); });
document.addEventListener("htmx:afterSwap", (event) => {
  if (event.target.closest?.("#graph") || $("#graph", event.target)) begin();
});
