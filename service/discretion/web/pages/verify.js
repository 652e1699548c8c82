// Files from anywhere, checked in this browser: nothing is sent to the service.

import * as api from "/assets/api.js";
import { h, replace } from "/assets/dom.js";
import * as evidence from "/assets/evidence.js";
import * as jws from "/assets/jws.js";
import { busy, card, field, page, sorry } from "/assets/parts.js";
import * as words from "/assets/words.js";

const NAMES = { made: "Policy or report", certificate: "Certificate", keys: "Public keys (JWKS)" };
const HINTS = {
  made: "As downloaded; spacing and the order of keys do not matter.",
  certificate: "A JWS in JSON: payload, protected, signature.",
  keys: "Without a file of yours, this service's own keys are used. A list that you fetched earlier, or from elsewhere, proves more.",
};
const LARGEST = 200e6;

export async function show() {
  const why = await jws.hindrance();
  const given = {};
  const inputs = Object.fromEntries(Object.keys(NAMES).map((name) => [name, input(name, given)]));
  const told = h("div", { "aria-live": "polite" });
  const go = h("button", { type: "submit", class: "primary" }, "Check");
  const form = h("form", {}, dropZone(given, inputs), Object.keys(NAMES).map((name) => field(NAMES[name], inputs[name], HINTS[name])), h("div", {}, go));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    busy(go, async () => replace(told, await judged(given)));
  });
  return page("Verify a file",
    h("p", {}, "Choose a policy or a report and its certificate. They are read in this browser and sent nowhere."),
    why ? evidence.hindered(why, "Check the files with the command below") : card(null, form), told,
    card("Without a browser",
      h("p", {}, "The command checks more than a browser can: it works out every mechanism again from the request."),
      evidence.commands("discretion verify POLICY CERTIFICATE --keys JWKS")));
}

function input(name, given) {
  const made = h("input", { type: "file", accept: ".json,application/json" });
  made.addEventListener("change", () => { given[name] = made.files[0]; });
  return made;
}

// Files that are dropped find their own places: a certificate and a key list can be told by what is in them.
function dropZone(given, inputs) {
  const names = h("p", { class: "hint" }, "or choose each of them below");
  const zone = h("div", { class: "drop" }, h("p", {}, "Drop the files here"), names);
  const over = (event, is) => { event.preventDefault(); zone.classList.toggle("over", is); };
  zone.addEventListener("dragover", (event) => over(event, true));
  zone.addEventListener("dragleave", (event) => over(event, false));
  zone.addEventListener("drop", async (event) => {
    over(event, false);
    const files = [...event.dataTransfer.files];
    const places = await Promise.all(files.map(placeOf));
    files.forEach((file, at) => keep(given, inputs[places[at]], places[at], file));
    replace(names, files.map((file, at) => h("span", {}, `${NAMES[places[at]]}: ${file.name} `)));
  });
  return zone;
}

function keep(given, field, name, file) {
  given[name] = file;
  const chosen = new DataTransfer();
  chosen.items.add(file);
  field.files = chosen.files;
}

async function placeOf(file) {
  try {
    const found = JSON.parse(await read(file));
    if ("signature" in found) return "certificate";
    return Array.isArray(found.keys) ? "keys" : "made";
  } catch {
    return "made";
  }
}

async function read(file) {
  if (file.size > LARGEST) throw new jws.Wrong(`${file.name} is larger than ${words.bytes(LARGEST)}; use the command.`);
  return jws.decoded(await file.arrayBuffer());
}

async function judged(given) {
  const missing = ["made", "certificate"].filter((name) => !given[name]).map((name) => NAMES[name].toLowerCase());
  if (missing.length) return h("div", { class: "note" }, h("p", {}, `Choose the ${missing.join(" and the ")} first.`));
  try {
    const made = await read(given.made);
    const certificate = await read(given.certificate);
    const keys = given.keys ? jws.parse(await read(given.keys), "key list") : await api.get("/v1/certificate-keys");
    const found = await jws.examined(made, certificate, keys, null);
    return [evidence.verdict(found), found.payload ? about(found, given) : null];
  } catch (problem) {
    if (problem instanceof jws.Wrong) return h("div", { class: "sorry verdict", role: "status" }, h("p", { class: "lead" }, problem.message));
    return sorry(problem);
  }
}

function about({ payload, kid }, given) {
  const made = payload.policy || payload.evaluation;
  return card("What the certificate says",
    h("p", {}, `${payload.evaluation ? "Evaluation" : "Policy"} ${made.id || "without an id"}, by ${payload.request.algorithm}, about ${words.whole(payload.request.units)} patients of ${payload.ledger.population}.`),
    h("p", {}, `ρ = ${payload.privacy.charged_rho} was charged by row ${payload.ledger.sequence} of the ledger, whose hash must be `, h("code", {}, payload.ledger.hash), "."),
    h("p", {}, "Signed with key ", h("code", {}, kid), given.keys ? " of the list you chose." : " of this service's list."));
}
