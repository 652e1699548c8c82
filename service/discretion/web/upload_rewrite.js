// A hospital's own CSV file written anew with the service's columns, piece by piece in this browser: what is not asked
// for never leaves it. Rows stay rows, in their order, so that a problem's row is the file's own.

const PIECE = 2 ** 20; // characters of one part of the new file

export class Misread extends Error {}

// The columns' names and what stands between them, from the first line; null if that cannot be a header.
export function headerOf(line) {
  const between = [",", ";", "\t"].reduce((best, sign) => (line.split(sign).length > line.split(best).length ? sign : best));
  const names = cells(line, between).map((name) => name.trim());
  return names.length > 1 && names.every(Boolean) && new Set(names).size === names.length ? { names, between } : null;
}

// One line's cells. Quotes are rare, and without them a line is only cut.
function cells(line, between) {
  if (!line.includes('"')) return line.split(between);
  const found = [];
  let [cell, quoted] = ["", false];
  for (let at = 0; at < line.length; at += 1) {
    const sign = line[at];
    if (quoted && sign === '"' && line[at + 1] === '"') {
      cell += '"';
      at += 1;
    } else if (sign === '"') quoted = !quoted;
    else if (sign === between && !quoted) {
      found.push(cell);
      cell = "";
    } else cell += sign;
  }
  return [...found, cell];
}

const written = (cell) => (/[",\r\n]/.test(cell) ? `"${cell.replace(/"/g, '""')}"` : cell);

// Lines as they come; one that ends within quotes goes on in the next.
async function* linesOf(file) {
  // What is no UTF-8 is refused: two patients could become one where a sign that cannot be read is replaced by another.
  const reader = file.stream().pipeThrough(new TextDecoderStream("utf-8", { fatal: true })).getReader();
  let [rest, open] = ["", ""];
  for (let part = await reader.read(); !part.done; part = await reader.read()) {
    const lines = (rest + part.value).split("\n");
    rest = lines.pop();
    for (const line of lines) {
      const whole = open + line;
      open = whole.split('"').length % 2 === 0 ? `${whole}\n` : "";
      if (!open) yield whole.endsWith("\r") ? whole.slice(0, -1) : whole;
    }
  }
  if (open + rest) yield (open + rest).replace(/\r$/, "");
}

// `columns`: for each column of the upload its name, which of the file's it is made from (`with` a second), and how its
// text is read.
export async function rewritten(file, { names, between }, columns) {
  const parts = [];
  let [piece, row] = [`${columns.map((one) => one.name).join(",")}\n`, -1];
  for await (const line of linesOf(file)) {
    row += 1;
    if (row === 0 || line === "") continue;
    const found = cells(line, between);
    if (found.length !== names.length) throw new Misread(`Row ${row} has ${found.length} values, and the header ${names.length}.`);
    piece += `${columns.map((one) => written(one.read(found[one.at], row, found[one.with]))).join(",")}\n`;
    if (piece.length > PIECE) {
      parts.push(new Blob([piece]));
      piece = "";
    }
  }
  return new File([...parts, piece], file.name, { type: "text/csv" });
}

// --- how a text is read ---

export const asItIs = (text) => text; // a name with a space is another name
export const plainly = (text) => text.trim();

// Steps may begin with 0 in a file, and begin with 1 in an upload.
export function steps() {
  let first = null;
  return (given) => {
    const text = given.trim();
    if (first === null) first = text === "0" ? 1 : 0;
    return first && /^[0-9]+$/.test(text) ? String(Number(text) + first) : text;
  };
}

// What an action is called stands for its number; what is a number already stays it.
export function actions({ labels }) {
  const numbers = new Map((labels || []).map((label, number) => [label, String(number)]));
  return (text) => (/^[0-9]+$/.test(text.trim()) ? text.trim() : numbers.get(text.trim()) ?? text.trim());
}

// Two doses as one number, as `--levels` of the command line makes it.
export function doses(...levels) {
  return (first, row, second) => [first, second].reduce((code, given, which) => {
    const text = given.trim();
    if (!/^[0-9]+(\.0*)?$/.test(text) || Number(text) >= levels[which]) {
      throw new Misread(`Row ${row} has a dose that is not one of its ${levels[which]} levels, which count from 0 to ${levels[which] - 1}.`);
    }
    return code * levels[which] + Number(text);
  }, 0).toString();
}

// How a stay ended, in two values of which one is good: the most that a stay can earn, or the least.
export function outcomes(good, { reward, return: total }) {
  const [low, high] = [Math.max(reward.low, total ? total.low : reward.low), Math.min(reward.high, total ? total.high : reward.high)];
  const same = (text) => text === good || (text !== "" && good !== "" && Number(text) === Number(good));
  let bad = null;
  return (given, row) => {
    const text = given.trim();
    if (same(text)) return String(high);
    bad = bad ?? text;
    if (text !== bad) throw new Misread(`Row ${row} has a third way to end. Mend what stands there after a good end, make it two, or choose a column of numbers.`);
    return String(low);
  };
}
