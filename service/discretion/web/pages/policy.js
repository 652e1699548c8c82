// One policy: what it decides and where it knew nothing, as a map; what it would do for one patient; its papers.

import * as api from "/assets/api.js";
import { download, h, replace } from "/assets/dom.js";
import { names } from "/assets/evidence.js";
import { datasetLink } from "/assets/jobs.js";
import * as jws from "/assets/jws.js";
import { button, card, copied, facts, field, link, page, sorry } from "/assets/parts.js";
import { actionLegend, scoreLegend } from "/assets/policy_colours.js";
import { policyMap } from "/assets/policy_map.js";
import { questions } from "/assets/policy_questions.js";
import { shareBar } from "/assets/spending.js";
import * as words from "/assets/words.js";

export async function show(session, id) {
  if (session.role === "admin") return page(`Policy ${id}`, h("p", {}, "Administrators see no policies."));
  const path = `/v1/policies/${encodeURIComponent(id)}`;
  const certificate = await api.text(`${path}/certificate`);
  const [shown, about] = [h("div", { "aria-busy": "true" }, h("p", { class: "quiet" }, "Reading the policy …")), h("div")];
  const papers = { id, path, certificate, policy: null };
  const reading = read(path, papers);
  const over = [reading.stop];
  reading.policy.then((policy) => {
    replace(shown, drawn(policy, path, over));
    shown.removeAttribute("aria-busy");
  }).catch((problem) => replace(shown, sorry(problem)));
  replace(about, facts(...aboutIt(jws.unchecked(certificate))));
  origin(session, id).then((pairs) => pairs && about.append(facts(...pairs))).catch(() => {});
  return { ...page(`Policy ${id}`, card("What it is", about, actions(session, papers)), shown), leave: () => over.forEach((stop) => stop()) };
}

// --- its papers ---

// From the certificate, which everybody may read who may read the policy.
function aboutIt({ request, privacy, derived_from: origin, ledger }) {
  const rows = privacy.epsilon.map((row) => ({ delta: Number(row.delta), epsilon: Number(row.epsilon) }));
  return [
    ["Learner", request.algorithm],
    ["Cost", h("span", {}, `ρ = ${privacy.further_rho}`, origin ? `, derived from a release that had cost ${privacy.charged_rho}` : null, h("br"), words.inEpsilon(rows))],
    ["Learned from", `${words.whole(request.units)} patients${request.half ? `, the ${request.half} half of the dataset` : ""}`],
    ["Horizon", `${words.whole(request.schema.horizon)} steps`],
    ["States", words.states(request.schema)],
    ["Actions", words.whole(request.schema.actions.count)],
    ["Population", copied(ledger.population)],
  ];
}

// The document says nothing of its training; the list does.
async function origin(session, id) {
  const found = (await api.all("/v1/policies?limit=1000")).find((one) => one.id === id);
  if (!found) return null;
  const training = session.role === "auditor" ? copied(found.training) : link(`trainings/${found.training}`, found.training);
  return [["Training", training], ["Dataset", datasetLink(session, found.dataset)]];
}

function actions(session, papers) {
  const file = names({ kind: "policies", id: papers.id });
  return h("div", { class: "row" },
    session.role === "analyst" ? h("a", { class: "button primary", href: `#/policies/${papers.id}/evaluate` }, "Judge it on other patients") : null,
    h("a", { class: "button", href: `#/policies/${papers.id}/certificate` }, "See the certificate"),
    button("Download the policy", async () => download(file.made, papers.policy || (await api.bytes(papers.path)))),
    button("Download the certificate", () => download(file.certificate, papers.certificate)));
}

// --- reading ---

const UNREADABLE = "This policy's document cannot be read. Download it and check it with the command line.";

function read(path, papers) {
  const worker = new Worker("/assets/policy_reader.js");
  const policy = api.bytes(path).then((bytes) => {
    papers.policy = new Blob([bytes]); // for a download; the bytes themselves go to the worker
    return new Promise((resolve, reject) => {
      const failed = () => reject(new api.Problem(-1, "unreadable", UNREADABLE));
      worker.addEventListener("error", failed);
      worker.addEventListener("message", ({ data }) => (data.made ? resolve(data.made) : failed()));
      worker.postMessage(bytes, [bytes]);
    });
  });
  policy.finally(() => worker.terminate()).catch(() => {});
  return { policy, stop: () => worker.terminate() };
}

