// For whoever trusts nobody: every ledger, certificate and public key, and who did what.

import * as api from "/assets/api.js";
import { download, h, replace, settled } from "/assets/dom.js";
import * as evidence from "/assets/evidence.js";
import * as jws from "/assets/jws.js";
import { button, card, empty, fetched, field, link, page, progress, table } from "/assets/parts.js";
import * as words from "/assets/words.js";

const SHOWN = 100;

export async function show(session) {
  if (session.role === "admin") return page("Audit log", logCard(true));
  if (session.role !== "auditor") {
    return page("Audit", empty(h("p", {}, "The audit is for auditors. Your own certificates are on the pages of your policies. "), link("policies", "Go to the policies.")));
  }
  const going = { on: true };
  const made = page("Audit",
    h("p", {}, "Nothing here has to be believed: certificates, chains and sums are checked by this browser, and each page has the command that checks them without it."),
    filled("Ledgers", ledgers), filled("Certificates", () => certificates(going)), filled("Public keys", publicKeys), logCard(false));
  return { ...made, leave: () => { going.on = false; } };
}

function filled(title, make) {
  const part = h("div", {}, h("p", { class: "quiet" }, "Loading …"));
  fetched(part, make);
  return card(title, part);
}

// --- ledgers -----------------------------------------------------------------------------------------------------

async function ledgers() {
  const found = await api.all("/v1/ledgers?limit=1000");
  if (!found.length) return empty(h("p", {}, "There is no ledger yet. The first one begins when a custodian makes a dataset or a population."));
  return [
    h("p", {}, "The service has followed each chain just now. Open a ledger to have your browser follow it too."),
    table([
      ["Population", (one) => [one.name, h("br"), h("code", {}, one.population)], "given"],
      ["Ledger, by dataset", ledgerLinks],
      ["Rows", (one) => words.whole(one.sequence), "number"],
      ["ρ charged", (one) => `${one.budget.charged} of ${one.budget.total}`, "number"],
      ["The service says", (one) => (one.intact ? "intact" : h("strong", {}, "damaged"))],
      ["Newest hash", (one) => h("code", { title: one.hash }, `${one.hash.slice(0, 12)}…`)],
    ], found, "Every population's ledger")];
}

// One ledger for all datasets of a population, so that any of them leads to it.
function ledgerLinks({ datasets }) {
  if (!datasets.length) return "no dataset yet";
  return datasets.map((dataset, place) => [place ? ", " : "", link(`audit/ledgers/${dataset}`, h("code", {}, dataset))]);
}

// --- certificates ------------------------------------------------------------------------------------------------

async function certificates(going) {
  const [policies, evaluations] = await Promise.all([api.all("/v1/policies?limit=1000"), api.all("/v1/evaluations?limit=1000")]);
  const rows = [
    ...policies.map((one) => ({ kind: "policies", what: one.derived ? "derived policy" : "policy", ...one })),
    ...evaluations.filter((one) => one.state === "released").map((one) => ({ kind: "evaluations", what: "evaluation", ...one })),
  ].map((one) => ({ ...one, told: h("span", {}, "not checked yet") }));
  if (!rows.length) return empty(h("p", {}, "Nothing was released yet. A certificate comes with every policy and every evaluation."));
  const why = await jws.hindrance();
  return [why ? evidence.hindered(why, "Each certificate's own page has its files and the command that checks them") : verifyAll(rows, going), certificateTable(rows)];
}

function certificateTable(rows) {
  return table([
    ["Certificate", (one) => link(`${one.kind}/${one.id}/certificate`, h("code", {}, one.id))],
    ["Of", (one) => one.what],
    ["Dataset", (one) => h("code", {}, one.dataset)],
    ["Checked here", (one) => one.told],
  ], rows, "Every release and its certificate");
}

function verifyAll(rows, going) {
  const told = h("div", { "aria-live": "polite" });
  const meter = h("div", {});
  const go = button("Verify all", async () => {
    const wrong = [];
    for (const [place, row] of rows.entries()) {
      if (!going.on) return;
      replace(meter, progress(place / rows.length, "Certificates checked"), h("p", { class: "quiet" }, `${place} of ${rows.length} checked`));
      if (!(await verifyOne(row))) wrong.push(row.id);
    }
    replace(meter);
    replace(told, summary(rows.length, wrong));
  }, { class: "primary" });
  return h("div", { class: "spaced" }, go, meter, told);
}

