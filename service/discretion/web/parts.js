// What every page is made of.

import { fresh, h, replace, say, svg } from "/assets/dom.js";
import { Problem } from "/assets/api.js";
import * as words from "/assets/words.js";

export function page(title, ...content) {
  return { title, body: h("div", {}, h("h1", {}, title), content) };
}

export function card(title, ...content) {
  const id = fresh("card");
  return h("section", { class: "card", "aria-labelledby": title ? id : null }, title ? h("h2", { id }, title) : null, content);
}

export function link(address, ...content) {
  return h("a", { href: `#/${address}` }, content);
}

export function badge(state) {
  return h("span", { class: `badge ${state}` }, words.STATES[state] || state);
}

export function button(label, act, properties = {}) {
  const made = h("button", { type: "button", ...properties }, label);
  made.addEventListener("click", () => busy(made, act));
  return made;
}

// A button that works cannot be pressed twice; what goes wrong is told beside it. A disabled button loses the focus,
// and whoever came by the keyboard would have to begin at the top of the page.
export async function busy(made, act) {
  const focused = document.activeElement === made;
  made.disabled = true;
  made.setAttribute("aria-busy", "true");
  const old = made.parentElement && made.parentElement.querySelector(":scope > .sorry");
  if (old) old.remove();
  try {
    await act(made);
  } catch (problem) {
    made.insertAdjacentElement("afterend", sorry(problem));
  } finally {
    made.disabled = false;
    made.removeAttribute("aria-busy");
    if (focused && document.activeElement === document.body) made.focus();
  }
}

export function field(label, input, hint = null) {
  const id = fresh("field");
  input.id = id;
  if (hint) input.setAttribute("aria-describedby", `${id}-hint`);
  return h("div", { class: "field" }, h("label", { for: id }, label), input, hint ? h("p", { class: "hint", id: `${id}-hint` }, hint) : null);
}

// A column in which no row has anything takes room from the others.
export function used(columns, rows) {
  return columns.filter(([, cell]) => rows.some((row) => cell(row) !== ""));
}

// `columns`: [heading, cell(row)] or [heading, cell(row), "number"]. On a telephone each row is a list of its cells, each
// with its heading beside it; the roles are written out because such a layout would take them away.
export function table(columns, rows, caption) {
  const headings = columns.map(([heading, , kind]) => h("th", { scope: "col", role: "columnheader", class: kind }, heading));
  return h("div", { class: "wide", tabindex: "0", role: "region", "aria-label": caption },
    h("table", { role: "table" }, h("caption", {}, caption),
      h("thead", { role: "rowgroup" }, h("tr", { role: "row" }, headings)),
      h("tbody", { role: "rowgroup" }, rows.map((row) => h("tr", { role: "row" }, columns.map((column) => cellOf(column, row)))))));
}

function cellOf([heading, cell, kind], row) {
  const content = h("div", {}, cell(row));
  const nothing = content.children.length === 0 && content.textContent === "";
  return h("td", { role: "cell", class: [kind, nothing ? "void" : null].filter(Boolean).join(" ") || null, "data-heading": heading }, content);
}

// Never an empty page without a word about why, and what to do.
export function empty(...content) {
  return h("div", { class: "empty" }, content);
}

export function facts(...pairs) {
  return h("dl", { class: "facts" }, pairs.filter(Boolean).map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value))));
}

export function copied(text, shown = text) {
  const made = h("button", { type: "button", class: "copy", "aria-label": `Copy ${text}` }, h("code", {}, shown));
  made.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(text);
      say("Copied.");
    } catch {
      say("This browser does not let pages copy; select the text and copy it yourself.");
    }
  });
  return made;
}

