// Incidents: the list, and the page of one, which alerts link to.

import { h, href, link, put } from "./dom.js";
import { ago, causeTone, counted, duration, host, moment, number, share, tone, utc, words } from "./format.js";
import { choose, chosen } from "./filters.js";
import { lanes } from "./lanes.js";
import { causes, chip, empty, eventLine, incidentCard, line, meter, panel, since, told } from "./parts.js";
import { notifications, silences } from "./silence.js";

const FILTERS = ["kind", "severity", "cause", "team"];
const GENERATIONS = new Set(["rebalance", "rebalance_failed"]);

export async function incidents(app, params) {
  const ask = () => app.get("incidents", { ...Object.fromEntries(["state", ...FILTERS].map((name) => [name, params.get(name)])), limit: 200 });
  const root = h("div", { class: "incidents" });
  const held = app.at === null ? await silences(app) : null;
  const filters = () => {
    choose(app, FILTERS, { apply: (picked) => app.go({ view: "incidents", state: params.get("state"), ...picked }) }).catch((error) => app.say(error.message));
    return true;
  };
  const without = (name) => href({ ...Object.fromEntries(params), [name]: "" });
  const draw = (page) => {
    const now = app.at ?? app.now();
    const open = page.rows.filter((one) => one.closed_at === null);
    const closed = page.rows.filter((one) => one.closed_at !== null);
    put(root, h("div", { class: "title" }, h("h1", {}, "Incidents"), h("p", { class: "quiet" }, `${number(page.open)} open. An incident is one storm, one stuck rebalance, one silent member … from its opening to its end.`),
        h("div", { class: "filters", role: "group", "aria-label": "Filters" }, chosen(params, FILTERS, without), h("button", { class: "filter", type: "button", title: "Filters (f)", "aria-haspopup": "dialog", onclick: filters }, "Filters …"))),
      panel("Open", {}, open.length ? h("ul", { class: "cards" }, open.map((one) => incidentCard(one, now))) : empty("Nothing is open.")),
      held, panel("Closed lately", {}, closed.length ? h("ul", { class: "cards" }, closed.map((one) => incidentCard(one, now))) : empty("None.")));
  };
  const page = await ask();
  draw(page);
  let waiting = 0;
  return {
    title: "Incidents",
    root,
    filters,
    leave: () => clearTimeout(waiting),
    change() {
      if (!waiting) waiting = setTimeout(async () => { waiting = 0; draw(await ask()); }, 2000);
    },
  };
}

export async function incident(app, params) {
  const id = params.get("incident");
  const ask = () => app.ask("incident", { id });
  const root = h("div", { class: "incident-view" });
  let seen = await ask();
  const chart = timeline(app, root);
  const notices = notifications(app, seen.incident);
  const draw = () => {
    put(root, ...page(seen, app, chart.root, notices.root));
    chart.fill(seen.incident);
  };
  draw();
  if (params.has("silence") && app.at === null) {
    // A message leads here: asked once, not again when the page is drawn anew.
    const address = new URL(location.href);
    address.searchParams.delete("silence");
    history.replaceState(null, "", address);
    notices.silence();
  }
  let waiting = 0;
  return {
    title: `${words(seen.incident.kind)} ${seen.incident.group ?? ""}`,
    root,
    leave: () => clearTimeout(waiting),
    side: (step) => chart.step(step),
    silence: notices.silence,
    change(event, data) {
      const { group } = seen.incident;
      const told = () => (group === null ? data.others : data.rows.some((row) => row.group === group));
      const mine = event === "reset" || told() || data.removed.includes(group);
      if (mine && !waiting) waiting = setTimeout(async () => { waiting = 0; seen = await ask(); draw(); notices.fill(); }, 500);
    },
  };
}

// The group's generations up to the end of the incident: the shape of it at a glance.
function timeline(app, root) {
  const box = h("div", {});
  const made = panel("Timeline", { class: "timeline", hidden: true }, box);
  let drawn = "";
  let chart = { step: () => false };
  return {
    root: made,
    step: (by) => chart.step(by),
    async fill(one) {
      if (one.group === null) return;
      const asked = { group: one.group, at: one.closed_at };
      // A group that is gone has no timeline any more: the rest of the page says what is known.
      const seen = await app.ask("group", asked).catch(() => null);
      const mark = JSON.stringify(seen?.timeline.columns.map((column) => column.id));
      if (!seen?.timeline.columns.length || mark === drawn) return;
      drawn = mark;
      made.hidden = false;
      chart = lanes(seen.timeline, (root.clientWidth || innerWidth - 40) - 190);
      put(box, chart.root);
    },
  };
}

// What is behind the generations of it and around it, the most frequent first: a storm has two or three
// causes in turn, and the one that was there at its opening says little.
const CLAIMED = 0.6;
function reasons(findings) {
  const told = findings.filter((one) => GENERATIONS.has(one.kind) && one.causes.length > 0);
  const found = new Map();
  for (const { causes } of told) {
    // Who comes back after a fault is surer than the fault, and says less.
    const cause = causes.find((one) => causeTone(one.cause) === "bad" && one.confidence >= CLAIMED) ?? causes[0];
    const before = found.get(cause.cause) ?? { count: 0, example: cause };
    found.set(cause.cause, { count: before.count + 1, example: cause.confidence > before.example.confidence ? cause : before.example });
  }
  if (told.length < 2) return null;
  const weight = ([name, one]) => one.count + (causeTone(name) === "bad" ? 0.5 : 0);
  return h("ul", { class: "causes" }, [...found].sort((one, other) => weight(other) - weight(one)).slice(0, 4).map(([name, { count, example }]) =>
    h("li", {},
      h("span", { class: `cause ${causeTone(name)}` }, words(name)),
      meter(count / told.length, causeTone(name), share(count / told.length)),
      h("span", { class: "num" }, `${count} of ${counted(told.length, "generation")}`),
      (example.client_id || example.member_id) && h("span", { class: "who mono" }, example.instance_id || example.client_id || example.member_id, example.host ? ` ${host(example.host)}` : ""),
      example.why && h("p", { class: "why" }, name === "unknown" ? example.why : `${share(example.confidence)} sure: ${example.why}`))));
}

