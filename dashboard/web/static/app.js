// The page's frame: which view, which moment, live or not, theme and keys.

import { follow, forget, get, keepToken, Problem } from "./api.js";
import { cluster } from "./cluster.js";
import { by, h, href, put, write } from "./dom.js";
import { counted, duration, fromLocal, instant, local, moment, setZone, utc } from "./format.js";
import { listen } from "./keys.js";

const main = by("main");
// Only the first view comes with the page; the others are fetched when they are wanted, or soon after.
const VIEWS = {
  cluster: () => cluster,
  group: async () => (await import("./group.js")).group,
  incident: async () => (await import("./incident.js")).incident,
  incidents: async () => (await import("./incident.js")).incidents,
  findings: async () => (await import("./findings.js")).findings,
};

// What every view may use: the query, the time, and how to go elsewhere.
const app = {
  params: new URLSearchParams(),
  at: null,
  // Before the first batch no time goes on: what is shown is as old as it was kept.
  now: () => (clock.live && !(app.health?.last_batch < 0) ? clock.now + (Date.now() - clock.read) : clock.now),
  saw: (now, live) => Object.assign(clock, { now: now < 0 ? Date.now() : now, live: live ?? clock.live, read: Date.now() }),
  get: (path, params) => get(path, { ...params, at: app.at }, aborter.signal),
  ask: (path, params) => get(path, params, aborter.signal),
  go: (params) => navigate(href(params)),
  say: (text) => write(by("said"), text),
  version: -1,
};
const clock = { now: Date.now(), live: true, read: Date.now() };
let view = null;
let aborter = new AbortController();
let stream = null;

export function navigate(address, replace = false) {
  history[replace ? "replaceState" : "pushState"](null, "", address);
  show();
  scrollTo(0, 0);
}

function which(params) {
  if (params.has("group")) return "group";
  if (params.has("incident")) return "incident";
  return params.get("view") in VIEWS ? params.get("view") : "cluster";
}

async function show() {
  aborter.abort();
  aborter = new AbortController();
  const params = (app.params = new URLSearchParams(location.search));
  app.at = instant(params.get("at") ?? "");
  zone();
  const name = which(params);
  view?.leave?.();
  view = null;
  for (const tab of document.querySelectorAll("[data-tab]"))
    tab.toggleAttribute("aria-current", tab.dataset.tab === name || (tab.dataset.tab === "cluster" && name === "group"));
  by("search").value = name === "cluster" ? (params.get("search") ?? "") : "";
  travel();
  const signal = aborter.signal;
  try {
    const open = await VIEWS[name]();
    if (signal.aborted) return;
    const made = await open(app, params);
    if (signal.aborted) return;
    view = made;
    document.title = `${made.title} · Rebalance monitor`;
    put(main, made.root);
    main.setAttribute("data-view", name);
    tick();
  } catch (error) {
    if (error.name !== "AbortError") failed(error);
  }
}

function failed(error) {
  if (error instanceof Problem && error.status === 401) {
    by("sign-in").showModal();
    return;
  }
  put(main, h("section", { class: "empty" },
    h("h1", {}, error.status === 404 ? "Not found" : "No answer"),
    h("p", { class: "quiet" }, error.message),
    h("p", { class: "row" }, h("a", { class: "button", href: "?", "data-link": true }, "All groups"),
      h("button", { class: "button", type: "button", onclick: show }, "Try again"))));
}

function travel() {
  const bar = by("travel");
  bar.hidden = app.at === null;
  document.body.toggleAttribute("data-past", app.at !== null);
  if (app.at === null) return;
  const step = (ms, text) => h("button", { class: "button small", type: "button", onclick: () => goTo(app.at + ms) }, text);
  put(bar, h("span", { title: utc(app.at) }, "As it was at ", h("b", {}, moment(app.at))),
    step(-3600000, "− 1 h"), step(-60000, "− 1 m"), step(60000, "+ 1 m"), step(3600000, "+ 1 h"),
    h("button", { class: "button small primary", type: "button", onclick: () => goTo(null) }, "Back to now"));
}

function goTo(at) {
  const params = new URLSearchParams(location.search);
  if (at === null) params.delete("at");
  else params.set("at", String(Math.round(at)));
  navigate(`?${params}`);
}

function connect() {
  stream?.abort();
  stream = new AbortController();
  follow(app.version, (event, data) => {
    app.version = data.version;
    if (event === "hello") return;
    app.saw(data.now, data.overview.live);
    shell(data.overview);
    if (app.at === null) view?.change?.(event, data);
  }, (state) => document.body.setAttribute("data-link-state", state), stream.signal);
}

// What stands in the frame, of whatever view.
function shell(overview) {
  write(by("cluster-name"), overview.cluster || "Rebalance monitor");
  const count = overview.incidents.filter((one) => one.severity === "critical").length;
  by("incident-count").hidden = count === 0;
  write(by("incident-count"), count);
  app.health = overview.health;
  by("live").dataset.ready = overview.health.ready;
  tellPhase(overview.health, overview.live);
}

