/* base, core and core+ side by side: a table and a slider. */

import { $, element, px, state } from "./page.js";

const NOTES = { base: "base: the estimator alone", core: "core: the paper's refit", "core+": "core+: ours" };

export function showComparison() {
  const { page } = state.shown;
  $("arms-part").hidden = !page.arms.length;
  table(page.arms, Boolean(page.lines));
  const laid = page.pictures.includes("laid0");
  $("overlay").hidden = !laid;
  if (laid) offerPictures(page);
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

export function startComparison() {
  $("slider").addEventListener("input", slide);
  for (const id of ["left", "right"]) $(id).addEventListener("change", compare);
}
