"use strict";

const $ = (id) => document.getElementById(id);
const POLL_MS = 250;
const REACH_PX = 14; // from the pointer to a match
const MAX_LINES = 200;
const [LEAST_PX, MOST_PX] = [0.3, 30];
// Blue to red over pale yellow: told apart with any colour vision.
const STOPS = [[44, 123, 182], [141, 200, 227], [255, 246, 178], [253, 174, 97], [215, 25, 28]];

let menu = null;
let chosen = [null, null]; // files
let shown = null; // the result on the page
let running = false;
let current = null; // the id of the running job

async function ask(address, options) {
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

function complain(sentence) {
  $("problem").textContent = sentence;
  $("problem").hidden = !sentence;
}

/* ---- choosing ---------------------------------------------------------------- */

function fill(select, rows, initial) {
  select.replaceChildren(...rows.map(([value, text, disabled]) => {
    const option = new Option(text, value, false, value === initial);
    option.disabled = Boolean(disabled);
    return option;
  }));
}

async function loadMenu() {
  menu = await ask("api/menu");
  fill($("matcher"), menu.matchers.map((m) => [m.name, m.name + (m.why_not ? " (not ready)" : ""), m.why_not]), "daisy");
  const models = { auto: "auto: find out", fundamental: "fundamental matrix" };
  fill($("model"), menu.models.map((m) => [m, models[m] || m]), "auto");
  fill($("estimator"), menu.estimators.map((e) => [e, e]), "magsac++");
  const notes = { "core+": "core+ (ours)", core: "core (the paper's)" };
  fill($("method"), menu.methods.map((m) => [m, notes[m] || m]), "core+");
  const samples = Object.entries(menu.samples);
  fill($("sample"), [["", "my images"], ...samples], "");
  $("sample-choice").hidden = !samples.length;
  offerCalibrations();
}

function offerCalibrations() {
  const matcher = menu.matchers.find((m) => m.name === $("matcher").value);
  fill($("calibration"), (matcher ? matcher.calibrations : []).map((c) => [c, c]), matcher && matcher.name);
}

function choose(slot, file) {
  const picture = document.querySelector(`.drop[data-slot="${slot}"] img`);
  if (picture.src) URL.revokeObjectURL(picture.src);
  chosen[slot] = file;
  picture.hidden = true;
  picture.removeAttribute("src");
  if (file) {
    complain("");
    $("sample").value = "";
    picture.onload = () => { picture.hidden = false; };
    picture.src = URL.createObjectURL(file);
  }
  nameFields();
}

function nameFields() {
  const sample = $("sample").value;
  for (const drop of document.querySelectorAll(".drop")) {
    const file = chosen[drop.dataset.slot];
    const name = sample ? `sample: ${menu.samples[sample]}` : "drop it here, or click";
    drop.querySelector("small").textContent = file ? file.name : name;
  }
}

function takeFiles(slot, files) {
  if (files.length > 2) return complain("Drop one image, or two at once.");
  if (files.length === 2) return [...files].forEach((file, k) => choose(k, file));
  if (files.length) choose(slot, files[0]);
}

for (const drop of document.querySelectorAll(".drop")) {
  const slot = Number(drop.dataset.slot);
  const input = drop.querySelector("input");
  input.addEventListener("change", () => { takeFiles(slot, input.files); input.value = ""; });
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
$("matcher").addEventListener("change", offerCalibrations);
$("sample").addEventListener("change", () => {
  const name = $("sample").value;
  if (name) [0, 1].forEach((slot) => choose(slot, null));
  complain("");
  nameFields();
});

/* ---- running ----------------------------------------------------------------- */

function form() {
  const data = new FormData();
  for (const name of ["matcher", "calibration", "model", "estimator", "method"]) data.append(name, $(name).value);
  if ($("sample").value) {
    data.append("sample", $("sample").value);
    return data;
  }
  chosen.forEach((file, slot) => {
    if (!file) throw new Error(`Image ${slot + 1} is missing: choose two images, or a sample.`);
    if (file.size > menu.limits.file_bytes) {
      throw new Error(`Image ${slot + 1} has ${Math.round(file.size / 1e6)} MB; at most ${menu.limits.file_bytes / 1e6} MB are accepted.`);
    }
    data.append(`image${slot}`, file, "image"); // its name stays here
  });
  return data;
}

const pause = (ms) => new Promise((resolve) => { setTimeout(resolve, ms); });

/* Matching is one call that tells nothing of itself: the bar moves by stages, or by the
   clock where an earlier job of the same matcher says how long it takes. */
function tellProgress(job) {
  const usual = job.usual_seconds;
  const byStage = (job.step + 0.3) / job.steps;
  $("progress").value = job.state === "waiting" ? 0 : usual ? Math.min(job.seconds / usual, 0.97) : byStage;
  const stage = job.state === "waiting" ? `Waiting, ${job.ahead} before you` : job.stage || "Starting";
  if ($("stage").textContent !== stage) $("stage").textContent = stage; // read aloud once
  const clock = `${Math.floor(job.seconds)} s${usual ? ` of about ${Math.ceil(usual)} s` : ""}`;
  $("clock").textContent = job.seconds < 2 ? "" : clock;
}

async function follow(id) {
  for (;;) {
    const job = await ask(`api/jobs/${id}`);
    if (job.state === "done") return true;
    if (job.state === "cancelled") return false;
    if (job.state === "failed") throw new Error(job.message);
    tellProgress(job);
    await pause(POLL_MS);
  }
}

async function cancel() {
  if (!current) return;
  $("cancel").disabled = true;
  await fetch(`api/jobs/${current}`, { method: "DELETE", keepalive: true }).catch(() => {});
}

$("cancel").addEventListener("click", cancel);
window.addEventListener("pagehide", cancel); // nobody waits for it any more

function busy(yes) {
  running = yes;
  $("run").disabled = yes;
  $("report").disabled = yes;
  $("busy").hidden = !yes;
  $("cancel").disabled = yes; // until there is a job
  if (!yes) current = null;
}

$("form").addEventListener("submit", async (event) => {
  event.preventDefault();
  if (running) return;
  complain("");
  $("note").hidden = true;
  try {
    const data = form();
    $("progress").value = 0;
    $("stage").textContent = "Sending";
    $("clock").textContent = "";
    busy(true);
    current = (await ask("api/jobs", { method: "POST", body: data })).id;
    $("cancel").disabled = false;
    if (await follow(current)) await show(current, data);
    else $("note").hidden = false;
  } catch (error) {
    complain(error.message);
    $("result").hidden = true;
  } finally {
    busy(false);
  }
});

/* ---- showing ----------------------------------------------------------------- */

function picture(address) {
  return new Promise((resolve, reject) => {
    const image = new Image();
    image.onload = () => resolve(image);
    image.onerror = () => reject(new Error("A picture could not be loaded."));
    image.src = address;
  });
}

async function show(id, data) {
  const page = await ask(`api/jobs/${id}/page`);
  const images = await Promise.all(["image0", "image1"].map((n) => picture(`api/jobs/${id}/picture/${n}`)));
  const order = page.columns.expected.map((_, k) => k);
  order.sort((a, b) => page.columns.expected[a] - page.columns.expected[b]);
  shown = { id, data, page, images, order, at: -1 };
  $("summary").textContent = page.summary;
  numbers(page);
  $("json").href = `api/jobs/${id}/semisure.json`;
  $("csv").href = `api/jobs/${id}/semisure.csv`;
  const matrix = page.H_01 || page.F_01;
  $("matrix-name").textContent = page.F_01 ? "Fundamental matrix: y F x = 0, x in image 1" : "Homography from image 1 to image 2";
  $("matrix").textContent = matrix ? matrix.map((row) => row.map((v) => v.toPrecision(9).padStart(17)).join("")).join("\n") : "none";
  $("overlay").hidden = !(page.related && page.pictures.includes("laid"));
  $("limit").value = 100;
  $("result").hidden = false;
  if (!$("overlay").hidden) compare();
  layout();
  draw();
  const still = window.matchMedia("(prefers-reduced-motion: reduce)").matches;
  $("result").scrollIntoView({ behavior: still ? "auto" : "smooth", block: "start" });
}

/* The same order again, with a report; drawing it takes longer than matching does. */
async function makeReport() {
  if (running) return;
  const { data } = shown;
  data.set("report", "yes");
  busy(true);
  $("report").textContent = "Making the report…";
  complain("");
  try {
    current = (await ask("api/jobs", { method: "POST", body: data })).id;
    $("cancel").disabled = false;
    if (!await follow(current)) return;
    const link = document.createElement("a");
    link.href = `api/jobs/${current}/semisure.html`;
    link.download = "semisure.html";
    link.click();
  } catch (error) {
    complain(error.message);
    $("problem").scrollIntoView({ block: "center" });
  } finally {
    $("report").textContent = "Report (HTML)";
    busy(false);
  }
}

$("report").addEventListener("click", makeReport);

function numbers(page) {
  const px = (value) => (value === null ? "–" : `${value.toFixed(2)} px`);
  const rows = [
    ["Matches", page.matches.toLocaleString("en")],
    ["Median expected error", px(page.median_expected_px)],
    ["90 % of errors within", px(page.within_90_px)],
    ["Effective matches", Math.round(page.effective_matches).toLocaleString("en")],
    page.F_01
      ? ["Standard error of lines", page.related ? px(page.median_line_std_px) : "–"]
      : ["Expected corner error", page.related ? px(page.expected_corner_error_px) : "–"],
    ["Verdict", page.related
      ? `${page.verdict}, ${percent(page.probability_right)} right` : page.verdict],
    ["Chance of such a fit by accident", percent(page.model_failure)],
  ];
  $("numbers").replaceChildren(...rows.map(([term, value]) => {
    const box = document.createElement("div");
    const [dt, dd] = [document.createElement("dt"), document.createElement("dd")];
    dt.textContent = term;
    dd.textContent = value;
    box.append(dt, dd);
    return box;
  }));
}

function percent(share) {
  if (share < 0.001) return "< 0.1 %";
  return `${(100 * share).toFixed(share < 0.1 ? 1 : 0)} %`;
}

function color(px, alpha = 1) {
  const t = Math.log(px / LEAST_PX) / Math.log(MOST_PX / LEAST_PX);
  const at = Math.min(Math.max(t, 0), 1) * (STOPS.length - 1);
  const k = Math.min(Math.floor(at), STOPS.length - 2);
  const mixed = STOPS[k].map((low, c) => Math.round(low + (STOPS[k + 1][c] - low) * (at - k)));
  return `rgba(${mixed.join(",")},${alpha})`;
}

/* Where each image lies on the canvas: side by side, or stacked where it is narrow. */
function layout() {
  const canvas = $("matches");
  const width = canvas.parentElement.clientWidth;
  const [[w0, h0], [w1, h1]] = shown.page.image_sizes;
  const stacked = width < 560;
  const gap = 8;
  let frames;
  if (stacked) {
    const [s0, s1] = [width / w0, width / w1];
    frames = [[0, 0, width, h0 * s0], [0, h0 * s0 + gap, width, h1 * s1]];
  } else {
    // equal heights, unless one image is far wider than the other
    const share = Math.min(Math.max((w0 / h0) / (w0 / h0 + w1 / h1), 0.3), 0.7);
    const [a, b] = [(width - gap) * share, (width - gap) * (1 - share)];
    frames = [[0, 0, a, (h0 * a) / w0], [a + gap, 0, b, (h1 * b) / w1]];
  }
  const height = Math.max(...frames.map(([, y, , h]) => y + h));
  const density = Math.min(window.devicePixelRatio || 1, 2);
  canvas.width = Math.round(width * density);
  canvas.height = Math.round(height * density);
  canvas.style.height = `${height}px`;
  const { source, target } = shown.page.columns;
  const place = (points, [x, y, w, h], [iw, ih]) =>
    points.map((p) => [x + ((p[0] + 0.5) * w) / iw, y + ((p[1] + 0.5) * h) / ih]);
  Object.assign(shown, {
    frames, density, width, height,
    points: [place(source, frames[0], [w0, h0]), place(target, frames[1], [w1, h1])],
  });
  shown.enlarged = enlargement();
  $("line-hint").hidden = !shown.page.lines;
  $("line-hint").textContent = "Its epipolar line is drawn in the image where it was refined, with the band that holds "
    + `90 % of right matches${shown.enlarged > 1 ? `, ${shown.enlarged} times too wide` : ""}.`;
}

/* A round factor that makes the median band some pixels wide on the screen. */
function enlargement() {
  const { lines, image_sizes: sizes } = shown.page;
  if (!lines || !lines.half_width.length) return 1;
  const widths = [...lines.half_width].sort((a, b) => a - b);
  const onScreen = (widths[widths.length >> 1] * shown.frames[1][2]) / sizes[1][0];
  return [50, 20, 10, 5, 2].find((factor) => factor * onScreen <= 8) || 1;
}

function limitPx() {
  const value = Number($("limit").value);
  return value >= 100 ? Infinity : LEAST_PX * (2 * MOST_PX / LEAST_PX) ** (value / 100);
}

function draw() {
  const limit = limitPx();
  const { expected } = shown.page.columns;
  $("limit-text").textContent = limit === Infinity ? "all" : `${limit.toFixed(1)} px`;
  shown.visible = shown.order.filter((k) => expected[k] <= limit);
  const pen = $("matches").getContext("2d");
  pen.setTransform(shown.density, 0, 0, shown.density, 0, 0);
  pen.clearRect(0, 0, shown.width, shown.height);
  pen.filter = "grayscale(1) brightness(0.75)";
  shown.images.forEach((image, side) => pen.drawImage(image, ...shown.frames[side]));
  pen.filter = "none";
  const [from, to] = shown.points;
  const faded = shown.at >= 0;
  const radius = shown.width < 560 ? 1.2 : 1.8;
  const every = Math.max(1, Math.ceil(shown.visible.length / MAX_LINES));
  pen.lineWidth = 0.8;
  for (let j = shown.visible.length - 1; j >= 0; j -= 1) { // the surest on top
    const k = shown.visible[j];
    if (!faded && j % every === 0) {
      pen.strokeStyle = color(expected[k], 0.4);
      line(pen, from[k], to[k]);
    }
    pen.fillStyle = color(expected[k], faded ? 0.55 : 0.95);
    dot(pen, from[k], radius);
    dot(pen, to[k], radius);
  }
  if (faded) emphasise(pen, shown.at);
}

function dot(pen, [x, y], radius) {
  pen.beginPath();
  pen.arc(x, y, radius, 0, 2 * Math.PI);
  pen.fill();
}

function line(pen, from, to) {
  pen.beginPath();
  pen.moveTo(...from);
  pen.lineTo(...to);
  pen.stroke();
}

function emphasise(pen, k) {
  const [from, to] = shown.points.map((points) => points[k]);
  const own = color(shown.page.columns.expected[k]);
  for (const [style, width] of [["#000", 4], [own, 2]]) {
    pen.strokeStyle = style;
    pen.lineWidth = width;
    line(pen, from, to);
  }
  if (shown.page.lines) band(pen, k);
  for (const place of [from, to]) {
    pen.fillStyle = "#000";
    dot(pen, place, 6.5);
    pen.fillStyle = own;
    dot(pen, place, 5);
  }
}

/* The epipolar line of match k and its band, in the image of its refined point. */
function band(pen, k) {
  const { side, line: lines, half_width: widths } = shown.page.lines;
  const [a, b, c] = lines[k];
  const [x, y, w, h] = shown.frames[side[k]];
  const scale = w / shown.page.image_sizes[side[k]][0];
  const foot = [-a * c, -b * c].map((v) => (v + 0.5) * scale);
  const far = 2 * (w + h) + Math.hypot(...foot);
  pen.save();
  pen.beginPath();
  pen.rect(x, y, w, h);
  pen.clip();
  pen.translate(x + foot[0], y + foot[1]);
  pen.rotate(Math.atan2(a, -b));
  const half = shown.enlarged * widths[k] * scale;
  pen.fillStyle = "rgba(255,255,255,0.35)";
  pen.fillRect(-far, -half, 2 * far, 2 * half);
  pen.fillStyle = "#fff";
  pen.fillRect(-far, -0.5, 2 * far, 1);
  pen.restore();
}

function nearest(x, y) {
  let [best, least] = [-1, REACH_PX ** 2];
  for (const points of shown.points) {
    for (const k of shown.visible) {
      const distance = (points[k][0] - x) ** 2 + (points[k][1] - y) ** 2;
      if (distance < least) [best, least] = [k, distance];
    }
  }
  return best;
}

function point(k, x, y) {
  if (k !== shown.at) {
    shown.at = k;
    draw();
  }
  const tip = $("tip");
  tip.hidden = k < 0;
  if (k < 0) return;
  const { expected, within_90: most, failure, weight } = shown.page.columns;
  const { lines } = shown.page;
  tip.textContent = `expected error  ${expected[k].toFixed(2)} px\n90 % within  ${most[k].toFixed(2)} px\n`
    + (lines ? `from its line  ${Math.abs(lines.distance[k]).toFixed(2)} px, band ± ${lines.half_width[k].toFixed(2)} px\n` : "")
    + `coarse cell wrong  ${percent(failure[k])}\nweight in the refit  ${weight[k].toFixed(2)}`;
  const left = Math.min(Math.max(x + 14, 0), shown.width - tip.offsetWidth);
  const above = y - tip.offsetHeight - 12;
  tip.style.left = `${left}px`;
  tip.style.top = `${above < 0 ? y + 16 : above}px`;
}

for (const name of ["pointermove", "pointerdown"]) {
  $("matches").addEventListener(name, (event) => {
    if (shown) point(nearest(event.offsetX, event.offsetY), event.offsetX, event.offsetY);
  });
}
$("matches").addEventListener("pointerleave", (event) => {
  if (shown && event.pointerType === "mouse") point(-1, 0, 0);
});
$("matches").addEventListener("keydown", (event) => {
  const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
  if (!shown || !step || !shown.visible.length) return;
  event.preventDefault();
  const place = shown.visible.indexOf(shown.at) + step;
  const k = shown.visible[Math.min(Math.max(place, 0), shown.visible.length - 1)];
  point(k, ...shown.points[0][k]);
});
$("matches").addEventListener("blur", () => { if (shown) point(-1, 0, 0); });
$("limit").addEventListener("input", () => { if (shown) { shown.at = -1; $("tip").hidden = true; draw(); } });
let wait = 0;
window.addEventListener("resize", () => {
  cancelAnimationFrame(wait);
  wait = requestAnimationFrame(() => { if (shown) { layout(); draw(); } });
});

/* ---- the slider -------------------------------------------------------------- */

const MODES = {
  images: ["image1", "laid", "image 2", "image 1 on it",
    "Edges that do not jump as the line passes are aligned; where image 1 does not reach, image 2 is pale."],
  difference: ["before", "after", "before the refit", "after",
    "Darker is better aligned; plain grey is where image 1 does not reach."],
};

function compare() {
  const mode = document.querySelector("[name=mode]:checked").value;
  const [under, over, left, right, hint] = MODES[mode];
  $("under").src = `api/jobs/${shown.id}/picture/${over}`;
  $("over").src = `api/jobs/${shown.id}/picture/${under}`;
  $("under").alt = right;
  $("over").alt = left;
  $("left-name").textContent = left;
  $("right-name").textContent = right;
  $("mode-hint").textContent = hint;
  slide();
}

function slide() {
  const at = Number($("slider").value);
  $("over").style.clipPath = `inset(0 ${100 - at}% 0 0)`;
  $("line").style.left = `${at}%`;
}

$("slider").addEventListener("input", slide);
for (const radio of document.querySelectorAll("[name=mode]")) radio.addEventListener("change", compare);

/* ---- the legend -------------------------------------------------------------- */

{
  const scale = $("scale");
  const pen = scale.getContext("2d");
  for (let x = 0; x < scale.width; x += 1) {
    pen.fillStyle = color(LEAST_PX * (MOST_PX / LEAST_PX) ** (x / (scale.width - 1)));
    pen.fillRect(x, 0, 1, scale.height);
  }
}

loadMenu().catch((error) => complain(error.message));
