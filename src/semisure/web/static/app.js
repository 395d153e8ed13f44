/* The page: choose, run, show. Each part is a file beside this one. */

import { $, ask, complain, element, state } from "./page.js";
import { inputKey, loadMenu, orderForm, settingsForm, startChoosing } from "./choices.js";
import { run, startJobs } from "./jobs.js";
import { showMatches, startMatches } from "./matches.js";
import { showComparison, startComparison } from "./compare.js";

const TITLES = {
  homography: "Homography from image 1 (0 in code) to image 2 (1 in code)",
  fundamental: "Fundamental matrix: y F x = 0, x in image 1",
  essential: "Pose of the second camera from the first: [R | t], ‖t‖ = 1",
};

function picture(address) {
  return new Promise((resolve, reject) => {
    const image = new Image();
    image.onload = () => resolve(image);
    image.onerror = () => reject(new Error("A picture could not be loaded."));
    image.src = address;
  });
}

async function show(id, { scroll = true } = {}) {
  const page = await ask(`api/jobs/${id}/page.json`);
  const images = await Promise.all(["image0", "image1"].map((name) => picture(`api/jobs/${id}/${name}.jpg`)));
  state.shown = { id, page, images, input: inputKey() };
  $("summary").textContent = page.summary;
  numbers(page.numbers);
  $("result").hidden = false;
  showComparison();
  model();
  showMatches();
  const still = window.matchMedia("(prefers-reduced-motion: reduce)").matches;
  if (scroll) $("result").scrollIntoView({ behavior: still ? "auto" : "smooth", block: "start" });
}

function numbers(facts) {
  $("numbers").replaceChildren(...facts.map(({ name, value, meaning }) => element("div", {},
    element("dt", { text: name }), element("dd", { text: value, kind: "value" }),
    element("dd", { text: meaning, kind: "meaning" }))));
}

/* The model as text, and the downloads. */
function model() {
  const { page, id } = state.shown;
  for (const kind of ["json", "csv"]) $(kind).href = `api/jobs/${id}/semisure.${kind}`;
  const name = ["H_01", "P_01", "F_01"].find((key) => page[key]);
  $("model-part").hidden = !name || !page.related;
  if (!name) return;
  $("matrix-name").textContent = TITLES[page.model];
  $("matrix").textContent = page[name].map((row) => row.map((v) => v.toPrecision(9).padStart(19)).join("")).join("\n");
  const code = `${name} = np.array(${JSON.stringify(page[name])})\n`;
  $("copy-matrix").hidden = !navigator.clipboard; // browsers give it to loopback pages only
  $("copy-matrix").onclick = () => navigator.clipboard.writeText(code);
}

/* Other settings on the same matches: nothing is sent but the settings. */
function againForm() {
  const data = settingsForm();
  data.append("again", state.shown.id);
  return data;
}

/* The same result again, with a report. */
function reportForm() {
  const data = new FormData();
  for (const [name, value] of Object.entries(state.shown.page.chosen)) data.append(name, value);
  data.append("again", state.shown.id);
  data.append("report", "yes");
  return data;
}

async function makeReport() {
  $("report").textContent = "Making the report…";
  await run(reportForm, (id) => {
    const anchor = element("a", { href: `api/jobs/${id}/semisure.html`, download: "semisure.html" });
    anchor.click();
  });
  $("report").textContent = "Report (HTML)";
}

startChoosing();
startJobs();
startMatches();
startComparison();
$("form").addEventListener("submit", (event) => {
  event.preventDefault();
  run(orderForm, show, { keepsResult: false });
});
$("again").addEventListener("click", () => run(againForm, (id) => show(id, { scroll: false })));
$("report").addEventListener("click", makeReport);
loadMenu().catch((error) => complain(error.message));
