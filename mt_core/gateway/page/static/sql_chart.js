// The chart of a result: its numbers over its first instant or, if it has none, over its first number.

import { isDark } from "./page.js";

// For light and dark; every second line is dashed as well.
const COLOURS = [
  ["#0f6b64", "#5cc7bd"], ["#1c5fa8", "#8cbdf0"], ["#8a5300", "#f3b75f"],
  ["#6b3fa0", "#c3a6f0"], ["#5a626a", "#9ca5ae"], ["#a01c58", "#ff8fbd"],
];
const HEIGHT = 320;
// The texts of an axis of time, from the widest ticks to the narrowest; days and years only where they change.
const TIMES = [
  [31536000, "{YYYY}", null, null, null, null, null, null, 1],
  [2419200, "{MMM}", "\n{YYYY}", null, null, null, null, null, 1],
  [86400, "{D} {MMM}", "\n{YYYY}", null, null, null, null, null, 1],
  [60, "{HH}:{mm}", "\n{D} {MMM} {YYYY}", null, "\n{D} {MMM}", null, null, null, 1],
  [1, "{HH}:{mm}:{ss}", "\n{D} {MMM} {YYYY}", null, "\n{D} {MMM}", null, null, null, 1],
  [0.001, ":{ss}.{fff}", "\n{D} {MMM} {YYYY} {HH}:{mm}", null, "\n{D} {MMM} {HH}:{mm}", null, "\n{HH}:{mm}", null, 1],
];
let chart = null;

function draw(room, drawing) {
  const line = isDark() ? "#2e343a" : "#dcdeda", ink = isDark() ? "#9ca5ae" : "#5a626a";
  const axes = { stroke: ink, grid: { stroke: line, width: 1 }, ticks: { stroke: line, width: 1 } };
  const few = drawing.x.values.length <= 200;
  chart = new window.uPlot({
    width: room.clientWidth - 36,
    height: HEIGHT,
    scales: { x: { time: drawing.is_time } },
    // Instants without a zone are drawn as they are written.
    tzDate: (seconds) => window.uPlot.tzDate(new Date(seconds * 1000), "Etc/UTC"),
    series: [{ label: drawing.x.name, ...(drawing.is_time ? { value: "{YYYY}-{MM}-{DD} {HH}:{mm}:{ss}" } : {}) }, ...drawing.series.map((each, number) => ({
      label: each.name,
      stroke: COLOURS[number][isDark() ? 1 : 0],
      width: 1.5,
      dash: number % 2 ? [6, 3] : undefined,
      points: { show: few, size: 5 },
    }))],
    axes: [drawing.is_time ? { ...axes, values: TIMES } : axes, { ...axes, size: 70 }],
  }, [drawing.x.values, ...drawing.series.map((each) => each.values)], room);
  if (drawing.rows < drawing.total) {
    const note = document.createElement("p");
    note.className = "muted";
    note.textContent = `The first ${drawing.rows.toLocaleString("en")} of ${drawing.total.toLocaleString("en")} rows.`;
    room.append(note);
  }
}

function clear(room) {
  chart?.destroy();
  chart = null;
  room.replaceChildren();
}

async function toggle(button) {
  const room = document.querySelector("#chart");
  if (!room.hidden) {
    clear(room);
    room.hidden = true;
    button.setAttribute("aria-expanded", "false");
    button.textContent = "Show chart";
    return;
  }
  button.disabled = true;
  try {
    const answer = await fetch(button.dataset.chart);
    room.hidden = false;
    button.setAttribute("aria-expanded", "true");
    button.textContent = "Hide chart";
    if (answer.ok && window.uPlot) draw(room, await answer.json());
    else room.textContent = "These rows are no longer here; run the statement again.";
  } catch {
    room.hidden = false;
    room.textContent = "The gateway did not answer.";
  } finally {
    button.disabled = false;
  }
}

document.addEventListener("click", (event) => {
  const button = event.target.closest("button[data-chart]");
  if (button) toggle(button);
});

document.addEventListener("freshtable:theme", () => {
  const button = document.querySelector("button[data-chart][aria-expanded='true']");
  if (button) toggle(button).then(() => toggle(button));
});

addEventListener("resize", () => {
  const room = document.querySelector("#chart");
  if (chart && room) chart.setSize({ width: room.clientWidth - 36, height: HEIGHT });
});
