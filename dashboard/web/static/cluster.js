// All groups: storms on top, the last hour, and the table that keeps itself current.

import { add, h, href, link, put, refresh, write } from "./dom.js";
import { ago, bytes, causeTone, counted, duration, number, share, state, tone, utc, words } from "./format.js";
import { bars, chip, empty, eventLine, incidentCard, panel, scroll, spark, stateChip } from "./parts.js";

const PAGE = 100;
// Rows that are drawn before the first paint; a screen holds no more.
const FIRST = 30;
const LAG_MS = 10_000;
const COLUMNS = [
  ["trouble", "Trouble"], ["group", "Group"], ["state", "State"], ["members", "Members"], ["generation", "Gen"],
  ["lag", "Lag"], ["rebalances", "Last hour"], ["cause", "Last cause"], ["last_rebalance", "Rebalanced"], ["team", "Team"],
];
const FILTERS = ["trouble", "severity", "cause", "team"];
const TURNED = new Set(["members", "generation", "rebalances", "last_rebalance"]);

export async function cluster(app, params) {
  const query = queryOf(params);
  const [overview, page] = await Promise.all([app.get("cluster"), app.get("groups", query)]);
  if (app.at === null) app.saw(overview.now, overview.live);
  const parts = { strip: h("div", {}), stats: h("div", { class: "stats" }), bar: h("div", { class: "bar" }), feed: h("ol", { class: "feed" }) };
  const columns = columnsOf(params, page.rows);
  const table = makeTable(app, params, query, columns);
  const root = h("div", { class: "cluster" }, h("h1", { class: "sr" }, "Groups"), parts.strip, parts.stats,
    h("div", { class: "split" },
      h("section", { class: "panel groups", "aria-label": "Groups" }, parts.bar, table.root),
      h("aside", { class: "panel latest", "aria-label": "Latest findings" }, h("h2", {}, "Latest"), parts.feed)));
  const time = () => app.at ?? app.now();
  const drawn = {};
  // Draws a part anew only if what it shows has changed: focus, selection and tooltips stay.
  const renew = (name, shown, draw) => {
    const mark = JSON.stringify(shown);
    if (drawn[name] !== mark) refresh(parts[name], draw());
    drawn[name] = mark;
  };
  const fill = (seen) => {
    renew("strip", [seen.incidents, seen.troubled, seen.groups], () => strip(seen, time()));
    renew("stats", { ...seen, latest: null, incidents: null }, () => [states(app, params, seen), hour(seen), monitor(seen)]);
    renew("feed", seen.latest, () => seen.latest.length ? seen.latest.map((one) => eventLine(one, time())) : empty("No findings yet."));
    bar(seen);
  };
  const bar = (seen) => renew("bar", [table.page.offset, table.page.matched, table.page.rows.length, seen.groups, seen.troubled, seen.troubles, seen.types],
    () => toolbar(app, params, table.page, seen, ask));
  const ask = () => {
    import("./filters.js").then(({ choose }) => choose(app, FILTERS, { columns: COLUMNS.filter(([key]) => key !== "group"), shown: columns.map(([key]) => key), apply: (picked, chosen) => {
      const keys = COLUMNS.map(([key]) => key).filter((key) => key === "group" || chosen.includes(key)).join(".");
      localStorage.setItem("columns", keys);
      app.go(changed(params, { ...picked, columns: keys }));
    } })).catch((error) => app.say(error.message));
    return true;
  };
  table.fill(page);
  fill(overview);
  let asked = 0;
  let last = overview;
  let told = Date.now();
  const again = async () => {
    asked = 0;
    told = Date.now();
    try {
      table.fill(await app.get("groups", query));
      bar(last);
    } catch { /* the frame says that the monitor is away */ }
  };
  return {
    title: overview.cluster || "Groups",
    root,
    tick: (now) => table.tick(now),
    side: (step) => table.turn(step),
    filters: ask,
    leave: () => clearTimeout(asked),
    change(event, data) {
      last = data.overview;
      fill(last);
      const settled = event === "change" && table.patch(data.rows, data.removed);
      // Rows that come, go or change their place make the page be asked for again, but not with every batch.
      // Lag changes without any change of its group.
      if ((!settled || Date.now() - told > LAG_MS) && !asked) asked = setTimeout(again, 1500);
    },
  };
}

// Which columns the address asks for, or else this browser; the team's only where there are teams.
function columnsOf(params, rows) {
  const asked = params.get("columns") ?? localStorage.getItem("columns");
  const named = asked?.split(".");
  const usual = ([key]) => key !== "team" || rows.some((row) => row.team);
  return COLUMNS.filter((one) => one[0] === "group" || (named ? named.includes(one[0]) : usual(one)));
}

