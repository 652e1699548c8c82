// What there is to spend, what is being learned just now, and what has come of it.

import * as api from "/assets/api.js";
import { h, replace } from "/assets/dom.js";
import { ended } from "/assets/jobs.js";
import { badge, budgetOf, button, card, copied, empty, fetched, link, page, progress, sorry, table } from "/assets/parts.js";
import { many } from "/assets/schema.js";
import * as words from "/assets/words.js";

const SOON = 3000; // milliseconds until the next look while something runs
const LATER = 12000;
const RECENT = 6;
const BUDGETS = 12; // datasets whose budgets an analyst sees at once

export async function show(session) {
  const auditor = session.role === "auditor";
  const [budgets, running, recent] = [h("div", { class: "grid" }), h("div"), h("div")];
  const parts = {
    budgets: h("div", { class: "over" }, h("h2", { class: "part" }, auditor ? "Ledgers" : "Budgets"), budgets),
    running: auditor ? null : card("Running and waiting", running),
    recent: session.role === "admin" ? null : card("Newest releases", recent),
  };
  const away = outage(() => Promise.all([spent(), released(), watching && watching.look()]));
  const found = remembered(() => api.all(auditor ? "/v1/ledgers?limit=1000" : "/v1/datasets?limit=1000", { most: 100000 }));
  const names = auditor ? () => found().then(audited) : found;
  const spent = fetched(budgets, away.around(parts.budgets, () => ({ auditor: ledgers, analyst: grants }[session.role] || populations)(session, found())));
  const released = parts.recent ? fetched(recent, away.around(parts.recent, () => releases(session, names()))) : () => {};
  const watching = auditor ? null : watch(running, session, names, away.around(parts.running, (look) => look()), () => [spent(), released()]);
  const shown = page("Overview", welcome(session), away.told, parts.budgets, parts.running, parts.recent);
  return { ...shown, leave: watching && watching.leave };
}

// Asked once; what did not come is asked for again.
function remembered(ask) {
  let asked = null;
  return () => {
    asked = asked || ask().catch((problem) => {
      asked = null;
      throw problem;
    });
    return asked;
  };
}

// A service that is away is told of once, above everything, and not by each part that misses it: that part is not
// shown until it comes.
function outage(again) {
  const told = h("div");
  const missing = new Set();
  const draw = (problem) => replace(told, problem ? [sorry(problem), h("p", {}, button("Try again", again, { class: "primary" }))] : null);
  const came = (part) => {
    part.hidden = false;
    if (missing.delete(part) && !missing.size) draw(null);
  };
  const missed = (part, problem) => {
    part.hidden = true;
    if (!missing.size) draw(problem);
    missing.add(part);
  };
  const around = (part, make) => async (...given) => {
    try {
      const made = await make(...given);
      came(part);
      return made;
    } catch (problem) {
      if (problem.message !== api.UNREACHABLE) throw problem;
      missed(part, problem);
      return null;
    }
  };
  return { told, around };
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
    if (problem.message === api.UNREACHABLE) throw problem;
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
function watch(element, session, names, around, changed) {
  const [trainings, evaluations] = [growing("/v1/trainings"), growing("/v1/evaluations")];
  const count = h("p", { role: "status" }); // read out when it changes, and not at every step of a training
  const list = h("div");
  let [waiting, over, before] = [null, false, null];
  replace(element, count, list);
  const seen = async () => {
    const [name, ...found] = await Promise.all([named(names()), trainings(), evaluations()]);
    return [found.flat().filter((one) => !ended(one)), name];
  };
  const draw = (open, name) => {
    replace(list, unfinished(open, session, name));
    const states = counted(open);
    if (states !== count.textContent) count.textContent = states;
    const now = JSON.stringify(open.map((one) => [one.id, one.state]));
    if (before !== null && now !== before) changed();
    before = now;
  };
  const look = async () => {
    let found = null;
    if (!document.hidden || before === null) { // a session that nobody looks at may end
      try {
        found = await around(seen);
        if (over) return;
        if (found) draw(...found);
        else before = "lost";
      } catch (problem) {
        if (over || problem.status === 401) return;
        before = "lost";
        replace(list, sorry(problem));
      }
    }
    clearTimeout(waiting);
    waiting = setTimeout(look, found && found[0].length ? SOON : LATER);
  };
  look();
  const leave = () => {
    over = true;
    clearTimeout(waiting);
  };
  return { look, leave };
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
  const linked = (one) => (kind(one) === "evaluation" && session.role === "admin" ? one.id : link(`${kind(one)}s/${one.id}`, h("code", {}, one.id)));
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
    ["Policy", (one) => link(`policies/${one.id}`, h("code", {}, one.id))],
    ["Dataset", (one) => name(one.dataset), "given"],
    ["Learner", (one) => one.algorithm + (one.derived ? ", derived for ρ = 0" : "")],
    ["Certificate", (one) => link(`policies/${one.id}/certificate`, "read")],
  ], policies.slice(-RECENT).reverse(), recently(policies, "policies"));
}

function judgements(evaluations, session, name) {
  const address = (one) => `evaluations/${one.id}${session.role === "auditor" ? "/certificate" : ""}`;
  return table([
    ["Evaluation", (one) => link(address(one), h("code", {}, one.id))],
    ["Dataset", (one) => name(one.dataset), "given"],
    ["ρ", (one) => one.rho, "number"],
    ["Asked", (one) => words.when(one.created_at), "when"],
  ], evaluations.slice(-RECENT).reverse(), recently(evaluations, "evaluations"));
}

function recently(found, what) {
  return found.length > RECENT ? `The newest ${RECENT} of ${words.whole(found.length)} ${what}` : `Released ${what}`;
}
