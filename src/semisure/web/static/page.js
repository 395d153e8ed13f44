/* What all parts of the page share: its state, its words, how it asks the server. */

export const $ = (id) => document.getElementById(id);

export const state = {
  menu: null, // choices that the server offers
  files: [null, null],
  shown: null, // the result on the page
  running: false,
  job: null, // the id of the running job
};
window.semisure = state; // for the console, and for tests

export async function ask(address, options) {
  let answer;
  try {
    answer = await fetch(address, options);
  } catch {
    throw new Error("The server does not answer. Is semisure serve still running?");
  }
  if (answer.ok) return answer.json();
  let detail = "";
  try { detail = (await answer.json()).detail; } catch { /* not ours */ }
  throw new Error(typeof detail === "string" && detail ? detail : `The server answered ${answer.status}.`);
}

export function complain(sentence) {
  $("problem").textContent = sentence;
  $("problem").hidden = !sentence;
}

export function note(sentence) {
  $("note").textContent = sentence;
  $("note").hidden = !sentence;
}

export function percent(share) {
  if (share < 0.001) return "< 0.1 %";
  return `${(100 * share).toFixed(share < 0.1 ? 1 : 0)} %`;
}

export const px = (value, digits = 2) =>
  (value === null || value === undefined ? "–" : `${value.toFixed(digits)} px`);

/* An element with text, a class, and children. */
export function element(tag, { text, kind, ...attributes } = {}, ...children) {
  const made = document.createElement(tag);
  if (text !== undefined) made.textContent = text;
  if (kind) made.className = kind;
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

/* Blue to red over pale yellow: distinct with any colour vision. */
const STOPS = [[44, 123, 182], [141, 200, 227], [255, 246, 178], [253, 174, 97], [215, 25, 28]];

/* The colour of an error on the scale from the least to the most. */
export function color(error, [least, most], alpha = 1) {
  const share = Math.log(error / least) / Math.log(most / least);
  const at = Math.min(Math.max(share, 0), 1) * (STOPS.length - 1);
  const k = Math.min(Math.floor(at), STOPS.length - 2);
  const mixed = STOPS[k].map((low, c) => Math.round(low + (STOPS[k + 1][c] - low) * (at - k)));
  return `rgba(${mixed.join(",")},${alpha})`;
}
