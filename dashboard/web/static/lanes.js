// The swim-lane timeline: generations as columns, members as lanes, joins, leaves and timeouts as marks.

import { h, put, svg } from "./dom.js";
import { causeTone, counted, duration, host, moment, number, range, share, time, tone, utc, words } from "./format.js";
import { causes } from "./parts.js";

const ROW = 30;
const HEAD = 52;
const FOOT = 10;
const GAP = { least: 46, most: 104 };
const MARK = {
  joined: ["+", "joined"], left: ["−", "left"], replaced: ["⟳", "came back"], kept: ["", "stayed"], implied: ["", "stayed"],
};
const BREACH = { session_timeout: "session timeout", poll_interval_exceeded: "stopped polling", member_silent: "silent" };

export function lanes(timeline, width) {
  const { columns, lanes: rows } = timeline;
  if (columns.length === 0) return { root: h("p", { class: "quiet nothing" }, "No generation has been seen yet."), step: () => false };
  const step = Math.max(GAP.least, Math.min(GAP.most, (width - 24) / (columns.length + 0.5)));
  const x = (column) => step * (column + 0.5) + 8;
  const wide = step * (columns.length + 0.5) + 16;
  const tall = HEAD + rows.length * ROW + FOOT;
  const detail = h("div", { class: "lane-detail", "aria-live": "polite" });
  const bands = columns.map((column, index) => band(column, index, x(index), step, tall, columns[index - 1]));
  let chosen = -1;
  const choose = (index, focus) => {
    chosen = Math.max(0, Math.min(columns.length - 1, index));
    bands.forEach((one, number) => {
      one.classList.toggle("chosen", number === chosen);
      one.setAttribute("aria-selected", number === chosen);
      one.setAttribute("tabindex", number === chosen ? "0" : "-1");
    });
    put(detail, described(columns[chosen], rows, chosen));
    if (focus) bands[chosen].focus({ preventScroll: true });
    const scroller = bands[chosen].closest(".lane-scroll");
    if (scroller && focus) scroller.scrollLeft = x(chosen) - scroller.clientWidth / 2;
    return true;
  };
  bands.forEach((one, index) => {
    one.addEventListener("pointerenter", () => choose(index));
    one.addEventListener("focus", () => choose(index));
    one.addEventListener("click", () => choose(index, true));
  });
  const drawing = svg("svg", { class: "lanes", width: wide, height: tall, viewBox: `0 0 ${wide} ${tall}`, role: "listbox", "aria-orientation": "horizontal", "aria-label": "Generations; left and right arrow keys choose one" },
    bands, rows.map((lane, index) => drawLane(lane, index, x, wide, step)));
  const scroller = h("div", { class: "lane-scroll" }, drawing);
  const short = shortener(rows.map((lane) => lane.label));
  const names = h("ol", { class: "lane-names", "aria-hidden": "true" }, rows.map((lane) =>
    h("li", { class: lane.present ? "" : "gone", title: `${lane.label} ${host(lane.host)}` }, h("span", { class: "mono" }, short(lane.label)), h("small", {}, host(lane.host)))));
  const root = h("div", {}, h("div", { class: "lane-frame" }, names, scroller), legend(timeline), detail);
  choose(columns.length - 1);
  requestAnimationFrame(() => { scroller.scrollLeft = scroller.scrollWidth; });
  return { root, step: (by) => choose(chosen + by, true) };
}

// What all labels begin with says nothing in a narrow column.
function shortener(labels) {
  let common = labels.length > 1 ? labels[0].length : 0;
  for (const label of labels) while (common > 0 && !label.startsWith(labels[0].slice(0, common))) common -= 1;
  const fits = innerWidth < 760 ? 10 : 20;
  return (label) => (common > 8 && label.length > fits ? `…${label.slice(-Math.max(fits - 1, label.length - common))}` : label);
}

function toneOf(column) {
  if (column.kind === "rebalance_failed") return "bad";
  if (column.kind === "group_empty" || column.kind === "group_removed") return "calm";
  return causeTone(column.causes[0]?.cause ?? "");
}

function band(column, index, at, step, tall, before) {
  const empty = column.kind === "group_empty" ? "empty" : column.kind === "group_removed" ? "removed" : null;
  const label = `generation ${column.generation ?? "?"}, ${words(column.kind)}, ${time(column.at)}, ${column.causes.map((one) => `${words(one.cause)} ${share(one.confidence)}`).join(", ") || "no cause"}`;
  return svg("g", { class: `band ${toneOf(column)}`, role: "option", tabindex: "-1", "aria-label": label },
    svg("rect", { class: "hit", x: at - step / 2, y: 0, width: step, height: tall, rx: 4 }),
    svg("rect", { class: "post", x: at - 0.75, y: HEAD - 4, width: 1.5, height: tall - HEAD - FOOT + 8 }),
    svg("text", { class: "gen", x: at, y: 15 }, empty ?? (column.kind === "rebalance_failed" ? `✕ ${column.generation ?? ""}` : `g${column.generation ?? "?"}`)),
    svg("text", { class: "at", x: at, y: 29 }, time(column.at).slice(step < 56 ? 3 : 0)),
    before && svg("text", { class: "gap", x: at - step / 2, y: 43 }, `+${duration(column.at - before.at).replaceAll(" ", "")}`));
}