// A budget as a bar, with the same numbers as text for who does not see it.
function budgetBar(budget) {
  const [total, charged, reserved] = [budget.total, budget.charged, budget.reserved].map(words.nano);
  const share = (part) => (total === 0n ? 0 : Number((part * 100000n) / total) / 1000);
  const label = `charged ${budget.charged}, reserved ${budget.reserved}, remaining ${budget.remaining} of ρ = ${budget.total}`;
  const segment = (from, size, kind) => svg("rect", { x: `${from}%`, y: 0, width: `${size}%`, height: 14, class: kind });
  return h("figure", { class: "budget" },
    svg("svg", { role: "img", "aria-label": label, width: "100%", height: 14 },
      svg("rect", { width: "100%", height: 14, class: "remaining" }),
      segment(0, share(charged), "charged"), segment(share(charged), share(reserved), "reserved")),
    h("figcaption", {},
      h("span", { class: "key charged" }, `charged ${budget.charged}`),
      h("span", { class: "key reserved" }, `reserved ${budget.reserved}`),
      h("span", { class: "key remaining" }, `remaining ${budget.remaining}`),
      h("span", { class: "quiet" }, `of ρ = ${budget.total}; ${words.inEpsilon(budget.epsilon, "total")} if all of it is spent`)));
}

// The bar, what has been charged in words, and, for an analyst, what their own grant has left.
export function budgetOf(budget) {
  const { charged, epsilon, grant } = budget;
  const meaning = words.nano(charged) === 0n ? "Nothing has been charged yet." : `ρ = ${charged} has been charged: ${words.inEpsilon(epsilon, "charged")}.`;
  return [
    budgetBar(budget),
    h("p", {}, meaning),
    grant ? h("p", {}, "Your grant: ", h("strong", {}, `ρ = ${grant.remaining} left`), ` of ${grant.rho}; ${grant.used} is used or reserved.`) : null,
  ];
}

export function progress(share, label) {
  return h("progress", { max: "1", value: share, "aria-label": label }, words.percent(share));
}

const ADVICE = {
  0: "Nothing was changed unless the page says so.",
  401: "Sign in again; what you see may have changed meanwhile.",
  403: "Another role may; ask the administrator for a key of that role.",
  404: "A grant may have been revoked, or the address cut short. Whoever gave it to you can say what it was.",
  409: "Somebody or something else changed it. Load the page again.",
  413: "Ask the operator to raise the limit, or send less.",
  429: "Wait a few seconds, then try again.",
  503: "The operator can see the reason in /readyz and in the log.",
};

// What happened and what to do, never a raw error.
export function sorry(problem) {
  if (!(problem instanceof Problem)) {
    console.error(problem);
    problem = new Problem(-1, "page", "This page failed. Load it again; if that does not help, use the command line.");
  }
  const advice = ADVICE[problem.status];
  const listed = [...(problem.body.fields || []), ...(problem.body.problems || [])];
  return h("div", { class: "sorry", role: "alert" },
    h("p", {}, problem.message), advice ? h("p", { class: "quiet" }, advice) : null,
    listed.length ? problems(listed) : null);
}

// The rows of an upload, or the fields of a form, that were refused.
function problems(listed) {
  const columns = [...new Set(listed.flatMap(Object.keys))].filter((name) => listed.some((one) => one[name] !== null));
  return table(columns.map((name) => [name, (row) => String(row[name] ?? "")]), listed, "What to mend");
}

// A last question before what cannot be undone; resolves to whether the answer was yes.
export async function confirm(title, content, yes) {
  return await ask(title, [content], { yes, no: "Go back" }) === "yes";
}

// Something in the way of everything else; resolves to the answer whose button closed it. `must`: no key closes it.
export function ask(title, content, answers, must = false) {
  return new Promise((resolve) => {
    const id = fresh("dialog");
    const buttons = Object.entries(answers).map(([answer, text], index) => (
      h("button", { type: "button", ...(index === 0 ? { class: "primary" } : {}), onclick: () => dialog.close(answer) }, text)));
    const dialog = h("dialog", { "aria-labelledby": id }, h("h2", { id }, title), ...content, h("div", { class: "row" }, ...buttons));
    dialog.addEventListener("cancel", (event) => must && event.preventDefault());
    dialog.addEventListener("close", () => {
      dialog.remove();
      resolve(dialog.returnValue);
    });
    document.body.append(dialog);
    dialog.showModal();
  });
}

// A part of the page that is fetched: says that it is, shows it, or says why not. Returns a way to fetch it again.
export function fetched(element, make) {
  const run = async () => {
    element.setAttribute("aria-busy", "true");
    try {
      replace(element, await make());
    } catch (problem) {
      if (problem.name !== "AbortError") replace(element, sorry(problem));
    } finally {
      element.removeAttribute("aria-busy");
    }
  };
  run();
  return run;
}
