// Drawings. Labels stand outside the SVG, so that they keep their size however wide it is.

import { h, svg } from "/assets/dom.js";
import * as words from "/assets/words.js";

const [WIDE, HIGH] = [1000, 100];

// Steps over time, one area upon the other, under a line. `points`: { at, charged, reserved, total } in order, ρ in
// integers of 10⁻⁹.
export function budgetSteps(points, until = Date.now()) {
  const last = points[points.length - 1];
  const from = points[0].at;
  const span = Math.max(until - from, 1);
  const most = points.reduce((found, one) => (one.total > found ? one.total : found), 1n);
  const x = (at) => (WIDE * Math.min(at - from, span)) / span;
  const y = (nanos) => HIGH - Number((nanos * 100000n) / most) / 1000;
  const line = (level) => steps(points.map((one) => [x(one.at), y(level(one))]));
  const [floor, charged, taken, total] = [() => 0n, (one) => one.charged, (one) => one.charged + one.reserved, (one) => one.total].map(line);
  const label = `Budget from ${words.when(from)} until now: charged ${words.decimal(last.charged)}, `
    + `reserved ${words.decimal(last.reserved)}, of ρ = ${words.decimal(last.total)}.`;
  return h("figure", { class: "steps" },
    h("div", { class: "plot" },
      h("span", { class: "most quiet", "aria-hidden": "true" }, `ρ = ${words.decimal(most)}`),
      svg("svg", { role: "img", "aria-label": label, viewBox: `0 -1 ${WIDE} ${HIGH + 2}`, preserveAspectRatio: "none" },
        svg("path", { d: area(charged, floor), class: "charged" }),
        svg("path", { d: area(taken, charged), class: "reserved" }),
        svg("path", { d: path(total), class: "total" })),
      h("div", { class: "row apart quiet", "aria-hidden": "true" }, h("span", {}, words.when(from)), h("span", {}, "now"))),
    h("figcaption", {},
      h("span", { class: "key charged" }, "charged"), h("span", { class: "key reserved" }, "reserved"),
      h("span", { class: "key total" }, "the whole budget")));
}

// Corners of a staircase that ends at the right edge.
function steps(corners) {
  const found = [corners[0]];
  for (const [x, y] of corners.slice(1)) found.push([x, found[found.length - 1][1]], [x, y]);
  return [...found, [WIDE, found[found.length - 1][1]]];
}

function path(corners) {
  return `M${corners.map(([x, y]) => `${x.toFixed(2)} ${y.toFixed(3)}`).join("L")}`;
}

function area(upper, lower) {
  return `${path([...upper, ...[...lower].reverse()])}Z`;
}