// --- the map ---

function drawn(policy, path, over) {
  const asking = questions(policy, path);
  if (!policy.decisions) return [card("What it knows", linear(policy)), asking.element];
  const cells = policy.states > 0 && policy.kind.kind === "vector";
  const map = policyMap(policy, { unit: cells ? "cell" : "state", describe: cells ? binsOf(policy) : null, chosen: cells ? () => {} : asking.choose });
  over.push(map.leave);
  const total = policy.decisions.length;
  return [
    card("What it decides",
      shareBar(policy.trusted / total, "learned decisions"),
      h("p", { class: "hint" }, learnedWords(policy.trusted, total), ` Each row of the map is a step and each column a ${cells ? "cell" : "state"}. A pessimistic score is an estimate of what the rest of a stay is worth, and no bound.`),
      tools(policy, map, cells), map.element, legendOf(policy, map)),
    asking.element,
  ];
}

function learnedWords(learned, total) {
  if (learned === total) return `All ${words.whole(total)} decisions were learned.`;
  const fallbacks = "there the data said too little for the noise, and it does what was usual as far as that is known.";
  return learned === 0
    ? `None of the ${words.whole(total)} decisions was learned: each is a fallback, for ${fallbacks}`
    : `${words.whole(learned)} of ${words.whole(total)} decisions were learned. The others are fallbacks: ${fallbacks}`;
}

function tools(policy, map, cells) {
  const wanted = h("input", { type: "number", min: "0", max: String(policy.states - 1), step: "1", value: "0" });
  const jump = h("form", { class: "row jump" }, field(cells ? "Go to cell" : "Go to state", wanted), h("button", { type: "submit" }, "Go"));
  jump.addEventListener("submit", (event) => {
    event.preventDefault();
    map.go(Number(wanted.value));
  });
  const zooms = h("div", { class: "row", role: "group", "aria-label": "Zoom" },
    h("button", { type: "button", "aria-label": "Zoom out", onclick: () => map.zoom(-1) }, "−"),
    h("button", { type: "button", "aria-label": "Zoom in", onclick: () => map.zoom(1) }, "+"),
    h("button", { type: "button", onclick: () => map.zoom(null) }, "Whole policy"));
  return h("div", { class: "row apart tools" }, jump, zooms);
}

function legendOf(policy, map) {
  const legend = h("div", {}, actionLegend(policy));
  const radio = (value, label, checked) => h("label", {}, h("input", {
    type: "radio", name: "layer", value, checked,
    onchange: () => {
      map.layer(value);
      replace(legend, value === "actions" ? actionLegend(policy) : scoreLegend(policy));
    },
  }), ` ${label}`);
  return h("div", {}, h("fieldset", { class: "row layers" }, h("legend", {}, "Colours show"), radio("actions", "the action", true), radio("scores", "the pessimistic score", false)), legend);
}

// A cell's number in words: cells are counted in the order of the columns, the last one fastest.
function binsOf(policy) {
  const columns = policy.kind.columns.filter((column) => policy.features.edges[column]);
  return (cell) => {
    const said = [];
    for (const column of [...columns].reverse()) {
      const cuts = policy.features.edges[column];
      const part = cell % (cuts.length + 1);
      cell = Math.floor(cell / (cuts.length + 1));
      said.unshift(part === 0 ? `${column} below ${cuts[0]}` : part === cuts.length ? `${column} from ${cuts[part - 1]}` : `${column} ${cuts[part - 1]} to ${cuts[part]}`);
    }
    return said.join(", ");
  };
}

function linear(policy) {
  const terms = (policy.features && policy.features.terms) || [];
  return [
    h("p", {}, `It decides for any measurement by ${words.whole(terms.length)} features of ${words.whole(policy.states.columns.length)} columns, so there is no finite map to draw, and no share of learned decisions to count: each answer below says whether it is learned.`),
    h("details", {}, h("summary", {}, "Its features"), h("ul", {}, terms.slice(0, 200).map((term) => h("li", {}, h("code", {}, typeof term === "string" ? term : JSON.stringify(term)))))),
  ];
}
