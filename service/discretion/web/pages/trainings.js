// Trainings and evaluations, the newest first; followed while one of them is under way.

import * as api from "/assets/api.js";
import { h, replace } from "/assets/dom.js";
import { datasetNames, ended, newestFirst, shortId } from "/assets/jobs.js";
import { badge, card, empty, fetched, link, page, table } from "/assets/parts.js";
import * as words from "/assets/words.js";

const LOOK_AGAIN = 4000;

export async function show(session) {
  if (session.role === "auditor") return page("Trainings", empty(h("p", {}, "Auditors see what was released: ", link("policies", "policies and evaluations"), ".")));
  const [trainings, evaluations] = [h("div"), h("div")];
  const named = await datasetNames(session);
  const following = [
    followed(trainings, "/v1/trainings?limit=1000", (found) => trainingTable(found, session, named)),
    followed(evaluations, "/v1/evaluations?limit=1000", (found) => evaluationTable(found, session, named)),
  ];
  return { ...page("Trainings", card("Trainings", trainings), card("Evaluations", evaluations)), leave: () => following.forEach((stop) => stop()) };
}

// Looked at again while one is under way; drawn again only if something changed, so that nobody loses their place.
function followed(element, path, draw) {
  let [waiting, left, before] = [null, false, null];
  const look = async () => {
    const found = newestFirst(await api.all(path));
    const now = JSON.stringify(found);
    if (!left && found.some((job) => !ended(job))) waiting = setTimeout(again, LOOK_AGAIN);
    const changed = now !== before;
    before = now;
    return changed ? draw(found) : null;
  };
  const again = async () => {
    try {
      const drawn = await look();
      if (drawn) replace(element, drawn);
    } catch (problem) {
      if (problem.status !== 401 && !left) waiting = setTimeout(again, LOOK_AGAIN);
    }
  };
  fetched(element, look);
  return () => {
    left = true;
    clearTimeout(waiting);
  };
}

const state = (job) => h("span", {}, badge(job.state), job.state === "running" ? ` ${words.percent(job.progress)}` : null);

function trainingTable(found, session, named) {
  if (found.length === 0) return nothing(session);
  return table([
    ["Training", (job) => link(`trainings/${job.id}`, shortId(job.id))],
    ["State", state],
    ["Dataset", (job) => named(job.dataset), "given"],
    ["Learner", (job) => job.algorithm, "line"],
    ["ρ", (job) => job.rho, "number"],
    ["Policy", (job) => policyOf(job, session)],
    ["Asked", (job) => words.when(job.created_at), "line"],
  ], found, session.role === "analyst" ? "Yours, the newest first" : "The newest first");
}

function policyOf(job, session) {
  if (!job.policy) return "–";
  return session.role === "admin" ? shortId(job.policy) : link(`policies/${job.policy}`, shortId(job.policy));
}

function nothing(session) {
  if (session.role !== "analyst") return empty(h("p", {}, "Nobody has trained yet. Analysts can, once a custodian has granted them a part of a budget."));
  return empty(h("p", {}, "You have not trained yet. Choose one of ", link("datasets", "your datasets"), ": a plan and a rehearsal cost nothing."));
}

export function evaluationTable(found, session, named) {
  if (found.length === 0) return empty(h("p", {}, "No policy has been judged yet. ", session.role === "analyst" ? "Open one of your policies and choose “Judge it on other patients”." : "Analysts can, on the page of a policy."));
  const name = (job) => (session.role === "admin" || (session.role === "auditor" && job.state !== "released") ? shortId(job.id) : link(`evaluations/${job.id}`, shortId(job.id)));
  return table([
    ["Evaluation", name],
    ["State", state],
    ["Dataset", (job) => named(job.dataset), "given"],
    ["ρ", (job) => job.rho, "number"],
    ["Asked", (job) => words.when(job.created_at), "line"],
  ], found, "What policies are worth, asked of patients' data");
}
