// What a question to patients' data costs, before it is paid: how much, with which noise, and the last confirmation.

import * as api from "/assets/api.js";
import { h, replace, settled, svg } from "/assets/dom.js";
import * as forms from "/assets/forms.js";
import { confirm, field, sorry, table } from "/assets/parts.js";
import * as words from "/assets/words.js";

const POSITIONS = 200; // each is another amount: 3 % or more from the one before, which three digits show
const LEAST = 1000000; // of a slider, in 10⁻⁹ ρ

// What an analyst can still spend: the grant is a cap inside the budget, and others spend from the budget, too.
export function left(budget) {
  const all = words.nano(budget.remaining);
  const own = budget.grant ? words.nano(budget.grant.remaining) : null;
  return own !== null && own <= all ? { nano: own, whose: "your grant" } : { nano: all, whose: "the budget" };
}

// --- choosing ρ ---

// A slider that is even in factors, and the same amount as a text: the text is what is sent, digit for digit.
export function chooser(remaining, changed) {
  const slider = h("input", { type: "range", min: "0", max: String(POSITIONS), step: "1", "aria-label": "ρ, roughly" });
  const text = forms.numeric({ required: true });
  const ends = h("div", { class: "row apart quiet ends" });
  const wrong = h("p", { class: "fault", role: "status" });
  const range = { least: 1, most: 1 };
  const place = () => slider.setAttribute("aria-valuetext", `ρ = ${text.value}`);
  const told = () => {
    const problem = forms.rho(text.value.trim());
    text.setAttribute("aria-invalid", String(problem !== null));
    replace(wrong, problem);
    place();
    changed();
  };
  const limit = (found) => {
    range.most = Math.max(Number(found.nano), 1);
    range.least = Math.min(LEAST, Math.max(1, Math.floor(range.most / 1000)));
    replace(ends, h("span", {}, words.decimal(BigInt(range.least))), h("span", {}, `${words.decimal(found.nano)} left of ${found.whose}`));
    slider.value = positionOf(text.value.trim(), range);
    place();
  };
  slider.addEventListener("input", () => {
    text.value = words.decimal(amountAt(Number(slider.value), range));
    told();
  });
  text.addEventListener("input", () => {
    slider.value = positionOf(text.value.trim(), range);
    told();
  });
  text.value = words.decimal(rounded(Math.max(Number(remaining.nano) / 4, 1)));
  limit(remaining);
  const typed = field("Privacy to spend, ρ", text, "Typed exactly, with nine decimals at most. Less noise costs more: four times the ρ halves the noise.");
  typed.append(wrong);
  const element = h("div", {}, typed, h("div", { class: "field" }, slider, ends));
  return { element, limit, rho: () => (forms.rho(text.value.trim()) === null ? text.value.trim() : null) };
}

function rounded(nanos) {
  const unit = 10 ** Math.max(0, Math.floor(Math.log10(nanos)) - 2);
  return BigInt(Math.round(nanos / unit)) * BigInt(unit);
}

function amountAt(position, { least, most }) {
  if (position >= POSITIONS) return BigInt(most);
  const amount = rounded(least * (most / least) ** (position / POSITIONS));
  return amount > BigInt(most) ? BigInt(most) : amount;
}

function positionOf(given, { least, most }) {
  if (forms.rho(given) || most <= least) return most <= least ? POSITIONS : 0;
  const share = Math.log(Math.max(Number(words.nano(given)), 1) / least) / Math.log(most / least);
  return Math.round(POSITIONS * Math.min(Math.max(share, 0), 1));
}

// --- a plan that follows the form ---

// `ask(signal)` gives a promise, or null while the form says nothing that could be asked. An answer that is overtaken
// by another question is dropped, so that the page never shows the price of something else.
export function live(element, ask, draw, explain = sorry) {
  const heard = h("p", { class: "unseen", role: "status" }); // the whole plan, read out at each step of a slider, would be too much
  let under = null;
  const drop = () => {
    if (under) under.abort();
    under = null;
  };
  const run = settled(async () => {
    const mine = (under = new AbortController());
    try {
      const asked = ask(mine.signal);
      const found = asked === null ? null : await asked;
      if (under !== mine) return;
      replace(element, found === null ? h("p", { class: "quiet" }, "Mend the form to see the plan.") : draw(found));
      heard.textContent = found === null ? "" : `The plan: ρ = ${found.rho}, ${words.inEpsilon(found.epsilon)}. ${inShort(found)}`;
    } catch (problem) {
      if (under !== mine) return;
      replace(element, explain(problem));
      heard.textContent = ""; // what was said before is no longer so
    } finally {
      if (under === mine) element.removeAttribute("aria-busy");
    }
  });
  return {
    again() {
      drop();
      element.setAttribute("aria-busy", "true");
      run();
    },
    heard,
    leave: drop,
  };
}