function page(seen, app, chart, notices) {
  const one = seen.incident;
  const open = one.closed_at === null;
  const now = app.now();
  const fact = (name, value, title) => h("div", { title }, h("dt", {}, name), h("dd", { class: "num" }, value));
  // What opened it may not have known why; the generation that ended it does.
  const why = [...seen.findings, ...(seen.ended_by ? [seen.ended_by] : [])].filter((finding) => finding.causes.length > 0);
  const first = why.find((finding) => finding.causes[0].cause !== "unknown") ?? why[0];
  const own = seen.findings.slice().reverse();
  return [
    h("div", { class: `title hero ${tone(one.severity)}${open ? "" : " closed"}` },
      h("p", { class: "crumb" }, link({ view: "incidents" }, {}, "Incidents"), " / ", h("span", { class: "mono" }, one.id)),
      h("h1", {}, words(one.kind), " ", one.group === null ? h("span", { class: "quiet" }, one.groups_total ? `of ${counted(one.groups_total, "group")}` : one.scope) : link({ group: one.group }, { class: "mono name" }, one.group)),
      h("p", { class: "say" }, told(one)),
      h("p", { class: "chips" }, open ? chip("open", tone(one.severity)) : chip("resolved", "good"), chip(one.severity, tone(one.severity)), chip(one.confidence < 1 ? `${one.evidence}, ${share(one.confidence)} sure` : one.evidence),
        h("a", { class: "chip go", href: `runbooks/#${one.kind}` }, "runbook"),
        h("button", { class: "chip go", type: "button", onclick: (event) => copy(event.target, app) }, "copy link"))),
    h("div", { class: "pair" },
      h("div", { class: "column" },
        panel("Why", {}, reasons([...seen.findings, ...seen.around]) ?? causes(first?.causes ?? [], { full: true })),
        panel("Who", {}, seen.offenders.length ? h("ul", { class: "causes" }, seen.offenders.map((who) =>
          h("li", {}, h("span", { class: "mono name" }, who.client_id), meter(who.findings / who.of, "warn", share(who.findings / who.of)), h("span", { class: "num" }, `${number(who.findings)} of ${counted(who.of, "finding")}`), h("span", { class: "who quiet mono" }, words(ROLES[who.role] ?? who.role), " · ", host(who.host))))) : empty("No member stands out."))),
      h("div", { class: "column" },
        panel("What", {}, h("p", { class: "quiet" }, one.what),
          h("dl", { class: "facts many" }, fact("opened", moment(one.opened_at), utc(one.opened_at)),
            open ? fact("lasting", since(one.opened_at)) : fact("lasted", duration(one.closed_at - one.opened_at)),
            !open && fact("resolved", `${moment(one.closed_at)}${one.resolution ? ` (${one.resolution})` : ""}`, utc(one.closed_at)),
            // Who it is stands beside it.
            Object.entries(one.details).filter(([name]) => !name.startsWith("worst_")).map(([name, value]) => fact(label(one.kind, name), detail(name, value))))),
        panel("Lifecycle", {}, seen.ended_by && h("ol", { class: "feed", "aria-label": "The generation that ended it" }, line(seen.ended_by, now, { withGroup: false })),
          own.length ? h("ol", { class: "feed" }, own.map((finding) => line(finding, now, { withGroup: false }))) : empty("Its findings are no longer retained.")), notices)),
    chart,
    panel(one.group === null ? "At the same time" : "Timeline of the group", {}, seen.events.length ? h("ol", { class: "feed" }, seen.events.map((event) => eventLine(event, now, { withGroup: one.group === null }))) : empty("Nothing else happened at that time."),
      one.groups.length > 0 && h("p", {}, one.groups.map((name) => [link({ group: name }, { class: "mono name" }, name), " "]))),
    h("p", { class: "quiet" }, link({ ...(one.group === null ? {} : { group: one.group }), at: open ? "" : one.closed_at }, { class: "button" }, open ? "The group now" : "The group as it was then"), " ",
      h("span", {}, one.group === null ? "" : `last rebalance cause and members as of ${open ? "now" : ago(one.closed_at, now)}`)),
  ];
}

// What the details of a storm count: their names alone do not say it.
const STORM = { count: "rebalances in the window", total: "rebalances since it began", threshold: "a storm from", rule: "counted from" };
const RULES = { generations: "records", sightings: "probe samples" };
const ROLES = { worst: "worst offender", named: "named as a cause" };

function label(kind, name) {
  return (kind === "storm" && STORM[name]) || words(name.replace(/_ms$/, ""));
}

function detail(name, value) {
  if (name === "rule") return RULES[value] ?? words(value);
  if (name.endsWith("_ms")) return duration(Number(value));
  if (name.endsWith("_at")) return `${moment(Number(value))}`;
  if (name.endsWith("share")) return share(Number(value));
  return String(value);
}

async function copy(button, app) {
  try {
    await navigator.clipboard.writeText(location.href);
    put(button, "copied");
    app.say("The link was copied.");
  } catch {
    put(button, location.href);
  }
}
