/* base, core and core+ side by side: a table, a slider, and where the corners lie. */

import { $, element, px, state } from "./page.js";

const SVG = "http://www.w3.org/2000/svg";
const NOTES = { base: "base: the estimator alone", core: "core: the paper's refit", "core+": "core+: ours" };

export function showComparison() {
  const { page } = state.shown;
  $("arms-part").hidden = !page.arms.length;
  table(page.arms, Boolean(page.lines));
  const laid = page.pictures.includes("laid0");
  $("overlay").hidden = !laid;
  if (laid) offerPictures(page);
  $("corner-part").hidden = !page.corners;
  if (page.corners) corners(page);
}

function table(arms, lined) {
  const distance = lined ? "distance from epipolar lines" : "distance of likely matches";
  const columns = [
    [`median ${distance}`, (arm) => px(arm.median_distance_px)],
    ["effective inliers", (arm) => (arm.effective_matches === null ? "–" : Math.round(arm.effective_matches).toLocaleString("en"))],
  ];
  if (!lined) columns.push(["expected corner error", (arm) => px(arm.expected_corner_error_px)]);
  const head = element("tr", {}, element("th", { text: "model" }), ...columns.map(([text]) => element("th", { text })));
  const rows = arms.map((arm) => element("tr", { kind: arm.chosen ? "chosen" : "" },
    element("th", { text: NOTES[arm.name] || arm.name, scope: "row" }),
    ...columns.map(([, cell]) => element("td", { text: cell(arm) }))));
  $("arms").replaceChildren(head, ...rows);
}

/* ---- the slider -------------------------------------------------------------- */

function offerPictures({ arms }) {
  const rows = [["image1", "image 2"]];
  arms.forEach(({ name }, k) => rows.push([`laid${k}`, `image 1 on it, by ${name}`]));
  arms.forEach(({ name }, k) => rows.push([`difference${k}`, `difference, by ${name}`]));
  for (const id of ["left", "right"]) {
    $(id).replaceChildren(...rows.map(([value, text]) => new Option(text, value)));
  }
  $("right").value = `laid${Math.max(arms.findIndex((arm) => arm.chosen), 0)}`;
  compare();
}

function compare() {
  for (const [id, image] of [["left", "over"], ["right", "under"]]) {
    $(image).src = `api/jobs/${state.shown.id}/${$(id).value}.jpg`;
    $(image).alt = $(`${id}-name`).textContent = $(id).selectedOptions[0].text;
  }
  slide();
}

function slide() {
  const at = Number($("slider").value);
  $("over").style.clipPath = `inset(0 ${100 - at}% 0 0)`;
  $("line").style.left = `${at}%`;
}

/* ---- the corners ------------------------------------------------------------- */

function shape(tag, attributes) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return made;
}

/* The outline of image 1 on image 2, and each corner's 90 % ellipse. */
function corners({ corners: { points, before, half_axes: radii, degrees, magnified }, image_sizes: [, [width, height]] }) {
  const reach = magnified * Math.max(...radii.flat());
  const [xs, ys] = [0, 1].map((k) => points.map((p) => p[k]));
  const [left, top] = [Math.min(...xs, 0) - reach, Math.min(...ys, 0) - reach];
  const [right, bottom] = [Math.max(...xs, width) + reach, Math.max(...ys, height) + reach];
  $("corners").setAttribute("viewBox", [left, top, right - left, bottom - top].join(" "));
  $("corners").replaceChildren(
    shape("image", { x: -0.5, y: -0.5, width, height, preserveAspectRatio: "none", href: `api/jobs/${state.shown.id}/image1.jpg` }),
    shape("polygon", { class: "before", points: before.join(" ") }),
    shape("polygon", { class: "outline", points: points.join(" ") }),
    ...points.map(([x, y], k) => shape("ellipse", { class: "region", cx: x, cy: y,
      rx: magnified * radii[k][0], ry: magnified * radii[k][1], transform: `rotate(${degrees[k]} ${x} ${y})` })));
  const sizes = radii.map(([major, minor]) => `${major.toFixed(2)} × ${minor.toFixed(2)}`).join("; ");
  $("corner-hint").textContent = "The outline of image 1 on image 2 by the result, dashed by the estimator alone. "
    + `Each corner lies in its ellipse with a probability of 90 %${magnified > 1 ? `; ellipses magnified ${magnified}×` : ""}. `
    + `Half-axes in px, from the top left clockwise: ${sizes}.`;
}

export function startComparison() {
  $("slider").addEventListener("input", slide);
  for (const id of ["left", "right"]) $(id).addEventListener("change", compare);
}
