// Every dataset that this key may see.

import * as api from "/assets/api.js";
import { h } from "/assets/dom.js";
import { badge, card, empty, fetched, link, page, table } from "/assets/parts.js";
import { ungranted } from "/assets/pages/overview.js";
import * as words from "/assets/words.js";

const MOST = { most: 100000 };

export async function show(session) {
  const custodian = session.role === "custodian";
  const list = h("div", {}, h("p", { class: "quiet" }, "Loading …"));
  fetched(list, () => listed(session));
  return page("Datasets",
    custodian ? h("p", {}, h("a", { class: "button primary", href: "#/datasets/new" }, "New dataset")) : null,
    card(null, list));
}

async function listed(session) {
  const analyst = session.role === "analyst";
  const [found, populations] = await Promise.all([
    api.all("/v1/datasets?limit=1000", MOST), analyst ? [] : api.all("/v1/populations?limit=1000", MOST)]);
  if (!found.length) return none(session);
  const budgets = new Map(populations.map((one) => [one.id, one.budget]));
  return table([
    ["Name", (one) => link(`datasets/${one.id}`, one.name), "given"],
    ["State", (one) => badge(one.state)],
    ["Patients", (one) => (one.units === null ? "–" : words.whole(one.units)), "number"],
    ["Schema", (one) => `${words.states(one)}, ${words.whole(one.actions.count)} actions, ${words.whole(one.horizon)} steps`],
    analyst ? null : ["ρ left", (one) => left(budgets.get(one.population)), "number"],
    session.role === "admin" ? ["Custodian's key", (one) => h("code", {}, one.owner)] : null,
    ["Made", (one) => words.when(one.created_at), "when"],
  ].filter(Boolean), [...found].reverse(), titles[session.role]);
}

const titles = {
  admin: "Every dataset; you see what is public about it, never its content",
  custodian: "Your datasets, newest first",
  analyst: "Datasets that are granted to you, newest first",
};

function left(budget) {
  return budget ? `${budget.remaining} of ${budget.total}` : "–";
}

function none(session) {
  if (session.role === "analyst") return ungranted(session);
  if (session.role === "admin") return empty(h("p", {}, "There is no dataset yet. Custodians make them; give one a ", link("keys", "key"), "."));
  return empty(h("p", {}, "You have no dataset yet. Describe the first one; the data follows in a second step."),
    h("p", {}, link("datasets/new", "Describe a dataset")));
}
