// What a file for a dataset looks like, and what can be seen of it before gigabytes are sent for nothing.

const TYPES = {
  csv: "text/csv", ndjson: "application/x-ndjson", jsonl: "application/x-ndjson", parquet: "application/vnd.apache.parquet",
};
const FIRST = 2 ** 18; // bytes that are looked at
const MAGIC = "PAR1";

export function typeOf(file) {
  return TYPES[file.name.split(".").pop().toLowerCase()] || null;
}

export function columnsOf({ states, reward }) {
  const names = states.kind === "discrete" ? ["state"] : states.columns;
  return {
    names,
    required: ["unit", "step", ...names, "action", reward.outcome ? "outcome" : "reward"],
    optional: ["trajectory", "terminated", ...names.map((name) => `next_${name}`)],
  };
}

// Two made-up patients, every number inside its bounds.
export function example(dataset) {
  const { names, required } = columnsOf(dataset);
  const middle = ([low, high]) => Number(((low + high) / 2).toPrecision(6));
  const state = dataset.states.kind === "discrete" ? [0] : dataset.states.bounds.map(middle);
  const { low, high } = dataset.reward;
  const reward = low <= 0 && high >= 0 ? 0 : low;
  const steps = Math.min(dataset.horizon, 2);
  const rows = ["patient-1", "patient-2"].flatMap((unit) => Array.from({ length: steps }, (_, index) => [unit, index + 1, ...state, 0, reward]));
  const quoted = (cell) => (/[",\n]/.test(String(cell)) ? `"${String(cell).replace(/"/g, '""')}"` : String(cell));
  return `${[required, ...rows].map((row) => row.map(quoted).join(",")).join("\n")}\n`;
}

// Problems as the service would name them, as far as the beginning of the file shows them.
export async function lookAt(file, type, dataset) {
  if (file.size === 0) return [fault("", "The file is empty.")];
  const start = await file.slice(0, FIRST).text();
  if (type === TYPES.parquet) return start.startsWith(MAGIC) ? [] : [fault("", "This is not a Parquet file, whatever its name says.")];
  if (start.startsWith(MAGIC)) return [fault("", "This is a Parquet file; let its name end in .parquet.")];
  if (start.includes("\0")) return [fault("", "This is not a text file, whatever its name says. Export it as CSV in UTF-8.")];
  const end = start.indexOf("\n");
  if (end < 0 && file.size > FIRST) return [];
  const line = (end < 0 ? start : start.slice(0, end)).replace(/^\ufeff/, "").replace(/\r$/, "");
  const header = type === TYPES.csv ? split(line) : keys(line);
  return header === null ? [fault("", "The first line is not a JSON object.")] : headerFaults(header, dataset, type === TYPES.csv);
}

function fault(column, reason) {
  return { row: 0, column, reason };
}

// Nothing where quotes are involved: the service reads those.
function split(line) {
  return line.includes('"') ? undefined : line.split(",");
}

function keys(line) {
  try {
    const found = JSON.parse(line);
    return found && typeof found === "object" && !Array.isArray(found) ? Object.keys(found) : null;
  } catch {
    return null;
  }
}

function headerFaults(header, dataset, csv) {
  if (header === undefined) return [];
  if (csv && header.length === 1 && /[;\t]/.test(header[0])) return [fault("", "The columns are separated by something else than commas; export the file with commas.")];
  const { required, optional } = columnsOf(dataset);
  const known = new Set([...required, ...optional, "outcome"]);
  const needed = csv ? required.filter((name) => name !== "reward" || !header.includes("outcome")) : [];
  return [
    ...needed.filter((name) => !header.includes(name)).map((name) => fault(name, "This column is missing.")),
    ...header.filter((name) => !known.has(name)).map((name) => fault(name.slice(0, 100), "This column is not one of an upload's.")),
  ].slice(0, 20);
}
