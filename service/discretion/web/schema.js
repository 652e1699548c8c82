// A dataset's public schema in words.

import { h } from "/assets/dom.js";
import { facts, table } from "/assets/parts.js";
import * as words from "/assets/words.js";

export function many(count, one, more = `${one}s`) {
  return `${words.whole(count)} ${count === 1 ? one : more}`;
}

export function schemaWords(schema) {
  const { states, actions, reward, max_trajectories_per_unit: stays } = schema;
  const discrete = states.kind === "discrete";
  const total = schema.return;
  return [
    facts(
      ["A patient has", `at most ${many(stays, "stay")} (${stays === 1 ? "trajectory" : "trajectories"})`],
      ["A stay has", `at most ${many(schema.horizon, "step")}`],
      ["A state is", discrete ? (states.count === 1 ? "always 0" : `a number from 0 to ${words.whole(states.count - 1)}`) : many(states.columns.length, "measurement")],
      ["Actions", many(actions.count, "action")],
      [reward.outcome ? "Each stay has one outcome" : "One reward is", `from ${reward.low} to ${reward.high}`],
      ["All rewards of a stay", total ? `from ${total.low} to ${total.high} together` : "nothing was declared"]),
    discrete ? null : shut(`The ${many(states.columns.length, "measurement")}`, columns(states)),
    actions.labels ? shut(`What the ${many(actions.count, "action")} mean`, labels(actions)) : null,
  ];
}

// Long lists are shut until somebody asks.
function shut(summary, content) {
  return h("details", {}, h("summary", {}, summary), content);
}

function columns(states) {
  const missing = new Set(states.missing || []);
  const rows = states.columns.map((name, index) => ({ name, bounds: states.bounds[index] }));
  return table([
    ["Column", (row) => row.name],
    ["From", (row) => String(row.bounds[0]), "number"],
    ["To", (row) => String(row.bounds[1]), "number"],
    ["May be missing", (row) => (missing.has(row.name) ? "yes" : "no")],
  ], rows, "Measurements of a state, and their public bounds");
}

function labels(actions) {
  return table([["Number", (row) => String(row.number), "number"], ["Action", (row) => row.label]],
    actions.labels.map((label, number) => ({ label, number })), "Actions by number");
}
