// The API: answers, and the stream of changes. The token, if one is wanted, lives in this tab alone.

const BASE = "api/v1";
const KEY = "rebalance-monitor-token";

export class Problem extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

const headers = () => {
  const token = sessionStorage.getItem(KEY);
  return token ? { authorization: `Bearer ${token}` } : {};
};

export const keepToken = (token) => sessionStorage.setItem(KEY, token);

function address(path, params) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(params || {}))
    if (value !== null && value !== undefined && value !== "") query.set(name, value);
  const text = query.toString();
  return `${BASE}/${path}${text ? `?${text}` : ""}`;
}

// Answers that came within the page, for the questions it asks first; forgotten once it stands.
const first = new Map(JSON.parse(document.getElementById("first")?.textContent ?? "[]")
  .map(([path, params, answer]) => [address(path, params), answer]));

export const forget = () => first.clear();

export async function get(path, params, signal) {
  const known = first.get(address(path, params));
  if (known) return known;
  let answer;
  try {
    answer = await fetch(address(path, params), { headers: headers(), signal });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem(0, "the monitor cannot be reached");
  }
  const body = await answer.json().catch(() => ({}));
  if (!answer.ok) throw new Problem(answer.status, body.error || answer.statusText);
  return body;
}

// Changes something; the token and the type are what no foreign page can send.
export async function send(method, path, params, body) {
  const given = { method, headers: { ...headers(), "content-type": "application/json" }, body: body && JSON.stringify(body) };
  const answer = await fetch(address(path, params), given).catch(() => { throw new Problem(0, "the monitor cannot be reached"); });
  const said = await answer.json().catch(() => ({}));
  if (!answer.ok) throw new Problem(answer.status, said.error || answer.statusText);
  return said;
}

// Calls `on(event, data)` for each event until `signal` aborts; connects again by itself, `since` going on.
// `state(text)` is told `live` or `away`.
export async function follow(since, on, state, signal) {
  let version = since;
  for (let wait = 1000; !signal.aborted; wait = Math.min(wait * 2, 15000)) {
    try {
      const answer = await fetch(address("events", { since: version }), { headers: headers(), signal });
      if (!answer.ok) throw new Problem(answer.status, answer.statusText);
      state("live");
      wait = 1000;
      for await (const [event, data] of parsed(answer.body)) {
        version = data.version ?? version;
        on(event, data);
      }
    } catch (error) {
      if (signal.aborted) return;
    }
    state("away");
    await new Promise((done) => setTimeout(done, wait));
  }
}

async function* parsed(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const blocks = (rest + value).split(/\r?\n\r?\n/);
    rest = blocks.pop();
    for (const block of blocks) {
      const lines = block.split(/\r?\n/);
      const data = lines.filter((line) => line.startsWith("data:")).map((line) => line.slice(5)).join("\n");
      const event = lines.find((line) => line.startsWith("event:"));
      if (event && data) yield [event.slice(6).trim(), JSON.parse(data)];
    }
  }
}
