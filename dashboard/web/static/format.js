// Times, durations and names as people read them. All times are ms since epoch.

let inUtc = false;

// Times are shown in the browser's zone, or in UTC.
export const setZone = (name) => { inUtc = name === "utc"; };

// A date of which the plain getters give the shown zone's parts.
const shown = (at) => {
  const date = new Date(at);
  return inUtc ? new Date(date.getTime() + date.getTimezoneOffset() * 60000) : date;
};

const two = (number) => String(number).padStart(2, "0");

export const number = (value) => Number(value).toLocaleString("en");

// A number with its noun, which takes an s but for one.
export const counted = (count, noun) => `${number(count)} ${noun}${count === 1 ? "" : "s"}`;

export function duration(ms) {
  if (ms === null || ms === undefined) return "–";
  const s = Math.abs(ms) / 1000;
  if (s < 0.9995) return `${Math.round(Math.abs(ms))} ms`;
  if (s < 10) return `${s.toFixed(1)} s`;
  if (s < 60) return `${Math.floor(s)} s`;
  if (s < 3600) return units(s, 60, "min", 1, "s");
  if (s < 86400) return units(s, 3600, "h", 60, "min");
  return units(s, 86400, "d", 3600, "h");
}

// A duration in two units, in one where it is whole.
function units(s, large, name, small, smallName) {
  const rest = Math.floor((s % large) / small);
  return `${Math.floor(s / large)} ${name}${rest ? ` ${rest} ${smallName}` : ""}`;
}

export function ago(at, now) {
  if (at === null || at === undefined || at < 0) return "–";
  const ms = now - at;
  if (ms < 1000) return "now";
  if (ms < 60000) return `${Math.floor(ms / 1000)} s ago`;
  if (ms < 3600000) return `${Math.floor(ms / 60000)} min ago`;
  if (ms < 86400000) return `${Math.floor(ms / 3600000)} h ago`;
  return `${Math.floor(ms / 86400000)} d ago`;
}

export function time(at) {
  const date = shown(at);
  return Number.isNaN(date.getTime()) ? "–" : `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
}

// The ms of a time in an address, as the API takes it: ms, or ISO 8601, in UTC where it says no zone; null for none.
export function instant(text) {
  if (/^\d+$/.test(text)) return Math.min(Number(text), 253402300799999);
  if (!/^\d{4}-\d\d-\d\d/.test(text)) return null;
  const at = Date.parse(/T[\d:.]+$/.test(text) ? `${text}Z` : text);
  return Number.isFinite(at) ? at : null;
}

export function moment(at) {
  const date = shown(at);
  if (Number.isNaN(date.getTime())) return "–";
  return `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())} ${time(at)}`;
}

export const utc = (at) => {
  const date = new Date(at);
  return Number.isNaN(date.getTime()) ? "" : `${date.toISOString().replace("T", " ").replace("Z", "")} UTC`;
};

// A time as its field takes it, in the shown zone, and back: ms, NaN for none.
export const local = (at) => moment(at).replace(" ", "T");
export const fromLocal = (text) => new Date(inUtc && text ? `${text}Z` : text).getTime();

export const share = (value) => `${Math.round(value * 100)} %`;

export function range(low, high) {
  if (low === null && high === null) return "–";
  if (low === null || high === null) return `${low === null ? "≤" : "≥"} ${duration(low ?? high)}`;
  return duration(low) === duration(high) ? duration(low) : `${duration(low)} – ${duration(high)}`;
}

// A host as people write it: Java's addresses begin with a slash.
export const host = (name) => (name ?? "").replace(/^\//, "");

export const words = (name) => String(name).replaceAll("_", " ");

export const bytes = (size) => {
  if (size < 1024) return `${size} B`;
  return size < 1048576 ? `${(size / 1024).toFixed(0)} kB` : `${(size / 1048576).toFixed(1)} MB`;
};

const STATES = { PreparingRebalance: "Rebalancing", CompletingRebalance: "Syncing" };
export const state = (name) => STATES[name] ?? name;

// The colour family of a state, a severity or a cause.
export function tone(name) {
  if (["Stable"].includes(name)) return "good";
  if (["PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling"].includes(name)) return "busy";
  if (["critical"].includes(name)) return "bad";
  if (["warning"].includes(name)) return "warn";
  return "calm";
}

const BAD = ["session_timeout", "poll_interval_exceeded", "join_deadline_missed", "sync_deadline_missed",
  "static_member_expired", "assignment_not_stored", "group_over_capacity", "group_deleted_by_admin"];
const GOOD = ["member_joined", "first_start", "cooperative_follow_up", "static_member_replaced"];
export const causeTone = (cause) => {
  if (BAD.includes(cause)) return "bad";
  return GOOD.includes(cause) ? "good" : cause === "unknown" || cause === "" ? "calm" : "info";
};
