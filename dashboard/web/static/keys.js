// Keys: what a person who never leaves the keyboard needs.

import { by, h, put } from "./dom.js";

const KEYS = [
  ["/", "find"], ["j k ↓ ↑", "next, previous row"], ["Enter", "open the row"], ["← →", "generations of a timeline, pages of a table"],
  ["g", "all groups"], ["i", "incidents"], ["h", "history"], ["t", "go back in time"], ["d", "dark or light"], ["z", "UTC or your time zone"],
  ["f", "filters and columns"], ["s", "silence this incident"],
  ["Esc", "leave a field, go back"], ["?", "this list"],
];

// A dialog that has just been closed may hold the focus until the next frame.
const isField = (element) => element.matches?.("input, select, textarea, [contenteditable]") && !element.closest("dialog:not([open])");

export function listen(actions) {
  put(by("keys"), KEYS.map(([key, what]) => [h("dt", {}, key.split(" ").map((one) => h("kbd", {}, one))), h("dd", {}, what)]));
  document.addEventListener("keydown", (event) => {
    if (event.metaKey || event.ctrlKey || event.altKey || document.querySelector("dialog[open]")) return;
    if (isField(event.target)) {
      if (event.key === "Escape") event.target.blur();
      return;
    }
    if (press(event.key, actions)) event.preventDefault();
  });
}

function press(key, actions) {
  switch (key) {
    case "/": by("search").focus(); by("search").select(); return true;
    case "?": by("help").showModal(); return true;
    case "d": actions.theme(); return true;
    case "t": actions.when(); return true;
    case "z": actions.zone(); return true;
    case "f": return Boolean(actions.view()?.filters?.());
    case "s": return Boolean(actions.view()?.silence?.());
    case "g": actions.go("?"); return true;
    case "i": actions.go("?view=incidents"); return true;
    case "h": actions.go("?view=findings"); return true;
    case "j": case "ArrowDown": return move(1);
    case "k": case "ArrowUp": return move(-1);
    case "Escape": if (location.search) history.back(); return true;
    case "ArrowLeft": return Boolean(actions.view()?.side?.(-1));
    case "ArrowRight": return Boolean(actions.view()?.side?.(1));
    default: return false;
  }
}

// Moves the focus along the links of rows.
function move(step) {
  const rows = [...document.querySelectorAll("a.row-link")];
  if (rows.length === 0) return false;
  const here = rows.indexOf(document.activeElement);
  const next = here < 0 ? (step > 0 ? 0 : rows.length - 1) : Math.max(0, Math.min(rows.length - 1, here + step));
  rows[next].focus();
  rows[next].scrollIntoView({ block: "nearest" });
  return true;
}
