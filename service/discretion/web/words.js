// Numbers and states in words.

export const ROLES = {
  admin: "administrator", custodian: "custodian", analyst: "analyst", auditor: "auditor",
};

export const STATES = {
  empty: "no data yet", ready: "ready", retired: "retired",
  queued: "waiting", running: "running", released: "released", failed: "failed", cancelled: "cancelled",
};

const DELTA = 1e-6;

// "at δ = 10⁻⁶ this is ε = 2.1"
export function inEpsilon(rows, field = "epsilon", delta = DELTA) {
  const row = (rows || []).find((one) => Math.abs(one.delta - delta) < delta / 1e6) || (rows || [])[0];
  return row ? `at δ = ${power(row.delta)} this is ε = ${short(row[field])}` : "";
}

export function power(number) {
  const digits = "⁰¹²³⁴⁵⁶⁷⁸⁹";
  const exponent = Math.round(Math.log10(number));
  if (Math.abs(number / 10 ** exponent - 1) > 1e-9) return String(number);
  return `10${exponent < 0 ? "⁻" : ""}${String(Math.abs(exponent)).replace(/\d/g, (digit) => digits[digit])}`;
}

// Up to three significant digits; ε is rounded up, like everything that is promised.
export function short(number) {
  if (number === null || number === undefined) return "–";
  if (number === 0) return "0";
  const scale = 10 ** (2 - Math.floor(Math.log10(Math.abs(number))));
  return scale < 1 ? whole(Math.ceil(number)) : String(Math.ceil(number * scale - 1e-9) / scale);
}

// A value or a score: four significant digits, to the nearest.
export function figure(number) {
  return String(Number(number.toPrecision(4)));
}

export function whole(number) {
  return Number(number).toLocaleString("en").replace(/,/g, "\u202f");
}

export function percent(share) {
  const found = 100 * share;
  return found > 0 && found < 1 ? "less than 1 %" : `${Math.round(found)} %`;
}

export function when(stamp) {
  return new Date(stamp).toLocaleString("en-GB", { dateStyle: "medium", timeStyle: "short" });
}

export function seconds(count) {
  if (count < 90) return `${Math.round(count)} seconds`;
  return count < 5400 ? `${Math.round(count / 60)} minutes` : `${(count / 3600).toFixed(1)} hours`;
}

export function bytes(count) {
  const units = ["bytes", "kB", "MB", "GB"];
  const step = Math.min(Math.floor(Math.log10(Math.max(count, 1)) / 3), 3);
  return `${(count / 1000 ** step).toFixed(step ? 1 : 0)} ${units[step]}`;
}

// ρ is a decimal text with nine digits at most: exact as an integer of 10⁻⁹, and never a float.
export function nano(rho) {
  const [units, part = ""] = String(rho).split(".");
  return BigInt(units) * 1000000000n + BigInt(part.padEnd(9, "0"));
}

export function decimal(nanos) {
  const part = (nanos % 1000000000n).toString().padStart(9, "0").replace(/0+$/, "");
  return part ? `${nanos / 1000000000n}.${part}` : String(nanos / 1000000000n);
}

export function states(schema) {
  return schema.states.kind === "discrete" ? `${whole(schema.states.count)} states` : `${schema.states.columns.length} columns`;
}

export function actionName(actions, number) {
  return (actions.labels && actions.labels[number]) || `action ${number}`;
}