function queryOf(params) {
  const take = (name) => params.get(name) ?? "";
  const page = Math.max(1, Number.parseInt(take("page"), 10) || 1);
  return { search: take("search"), state: take("state"), type: take("type"), trouble: take("trouble"),
    severity: take("severity"), cause: take("cause"), team: take("team"), sort: take("sort") || "trouble", order: take("order") || "asc", offset: (page - 1) * PAGE, limit: PAGE };
}

// The present query with some changes, as the address of another page.
function changed(params, changes) {
  const next = { page: "", ...Object.fromEntries(params), ...changes };
  if (!("page" in changes)) next.page = "";
  return next;
}

function strip(seen, now) {
  const loud = seen.incidents.filter((one) => one.severity === "critical");
  if (loud.length === 0) {
    const calm = seen.troubled ? `No storm. ${number(seen.troubled)} of ${counted(seen.groups, "group")} had trouble lately.` : `All quiet: ${counted(seen.groups, "group")}, no storm, nothing stuck.`;
    return h("p", { class: `calm-line${seen.troubled ? " some" : ""}` }, h("i", { class: "dot" }), calm);
  }
  return h("ul", { class: "strip", "aria-label": "Storms and other critical incidents" }, loud.slice(0, 6).map((one) => incidentCard(one, now)),
    loud.length > 6 && h("li", { class: "incident more" }, link({ view: "incidents" }, { class: "cover" }), `and ${loud.length - 6} more`));
}

function states(app, params, seen) {
  const chosen = params.get("state");
  return panel(null, { class: "stat", "aria-label": "Groups by state" },
    h("div", { class: "figure" }, h("b", {}, number(seen.groups)), h("span", {}, seen.groups === 1 ? "group" : "groups")),
    seen.commits_only > 0 && h("p", { class: "quiet" }, `${number(seen.with_members)} with members, ${number(seen.commits_only)} with commits only`),
    h("div", { class: "stack" }, seen.states.map((one) =>
      h("i", { class: tone(one.name), vars: { "--share": one.count / Math.max(1, seen.groups) }, title: `${state(one.name)}: ${number(one.count)}` }))),
    h("ul", { class: "legend" }, seen.states.map((one) =>
      h("li", {}, h("a", { href: href(changed(params, { state: chosen === one.name ? "" : one.name })), "data-link": true, "aria-current": chosen === one.name },
        h("i", { class: `swatch ${tone(one.name)}` }), state(one.name), h("b", { class: "num" }, number(one.count)))))));
}

function hour(seen) {
  const total = seen.minutes.reduce((sum, one) => sum + one, 0);
  const most = Math.max(1, ...seen.causes.map((one) => one.count));
  return panel(null, { class: "stat hour", "aria-label": "Rebalances in the last hour" },
    h("div", { class: "hour-bars" },
      h("div", { class: "figure" }, h("b", {}, number(total)), h("span", {}, total === 1 ? "rebalance in the last hour" : "rebalances in the last hour")),
      bars(seen.minutes, { width: 300, height: 44, gap: 1, label: `${counted(total, "rebalance")} in the last hour, by minute`,
        title: (index, count) => `${counted(count, "rebalance")}, ${counted(60 - index, "minute")} ago` })),
    h("ul", { class: "ranks", "aria-label": "Likeliest causes" }, seen.causes.slice(0, 5).map((one) =>
      h("li", {}, h("span", { class: `cause ${causeTone(one.name)}` }, words(one.name)), h("i", { class: `rank ${causeTone(one.name)}`, vars: { "--value": one.count / most } }), h("b", { class: "num" }, number(one.count)))),
      seen.causes.length === 0 && h("li", { class: "quiet" }, "no known causes")));
}

function monitor(seen) {
  const health = seen.health;
  // It reads nothing then, so that nothing is left to read proves nothing.
  const blind = seen.incidents.some((one) => one.cause === "blind");
  const [name, tone] = blind ? ["Blind", "bad"] : health.ready ? ["Caught up", "good"] : [health.shards ? "Catching up" : "Starting", "warn"];
  const fact = (name, value, title) => h("div", { title }, h("dt", {}, name), h("dd", { class: "num" }, value));
  return panel(null, { class: "stat monitor", "aria-label": "The monitor itself" },
    h("div", { class: "figure" }, h("b", { class: tone }, name), h("span", {}, "the monitor itself")),
    h("dl", { class: "facts" },
      fact("behind", health.behind_ms === null ? "–" : duration(health.behind_ms), "age of the newest batch"),
      fact("records to read", number(health.lag_records), "records of the topic that the monitor has not read yet"),
      fact("batch", number(Math.max(0, health.batch)), `${counted(health.rows, "row")} in the last one`),
      fact("state", bytes(health.state_bytes), "coordinator state, compressed"),
      fact("partitions", health.catching_up ? `${health.shards - health.catching_up}/${health.shards}` : number(health.shards)),
      fact("incidents", number(seen.incidents_open), "open, of any severity")));
}

