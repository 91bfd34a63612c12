// The editor: CodeMirror over the text field if the gateway has it, completion, keys, and the history of the tab.

const HISTORY = "freshtable-sql-history", SESSION = "freshtable-sql-session";
const MOST_ENTRIES = 50, LONGEST_ENTRY = 100_000, MOST_OFFERED = 200;

const form = document.querySelector("#editor");
const field = document.querySelector("#statement");
const history = document.querySelector("#history");
const editor = window.CodeMirror ? withCodeMirror() : null;

// ------------------------------------------------------------------------------------------------ text

function text() {
  return editor ? editor.getValue() : field.value;
}

function setText(value) {
  if (editor) {
    editor.setValue(value);
    editor.setCursor(editor.lineCount(), 0);
    editor.focus();
  } else {
    field.value = value;
    field.focus();
  }
}

function run() {
  if (editor) editor.save();
  form.requestSubmit();
}

function withCodeMirror() {
  const made = window.CodeMirror.fromTextArea(field, {
    mode: "text/x-sparksql",
    lineNumbers: true,
    lineWrapping: true,
    tabSize: 2,
    viewportMargin: 50,
    autofocus: field.autofocus,
    placeholder: field.placeholder,
    screenReaderLabel: "Statements, separated by semicolons",
    extraKeys: {
      "Ctrl-Enter": run,
      "Cmd-Enter": run,
      "Ctrl-Space": complete,
      // The key moves on to the button, as in every form; a person without a mouse must get out of the editor.
      Tab: false,
      "Shift-Tab": false,
      "Alt-Up": () => step(1),
      "Alt-Down": () => step(-1),
    },
  });
  made.setCursor(made.lineCount(), 0, { scroll: false });
  made.on("change", () => made.save());
  made.on("inputRead", (_, change) => {
    if (/^[\p{L}\p{N}_.`]$/u.test(change.text.join("")) && made.showHint && !made.state.completionActive) complete();
  });
  return made;
}

if (!editor) {
  field.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      run();
    }
  });
}

// ------------------------------------------------------------------------------------------ completion

let asked = 0;

function complete() {
  const container = document.querySelector("main");
  editor.showHint?.({ hint: candidates, completeSingle: false, container, closeCharacters: /[\s();,]/ });
}

async function candidates(cm) {
  const number = ++asked, cursor = cm.getCursor();
  const before = cm.getRange({ line: 0, ch: 0 }, cursor);
  const body = new URLSearchParams({
    csrf: form.elements.csrf.value,
    statement: cm.getValue(),
    // The gateway counts characters, JavaScript counts units of UTF-16.
    position: [...before].length,
  });
  let answer;
  try {
    answer = await fetch(form.dataset.complete, { method: "POST", body });
  } catch {
    return null;
  }
  if (!answer.ok || number !== asked) return null;
  const { length, candidates: words } = await answer.json();
  const word = [...before].slice([...before].length - length).join("");
  const from = { line: cursor.line, ch: Math.max(0, cursor.ch - word.length) };
  const list = words.filter((each) => each !== word).slice(0, MOST_OFFERED);
  if (!list.length) return null;
  const offered = { list, from, to: cursor };
  window.CodeMirror.on(offered, "shown", () => {
    document.querySelector(".CodeMirror-hints")?.setAttribute("aria-label", "Completions");
  });
  return offered;
}

// --------------------------------------------------------------------------------------------- history

let place = -1, unsent = "";

function entries() {
  try {
    return JSON.parse(sessionStorage.getItem(HISTORY)) ?? [];
  } catch {
    return [];
  }
}

function remember(entry) {
  if (!entry.trim() || entry.length > LONGEST_ENTRY) return;
  const others = entries().filter((each) => each !== entry);
  try {
    sessionStorage.setItem(HISTORY, JSON.stringify([entry, ...others].slice(0, MOST_ENTRIES)));
  } catch {
    // The browser stores no more for this page; a statement runs without a history, too.
  }
  showHistory();
}

function showHistory() {
  const list = history.querySelector("ol");
  list.replaceChildren(...entries().map((entry) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = entry.replace(/\s+/g, " ").slice(0, 160);
    button.title = entry.slice(0, 1000);
    button.addEventListener("click", () => {
      history.open = false;
      setText(entry);
    });
    const item = document.createElement("li");
    item.append(button);
    return item;
  }));
  history.hidden = !list.children.length;
}

function step(by) {
  const every = entries();
  if (place < 0) unsent = text();
  place = Math.min(Math.max(place + by, -1), every.length - 1);
  setText(place < 0 ? unsent : every[place]);
}

document.addEventListener("keydown", (event) => {
  if (event.key === "Escape" && history?.open) history.open = false;
});

// ------------------------------------------------------------------------------------------------- run

// What was submitted last: the page that shows it says whether it may be remembered.
let submitted = null;

// A form that was refused leaves the text in the editor, and in the history for after a reload.
function refused(event) {
  const shown = document.querySelector("#run");
  if (event.detail.requestConfig?.verb !== "post") return;
  const note = document.createElement("p");
  note.className = "note failing";
  note.role = "alert";
  note.textContent = event.detail.xhr.responseText;
  shown.replaceChildren(note);
  if (event.detail.elt === form && submitted !== null) remember(submitted);
  submitted = null;
}

// Where the rows of a running query have been scrolled to; they are replaced as more arrive.
let scrolled = null;

function beforeSwap(event) {
  if (event.detail.target?.id !== "run" || event.detail.requestConfig?.verb !== "get") return;
  const selection = getSelection();
  if (!selection.isCollapsed && event.detail.target.contains(selection.anchorNode)) {
    // Somebody is copying from the rows.
    event.detail.shouldSwap = false;
    return;
  }
  const rows = document.querySelector("#rows");
  scrolled = rows && [rows.scrollLeft, rows.scrollTop];
}

function arrived() {
  const shown = document.querySelector("#run");
  if (!shown) return;
  if (scrolled) document.querySelector("#rows")?.scrollTo(...scrolled);
  scrolled = null;
  const { address, session, remember: may } = shown.dataset;
  if (address) {
    // The page of a script knows the session; an empty editor does not know what a restart has ended.
    form.elements.session.value = session;
    sessionStorage.setItem(SESSION, session);
    if (location.pathname !== address) window.history.replaceState(null, "", address);
    if (may && submitted !== null) remember(submitted);
    submitted = null;
  } else if (!form.elements.session.value) {
    form.elements.session.value = sessionStorage.getItem(SESSION) ?? "";
  }
}

if (form) {
  form.addEventListener("submit", () => {
    submitted = text();
    place = -1;
  });
  // The editor stays when only the results are replaced, so its form can be sent again.
  document.addEventListener("htmx:afterRequest", (event) => {
    if (event.detail.elt === form) delete form.dataset.sent;
  });
  document.addEventListener("htmx:beforeSwap", beforeSwap);
  document.addEventListener("htmx:responseError", refused);
  document.addEventListener("htmx:afterSwap", arrived);
  const shown = document.querySelector("#run");
  if (shown?.dataset.remember) remember(field.value);
  showHistory();
  arrived();
}
