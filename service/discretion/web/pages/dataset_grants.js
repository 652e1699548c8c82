// Who may spend a dataset's budget, and how much of it.

import * as api from "/assets/api.js";
import { h, say } from "/assets/dom.js";
import * as forms from "/assets/forms.js";
import { busy, button, card, confirm, empty, fetched, field, table } from "/assets/parts.js";
import * as words from "/assets/words.js";

export function grantsCard(here) {
  const { dataset, session } = here;
  const custodian = session.role === "custodian";
  const list = h("div", {}, h("p", { class: "quiet" }, "Loading …"));
  const again = fetched(list, () => grants(here, () => again()));
  here.again.push(again);
  return card("Grants",
    h("p", { class: "quiet" }, custodian
      ? "An analyst sees this dataset's description and may train on it only with a grant, up to its cap. They never see the data."
      : "Custodians grant. You can revoke, for example when an analyst has left."),
    list,
    custodian && dataset.state !== "retired" ? granting(here, again) : null);
}

async function grants(here, changed) {
  const admin = here.session.role === "admin";
  const [found, keys] = await Promise.all([
    api.all(`${here.path}/grants?limit=1000`), admin ? api.all("/v1/keys?limit=1000", { most: 100000 }) : []]);
  if (!found.length) return empty(h("p", {}, "Nobody may use this dataset yet", admin ? "." : ". Ask the analyst for the id of their key; their overview shows it."));
  const names = new Map(keys.map((key) => [key.id, key.name]));
  const living = [...found].sort((one, other) => one.revoked - other.revoked);
  return table([
    ["Analyst's key", (one) => [names.has(one.key) ? `${names.get(one.key)} ` : null, h("code", {}, one.key)], "given"],
    ["Cap ρ", (one) => one.rho, "number"],
    ["Used", (one) => one.used, "number"],
    ["Left", (one) => (one.revoked ? "–" : one.remaining), "number"],
    ["Revoke", (one) => (one.revoked ? h("span", { class: "badge" }, "revoked") : revoking(here, one, changed))],
  ], living, "Grants on this dataset; used includes what is reserved");
}

function revoking(here, grant, changed) {
  return button("Revoke", async () => {
    const question = h("div", {},
      h("p", {}, "The key ", h("code", {}, grant.key), " can start nothing more on this dataset, and no longer sees it."),
      h("p", {}, "Trainings that were started go on, what was charged stays charged, and policies that were released stay theirs."));
    if (!(await confirm("Revoke this grant?", question, "Revoke"))) return;
    await api.remove(`${here.path}/grants/${grant.id}`);
    say("The grant is revoked.");
    await changed();
  }, { class: "danger", "aria-label": `Revoke the grant of ${grant.key}` });
}

function granting(here, changed) {
  const key = forms.input({ maxlength: 40, placeholder: "key_…" });
  const rho = forms.numeric();
  const send = h("button", { type: "submit", class: "primary" }, "Grant");
  const form = h("form", { novalidate: true },
    h("h3", {}, "Grant it to an analyst"),
    field("Id of the analyst's key", key, "It begins with key_ and is no secret. Never ask for a token, which begins with dk_."),
    field("Cap ρ", rho, "The most that this key may spend here. All grants together may exceed the budget; nobody can spend more than the budget has left."),
    h("div", {}, send));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    busy(send, () => grant(here, key, rho, changed));
  });
  return form;
}

function keyFault(id) {
  if (id.startsWith("dk_")) return "That was a secret token, not an id, and it is taken off this page. Have the administrator replace that key.";
  return /^key_[A-Za-z0-9]{8,36}$/.test(id) ? null : "The id of a key begins with key_; copy it whole.";
}

async function grant(here, key, rho, changed) {
  const body = { key: key.value.trim(), rho: rho.value.trim() };
  const over = !forms.rho(body.rho) && words.nano(body.rho) > words.nano(here.budget.total);
  const excess = over ? `The whole budget is ρ = ${here.budget.total}; a cap above it means nothing.` : null;
  if (!forms.sound([[key, keyFault(body.key)], [rho, forms.rho(body.rho) || excess]])) {
    if (body.key.startsWith("dk_")) key.value = "";
    return;
  }
  try {
    await api.post(`${here.path}/grants`, body);
  } catch (problem) {
    if (problem.code === "invalid_parameter" || problem.code === "grant_exists") forms.sound([[key, problem.message]]);
    else if (!forms.refused(problem, { key, rho })) throw problem;
    return;
  }
  key.value = rho.value = "";
  say("Granted.");
  await changed();
}
