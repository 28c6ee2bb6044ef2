// Small pieces that several views share: chips, bars, causes, lists of findings.

import { h, link, svg } from "./dom.js";
import { ago, causeTone, counted, duration, host, moment, number, share, state, time, tone, utc, words } from "./format.js";

export const chip = (text, kind = "calm", title) => h("span", { class: `chip ${kind}`, title }, text);
export const stateChip = (name) => chip(state(name), tone(name), name);
export const when = (at) => h("time", { title: utc(at), datetime: new Date(at).toISOString?.() }, time(at));

// What is wider than the page scrolls by itself, by keyboard too.
export const scroll = (label, ...children) => h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": label }, children);

export const panel = (title, properties, ...children) =>
  h("section", { ...properties, class: `panel ${properties?.class ?? ""}` }, title && h("h2", {}, title), ...children);

// Bars of counts, oldest first; the title of each says what it counts.
export function bars(counts, { width, height, title, gap = 1, label }) {
  const top = Math.max(1, ...counts);
  const step = width / counts.length;
  const wide = Math.max(0.5, step - gap);
  return svg("svg", { class: "bars", viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": label, preserveAspectRatio: "none" },
    // Empty ones are one element together: a page has thousands.
    svg("path", { class: "off", d: counts.map((count, index) => count ? "" : `M${index * step} ${height - 1}h${wide}v1h-${wide}z`).join("") }),
    counts.map((count, index) => {
      const tall = Math.max(2.5, (count / top) * height);
      return count > 0 && svg("rect", { x: index * step, y: height - tall, width: wide, height: tall, rx: Math.min(1, step / 4), class: "on" },
        svg("title", {}, title(index, count)));
    }));
}

export const meter = (value, kind, title) =>
  h("span", { class: `meter ${kind}`, title, vars: { "--value": Math.max(0, Math.min(1, value)) } });

export function causes(list, { full = false } = {}) {
  if (list.length === 0) return h("p", { class: "quiet" }, "No cause is known.");
  return h("ul", { class: "causes" }, list.map((one) =>
    h("li", {},
      h("span", { class: `cause ${causeTone(one.cause)}` }, words(one.cause)),
      // How sure it is that nothing is known is no confidence in a cause.
      one.cause !== "unknown" && [meter(one.confidence, causeTone(one.cause), `confidence ${share(one.confidence)}`), h("span", { class: "num" }, share(one.confidence))],
      full && (one.client_id || one.member_id) && h("span", { class: "who mono" }, one.instance_id || one.client_id || one.member_id, one.host ? ` ${host(one.host)}` : ""),
      full && one.why && h("p", { class: "why" }, one.why))));
}

const MARKS = { critical: "▲", warning: "◆", info: "●" };

export const subject = (one) =>
  one.group !== null && one.group !== undefined
    ? link({ group: one.group }, { class: "mono name" }, one.group)
    : h("span", { class: "quiet" }, one.groups_total ? counted(one.groups_total, "group") : "the cluster");

// One finding (or headline) in a line, as in a log.
export function line(one, now, { withGroup = true } = {}) {
  const cause = one.causes ? one.causes[0]?.cause : one.cause;
  const confidence = one.causes ? one.causes[0]?.confidence : one.confidence;
  return h("li", { class: `line ${tone(one.severity)}` },
    h("span", { class: "mark", title: one.severity }, MARKS[one.severity]),
    h("time", { title: `${moment(one.at)} · ${utc(one.at)}` }, time(one.at)),
    h("span", { class: "what" },
      one.incident ? link({ incident: one.incident }, { class: "kind" }, words(one.kind)) : h("span", { class: "kind" }, words(one.kind)),
      one.phase && h("span", { class: "quiet" }, ` ${one.phase}`),
      one.generation !== null && h("span", { class: "quiet" }, ` g${one.generation}`),
      withGroup && [" ", subject(one)],
      cause && h("span", { class: `cause small ${causeTone(cause)}` }, words(cause), cause !== "unknown" && confidence < 1 && ` ${share(confidence)}`)));
}

// How an event of some length stands: still open, or how long it lasted.
function standing(one) {
  if (one.phase === null) return null;
  return one.phase === "resolved" ? `resolved after ${duration(one.at - one.since)}` : "open";
}

const moves = (one) => one.kind === "coordinator_moved" && one.groups_total === 0;

// Whom an event is about: a group, many of them that unfold, or partitions of the offsets topic.
function about(one) {
  if (one.group !== null) return link({ group: one.group }, { class: "mono name" }, one.group);
  if (moves(one)) return h("span", {}, one.count > 1 ? `${number(one.count)}${one.is_cut ? "+" : ""} partitions of the offsets topic` : "one partition of the offsets topic", one.broker !== null && ` → broker ${one.broker}`);
  if (one.groups.length === 0) return subject(one);
  const more = one.groups_total - one.groups.length;
  return h("details", { class: "folded" }, h("summary", {}, counted(one.groups_total, "group")),
    one.groups.map((name) => [link({ group: name }, { class: "mono name" }, name), " "]), more > 0 && `and ${number(more)} more`);
}

// One event in a line: a departure with its rebalance, an incident from its opening to its end, a burst.
export function eventLine(one, now, { withGroup = true } = {}) {
  const quiet = (text) => text && h("span", { class: "quiet" }, ` ${text}`);
  const clients = one.clients.length > 2 ? `${one.clients.length} members` : one.clients.join(", ");
  const named = one.kind === one.cause ? "" : one.cause;
  return h("li", { class: `line ${tone(one.severity)}` },
    h("span", { class: "mark", title: one.severity }, MARKS[one.severity]),
    h("time", { title: `${one.since < one.at ? `${moment(one.since)} to ` : ""}${moment(one.at)} · ${utc(one.at)}` }, time(one.at)),
    h("span", { class: "what" },
      h("span", { class: "lead" },
        one.incident ? link({ incident: one.incident }, { class: "kind" }, words(one.kind)) : h("span", { class: "kind" }, words(one.kind)),
        one.count > 1 && h("b", { class: "num times" }, ` ×${number(one.count)}${one.is_cut ? "+" : ""}`),
        quiet(standing(one)), one.generation !== null && h("span", { class: "quiet gen" }, ` g${one.generation}`),
        named && h("span", { class: `cause small ${causeTone(named)}` }, words(named)),
        one.cause && one.cause !== "unknown" && one.confidence < 1 && quiet(share(one.confidence))),
      h("span", { class: "tail" },
        (withGroup || one.group === null) && about(one),
        clients && h("span", { class: "mono small quiet who" }, clients),
        one.kind !== "rebalance" && one.with_kinds.includes("rebalance") && h("span", { class: "quiet" }, "→ rebalance"),
        one.kind !== "group_empty" && one.with_kinds.includes("group_empty") && h("span", { class: "quiet" }, "→ group empty"),
        one.waiting > 0 && h("span", { class: "quiet" }, `${counted(one.waiting, "record")} waited`))));
}

// The line of a short history, at most as wide as its cell.
export function spark(values, { width, height, label }) {
  const top = Math.max(1, ...values);
  const step = width / Math.max(1, values.length - 1);
  const path = values.map((value, index) => `${index ? "L" : "M"}${(index * step).toFixed(1)} ${(height - 1 - (value / top) * (height - 2)).toFixed(1)}`).join("");
  return svg("svg", { class: "spark", viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": label }, svg("path", { d: path }));
}

export function empty(text) {
  return h("p", { class: "quiet nothing" }, text);
}

export const since = (at) => h("span", { "data-since": at, class: "num" }, duration(0));

// The facts of an incident in one sentence.
export const told = (one) => {
  const waited = one.details.waiting_peak > 0 ? ` · at most ${counted(one.details.waiting_peak, "record")} waited` : "";
  return sentence(one) + waited;
};

function sentence(one) {
  const d = one.details;
  if (one.kind === "storm") {
    const many = d.count ?? d.total;
    const how = d.rule === "sightings" ? "seen rebalancing again and again" : `${counted(many, "rebalance")} in ${duration(d.window_ms)}`;
    const worst = one.worst;
    const spread = d.worst_client ? " · no member is behind a third of them" : "";
    return how + (worst ? ` · worst offender ${worst.client_id}${worst.host ? ` on ${worst.host}` : ""}, in ${share(worst.share)} of them` : spread);
  }
  if (one.kind === "rebalance_stuck") return `one rebalance for ${duration(d.duration_ms)} (threshold ${duration(d.threshold_ms)})${d.waits_for ? `, waiting for ${d.waits_for}` : d.waits_for_one_of ? `, waiting for one of ${d.waits_for_one_of}` : ""}`;
  if (one.kind === "group_empty") return d.ended_by === "leave" ? "its last member left" : d.ended_by === "session" ? "its last member timed out" : "no members left";
  if (one.kind === "member_silent") return `silent past its ${d.deadline ?? "session"} deadline`;
  if (one.kind === "offsets_expiring") return `offsets expire ${moment(d.expires_at)}`;
  return one.why || one.what;
}

export function incidentCard(one, now) {
  const open = one.closed_at === null;
  return h("li", { class: `incident ${tone(one.severity)}${open ? "" : " closed"}` },
    link({ incident: one.id }, { class: "row-link cover", "aria-label": `${words(one.kind)} ${one.group ?? ""}` }),
    h("div", { class: "incident-head" },
      h("b", { class: "label" }, words(one.kind)),
      open ? h("span", { class: "timer" }, "for ", since(one.opened_at)) : h("span", { class: "quiet" }, `resolved ${ago(one.closed_at, now)}`)),
    h("div", { class: "mono name" }, one.group ?? (one.groups_total ? counted(one.groups_total, "group") : one.scope)),
    h("div", { class: "quiet say" }, told(one)));
}
