// Silences and notifications: who was notified of an incident, and how to silence its alerts.

import { send } from "./api.js";
import { h, put } from "./dom.js";
import { moment, time, utc, words } from "./format.js";
import { chip, empty, panel } from "./parts.js";

const LASTS = [["30m", "30 minutes"], ["1h", "1 hour"], ["4h", "4 hours"], ["1d", "1 day"], ["7d", "7 days"]];

// As Alertmanager quotes a value.
const quoted = (value) => `"${value.replaceAll("\\", "\\\\").replaceAll('"', '\\"').replaceAll("\n", "\\n")}"`;
const matchersOf = (one) => [one.group !== null && `group=${quoted(one.group)}`, `kind=${quoted(one.kind)}`, one.group === null && `scope=${quoted(one.scope)}`].filter(Boolean).join(",");
const inShell = (text) => `'${text.replaceAll("'", "'\\''")}'`;

// The panel of an incident: it fills by itself, since both answers come from the storage.
export function notifications(app, one) {
  const list = h("div", {}, h("p", { class: "quiet" }, "Asking …"));
  const silenced = h("ul", { class: "silences" });
  const fill = async () => {
    try {
      const [told, held] = await Promise.all([app.ask("notified", { id: one.id }), app.ask("silences", { incident: one.id })]);
      put(list, told.rows.length ? h("ol", { class: "feed" }, told.rows.map(notified)) : empty(told.is_on ? "Nobody was notified." : "This monitor has no receivers."));
      put(silenced, held.rows.map((row) => silence(row, held.refused === "", fill, app)));
    } catch (error) {
      if (error.name !== "AbortError") put(list, empty(error.message));
    }
  };
  fill();
  return {
    root: panel("Notified", { class: "notified" }, silenced, list,
      h("p", { class: "row" }, h("button", { class: "button", type: "button", onclick: () => ask(app, one, fill) }, "Silence …"))),
    fill,
    silence: () => { ask(app, one, fill); return true; },
  };
}

const notified = (row) => h("li", { class: "line" }, h("span", { class: "mark" }, row.phase === "resolved" ? "✓" : "→"),
  h("time", { title: `${moment(row.at)} · ${utc(row.at)}` }, time(row.at)),
  h("span", { class: "what" }, h("b", {}, row.receiver), h("span", { class: "quiet" }, ` ${words(row.phase)} · ${row.title}`)));

function silence(row, mayEnd, changed, app) {
  const end = async () => {
    try {
      await send("DELETE", "silences", { id: row.id });
      app.say("The silence has ended.");
    } catch (error) {
      app.say(error.message);
    }
    changed();
  };
  return h("li", { class: "silence" }, chip("silenced", "busy"), h("span", {}, "until ", h("time", { title: utc(row.ends_at) }, moment(row.ends_at)), ` by ${row.created_by}`, row.comment && `: ${row.comment}`,
    h("span", { class: "mono quiet small" }, ` ${row.matchers.join(", ")}`)), mayEnd && h("button", { class: "button small", type: "button", onclick: end }, "End it"));
}

// All silences that have not ended, for the list of incidents.
export async function silences(app) {
  const list = h("ul", { class: "silences" });
  const fill = async () => {
    const held = await app.ask("silences");
    put(list, held.rows.length ? held.rows.map((row) => silence(row, held.refused === "", fill, app)) : h("li", {}, empty("None.")));
  };
  await fill().catch((error) => put(list, h("li", {}, empty(error.message))));
  return panel("Silences", {}, list);
}

async function ask(app, one, done) {
  const held = await app.ask("silences");
  const matchers = h("input", { name: "matchers", value: matchersOf(one), required: true, autocomplete: "off", spellcheck: "false", maxlength: 2000 });
  const problem = h("p", { class: "problem", role: "alert" });
  const dialog = h("dialog", { "aria-labelledby": "silence-title", id: "silence" });
  const close = () => dialog.close();
  const form = h("form", { onsubmit: async (event) => {
    event.preventDefault();
    const given = Object.fromEntries(new FormData(form));
    try {
      const made = await send("POST", "silences", {}, given);
      if (given.created_by) localStorage.setItem("who", given.created_by);
      app.say(`Silenced until ${moment(made.ends_at)}.`);
      close();
      done();
    } catch (error) {
      put(problem, error.message);
    }
  } },
    h("label", {}, "Alerts that match", matchers),
    h("label", {}, "Duration", h("select", { name: "lasts" }, LASTS.map(([value, text]) => h("option", { value, selected: value === "1h" }, text)))),
    h("label", {}, "Comment", h("input", { name: "comment", maxlength: 500, autocomplete: "off" })),
    h("label", {}, "Your name", h("input", { name: "created_by", maxlength: 100, autocomplete: "off", value: localStorage.getItem("who") ?? "" })),
    problem,
    h("p", { class: "row end" }, h("button", { class: "button", type: "button", onclick: close }, "Cancel"), h("button", { class: "button primary" }, "Silence")));
  const command = `rebalance-monitor alerts silence add ${inShell(matchersOf(one))} --for 1h`;
  put(dialog, h("h2", { id: "silence-title" }, "Silence"),
    held.refused ? [h("p", { class: "quiet" }, `This page cannot add a silence: ${held.refused}. On the monitor's machine:`), h("p", {}, h("code", { class: "name" }, command)), h("p", { class: "row end" }, h("button", { class: "button", type: "button", onclick: close }, "Close"))]
      : [h("p", { class: "quiet" }, "Until the silence ends, these alerts notify nobody, and neither does their end. The page still shows the findings."), form]);
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
}
