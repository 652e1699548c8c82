// Colours that who does not see red or green can tell apart; beyond twelve actions nobody can, and hues go round.

import { h, svg } from "/assets/dom.js";
import * as words from "/assets/words.js";

const FEW = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#f0e442", "#8c8c8c"]; // Okabe and Ito
const SOME = ["#9f0162", "#009f81", "#ff5aaf", "#00fccf", "#8400cd", "#008df9", "#00c2f9", "#ffb2fd", "#a40122", "#e20134", "#ff6e3a", "#ffc33b"]; // Krzywinski
const RAMP = ["#00224e", "#35456c", "#666970", "#948e77", "#c8b866", "#fee838"].map(rgb); // cividis

export function rgb(hex) {
  const number = parseInt(hex.slice(1), 16);
  return [number >> 16, (number >> 8) & 255, number & 255];
}

function ofHue(hue, light) {
  const part = (shift) => {
    const k = (shift + hue / 30) % 12;
    return Math.round(255 * (light - 0.65 * Math.min(light, 1 - light) * Math.max(-1, Math.min(k - 3, 9 - k, 1))));
  };
  return [part(0), part(8), part(4)];
}

export function ofAction(action, count) {
  if (count <= FEW.length) return rgb(FEW[action]);
  if (count <= SOME.length) return rgb(SOME[action]);
  return ofHue((action * 137.508) % 360, [0.45, 0.7, 0.3, 0.58, 0.8][action % 5]);
}

export function ofScore(share) {
  const place = Math.min(Math.max(share, 0), 1) * (RAMP.length - 1);
  const under = Math.min(Math.floor(place), RAMP.length - 2);
  return mixed(RAMP[under + 1], RAMP[under], place - under);
}

export function mixed(one, other, share) {
  return one.map((part, index) => Math.round(part * share + other[index] * (1 - share)));
}

const brightness = ([red, green, blue]) => 0.299 * red + 0.587 * green + 0.114 * blue;
const SEEN = 40; // of 255, between two colours that are told apart at a glance

// The lines over a pale colour: its own full one, unless that is as dark or as light as the pale one.
export function hatching(colour, pale) {
  if (Math.abs(brightness(colour) - brightness(pale)) >= SEEN) return colour;
  return mixed(brightness(pale) > 127 ? [0, 0, 0] : [255, 255, 255], colour, 0.5);
}

// As ImageData holds a pixel on a little-endian machine, which all browsers run on.
export function packed([red, green, blue]) {
  return ((255 << 24) | (blue << 16) | (green << 8) | red) >>> 0;
}

// Black or white, whichever has the larger contrast (WCAG 2): the middle is a luminance of 0.179.
export function onIt(colour) {
  const [red, green, blue] = colour.map((part) => (part / 255 <= 0.04045 ? part / 255 / 12.92 : ((part / 255 + 0.055) / 1.055) ** 2.4));
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue > 0.179 ? "#000000" : "#ffffff";
}

// --- legends ---

const MOST_LISTED = 40;

export function actionLegend(policy) {
  const order = policy.taken.map((times, action) => [action, times]);
  if (order.length > MOST_LISTED) order.sort((one, other) => other[1] - one[1]).splice(MOST_LISTED);
  const total = policy.decisions.length;
  const items = order.map(([action, times]) => h("li", {}, swatch(ofAction(action, policy.taken.length)),
    policy.actions.labels ? `${action} ${policy.actions.labels[action]}` : `action ${action}`, h("span", { class: "quiet" }, ` ${words.percent(times / total)}`)));
  const more = policy.taken.length - items.length;
  return h("ul", { class: "legend" }, items, more > 0 ? h("li", { class: "quiet" }, `and ${words.whole(more)} that are taken less often`) : null, hatched());
}

export function scoreLegend(policy) {
  const [low, high] = policy.usual.map(words.figure);
  if (policy.usual[0] === policy.usual[1]) return h("ul", { class: "legend" }, h("li", {}, swatch(ofScore(0)), `${low}, everywhere or almost everywhere`), hatched());
  const stops = RAMP.map((colour, index) => svg("stop", { offset: index / (RAMP.length - 1), "stop-color": `rgb(${colour})` }));
  const bar = svg("svg", { width: 120, height: 14, role: "img", "aria-label": "from the lowest to the highest score" },
    svg("defs", {}, svg("linearGradient", { id: "ramp" }, stops)), svg("rect", { width: 120, height: 14, fill: "url(#ramp)" }));
  return h("ul", { class: "legend" }, h("li", {}, `${low} or less `, bar, ` ${high} or more`), hatched());
}

function swatch(colour) {
  return svg("svg", { width: 14, height: 14, "aria-hidden": "true" }, svg("rect", { width: 14, height: 14, rx: 3, fill: `rgb(${colour})` }));
}

function hatched() {
  const lines = [-7, 0, 7].map((x) => svg("path", { d: `M${x} 14L${x + 14} 0`, class: "hatch" }));
  return h("li", {}, svg("svg", { width: 14, height: 14, "aria-hidden": "true" }, svg("rect", { width: 14, height: 14, class: "remaining" }), lines), "hatched: fallback, not learned");
}
