// "What would it do for …": answered by the service, which decides exactly as it certifies.

import * as api from "/assets/api.js";
import { h, replace } from "/assets/dom.js";
import { busy, button, card, field, table } from "/assets/parts.js";
import * as words from "/assets/words.js";

const VALUES = 10; // of a column that is varied, between its bounds

export function questions(policy, path) {
  const states = policy.kind || policy.states;
  const step = h("input", { type: "number", min: "1", max: String(policy.horizon), step: "1", value: "1", required: true });
  const state = states.kind === "discrete" ? numbered(states) : measured(states);
  const answer = h("div", { "aria-live": "polite" });
  const ask = h("button", { type: "submit", class: "primary" }, "Ask");
  const form = h("form", {}, h("div", { class: "columns" }, field(`Step, 1 to ${policy.horizon}`, step), state.fields), ask, answer);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    busy(ask, async () => {
      replace(answer);
      replace(answer, told(policy, await decide(path, step, state.read())));
    });
  });
  const varied = states.kind === "discrete" ? null : variation(policy, states, path, step, state);
  const element = card("What would it do for …", form, varied);
  return { element, choose: (chosenStep, chosenState) => { step.value = chosenStep; state.write(chosenState); replace(answer); } };
}

function decide(path, step, state) {
  return api.post(`${path}/decisions`, { step: Number(step.value), state });
}

function told(policy, found) {
  return h("p", { class: found.source === "learned" ? "fine" : "note" },
    h("strong", {}, words.actionName(policy.actions, found.action)), found.label === null ? ", " : ` (action ${found.action}), `,
    found.source === "learned" ? "learned from patients" : "a fallback: too little was known here", `. Pessimistic score ${words.figure(found.pessimistic_score)}.`);
}

// --- states ---

function numbered(states) {
  const input = h("input", { type: "number", min: "0", max: String(states.count - 1), step: "1", value: "0", required: true });
  return {
    fields: field(`State, 0 to ${states.count - 1}`, input),
    read: () => Number(input.value),
    write: (number) => { input.value = number; },
  };
}

const middle = ([low, high]) => Number(((low + high) / 2).toPrecision(6));

function measured(states) {
  const missing = new Set(states.missing || []);
  const inputs = states.columns.map((column, index) => {
    const [low, high] = states.bounds[index];
    return h("input", { type: "number", step: "any", value: String(middle(states.bounds[index])), required: !missing.has(column), placeholder: missing.has(column) ? "not measured" : `${low} to ${high}` });
  });
  const hint = (column, index) => `${states.bounds[index][0]} to ${states.bounds[index][1]}; beyond, the bound counts${missing.has(column) ? ". Empty: not measured" : ""}`;
  return {
    fields: states.columns.map((column, index) => field(column, inputs[index], hint(column, index))),
    read: () => Object.fromEntries(states.columns.map((column, index) => [column, inputs[index].value === "" ? null : Number(inputs[index].value)])),
    write: () => {},
  };
}

// --- one column varied ---

function variation(policy, states, path, step, state) {
  const column = h("select", {}, states.columns.map((name) => h("option", { value: name }, name)));
  const shown = h("div", { "aria-live": "polite" });
  const ask = button("Show how the decision changes with it", async () => {
    const name = column.value;
    const rows = [];
    for (const value of values(states, name)) rows.push({ value, ...(await decide(path, step, { ...state.read(), [name]: value })) });
    replace(shown, table([
      [name, (row) => (row.value === null ? "not measured" : row.value), "number"],
      ["Decision", (row) => words.actionName(policy.actions, row.action)],
      ["From", (row) => row.source],
      ["Pessimistic score", (row) => words.figure(row.pessimistic_score), "number"],
    ], rows, `Step ${step.value}, the other columns as above`));
  });
  return h("div", {}, h("h3", {}, "Vary one column"), field("Column", column), ask, shown);
}

function values(states, name) {
  const [low, high] = states.bounds[states.columns.indexOf(name)];
  const found = Array.from({ length: VALUES + 1 }, (_, index) => Number((low + ((high - low) * index) / VALUES).toPrecision(6)));
  return (states.missing || []).includes(name) ? [...found, null] : found;
}
