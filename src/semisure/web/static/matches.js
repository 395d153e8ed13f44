/* The matches on both images: drawn by expected error, pointed at, picked, zoomed. */

import { $, color, element, percent, px, state } from "./page.js";
import { View } from "./view.js";

const REACH_PX = 14; // from the pointer to a match
const CLICK_PX = 5; // a press that moves further is a drag
const MAX_LINES = 200;
const STEP = 1.5; // of zooming
const FACTORS = [1, 2, 5, 10, 20, 50, 100];
const ELLIPSE_PX = 14; // on the screen, magnified if it were smaller
const BAND_PX = 8;

let waiting = false; // for a frame to draw in

export function showMatches() {
  const { shown } = state;
  const { expected } = shown.page.columns;
  shown.order = expected.map((_, k) => k).sort((a, b) => expected[a] - expected[b]);
  shown.at = -1; // under the pointer
  shown.picked = -1;
  shown.view = new View(shown.page.image_sizes);
  shown.greys = shown.images.map(grey);
  $("limit").value = 100;
  legend();
  pick(-1);
  layout();
  draw();
}

function grey(image) {
  const canvas = element("canvas");
  [canvas.width, canvas.height] = [image.naturalWidth, image.naturalHeight];
  const pen = canvas.getContext("2d");
  pen.filter = "grayscale(1) brightness(0.75)";
  pen.drawImage(image, 0, 0);
  return canvas;
}

function legend() {
  const [least, most] = state.shown.page.colors_px;
  const scale = $("scale");
  const pen = scale.getContext("2d");
  for (let x = 0; x < scale.width; x += 1) {
    pen.fillStyle = color(least * (most / least) ** (x / (scale.width - 1)), [least, most]);
    pen.fillRect(x, 0, 1, scale.height);
  }
  const ticks = [0, 1, 2, 3, 4].map((k) => Number((least * (most / least) ** (k / 4)).toPrecision(2)));
  $("ticks").replaceChildren(...ticks.map((v, k) => element("i", { text: k < 4 ? `${v}` : `${v} px` })));
}

function layout() {
  const { shown } = state;
  const canvas = $("matches");
  const { view } = shown;
  view.layout(canvas.clientWidth);
  shown.density = Math.min(window.devicePixelRatio || 1, 2);
  canvas.width = Math.round(view.width * shown.density);
  canvas.height = Math.round(view.height * shown.density);
  canvas.style.height = `${view.height}px`;
  Object.assign(shown, { width: view.width, height: view.height, frames: view.frames });
}

function limitPx() {
  const value = Number($("limit").value);
  const [least, most] = state.shown.page.colors_px;
  return value >= 100 ? Infinity : least * (2 * most / least) ** (value / 100);
}

function redraw() {
  if (waiting) return;
  waiting = true;
  requestAnimationFrame(() => { waiting = false; draw(); });
}

function draw() {
  const { shown } = state;
  const { view, page } = shown;
  const { expected, source, target } = page.columns;
  const limit = limitPx();
  $("limit-text").textContent = limit === Infinity ? "all" : px(limit, 1);
  shown.visible = shown.order.filter((k) => expected[k] <= limit);
  shown.points = [source, target].map((points, side) => points.map((p) => view.place(side, p)));
  const pen = $("matches").getContext("2d");
  pen.setTransform(shown.density, 0, 0, shown.density, 0, 0);
  pen.clearRect(0, 0, view.width, view.height);
  pen.imageSmoothingEnabled = view.zoom < 6;
  shown.greys.forEach((image, side) => photo(pen, image, side));
  const focus = shown.picked >= 0 ? shown.picked : shown.at;
  if (focus < 0) lines(pen);
  dots(pen, focus >= 0 ? 0.55 : 0.95);
  if (focus >= 0) emphasise(pen, focus);
  $("zoom-text").textContent = view.zoom > 1 ? `${view.zoom.toFixed(1)}×` : "";
  $("zoom-out").disabled = $("zoom-reset").disabled = view.zoom <= 1;
  $("matches").style.touchAction = view.zoom > 1 ? "none" : "auto"; // a finger moves the image, or the page
}

