// History: every finding that is retained, searched and paged; each opens to all its fields.

import { add, h, put } from "./dom.js";
import { local, moment, number, utc, words } from "./format.js";
import { causes, empty, line, panel } from "./parts.js";

const KINDS = ["rebalance", "rebalance_failed", "rebalance_in_progress", "rebalance_stuck", "session_timeout", "poll_interval_exceeded", "member_silent", "storm", "rolling_restart", "static_member_replaced",
  "group_migrated", "group_removed", "coordinator_moved", "group_empty", "offsets_expiring", "slow_sync", "assignment_skewed", "partitions_unassigned", "group_too_large", "unreadable_records", "monitor_degraded"];
const HIDDEN = new Set(["causes", "members", "schema", "groups", "topics", "details"]);

export async function findings(app, params) {
  const query = Object.fromEntries(["group", "kind", "severity", "search", "since", "until"].map((name) => [name, params.get(name) ?? ""]));
  if (app.at !== null && !query.until) query.until = String(app.at);
  const list = h("ol", { class: "feed wide" });
  const more = h("p", { class: "row" });
  const now = () => app.at ?? app.now();
  const fill = (page) => {
    add(list, page.rows.map((one) => row(one, now())));
    put(more, page.next ? h("button", { class: "button", type: "button", onclick: async () => fill(await app.ask("findings", { ...query, before: page.next })) }, "Older") : h("span", { class: "quiet" }, list.children.length ? `${number(list.children.length)} findings; that is all.` : ""));
    if (list.children.length === 0) put(more, empty("No finding fits."));
  };
  const page = await app.ask("findings", query);
  fill(page);
  const root = h("div", { class: "history" },
    h("div", { class: "title" }, h("h1", {}, "History"), h("p", { class: "quiet" }, page.source === "table" ? "Every finding that the table retains, newest first." : "The newest findings in memory; the table is switched off.")),
    form(app, query), panel(null, {}, list, more));
  return { title: "History", root };
}

function form(app, query) {
  const field = (name, text, element) => h("label", { class: `field f-${name}` }, text, element);
  const input = (name, type, extra = {}) => h("input", { name, type, value: query[name], autocomplete: "off", spellcheck: "false", ...extra });
  const select = (name, values) => h("select", { name }, ["", ...values].map((value) => h("option", { value, selected: value === query[name] }, value ? words(value) : "any")));
  const time = (name) => h("input", { name, type: "datetime-local", step: "1", value: query[name] ? local(Number(query[name])) : "" });
  return h("form", { class: "panel form", onsubmit: (event) => {
    event.preventDefault();
    const given = Object.fromEntries(new FormData(event.target));
    const at = (text) => (text ? String(new Date(text).getTime()) : "");
    app.go({ view: "findings", ...given, since: at(given.since), until: at(given.until) });
  } },
    field("group", "Group, exactly", input("group", "text")), field("search", "Any name in it", input("search", "search")),
    field("kind", "Kind", select("kind", KINDS)), field("severity", "Severity", select("severity", ["critical", "warning", "info"])),
    field("since", "From", time("since")), field("until", "Until", time("until")), h("button", { class: "button primary" }, "Search"));
}

function row(one, now) {
  const item = line(one, now);
  const box = h("details", {});
  add(box, [h("summary", {}, "all fields")]);
  box.addEventListener("toggle", () => { if (box.open && box.children.length === 1) add(box, [fields(one)]); });
  item.append(box);
  return item;
}

function fields(one) {
  const shown = Object.entries(one).filter(([name, value]) => !HIDDEN.has(name) && value !== null && value !== "");
  const value = (name, given) => (/(^at|_at|_at_min|_at_max)$/.test(name) && given > 0 ? `${moment(given)} (${utc(given)})` : typeof given === "object" ? JSON.stringify(given) : String(given));
  return h("div", { class: "fields" }, one.causes.length > 0 && causes(one.causes, { full: true }),
    h("dl", { class: "facts many" }, shown.map(([name, given]) => h("div", {}, h("dt", {}, name), h("dd", { class: "mono" }, value(name, given)))),
      Object.entries(one.details).map(([name, given]) => h("div", {}, h("dt", {}, `details.${name}`), h("dd", { class: "mono" }, String(given))))),
    one.members.length > 0 && h("p", { class: "mono quiet" }, one.members.map((member) => `${member.role}: ${member.instance_id || member.client_id} ${member.host} (${member.member_id})`).join("\n")));
}
