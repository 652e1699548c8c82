// A training before it is paid: what it would cost, what it would learn, the same on made-up patients, and the last question.

import * as api from "/assets/api.js";
import { h, replace, say } from "/assets/dom.js";
import { button, card, empty, facts, field, link, page, table } from "/assets/parts.js";
import * as spending from "/assets/spending.js";
import * as words from "/assets/words.js";

const ALGORITHMS = [
  ["auto", "auto – the service chooses", "By a public rule, from the number of patients, the sizes of the schema and ρ. It reads no patient, and the certificate repeats it, so that anybody can choose again."],
  ["dp-pae", "dp-pae – advantages", "One number for each state and action: how much better it is than what is usually done there. For many states and few patients."],
  ["dp-apvi", "dp-apvi – counted transitions", "Counts where patients go from each state and action. For few states; further policies from the same counts are free."],
  ["dp-vapvi", "dp-vapvi – linear models", "Fits a linear model on features. For states that are measurements; without auto, it needs features under Advanced."],
];
const PLACES = '{"pessimism": 1}';

export async function show(session, dataset) {
  if (session.role !== "analyst") {
    return page("New training", empty(h("p", {}, "Only analysts train. Custodians grant them a part of the budget on the dataset's page.")));
  }
  const [found, budget] = await Promise.all([api.get(`/v1/datasets/${dataset}`), api.get(`/v1/datasets/${dataset}/budget`)]);
  const title = `New training on ${found.name}`;
  const remaining = spending.left(budget);
  if (found.state !== "ready") return page(title, unready(found));
  if (remaining.nano === 0n) return page(title, spent(found, remaining));
  const form = formOf(found, remaining);
  return { ...page(title, h("div", { class: "sides" }, form.asked, form.told), form.rehearsals), leave: form.leave };
}

function unready(found) {
  const why = found.state === "empty" ? "Its custodian has not uploaded the data yet." : "It was retired: its data are gone. Policies that were made of it stay.";
  return empty(h("p", {}, why), h("p", {}, link(`datasets/${found.id}`, "Back to the dataset")));
}

function spent(found, remaining) {
  return empty(
    h("p", {}, `Nothing is left of ${remaining.whose}, so no training can be paid. Ask the custodian for more, and say what the policy is for.`),
    h("p", {}, link("trainings", "Your trainings"), " · ", link("policies", "your policies"), " · ", link(`datasets/${found.id}`, "the dataset")));
}

// --- the form ---

function formOf(found, remaining) {
  const fields = { remaining, twin: 0 };
  const told = h("div", {}, h("p", { class: "quiet" }, "Asking what it would cost …"));
  const plan = spending.live(told, (signal) => {
    const body = bodyOf(found, fields);
    return body && api.post("/v1/plans", body, { signal });
  }, (made) => drawPlan(made, fields), (problem) => (problem.status === 422 && featureless(found, fields, plan.again)) || spending.gone(problem, found.id));
  fields.rho = spending.chooser(remaining, plan.again);
  fields.algorithm = h("fieldset", {}, h("legend", {}, "How to learn"), h("div", { class: "choices" }, ALGORITHMS.map((one, index) => choice(one, index === 0))));
  fields.algorithm.addEventListener("change", plan.again);
  fields.half = h("input", { type: "checkbox", onchange: plan.again });
  fields.parameters = h("textarea", { rows: "5", spellcheck: "false", placeholder: PLACES, oninput: plan.again });
  fields.wrong = h("p", { class: "fault", role: "status" });
  plan.again();
  const rehearsing = rehearsals(found, fields);
  const asked = card("What to ask", fields.rho.element, fields.algorithm, halfField(fields.half), advanced(fields), payButton(found, fields, plan));
  return {
    asked, told: card("The plan: free, and no patient is read", told, plan.heard), rehearsals: rehearsing.element,
    leave: () => { plan.leave(); rehearsing.leave(); },
  };
}

