// The charts of a table: its staleness against the promise, and its refreshes, with one cursor for both.

import { spanText } from "./page.js";

const section = document.getElementById("charts");
const EVERY_MS = 5000;
const SLOWEST_MS = 60000;
const NUMBERS_EVERY_MS = 60000;
const STEPS = { queue: 0.2, decide: 0.45, write: 1, publish: 0.7 };
const STRATEGIES = ["append", "merge", "signed", "keys", "stages", "partitions", "recompute", "none"];
const SECONDS = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200,
  10800, 21600, 43200, 86400, 172800, 604800];
const REACH = 8;
const $ = (selector) => section.querySelector(selector);
const $$ = (selector) => [...section.querySelectorAll(selector)];

let curve = null;
let plots = null;
let colours = {};
let timer = 0;
let numbersTimer = 0;
let numbersVersion = "";
let failures = 0;
let answeredAt = null;

if (section?.dataset.curve) {
  for (const link of $$(".ranges a")) link.addEventListener("click", choose);
  document.addEventListener("visibilitychange", () => document.hidden || (load(), loadNumbers()));
  document.addEventListener("freshtable:theme", redraw);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  new ResizeObserver(resize).observe(section);
  load();
  loadNumbers();
}

// ---------------------------------------------------------------------------------------------- loading

async function load() {
  clearTimeout(timer);
  const range = section.dataset.range;
  try {
    const read = await changed(section.dataset.curve, { range, since: curve?.range === range ? curve.version : "" });
    if (range !== section.dataset.range) return;
    failures = 0;
    answeredAt = new Date();
    $("[data-failure]").hidden = true;
    if (read) show(read);
  } catch (error) {
    if (range !== section.dataset.range) return;
    failures += 1;
    fail(error);
  }
  if (!document.hidden) timer = setTimeout(load, Math.min(EVERY_MS * 2 ** failures, SLOWEST_MS));
}

// The four numbers are of 7 days, whatever the charts show.
async function loadNumbers() {
  clearTimeout(numbersTimer);
  try {
    const read = await changed(section.dataset.numbers, { since: numbersVersion });
    if (read) showNumbers(read);
  } catch {
    // The charts, which are loaded more often, say what is wrong.
  }
  if (!document.hidden) numbersTimer = setTimeout(loadNumbers, NUMBERS_EVERY_MS);
}

// Return what is at an address, or null if the version `since` is still right.
async function changed(address, query) {
  const answer = await fetch(`${address}?${new URLSearchParams(query)}`, {
    headers: { "HX-Request": "true" },
    signal: AbortSignal.timeout(30000),
  });
  if (!answer.ok) throw Object.assign(new Error(await reasonOf(answer)), { isFinal: answer.status < 500 });
  return answer.status === 204 ? null : answer.json();
}

async function reasonOf(answer) {
  const text = answer.headers.get("content-type")?.startsWith("text/plain") ? await answer.text() : "";
  return text || `the gateway answered ${answer.status}`;
}

function fail(error) {
  const why = error.name === "TimeoutError" || error.name === "TypeError" ? "the gateway does not answer" : error.message;
  const shown = curve?.range === section.dataset.range;
  const state = shown ? `The charts are those of ${curve.clock.second.format(answeredAt)}` : "The charts cannot be loaded";
  const next = error.isFinal ? "" : " The page tries again.";
  $("[data-failure]").textContent = `${state}: ${why.replace(/\.$/, "")}.${next}`;
  $("[data-failure]").hidden = false;
}

