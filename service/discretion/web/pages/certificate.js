// A certificate for an ethics board: this browser's own verdict first, then the page in plain words.

import * as api from "/assets/api.js";
import { h, replace } from "/assets/dom.js";
import * as evidence from "/assets/evidence.js";
import * as jws from "/assets/jws.js";
import { card, facts, link, page } from "/assets/parts.js";
import * as words from "/assets/words.js";

export async function show(session, kind, id) {
  const path = `/v1/${kind}/${encodeURIComponent(id)}`;
  const [release, written] = await Promise.all([evidence.fetchRelease(kind, id), api.get(`${path}/certificate/page`)]);
  const verdict = h("div", { "aria-live": "polite" }, h("p", { class: "quiet" }, "Checking …"));
  judge(release).then((found) => replace(verdict, found));
  const subject = kind === "policies" ? "policy" : "evaluation";
  const made = page(`Certificate of ${subject} ${id}`,
    h("div", { class: "row unprinted" },
      h("button", { type: "button", class: "primary", onclick: () => print() }, "Print"),
      session.role === "auditor" && kind === "evaluations" ? null : link(`${kind}/${id}`, `To the ${subject}`)),
    verdict,
    h("article", { class: "certificate" }, h("h2", { class: "kicker" }, titled(written.title)), written.sections.map(section)),
    written.findings ? h("article", { class: "certificate" }, h("h2", { class: "kicker" }, "What the report says"), written.findings.map(section)) : null,
    card("Check it without this service",
      h("p", {}, "The words above were put together by this service from the certificate. The command writes the same words from the file, on any computer, without a network:"),
      evidence.commands(evidence.verifyCommand(release, "--explain")),
      evidence.downloads(release)));
  made.body.classList.add("certificate-page");
  return made;
}

// The page's title is in capitals for a terminal; here its size says that it is one.
function titled(text) {
  return text === text.toUpperCase() ? text[0] + text.slice(1).toLowerCase() : text;
}

function section({ title, lines }) {
  const told = lines.map((line) => h(lines.length > 1 ? "li" : "p", {}, evidence.unbroken(line)));
  return [h("h3", {}, title), lines.length > 1 ? h("ul", {}, told) : told];
}

async function judge(release) {
  const why = await jws.hindrance();
  if (why) return evidence.hindered(why);
  try {
    const found = await evidence.examine(release, await datasetOf(release));
    return [evidence.verdict(found), found.payload ? said(found) : null];
  } catch (problem) {
    return evidence.hindered(problem.message);
  }
}

// The list names the dataset, whose ledger has the row that paid.
async function datasetOf({ kind, id }) {
  const listed = await api.all(`/v1/${kind}?limit=1000`, { most: 20000 });
  return (listed.find((one) => one.id === id) || {}).dataset;
}

// Read from the signed payload by this browser, not by the service.
function said({ payload, kid }) {
  const about = payload.policy || payload.evaluation;
  const epsilon = payload.privacy.epsilon.find((row) => row.delta === "1e-6") || payload.privacy.epsilon[0];
  return facts(
    ["ρ charged", payload.privacy.charged_rho],
    [`ε at δ = ${words.power(Number(epsilon.delta))}`, epsilon.epsilon],
    ["Patients", words.whole(payload.request.units)],
    ["Mechanisms", words.whole(payload.mechanisms.length)],
    ["Ledger row", `${payload.ledger.sequence} of ${payload.ledger.population}`],
    ["SHA-256", h("code", {}, about.sha256)],
    ["Signed with key", h("code", {}, kid)]);
}