function choice([value, label, why], first) {
  const input = h("input", { type: "radio", name: "algorithm", value, checked: first });
  return h("label", { class: "choice" }, input, h("span", {}, h("strong", {}, label), h("span", { class: "hint" }, why)));
}

function halfField(input) {
  return h("label", { class: "choice field" }, input, h("span", {}, h("strong", {}, "Keep the other half of the patients for judging"),
    h("span", { class: "hint" }, "It learns from a random half only. The other half can then say fairly what the policy is worth; asked of its own patients, the answer flatters.")));
}

function advanced(fields) {
  const { parameters, wrong } = fields;
  fields.advanced = h("details", {}, h("summary", {}, "Advanced"),
    field("Parameters, as JSON", parameters, "Public constants of the learner; leave it empty to take the defaults. The plan shows all of them, written out."), wrong);
  return fields.advanced;
}

// A linear model has nothing to begin with until it is told what of a state it may look at.
function featureless({ states }, fields, again) {
  const given = parametersOf(fields);
  if (learnerOf(fields) !== "dp-vapvi" || given === null || given.features) return null;
  if (states.kind === "discrete") {
    return h("div", { class: "note" }, h("p", {}, "dp-vapvi is for states that are measurements, and this dataset numbers its states. Choose auto, dp-pae or dp-apvi."),
      h("p", {}, "Whoever has a table of features for each state and action gives it under Advanced, as ", h("code", {}, "features"), "."));
  }
  const proposed = { ...given, features: { kind: "blocks", terms: ["1", ...states.columns] } };
  return h("div", { class: "note" }, h("p", {}, "dp-vapvi needs features: what of a state it may look at. One for each column is a beginning; they stand under Advanced, and can be changed there."),
    button("Take a feature for each column", () => {
      fields.parameters.value = JSON.stringify(proposed, null, 1);
      fields.advanced.open = true;
      again();
    }));
}

function parametersOf({ parameters, wrong }) {
  const given = parameters.value.trim();
  let read = {};
  let problem = null;
  try {
    read = given === "" ? {} : JSON.parse(given);
    if (read === null || typeof read !== "object" || Array.isArray(read)) problem = `Parameters are a JSON object, such as ${PLACES}.`;
  } catch (mistake) {
    problem = `This is not JSON yet: ${mistake.message}.`;
  }
  parameters.setAttribute("aria-invalid", String(problem !== null));
  replace(wrong, problem);
  return problem === null ? read : null;
}

function learnerOf({ algorithm }) {
  return algorithm.querySelector("input:checked").value;
}

function bodyOf(found, fields) {
  const [rho, parameters] = [fields.rho.rho(), parametersOf(fields)];
  if (rho === null || parameters === null) return null;
  const body = { dataset: found.id, algorithm: learnerOf(fields), privacy: { rho }, parameters };
  return fields.half.checked ? { ...body, half: "first" } : body;
}

// --- the plan ---

function drawPlan(plan, { remaining }) {
  return [
    facts(
      ["Cost", h("span", {}, h("strong", {}, `ρ = ${plan.rho}`), h("br"), words.inEpsilon(plan.epsilon))],
      ["Learner", plan.algorithm],
      ["Visits before a decision is trusted", `about ${words.short(plan.visits_needed)}`],
      ["Result", `usually ${words.seconds(plan.seconds)} after its start`],
      ["Trainings like this left", words.whole(plan.trainings_left)]),
    words.nano(plan.rho) > remaining.nano ? h("p", { class: "note" }, `This costs more than ${words.decimal(remaining.nano)}, which is what ${remaining.whose} has left. Choose a smaller ρ, or ask the custodian for more.`) : null,
    spending.shareBar(plan.learned_share, "decisions expected to be learned"),
    h("p", { class: "hint" }, plan.assumption, " Nobody looked at patients to say so. The other decisions would be fallbacks: marked as such, and no better than habit."),
    plan.warnings.map((warning) => h("p", { class: "note" }, warning)),
    plan.chosen ? h("p", {}, h("strong", {}, `auto chose ${plan.algorithm}. `), plan.chosen.reason) : null,
    spending.mechanisms(plan.mechanisms),
    h("details", {}, h("summary", {}, "Other δ, and every parameter"), spending.epsilons(plan.epsilon),
      plan.pure_epsilon ? h("p", {}, `It is also purely private, with ε = ${words.short(spending.ratio(plan.pure_epsilon))}.`) : null,
      h("pre", { tabindex: "0" }, JSON.stringify(plan.parameters, null, 1).slice(0, 20000))),
  ];
}

