// What there is to spend, what is being learned just now, and what has come of it.

import * as api from "/assets/api.js";
import { h, replace } from "/assets/dom.js";
import { ended } from "/assets/jobs.js";
import { badge, budgetOf, card, copied, empty, fetched, link, page, progress, sorry, table } from "/assets/parts.js";
import { many } from "/assets/schema.js";
import * as words from "/assets/words.js";

const SOON = 3000; // milliseconds until the next look while something runs
const LATER = 12000;
const RECENT = 6;
const BUDGETS = 12; // datasets whose budgets an analyst sees at once

export async function show(session) {
  const auditor = session.role === "auditor";
  const budgets = h("div", { class: "grid" });
  const running = h("div");
  const recent = h("div");
  const found = api.all(auditor ? "/v1/ledgers?limit=1000" : "/v1/datasets?limit=1000", { most: 100000 });
  const names = auditor ? found.then(audited) : found;
  names.catch(() => {}); // told by each part that needs them
  const spent = fetched(budgets, () => ({ auditor: ledgers, analyst: grants }[session.role] || populations)(session, found));
  const released = session.role === "admin" ? () => {} : fetched(recent, () => releases(session, names));
  const stop = auditor ? null : watch(running, session, names, () => [spent(), released()]);
  const shown = page("Overview",
    welcome(session),
    h("h2", { class: "part" }, auditor ? "Ledgers" : "Budgets"), budgets,
    auditor ? null : card("Running and waiting", running),
    session.role === "admin" ? null : card("Newest releases", recent));
  return { ...shown, leave: stop };
}

function welcome(session) {
  const text = {
    admin: "You hand out keys and can revoke grants. You see no patient's data and no policy.",
    custodian: "You decide which data is there, how much of its privacy budget there is, and who may spend it.",
    analyst: "You spend a budget that a custodian has granted you. Ask for a plan first: it costs nothing.",
    auditor: "You see every ledger and everything that was released, and need to trust nobody.",
  };
  return h("p", { class: "quiet" }, text[session.role]);
}

// --- names of datasets ---------------------------------------------------------------------------------------------

// An auditor sees no dataset: of each, the name of its population is known.
function audited(ledgers) {
  return ledgers.flatMap((one) => one.datasets.map((id) => ({ id, name: one.name })));
}

async function named(names) {
  const found = new Map((await names).map((one) => [one.id, one.name]));
  return (id) => found.get(id) || id;
}

// --- budgets -------------------------------------------------------------------------------------------------------

async function populations(session, names) {
  const [found, datasets] = await Promise.all([api.all("/v1/populations?limit=1000"), names]);
  if (!found.length) return nothing(session);
  return found.map((one) => card(one.name, budgetOf(one.budget), members(one, datasets)));
}

function members(population, datasets) {
  const here = datasets.filter((one) => one.population === population.id);
  if (!here.length) return h("p", { class: "quiet" }, "No dataset draws on this budget yet.");
  return h("ul", { class: "plain" }, here.map((one) => h("li", {}, link(`datasets/${one.id}`, one.name), " ", badge(one.state))));
}

function nothing(session) {
  if (session.role === "admin") {
    return empty(h("p", {}, "There is no dataset yet. A custodian makes the first one; give them a key."),
      h("p", {}, link("keys", "Make a key")));
  }
  return empty(h("p", {}, "You have no dataset yet. A dataset comes with a privacy budget, and only you can raise it."),
    h("p", {}, h("a", { class: "button primary", href: "#/datasets/new" }, "Make the first dataset")));
}

async function grants(session, names) {
  const datasets = (await names).filter((one) => one.state !== "retired");
  if (!datasets.length) return ungranted(session);
  const cards = await Promise.all(datasets.slice(0, BUDGETS).map(granting));
  const rest = datasets.length - cards.length;
  return rest > 0 ? [...cards, h("p", {}, link("datasets", `${rest} more are in the list of datasets.`))] : cards;
}

export function ungranted(session) {
  return empty(
    h("p", {}, "No dataset is granted to you. Give the custodian of the data the id of your key; it is no secret:"),
    h("p", {}, copied(session.id)));
}

async function granting(dataset) {
  const title = h("a", { href: `#/datasets/${dataset.id}` }, dataset.name);
  try {
    return card(title, budgetOf(await api.get(`/v1/datasets/${dataset.id}/budget`)));
  } catch (problem) { // such as a grant that was revoked meanwhile: the others are shown all the same
    return card(title, sorry(problem));
  }
}

async function ledgers(session, asked) {
  const found = await asked;
  if (!found.length) return empty(h("p", {}, "There is no ledger yet: the first one comes with the first dataset. Look again later."));
  return found.map((one) => card(h("a", { href: `#/audit/ledgers/${one.population}` }, one.name),
    one.intact
      ? h("p", { class: "fine" }, `Adds up: ${many(one.sequence, "row")}, checked just now.`)
      : h("p", { class: "sorry" }, "Does not add up. Nothing can be spent from any ledger until the operator has restored it."),
    one.budget ? budgetOf(one.budget) : null));
}

