// A ledger: all its rows, what they add up to after each, and whether the chain holds, which is what
// `discretion ledger check` finds out, in the browser.

import * as api from "/assets/api.js";
import { Wrong, rowHash, signedNano } from "/assets/jws.js";
import * as words from "/assets/words.js";

export const KINDS = {
  open: "budget opened", reserve: "reserved", charge: "charged", give_back: "given back", adjust: "budget changed", draw: "drawn again, paid before",
};
const GENESIS = "0".repeat(64);
const EMPTY = { total: 0n, reserved: 0n, charged: 0n };

// The whole ledger in the shape in which `discretion ledger check` reads it, and whether the service found it intact.
export async function whole(dataset) {
  const found = { population: "", intact: true, rows: [] };
  for (let after = 0; after !== null;) {
    const part = await api.get(`/v1/datasets/${dataset}/ledger?limit=1000&after=${after}`);
    found.population = part.population;
    found.intact = found.intact && part.intact;
    found.rows.push(...part.rows);
    after = part.next;
  }
  return found;
}

// --- sums, in whole billionths of ρ ------------------------------------------------------------------------------

function moved({ total, reserved, charged }, { kind, rho: text }) {
  const rho = signedNano(text);
  const leaves = kind === "charge" || kind === "give_back";
  return {
    total: kind === "open" || kind === "adjust" ? total + rho : total,
    reserved: kind === "reserve" ? reserved + rho : leaves ? reserved - rho : reserved,
    charged: kind === "charge" ? charged + rho : charged,
  };
}

// What is charged, reserved and there at all after each row.
export function sums(rows) {
  let balance = EMPTY;
  return rows.map((row) => {
    balance = moved(balance, row);
    return { row, ...balance };
  });
}

// --- the chain ---------------------------------------------------------------------------------------------------

// The balance, the number of rows and the newest hash; `heads` has the same after each row.
export async function reckoned(population, rows) {
  const held = new Map();
  const heads = [{ ...EMPTY, sequence: 0, head: GENESIS }];
  for (const row of rows) {
    const before = heads[heads.length - 1];
    await checkRow(population, row, before, held);
    const after = { ...moved(before, row), sequence: row.sequence, head: row.hash };
    if (after.reserved + after.charged > after.total) throw new Wrong(`At row ${row.sequence} more is spent than there is.`);
    hold(row, held);
    heads.push(after);
  }
  if (!rows.length) throw new Wrong("The ledger is empty, and every ledger begins with its opening.");
  return { ...heads[heads.length - 1], heads };
}

async function checkRow(population, row, before, held) {
  const place = before.sequence + 1;
  const linked = row.sequence === place && row.previous_hash === before.head;
  if (!linked) throw new Wrong(`Row ${place} does not follow the row before it: rows are missing, or one was changed.`);
  if ((await rowHash(population, row)) !== row.hash) throw new Wrong(`Row ${place} was changed: its content has another hash than it says.`);
  if (!makesSense(row, held)) throw new Wrong(`Row ${place} (${row.kind}) cannot stand there: no such amount was opened or reserved.`);
}

// A budget opens once, a training reserves once, and what it reserved leaves once and whole.
function makesSense(row, held) {
  const rho = signedNano(row.rho);
  if (row.sequence === 1 || row.kind === "open") return row.sequence === 1 && row.kind === "open" && rho > 0n;
  if (row.kind === "reserve") return rho > 0n && row.training !== null && !held.has(row.training);
  if (row.kind === "charge" || row.kind === "give_back") return rho > 0n && row.training !== null && held.get(row.training) === rho;
  if (row.kind === "adjust") return Boolean(row.reason) && row.training === null;
  return row.kind === "draw" && rho === 0n;
}

function hold(row, held) {
  if (row.kind === "reserve") held.set(row.training, signedNano(row.rho));
  else if (row.kind === "charge" || row.kind === "give_back") held.set(row.training, 0n);
}

// A signed head, of now or of long ago, must be one of the rows, with the balance as it was then.
export function checkHead(head, population, found) {
  const then = found.heads[head.sequence];
  const said = [head.version, head.population, head.hash, head.total, head.reserved, head.charged];
  const here = then && head.sequence > 0
    ? [1, population, then.head, ...[then.total, then.reserved, then.charged].map(words.decimal)] : [];
  if (JSON.stringify(said) !== JSON.stringify(here)) {
    throw new Wrong("The signed head is not part of this ledger: it is another population's, was rolled back, or is incomplete.");
  }
}