function toolbar(app, params, page, seen, ask) {
  const one = (text, changes, on, count) => h("a", { class: "filter", href: href(changed(params, changes)), "data-link": true, "aria-current": on },
    text, count !== undefined && h("b", { class: "num" }, number(count)));
  const trouble = params.get("trouble") ?? "";
  const search = params.get("search");
  return [
    h("div", { class: "filters", role: "group", "aria-label": "Filters" },
      one("All", { trouble: "", state: "", type: "", search: "", severity: "", cause: "", team: "" }, !search && !["state", "type", ...FILTERS].some((name) => params.get(name)), seen.groups),
      one("In trouble", { trouble: trouble === "any" ? "" : "any" }, trouble === "any", seen.troubled),
      seen.troubles.slice(0, 4).map((kind) => one(words(kind.name), { trouble: trouble === kind.name ? "" : kind.name }, trouble === kind.name, kind.count)),
      seen.types.length > 1 && seen.types.map((kind) => one(kind.name, { type: params.get("type") === kind.name ? "" : kind.name }, params.get("type") === kind.name, kind.count)),
      ["severity", "cause", "team"].filter((name) => params.get(name)).map((name) => one(`${name}: ${words(params.get(name))} ✕`, { [name]: "" }, true)),
      search && one(`“${search}” ✕`, { search: "" }, true),
      h("button", { class: "filter", type: "button", title: "Filters and columns (f)", "aria-haspopup": "dialog", onclick: ask }, "Filters …")),
    pager(params, page),
  ];
}

function pager(params, page) {
  const number_ = Math.floor(page.offset / PAGE) + 1;
  const last = Math.max(1, Math.ceil(page.matched / PAGE));
  const to = (target, text, label) => target < 1 || target > last
    ? h("span", { class: "turn", "aria-hidden": "true" }, text)
    : h("a", { class: "turn", href: href(changed(params, { page: target > 1 ? target : "" })), "data-link": true, "aria-label": label }, text);
  const first = page.matched ? page.offset + 1 : 0;
  return h("div", { class: "pager" }, to(number_ - 1, "‹", "Previous page"),
    h("span", { class: "num" }, `${number(first)}–${number(page.offset + page.rows.length)} of ${number(page.matched)}`), to(number_ + 1, "›", "Next page"));
}

function makeTable(app, params, query, columns) {
  const body = h("tbody", {});
  const rows = new Map();
  const table = {
    page: null,
    root: scroll("Table of groups", h("table", { class: "grid" }, h("thead", {}, h("tr", {}, columns.map(([key, text]) => heading(params, query, key, text)))), body)),
    fill(page, most = rows.size ? PAGE : FIRST) {
      table.page = page;
      const kept = new Map();
      for (const data of page.rows.slice(0, most)) {
        const row = rows.get(data.group) ?? makeRow(columns);
        row.fill(data, app, rows.has(data.group));
        kept.set(data.group, row);
      }
      rows.clear();
      kept.forEach((row, name) => rows.set(name, row));
      const elements = [...kept.values()].map((row) => row.root);
      // Rows in place already stay untouched: the focus is not lost.
      if (elements.length !== body.children.length || elements.some((one, index) => one !== body.children[index])) {
        const focused = document.activeElement;
        put(body, elements.length ? elements : h("tr", {}, h("td", { colspan: columns.length }, empty(page.total ? "No group matches these filters." : "No groups are known yet."))));
        if (body.contains(focused)) focused.focus();
      }
      if (kept.size < page.rows.length) setTimeout(() => table.page === page && table.fill(page, PAGE), 30);
    },
    patch(data, removed) {
      let settled = !removed.some((name) => rows.has(name));
      for (const one of data) {
        const row = rows.get(one.group);
        if (!row) settled = settled && !one.trouble && table.page.matched >= PAGE;
        else settled = row.fill(one, app, true) && settled;
      }
      return settled;
    },
    tick(now) {
      for (const row of rows.values()) row.tick(now);
    },
    turn(step) {
      const target = Math.floor(table.page.offset / PAGE) + 1 + step;
      if (target < 1 || (target - 1) * PAGE >= Math.max(1, table.page.matched)) return false;
      app.go(changed(params, { page: target > 1 ? target : "" }));
      return true;
    },
  };
  return table;
}