function choose(event) {
  if (event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  const link = event.currentTarget;
  for (const each of $$(".ranges a")) each.toggleAttribute("aria-current", false);
  link.setAttribute("aria-current", "true");
  section.dataset.range = link.dataset.range;
  const address = new URL(location.href);
  address.searchParams.set("range", link.dataset.range);
  history.replaceState(history.state, "", address);
  failures = 0;
  load();
}

// ---------------------------------------------------------------------------------------------- drawing

function show(read) {
  curve = { ...read, ...clocksOf(read.zone) };
  for (const [name, text] of Object.entries(curve.captions)) $(`[data-caption="${name}"]`).textContent = text;
  for (const item of $$("[data-mark]")) item.hidden = !hasMark(item.dataset.mark);
  const looks = new Set(curve.bars.map(lookOf));
  if (curve.bars.some((bar) => bar.failed)) looks.add("failed");
  for (const item of $$("[data-strategy]")) item.hidden = !looks.has(item.dataset.strategy);
  const hasSteps = curve.bars.some((bar) => Object.keys(bar.steps).length);
  for (const item of $$("li.step")) item.hidden = !hasSteps;
  // The steps are shades of the colour of a strategy; the legend has those of the one that is seen most.
  const shade = mostSeen(curve.bars.map(lookOf).filter((look) => STRATEGIES.includes(look)));
  for (const item of $$("li.step .swatch")) item.className = `swatch step ${item.dataset.step} ${shade ?? ""}`;
  const drawn = { staleness: curve.staleness.at.length > 0 || curve.marks.length > 0, refreshes: curve.bars.length > 0 };
  for (const each of $$("[data-legend], [data-plot]")) each.hidden = !drawn[each.dataset.legend ?? each.dataset.plot];
  draw();
}

function showNumbers({ version, numbers }) {
  numbersVersion = version;
  $$("[data-number]").forEach((each, number) => {
    each.title = numbers[number].title;
    each.querySelector(".value").textContent = numbers[number].value;
    each.querySelector(".about").textContent = numbers[number].note;
  });
}

function hasMark(mark) {
  return mark === "late-hours" ? curve.late.length > 0 : curve.marks.some((each) => each.status === mark);
}

function lookOf(bar) {
  if (bar.status === "FAILED") return "failed";
  if (bar.status === "RUNNING") return "running";
  return STRATEGIES.includes(bar.strategy) ? bar.strategy : "none";
}

function mostSeen(looks) {
  const times = (look) => looks.filter((each) => each === look).length;
  return [...new Set(looks)].sort((one, other) => times(other) - times(one))[0];
}

function clocksOf(zone) {
  try {
    return { clock: clockOf(zone), zoneName: zone };
  } catch {
    // The browser does not know the zone.
    return { clock: clockOf("UTC"), zoneName: "UTC" };
  }
}

function clockOf(timeZone) {
  const format = (parts) => new Intl.DateTimeFormat("en-GB", { timeZone, hourCycle: "h23", ...parts });
  const day = { day: "numeric", month: "short" };
  return {
    day: format(day),
    minute: format({ hour: "2-digit", minute: "2-digit" }),
    second: format({ hour: "2-digit", minute: "2-digit", second: "2-digit" }),
    exact: format({ ...day, hour: "2-digit", minute: "2-digit", second: "2-digit" }),
  };
}

function draw() {
  colours = coloursOfLegend();
  const stale = dataOfStaleness();
  const bars = dataOfBars();
  if (plots) {
    plots.stale.setData(stale);
    plots.bars.setData(bars);
  } else {
    plots = { stale: plot("staleness", stale, 3, paintStaleness), bars: plot("refreshes", bars, 2, paintBars) };
  }
  for (const [name, caption] of Object.entries(curve.captions)) {
    $(`[data-plot="${name}"]`).setAttribute("aria-label", caption);
  }
}

function dataOfStaleness() {
  const { at, seconds, promise } = curve.staleness;
  return at.length ? [at, seconds, promise] : [[curve.from, curve.to], [null, null], [null, null]];
}

function dataOfBars() {
  const { bars } = curve;
  return bars.length ? [bars.map((bar) => bar.at), bars.map((bar) => bar.seconds)] : [[curve.from, curve.to], [null, null]];
}

function coloursOfLegend() {
  const of = (element) => getComputedStyle(element).color;
  const swatches = Object.fromEntries($$(".swatch").map((each) => [each.className.replace("swatch ", ""), of(each)]));
  const probe = document.createElement("i");
  section.append(probe);
  const named = {};
  for (const name of ["--ink", "--muted", "--line", "--raised"]) {
    probe.style.color = `var(${name})`;
    named[name] = of(probe);
  }
  probe.remove();
  return { ...swatches, ...named };
}

function plot(name, data, columns, paint) {
  const place = $(`[data-plot="${name}"]`);
  place.setAttribute("role", "img");
  const narrow = place.clientWidth < 500;
  const axis = {
    stroke: () => colours["--muted"],
    grid: { stroke: () => colours["--line"], width: 1 },
    ticks: { show: false },
    font: "12px system-ui, sans-serif",
  };
  const options = {
    width: place.clientWidth,
    height: narrow ? 150 : 180,
    tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), curve.zoneName),
    legend: { show: false },
    padding: [6, 18, 0, 0],
    cursor: { y: false, drag: { x: false, y: false }, points: { show: false }, sync: { key: "charts", scales: ["x", null] } },
    scales: {
      x: { time: true, range: () => [curve.from, curve.to] },
      y: { range: (_, least, most) => [-lane(name) * Math.max(most ?? 0, 0.01), 1.12 * Math.max(most ?? 0, 0.01)] },
    },
    axes: [
      { ...axis, size: 26, space: narrow ? 64 : 80, values: times },
      { ...axis, size: narrow ? 56 : 68, space: 32, incrs: SECONDS, values: (_, splits) => splits.map(span) },
    ],
    series: Array.from({ length: columns }, () => ({ paths: () => null, points: { show: false } })),
    hooks: { draw: [paint], setCursor: [read] },
  };
  const made = new uPlot(options, data, place);
  made.over.addEventListener("click", open);
  return made;
}

