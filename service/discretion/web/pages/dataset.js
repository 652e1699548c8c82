// One dataset, for its custodian, for an analyst who may use it, and for the administrator.

import * as api from "/assets/api.js";
import { h, replace } from "/assets/dom.js";
import { budgetChange, history, ownRows } from "/assets/pages/dataset_budget.js";
import { grantsCard } from "/assets/pages/dataset_grants.js";
import { retireCard } from "/assets/pages/dataset_retire.js";
import { uploadCard } from "/assets/pages/dataset_upload.js";
import { badge, budgetOf, card, copied, facts, fetched, link, page, sorry } from "/assets/parts.js";
import { schemaWords } from "/assets/schema.js";
import * as words from "/assets/words.js";

const LOOK = 8000; // milliseconds between looks at the budget

export async function show(session, id) {
  const path = `/v1/datasets/${id}`;
  let found;
  try {
    found = await Promise.all([api.get(path), api.get(`${path}/budget`)]);
  } catch (problem) {
    if (problem.status === 404 && session.role === "analyst") return notGranted(session, problem);
    throw problem;
  }
  const here = { session, id, path, dataset: found[0], budget: found[1], body: h("div"), again: [] };
  draw(here);
  const shown = page(here.dataset.name, here.body);
  return { ...shown, leave: watch(here) };
}

function notGranted(session, problem) {
  return page("Not yours to see", sorry(problem), h("p", {}, "If you had a grant on this dataset, it has been revoked."), without(session));
}

function without(session) {
  return [
    h("p", {}, "What you trained before stays yours: see ", link("policies", "your policies"), "."),
    h("p", {}, "To be granted a dataset, give its custodian the id of your key: ", copied(session.id)),
  ];
}

// --- the page ------------------------------------------------------------------------------------------------------

function draw(here) {
  const { session, dataset } = here;
  here.again = [];
  here.meter = h("div", { "aria-live": "polite" }, budgetOf(here.budget));
  const layout = { custodian: custodians, analyst: analysts, admin: admins }[session.role];
  replace(here.body, layout(here, card("About", about(dataset, session), schemaWords(dataset))));
}

function custodians(here, description) {
  const { dataset } = here;
  const siblings = h("div");
  fetched(siblings, () => sharing(here));
  const budget = card("Budget", here.meter, siblings, budgetChange(here, () => refresh(here)));
  return [
    uploadCard(here, () => reload(here)),
    h("div", { class: "grid" }, description, budget),
    grantsCard(here),
    history(here),
    dataset.state === "retired" ? null : retireCard(here, () => reload(here)),
  ];
}

function analysts(here, description) {
  const { dataset, id } = here;
  const ready = dataset.state === "ready";
  const why = dataset.state === "empty" ? "The custodian has not uploaded the data yet; come back when they have." : "The data was deleted; nothing can be trained on it any more.";
  return [
    ready ? h("p", {}, h("a", { class: "button primary", href: `#/datasets/${id}/train` }, "New training")) : h("p", { class: "note" }, why),
    h("div", { class: "grid" }, description, card("Budget", here.meter)),
    ownRows(here),
  ];
}

function admins(here, description) {
  return [h("div", { class: "grid" }, description, card("Budget", here.meter)), grantsCard(here)];
}

function about(dataset, session) {
  return facts(
    ["State", badge(dataset.state)],
    ["Patients", dataset.units === null ? "not known yet" : words.whole(dataset.units)],
    ["Made", words.when(dataset.created_at)],
    ["Id", copied(dataset.id)],
    session.role === "custodian" ? null : ["Custodian's key", h("code", {}, dataset.owner)]);
}

// A budget is a population's: who raises it raises it for all of its datasets.
async function sharing({ dataset }) {
  const all = await api.all("/v1/datasets?limit=1000", { most: 100000 });
  const others = all.filter((one) => one.population === dataset.population && one.id !== dataset.id);
  if (!others.length) return null;
  return h("p", {}, "Shared with ", others.map((one, index) => [index ? ", " : "", link(`datasets/${one.id}`, one.name)]), ": the same patients, one budget.");
}

// --- as it changes -------------------------------------------------------------------------------------------------

async function reload(here) {
  const state = here.dataset.state;
  [here.dataset, here.budget] = await Promise.all([api.get(here.path), api.get(`${here.path}/budget`)]);
  if (here.dataset.state !== state) draw(here);
  else await refresh(here);
}

// What depends on the budget: the bar, the history and how much of each grant is used.
async function refresh(here) {
  here.budget = await api.get(`${here.path}/budget`);
  replace(here.meter, budgetOf(here.budget));
  for (const part of here.again) part();
}

function watch(here) {
  const timer = setInterval(async () => {
    if (document.hidden) return;
    try {
      const budget = await api.get(`${here.path}/budget`);
      if (JSON.stringify(budget) !== JSON.stringify(here.budget)) await refresh(here);
    } catch (problem) {
      if (problem.status !== 404) return; // it will answer again
      clearInterval(timer);
      lost(here);
    }
  }, LOOK);
  return () => clearInterval(timer);
}

// Whatever stands on the page can no longer be done: better to say so than to let somebody try.
function lost({ body, session }) {
  replace(body, h("p", { class: "sorry", role: "alert" }, "Your grant on this dataset was revoked while you were looking at it."), without(session));
}
