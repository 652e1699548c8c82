// What a policy is worth is a question about patients, and has a price; best asked of those whom it was not learned from.

import * as api from "/assets/api.js";
import { h, say } from "/assets/dom.js";
import { button, card, empty, facts, field, link, page } from "/assets/parts.js";
import * as spending from "/assets/spending.js";
import * as words from "/assets/words.js";

const OTHER = { first: "second", second: "first" };
const JUDGED = {
  "other half": ["fine", "These are the patients that the policy was not learned from: the fair way to ask."],
  same: ["note", "The policy was learned from patients of this population, perhaps from these. What fitted them by chance fits them again, so this judges it too well. Train on one half and judge on the other."],
  "other population": ["fine", "Another population than the policy was learned from: fair, if nobody is in both."],
};

export async function show(session, id) {
  const title = `Judge policy ${id}`;
  if (session.role !== "analyst") return page(title, empty(h("p", {}, "Only the analyst whose policy it is can have it judged.")));
  const named = (await api.all("/v1/policies?limit=1000")).find((one) => one.id === id);
  if (!named) throw new api.Problem(404, "not_found", "There is no such policy, or it is not yours.");
  const [training, datasets] = await Promise.all([api.get(`/v1/trainings/${named.training}`), api.all("/v1/datasets?limit=1000")]);
  const usable = datasets.filter((one) => one.state === "ready").sort((one) => (one.id === named.dataset ? -1 : 1));
  if (usable.length === 0) return page(title, empty(h("p", {}, "You have no dataset with data to judge on: your grants were withdrawn, or the data were retired. Ask a custodian."), h("p", {}, link(`policies/${id}`, "Back to the policy"))));
  const budget = await api.get(`/v1/datasets/${usable[0].id}/budget`);
  const form = formOf(id, named, training, usable, spending.left(budget));
  return { ...page(title, h("p", {}, link(`policies/${id}`, "Back to the policy")), h("div", { class: "sides" }, form.asked, form.told)), leave: form.leave };
}

function formOf(policy, named, training, usable, remaining) {
  const { half } = training;
  const fields = { policy, remaining, parameters: () => as(training, dataset()) };
  const told = h("div", {}, h("p", { class: "quiet" }, "Asking what it would cost …"));
  const dataset = () => usable.find((one) => one.id === fields.dataset.value);
  const plan = spending.live(told, (signal) => {
    const body = bodyOf(fields);
    return body && api.post("/v1/evaluations/plans", body, { signal });
  }, (made) => drawPlan(made, fields, half), (problem) => spending.gone(problem, dataset().id));
  fields.rho = spending.chooser(remaining, plan.again);
  fields.dataset = h("select", {}, usable.map((one) => h("option", { value: one.id }, `${one.name}${one.id === named.dataset ? ", its own" : ""}${twice(one, usable) ? ` (${one.id.slice(0, 10)}…)` : ""}`)));
  fields.half = h("select", { onchange: plan.again }, [["", "everyone in the dataset"], ["first", "the first half"], ["second", "the second half"]].map(([value, label]) => h("option", { value }, label)));
  fields.half.value = usable[0].id === named.dataset && half ? OTHER[half] : "";
  fields.dataset.addEventListener("change", async () => {
    fields.half.value = fields.dataset.value === named.dataset && half ? OTHER[half] : "";
    plan.again();
    await refresh(fields, dataset()).catch(() => {});
  });
  plan.again();
  const learned = half ? `It was learned from the ${half} half of its dataset.` : "It was learned from everyone in its dataset, so no half of it is fair; train with “keep the other half” to have one.";
  const asked = card("What to ask", h("p", {}, learned), field("Whose patients", fields.dataset), field("Which of them", fields.half, "Halves are random, and the same for everybody."),
    fields.rho.element, payButton(fields, dataset, plan));
  return { asked, told: card("The plan: free, and no patient is read", told, plan.heard), leave: plan.leave };
}

// An id is long, and needed only where a name is not enough.
function twice({ name }, usable) {
  return usable.filter((one) => one.name === name).length > 1;
}

// Whatever a policy of measurements tells apart, its judgement has to: steps, or groups of them.
function as({ algorithm, parameters }, { states, horizon }) {
  if (states.kind === "discrete" || algorithm !== "dp-vapvi") return {};
  const groups = parameters.dynamics === "stationary" ? parameters.time_groups : horizon;
  return groups > 1 ? { time_groups: groups } : {};
}

function bodyOf(fields) {
  const rho = fields.rho.rho();
  if (rho === null) return null;
  const body = { policy: fields.policy, dataset: fields.dataset.value, privacy: { rho }, parameters: fields.parameters() };
  return fields.half.value ? { ...body, half: fields.half.value } : body;
}

async function refresh(fields, dataset) {
  fields.remaining = spending.left(await api.get(`/v1/datasets/${dataset.id}/budget`));
  fields.rho.limit(fields.remaining);
}

function drawPlan(plan, { remaining }, half) {
  const [kind, why] = JUDGED[plan.patients];
  return [
    h("p", { class: kind }, why, plan.patients === "same" && half ? ` Choose the ${OTHER[half]} half of its own dataset.` : null),
    facts(
      ["Cost", h("span", {}, h("strong", {}, `ρ = ${plan.rho}`), h("br"), words.inEpsilon(plan.epsilon))],
      ["Result", `usually ${words.seconds(plan.seconds)} after its start`],
      ["Evaluations like this left", words.whole(plan.evaluations_left)]),
    words.nano(plan.rho) > remaining.nano ? h("p", { class: "note" }, `This costs more than ${words.decimal(remaining.nano)}, which is what ${remaining.whose} has left.`) : null,
    h("p", { class: "hint" }, "The report has one number for the policy and one for what patients received, each with an interval. A smaller ρ makes the interval wider."),
    spending.mechanisms(plan.mechanisms),
    h("details", {}, h("summary", {}, "Other δ"), spending.epsilons(plan.epsilon)),
  ];
}

function payButton(fields, dataset, plan) {
  const pay = spending.payer();
  const judge = button("Judge it …", async (made) => {
    const body = bodyOf(fields);
    if (body === null) return say("Mend the form first.");
    try {
      const [price] = await Promise.all([api.post("/v1/evaluations/plans", body), refresh(fields, dataset())]);
      const about = { title: "Judge it on these patients?", cost: price.rho, epsilon: price.epsilon, remaining: fields.remaining, population: dataset().population, name: dataset().name, yes: `Charge ρ = ${price.rho} and judge` };
      const evaluation = await pay("/v1/evaluations", body, about);
      if (evaluation) location.hash = `#/evaluations/${evaluation.id}`;
    } catch (problem) {
      if (problem.status === 402) await refresh(fields, dataset()).then(plan.again);
      if (problem.status !== 404 && problem.code !== "dataset_not_ready") throw problem;
      made.insertAdjacentElement("afterend", spending.gone(problem, dataset().id));
    }
    return null;
  }, { class: "primary" });
  return h("div", {}, h("p", { class: "hint" }, "Nothing is spent before the next question is answered."), judge);
}