// --- what runs -----------------------------------------------------------------------------------------------------

// A list that grows at its end: what has ended is fetched once, and later looks ask only for what follows it.
function growing(path) {
  const past = [];
  return async () => {
    const open = [];
    let after = past.length ? past[past.length - 1].id : null;
    do {
      const found = await api.get(`${path}?limit=1000${after ? `&after=${after}` : ""}`);
      open.push(...found.items);
      after = found.next;
    } while (after);
    while (open.length && ended(open[0])) past.push(open.shift());
    return [...past, ...open];
  };
}

// Looks again and again until the page is left; a service that does not answer is asked again.
function watch(element, session, names, changed) {
  const [trainings, evaluations] = [growing("/v1/trainings"), growing("/v1/evaluations")];
  const count = h("p", { role: "status" }); // read out when it changes, and not at every step of a training
  const list = h("div");
  let [waiting, over, before] = [null, false, null];
  replace(element, count, list);
  const look = async () => {
    let open = [];
    if (document.hidden && before !== null) { // a session that nobody looks at may end
      waiting = setTimeout(look, LATER);
      return;
    }
    try {
      const [name, ...found] = await Promise.all([named(names), trainings(), evaluations()]);
      if (over) return;
      open = found.flat().filter((one) => !ended(one));
      replace(list, unfinished(open, session, name));
      const states = counted(open);
      if (states !== count.textContent) count.textContent = states;
      const now = JSON.stringify(open.map((one) => [one.id, one.state]));
      if (before !== null && now !== before) changed();
      before = now;
    } catch (problem) {
      if (over || problem.status === 401) return;
      before = "lost";
      replace(list, sorry(problem));
    }
    waiting = setTimeout(look, open.length ? SOON : LATER);
  };
  look();
  return () => {
    over = true;
    clearTimeout(waiting);
  };
}

function counted(open) {
  const running = open.filter((one) => one.state === "running").length;
  return open.length ? `${running} running, ${open.length - running} waiting.` : "";
}

function unfinished(open, session, name) {
  if (!open.length) {
    return empty(h("p", {}, session.role === "analyst"
      ? "Nothing of yours is running. Choose a dataset to plan a training."
      : "Nothing is running. When an analyst starts a training, it appears here by itself."));
  }
  const linked = (one) => (kind(one) === "evaluation" && session.role === "admin" ? one.id : link(`${kind(one)}s/${one.id}`, one.id));
  return table([
    ["What", (one) => [`${kind(one)} `, linked(one), h("div", { class: "going" },
      badge(one.state), progress(one.progress, `${words.percent(one.progress)} of ${one.id} done`))]],
    ["Dataset", (one) => name(one.dataset), "given"],
    ["ρ", (one) => one.rho, "number"],
    ["Begun", (one) => words.when(one.created_at), "when"],
  ], open, "Trainings and evaluations that have not ended");
}

function kind(one) {
  return one.algorithm === undefined ? "evaluation" : "training";
}

// --- what was released ---------------------------------------------------------------------------------------------

async function releases(session, names) {
  const most = { most: 100000 };
  const [name, policies, evaluations] = await Promise.all([
    named(names), api.all("/v1/policies?limit=1000", most), api.all("/v1/evaluations?limit=1000", most)]);
  const judged = evaluations.filter((one) => one.state === "released");
  if (!policies.length && !judged.length) {
    return empty(h("p", {}, "Nothing has been released yet. A policy appears here when a training has ended, with a certificate that anybody can check."));
  }
  return [policies.length ? newest(policies, name) : null, judged.length ? judgements(judged, session, name) : null];
}

function newest(policies, name) {
  return table([
    ["Policy", (one) => link(`policies/${one.id}`, one.id)],
    ["Dataset", (one) => name(one.dataset), "given"],
    ["Learner", (one) => one.algorithm + (one.derived ? ", derived for ρ = 0" : "")],
    ["Certificate", (one) => link(`policies/${one.id}/certificate`, "read")],
  ], policies.slice(-RECENT).reverse(), recently(policies, "policies"));
}

function judgements(evaluations, session, name) {
  const address = (one) => `evaluations/${one.id}${session.role === "auditor" ? "/certificate" : ""}`;
  return table([
    ["Evaluation", (one) => link(address(one), one.id)],
    ["Dataset", (one) => name(one.dataset), "given"],
    ["ρ", (one) => one.rho, "number"],
    ["Asked", (one) => words.when(one.created_at), "when"],
  ], evaluations.slice(-RECENT).reverse(), recently(evaluations, "evaluations"));
}

function recently(found, what) {
  return found.length > RECENT ? `The newest ${RECENT} of ${words.whole(found.length)} ${what}` : `Released ${what}`;
}
