// Whose privacy is spent, and how much of it there is.

import { h } from "/assets/dom.js";
import * as forms from "/assets/forms.js";
import { field } from "/assets/parts.js";

const OWN = "Patients who are in no other dataset here";
const SHARED = "Patients of a population that is here already";

export function budgetFields(populations) {
  const chosen = { whose: "own", unit: "rho" };
  const rho = forms.numeric({ value: "" });
  const epsilon = forms.numeric();
  const delta = forms.numeric({ value: "1e-6" });
  const population = h("select", {}, h("option", { value: "" }, "Choose …"),
    populations.map((one) => h("option", { value: one.id }, `${one.name}: ρ = ${one.budget.remaining} left of ${one.budget.total}`)));
  const parts = {
    rho: field("Budget ρ", rho, "What may be learned about these patients in total, by everybody together. Less is more private: at δ = 10⁻⁶, ρ = 0.1 means ε = 2.2, ρ = 1 means ε = 7.8, and ρ = 2 means ε = 11.7."),
    epsilon: h("div", {},
      field("Budget ε", epsilon, "Becomes the largest ρ that keeps this promise."),
      field("at δ", delta, "Far smaller than one in the number of patients.")),
    shared: field("Population", population, "This dataset will draw on that population's budget, together with its other datasets."),
  };
  const own = h("div", {}, h("p", { class: "asked", "aria-hidden": "true" }, "How the budget is given"), forms.radios("How the budget is given", [["rho", "as ρ"], ["epsilon", "as ε and δ"]], "rho", (value) => {
    chosen.unit = value;
    arrange();
  }), parts.rho, parts.epsilon);
  const arrange = () => {
    own.hidden = chosen.whose !== "own";
    parts.shared.hidden = chosen.whose !== "shared";
    parts.rho.hidden = chosen.unit !== "rho";
    parts.epsilon.hidden = chosen.unit !== "epsilon";
  };
  arrange();
  const body = h("fieldset", {}, h("legend", {}, "Whose data is it?"),
    forms.radios("Whose data is it?", [["own", OWN], ["shared", SHARED, populations.length === 0]], "own", (value) => {
      chosen.whose = value;
      arrange();
    }),
    h("p", { class: "hint" }, "If some of these patients are in another dataset, even in part, choose its population. ",
      "With two budgets for the same patients, the promise to them would be twice as weak as it says."),
    own, parts.shared);
  return { body, ...meaning(chosen, { rho, epsilon, delta, population }, populations) };
}

function meaning(chosen, { rho, epsilon, delta, population }, populations) {
  const text = (input) => input.value.trim();
  const kind = () => (chosen.whose === "shared" ? "shared" : chosen.unit);
  const by = (options) => () => options[kind()]();
  return {
    first: by({ shared: () => population, rho: () => rho, epsilon: () => epsilon }),
    checks: by({
      shared: () => [[population, population.value ? null : "Choose a population."]],
      rho: () => [[rho, forms.rho(text(rho))]],
      epsilon: () => [
        [epsilon, forms.number(text(epsilon)) || (Number(text(epsilon)) > 0 ? null : "ε must be more than zero.")],
        [delta, forms.number(text(delta)) || (Number(text(delta)) > 0 && Number(text(delta)) < 1 ? null : "δ must be between 0 and 1, for example 1e-6.")]],
    }),
    // As texts, for the service reads them exactly as they were written.
    value: by({
      shared: () => ({ population: population.value }),
      rho: () => ({ budget: { rho: text(rho) } }),
      epsilon: () => ({ budget: { epsilon: text(epsilon), delta: text(delta) } }),
    }),
    words: by({
      shared: () => `It shares the budget of ${populations.find((one) => one.id === population.value).name}.`,
      rho: () => `It gets a budget of its own: ρ = ${text(rho)}.`,
      epsilon: () => `It gets a budget of its own: as much ρ as keeps ε = ${text(epsilon)} at δ = ${text(delta)}.`,
    }),
  };
}
