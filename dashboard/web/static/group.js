// One group: its swim-lane timeline, members with their deadlines, assignment, incidents and findings.

import { h, link, put, refresh, write } from "./dom.js";
import { ago, causeTone, counted, duration, host, moment, number, range, share, time, utc, words } from "./format.js";
import { lagTrack } from "./lagtrack.js";
import { lanes } from "./lanes.js";
import { chip, empty, eventLine, incidentCard, meter, panel, scroll, stateChip } from "./parts.js";

const LAG_MS = 10_000;
// Partitions of a topic that the table of lag shows until one asks for all that are listed.
const LISTED = 12;

export async function group(app, params) {
  const name = params.get("group");
  const ask = () => app.get("group", { group: name });
  let seen = await ask();
  if (app.at === null) app.saw(seen.now, seen.live);
  const head = h("div", {});
  const banner = h("div", {});
  const line_ = h("div", {});
  const sides = h("div", {});
  const track = h("div", {});
  const root = h("div", { class: "group-view" }, head, banner, panel("Timeline", { class: "timeline" }, line_), track, sides);
  let chart = { step: () => false };
  let drawn = "";
  let counters = [];
  const whole = new Set();
  const time_ = () => app.at ?? app.now();
  const draw = () => {
    counters = [];
    refresh(head, heading(seen, counters));
    const open = seen.incidents.filter((one) => one.closed_at === null);
    refresh(banner, open.length > 0 && h("ul", { class: "strip" }, open.slice(0, 4).map((one) => incidentCard(one, time_()))));
    // The timeline is drawn anew only when something happened on it: the chosen generation stays chosen.
    const mark = JSON.stringify([seen.timeline.columns.map((one) => [one.id, one.caught_up_ms]), seen.timeline.lanes.map((one) => one.breaches.length)]);
    if (mark !== drawn) {
      drawn = mark;
      chart = lanes(seen.timeline, (root.clientWidth || innerWidth - 40) - 190);
      put(line_, chart.root);
    }
    put(track, lagTrack(seen, (root.clientWidth || document.documentElement.clientWidth - 40) - 36));
    refresh(sides, h("div", { class: "pair" }, members(seen, counters, time_()), deadlines(seen, counters)),
      lag(seen, whole, draw), generations(seen),
      panel("What happened", {}, seen.events.length ? h("ol", { class: "feed" }, seen.events.map((one) => eventLine(one, time_(), { withGroup: false }))) : empty("Nothing yet.")));
    counters.forEach((one) => one(time_()));
  };
  draw();
  let waiting = 0;
  let wide = innerWidth;
  const resize = () => {
    if (Math.abs(innerWidth - wide) < 60) return;
    wide = innerWidth;
    drawn = "";
    draw();
  };
  addEventListener("resize", resize);
  let told = Date.now();
  const again = async () => {
    waiting = 0;
    told = Date.now();
    try {
      seen = await ask();
      draw();
    } catch (error) {
      if (error.status === 404) app.go({});
    }
  };
  return {
    title: name,
    root,
    side: (step) => chart.step(step),
    tick: (now) => counters.forEach((one) => one(now)),
    leave: () => {
      clearTimeout(waiting);
      removeEventListener("resize", resize);
    },
    change(event, data) {
      const mine = event === "reset" || data.removed.includes(name) || data.rows.some((row) => row.group === name);
      // Lag changes without any change of the group.
      if ((mine || Date.now() - told > LAG_MS) && !waiting) waiting = setTimeout(again, 150);
    },
  };
}

function heading(seen, counters) {
  const row = seen.row;
  return h("div", { class: "title" },
    h("p", { class: "crumb" }, link({}, {}, "Groups"), " / ", row.type || "group"),
    h("h1", { class: "mono name" }, row.group),
    h("p", { class: "chips" }, stateChip(row.state), row.generation !== null && chip(`generation ${number(row.generation)}`), chip(row.type === "commits" ? "commits only, no members" : counted(row.members, "member")), committed(row, counters),
      row.protocol && chip(row.protocol), row.team && chip(`team ${row.team}`), seen.topics.slice(0, 4).map((topic) => chip(topic, "topic")), seen.topics.length > 4 && chip(`+${counted(seen.topics.length - 4, "topic")}`),
      link({ view: "findings", group: row.group }, { class: "chip go" }, "all findings →")));
}

