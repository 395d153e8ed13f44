/* Running: send an order, follow it, cancel it. */

import { $, ask, complain, note, state } from "./page.js";

const POLL_MS = 250;
const pause = (ms) => new Promise((resolve) => { setTimeout(resolve, ms); });

function showProgress(job) {
  const stage = job.state === "waiting" ? "Waiting for another job" : job.stage || "Starting";
  if ($("stage").textContent !== stage) $("stage").textContent = stage; // read aloud once
  $("clock").textContent = job.seconds < 2 ? "" : `${Math.floor(job.seconds)} s`;
}

async function follow(id) {
  for (;;) {
    const job = await ask(`api/jobs/${id}`);
    if (job.state === "done") return true;
    if (job.state === "cancelled") return false;
    if (job.state === "failed") throw new Error(job.message);
    showProgress(job);
    await pause(POLL_MS);
  }
}

async function cancel() {
  if (!state.job) return;
  $("cancel").disabled = true;
  await fetch(`api/jobs/${state.job}`, { method: "DELETE", keepalive: true }).catch(() => {});
}

export function startJobs() {
  $("cancel").addEventListener("click", cancel);
  window.addEventListener("pagehide", cancel); // nobody waits for it any more
}

function busy(yes) {
  state.running = yes;
  $("report").disabled = yes;
  $("busy").hidden = !yes;
  $("cancel").disabled = yes; // until there is a job
  if (!yes) state.job = null;
  document.dispatchEvent(new Event("busy"));
}

/* Run the order in `makeForm()`, then `finish` with the job's id. */
export async function run(makeForm, finish, { keepsResult = true } = {}) {
  if (state.running) return;
  complain("");
  note("");
  try {
    const data = makeForm();
    $("stage").textContent = "Sending";
    $("clock").textContent = "";
    busy(true);
    state.job = (await ask("api/jobs", { method: "POST", body: data })).id;
    $("cancel").disabled = false;
    if (await follow(state.job)) await finish(state.job);
    else note("Cancelled.");
  } catch (error) {
    complain(error.message);
    if (keepsResult) $("problem").scrollIntoView({ block: "center" });
    else $("result").hidden = true;
  } finally {
    busy(false);
  }
}
