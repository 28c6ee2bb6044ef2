// The dialog of filters and columns; whatever is chosen stands in the address.

import { h, put } from "./dom.js";
import { words } from "./format.js";

const SOURCES = { kind: "kinds", trouble: "kinds", cause: "causes", severity: "severities", team: "teams" };
const NAMES = { trouble: "Trouble", kind: "Kind", cause: "Cause", severity: "Severity", team: "Team", state: "State" };

export const select = (name, values, chosen, extra = {}) =>
  h("select", { name, ...extra }, [["", "any"], ...values.map((value) => [value, words(value)])].map(([value, text]) =>
    h("option", { value, selected: value === chosen }, text)));

// Chips of what is chosen, each with the way to leave it out.
export const chosen = (params, names, address) => names.filter((name) => params.get(name)).map((name) =>
  h("a", { class: "filter", href: address(name), "data-link": true, "aria-current": true, "aria-label": `${NAMES[name]} ${words(params.get(name))}: remove` },
    `${NAMES[name].toLowerCase()}: ${words(params.get(name))} ✕`));

// Asks what to show: `names` of filters, and of `columns` those that are `shown`. Calls `apply` with the choice.
export async function choose(app, names, { columns = [], shown = [], apply }) {
  const choices = await app.ask("choices");
  const open = names.filter((name) => name !== "team" || choices.teams.length > 0 || app.params.get("team"));
  const dialog = h("dialog", { "aria-labelledby": "filters-title", id: "filters" });
  const form = h("form", { method: "dialog", onsubmit: (event) => {
    if (event.submitter?.value === "close") return;
    const given = new FormData(form);
    const picked = event.submitter?.value === "clear" ? Object.fromEntries(open.map((name) => [name, ""])) : Object.fromEntries(open.map((name) => [name, given.get(name)]));
    apply(picked, given.getAll("column"));
  } });
  put(form, h("h2", { id: "filters-title" }, columns.length ? "Filters and columns" : "Filters"),
    open.map((name) => h("label", {}, NAMES[name], select(name, choices[SOURCES[name]] ?? [], app.params.get(name) ?? ""))),
    columns.length > 0 && h("fieldset", { class: "columns" }, h("legend", {}, "Columns"), columns.map(([key, text]) =>
      h("label", {}, h("input", { type: "checkbox", name: "column", value: key, checked: shown.includes(key) }), text))),
    h("p", { class: "row end" }, h("button", { class: "button", value: "close", formnovalidate: true }, "Close"),
      h("button", { class: "button", value: "clear" }, "Clear filters"), h("button", { class: "button primary", value: "apply" }, "Apply")));
  dialog.append(form);
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
}
