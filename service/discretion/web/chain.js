// A ledger, followed from its first row and added up again: what `discretion ledger check` does, in the browser.

import { Wrong, rowHash, signedNano } from "/assets/jws.js";
import * as words from "/assets/words.js";

const GENESIS = "0".repeat(64);

// The balance in whole billionths of ρ, the number of rows and the newest hash; `heads` has the same after each row.
export async function reckoned(population, rows) {
  const held = new Map();
  const found = { total: 0n, reserved: 0n, charged: 0n, sequence: 0, head: GENESIS };
  const heads = [{ ...found }];
  for (const row of rows) {
    const place = found.sequence + 1;
    const linked = row.sequence === place && row.previous_hash === found.head;
    if (!linked) throw new Wrong(`Row ${place} does not follow the row before it: rows are missing, or one was changed.`);
    if ((await rowHash(population, row)) !== row.hash) throw new Wrong(`Row ${place} was changed: its content has another hash than it says.`);
    if (!makesSense(row, held)) throw new Wrong(`Row ${place} (${row.kind}) cannot stand there: no such amount was opened or reserved.`);
    add(found, row, held);
    if (found.reserved + found.charged > found.total) throw new Wrong(`At row ${place} more is spent than there is.`);
    heads.push({ ...found });
  }
  if (!rows.length) throw new Wrong("The ledger is empty, and every ledger begins with its opening.");
  return { ...found, heads };
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

function add(found, row, held) {
  const rho = signedNano(row.rho);
  if (row.kind === "open" || row.kind === "adjust") found.total += rho;
  if (row.kind === "reserve") found.reserved += rho;
  if (row.kind === "charge" || row.kind === "give_back") found.reserved -= rho;
  if (row.kind === "charge") found.charged += rho;
  if (row.kind === "reserve") held.set(row.training, rho);
  else if (row.kind === "charge" || row.kind === "give_back") held.set(row.training, 0n);
  found.sequence = row.sequence;
  found.head = row.hash;
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
