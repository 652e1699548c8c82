// Which column of a file is which column of an upload, for files that keep their own names.

import { h } from "/assets/dom.js";
import * as forms from "/assets/forms.js";
import { busy, field } from "/assets/parts.js";
import { Problem } from "/assets/api.js";
import { columnsOf } from "/assets/upload_check.js";
import * as rewrite from "/assets/upload_rewrite.js";

const FIRST = 2 ** 16; // bytes in which a header ends
const MEANS = {
  unit: "Who the patient is", step: "Which step of the stay it is", state: "The state", action: "The action",
  trajectory: "Which stay of the patient it is", terminated: "Whether the stay ended there",
};
const EARNED = { reward: "what a step earned", outcome: "what the stay earned", ended: "how the stay ended" };

// The header of a file, if it is one that could be read with other names.
export async function ownHeader(file) {
  const start = (await file.slice(0, FIRST).text()).replace(/^\ufeff/, "");
  const end = start.indexOf("\n");
  return end < 0 || start.includes("\0") ? null : rewrite.headerOf(start.slice(0, end).replace(/\r$/, ""));
}

// Asks, and hands over the file as the service wants it, with the file's own name of each column.
export function columnsForm(dataset, file, header, send) {
  const asked = [...chosenBy(dataset, header), ...optionalBy(header)];
  const [second, earned] = [secondBy(dataset, header), earnedBy(dataset, header)];
  const go = h("button", { type: "submit", class: "primary" }, `Send ${file.name} with these columns`);
  const form = h("form", { class: "own", novalidate: true },
    h("div", { class: "note" },
      h("p", {}, h("strong", {}, file.name), " has columns of its own. Nothing was sent yet: say which is which."),
      h("p", {}, "It is written anew in this browser, and other columns stay here. Actions may be written as they are called. ",
        "Or call the columns as an upload does: ", h("code", {}, columnsOf(dataset).required.join(", ")), ".")),
    h("div", { class: "columns" }, asked.map((one) => one.element)), second.element, earned.element, h("div", {}, go));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    busy(go, async () => {
      if (!forms.sound([...asked.map((one) => [one.select, one.reason()]), ...second.reasons(), ...earned.reasons()])) return;
      const columns = [...asked.map((one) => second.joined(one.column(dataset))), earned.column()].filter(Boolean);
      const made = await rewrite.rewritten(file, header, columns).catch(misread);
      await send(made, Object.fromEntries(columns.map((one) => [one.name, header.names[one.at]])));
    });
  });
  return form;
}

function misread(failure) {
  throw failure instanceof rewrite.Misread ? new Problem(-1, "misread", `${failure.message} Nothing was sent.`) : new Problem(-1, "unreadable", "The file cannot be read as text. Export it as CSV in UTF-8.");
}

function choice(names, chosen, none) {
  return h("select", {}, h("option", { value: "" }, none), names.map((name, at) => h("option", { value: String(at), selected: name === chosen }, name)));
}

function asking(name, names, needed) {
  const select = choice(names, name, needed ? "Choose …" : "it has none");
  const same = () => rewrite.asItIs;
  const read = { unit: same, trajectory: same, step: () => rewrite.steps(), action: (dataset) => rewrite.actions(dataset.actions) };
  return {
    select,
    element: field(MEANS[name] || name, select),
    reason: () => (needed && select.value === "" ? "Choose the column." : null),
    column: (dataset) => (select.value === "" ? null : { name, at: Number(select.value), read: (read[name] || (() => rewrite.plainly))(dataset) }),
  };
}

const chosenBy = (dataset, { names }) => columnsOf(dataset).required.filter((name) => name !== "reward" && name !== "outcome").map((name) => asking(name, names, true));
const optionalBy = ({ names }) => ["trajectory", "terminated"].map((name) => asking(name, names, false));

// Two doses that are one action together: how many levels the second has says what the first counts for.
function secondBy({ actions }, { names }) {
  const select = choice(names, null, "it is one column");
  const levels = forms.input({ inputmode: "numeric" });
  const asking = field("Levels of the second dose", levels, `Both count from 0. The levels of the two, multiplied, are the ${actions.count} actions of this dataset.`);
  const arrange = () => { asking.hidden = select.value === ""; };
  select.addEventListener("change", arrange);
  arrange();
  const wrong = () => (/^[0-9]{1,6}$/.test(levels.value.trim()) && Number(levels.value) > 1 && actions.count % Number(levels.value) === 0
    ? null : `Write a whole number from 2 that divides the ${actions.count} actions.`);
  return {
    element: h("div", { class: "columns" }, field("A second dose of the action", select), asking),
    reasons: () => (select.value === "" ? [] : [[levels, wrong()]]),
    joined: (column) => (column && column.name === "action" && select.value !== ""
      ? { name: "action", at: column.at, with: Number(select.value), read: rewrite.doses(actions.count / Number(levels.value), Number(levels.value)) } : column),
  };
}

// Rewards, or what came of a stay; a word for a good end is asked for only where there is one.
function earnedBy(dataset, { names }) {
  const kinds = Object.entries(EARNED).filter(([kind]) => !dataset.reward.outcome || kind !== "reward");
  const kind = h("select", {}, kinds.map(([value, label]) => h("option", { value }, label)));
  const select = choice(names, dataset.reward.outcome ? "outcome" : "reward", "Choose …");
  const good = forms.input();
  const ending = field("What stands there after a good end", good, "For example 0 where 1 says that somebody died.");
  const arrange = () => { ending.hidden = kind.value !== "ended"; };
  kind.addEventListener("change", arrange);
  arrange();
  const element = h("div", { class: "columns" }, field("What a stay earns", select), field("The column says", kind), ending);
  return {
    element,
    reasons: () => [[select, select.value === "" ? "Choose the column." : null], [good, kind.value === "ended" && good.value.trim() === "" ? "Write the value." : null]],
    column: () => ({
      name: kind.value === "reward" ? "reward" : "outcome", at: Number(select.value),
      read: kind.value === "ended" ? rewrite.outcomes(good.value.trim(), dataset) : rewrite.plainly,
    }),
  };
}
