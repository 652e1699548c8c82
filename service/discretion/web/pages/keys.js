// Keys: who may come in, and as what.

import * as api from "/assets/api.js";
import { h, say } from "/assets/dom.js";
import * as forms from "/assets/forms.js";
import { ask, busy, button, card, confirm, copied, empty, fetched, field, page, table } from "/assets/parts.js";
import * as words from "/assets/words.js";

const ROLES = [
  ["custodian", "Custodian: uploads data, sets budgets and grants them. For the data office."],
  ["analyst", "Analyst: plans and trains on datasets that are granted to them. Never sees a record."],
  ["auditor", "Auditor: reads every ledger, certificate and released policy. Changes nothing."],
  ["admin", "Administrator: makes and revokes keys, revokes grants. Sees no data and no policy."],
];

export async function show(session) {
  if (session.role !== "admin") return page("Keys", empty(h("p", {}, "Only administrators see keys, make them and revoke them.")));
  const list = h("div", {}, h("p", { class: "quiet" }, "Loading …"));
  const again = fetched(list, () => listed(session, () => again()));
  return page("Keys", card("New key", making(again)), card("All keys", list));
}

function making(changed) {
  let role = null;
  const name = forms.input({ maxlength: 200 });
  const choice = forms.radios("Role", ROLES, null, (value) => { role = value; });
  const roles = h("fieldset", { class: "field bare" }, h("legend", {}, "Role"), choice,
    h("p", { class: "hint" }, "Roles do not overlap, and a key never changes its role. Give nobody two keys who should not do both jobs."));
  const make = h("button", { type: "submit", class: "primary" }, "Make the key");
  const form = h("form", { novalidate: true },
    field("Whose key", name, "A person or a group, for example “data office”. It stands in the audit log."), roles, h("div", {}, make));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    busy(make, async () => {
      const given = name.value.trim();
      if (!forms.sound([[name, forms.name(given)], [choice, role ? null : "Choose a role."]])) return;
      const made = await api.post("/v1/keys", { name: given, role });
      name.value = "";
      await handOver(made);
      await changed();
    });
  });
  return form;
}

// The token exists in this dialog and nowhere else, so that it takes a decision to lose it.
function handOver(made) {
  return ask(`The token of ${made.name}`, [
    h("p", { class: "note" }, "It is shown this once and kept nowhere. Hand it over in a way that nobody else can read, then close this."),
    h("p", {}, copied(made.token)),
    h("p", {}, `Role: ${words.ROLES[made.role]}. Id of the key, which is no secret: `, copied(made.id))], { kept: "I have kept the token" }, true);
}

async function listed(session, changed) {
  const found = await api.all("/v1/keys?limit=1000", { most: 100000 });
  const living = [...found].reverse().sort((one, other) => Boolean(one.revoked_at) - Boolean(other.revoked_at));
  return table([
    ["Name", (key) => [key.name, vouched(key)], "given"],
    ["Role", (key) => words.ROLES[key.role]],
    ["Id", (key) => h("code", {}, key.id)],
    ["Made", (key) => words.when(key.created_at), "when"],
    ["Revoke", (key) => (key.revoked_at ? h("span", { class: "badge" }, `revoked ${words.when(key.revoked_at)}`) : revoking(key, found, session, changed))],
  ], living, found.some((key) => key.kind === "identity")
    ? "Keys, and identities that the provider has vouched for here; newest first, revoked ones last; tokens are not kept"
    : "Newest first, revoked ones last; tokens are not kept");
}

// Whom the hospital's identity provider has let in goes by what it calls them; nobody here has made them a token.
function vouched(key) {
  if (key.kind !== "identity") return null;
  return h("div", { class: "hint" }, "identity ", h("code", {}, key.subject), " of ", h("code", {}, key.issuer));
}

function revoking(key, found, session, changed) {
  const whose = `${key.kind === "identity" ? "identity" : "key"} of ${key.name}`;
  return button("Revoke", async () => {
    if (!(await confirm(`Revoke the ${whose}?`, h("div", {}, consequences(key, found, session)), "Revoke"))) return;
    await api.remove(`/v1/keys/${key.id}`);
    say(`The ${key.kind} is revoked.`);
    await changed();
  }, { class: "danger", "aria-label": `Revoke the ${whose}` });
}

function consequences(key, found, session) {
  const identity = key.kind === "identity";
  const lasting = {
    custodian: ["Their datasets stay, but nobody can upload, grant or retire there until you run ", h("code", {}, `discretion keys ${identity ? "reopen" : "replace"}`), ` for this ${key.kind}.`],
    analyst: "Trainings that they have started go on, and their policies stay.",
    auditor: "Nothing else changes.",
    admin: "Nothing else changes.",
  };
  const others = found.filter((one) => one.role === "admin" && !one.revoked_at && one.id !== key.id);
  return [
    h("p", {}, identity
      ? "From now on no token of the provider lets them in, and they are signed out. The provider is not told: whoever left the hospital is closed there, too."
      : "From now on its token opens nothing, and whoever is signed in with it is signed out."),
    h("p", {}, lasting[key.role]),
    key.id === session.id ? h("p", { class: "note" }, `This is the ${key.kind} that you are signed in with.`) : null,
    key.role === "admin" && !others.length ? h("p", { class: "note" }, "It is the last administrator's key. Another can then be made on the server only: ", h("code", {}, "discretion keys create --role admin"), ".") : null,
  ];
}
