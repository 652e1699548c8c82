// A ledger as it is read here: all its rows, and what they add up to. The service has checked the chain.

import * as api from "/assets/api.js";
import * as words from "/assets/words.js";

export const KINDS = {
  open: "budget opened", reserve: "reserved", charge: "charged", give_back: "given back", adjust: "budget changed", draw: "noise drawn",
};

// The whole ledger in the shape in which `discretion ledger check` reads it.
export async function whole(dataset) {
  const rows = [];
  let page = null;
  do {
    page = await api.get(`/v1/datasets/${dataset}/ledger?limit=1000&after=${page ? page.next : 0}`);
    rows.push(...page.rows);
  } while (page.next !== null);
  return { ...page, rows };
}

export function signed(rho) {
  return rho.startsWith("-") ? -words.nano(rho.slice(1)) : words.nano(rho);
}

// What is charged, reserved and there at all after each row.
export function sums(rows) {
  let [total, reserved, charged] = [0n, 0n, 0n];
  return rows.map((row) => {
    const rho = signed(row.rho);
    if (row.kind === "open" || row.kind === "adjust") total += rho;
    if (row.kind === "reserve") reserved += rho;
    if (row.kind === "charge" || row.kind === "give_back") reserved -= rho;
    if (row.kind === "charge") charged += rho;
    return { row, total, reserved, charged };
  });
}
