// The lag of a group over its last minutes, with its rebalances drawn into it.

import { h, svg } from "./dom.js";
import { counted, duration, moment, number, time, tone, words } from "./format.js";
import { panel } from "./parts.js";

const TALL = 96;
const HEAD = 16;
const FOOT = 16;

export function lagTrack(seen, width) {
  const points = seen.lag_track;
  if (points.length < 2) return null;
  const wide = Math.max(240, width);
  const [first, last] = [points[0][0], points.at(-1)[0]];
  const most = Math.max(...points.map(([, records]) => records));
  const x = (at) => ((Math.max(first, Math.min(last, at)) - first) / (last - first)) * wide;
  const y = (records) => HEAD + (1 - records / Math.max(1, most)) * (TALL - HEAD - FOOT);
  const line = points.map(([at, records], index) => `${index ? "L" : "M"}${x(at).toFixed(1)} ${y(records).toFixed(1)}`).join("");
  const rebalances = seen.timeline.columns.filter((one) => one.at >= first && one.at <= last);
  const text = `Lag of the last ${duration(last - first)}: ${counted(points.at(-1)[1], "record")} now, ${number(most)} at most, ${counted(rebalances.length, "rebalance")}`;
  const band = (one) => {
    const from = x(one.started_at_min ?? one.at);
    return svg("g", { class: `stop ${one.kind === "rebalance" ? "busy" : tone(one.severity) === "calm" ? "busy" : tone(one.severity)}` },
      svg("rect", { x: from, y: HEAD, width: Math.max(2, x(one.at) - from), height: TALL - HEAD - FOOT }),
      svg("title", {}, `${words(one.kind)}${one.generation === null ? "" : `, generation ${one.generation}`}, ${moment(one.at)}`));
  };
  const drawing = svg("svg", { class: "lag-track", viewBox: `0 0 ${wide} ${TALL}`, width: wide, height: TALL, role: "img", "aria-label": text },
    rebalances.map(band),
    svg("path", { class: "area", d: `${line}L${wide} ${TALL - FOOT}L0 ${TALL - FOOT}Z` }), svg("path", { class: "edge", d: line }),
    svg("text", { x: 0, y: 11 }, `${counted(most, "record")} at most`), svg("text", { x: wide, y: 11, class: "end" }, `${number(points.at(-1)[1])} now`),
    svg("text", { x: 0, y: TALL - 4 }, time(first)), svg("text", { x: wide, y: TALL - 4, class: "end" }, time(last)));
  return panel("Lag over time", { class: "lag-panel" }, drawing,
    h("p", { class: "quiet aside" }, rebalances.length ? "Shaded: rebalances, from their start to their generation." : "No rebalance in this time."));
}
