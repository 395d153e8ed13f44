/* base, core and core+ side by side: a table, a slider, and where the corners lie. */

import { $, element, px, state } from "./page.js";

const SVG = "http://www.w3.org/2000/svg";
const NOTES = { base: "base: the estimator alone", core: "core: the paper's refit", "core+": "core+: ours" };
const HINTS = {
  laid: "Where edges do not jump as the line passes, the images are aligned; where image 1 does not reach, image 2 is pale.",
  difference: "Darker is better aligned; plain grey is where image 1 does not reach.",
};

export function showComparison() {
  const { page } = state.shown;
  $("arms-part").hidden = !page.arms.length;
  table(page.arms, Boolean(page.lines));
  const laid = page.related && page.pictures.includes("laid0");
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
  if (!lined) {
    columns.push(["corners away from the result", (arm) => (arm.chosen ? "the result" : px(arm.corner_shift_px))]);
    columns.push(["expected corner error", (arm) => px(arm.expected_corner_error_px)]);
  }
  const head = element("tr", {}, element("th", { text: "model" }), ...columns.map(([text]) => element("th", { text })));
  const rows = arms.map((arm) => element("tr", { kind: arm.chosen ? "chosen" : "" },
    element("th", { text: NOTES[arm.name] || arm.name, scope: "row" }),
    ...columns.map(([, cell]) => element("td", { text: cell(arm) }))));
  $("arms").replaceChildren(head, ...rows);
}

/* ---- the slider -------------------------------------------------------------- */

function offerPictures(page) {
  const names = page.arms.map((arm) => arm.name);
  const rows = [["image1", "image 2"]];
  names.forEach((name, k) => rows.push([`laid${k}`, `image 1 on it, by ${name}`]));
  names.forEach((name, k) => rows.push([`difference${k}`, `difference, by ${name}`]));
  for (const id of ["left", "right"]) {
    $(id).replaceChildren(...rows.map(([value, text]) => new Option(text, value)));
  }
  preset();
}

function preset() {
  const { arms } = state.shown.page;
  const chosen = Math.max(arms.findIndex((arm) => arm.chosen), 0);
  const mode = document.querySelector("[name=mode]:checked").value;
  [$("left").value, $("right").value] = mode === "difference"
    ? ["difference0", `difference${chosen}`] : ["image1", `laid${chosen}`];
  compare();
}

function compare() {
  const [left, right] = [$("left"), $("right")];
  const address = (name) => `api/jobs/${state.shown.id}/picture/${name}`;
  $("under").src = address(right.value);
  $("over").src = address(left.value);
  const titles = [left, right].map((select) => select.selectedOptions[0].text);
  [$("over").alt, $("under").alt] = titles;
  [$("left-name").textContent, $("right-name").textContent] = titles;
  const differences = [left, right].every((select) => select.value.startsWith("difference"));
  $("mode-hint").textContent = differences ? HINTS.difference : HINTS.laid;
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

function projected([a, b, c], [x, y]) {
  const at = (row) => row[0] * x + row[1] * y + row[2];
  return [at(a) / at(c), at(b) / at(c)];
}

const path = (points) => `M${points.map((p) => p.join(" ")).join("L")}Z`;

/* The outline of image 1 on image 2, and each corner's 90 % ellipse. */
function corners(page) {
  const [[w0, h0], [width, height]] = page.image_sizes;
  const { points, regions, magnified } = page.corners;
  const base = page.arms[0] && page.arms[0].model;
  const frame = [[0, 0], [w0 - 1, 0], [w0 - 1, h0 - 1], [0, h0 - 1]];
  const first = base ? frame.map((corner) => projected(base, corner)) : null;
  const reach = magnified * Math.max(...regions.map(([major]) => major));
  const [xs, ys] = [0, 1].map((k) => points.map((p) => p[k]));
  const [left, top] = [Math.min(...xs, 0) - reach, Math.min(...ys, 0) - reach];
  const [right, bottom] = [Math.max(...xs, width) + reach, Math.max(...ys, height) + reach];
  const drawing = $("corners");
  drawing.setAttribute("viewBox", [left, top, right - left, bottom - top].join(" "));
  const photo = shape("image", { x: -0.5, y: -0.5, width, height, preserveAspectRatio: "none",
    href: `api/jobs/${state.shown.id}/picture/image1` });
  drawing.replaceChildren(photo,
    ...(first ? [shape("path", { class: "before", d: path(first) })] : []),
    shape("path", { class: "outline", d: path(points) }),
    ...regions.map(([major, minor, angle], k) => {
      const [x, y] = points[k];
      return shape("ellipse", { class: "region", cx: x, cy: y, rx: magnified * major, ry: magnified * minor,
        transform: `rotate(${angle} ${x} ${y})` });
    }));
  const sizes = regions.map(([major, minor]) => `${major.toFixed(2)} × ${minor.toFixed(2)}`).join("; ");
  $("corner-hint").textContent = `The outline of image 1 on image 2 by the result, dashed by the estimator alone. `
    + `Each corner lies in its ellipse with a probability of 90 %${magnified > 1 ? `; ellipses magnified ${magnified}×` : ""}. `
    + `Half-axes in px, from the top left clockwise: ${sizes}.`;
}

export function startComparison() {
  $("slider").addEventListener("input", slide);
  for (const id of ["left", "right"]) $(id).addEventListener("change", compare);
  for (const radio of document.querySelectorAll("[name=mode]")) radio.addEventListener("change", preset);
}
