// What a state is: a number, or measurements with bounds.

import { h, say } from "/assets/dom.js";
import * as forms from "/assets/forms.js";
import { field } from "/assets/parts.js";

const TAKEN = ["unit", "step", "action", "reward", "trajectory", "terminated", "outcome"];
const MOST_COLUMNS = 1000;

export function stateFields() {
  let kind = "discrete";
  const count = forms.numeric();
  const columns = columnFields();
  const discrete = field("Number of states", count, "States are written as whole numbers from 0 in the data: 716 states are 0 to 715.");
  const arrange = () => {
    discrete.hidden = kind !== "discrete";
    columns.body.hidden = kind !== "vector";
  };
  arrange();
  const choice = forms.radios("Kind of states", [
    ["discrete", "One of a number of states (for example clusters, or a score)"],
    ["vector", "Measurements, one column each (for example age and lactate)"]], kind, (value) => {
    kind = value;
    arrange();
  });
  const by = (one, other) => () => (kind === "discrete" ? one() : other());
  return {
    body: h("div", {}, choice, discrete, columns.body),
    first: by(() => count, columns.first),
    checks: by(() => [[count, forms.wholeFrom(1, 10000000)(count.value.trim())]], columns.checks),
    value: by(() => ({ kind: "discrete", count: Number(count.value) }), columns.value),
  };
}

function columnFields() {
  const rows = [];
  const list = h("div");
  const add = (given = {}) => {
    const row = columnFieldsOf(given, rows.length + 1, () => {
      rows.splice(rows.indexOf(row), 1);
      row.body.remove();
      (rows[0] ? rows[0].name : more).focus();
    });
    rows.push(row);
    list.append(row.body);
    return row;
  };
  const more = h("button", { type: "button", onclick: () => add().name.focus() }, "Add a column");
  add();
  const body = h("div", {},
    h("p", { class: "hint" }, "For each measurement, the column's name in the data and its public bounds. Values outside them are refused when the data is uploaded. ",
      "At least one column must always have a value."),
    list, h("div", { class: "row" }, more), pasted(rows, add));
  return {
    body,
    first: () => (rows[0] ? rows[0].name : more),
    checks: () => (rows.length ? rows.flatMap((row) => rowChecks(row, rows)) : [[more, "Add at least one column."]]),
    value: () => valued(rows),
  };
}

function columnFieldsOf(given, number, remove) {
  const label = (what) => ({ "aria-label": `Column ${number}: ${what}`, placeholder: what });
  const name = forms.input({ value: given.name || "", ...label("name") });
  const low = forms.numeric({ value: given.low || "", ...label("least") });
  const high = forms.numeric({ value: given.high || "", ...label("most") });
  const missing = h("input", { type: "checkbox", checked: Boolean(given.missing) });
  const body = h("div", { class: "field measured" }, name, low, high,
    h("label", { class: "choice" }, missing, h("span", {}, "may be missing")),
    h("button", { type: "button", "aria-label": `Remove column ${number}`, onclick: remove }, "Remove"));
  return { body, name, low, high, missing };
}

function rowChecks(row, rows) {
  const name = row.name.value.trim();
  const all = rows.every((one) => one.missing.checked);
  const fault = nameFault(name, rows) || (all && row === rows[0] ? "At least one column must always have a value." : null);
  if (fault) return [[row.name, fault], [row.low, null]];
  return [[row.name, null], [row.low, forms.interval(row.low.value.trim(), row.high.value.trim())]];
}

function nameFault(name, rows) {
  if (name === "") return "Give the column its name in the data.";
  if (TAKEN.includes(name) || name === "1") return `No measurement can be called “${name}”: the upload uses that name itself.`;
  const names = rows.map((one) => one.name.value.trim());
  if (names.filter((one) => one === name).length > 1) return `“${name}” stands there twice.`;
  return name.startsWith("next_") && names.includes(name.slice(5)) ? `“${name}” is how an upload names the next ${name.slice(5)}.` : null;
}

function valued(rows) {
  const missing = rows.filter((row) => row.missing.checked).map((row) => row.name.value.trim());
  return {
    kind: "vector",
    columns: rows.map((row) => row.name.value.trim()),
    bounds: rows.map((row) => [Number(row.low.value), Number(row.high.value)]),
    ...(missing.length ? { missing } : {}),
  };
}

// For whoever has fifty columns in a spreadsheet.
function pasted(rows, add) {
  const text = h("textarea", { rows: 4, spellcheck: "false", placeholder: "age, 0, 120\nlactate, 0, 30, missing" });
  const take = h("button", { type: "button" }, "Take these columns");
  take.addEventListener("click", () => {
    const found = text.value.split("\n").filter((line) => line.trim() !== "").slice(0, MOST_COLUMNS);
    for (const row of rows.filter((one) => one.name.value.trim() === "")) {
      rows.splice(rows.indexOf(row), 1);
      row.body.remove();
    }
    for (const line of found) add(read(line));
    text.value = "";
    say(`${found.length} columns were taken; look through them.`);
  });
  return h("details", {}, h("summary", {}, "Paste many columns"),
    field("One column per line: name, least, most and, where it may be missing, the word missing", text, "Commas, semicolons or tabs between them."), take);
}

function read(line) {
  const [name = "", low = "", high = "", missing = ""] = line.split(/[,;\t]/).map((part) => part.trim());
  return { name, low, high, missing: missing.toLowerCase() === "missing" };
}