// --- rehearsals ---

function rehearsals(found, fields) {
  const leaving = new AbortController();
  const done = [];
  const shown = h("div", { "aria-live": "polite" }, empty(h("p", {}, "No rehearsal yet. Each one plays on another made-up twin.")));
  const rehearse = button("Rehearse on a made-up twin", async () => {
    const body = bodyOf(found, fields);
    if (body === null) return say("Mend the form first.");
    const made = await api.post("/v1/rehearsals", { ...body, twin: fields.twin + 1 }, { signal: leaving.signal });
    fields.twin += 1;
    done.unshift({ ...made, asked: body.privacy.rho });
    return replace(shown, rehearsed(done), [...new Set(done.map((one) => one.note).filter(Boolean))].map((note) => h("p", { class: "hint" }, note)));
  });
  const element = card("Rehearse, for nothing",
    h("p", {}, "The same training on made-up patients of the declared sizes and ranges, with a clinic behind them that never was, so that the truth is known. It shows what noise of this size does to data of this size. What your patients are like it cannot say. It may take a minute."),
    rehearse, shown);
  return { element, leave: () => leaving.abort() };
}

function rehearsed(done) {
  const worth = (name) => (row) => (row.value[name] === null ? "not known" : words.figure(row.value[name]));
  return table([
    ["Twin", (row) => row.twin],
    ["ρ asked", (row) => row.asked, "number"],
    ["Learner", (row) => row.algorithm],
    ["Behaviour", worth("behaviour"), "number"],
    ["Policy", worth("policy"), "number"],
    ["Best", worth("best"), "number"],
    ["Beats copying", (row) => (row.value.policy > row.value.behaviour ? "yes" : "no")],
    ["Learned", (row) => words.percent(row.learned_share), "number"],
  ], done, "What a stay is worth on average in each twin's clinic: as its clinicians treat, by the policy, and at best");
}

// --- paying ---

function payButton(found, fields, plan) {
  const pay = spending.payer();
  const train = button("Train …", async (made) => {
    const body = bodyOf(found, fields);
    if (body === null) return say("Mend the form first.");
    try {
      const training = await confirmed(pay, found, fields, body);
      if (training) location.hash = `#/trainings/${training.id}`;
    } catch (problem) {
      if (problem.status === 402) await refresh(found, fields).then(plan.again);
      if (problem.status !== 404 && problem.code !== "dataset_not_ready") throw problem;
      made.insertAdjacentElement("afterend", spending.gone(problem, found.id));
    }
    return null;
  }, { class: "primary" });
  return h("div", {}, h("p", { class: "hint" }, "Nothing is spent before the next question is answered."), train);
}

// Price and remainder of this moment: others may have spent while the page was open.
async function confirmed(pay, found, fields, body) {
  const [plan] = await Promise.all([api.post("/v1/plans", body), refresh(found, fields)]);
  const about = { title: "Train on these patients?", cost: plan.rho, epsilon: plan.epsilon, remaining: fields.remaining, population: found.population, name: found.name, yes: `Charge ρ = ${plan.rho} and train` };
  return pay("/v1/trainings", body, about);
}

async function refresh(found, fields) {
  fields.remaining = spending.left(await api.get(`/v1/datasets/${found.id}/budget`));
  fields.rho.limit(fields.remaining);
}
