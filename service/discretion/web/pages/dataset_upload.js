// Sending the data, once: all of it or nothing is kept.

import * as api from "/assets/api.js";
import { download, h, replace, say } from "/assets/dom.js";
import { card, progress, sorry, table } from "/assets/parts.js";
import { many } from "/assets/schema.js";
import { columnsOf, example, lookAt, typeOf } from "/assets/upload_check.js";
import { columnsForm, ownHeader } from "/assets/upload_columns.js";
import * as words from "/assets/words.js";

const LOOK = 2000; // milliseconds between looks at a service that has gone away
const LOOKS = 30;

// What is being sent goes on while other pages are shown: dataset → where it is told how far it is.
const underway = new Map();

addEventListener("beforeunload", (event) => {
  if ([...underway.values()].some((one) => one.sending)) event.preventDefault();
});

export function uploadCard(here, changed) {
  const { dataset } = here;
  const told = underway.get(dataset.id) || { place: h("div", { "aria-live": "polite" }), sending: false };
  underway.set(dataset.id, told);
  told.changed = changed; // of the page that is shown now
  if (dataset.state === "retired") return h("p", { class: "note" }, "This dataset was retired: its data is deleted. What stays is below.");
  if (dataset.state === "ready") return told.place.hasChildNodes() ? card("Upload", told.place) : null;
  const zone = drop((file) => send(dataset, file, told));
  told.zone = zone;
  zone.hidden = told.sending;
  return card("Upload the data", format(dataset), zone, told.place);
}

function drop(chosen) {
  const input = h("input", { type: "file", class: "unseen", accept: ".csv,.ndjson,.jsonl,.parquet", "aria-label": "File with the trajectories" });
  input.addEventListener("change", () => {
    if (input.files.length) chosen(input.files[0]);
    input.value = "";
  });
  const zone = h("div", { class: "drop" },
    h("p", {}, "Drop a file here: CSV, NDJSON or Parquet."),
    h("button", { type: "button", class: "primary", onclick: () => input.click() }, "Choose a file"), input);
  zone.addEventListener("dragover", (event) => {
    event.preventDefault();
    zone.classList.add("over");
  });
  zone.addEventListener("dragleave", () => zone.classList.remove("over"));
  zone.addEventListener("drop", (event) => {
    event.preventDefault();
    zone.classList.remove("over");
    if (event.dataTransfer.files.length === 1) chosen(event.dataTransfer.files[0]);
    else say("Drop one file: a dataset takes one upload, whole.");
  });
  return zone;
}

function format(dataset) {
  const { required, optional } = columnsOf(dataset);
  return h("details", {}, h("summary", {}, "What the file must look like"),
    h("p", {}, "One row for each step of a stay, with these columns: ", h("code", {}, required.join(", ")), "."),
    h("p", {}, "Optional: ", h("code", {}, optional.join(", ")), ". A column ", h("code", {}, "outcome"), " may stand in place of ", h("code", {}, "reward"),
      " where only the end of a stay counts."),
    h("p", {}, "Steps count from 1. Rows of one stay stand together in order, and so do the stays of one patient. ",
      "The names of patients (", h("code", {}, "unit"), ") are used to tell them apart and are not kept."),
    h("p", {}, h("button", { type: "button", onclick: () => download("example.csv", example(dataset), "text/csv") }, "Download an example")));
}

// --- one upload ----------------------------------------------------------------------------------------------------

async function send(dataset, file, told, own = {}) {
  if (told.sending) return;
  say(""); // what was said of the file before
  const type = typeOf(file);
  const found = type ? await lookAt(file, type, dataset) : [{ row: 0, column: "", reason: unread(file) }];
  if (found.length) return replace(told.place, await otherwise(dataset, file, type, told) || refusal(file, found, "Nothing was sent."));
  told.sending = true;
  told.zone.hidden = true;
  try {
    const stop = new AbortController();
    const accepted = await api.upload(`/v1/datasets/${dataset.id}/trajectories`, file, type, sending(file, told, stop), stop.signal);
    finish(told, success(file, accepted), `${file.name} was accepted.`);
  } catch (problem) {
    if (problem.status === 401) return finish(told, null, "");
    if (problem.code === "stopped") return finish(told, h("p", { class: "note" }, problem.message), `${file.name} was not sent.`);
    await failed(dataset, file, told, problem, own);
  }
}

function unread(file) {
  const sheet = /\.(xlsx?|ods|numbers)$/i.test(file.name) ? "This is a spreadsheet: export it as CSV, in UTF-8. " : "";
  return `${sheet}The name must end in .csv, .ndjson or .parquet, so that the service knows how to read it.`;
}

