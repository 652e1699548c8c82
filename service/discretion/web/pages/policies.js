// Released policies, and the evaluations that say what some of them are worth.

import * as api from "/assets/api.js";
import { h } from "/assets/dom.js";
import { datasetNames, newestFirst, shortId } from "/assets/jobs.js";
import { card, empty, fetched, link, page, table } from "/assets/parts.js";
import { evaluationTable } from "/assets/pages/trainings.js";

const WHOSE = { analyst: "Yours, the newest first", custodian: "Made of your datasets, the newest first", auditor: "All that were released, the newest first" };

export async function show(session) {
  if (session.role === "admin") return page("Policies", empty(h("p", {}, "Administrators see no policies. ", link("trainings", "Trainings"), " say which were released.")));
  const [policies, evaluations] = [h("div"), h("div")];
  const named = await datasetNames(session);
  fetched(policies, async () => policyTable((await api.all("/v1/policies?limit=1000")).reverse(), session, named));
  fetched(evaluations, async () => evaluationTable(newestFirst(await api.all("/v1/evaluations?limit=1000")), session, named));
  return page("Policies", card("Policies", policies), card("Evaluations", evaluations));
}

function policyTable(found, session, named) {
  if (found.length === 0) return nothing(session);
  const seen = session.role !== "auditor";
  return table([
    ["Policy", (one) => link(`policies/${one.id}`, shortId(one.id))],
    ["Learner", (one) => one.algorithm],
    ["From", (one) => (one.derived ? "an earlier release, ρ = 0" : "patients")],
    ["Dataset", (one) => named(one.dataset), "given"],
    ["Training", (one) => (seen ? link(`trainings/${one.training}`, shortId(one.training)) : shortId(one.training))],
    ["Certificate", (one) => link(`policies/${one.id}/certificate`, "read")],
  ], found, WHOSE[session.role]);
}

function nothing(session) {
  if (session.role !== "analyst") return empty(h("p", {}, "No policy was released yet. One appears here when an analyst's training is done."));
  return empty(h("p", {}, "No policy yet: one appears here when a training is done. Choose one of ", link("datasets", "your datasets"), " to plan one, or look at ", link("trainings", "your trainings"), "."));
}
