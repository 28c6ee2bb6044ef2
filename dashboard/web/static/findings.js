// History: every event that is retained, searched and paged; each opens to all fields of its findings.

import { add, h, put } from "./dom.js";
import { select } from "./filters.js";
import { counted, fromLocal, host, local, moment, number, utc, words } from "./format.js";
import { causes, empty, eventLine, panel } from "./parts.js";

const HIDDEN = new Set(["causes", "members", "schema", "groups", "topics", "details"]);

export async function findings(app, params) {
  const query = Object.fromEntries(["group", "kind", "severity", "cause", "team", "search", "since", "until"].map((name) => [name, params.get(name) ?? ""]));
  if (app.at !== null && !query.until) query.until = String(app.at);
  const list = h("ol", { class: "feed wide" });
  const more = h("p", { class: "row" });
  const now = () => app.at ?? app.now();
  // An event at the edge of two pages is on both; an incident's opening may lie many pages before its end.
  const known = new Set();
  const incidents = new Set();
  const fill = (page) => {
    const findings = new Map(page.findings.map((one) => [one.id, one]));
    const rows = page.rows.filter((one) => one.findings.some((id) => !known.has(id)) && !incidents.has(one.incident));
    page.rows.forEach((one) => {
      one.findings.forEach((id) => known.add(id));
      if (one.incident) incidents.add(one.incident);
    });
    add(list, rows.map((one) => row(one, one.findings.map((id) => findings.get(id)).filter(Boolean), now())));
    put(more, page.next ? h("button", { class: "button", type: "button", onclick: async () => fill(await app.ask("history", { ...query, before: page.next })) }, "Older") : h("span", { class: "quiet" }, list.children.length ? `${counted(known.size, "finding")} in ${counted(list.children.length, "event")}. There are no older ones.` : ""));
    if (list.children.length === 0) put(more, empty("No finding matches."));
  };
  const [page, choices] = await Promise.all([app.ask("history", query), app.ask("choices")]);
  fill(page);
  const root = h("div", { class: "history" },
    h("div", { class: "title" }, h("h1", {}, "History"), h("p", { class: "quiet" }, page.source === "table" ? "Everything that the findings table retains, newest first, one row for each event." : "The newest findings in memory; the table is switched off.")),
    form(app, query, choices), panel(null, {}, list, more));
  return { title: "History", root };
}

function form(app, query, choices) {
  const field = (name, text, element) => h("label", { class: `field f-${name}` }, text, element);
  const input = (name, type, extra = {}) => h("input", { name, type, value: query[name], autocomplete: "off", spellcheck: "false", ...extra });
  const one = (name, values) => select(name, values, query[name]);
  const time = (name) => h("input", { name, type: "datetime-local", step: "1", value: query[name] ? local(Number(query[name])) : "" });
  return h("form", { class: "panel form", onsubmit: (event) => {
    event.preventDefault();
    const given = Object.fromEntries(new FormData(event.target));
    const at = (text) => (text ? String(fromLocal(text)) : "");
    app.go({ view: "findings", ...given, since: at(given.since), until: at(given.until) });
  } },
    field("group", "Group, exactly", input("group", "text")), field("search", "Any name in it", input("search", "search")),
    field("kind", "Kind", one("kind", choices.kinds)), field("cause", "Cause", one("cause", choices.causes)), field("severity", "Severity", one("severity", choices.severities)),
    (choices.teams.length > 0 || query.team) && field("team", "Team", one("team", choices.teams)),
    field("since", "From", time("since")), field("until", "Until", time("until")), h("button", { class: "button primary" }, "Search"));
}

function row(one, findings, now) {
  const item = eventLine(one, now);
  const box = h("details", {});
  add(box, [h("summary", {}, findings.length > 1 ? `${number(findings.length)} findings` : "all fields")]);
  box.addEventListener("toggle", () => { if (box.open && box.children.length === 1) add(box, findings.map((told) => [findings.length > 1 && h("h4", {}, `${words(told.kind)}${told.phase ? ` ${told.phase}` : ""}`), fields(told)])); });
  item.append(box);
  return item;
}

function fields(one) {
  const shown = Object.entries(one).filter(([name, value]) => !HIDDEN.has(name) && value !== null && value !== "");
  const value = (name, given) => (/(^at|_at|_at_min|_at_max)$/.test(name) && given > 0 ? `${moment(given)} (${utc(given)})` : typeof given === "object" ? JSON.stringify(given) : String(given));
  return h("div", { class: "fields" }, one.causes.length > 0 && causes(one.causes, { full: true }),
    h("dl", { class: "facts many" }, shown.map(([name, given]) => h("div", {}, h("dt", {}, name), h("dd", { class: "mono" }, value(name, given)))),
      Object.entries(one.details).map(([name, given]) => h("div", {}, h("dt", {}, `details.${name}`), h("dd", { class: "mono" }, String(given))))),
    one.members.length > 0 && h("p", { class: "mono quiet" }, one.members.map((member) => `${member.role}: ${member.instance_id || member.client_id} ${host(member.host)} (${member.member_id})`).join("\n")));
}
