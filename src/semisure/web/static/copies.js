/* The model as text to paste, downloads, and the link to this page. */

import { $, copyText, state } from "./page.js";
import { link } from "./choices.js";

const TITLES = {
  homography: "Homography from image 1 (0 in code) to image 2 (1 in code)",
  fundamental: "Fundamental matrix: y F x = 0, x in image 1",
  essential: "Pose of the second camera from the first: [R | t], ‖t‖ = 1",
};

export function showCopies() {
  const { page, id } = state.shown;
  $("json").href = `api/jobs/${id}/semisure.json`;
  $("csv").href = `api/jobs/${id}/semisure.csv`;
  const matrix = page.H_01 || page.P_01 || page.F_01;
  $("matrix-name").textContent = TITLES[page.model];
  $("matrix").textContent = matrix ? matrix.map((row) => row.map((v) => v.toPrecision(9).padStart(17)).join("")).join("\n") : "none";
  $("model-part").hidden = !matrix || !page.related;
  const name = page.H_01 ? "H_01" : page.P_01 ? "P_01" : "F_01";
  $("copy-matrix").onclick = () => copyText(`${name} = np.array(${JSON.stringify(matrix)})\n`, $("copy-matrix"));
}

export function startCopies() {
  $("copy-link").addEventListener("click", () => copyText(link(state.shown.id), $("copy-link")));
}