function heading(params, query, key, text) {
  if (key === "team") return h("th", { scope: "col", class: "c-team" }, text);
  const on = query.sort === key;
  const order = on ? (query.order === "asc" ? "desc" : "asc") : TURNED.has(key) ? "desc" : "asc";
  const sort = key === "trouble" ? { sort: "", order: on && query.order === "asc" ? "desc" : "" } : { sort: key, order };
  return h("th", { scope: "col", class: `c-${key}`, "aria-sort": on ? (query.order === "asc" ? "ascending" : "descending") : null },
    h("a", { href: href(changed(params, sort)), "data-link": true }, text, on && h("i", { class: "arrow" }, query.order === "asc" ? "▾" : "▴")));
}

// What a cell shows, drawn anew only where it differs.
const DRAW = {
  group(cell, data, before) {
    if (!before) {
      add(cell, [h("a", { class: "row-link mono name", "data-link": true, href: href({ group: data.group }), title: data.group }, data.group), h("span", { class: "kind-tag" })]);
    }
    write(cell.lastElementChild, data.type === "classic" ? "" : data.type);
  },
  trouble(cell, data, before) {
    if (!before || before.trouble !== data.trouble || before.incident !== data.incident) put(cell, data.trouble ? trouble(data) : "");
  },
  state(cell, data, before) {
    if (before?.state !== data.state) put(cell, stateChip(data.state));
  },
  members: (cell, data) => write(cell, number(data.members)),
  generation: (cell, data) => write(cell, data.generation === null ? "–" : number(data.generation)),
  lag(cell, data, before) {
    if (before && before.lag === data.lag && before.lag_unknown === data.lag_unknown && String(before.lag_line) === String(data.lag_line)) return;
    put(cell, data.lag_line.length > 1 && spark(data.lag_line, { width: 36, height: 16, label: "lag of the last ten minutes" }),
      h("span", { class: "num" }, data.lag === null ? "?" : number(data.lag) + (data.lag_unknown ? "+" : "")));
    cell.setAttribute("title", data.lag === null ? "not known" : `the oldest has waited for ${duration(data.lag_age_ms)}${data.lag_unknown ? `; not known of ${counted(data.lag_unknown, "partition")}` : ""}`);
  },
  rebalances(cell, data, before) {
    if (before && String(before.bars) === String(data.bars)) return;
    put(cell, h("span", { class: "hour-cell" }, bars(data.bars, { width: 60, height: 16, label: `${counted(data.rebalances, "rebalance")} in the last hour`, title: (index, count) => `${counted(count, "rebalance")}, ${60 - index * 5} to ${55 - index * 5} minutes ago` }), h("b", { class: "num" }, data.rebalances ? number(data.rebalances) : "")));
  },
  cause(cell, data, before) {
    if (before?.last_cause !== data.last_cause || before?.last_confidence !== data.last_confidence)
      put(cell, data.last_cause && [h("span", { class: `cause ${causeTone(data.last_cause)}` }, words(data.last_cause)), data.last_cause !== "unknown" && h("span", { class: "quiet num" }, ` ${share(data.last_confidence)}`)]);
  },
  last_rebalance(cell, data, before) {
    if (before?.last_rebalance !== data.last_rebalance) cell.setAttribute("title", data.last_rebalance ? utc(data.last_rebalance) : "");
  },
  team: (cell, data) => write(cell, data.team),
};

function makeRow(columns) {
  const cell = Object.fromEntries(columns.map(([key]) => [key, h("td", { class: `c-${key}` })]));
  const row = { root: h("tr", {}, Object.values(cell)), data: null };
  // Says whether the row keeps its place.
  row.fill = (data, app, flash) => {
    const before = row.data;
    row.data = data;
    row.root.className = data.severity ? `is-${tone(data.severity)}` : "";
    for (const [key, element] of Object.entries(cell)) DRAW[key](element, data, before);
    row.tick(app.at ?? app.now());
    if (flash && before && before.generation !== data.generation) {
      row.root.classList.remove("flash");
      requestAnimationFrame(() => row.root.classList.add("flash"));
    }
    return Boolean(before) && before.trouble === data.trouble && before.severity === data.severity && before.rebalances === data.rebalances;
  };
  row.tick = (now) => { if (cell.last_rebalance) write(cell.last_rebalance, ago(row.data.last_rebalance, now)); };
  return row;
}

function trouble(data) {
  const text = words(data.trouble);
  const shown = chip(text, tone(data.severity), `${data.severity} since ${utc(data.since)}`);
  return data.incident ? link({ incident: data.incident }, { class: "bare" }, shown) : shown;
}
