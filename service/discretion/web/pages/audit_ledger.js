// One ledger: its chain followed again, its balance added up again, its signed head opened; all in this browser.

import * as api from "/assets/api.js";
import { download, h, replace } from "/assets/dom.js";
import * as evidence from "/assets/evidence.js";
import * as jws from "/assets/jws.js";
import { KINDS, checkHead, reckoned, whole } from "/assets/ledger.js";
import { busy, button, card, empty, facts, field, link, page, table, used } from "/assets/parts.js";
import * as words from "/assets/words.js";

const SHOWN = 500;

export async function show(session, named) {
  if (session.role !== "auditor" && session.role !== "custodian") {
    return page("A ledger", empty(h("p", {}, "Whole ledgers are for auditors and for the dataset's custodian. "), link("", "Go to the overview.")));
  }
  const { name, dataset } = await about(session, named);
  if (!dataset) return page("A ledger", empty(h("p", {}, "This population has no dataset yet, so nothing can have been spent: its ledger has its opening only. "), link("audit", "Back to the audit.")));
  const [ledger, head, keys] = await Promise.all([
    whole(dataset), api.text(`/v1/datasets/${dataset}/ledger/head`).catch(damaged), api.text("/v1/certificate-keys")]);
  const verdict = h("div", { "aria-live": "polite" }, h("p", { class: "quiet" }, "Checking …"));
  judge(ledger, head, keys).then((found) => replace(verdict, found));
  return page(`Ledger of ${name}`,
    h("p", {}, "Population ", h("code", {}, ledger.population), ", dataset ", h("code", {}, dataset), ". Every movement of its budget, oldest first; each row holds the hash of the one before it."),
    verdict, card("Rows", rowsTable(ledger.rows)), comparison(ledger, keys), offline(dataset, ledger, head, keys));
}

// A ledger belongs to a population, whose name it goes by, and is asked for by any of its datasets.
async function about(session, named) {
  const auditor = session.role === "auditor";
  const listed = await api.all(`/v1/${auditor ? "ledgers" : "datasets"}?limit=1000`, { most: 100000 });
  const known = auditor ? listed : listed.map((one) => ({ ...one, datasets: [one.id] }));
  const found = known.find((one) => one.population === named || one.datasets.includes(named));
  if (!found) throw new api.Problem(404, "not_found", "There is no such ledger, or it is not yours.");
  return { name: found.name, dataset: found.datasets.includes(named) ? named : found.datasets[0] };
}

// A damaged ledger has no head that anybody would sign; its rows are still shown.
function damaged(problem) {
  if (problem.status === 401 || problem.status === 404) throw problem;
  return null;
}

async function judge(ledger, head, keys) {
  const why = await jws.hindrance();
  if (why) return evidence.hindered(why);
  const checks = [
    { name: "Chain", state: "open", says: `All ${words.whole(ledger.rows.length)} rows follow each other from the first on, each with the hash of its content.` },
    { name: "Signed head", state: "open", says: "The service signed the newest row and the balance that this browser added up." },
    { name: "The service's own check", state: ledger.intact ? "holds" : "fails", says: ledger.intact ? "It found the ledger intact just now." : "It says that this ledger is damaged. Nothing is spent from it any more." },
  ];
  let found = null;
  await tried(checks[0], async () => { found = await reckoned(ledger.population, ledger.rows); });
  if (head === null) Object.assign(checks[1], { state: "fails", says: "The service signs no head of this ledger, for it does not add up." });
  else if (found) await tried(checks[1], () => openHead(head, keys, ledger, found));
  else checks[1].says = "It is not compared with a chain that is broken.";
  return [said(checks), found ? balance(found) : null];
}

async function tried(check, act) {
  try {
    await act();
    check.state = "holds";
  } catch (problem) {
    Object.assign(check, { state: "fails", says: problem instanceof jws.Wrong ? problem.message : "It cannot be read." });
  }
}

async function openHead(text, keys, ledger, found) {
  const { payload } = await jws.opened(text, JSON.parse(keys), jws.LEDGER_HEAD);
  checkHead(payload, ledger.population, found);
  return payload;
}

function said(checks) {
  const wrong = checks.find((check) => check.state === "fails");
  return evidence.verdictOf(checks, wrong ? `This ledger does not hold. ${wrong.says}` : "This ledger holds: the chain is whole and the balance is its sum.");
}

function balance({ total, charged, reserved }) {
  const amounts = { "Budget ρ": total, Charged: charged, Reserved: reserved, Remaining: total - charged - reserved };
  return facts(...Object.entries(amounts).map(([name, nano]) => [name, words.decimal(nano)]));
}

function rowsTable(rows) {
  const newest = rows.slice(-SHOWN);
  const note = rows.length > SHOWN ? h("p", { class: "quiet" }, `The newest ${SHOWN} of ${words.whole(rows.length)} rows; the download has all.`) : null;
  return [note, table(used([
    ["Row", (row) => String(row.sequence), "number"],
    ["When", (row) => words.when(row.at), "when"],
    ["What", (row) => KINDS[row.kind] || row.kind, "line"],
    ["ρ", (row) => row.rho, "number"],
    ["For", (row) => h("code", {}, row.training || "–")],
    ["By", (row) => h("code", {}, row.actor)],
    ["Reason", (row) => row.reason || "", "given reason"],
    ["Hash", (row) => h("code", { title: row.hash }, `${row.hash.slice(0, 8)}…`), "line"],
  ], rows), newest, "Movements of the budget")];
}

// Only a head that was kept elsewhere shows that rows were taken back; the newest one cannot.
function comparison(ledger, keys) {
  const file = h("input", { type: "file", accept: ".json,application/json", required: true });
  const told = h("div", { "aria-live": "polite" });
  const go = h("button", { type: "submit" }, "Compare");
  const form = h("form", {}, field("A signed head that you kept", file, "Downloaded here at an earlier visit. It must still be one of the rows above."), h("div", {}, go), told);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    busy(go, async () => {
      const why = await jws.hindrance();
      if (why) return replace(told, evidence.hindered(why, "Compare it with the command below, the head that you kept in place of the new one"));
      const check = { name: "Kept head", state: "open", says: "" };
      await tried(check, async () => {
        const kept = jws.decoded(await file.files[0].arrayBuffer());
        const payload = await openHead(kept, keys, ledger, await reckoned(ledger.population, ledger.rows));
        check.says = `The head of ${words.when(payload.at)} is row ${payload.sequence} of this ledger: nothing before it was taken back.`;
      });
      return replace(told, evidence.verdictOf([check], check.says));
    });
  });
  return h("div", { class: "unprinted" }, card("Compare with an earlier head", form));
}

function offline(dataset, ledger, head, keys) {
  const names = [`ledger-${dataset}.json`, `head-${dataset}.json`, "certificate-keys.json"];
  return card("Check it without this service",
    h("p", {}, "Keep the signed head where nobody of the hospital can change it. At your next visit it must still be part of the ledger."),
    evidence.commands(`discretion ledger check ${names[0]} ${names[1]} --keys ${names[2]}`),
    h("div", { class: "row" },
      button("Download the ledger", () => download(names[0], JSON.stringify(ledger))),
      head === null ? null : button("Download the signed head", () => download(names[1], head)),
      button("Download the public keys", () => download(names[2], keys))));
}
