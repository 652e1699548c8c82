// What the auditor's pages share: fetching what a certificate is checked against, and saying what came of it.

import * as api from "/assets/api.js";
import { download, h } from "/assets/dom.js";
import * as jws from "/assets/jws.js";
import { button, copied } from "/assets/parts.js";

const FILES = { policies: "policy", evaluations: "report" };

// Everything there is to say about one release, as the service sent it.
export async function fetchRelease(kind, id) {
  const path = `/v1/${kind}/${encodeURIComponent(id)}`;
  const [made, certificate, keys] = await Promise.all([
    patiently(() => api.text(kind === "policies" ? path : `${path}/report`)),
    patiently(() => api.text(`${path}/certificate`)),
    patiently(() => api.text("/v1/certificate-keys")),
  ]);
  return { kind, id, made, certificate, keys };
}

// Who checks many certificates in a row asks more quickly than a key may.
async function patiently(ask) {
  for (let left = 5; ; left -= 1) {
    try {
      return await ask();
    } catch (problem) {
      if (problem.status !== 429 || left === 0) throw problem;
      await new Promise((resolve) => setTimeout(resolve, 1100));
    }
  }
}

// With the ledger's own row where this reader may see it.
export function examine(release, dataset) {
  const ask = dataset && (({ ledger }) => ledger && ledgerRow(dataset, ledger.sequence));
  return jws.examined(release.made, release.certificate, JSON.parse(release.keys), ask);
}

async function ledgerRow(dataset, sequence) {
  try {
    return await patiently(() => api.get(`/v1/datasets/${encodeURIComponent(dataset)}/ledger?after=${sequence - 1}&limit=1`));
  } catch (problem) {
    if (problem.status === 403 || problem.status === 404) return null;
    throw problem;
  }
}

const SIGNS = { holds: "✓", fails: "✗", open: "–" };
const WORDS = { holds: "holds", fails: "does not hold", open: "not checked" };

// The verdict first, then what it rests on, then what it does not say.
export function verdict(found) {
  const wrong = found.checks.find((check) => check.state === "fails");
  if (wrong) return verdictOf(found.checks, `Do not rely on this. ${wrong.says}`);
  return verdictOf(found.checks, "Everything that a browser can check holds.", h("details", { class: "unprinted" },
    h("summary", {}, "What was not checked here"),
    h("ul", {}, jws.UNCHECKED.map((text) => h("li", {}, text))),
    h("p", {}, "The command checks the first of these too, on a computer of yours that needs no network.")));
}

export function verdictOf(checks, lead, ...more) {
  const wrong = checks.some((check) => check.state === "fails");
  return h("div", { class: wrong ? "sorry verdict" : "fine verdict", role: "status" },
    h("p", { class: "lead" }, lead),
    h("ul", { class: "checks" }, checks.map((check) =>
      h("li", { class: check.state }, h("span", { "aria-hidden": "true" }, SIGNS[check.state]),
        h("span", {}, h("strong", {}, `${check.name} ${WORDS[check.state]}. `), check.says)))),
    more);
}

// `instead`: what to do on this page, where the command and the files may stand elsewhere than on another.
export function hindered(why, instead = "Download the files below and check them with the command") {
  return h("div", { class: "note verdict", role: "status" },
    h("p", { class: "lead" }, "Nothing was checked here."),
    h("p", {}, `${why} ${instead}; it needs no network.`));
}

export function names({ kind, id }) {
  return { made: `${FILES[kind]}-${id}.json`, certificate: `certificate-${id}.json`, keys: "certificate-keys.json" };
}

export function downloads(release) {
  const file = names(release);
  return h("div", { class: "row" },
    button(`Download the ${FILES[release.kind]}`, () => download(file.made, release.made)),
    button("Download the certificate", () => download(file.certificate, release.certificate)),
    button("Download the public keys", () => download(file.keys, release.keys)));
}

// A browser ends a line after any hyphen, and what is then read is another command.
export function unbroken(line) {
  return line.split(" ").flatMap((word, place) => [place ? " " : null, word.includes("-") ? h("span", { class: "unbroken" }, word) : word]);
}

// To be typed where the downloaded files lie.
export function commands(...lines) {
  return h("div", { class: "commands" }, lines.map((line) => copied(line, unbroken(line))));
}

export function verifyCommand(release, ...more) {
  const file = names(release);
  return ["discretion verify", file.made, file.certificate, "--keys", file.keys, ...more].join(" ");
}
