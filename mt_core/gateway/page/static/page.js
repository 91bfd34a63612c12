// What every page does: theme, keys, ages that tick, parts that are updated, dialogs and copying.

const base = document.documentElement.dataset.base;
const $ = (selector, root = document) => root.querySelector(selector);
const $$ = (selector, root = document) => [...root.querySelectorAll(selector)];

// ---------------------------------------------------------------------------------------------- theme

export function isDark() {
  const { theme } = document.documentElement.dataset;
  return theme ? theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

$("[data-theme-switch]")?.addEventListener("click", () => {
  const theme = isDark() ? "light" : "dark";
  document.documentElement.dataset.theme = theme;
  localStorage.setItem("freshtable-theme", theme);
  document.dispatchEvent(new CustomEvent("freshtable:theme"));
});

// ----------------------------------------------------------------------------------------------- ages

const UNITS = [["d", 86400, "h", 3600], ["h", 3600, "min", 60], ["min", 60, "s", 1]];

export function spanText(seconds) {
  for (const [unit, length, part, below] of UNITS) {
    if (seconds >= length) {
      const rest = Math.floor((seconds % length) / below);
      return `${Math.floor(seconds / length)} ${unit}${rest ? ` ${rest} ${part}` : ""}`;
    }
  }
  return `${seconds} s`;
}

// The clock of the gateway, from which the one of this machine may differ.
const ahead = Date.parse(document.documentElement.dataset.now) - Date.now();
const now = () => Date.now() + ahead;

setInterval(() => {
  if (document.hidden) return;
  for (const each of $$("time.age")) {
    const text = spanText(Math.max(0, Math.floor((now() - Date.parse(each.dateTime)) / 1000)));
    if (each.textContent !== text) each.textContent = text;
  }
}, 1000);

// -------------------------------------------------------------------------------------- updated parts

const due = new Map();
const noAnswer = $("#no-answer");
let lastAnswer = new Date();

function isBusy(part) {
  // Do not replace what a person works with: an open menu, a form that is being filled in.
  return part.contains(document.activeElement) && document.activeElement.matches("input, textarea, select")
    || $("details[open]", part) !== null;
}

setInterval(() => {
  if (document.hidden || !window.htmx) return;
  for (const part of $$("[data-every]")) {
    const at = due.get(part.id) ?? Date.now() + 1000 * part.dataset.every;
    due.set(part.id, at);
    if (Date.now() >= at && !isBusy(part)) {
      due.set(part.id, Date.now() + 1000 * part.dataset.every);
      window.htmx.trigger(part, "poll");
    }
  }
}, 250);

// A part that has not changed is not sent again.
document.addEventListener("htmx:configRequest", (event) => {
  const { version } = event.detail.elt.dataset;
  if (version !== undefined) event.detail.parameters.since = version;
});

document.addEventListener("visibilitychange", () => {
  if (!document.hidden) due.clear();
});

document.addEventListener("htmx:afterRequest", (event) => {
  const status = event.detail.xhr?.status ?? 0;
  // A request that was given up, because its part was replaced meanwhile, has no status and no fault.
  if (!status) return;
  if (status === 401) return say("You are no longer signed in; reload the page.");
  if (status === 404 && event.detail.elt?.dataset?.every) return say("This no longer exists; reload the page.");
  if (status >= 500) return sayNoAnswer();
  lastAnswer = new Date();
  noAnswer.hidden = true;
  document.body.classList.remove("stale");
});
document.addEventListener("htmx:sendError", sayNoAnswer);
document.addEventListener("htmx:timeout", sayNoAnswer);

function sayNoAnswer() {
  say(`No answer from the gateway since ${lastAnswer.toLocaleTimeString()}. What you see may be out of date.`);
}

function say(text) {
  if (noAnswer.textContent !== text) noAnswer.textContent = text;
  noAnswer.hidden = false;
  document.body.classList.add("stale");
}

// ------------------------------------------------------------------------------------- dialogs, copies

const action = $("#action");

async function openDialog(address) {
  const answer = await fetch(address, { headers: { "HX-Request": "true", "HX-Target": "dialog" } });
  if (!answer.ok) {
    location.assign(address);
    return;
  }
  action.innerHTML = await answer.text();
  action.showModal();
  $("[autofocus], button, input", action)?.focus();
}

document.addEventListener("click", (event) => {
  const link = event.target.closest("a[data-dialog]");
  if (link && !event.ctrlKey && !event.metaKey && !event.shiftKey) {
    event.preventDefault();
    openDialog(link.href).catch(() => location.assign(link.href));
  }
  if (event.target.closest("[data-close]") && action.open) {
    event.preventDefault();
    action.close();
  }
  const copy = event.target.closest("[data-copy]");
  if (copy) copyText(copy, $(copy.dataset.copy)?.textContent ?? "");
  if (event.target.closest("[data-keys]")) $("#keys").showModal();
  if (event.target === action) action.close();
});

// A form is sent once, however often its button is pressed.
document.addEventListener("submit", (event) => {
  if (event.target.method !== "post") return;
  if (event.target.dataset.sent) event.preventDefault();
  event.target.dataset.sent = "yes";
});
addEventListener("pageshow", () => $$("form[data-sent]").forEach((form) => delete form.dataset.sent));

async function copyText(button, text) {
  const before = button.textContent;
  try {
    await navigator.clipboard.writeText(text.trim());
    button.textContent = "Copied";
  } catch {
    button.textContent = "Select and copy it";
  }
  setTimeout(() => { button.textContent = before; }, 1500);
}

// ----------------------------------------------------------------------------------------------- keys

const PAGES = { t: "/", g: "/graph", j: "/jobs", s: "/sql", a: "/gateway" };
let afterG = 0;

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
  if (event.target.closest("input, textarea, select, [contenteditable], .CodeMirror, dialog")) return;
  if (afterG && Date.now() - afterG < 1500 && event.key in PAGES) {
    location.assign(base + PAGES[event.key]);
  } else if (event.key === "/" && $("[data-search]")) {
    $("[data-search]").focus();
  } else if (event.key === "?") {
    $("#keys").showModal();
  } else if (event.key === "r" && $("a[data-key='r']")) {
    $("a[data-key='r']").click();
  } else {
    afterG = event.key === "g" ? Date.now() : 0;
    return;
  }
  afterG = 0;
  event.preventDefault();
});