async function verifyOne(row) {
  replace(row.told, "checking …");
  try {
    const found = await evidence.examine(await evidence.fetchRelease(row.kind, row.id), row.dataset);
    const wrong = found.checks.find((check) => check.state === "fails");
    replace(row.told, wrong ? h("strong", { class: "wrong" }, `✗ ${wrong.says}`) : "✓ holds");
    return !wrong;
  } catch (problem) {
    if (problem.status === 401) throw problem;
    replace(row.told, h("strong", { class: "wrong" }, `✗ It could not be checked. ${problem.message}`));
    return false;
  }
}

function summary(count, wrong) {
  if (wrong.length) return h("div", { class: "sorry" }, h("p", {}, `${wrong.length} of ${count} certificates ${wrong.length === 1 ? "does" : "do"} not hold: ${wrong.join(", ")}. The table says why.`));
  return h("div", { class: "fine" }, h("p", {}, `All ${count} certificates hold: signature, content, sum and ledger row.`));
}

// --- keys and the log --------------------------------------------------------------------------------------------

async function publicKeys() {
  const text = await api.text("/v1/certificate-keys");
  const why = await jws.hindrance();
  const rows = await Promise.all(JSON.parse(text).keys.map(async (key) => ({ ...key, own: why ? null : (await jws.thumbprint(key.x)) === key.kid })));
  return [
    h("p", {}, "Certificates are signed with the newest key; those signed with earlier ones stay valid. Compare the fingerprint with the one that the hospital gave you by another way."),
    table([
      ["Fingerprint (RFC 7638)", (key) => h("code", {}, key.kid)],
      ["Kind", (key) => key.crv],
      ["Checked here", (key) => (key.own === null ? "not checked" : key.own ? "✓ the name is the key's own" : h("strong", { class: "wrong" }, "✗ goes by a name that is not its own"))],
    ], rows, "Every public key that certificates were signed with"),
    h("div", { class: "spaced" }, button("Download the public keys", () => download("certificate-keys.json", text)))];
}

function logCard(named) {
  const part = h("div", {}, h("p", { class: "quiet" }, "Loading …"));
  fetched(part, () => log(named));
  return card("Who did what", part);
}

async function log(named) {
  const [entries, keys] = await Promise.all([
    api.all("/v1/audit?limit=1000", { most: 100000 }), named ? api.all("/v1/keys?limit=1000") : []]);
  const names = new Map(keys.map((key) => [key.id, key]));
  const newest = entries.reverse();
  const filter = h("input", { type: "search", autocomplete: "off", spellcheck: "false" });
  const shown = h("div", {});
  let most = SHOWN;
  const draw = () => replace(shown, entriesTable(newest, filter.value.trim().toLowerCase(), names, most, () => { most += SHOWN * 5; draw(); }));
  filter.addEventListener("input", settled(draw, 150));
  draw();
  return [field("Show only entries with", filter, "A key, an action such as grant.create, or an id."), shown];
}

function entriesTable(entries, wanted, names, most, more) {
  const name = (id) => (names.get(id) || {}).name;
  const found = entries.filter((one) => `${one.actor} ${name(one.actor) || ""} ${one.action} ${one.object}`.toLowerCase().includes(wanted));
  if (!found.length) return empty(h("p", {}, entries.length ? "No entry has that in it. Shorten it." : "Nothing has happened yet."));
  return [
    table([
      ["No.", (one) => String(one.sequence), "number"],
      ["When", (one) => words.when(one.at), "when"],
      ["Who", (one) => [name(one.actor) ? `${name(one.actor)} ` : null, h("code", {}, one.actor)], "given"],
      ["Did", (one) => one.action, "line"],
      ["To", (one) => h("code", {}, one.object)],
    ], found.slice(0, most), `Newest first, ${words.whole(Math.min(most, found.length))} of ${words.whole(found.length)}`),
    found.length > most ? button("Show more", more) : null];
}
