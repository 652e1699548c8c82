// What a policy is worth: looked at again and again while it is being found out, then as a report.

import * as api from "/assets/api.js";
import { download, h, replace, say, svg } from "/assets/dom.js";
import { names } from "/assets/evidence.js";
import { canceller, datasetLink, ended, failure, pretty, stateLine } from "/assets/jobs.js";
import { button, card, copied, facts, link, page, progress } from "/assets/parts.js";
import { shareBar } from "/assets/spending.js";
import * as words from "/assets/words.js";

const LOOK_AGAIN = 1500;

export async function show(session, id) {
  const path = `/v1/evaluations/${encodeURIComponent(id)}`;
  if (session.role === "auditor") {
    const report = await api.get(`${path}/report`);
    return page(`Evaluation ${id}`, drawReport(report, path), card("About it", aboutReport(report)));
  }
  const first = await api.get(path);
  const view = viewOf(session, path, first);
  view.show(first);
  return { ...page(`Evaluation ${id}`, view.body), leave: ended(first) ? null : followed(path, view) };
}

function viewOf(session, path, first) {
  const state = stateLine();
  const bar = progress(first.progress, "Public stages done");
  const [connection, actions, result, more] = [h("p", { class: "quiet", role: "status" }), h("div", { class: "row" }), h("div"), h("div")];
  let [now, mine] = [first, false];
  const show = (job) => {
    if (job.state === "cancelled" && now.state !== "cancelled") say(mine ? "Cancelled." : "This evaluation was cancelled elsewhere.");
    now = job;
    state.show(job);
    bar.value = job.progress;
    bar.hidden = ended(job);
    replace(more, failure(job));
    if (job.report) replace(result, drawReport(job.report, path));
    if (ended(job)) replace(actions);
  };
  if (session.role === "analyst" && !ended(first)) replace(actions, canceller(path, "evaluation", show, () => { mine = true; }));
  const body = [result, card("How it went", state.line, bar, connection, more, actions), card("What was asked", asked(session, first))];
  return { body, show, lost: (text) => replace(connection, text) };
}

function asked(session, job) {
  return [
    facts(
      ["Cost", `ρ = ${job.rho}`], ["Policy", link(`policies/${job.policy}`, job.policy)],
      ["Patients", job.half ? `the ${job.half} half of the dataset` : "everyone in the dataset"],
      ["Dataset", datasetLink(session, job.dataset)], ["Asked", words.when(job.created_at)], ["Id", copied(job.id)]),
    pretty("Parameters, every default written out", { privacy: job.privacy, parameters: job.parameters }),
  ];
}

function aboutReport(report) {
  return facts(["Policy", link(`policies/${report.policy.id}`, report.policy.id)], ["Its SHA-256", copied(report.policy.sha256)], ["Judged by", report.algorithm]);
}

// An evaluation has no stream of events. One that does not answer is asked again.
function followed(path, view) {
  let [waiting, left] = [null, false];
  const look = async () => {
    try {
      const job = await api.get(path);
      if (left) return;
      view.lost(null);
      view.show(job);
      if (ended(job)) return;
    } catch (problem) {
      if (left || problem.status === 401) return;
      view.lost("Connection lost, trying again … The evaluation goes on by itself, and is not charged again.");
    }
    waiting = setTimeout(look, LOOK_AGAIN);
  };
  waiting = setTimeout(look, LOOK_AGAIN);
  return () => {
    left = true;
    clearTimeout(waiting);
  };
}

// --- the report ---

function drawReport(report, path) {
  const { found } = report;
  const id = report.id;
  const file = names({ kind: "evaluations", id });
  return card("What the policy is worth",
    h("p", { class: verdictKind(found) }, h("strong", {}, verdict(found)), ` ${inNumbers(found)}`),
    chart(found),
    shareBar(found.supported_share, "decisions of the policy that enough patients had received"),
    h("p", { class: "hint" }, supported(found)),
    h("p", { class: report.patients === "same" ? "note" : "hint" }, report.caution),
    h("p", { class: "hint" }, "The interval holds noise and chance; a wrong assumption is not in it. It takes for granted that the recorded states tell what matters for a decision."),
    h("div", { class: "row" },
      h("a", { class: "button", href: `#/evaluations/${id}/certificate` }, "See the certificate"),
      button("Download the report", async () => download(file.made, await api.text(`${path}/report`))),
      button("Download the certificate", async () => download(file.certificate, await api.text(`${path}/certificate`)))));
}

function verdict({ low, high, behaviour }) {
  if (low > behaviour.high) return "Better than what patients received.";
  if (high < behaviour.low) return "Worse than what patients received.";
  return "It cannot be told apart from what patients received.";
}

const verdictKind = (found) => (found.low > found.behaviour.high ? "fine" : "note");

function inNumbers({ value, low, high, level, behaviour }) {
  return `A stay under the policy is worth about ${words.figure(value)}, between ${words.figure(low)} and ${words.figure(high)}; the stays in the data were worth ${words.figure(behaviour.value)}, between ${words.figure(behaviour.low)} and ${words.figure(behaviour.high)}. Such intervals are meant to hold the truth ${words.percent(level)} of the time.`;
}

function supported({ supported_share: share }) {
  if (share >= 0.95) return "Nearly everything that it would do, enough patients had received: little rests on guessing.";
  if (share >= 0.7) return "Some of what it would do, too few patients had received. The interval is wider for it.";
  return "Much of what it would do, too few patients had received. Its value there is mostly allowance, not observation.";
}

const [WIDE, ROW] = [560, 54];

// Both on one scale; the numbers are in the sentence above, so the drawing needs no axis of its own but its ends.
function chart(found) {
  const rows = [["the policy", found], ["what patients received", found.behaviour]];
  const ends = rows.flatMap(([, one]) => [one.low, one.high]);
  const [low, high] = [Math.min(...ends), Math.max(...ends)];
  const x = (value) => 12 + ((WIDE - 24) * (value - low)) / (high - low || 1);
  const drawn = rows.map(([name, one], index) => {
    const y = ROW * index + 36;
    return [
      svg("text", { x: 0, y: y - 15 }, `${name}: ${words.figure(one.value)}`),
      svg("path", { d: `M${x(one.low)} ${y}H${x(one.high)}M${x(one.low)} ${y - 6}v12M${x(one.high)} ${y - 6}v12`, class: "interval" }),
      svg("circle", { cx: x(one.value), cy: y, r: 6, class: index ? "behaviour" : "worth" }),
    ];
  });
  const label = rows.map(([name, one]) => `${name} ${words.figure(one.value)}, from ${words.figure(one.low)} to ${words.figure(one.high)}`).join("; ");
  return h("figure", { class: "worth" },
    svg("svg", { role: "img", "aria-label": label, viewBox: `0 0 ${WIDE} ${2 * ROW + 4}` }, drawn),
    h("figcaption", { class: "quiet apart" }, h("span", {}, words.figure(low)), h("span", {}, "worth of a stay"), h("span", {}, words.figure(high))));
}