// When the group committed last, and how fast: the same figures as the API's and the metric's.
function committed(row, counters) {
  if (row.last_commit === null) return "";
  const rate = row.commits_per_minute === null ? "" : `, ${counted(Math.round(row.commits_per_minute), "offset")} a minute`;
  const shown = chip("", "", utc(row.last_commit));
  counters.push((at) => write(shown, `last commit ${ago(row.last_commit, at)}${rate}`));
  return shown;
}

function members(seen, counters, now) {
  const most = Math.max(1, seen.spread.most);
  const rows = seen.members.map((one) => {
    const commit = h("td", { class: "num", title: one.last_commit ? utc(one.last_commit) : "" });
    counters.push((at) => write(commit, ago(one.last_commit, at)));
    return h("tr", { class: one.is_silent ? "is-warn" : "" },
      h("td", {}, h("div", { class: "mono name", title: one.member_id }, one.instance_id || one.client_id || one.member_id, one.is_leader && h("span", { class: "leads", title: "leads the group" }, "leader")),
        h("small", { class: "quiet" }, host(one.host), one.family && ` · ${words(one.family)}`)),
      h("td", { class: "spread" }, h("i", { class: one.partitions ? "" : "idle", vars: { "--value": one.partitions / most } }), h("b", { class: "num" }, number(one.partitions)),
        h("small", { class: "quiet mono" }, Object.entries(one.assigned).map(([topic, parts]) => `${topic} ${parts}`).join("; "))),
      commit,
      h("td", { class: "num wide-only" }, duration(one.session_timeout_ms)), h("td", { class: "num wide-only" }, duration(one.rebalance_timeout_ms)));
  });
  const spread = seen.spread;
  const told = seen.members.length === 0 ? "" : spread.idle ? `${spread.idle} of ${counted(seen.members.length, "member")} idle` : spread.most === spread.least ? "spread evenly" : `${spread.least} to ${counted(spread.most, "partition")} each`;
  return panel("Members and assignment", {}, told && h("p", { class: "quiet aside" }, `${counted(spread.partitions, "partition")}, ${told}`),
    rows.length === 0 ? empty("The group has no members.") : scroll("Members", h("table", { class: "grid compact" },
      h("thead", {}, h("tr", {}, ["Member", "Partitions", "Last commit"].map((text) => h("th", { scope: "col" }, text)), ["Session timeout", "Rebalance timeout"].map((text) => h("th", { scope: "col", class: "wide-only" }, text)))),
      h("tbody", {}, rows))),
    seen.row.members > seen.members.length && h("p", { class: "quiet" }, `${number(seen.row.members - seen.members.length)} more members are not listed.`));
}

// What happens by itself if nobody acts, counting down.
function deadlines(seen, counters) {
  const sessions = new Map(seen.members.map((one) => [one.client_id || one.member_id, one.session_timeout_ms]));
  const rows = seen.deadlines.map((one) => {
    const left = h("b", { class: "num" });
    const bar = meter(0, "warn");
    const whole = one.what === "session" ? (sessions.get(one.who) ?? 45000) : 604800000;
    const item = h("li", {}, h("div", {}, one.what === "session" ? ["Session of ", h("span", { class: "mono name" }, one.who)] : "Committed offsets expire"), left, bar,
      h("small", { class: "quiet", title: utc(one.at) }, one.what === "session" ? "the broker expires the member then, unless it heartbeats" : moment(one.at)));
    counters.push((now) => {
      const rest = one.at - now;
      write(left, rest > 0 ? duration(rest) : `passed ${duration(-rest)} ago`);
      bar.style.setProperty("--value", Math.max(0, Math.min(1, rest / whole)));
      item.classList.toggle("passed", rest <= 0);
    });
    return item;
  });
  const alive = seen.members.filter((one) => one.session_timeout_ms && one.deadline === null).length;
  return panel("Deadlines", { class: "deadlines" }, rows.length ? h("ul", {}, rows) : empty(alive ? "No deadline is near: every member has committed lately. A countdown starts when a member has not committed for half its session timeout." : "None."));
}

