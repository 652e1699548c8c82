// One training as it goes on, told by the service's events; the page survives a restart of the service, as the training does.

import * as api from "/assets/api.js";
import { h, replace, say } from "/assets/dom.js";
import { canceller, datasetLink, ended, failure, pretty, stateLine } from "/assets/jobs.js";
import { button, card, copied, facts, field, page, progress, sorry } from "/assets/parts.js";
import * as words from "/assets/words.js";

const TRY_AGAIN = 3000;
const MOST_EDITED = 20000; // characters; a reward may be a table of megabytes

export async function show(session, id) {
  const path = `/v1/trainings/${id}`;
  const first = await api.get(path);
  const view = viewOf(session, path, first);
  view.show(first);
  const leave = ended(first) ? null : followed(path, view);
  return { ...page(`Training ${id}`, view.body), leave };
}

function viewOf(session, path, first) {
  const state = stateLine();
  const bar = progress(first.progress, "Public stages done");
  const [connection, actions, result] = [h("p", { class: "quiet", role: "status" }), h("div", { class: "row" }), h("div")];
  let [now, mine] = [first, false];
  const show = (job) => {
    const stopped = job.state === "cancelled" && now.state !== "cancelled";
    if (stopped) say(mine ? "Cancelled." : "This training was cancelled elsewhere.");
    now = job;
    state.show(job);
    bar.value = job.progress;
    bar.hidden = job.state === "cancelled" || job.state === "failed";
    replace(result, outcome(session, job, first, stopped && !mine));
    if (ended(job)) replace(actions);
  };
  if (session.role === "analyst" && !ended(first)) {
    replace(actions, canceller(path, "training", show, () => { mine = true; }));
  }
  const body = [card("How it goes", state.line, bar, connection, result, actions), card("What was asked", asked(session, first))];
  return { body, show, lost: (text) => replace(connection, text) };
}

function asked(session, job) {
  return [
    facts(
      ["Cost", `ρ = ${job.rho}`], ["Learner", job.algorithm],
      ["Patients", job.half ? `the ${job.half} half of the dataset, drawn at random` : "everyone in the dataset"],
      ["Dataset", datasetLink(session, job.dataset)], ["Asked", words.when(job.created_at)], ["Id", copied(job.id)]),
    job.chosen ? h("p", {}, h("strong", {}, `auto chose ${job.algorithm}. `), job.chosen.reason) : null,
    pretty("Parameters, every default written out", { privacy: job.privacy, parameters: job.parameters }),
  ];
}

function outcome(session, job, first, elsewhere) {
  if (elsewhere) return h("p", { class: "note" }, "It was cancelled elsewhere: on another page of yours, by a program with your key, or because the dataset was retired.");
  if (job.state !== "released") return failure(job);
  if (session.role === "admin") return h("p", {}, "Its policy is ", h("code", {}, job.policy), ". Administrators do not see policies.");
  return h("div", {},
    h("p", {}, h("a", { class: "button primary", href: `#/policies/${job.policy}` }, "See the policy")),
    session.role === "analyst" && job.algorithm === "dp-apvi" ? derivation(job, first) : null);
}

// What DP-APVI drew is kept, and another question to it reads no patient.
function derivation(job, first) {
  const given = h("textarea", { rows: "10", spellcheck: "false" });
  const before = JSON.stringify(first.parameters, null, 1);
  given.value = before.length < MOST_EDITED ? before : "{}";
  const derive = button("Make another policy, ρ = 0", async () => {
    let parameters;
    try {
      parameters = JSON.parse(given.value);
    } catch {
      throw new api.Problem(422, "json", "Parameters are a JSON object, as they were above before you changed them.");
    }
    const made = await api.post(`/v1/trainings/${job.id}/policies`, { parameters });
    location.hash = `#/policies/${made.id}`;
  });
  return h("details", {}, h("summary", {}, "Another policy from the same release, free"),
    h("p", {}, "The noisy counts are there already: other constants or another reward make another policy of them. Nobody is read again and nothing is charged. Dynamics stay ",
      h("code", {}, first.parameters.dynamics), "."),
    field("Parameters, as JSON", given, "Those of this training: change what you want to be different."), derive);
}

// --- following ---

// A browser tries again by itself while the service is away; if it has given up, because the answer was an error, the
// question is asked once more the plain way: that says whether the session, the training or only the service is gone.
function followed(path, view) {
  let [stop, waiting, left, asked] = [null, null, false, 0];
  const over = () => {
    left = true;
    clearTimeout(waiting);
    if (stop) stop();
  };
  const changed = (job) => {
    view.lost(null);
    view.show(job);
    if (ended(job)) over();
  };
  const watch = () => {
    if (left) return;
    stop = api.watch(`${path}/events`, changed, lost);
  };
  const lost = (closed) => {
    if (left) return;
    view.lost("Connection lost, trying again … The training goes on by itself, and is not charged again.");
    if (!closed) return;
    stop();
    waiting = setTimeout(ask, Date.now() - asked < 2 * TRY_AGAIN ? TRY_AGAIN : 0);
  };
  const ask = async () => {
    asked = Date.now();
    try {
      changed(await api.get(path));
      watch();
    } catch (problem) {
      if (problem.status === 401 || left) return over();
      if (problem.status === 404 || problem.status === 403) {
        over();
        return view.lost(sorry(problem));
      }
      waiting = setTimeout(ask, TRY_AGAIN);
    }
    return null;
  };
  watch();
  return over;
}