// The share of the height below zero in which failed and skipped refreshes are marked.
function lane(name) {
  return name === "staleness" && curve.marks.length ? 0.13 : 0;
}

function times(_, splits, __, ___, step) {
  const { clock } = curve;
  return splits.map((seconds) => {
    const at = new Date(seconds * 1000);
    const text = (step < 60 ? clock.second : clock.minute).format(at);
    return text.replace(/:00$/, "") === "00:00" || text === "00:00" || step >= 86400 ? clock.day.format(at) : text;
  });
}

function redraw() {
  if (!plots) return;
  colours = coloursOfLegend();
  for (const each of Object.values(plots)) each.redraw();
}

function resize() {
  for (const each of Object.values(plots ?? {})) {
    const width = each.root.parentElement.clientWidth;
    if (width && width !== each.width) each.setSize({ width, height: each.height });
  }
}

function paintStaleness(u) {
  const { ctx, bbox } = u;
  const bottom = u.valToPos(0, "y", true);
  const points = curve.staleness.at.map((at, number) => ({
    x: u.valToPos(at, "x", true),
    y: curve.staleness.seconds[number] === null ? null : u.valToPos(curve.staleness.seconds[number], "y", true),
    promise: u.valToPos(curve.staleness.promise[number], "y", true),
  }));
  ctx.save();
  ctx.beginPath();
  ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
  ctx.clip();
  for (const stretch of stretchesOf(points)) {
    const [line, area, above] = [new Path2D(), new Path2D(), new Path2D()];
    area.moveTo(stretch[0].x, bottom);
    above.moveTo(stretch[0].x, bbox.top - 1);
    stretch.forEach(({ x, y, promise }, number) => {
      if (number) line.lineTo(x, y);
      else line.moveTo(x, y);
      area.lineTo(x, y);
      above.lineTo(x, Math.max(promise, bbox.top - 1));
    });
    area.lineTo(stretch.at(-1).x, bottom);
    above.lineTo(stretch.at(-1).x, bbox.top - 1);
    fillAndStroke(ctx, area, line, colours.stale, 0.14);
    ctx.save();
    ctx.clip(above);
    fillAndStroke(ctx, area, line, colours.late, 0.35);
    ctx.restore();
    const promised = new Path2D();
    stretch.forEach(({ x, promise }, number) => (number ? promised.lineTo(x, promise) : promised.moveTo(x, promise)));
    ctx.strokeStyle = colours.promised;
    ctx.lineWidth = 1.25 * devicePixelRatio;
    ctx.setLineDash([5 * devicePixelRatio, 4 * devicePixelRatio]);
    ctx.stroke(promised);
    ctx.setLineDash([]);
  }
  paintLateHours(u);
  paintMarks(u);
  ctx.restore();
}

// The parts of the curve in which the staleness is known.
function stretchesOf(points) {
  const stretches = [];
  let current = [];
  for (const point of points) {
    if (point.y !== null) current.push(point);
    if (point.y === null || point === points.at(-1)) {
      if (current.length) stretches.push(current);
      current = [];
    }
  }
  return stretches;
}

function fillAndStroke(ctx, area, line, colour, alpha) {
  ctx.fillStyle = ctx.strokeStyle = colour;
  ctx.globalAlpha = alpha;
  ctx.fill(area);
  ctx.globalAlpha = 1;
  ctx.lineWidth = 1.5 * devicePixelRatio;
  ctx.lineJoin = "round";
  ctx.stroke(line);
}

