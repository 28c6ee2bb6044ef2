// Elements without markup: every text becomes a text node, so names from clients are never HTML.

const SVG = "http://www.w3.org/2000/svg";

// Characters that are not seen, or turn text around, are shown by their code.
const UNSEEN = /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202f\u2060-\u2069\ufeff\ufff9-\ufffb]/g;

export const plain = (text) =>
  String(text).replace(UNSEEN, (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, "0")}`);

function fill(element, properties, children) {
  for (const [name, value] of Object.entries(properties || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "vars") for (const [key, one] of Object.entries(value)) element.style.setProperty(key, one);
    else element.setAttribute(name, value === true ? "" : value);
  }
  add(element, children);
  return element;
}

export function add(element, children) {
  for (const child of children.flat(9)) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : plain(child));
  }
  return element;
}

export const h = (name, properties, ...children) => fill(document.createElement(name), properties, children);
export const svg = (name, properties, ...children) =>
  fill(document.createElementNS(SVG, name), properties, children);

export function put(element, ...children) {
  element.replaceChildren();
  return add(element, children);
}

// Like `put`, but whoever has the focus on a link or button keeps it.
export function refresh(element, ...children) {
  const active = element.contains(document.activeElement) ? document.activeElement : null;
  const name = (one) => one.getAttribute("href") ?? one.textContent;
  const had = active && name(active);
  put(element, ...children);
  if (active) [...element.querySelectorAll("a, button")].find((one) => name(one) === had)?.focus({ preventScroll: true });
}

// Sets text only where it differs, so that selections and screen readers are left alone.
export function write(element, text) {
  const shown = plain(text);
  if (element.textContent !== shown) element.textContent = shown;
}

export const by = (id) => document.getElementById(id);

export const link = (params, properties, ...children) =>
  h("a", { href: href(params), "data-link": true, ...properties }, ...children);

// What the address keeps from view to view: the moment, the time zone and the columns.
const KEPT = ["at", "tz", "columns"];

export function href(params) {
  const query = new URLSearchParams();
  const here = new URLSearchParams(location.search);
  for (const [name, value] of Object.entries({ ...Object.fromEntries(KEPT.map((name) => [name, here.get(name)])), ...params }))
    if (value !== null && value !== undefined && value !== "") query.set(name, value);
  return `?${query}`;
}
