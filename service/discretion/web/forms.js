// What a form checks before it asks the service, and where it shows what the service has refused.

import { fresh, h } from "/assets/dom.js";
import * as words from "/assets/words.js";

const RHO = /^[0-9]{1,7}(\.[0-9]{1,9})?$/;
const NUMBER = /^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$/;
const MOST_RHO = 1000000n * 1000000000n;

// Each of these gives the reason against a text, or null.

export function rho(text) {
  if (text === "") return "Write how much ρ, for example 0.5.";
  if (text.includes(",")) return "Write a point before the decimals, not a comma.";
  if (!RHO.test(text)) return "Write ρ as a plain number such as 2 or 0.25, with nine decimals at most.";
  const found = words.nano(text);
  if (found === 0n) return "ρ must be more than zero.";
  return found > MOST_RHO ? "ρ can be 1000000 at most." : null;
}

export function number(text) {
  if (text === "") return "Write a number.";
  if (text.includes(",")) return "Write a point before the decimals, not a comma.";
  return NUMBER.test(text) && Number.isFinite(Number(text)) ? null : "This is not a number.";
}

export function wholeFrom(low, high) {
  return (text) => {
    const fits = /^[0-9]{1,12}$/.test(text) && Number(text) >= low && Number(text) <= high;
    return fits ? null : `Write a whole number from ${low} to ${words.whole(high)}.`;
  };
}

export function interval(low, high) {
  return number(low) || number(high) || (Number(low) < Number(high) ? null : "The second number must be larger than the first.");
}

export function name(text) {
  if (text === "") return "Give it a name that your colleagues will recognise.";
  return text.length > 200 ? "A name has 200 characters at most." : null;
}

// A text field; numbers are text, too, for a browser's number field reads a comma as it likes.
export function input(properties = {}) {
  return h("input", { type: "text", autocomplete: "off", spellcheck: "false", ...properties });
}

export function numeric(properties = {}) {
  return input({ inputmode: "decimal", ...properties });
}

export function radios(title, options, chosen, changed) {
  const group = fresh("choice");
  const boxes = options.map(([value, label, disabled]) => {
    const box = h("input", { type: "radio", name: group, value, checked: value === chosen, disabled });
    box.addEventListener("change", () => changed(value));
    return h("label", { class: "choice" }, box, h("span", {}, label));
  });
  return h("div", { class: "choices", role: "radiogroup", tabindex: "-1", "aria-label": title }, boxes);
}

// Say beside a field what is wrong with it; null takes that back.
export function mark(field, reason) {
  const place = field.closest(".field") || field.parentElement;
  const old = place.querySelector(":scope > .fault");
  if (old) old.remove();
  const before = (field.getAttribute("aria-describedby") || "").split(" ").filter((id) => id && !id.startsWith("fault-"));
  if (!reason) {
    field.removeAttribute("aria-invalid");
    return described(field, before);
  }
  const id = fresh("fault");
  field.setAttribute("aria-invalid", "true");
  described(field, [...before, id]);
  place.append(h("p", { class: "fault", id }, reason));
  // Whoever mends it need not be told any longer; whether it is right now is found out when it is sent.
  for (const change of ["input", "change"]) field.addEventListener(change, () => field.getAttribute("aria-invalid") && mark(field, null), { once: true });
}

function described(field, ids) {
  if (ids.length) field.setAttribute("aria-describedby", ids.join(" "));
  else field.removeAttribute("aria-describedby");
}

// Marks every field and goes to the first that must be mended; true if there is none. `found`: [field, reason or null].
export function sound(found) {
  const marked = new Map();
  for (const [field, reason] of found) marked.set(field, marked.get(field) || reason);
  for (const [field] of marked) mark(field, null);
  const wrong = [...marked].filter(([, reason]) => reason);
  for (const [field, reason] of wrong) mark(field, reason);
  if (wrong.length) wrong[0][0].focus();
  return wrong.length === 0;
}

// The service's refusal beside the fields that it names; false if there is something left to say elsewhere.
export function refused(problem, fields) {
  const found = (problem.body && problem.body.fields || []).map((one) => [fields[one.field.replace(/^body\./, "").split(".")[0]], one.reason]);
  const known = found.filter(([field]) => field);
  if (known.length) sound(known);
  return known.length > 0 && known.length === found.length;
}