function paintLateHours(u) {
  const { ctx, bbox } = u;
  ctx.fillStyle = colours["late-hours"];
  for (const hour of curve.late) {
    const left = u.valToPos(hour.from, "x", true);
    ctx.globalAlpha = 0.35 + 0.65 * Math.min(hour.seconds / 3600, 1);
    ctx.fillRect(left, bbox.top, Math.max(u.valToPos(hour.to, "x", true) - left, 2), 4 * devicePixelRatio);
  }
  ctx.globalAlpha = 1;
}

function paintMarks(u) {
  const { ctx, bbox } = u;
  const y = (u.valToPos(0, "y", true) + bbox.top + bbox.height) / 2 + devicePixelRatio;
  const size = 3.2 * devicePixelRatio;
  ctx.lineWidth = 1.75 * devicePixelRatio;
  // Failed refreshes last, so that they are on top.
  for (const status of ["SKIPPED", "FAILED"]) {
    ctx.strokeStyle = status === "FAILED" ? colours.failed : colours.skipped;
    ctx.globalAlpha = status === "FAILED" ? 1 : 0.7;
    for (const mark of curve.marks.filter((each) => each.status === status)) {
      const x = u.valToPos(mark.at, "x", true);
      ctx.beginPath();
      if (status === "FAILED") {
        ctx.moveTo(x - size, y - size);
        ctx.lineTo(x + size, y + size);
        ctx.moveTo(x + size, y - size);
        ctx.lineTo(x - size, y + size);
      } else {
        ctx.arc(x, y, size * 0.8, 0, 2 * Math.PI);
      }
      ctx.stroke();
    }
  }
  ctx.globalAlpha = 1;
}

function paintBars(u) {
  const { ctx, bbox } = u;
  const bottom = bbox.top + bbox.height;
  const width = barWidth(u);
  ctx.save();
  ctx.beginPath();
  ctx.rect(bbox.left, bbox.top - 2, bbox.width, bbox.height + 2);
  ctx.clip();
  for (const bar of curve.bars) {
    const right = u.valToPos(bar.at, "x", true);
    // A bar ends where its refresh did, but the first ones must not be cut off.
    const left = Math.max(right - width, bbox.left);
    const top = Math.min(u.valToPos(bar.seconds, "y", true), bottom - 2 * devicePixelRatio);
    const look = lookOf(bar);
    ctx.fillStyle = ctx.strokeStyle = colours[look === "failed" ? "failed-bar" : look];
    if (look === "failed") hatch(ctx, left, top, width, bottom - top);
    else if (look === "running") outline(ctx, left, top, width, bottom - top, [3, 2]);
    else fillSteps(u, bar, left, width, top, bottom);
    if (bar.failed && look !== "failed") {
      ctx.strokeStyle = colours["failed-bar"];
      outline(ctx, left, top, width, bottom - top, []);
    }
  }
  ctx.restore();
}

// Bars that stand next to each other do not overlap.
function barWidth(u) {
  const ends = curve.bars.map((bar) => u.valToPos(bar.at, "x", true));
  const gaps = ends.slice(1).map((end, number) => end - ends[number]).filter((gap) => gap > 0);
  const least = gaps.length ? Math.min(...gaps) : Infinity;
  return Math.max(Math.min(least - devicePixelRatio, 14 * devicePixelRatio), 2 * devicePixelRatio);
}

function fillSteps(u, bar, left, width, top, bottom) {
  const { ctx } = u;
  const known = Object.entries(bar.steps).filter(([step]) => step in STEPS);
  const total = known.reduce((sum, [, seconds]) => sum + seconds, 0);
  const height = bottom - top;
  let at = bottom;
  // What no step accounts for, such as the recording of the end, is at the top.
  for (const [step, seconds] of known) {
    const part = (seconds / Math.max(total, bar.seconds, 1e-9)) * height;
    ctx.globalAlpha = STEPS[step];
    ctx.fillRect(left, at - part, width, part);
    at -= part;
  }
  ctx.globalAlpha = known.length ? 0.45 : 1;
  if (at > top) ctx.fillRect(left, top, width, at - top);
  ctx.globalAlpha = 1;
}

function hatch(ctx, left, top, width, height) {
  const step = 4 * devicePixelRatio;
  ctx.save();
  ctx.beginPath();
  ctx.rect(left, top, width, height);
  ctx.clip();
  ctx.lineWidth = 1.25 * devicePixelRatio;
  ctx.beginPath();
  for (let x = left - height; x < left + width; x += step) {
    ctx.moveTo(x, top + height);
    ctx.lineTo(x + height, top);
  }
  ctx.stroke();
  ctx.restore();
  outline(ctx, left, top, width, height, []);
}