// Until the monitor has read the topic's history its page says so: what is shown is old, or not all there is.
function phaseOf(health, live) {
  if (!live || health.ready) return "current";
  if (health.as_of !== null) return "stale";
  return health.last_batch < 0 ? "starting" : "reading";
}

function tellPhase(health, live) {
  const phase = phaseOf(health, live);
  document.body.setAttribute("data-phase", phase);
  const bar = by("phase");
  bar.hidden = phase === "current";
  const left = health.lag_records ? `Still to be read: ${counted(health.lag_records, "record")} of history.` : "";
  const parts = health.shards ? `Read so far: ${health.shards - health.catching_up} of ${counted(health.shards, "partition")}.` : left;
  if (phase === "starting") put(bar, h("b", {}, "Starting: nothing has been read yet."), ` ${left} This page fills by itself.`);
  if (phase === "stale") put(bar, h("b", { title: utc(health.as_of) }, `As of ${moment(health.as_of)}:`), ` the monitor was started again and is reading. ${parts}`);
  if (phase === "reading") put(bar, h("b", {}, "Reading history:"), ` what is shown is not complete yet. ${parts}`);
}

function pulse() {
  const health = app.health;
  if (document.body.dataset.linkState === "away") return "offline";
  if (!health) return "connecting";
  if (health.last_batch < 0 && clock.live) return "starting";
  if (!health.ready && clock.live) return health.shards ? `reading history: ${health.shards - health.catching_up} of ${counted(health.shards, "partition")}` : "starting";
  if (!clock.live) return "replay";
  const behind = app.now() - clock.now + (health.behind_ms ?? 0);
  return behind < 3000 ? "live" : `${duration(behind)} behind`;
}

function tick() {
  write(by("live-text"), app.at === null ? pulse() : "past");
  const now = app.at ?? app.now();
  for (const element of document.querySelectorAll("[data-since]"))
    write(element, duration(now - Number(element.dataset.since)));
  view?.tick?.(now);
}

function theme(flip) {
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  let name = localStorage.getItem("theme") ?? (dark ? "dark" : "light");
  if (flip) localStorage.setItem("theme", (name = name === "dark" ? "light" : "dark"));
  document.documentElement.setAttribute("data-theme", name);
  write(by("theme"), name === "dark" ? "☾" : "☀");
}

const zoneNow = () => (app.params.get("tz") ?? localStorage.getItem("zone")) === "utc" ? "utc" : "browser";

function zone() {
  const name = zoneNow();
  setZone(name);
  write(by("zone"), name === "utc" ? "UTC" : "local");
  for (const one of document.querySelectorAll(".zone-name")) write(one, name === "utc" ? "UTC" : "your time zone");
}

function flipZone() {
  const name = zoneNow() === "utc" ? "browser" : "utc";
  localStorage.setItem("zone", name);
  const params = new URLSearchParams(location.search);
  params.set("tz", name);
  history.replaceState(null, "", `?${params}`);
  app.say(name === "utc" ? "Times are in UTC." : "Times are in your time zone.");
  show();
}

function askWhen() {
  by("when-input").value = local(app.at ?? app.now());
  put(by("when-quick"), [["5 minutes", 300000], ["1 hour", 3600000], ["1 day", 86400000]].map(([text, ms]) =>
    h("button", { class: "button small", value: "quick", onclick: () => goTo((app.at ?? app.now()) - ms) }, `${text} ago`)));
  by("when").showModal();
}

addEventListener("popstate", show);
document.addEventListener("click", (event) => {
  const anchor = event.target.closest?.("a[data-link]");
  if (!anchor || event.metaKey || event.ctrlKey || event.shiftKey || event.button !== 0) return;
  event.preventDefault();
  navigate(anchor.href);
});
by("find").addEventListener("submit", (event) => {
  event.preventDefault();
  app.go({ search: by("search").value.trim() });
  main.focus();
});
by("theme").addEventListener("click", () => theme(true));
by("zone").addEventListener("click", flipZone);
by("when-zone").addEventListener("click", () => {
  flipZone();
  by("when-input").value = local(app.at ?? app.now());
});
by("live").addEventListener("click", askWhen);
by("help-button").addEventListener("click", () => by("help").showModal());
by("when-form").addEventListener("submit", (event) => {
  if (event.submitter?.value === "live") goTo(null);
  const at = fromLocal(by("when-input").value);
  if (event.submitter?.value === "go" && Number.isFinite(at)) goTo(at);
});
by("sign-in-form").addEventListener("submit", () => {
  keepToken(by("token").value);
  by("token").value = "";
  start();
});
listen({ theme: () => theme(true), zone: flipZone, when: askWhen, go: navigate, view: () => view });
setInterval(tick, 500);
// A page that outlives the monitor's version must not look for its scripts in the next one.
setTimeout(() => Object.values(VIEWS).forEach((one) => one()), 2000);

async function start() {
  show().then(forget);
  try {
    const overview = await get("cluster");
    app.version = overview.version;
    app.saw(overview.now, overview.live);
    shell(overview);
    connect();
  } catch (error) {
    document.body.setAttribute("data-link-state", "away");
    if (error.status !== 401) setTimeout(start, 5000);
  }
}
theme(false);
start();
