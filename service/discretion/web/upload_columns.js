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
  return end < 0 ? null : rewrite.headerOf(start.slice(0, end).replace(/\r$/, ""));
}

// Asks, and hands over the file as the service wants it, with the file's own name of each column.
export function columnsForm(dataset, file, header, send) {
  const asked = [...chosenBy(dataset, header), ...optionalBy(header)];
  const earned = earnedBy(dataset, header);
  const go = h("button", { type: "submit", class: "primary" }, `Send ${file.name} with these columns`);
  const form = h("form", { class: "own", novalidate: true },
    h("p", {}, "Or keep its own names, and say which column is which: the file is written anew in this browser, and other columns stay here. Actions may be written as they are called."),
    h("div", { class: "columns" }, asked.map((one) => one.element)), earned.element, h("div", {}, go));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    busy(go, async () => {
      if (!forms.sound([...asked.map((one) => [one.select, one.reason()]), ...earned.reasons()])) return;
      const columns = [...asked.map((one) => one.column(dataset)), earned.column()].filter(Boolean);
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