function photo(pen, image, side) {
  const { view } = state.shown;
  const [x, y, w, h] = view.seen(side);
  const [fullWidth, fullHeight] = view.sizes[side];
  const [kx, ky] = [image.width / fullWidth, image.height / fullHeight];
  pen.drawImage(image, x * kx, y * ky, w * kx, h * ky, ...view.frames[side]);
}

function lines(pen) {
  const { shown } = state;
  const { view, page } = shown;
  const every = Math.max(1, Math.ceil(shown.visible.length / MAX_LINES));
  pen.lineWidth = 0.8;
  for (let j = shown.visible.length - 1; j >= 0; j -= 1) {
    const k = shown.visible[j];
    const [from, to] = shown.points.map((points) => points[k]);
    if (j % every || !view.inside(0, from) || !view.inside(1, to)) continue;
    pen.strokeStyle = color(page.columns.expected[k], page.colors_px, 0.4);
    line(pen, from, to);
  }
}

function dots(pen, alpha) {
  const { shown } = state;
  const { view, page } = shown;
  const radius = Math.min(view.width / 600, 1.8) * Math.min(Math.sqrt(view.zoom), 2.5);
  for (let j = shown.visible.length - 1; j >= 0; j -= 1) { // the surest on top
    const k = shown.visible[j];
    pen.fillStyle = color(page.columns.expected[k], page.colors_px, alpha);
    shown.points.forEach((points, side) => {
      if (view.inside(side, points[k])) dot(pen, points[k], radius);
    });
  }
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

function clipped(pen, side, drawing) {
  pen.save();
  pen.beginPath();
  pen.rect(...state.shown.view.frames[side]);
  pen.clip();
  drawing();
  pen.restore();
}

/* The match that is picked or pointed at: its line, its ellipse, its epipolar band. */
function emphasise(pen, k) {
  const { shown } = state;
  const [from, to] = shown.points.map((points) => points[k]);
  const own = color(shown.page.columns.expected[k], shown.page.colors_px);
  if (shown.view.inside(0, from) && shown.view.inside(1, to)) {
    for (const [style, width] of [["#000", 4], [own, 2]]) {
      pen.strokeStyle = style;
      pen.lineWidth = width;
      line(pen, from, to);
    }
  }
  if (shown.page.lines) band(pen, k);
  [from, to].forEach((place, side) => clipped(pen, side, () => {
    pen.fillStyle = "#000";
    dot(pen, place, 5.5);
    pen.fillStyle = own;
    dot(pen, place, 4);
  }));
  ellipse(pen, k, own);
}

/* A round factor that makes a length visible on the screen; 1 where it is anyway. */
function magnification(length, wanted) {
  return FACTORS.find((factor) => factor * length >= wanted) || FACTORS[FACTORS.length - 1];
}

function ellipseFactor(k) {
  const { view, page } = state.shown;
  const longest = Math.max(...page.columns.half_axes[k]) * view.scale(page.columns.side[k]);
  return magnification(longest, ELLIPSE_PX);
}

/* 68 % of the error along each axis, about where the true point is expected. */
function ellipse(pen, k, own) {
  const { view, page } = state.shown;
  const { side, center, half_axes: half } = page.columns;
  const scale = view.scale(side[k]) * ellipseFactor(k);
  clipped(pen, side[k], () => {
    for (const [style, width] of [["#000", 3.5], [own, 1.8]]) {
      pen.strokeStyle = style;
      pen.lineWidth = width;
      pen.beginPath();
      pen.ellipse(...view.place(side[k], center[k]), half[k][0] * scale, half[k][1] * scale, 0, 0, 2 * Math.PI);
      pen.stroke();
    }
  });
}

function bandFactor() {
  const { view, page } = state.shown;
  if (!page.lines || !page.lines.half_width.length) return 1;
  const widths = [...page.lines.half_width].sort((a, b) => a - b);
  const onScreen = widths[widths.length >> 1] * view.scale(1);
  return [...FACTORS].reverse().find((factor) => factor * onScreen <= BAND_PX) || 1;
}

/* The epipolar line of match k and its band, in the image of its refined point. */
function band(pen, k) {
  const { view, page } = state.shown;
  const { columns: { side }, lines: { line: rows, half_width: widths } } = page;
  const [a, b, c] = rows[k];
  const foot = view.place(side[k], [-a * c, -b * c]);
  const [x, y, w, h] = view.frames[side[k]];
  const far = 2 * (w + h) + Math.hypot(foot[0] - x, foot[1] - y);
  const half = bandFactor() * widths[k] * view.scale(side[k]);
  clipped(pen, side[k], () => {
    pen.translate(...foot);
    pen.rotate(Math.atan2(a, -b));
    pen.fillStyle = "rgba(255,255,255,0.35)";
    pen.fillRect(-far, -half, 2 * far, 2 * half);
    pen.fillStyle = "#fff";
    pen.fillRect(-far, -0.5, 2 * far, 1);
  });
}

/* ---- pointing and picking ---------------------------------------------------- */

function nearest(place) {
  const { shown } = state;
  let [best, least] = [-1, REACH_PX ** 2];
  shown.points.forEach((points, side) => {
    if (!shown.view.inside(side, place)) return;
    for (const k of shown.visible) {
      const distance = (points[k][0] - place[0]) ** 2 + (points[k][1] - place[1]) ** 2;
      if (distance < least) [best, least] = [k, distance];
    }
  });
  return best;
}

function point(k, [x, y] = [0, 0]) {
  const { shown } = state;
  if (k !== shown.at) {
    shown.at = k;
    redraw();
  }
  const tip = $("tip");
  tip.hidden = k < 0;
  if (k < 0) return;
  const { expected, within_90: most, failure } = shown.page.columns;
  tip.textContent = `expected error  ${px(expected[k])}\n90 % within  ${px(most[k])}\n`
    + `coarse cell wrong  ${percent(failure[k])}`;
  const left = Math.min(Math.max(x + 14, 0), shown.width - tip.offsetWidth);
  const above = y - tip.offsetHeight - 12;
  tip.style.left = `${left}px`;
  tip.style.top = `${above < 0 ? y + 16 : above}px`;
}

/* Keep match k: its ellipse stays drawn, and its numbers stand below. */
function pick(k) {
  const { shown } = state;
  shown.picked = k;
  $("picked").hidden = k < 0;
  if (shown.view && shown.frames) draw();
  if (k >= 0) showPicked(k);
}

function showPicked(k) {
  const { page } = state.shown;
  const c = page.columns;
  const at = ([x, y]) => `${x.toFixed(1)}, ${y.toFixed(1)}`;
  const rows = [
    ["point in image 1, px", at(c.source[k])],
    ["point in image 2, px", at(c.target[k])],
    ["expected error", px(c.expected[k])],
    ["median error", px(c.median[k])],
    ["90 % quantile of the error", px(c.within_90[k])],
    ["68 % interval in x and y, ±", `${c.half_axes[k][0].toFixed(2)}, ${px(c.half_axes[k][1])}`],
    ["confidence of the matcher", c.confidence[k].toFixed(3)],
    ["probability of a wrong coarse cell", percent(c.failure[k])],
    ["weight in the refit", c.weight[k].toFixed(3)],
  ];
  if (c.residual) rows.push(["distance from the homography", px(c.residual[k])]);
  if (page.lines) {
    const { distance, half_width: width } = page.lines;
    rows.push(["distance from its epipolar line", `${px(Math.abs(distance[k]))}, band ± ${px(width[k])}`]);
  }
  $("picked-numbers").replaceChildren(...rows.map(([name, value]) =>
    element("div", {}, element("dt", { text: name }), element("dd", { text: value }))));
  const where = `image ${c.side[k] + 1}, where the match was refined`;
  const factor = ellipseFactor(k);
  const [wide, lined] = [bandFactor(), Boolean(page.lines)];
  $("picked-hint").textContent = `The ellipse in ${where}, holds 68 % of the error along each axis`
    + `${factor > 1 ? `, magnified ${factor}×` : ", at its true size"}.`
    + (lined ? ` The band about the epipolar line holds 90 % of right matches${wide > 1 ? `, magnified ${wide}×` : ""}.` : "");
}

/* ---- zooming and moving ------------------------------------------------------ */

/* Zoom about a place; the other image about its point of the picked match, if any. */
function zoom(factor, place) {
  const { shown } = state;
  const { view, picked } = shown;
  const own = picked >= 0 ? [shown.page.columns.source[picked], shown.page.columns.target[picked]] : [null, null];
  const side = place ? view.sideAt(place) : -1;
  if (side >= 0) own[side] = view.pixel(side, place);
  view.zoomBy(factor, own);
  after();
}

function after() {
  redraw();
  if (state.shown.picked >= 0) showPicked(state.shown.picked); // its ellipse changed size
}

function keyed(event) {
  const { shown } = state;
  if (!shown || event.ctrlKey || event.metaKey) return;
  const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
  const zoomed = { "+": STEP, "=": STEP, "-": 1 / STEP }[event.key];
  if (zoomed) zoom(zoomed);
  else if (event.key === "0") { shown.view.reset(); after(); }
  else if (event.key === "Escape") pick(-1);
  else if (step && shown.visible.length) {
    const now = shown.visible.indexOf(shown.picked);
    const next = Math.min(Math.max(now + step, 0), shown.visible.length - 1);
    pick(shown.visible[next]);
  } else return;
  event.preventDefault();
}

/* Dragging moves a zoomed image, a click picks a match. */
function startPointer(canvas) {
  let press = null; // where it is now, in which image it began, whether it moved
  canvas.addEventListener("pointerdown", (event) => {
    const place = [event.offsetX, event.offsetY];
    press = { start: place, place, side: state.shown.view.sideAt(place), moved: false };
  });
  canvas.addEventListener("pointermove", (event) => {
    const place = [event.offsetX, event.offsetY];
    if (!press) return point(nearest(place), place);
    press.moved ||= Math.hypot(place[0] - press.start[0], place[1] - press.start[1]) > CLICK_PX;
    if (press.side < 0 || !press.moved || state.shown.view.zoom <= 1) return;
    canvas.setPointerCapture(event.pointerId);
    point(-1);
    state.shown.view.move(press.side, place[0] - press.place[0], place[1] - press.place[1]);
    press.place = place;
    redraw();
  });
  canvas.addEventListener("pointerup", (event) => {
    if (press && !press.moved) pick(nearest([event.offsetX, event.offsetY]));
    press = null;
  });
  canvas.addEventListener("pointerleave", () => {
    press = null;
    point(-1);
  });
}

export function startMatches() {
  const canvas = $("matches");
  startPointer(canvas);
  canvas.addEventListener("keydown", keyed);
  canvas.addEventListener("wheel", (event) => { // the plain wheel scrolls the page
    if (!state.shown || !(event.ctrlKey || event.metaKey)) return;
    event.preventDefault();
    zoom(Math.exp(-event.deltaY / 200), [event.offsetX, event.offsetY]);
  }, { passive: false });
  canvas.addEventListener("dblclick", (event) => zoom(2, [event.offsetX, event.offsetY]));
  $("zoom-in").addEventListener("click", () => zoom(STEP));
  $("zoom-out").addEventListener("click", () => zoom(1 / STEP));
  $("zoom-reset").addEventListener("click", () => { state.shown.view.reset(); after(); });
  $("limit").addEventListener("input", () => { if (state.shown) { point(-1); pick(-1); } });
  window.addEventListener("resize", () => { if (state.shown) { layout(); draw(); } });
}
