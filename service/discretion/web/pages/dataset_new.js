// A dataset's description, asked for in plain words and checked before it is sent: it cannot be changed afterwards.

import * as api from "/assets/api.js";
import { h } from "/assets/dom.js";
import * as forms from "/assets/forms.js";
import { budgetFields } from "/assets/pages/dataset_new_budget.js";
import { stateFields } from "/assets/pages/dataset_new_states.js";
import { busy, card, confirm, empty, field, page } from "/assets/parts.js";
import { schemaWords } from "/assets/schema.js";

const MOST_ACTIONS = 100000;

export async function show(session) {
  if (session.role !== "custodian") return page("New dataset", empty(h("p", {}, "Only custodians make datasets.")));
  const made = form(await api.all("/v1/populations?limit=1000", { most: 100000 }));
  return page("New dataset",
    h("div", { class: "note" },
      h("p", {}, h("strong", {}, "Everything on this page is public."),
        " Bounds and sizes must come from what is known anyway: the range of a device, a guideline, the rules of the study. ",
        "Do not read them off the data: the largest value that occurs in it belongs to one patient."),
      h("p", {}, "None of it can be changed once the dataset is made, except for the budget. The data itself follows in a second step.")),
    made);
}

function form(populations) {
  const budget = budgetFields(populations);
  const states = stateFields();
  const name = forms.input({ maxlength: 200 });
  const horizon = forms.numeric();
  const actions = forms.numeric();
  const labels = h("textarea", { rows: 5, spellcheck: "false" });
  const reward = pair("One reward", "0", "1", "The least and the most that one step can earn. Where only the outcome of a stay counts, that is the range of the outcome.");
  const total = pair("All rewards of one stay together (optional)", "", "",
    "If you know a narrower range than steps × reward, say it: it can save much noise. It must contain 0. For an outcome of 0 or 1 at the end, write 0 and 1.");
  const stays = forms.numeric({ value: "1" });
  const fields = { budget, states, name, horizon, actions, labels, reward, total, stays };
  labels.addEventListener("input", () => counted(labels, actions));
  const send = h("button", { type: "submit", class: "primary" }, "Check and make the dataset");
  const made = h("form", { novalidate: true },
    card("Name and budget",
      field("Name", name, "For your colleagues, for example icu-2019. No patient's name; analysts see it."),
      budget.body),
    card("Stays",
      field("Most steps of a stay", horizon, "Also called the horizon. A longer stay is cut there before it is uploaded; a shorter one is fine. From 1 to 10 000."),
      field("Most stays of one patient", stays, "The promise covers all stays of a patient together, so each one more costs accuracy. 1 is best where you can choose one stay for each patient.")),
    card("States: what is known about a patient at a step", states.body),
    card("Actions: what can be done at a step",
      field("What the actions are called, one per line (optional)", labels, "The first line is action 0 in the data, the second is action 1, and so on."),
      field("Number of actions", actions, "Actions are written as whole numbers from 0 in the data. Counted for you if you name them.")),
    card("Rewards: what a step is worth", reward.body, total.body),
    h("div", {}, send));
  made.addEventListener("submit", (event) => {
    event.preventDefault();
    busy(send, () => submitted(fields));
  });
  return made;
}

function pair(title, low, high, hint) {
  const inputs = [forms.numeric({ value: low, "aria-label": `${title}: least` }), forms.numeric({ value: high, "aria-label": `${title}: most` })];
  const body = h("fieldset", { class: "field bare" }, h("legend", {}, title),
    h("div", { class: "pair" }, h("span", {}, "from"), inputs[0], h("span", {}, "to"), inputs[1]), h("p", { class: "hint" }, hint));
  return { body, inputs, values: () => inputs.map((one) => one.value.trim()) };
}

function lines(labels) {
  const found = labels.value.split("\n").map((line) => line.trim());
  while (found.length && found[found.length - 1] === "") found.pop();
  return found;
}

function counted(labels, actions) {
  const count = lines(labels).length;
  actions.value = count ? String(count) : "";
  actions.readOnly = count > 0;
  if (count) forms.mark(actions, null); // what was wrong with it was mended here
}

function checks({ budget, states, name, horizon, actions, labels, reward, total, stays }) {
  const named = lines(labels);
  const [low, high] = total.values();
  return [
    [name, forms.name(name.value.trim())],
    ...budget.checks(),
    [horizon, forms.wholeFrom(1, 10000)(horizon.value.trim())],
    [stays, forms.wholeFrom(1, 10000)(stays.value.trim())],
    ...states.checks(),
    [labels, labelFault(named)],
    [actions, forms.wholeFrom(1, MOST_ACTIONS)(actions.value.trim())],
    [reward.inputs[0], forms.interval(...reward.values())],
    [total.inputs[0], low === "" && high === "" ? null : forms.interval(low, high) || (Number(low) <= 0 && Number(high) >= 0 ? null : "The range must contain 0, where a stay begins.")],
  ];
}

function labelFault(named) {
  const gap = named.indexOf("");
  if (gap >= 0) return `Line ${gap + 1} is empty: each line names one action.`;
  const long = named.findIndex((label) => label.length > 200);
  return long >= 0 ? `Line ${long + 1} is longer than 200 characters.` : null;
}

function described({ budget, states, name, horizon, actions, labels, reward, total, stays }) {
  const named = lines(labels);
  const range = ([low, high]) => ({ low: Number(low), high: Number(high) });
  return {
    name: name.value.trim(), ...budget.value(),
    horizon: Number(horizon.value), max_trajectories_per_unit: Number(stays.value), states: states.value(),
    actions: { count: Number(actions.value), ...(named.length ? { labels: named } : {}) },
    reward: range(reward.values()), ...(total.values()[0] === "" ? {} : { return: range(total.values()) }),
  };
}

async function submitted(fields) {
  if (!forms.sound(checks(fields))) return;
  const body = described(fields);
  const review = h("div", {},
    h("p", {}, "This is what analysts and auditors will see. It stays as it is; only the budget can be changed later."),
    h("p", {}, fields.budget.words()), schemaWords(body));
  if (!(await confirm(`Make “${body.name}”?`, review, "Make the dataset"))) return;
  try {
    const made = await api.post("/v1/datasets", body);
    location.hash = `#/datasets/${made.id}`;
  } catch (problem) {
    if (!shownBeside(problem, fields)) throw problem;
  }
}

// The service names fields of what it was sent; most of them are one field here.
function shownBeside(problem, { budget, states, name, horizon, actions, reward, total, stays }) {
  if (["invalid_rho", "invalid_privacy"].includes(problem.code)) return !forms.sound([[budget.first(), problem.message]]);
  return forms.refused(problem, {
    name, horizon, actions, states: states.first(), budget: budget.first(), population: budget.first(),
    reward: reward.inputs[0], return: total.inputs[0], max_trajectories_per_unit: stays,
  });
}