function inShort({ learned_share: share, warnings = [] }) {
  if (share === undefined) return "";
  return `${words.percent(share)} of the decisions expected to be learned. ${warnings.join(" ")}`;
}

// A page that is open for long may find that what it was about is no longer there.
export function gone(problem, dataset) {
  if (problem.status === 404) {
    return h("div", { class: "sorry", role: "alert" },
      h("p", {}, `The dataset ${dataset} is no longer yours to use: your grant was withdrawn, or the dataset was taken away, since this page was opened. Nothing was charged.`),
      h("p", { class: "quiet" }, "Ask its custodian. Trainings and policies that you paid for stay yours."));
  }
  const said = sorry(problem);
  if (problem.code === "dataset_not_ready") said.append(h("p", {}, "Its custodian has retired it since this page was opened. Nothing was charged."));
  return said;
}

// --- what a plan says ---

// Exact ratios of whole numbers, some with hundreds of digits; only their size is shown.
export function ratio(text) {
  const [above, below = "1"] = String(text).split("/");
  const longest = Math.max(above.length, below.length);
  if (longest < 300) return Number(above) / Number(below);
  const cut = longest - 250;
  return Number(above.slice(0, -cut) || "0") / Number(below.slice(0, -cut) || "1");
}

// What is asked at every step, or in every round, stands in one row.
export function mechanisms(released) {
  const kinds = new Map();
  for (const one of released) {
    const name = one.statistic.replace(/,( each)? (step|round) .*/, "");
    kinds.set(name, [...(kinds.get(name) || []), one]);
  }
  const size = (group) => [...(group.length > 1 ? [group.length] : []), ...group[0].shape].map(words.whole).join(" × ");
  const noise = (group) => span(group.map((one) => (one.mechanism === "laplace" ? Math.SQRT2 * ratio(one.scale.value) : Math.sqrt(ratio(one.scale.value)))));
  return table([
    ["What is released", ([name]) => name],
    ["Numbers", ([, group]) => size(group), "number"],
    ["Noise, σ", ([, group]) => noise(group), "number"],
    ["Its ρ", ([, group]) => words.short(group.reduce((sum, one) => sum + ratio(one.rho), 0)), "number"],
  ], [...kinds], "Every number is released with noise of this standard deviation, and nothing else is");
}

function span(found) {
  const [low, high] = [words.short(Math.min(...found)), words.short(Math.max(...found))];
  return low === high ? low : `${low} – ${high}`;
}

export function epsilons(rows) {
  return table([
    ["δ", (row) => words.power(row.delta)], ["ε", (row) => words.short(row.epsilon), "number"],
  ], rows, "The same promise as (ε, δ)");
}

export function shareBar(share, label) {
  return h("figure", { class: "budget" },
    svg("svg", { role: "img", "aria-label": `${label}: ${words.percent(share)}`, width: "100%", height: 14 },
      svg("rect", { width: "100%", height: 14, class: "remaining" }),
      svg("rect", { width: `${100 * share}%`, height: 14, class: "charged" })),
    h("figcaption", {}, h("span", { class: "key charged" }, `${label}: ${words.percent(share)}`)));
}

// --- paying ---

const UNANSWERED = "The service did not answer, so it is not known whether it took the request. Send the same again: however often it is sent, it is charged once. Or look among your trainings.";

// Asks once more, with the exact amount, and sends once. A request whose answer never came keeps its key: sent again,
// it finds what the first has made instead of paying twice.
export function payer() {
  let open = null;
  return async function pay(path, body, { title, cost, epsilon, remaining, population, name, yes }) {
    const text = JSON.stringify(body);
    if (!open || open.text !== text) open = { text, key: api.once() };
    const content = h("div", {},
      h("p", {}, "This charges ", h("strong", {}, `ρ = ${cost}`), ` of ${words.decimal(remaining.nano)} remaining (${remaining.whose}) to the patients of `, h("strong", {}, name),
        ", population ", h("code", {}, population), ": ", words.inEpsilon(epsilon), "."),
      h("p", {}, "It cannot be taken back once it has started."),
      words.nano(cost) > remaining.nano ? h("p", { class: "note" }, "That is more than remains, so it will be refused. Go back and choose less.") : null);
    if (!(await confirm(title, content, yes))) return null;
    try {
      const made = await api.postOnce(path, body, open.key);
      open = null;
      return made;
    } catch (problem) {
      if (problem.status > 0 && problem.status < 500) {
        open = null;
        throw problem;
      }
      throw new api.Problem(-1, "unanswered", UNANSWERED);
    }
  };
}