// A file that only has other names than the service is sent all the same, once somebody has said which is which.
async function otherwise(dataset, file, type, told) {
  const header = type === "text/csv" ? await ownHeader(file) : null;
  return header ? columnsForm(dataset, file, header, (made, own) => send(dataset, made, told, own)) : null;
}

function finish(told, content, text) {
  told.sending = false;
  told.zone.hidden = false;
  replace(told.place, content);
  if (text) say(text);
  told.changed().catch(() => {}); // the page shows how the dataset is now, or says itself that it cannot
}

function sending(file, told, stop) {
  const bar = progress(0, `Sending ${file.name}`);
  const text = h("p");
  const button = h("button", { type: "button", onclick: () => stop.abort() }, "Stop sending");
  replace(told.place, h("p", {}, h("strong", {}, file.name), `, ${words.bytes(file.size)}`), bar, text, h("p", {}, button));
  text.textContent = "Sending. You may look at other pages here; do not close this tab.";
  return (sent, total) => {
    bar.value = total ? sent / total : 0;
    if (sent < total) return;
    button.remove(); // what has arrived whole may be kept
    bar.removeAttribute("value"); // how long it takes is not known
    text.textContent = "Everything is sent. The service is checking every row; that takes a while for large files.";
  };
}

function success(file, accepted) {
  return h("div", { class: "fine" },
    h("p", {}, h("strong", {}, file.name), " was accepted whole: ",
      `${many(accepted.units, "patient")}, ${many(accepted.trajectories, "stay")}, ${many(accepted.transitions, "step")}.`),
    h("p", {}, "Analysts see the number of patients; the other two numbers are for your eyes only, and the service does not show them again."));
}

async function failed(dataset, file, told, problem, own) {
  if (problem.body.problems) return finish(told, refusal(file, problem.body.problems, "Nothing was kept.", own), `${file.name} was refused.`);
  const unknown = problem.status === 0 || problem.status >= 500;
  const content = unknown ? await afterwards(dataset, file, told, problem) : [h("p", {}, h("strong", {}, file.name), " was not taken."), sorry(problem)];
  finish(told, content, `${file.name}: look at what happened.`);
}

// The connection broke: whether the service had everything by then, only the service knows.
async function afterwards(dataset, file, told, problem) {
  replace(told.place, sorry(problem), h("p", {}, "Asking the service what has become of it …"));
  for (let look = 0; look < LOOKS; look += 1) {
    try {
      const { state } = await api.get(`/v1/datasets/${dataset.id}`);
      if (state === "ready") return h("p", { class: "fine" }, `The connection broke, but the service had all of ${file.name} by then: it was accepted.`);
      return h("div", { class: "sorry", role: "alert" }, h("p", {}, `The service stopped while ${file.name} was on its way. The dataset is still empty: nothing was kept.`),
        h("p", {}, "Send the file again. "), again(dataset, file, told));
    } catch (other) {
      if (other.status === 401 || other.status === 404) return sorry(other);
    }
    await new Promise((resolve) => setTimeout(resolve, LOOK));
  }
  return [sorry(problem), h("p", {}, "The service still does not answer. When it does, load this page: if the dataset has no data yet, send the file again.")];
}

function again(dataset, file, told) {
  return h("button", { type: "button", onclick: () => send(dataset, file, told) }, `Send ${file.name} again`);
}

// `own`: the file's names of the columns, where they are others than the upload's.
function refusal(file, problems, consequence, own = {}) {
  const named = (name) => (own[name] && own[name] !== name ? [h("code", {}, own[name]), ` for ${name}`] : h("code", {}, name));
  const first = problems.length >= 20 ? "The first 20 problems" : many(problems.length, "problem");
  return h("div", { class: "sorry", role: "alert" },
    h("p", {}, h("strong", {}, file.name), ` was refused. ${consequence} Mend it and send the whole file again.`),
    table([
      ["Row", (one) => one.rows.map((row) => (row === 0 ? "header or file" : words.whole(row))).join(", ")],
      ["Column", (one) => (one.column ? named(one.column) : "–")],
      ["Reason", (one) => one.reason],
    ], alike(problems), `${first}; rows are counted from 1, after the header`));
}

// A mistake is mostly the same one in every row: it is said once.
function alike(problems) {
  const found = new Map();
  for (const { row, column, reason } of problems) {
    const key = JSON.stringify([column, reason]);
    if (!found.has(key)) found.set(key, { rows: [], column, reason });
    found.get(key).rows.push(row);
  }
  return [...found.values()];
}
