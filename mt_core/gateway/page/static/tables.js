// The list of tables: keys for its rows, its place while rows come and go, and its address.

const rows = () => [...document.querySelectorAll("#rows a.row")];

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
  if (event.key !== "j" && event.key !== "k") return;
  if (event.target.closest("input, textarea, select, dialog")) return;
  const links = rows();
  const at = links.indexOf(document.activeElement);
  const to = at < 0 ? 0 : Math.max(0, Math.min(links.length - 1, at + (event.key === "j" ? 1 : -1)));
  links[to]?.focus();
  event.preventDefault();
});

// The rows are replaced while someone may be copying from them.
document.addEventListener("htmx:beforeRequest", (event) => {
  const part = event.detail.elt;
  const selection = getSelection();
  if (part.id === "rows" && !selection.isCollapsed && selection.containsNode(part, true)) event.preventDefault();
});

// When the window into the list moves, the row that was at the top of the screen stays where it was.
let anchor = null;

document.addEventListener("htmx:beforeSwap", (event) => {
  if (!event.detail.requestConfig.elt.matches("[data-anchor]")) return;
  const row = rows().find((each) => each.getBoundingClientRect().top >= 0);
  anchor = row ? { id: row.id, top: row.getBoundingClientRect().top } : null;
});

document.addEventListener("htmx:afterSwap", (event) => {
  const row = anchor && document.getElementById(anchor.id);
  if (row) scrollBy({ top: row.getBoundingClientRect().top - anchor.top, behavior: "instant" });
  anchor = null;
  const config = event.detail.requestConfig;
  if (config.elt.matches("[data-anchor], #filters")) {
    const address = new URL(event.detail.pathInfo.finalRequestPath, location.href);
    for (const [name, text] of [...address.searchParams]) if (!text) address.searchParams.delete(name);
    history.replaceState(history.state, "", address);
  }
});
