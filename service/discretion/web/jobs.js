// What a training and an evaluation have in common: states in words, what it cost, and how it is cancelled.

import * as api from "/assets/api.js";
import { h, replace, say } from "/assets/dom.js";
import { badge, button, confirm, link } from "/assets/parts.js";
import * as words from "/assets/words.js";

export function ended(job) {
  return ["released", "failed", "cancelled"].includes(job.state);
}

const TOLD = {
  queued: (job) => `It waits for its turn. ρ = ${job.rho} is reserved; nothing is charged until it starts.`,
  running: (job) => `It runs. ρ = ${job.rho} is charged. The result appears on a public schedule, so that the time it took says nothing about a patient.`,
  released: (job) => `It is done, and ρ = ${job.rho} was charged.`,
  failed: (job) => `It failed, and ρ = ${job.rho} was charged all the same.`,
  cancelled: (job) => (job.charged
    ? `It was cancelled after it had started: ρ = ${job.rho} stays charged, and there is no result.`
    : `It was cancelled before it had started: the reservation of ρ = ${job.rho} went back to the budget, and nothing was charged.`),
};

// A line that is told again only when it says something new.
export function stateLine() {
  const line = h("p", { role: "status" });
  let before = null;
  const show = (job) => {
    if (job.state === before) return;
    before = job.state;
    replace(line, badge(job.state), " ", TOLD[job.state](job));
  };
  return { line, show };
}

const FAILURES = {
  training_failed: "There is one code for everything that goes wrong after the charge, on purpose: a reason could say something about a patient. Noise may have been drawn already, so the charge stays. Even the service's log says no more than that, or which store, setting, memory or cluster was not to be had.",
};

const BEFORE_PAYING_AGAIN = {
  tr: "Before you pay again, rehearse the same request, and ask the operator whether disk and memory suffice.",
  ev: "Before you pay again, ask the operator whether disk and memory suffice.",
};

export function failure(job) {
  if (job.state !== "failed") return null;
  return h("div", { class: "sorry" }, h("p", {}, "Code ", h("code", {}, job.code || "unknown"), "."),
    h("p", {}, FAILURES[job.code] || "Ask the operator what this code means."),
    h("p", {}, BEFORE_PAYING_AGAIN[job.id.slice(0, 2)]));
}

// The last word before a cancellation is what comes back, by the state that the service has now and not by the page's.
// `begun` is told before the service is, so that a page that hears of it by another way knows whose doing it is.
export function canceller(path, kind, changed, begun = () => {}) {
  return button(`Cancel this ${kind}`, async () => {
    const now = await api.get(path);
    if (ended(now)) {
      say(`It is ${words.STATES[now.state]} already.`);
      return changed(now);
    }
    const waits = now.state === "queued";
    const comesBack = waits
      ? `It has not started: the reservation of ρ = ${now.rho} comes back. If it starts before the service hears of this, nothing does.`
      : `It has started: ρ = ${now.rho} is charged, and nothing comes back. There will be no result.`;
    if (!(await confirm(`Cancel this ${kind}?`, h("p", {}, comesBack), "Cancel it"))) return null;
    begun();
    try {
      return changed(await api.remove(path));
    } catch (problem) {
      if (problem.status !== 409) throw problem;
      say("It had ended already.");
      return changed(await api.get(path));
    }
  }, { class: "danger" });
}

export function newestFirst(found) {
  return [...found].sort((one, other) => (one.created_at < other.created_at ? 1 : -1));
}

// Ids are long, and the first signs tell those of one list apart; the whole one is in the address it leads to.
export function shortId(id) {
  return h("code", { class: "short", title: id }, id.length > 12 ? `${id.slice(0, 10)}…` : id);
}

// What datasets are called, for who may know; one that is no longer theirs keeps its id.
export async function datasetNames(session) {
  if (session.role === "auditor") return (id) => h("code", {}, id);
  const found = new Map((await api.all("/v1/datasets?limit=1000")).map((one) => [one.id, one.name]));
  return (id) => (found.has(id) ? link(`datasets/${id}`, found.get(id)) : shortId(id));
}

// One dataset: its id, and its name in place of that once it is known. Whoever lost their grant sees the id.
export function datasetLink(session, id) {
  if (session.role === "auditor") return h("code", {}, id);
  const place = h("span", {}, link(`datasets/${id}`, id));
  api.get(`/v1/datasets/${id}`).then((found) => replace(place, link(`datasets/${id}`, found.name))).catch(() => {});
  return place;
}

const MOST_SHOWN = 20000;

// Written when it is opened, and not to the end: a request may hold a table of megabytes.
export function pretty(title, document) {
  const text = h("pre", { tabindex: "0" });
  const made = h("details", {}, h("summary", {}, title), text);
  made.addEventListener("toggle", () => {
    const whole = JSON.stringify(document, null, 2);
    const rest = whole.length - MOST_SHOWN;
    text.textContent = rest > 0 ? `${whole.slice(0, MOST_SHOWN)}\n… and ${words.whole(rest)} characters more` : whole;
  });
  return made;
}