function outline(ctx, left, top, width, height, dash) {
  ctx.lineWidth = devicePixelRatio;
  ctx.setLineDash(dash.map((each) => each * devicePixelRatio));
  ctx.strokeRect(left + ctx.lineWidth / 2, top + ctx.lineWidth / 2, Math.max(width - ctx.lineWidth, 1), height - ctx.lineWidth / 2);
  ctx.setLineDash([]);
}

// ------------------------------------------------------------------------------------ what is at the cursor

function barAt(u) {
  if (u.cursor.left === null || u.cursor.left < 0 || !curve.bars.length) return null;
  const reach = Math.max(REACH, barWidth(u) / devicePixelRatio);
  const distance = (bar) => Math.abs(u.valToPos(bar.at, "x") - barWidth(u) / devicePixelRatio / 2 - u.cursor.left);
  const nearest = curve.bars.reduce((best, bar) => (distance(bar) < distance(best) ? bar : best));
  return distance(nearest) <= reach ? nearest : null;
}

function open(event) {
  // A finger only shows what is there; the text has the link.
  if (event.pointerType === "touch") return;
  const bar = barAt(plots.bars);
  if (bar) location.assign(section.dataset.runs + encodeURIComponent(bar.run));
}

function read(u) {
  if (!plots || u.cursor.left === null || u.cursor.left < 0) return;
  const at = u.posToVal(u.cursor.left, "x");
  const bar = barAt(u);
  for (const each of $$(".plot")) each.classList.toggle("can-open", bar !== null);
  const readout = $("[data-readout]");
  const time = document.createElement("span");
  time.className = "at";
  time.textContent = `${curve.clock.exact.format(new Date(at * 1000))} ${curve.zoneName}`;
  readout.replaceChildren(time, `: ${staleAt(at)}.`, ...(bar ? wordsOf(bar) : []));
  readout.hidden = false;
}

function staleAt(at) {
  const { at: ats, seconds, promise } = curve.staleness;
  const next = ats.findIndex((each) => each > at);
  const number = (next === -1 ? ats.length : next) - 1;
  if (number < 0 || seconds[number] === null) return "staleness unknown";
  const [from, to] = [number, Math.min(number + 1, ats.length - 1)];
  const known = seconds[to] !== null && ats[to] > ats[from];
  const slope = known ? (seconds[to] - seconds[from]) / (ats[to] - ats[from]) : 0;
  const stale = seconds[from] + slope * (at - ats[from]);
  const hour = curve.late.find((each) => each.from <= at && at < each.to);
  const late = hour ? `; in this hour it was late for ${span(hour.seconds)}${hour.fault ? `, because of the ${hour.fault}` : ""}` : "";
  return `${span(Math.round(stale))} stale, late from ${span(promise[from])} on${late}`;
}

function wordsOf(bar) {
  const link = document.createElement("a");
  link.href = section.dataset.runs + encodeURIComponent(bar.run);
  link.textContent = bar.batch === null ? "Refresh" : `Batch ${bar.batch}`;
  const what = [
    bar.status.toLowerCase(),
    bar.strategy,
    bar.rows === null ? null : `${bar.rows.toLocaleString("en")} ${bar.rows === 1 ? "row" : "rows"}`,
    span(bar.seconds),
  ].filter(Boolean);
  const steps = Object.entries(bar.steps).map(([step, seconds]) => `${step} ${span(seconds)}`);
  const others = bar.times > 1 ? `; one of ${bar.times} here${bar.failed ? `, ${bar.failed} failed` : ""}` : "";
  const detail = steps.length ? ` (${steps.join(", ")})` : "";
  return [" ", link, ` of ${curve.clock.second.format(new Date(bar.at * 1000))}: ${what.join(", ")}${detail}${others}.`];
}

function span(seconds) {
  if (seconds < 9.95) return `${Number(seconds.toFixed(seconds < 0.1 ? 2 : 1))} s`;
  let whole = Math.round(seconds);
  // An hour less a second is an hour.
  for (const [length, below] of [[3600, 60], [86400, 3600]]) if (whole >= length - 30) whole = Math.round(whole / below) * below;
  return spanText(whole);
}