// How far the group is behind on each topic, the partitions that are furthest first.
function lag(seen, whole, draw) {
  if (seen.lag.length === 0) return null;
  const cell = (value, text = number) => h("td", { class: "num" }, value === null ? "?" : text(value));
  // A consumer that reads committed records only gets no further than to the first open transaction.
  const waiting = (one) => one.lag_stable === one.lag ? cell(one.lag)
    : h("td", { class: "num" }, number(one.lag), h("small", { class: "quiet" }, ` ${number(one.lag_stable)} before an open transaction`));
  const rows = seen.lag.flatMap((topic) => [
    h("tr", {}, h("td", { class: "mono name" }, topic.topic), h("td", { class: "num quiet" }, counted(topic.partitions, "partition")),
      h("td", {}), h("td", {}), cell(topic.lag), cell(topic.age_ms, duration), h("td", { class: "num quiet" }, topic.unknown ? `${number(topic.unknown)} unknown` : "")),
    ...topic.listed.slice(0, whole.has(topic.topic) ? topic.listed.length : LISTED).map((one) => h("tr", {}, h("td", {}), h("td", { class: "num" }, one.partition), h("td", { class: "num" }, number(one.committed_offset)),
      cell(one.end < 0 ? null : one.end), waiting(one), cell(one.age_ms, duration), h("td", { class: "num quiet", title: utc(one.committed_at) }, time(one.committed_at)))),
    beyond(topic, whole, draw)]);
  const more = seen.lag_topics - seen.lag.length;
  if (more > 0) rows.push(h("tr", {}, h("td", { class: "quiet", colspan: 7 }, `${number(more)} more topics`)));
  return panel("Lag", {}, scroll("Lag by partition", h("table", { class: "grid compact", id: "lag" },
    h("thead", {}, h("tr", {}, ["Topic", "Partition", "Committed", "End", "Lag", "Oldest waits", "Committed at"].map((text) => h("th", { scope: "col" }, text)))), h("tbody", {}, rows))));
}

// The partitions that are not shown, and how to see them.
function beyond(topic, whole, draw) {
  const shown = whole.has(topic.topic) ? topic.listed.length : Math.min(LISTED, topic.listed.length);
  if (topic.partitions <= shown) return null;
  const text = `${number(topic.partitions - shown)} more partitions, with no more lag than these`;
  const all = () => { whole.add(topic.topic); draw(); };
  return h("tr", {}, h("td", {}), h("td", { class: "quiet", colspan: 6 },
    shown < topic.listed.length ? h("button", { class: "button small", type: "button", onclick: all }, text) : text));
}

// What a rebalance cost: the records that waited for it, and how long the group took to catch up.
function cost(one) {
  if (!one.waiting_peak) return "";
  const back = one.caught_up_ms === null ? "" : `, caught up in ${duration(one.caught_up_ms)}`;
  const more = one.cost_of > 1 ? ` (${number(one.cost_of)} together)` : "";
  return h("span", { title: one.arrived === null ? "" : `${counted(one.arrived, "record")} arrived while partitions stood still` }, `${counted(one.waiting_peak, "record")} waited${back}${more}`);
}

function generations(seen) {
  const columns = seen.timeline.columns.slice().reverse();
  if (columns.length === 0) return null;
  const rows = columns.map((one) => h("tr", {},
    h("td", { class: "num" }, one.generation ?? "–", one.kind !== "rebalance" && h("small", { class: "quiet" }, ` ${words(one.kind)}`)),
    h("td", { class: "num", title: utc(one.at) }, time(one.at)),
    h("td", {}, h("ul", { class: "inline" }, one.causes.slice(0, 4).map((cause) => h("li", { title: cause.why }, h("span", { class: `cause ${causeTone(cause.cause)}` }, words(cause.cause)), cause.cause !== "unknown" && h("span", { class: "quiet num" }, ` ${share(cause.confidence)}`), cause.client_id && h("small", { class: "quiet mono" }, ` ${cause.client_id}`))))),
    h("td", { class: "num" }, one.members ?? "–", h("small", { class: "quiet" }, [one.joined ? ` +${one.joined}` : "", one.left ? ` −${one.left}` : "", one.replaced ? ` ⟳${one.replaced}` : ""])),
    h("td", { class: "num" }, range(one.join_ms_min, one.join_ms_max)), h("td", { class: "num" }, duration(one.sync_ms)), h("td", { class: "num" }, range(one.stopped_ms_min, one.stopped_ms_max)),
    h("td", { class: "num" }, cost(one)), h("td", { class: "quiet" }, one.evidence)));
  return panel("Generations", {}, scroll("Generations", h("table", { class: "grid compact", id: "generations" },
    h("thead", {}, h("tr", {}, ["Generation", "At", "Causes and confidence", "Members", "Join", "Sync", "Stopped", "Cost", "Evidence"].map((text) => h("th", { scope: "col" }, text)))), h("tbody", {}, rows))));
}
