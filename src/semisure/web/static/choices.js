/* Choosing: images, samples, settings. */

import { $, ask, complain, element, state } from "./page.js";

const SETTINGS = ["matcher", "calibration", "model", "fov", "estimator", "method", "threshold", "seed"];
const MODELS = {
  auto: "auto: the matches decide", homography: "homography: one plane",
  fundamental: "fundamental matrix: depth", essential: "camera motion: depth",
};
const METHODS = { "core+": "core+ (ours)", core: "core (the paper's)" };

function fill(select, rows, initial) {
  select.replaceChildren(...rows.map(([value, text]) => new Option(text, value, false, value === initial)));
}

export async function loadMenu() {
  state.menu = await ask("api/menu");
  const { matchers, models, estimators, methods, suffixes } = state.menu;
  fill($("matcher"), matchers.map((m) => [m.name, m.name + (m.why_not ? " (not ready)" : "")]), "daisy");
  fill($("model"), models.map((m) => [m, MODELS[m] || m]), "auto");
  fill($("estimator"), estimators.map((e) => [e, e]), "magsac++");
  fill($("method"), methods.map((m) => [m, METHODS[m] || m]), "core+");
  for (const input of document.querySelectorAll(".drop input")) input.accept = ["image/*", ...suffixes].join(",");
  offerSamples();
  offerCalibrations();
  adapt();
}

/* ---- samples and files ------------------------------------------------------- */

const sample = () => (document.querySelector("#samples [aria-pressed=true]") || { value: "" }).value;

function offerSamples() {
  const rows = Object.entries(state.menu.samples);
  $("sample-choice").hidden = !rows.length;
  $("samples").replaceChildren(...rows.map(([name, title]) => {
    const image = element("img", { src: `api/samples/${name}.jpg`, alt: "", width: 192, height: 72 });
    const button = element("button", { type: "button", kind: "sample", value: name, "aria-pressed": "false" },
      image, element("span", { text: title }));
    button.addEventListener("click", () => chooseSample(sample() === name ? "" : name));
    return button;
  }));
}

function chooseSample(name) {
  for (const button of document.querySelectorAll("#samples button")) {
    button.setAttribute("aria-pressed", String(button.value === name));
  }
  if (name) [0, 1].forEach((slot) => choose(slot, null));
  complain("");
  adapt();
}

function choose(slot, file) {
  const drop = document.querySelector(`.drop[data-slot="${slot}"]`);
  const picture = drop.querySelector("img");
  if (picture.src) URL.revokeObjectURL(picture.src);
  state.files[slot] = file;
  picture.hidden = true;
  picture.removeAttribute("src");
  if (file) {
    if (sample()) chooseSample("");
    complain("");
    picture.onload = () => { picture.hidden = false; };
    picture.onerror = () => nameFields(); // a format that the browser cannot show, but semisure reads
    picture.src = URL.createObjectURL(file);
  }
  adapt();
}

function nameFields() {
  const name = sample();
  for (const drop of document.querySelectorAll(".drop")) {
    const file = state.files[drop.dataset.slot];
    const title = name ? `sample: ${state.menu.samples[name]}` : "drop it here, or click";
    drop.querySelector("small").textContent = file ? file.name : title;
  }
}

function takeFiles(slot, files) {
  if (files.length > 2) return complain("Drop one image, or two at once.");
  if (files.length === 2) return [...files].forEach((file, k) => choose(k, file));
  if (files.length) choose(slot, files[0]);
}

function startDropping() {
  for (const drop of document.querySelectorAll(".drop")) {
    const slot = Number(drop.dataset.slot);
    const input = drop.querySelector("input");
    input.addEventListener("change", () => { takeFiles(slot, [...input.files]); input.value = ""; });
    for (const name of ["dragenter", "dragover"]) {
      drop.addEventListener(name, (event) => { event.preventDefault(); drop.classList.add("over"); });
    }
    drop.addEventListener("dragleave", () => drop.classList.remove("over"));
    drop.addEventListener("drop", (event) => {
      event.preventDefault();
      drop.classList.remove("over");
      takeFiles(slot, event.dataTransfer.files);
    });
  }
  for (const name of ["dragover", "drop"]) window.addEventListener(name, (event) => event.preventDefault());
}

/* ---- settings ---------------------------------------------------------------- */

function chosenMatcher() {
  return state.menu.matchers.find((m) => m.name === $("matcher").value);
}

function offerCalibrations() {
  const { name, calibrations } = chosenMatcher();
  fill($("calibration"), calibrations.map((c) => [c, c]), name);
}

/* Whatever depends on a choice: names, why a matcher is not ready, buttons. */
function adapt() {
  nameFields();
  const { name, why_not: reason } = chosenMatcher();
  $("not-ready").hidden = !reason;
  $("not-ready").textContent = `${name}: ${reason}`;
  $("first-use").hidden = Boolean(reason) || $("calibration").value !== state.menu.first_use;
  $("fov-choice").hidden = !["auto", "essential"].includes($("model").value);
  $("run").disabled = state.running || Boolean(reason);
  offerAgain();
}

/* What was matched can be estimated again while images and matcher stay as they were. */
function offerAgain() {
  const { shown } = state;
  const same = shown && shown.page.chosen.matcher === $("matcher").value
    && shown.input === inputKey();
  $("again").hidden = !same;
  $("again").disabled = state.running;
}

export function inputKey() {
  const files = state.files.map((file) => (file ? `${file.name}/${file.size}/${file.lastModified}` : ""));
  return JSON.stringify([sample(), ...files]);
}

export function settingsForm() {
  const data = new FormData();
  for (const name of SETTINGS) {
    const hidden = name === "fov" && $("fov-choice").hidden;
    data.append(name, hidden ? "" : $(name).value);
  }
  return data;
}

export function orderForm() {
  const data = settingsForm();
  if (sample()) {
    data.append("sample", sample());
    return data;
  }
  const most = state.menu.body_bytes / 2;
  state.files.forEach((file, slot) => {
    if (!file) throw new Error(`Image ${slot + 1} is missing: choose two images, or a sample.`);
    if (file.size > most) throw new Error(`Image ${slot + 1} has more than the ${most / 1e6} MB that are accepted.`);
    data.append(`image${slot}`, file, "image"); // its name stays here
  });
  return data;
}

export function startChoosing() {
  startDropping();
  $("matcher").addEventListener("change", offerCalibrations);
  $("form").addEventListener("change", adapt);
  document.addEventListener("busy", adapt);
}
