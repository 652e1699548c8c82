// A budget over time: every movement of it, and how it is changed.

import * as api from "/assets/api.js";
import { budgetSteps } from "/assets/charts.js";
import { download, h, replace } from "/assets/dom.js";
import * as forms from "/assets/forms.js";
import * as ledger from "/assets/ledger.js";
import { busy, button, card, confirm, empty, fetched, field, link, table, used } from "/assets/parts.js";
import { many } from "/assets/schema.js";
import * as words from "/assets/words.js";

const SHOWN = 50; // rows before somebody asks for all

// --- over time -----------------------------------------------------------------------------------------------------

export function history(here) {
  const place = h("div", {}, h("p", { class: "quiet" }, "Loading …"));
  here.again.push(fetched(place, async () => {
    const found = await ledger.whole(here.id);
    return [chain(found), ...overTime(found.rows), h("h3", {}, "Ledger"), movements(found.rows), downloads(here, found)];
  }));
  return card("Budget over time", place);
}

function chain({ intact, rows }) {
  return intact
    ? h("p", { class: "fine" }, `The ledger adds up: ${many(rows.length, "row")}${rows.length > 1 ? ", each with the hash of the one before it, all" : ","} checked just now.`)
    : h("p", { class: "sorry", role: "alert" }, "The ledger does not add up: a row was changed or is missing. Nothing can be spent until the operator has restored it from a backup. Tell your auditor.");
}

function overTime(rows) {
  const points = ledger.sums(rows).map((one) => ({ ...one, at: Date.parse(one.row.at) }));
  return [budgetSteps(points), h("details", {}, h("summary", {}, "The same as a table"), table([
    ["When", (one) => words.when(one.at), "when"],
    ["Charged", (one) => words.decimal(one.charged), "number"],
    ["Reserved", (one) => words.decimal(one.reserved), "number"],
    ["Whole budget", (one) => words.decimal(one.total), "number"],
  ], points, "Budget after each movement, oldest first"))];
}

function movements(rows, caption = "Every movement of the budget, newest first") {
  const place = h("div");
  const shown = (count) => replace(place,
    table(used(COLUMNS, rows), rows.slice(-count).reverse(), caption),
    count < rows.length ? h("p", {}, button(`Show all ${words.whole(rows.length)} rows`, () => shown(rows.length))) : null);
  shown(SHOWN);
  return place;
}

const COLUMNS = [
  ["Row", (row) => String(row.sequence), "number"],
  ["When", (row) => words.when(row.at), "when"],
  ["What", (row) => ledger.KINDS[row.kind] || row.kind, "line"],
  ["ρ", (row) => row.rho, "number"],
  ["For", (row) => (row.training ? link(`${row.training.startsWith("ev_") ? "evaluations" : "trainings"}/${row.training}`, h("code", {}, row.training)) : "")],
  ["By", (row) => h("code", {}, row.actor)],
  ["Reason", (row) => row.reason || "", "given reason"],
  ["Hash", (row) => h("code", { title: row.hash }, `${row.hash.slice(0, 8)}…`), "line"],
];

function downloads({ id }, found) {
  const save = (name, text) => download(`${name}-${found.population}.json`, text);
  return h("div", {},
    h("p", { class: "hint" }, "Keep a signed head outside of this service from time to time. With it, ", h("code", {}, "discretion ledger check"),
      " finds out later whether the ledger was rolled back or rewritten."),
    h("div", { class: "row" },
      button("Download ledger", async () => save("ledger", JSON.stringify(await ledger.whole(id)))), // as new as the head beside it
      button("Download signed head", async () => save("ledger-head", await api.text(`/v1/datasets/${id}/ledger/head`)))));
}

export function ownRows(here) {
  const place = h("div", {}, h("p", { class: "quiet" }, "Loading …"));
  here.again.push(fetched(place, async () => {
    const { rows } = await ledger.whole(here.id);
    if (!rows.length) return empty(h("p", {}, "You have not spent anything here. A plan costs nothing: begin with a new training and look at its price."));
    return movements(rows, "What your trainings and evaluations have moved, newest first");
  }));
  return card("Your part of the ledger", place);
}

// --- change --------------------------------------------------------------------------------------------------------

export function budgetChange(here, changed) {
  const total = forms.numeric();
  const reason = forms.input({ maxlength: 500 });
  const send = h("button", { type: "submit" }, "Change the budget");
  const form = h("form", { novalidate: true },
    field("New whole budget ρ", total, "The new total, not what is added. It cannot fall below what is charged and reserved."),
    field("Reason", reason, "Stays in the ledger for good, for everybody who audits it. No patient's facts in it."), h("div", {}, send));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    busy(send, () => change(here, total, reason, changed));
  });
  return h("details", {}, h("summary", {}, "Change the budget"), form);
}

async function change(here, total, reason, changed) {
  const { budget, dataset } = here;
  const [rho, why] = [total.value.trim(), reason.value.trim()];
  if (!forms.sound([[total, forms.rho(rho) || lowest(rho, budget)], [reason, why ? null : "Say why; auditors will ask."]])) return;
  const raised = words.nano(rho) > words.nano(budget.total);
  const question = h("div", {},
    h("p", {}, `The whole budget goes from ρ = ${budget.total} to ρ = ${rho}, for every dataset of this population.`),
    raised ? h("p", { class: "note" }, "A larger budget is a weaker promise to every patient in it. What has been spent by then can never be taken back.") : null);
  if (!(await confirm(raised ? "Raise the budget?" : "Lower the budget?", question, "Change it"))) return;
  try {
    await api.patch(`/v1/populations/${dataset.population}/budget`, { rho, reason: why });
  } catch (problem) {
    if (!forms.refused(problem, { rho: total, reason })) throw problem;
    return;
  }
  total.value = reason.value = "";
  await changed();
}

function lowest(rho, budget) {
  const used = words.nano(budget.charged) + words.nano(budget.reserved);
  if (words.nano(rho) === words.nano(budget.total)) return "The budget is that already.";
  return words.nano(rho) < used ? `ρ = ${words.decimal(used)} is charged or reserved already; it cannot be less.` : null;
}