function drawLane(lane, index, x, wide, step) {
  const y = HEAD + index * ROW + ROW / 2;
  const parts = [];
  lane.cells.forEach((cell, number) => {
    const next = lane.cells[number + 1];
    if (cell.mark === "left") return;
    const open = !next && lane.present;
    const to = next ? x(next.column) : open ? wide - 4 : x(cell.column) + step / 2;
    const ends = next?.mark === "left" || next?.mark === "replaced";
    parts.push(svg("line", { class: `life ${cell.mark === "implied" ? "implied" : ""} ${open ? "now" : ""}`, x1: x(cell.column), y1: y, x2: to - (ends ? 7 : 0), y2: y }));
    if (cell.partitions !== null && cell.mark !== "implied" && to - x(cell.column) > 34)
      parts.push(svg("text", { class: `load ${cell.partitions === 0 ? "none" : ""}`, x: (x(cell.column) + to) / 2, y: y + 3.5 }, cell.partitions));
  });
  for (const cell of lane.cells) parts.push(mark(cell, x(cell.column), y, lane));
  for (const breach of lane.breaches) parts.push(timeout(breach, x(breach.column) - 13, y, lane));
  return svg("g", { class: "lane" }, svg("line", { class: "rail", x1: 0, y1: y, x2: wide, y2: y }), parts);
}

function mark(cell, at, y, lane) {
  const [sign, what] = MARK[cell.mark] ?? ["?", cell.mark];
  const text = `${lane.label} ${what}${cell.leader ? ", leads" : ""}${cell.partitions === null ? "" : `, ${counted(cell.partitions, "partition")}`}\n${cell.member_id}`;
  const small = cell.mark === "kept" || cell.mark === "implied";
  return svg("g", { class: `node ${cell.mark}${cell.leader ? " leader" : ""}` },
    svg("circle", { cx: at, cy: y, r: small ? 3.4 : 7 }), sign && svg("text", { x: at, y: y + 3.6 }, sign),
    cell.leader && svg("path", { class: "crown", d: `M${at - 4.5} ${y - 9}l1.2-4.6 3.3 2.6 3.3-2.6 1.2 4.6z` }), svg("title", {}, text));
}

function timeout(breach, at, y, lane) {
  const label = `${lane.label}: ${BREACH[breach.kind] ?? words(breach.kind)}${breach.phase ? ` (${breach.phase})` : ""}, ${share(breach.confidence)} sure, ${moment(breach.at)}\n${breach.why}`;
  if (breach.kind === "member_silent")
    return svg("g", { class: `breach silent ${breach.phase}` }, svg("circle", { cx: at, cy: y, r: 4.5 }), svg("title", {}, label));
  return svg("g", { class: "breach" }, svg("path", { d: `M${at - 4} ${y - 4}l8 8m0-8l-8 8` }), svg("title", {}, label));
}

function legend(timeline) {
  const one = (kind, text) => h("li", {}, h("i", { class: `key ${kind}` }), text);
  return h("ul", { class: "lane-legend" }, one("joined", "joined"), one("left", "left"), one("replaced", "came back"), one("timeout", "timed out"), one("silent", "silent"), one("leader", "leader"),
    h("li", { class: "quiet" }, "numbers on a lane: partitions"),
    timeline.lanes_total > timeline.lanes.length && h("li", { class: "quiet" }, `the ${timeline.lanes.length} of ${counted(timeline.lanes_total, "member")} with most events`));
}

// What one generation was: durations, who came and went, and why with confidences.
export function described(column, rows, index) {
  const named = (mark) => rows.filter((lane) => lane.cells.some((cell) => cell.column === index && cell.mark === mark)).map((lane) => lane.label);
  const fact = (name, value, title) => h("div", { title }, h("dt", {}, name), h("dd", { class: "num" }, value));
  const who = (text, names) => names.length > 0 && h("p", { class: "moved" }, h("b", {}, text), " ", h("span", { class: "mono" }, names.slice(0, 8).join(", ")), names.length > 8 && ` and ${names.length - 8} more`);
  return [
    h("div", { class: "detail-head" },
      h("h3", {}, column.generation === null ? words(column.kind) : `Generation ${column.generation}`, h("span", { class: `quiet ${tone(column.severity)}` }, column.kind === "rebalance" ? "" : ` ${words(column.kind)}`)),
      h("time", { class: "quiet num", title: utc(column.at) }, moment(column.at)), column.history && h("span", { class: "quiet" }, "rebuilt from history")),
    h("dl", { class: "facts" },
      fact("join", range(column.join_ms_min, column.join_ms_max), "How long members were joining"),
      fact("sync", duration(column.sync_ms), "How long the assignment took"),
      fact("stopped", range(column.stopped_ms_min, column.stopped_ms_max), "How long consumption stood still"),
      column.arrived !== null && fact("records arrived", number(column.arrived), "Records that came while partitions stood still"),
      column.waiting_peak !== null && fact("records waited", number(column.waiting_peak), "Records that waited at most until the group had caught up"),
      column.caught_up_ms !== null && fact("caught up", duration(column.caught_up_ms), "From its end until no more records waited than before"),
      column.cost_of > 1 && fact("rebalances", number(column.cost_of), "The group had not caught up when the next one began: they cost this together"),
      column.partition_seconds !== null && fact("partition-seconds", number(Math.round(column.partition_seconds)), "Partitions times how long they stood still, at most"),
      fact("members", column.members ?? "–"),
      fact("evidence", column.evidence, "read from a record, derived from several, or suspected")),
    h("div", { class: "why-who" }, h("div", {}, h("h4", {}, "Why"), causes(column.causes, { full: true })),
      h("div", {}, who("Joined", named("joined")), who("Left", named("left")), who("Came back", named("replaced")))),
  ];
}
