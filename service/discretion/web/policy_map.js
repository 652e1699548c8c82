// A map of decisions: a row for each step, a column for each state. It is painted pixel by pixel, and only what is in
// view, so that ten million cells are as quick as ten.

import { h, replace } from "/assets/dom.js";
import * as colours from "/assets/policy_colours.js";
import * as words from "/assets/words.js";

const [GUTTER, TOP] = [44, 22]; // for the numbers of steps and states, in CSS pixels
const [HIGHEST, WIDEST] = [440, 128]; // of the whole map, of one state: room for what an action is called
const LONGEST = 8e6; // pixels that a browser scrolls over without losing count
const PERIOD = 7; // of the hatching

export function policyMap(policy, { unit, describe, chosen }) {
  const canvas = h("canvas", { tabindex: "0", role: "application", "aria-label": `Map of decisions: arrow keys move between steps and ${unit}s, plus and minus zoom` });
  const room = h("div", {}, canvas);
  const scroll = h("div", { class: "map" }, room);
  const line = h("p", { class: "readout", "aria-live": "polite" }, `Point at the map, or move on it with the arrow keys, to read a decision.`);
  const at = { step: 0, state: 0, hover: null, layer: "actions", wide: null, shown: false };
  const view = { policy, canvas, room, scroll, at };
  const redraw = onFrame(() => draw(view));
  const read = (text) => replace(line, text);

  const place = (step, state, tell = true) => {
    Object.assign(at, { step: clamp(step, policy.steps), state: clamp(state, policy.states), shown: true, hover: null });
    reveal(view);
    redraw();
    read(told(policy, unit, describe, at.step, at.state, 1));
    if (tell) chosen(at.step + 1, at.state);
  };
  const zoom = (change) => {
    at.wide = change === null ? null : zoomed(view, change);
    measure(view);
    reveal(view, true);
    redraw();
  };
  follow(view, { place, zoom, read, redraw, told: (hit) => told(policy, unit, describe, hit.step, hit.state, hit.many) });
  const leave = adapt(view, redraw);
  // To one state, close enough to see it.
  const go = (state) => {
    if (wideOf(view) < 8) at.wide = 16 * density();
    measure(view);
    place(at.step, state);
    reveal(view, true);
  };
  const layer = (name) => {
    at.layer = name;
    redraw();
  };
  return { element: h("div", {}, scroll, line), go, zoom, layer, leave };
}

const clamp = (number, count) => Math.min(Math.max(number, 0), count - 1);

function onFrame(act) {
  let due = false;
  return () => {
    if (due) return;
    due = true;
    requestAnimationFrame(() => {
      due = false;
      act();
    });
  };
}

// --- geometry, in the screen's own pixels ---

const density = () => window.devicePixelRatio || 1;

// How wide a state is: a whole number of pixels, or 1/k, where one pixel stands for k states.
function fitting({ policy, scroll }) {
  const room = Math.max(scroll.clientWidth - GUTTER, 40) * density();
  return room >= policy.states ? Math.min(Math.floor(room / policy.states), WIDEST * density()) : 1 / Math.ceil(policy.states / room);
}

// Twice or half as wide, between the whole policy and what can be scrolled over.
function zoomed(view, change) {
  const most = Math.max(fitting(view), Math.min(WIDEST * density(), 2 ** Math.floor(Math.log2(LONGEST / view.policy.states))));
  const wide = 2 ** (Math.round(Math.log2(wideOf(view))) + change);
  return wide <= fitting(view) ? null : Math.min(wide, most);
}

const wideOf = (view) => whole(view.at.wide === null ? fitting(view) : view.at.wide);
const whole = (wide) => (wide < 1 ? 1 / Math.round(1 / wide) : Math.round(wide));
const columnOf = (wide, state) => Math.floor(state * wide + 1e-9);
const stateAt = (wide, column) => (wide < 1 ? column * Math.round(1 / wide) : Math.floor(column / wide));
const together = (wide) => (wide < 1 ? Math.round(1 / wide) : 1);
const high = ({ policy }) => Math.max(2, Math.min(28, Math.floor(HIGHEST / policy.steps)));

function measure(view) {
  const { policy, canvas, room, scroll } = view;
  const ratio = density();
  const wide = GUTTER + Math.ceil(policy.states * wideOf(view)) / ratio;
  const tall = TOP + policy.steps * high(view);
  room.style.width = `${wide}px`;
  room.style.height = `${tall}px`;
  const size = [scroll.clientWidth, Math.min(Math.ceil(tall), HIGHEST + TOP)]; // as wide as there is room: the last number, too, needs some
  canvas.style.width = `${size[0]}px`;
  canvas.style.height = `${size[1]}px`;
  [canvas.width, canvas.height] = size.map((length) => Math.round(length * ratio));
}

function reveal(view, centred = false) {
  const { at, canvas, scroll } = view;
  const ratio = density();
  const [left, wide] = [columnOf(wideOf(view), at.state) / ratio, Math.max(wideOf(view) / ratio, 1)];
  const seen = canvas.width / ratio - GUTTER;
  if (centred) scroll.scrollLeft = left - seen / 2;
  else if (left < scroll.scrollLeft) scroll.scrollLeft = left;
  else if (left + wide > scroll.scrollLeft + seen) scroll.scrollLeft = left + wide - seen;
  const [top, tall] = [at.step * high(view), canvas.height / ratio - TOP];
  if (top < scroll.scrollTop) scroll.scrollTop = top;
  else if (top + high(view) > scroll.scrollTop + tall) scroll.scrollTop = top + high(view) - tall;
}

function hit(view, event) {
  const { policy, canvas, scroll } = view;
  const box = canvas.getBoundingClientRect();
  const wide = wideOf(view);
  const column = Math.floor((event.clientX - box.left - GUTTER + scroll.scrollLeft) * density());
  const step = Math.floor((event.clientY - box.top - TOP + scroll.scrollTop) / high(view));
  const state = stateAt(wide, column);
  const inside = column >= 0 && event.clientX - box.left >= GUTTER && step >= 0 && step < policy.steps && state < policy.states;
  return inside ? { step, state, many: Math.min(together(wide), policy.states - state) } : null;
}

// --- what a cell says ---

function told(policy, unit, describe, step, state, many) {
  if (many > 1) {
    const found = summed(policy, step, state, many, new Uint32Array(policy.taken.length));
    return `Step ${step + 1}, ${unit}s ${state} to ${state + many - 1}: mostly ${words.actionName(policy.actions, found.action)}; ${found.learned} of ${many} learned. Zoom in to see each.`;
  }
  const index = step * policy.states + state;
  const action = policy.decisions[index];
  const which = describe ? `${unit} ${state} (${describe(state)})` : `${unit} ${state}`;
  return `Step ${step + 1}, ${which}: ${named(policy, action)}, ${policy.learned[index] ? "learned" : "fallback"}, pessimistic score ${words.figure(policy.scores[index])}.`;
}

function named({ actions: known }, action) {
  return known.labels ? `${known.labels[action]} (action ${action})` : `action ${action}`;
}

// The most frequent action, how many are learned, and the mean score, of several states in one pixel.
function summed(policy, step, state, many, times) {
  const from = step * policy.states + state;
  const to = Math.min(from + many, (step + 1) * policy.states);
  let [action, learned, score] = [policy.decisions[from], 0, 0];
  for (let index = from; index < to; index += 1) {
    const taken = policy.decisions[index];
    times[taken] += 1;
    if (times[taken] > times[action]) action = taken;
    learned += policy.learned[index];
    score += policy.scores[index];
  }
  for (let index = from; index < to; index += 1) times[policy.decisions[index]] = 0;
  return { action, learned, score: score / (to - from), trusted: 2 * learned >= to - from };
}

// --- painting ---

function inks() {
  const style = getComputedStyle(document.documentElement);
  const ink = (name) => style.getPropertyValue(name).trim();
  return { card: ink("--card"), ink: ink("--ink"), quiet: ink("--quiet"), accent: ink("--accent") };
}

function draw(view) {
  const { canvas, at, scroll } = view;
  if (!canvas.isConnected) return;
  const [ratio, paint] = [density(), canvas.getContext("2d")];
  const ink = inks();
  const frame = {
    left: Math.round(GUTTER * ratio), top: Math.round(TOP * ratio), off: Math.round(scroll.scrollLeft * ratio),
    down: Math.round(scroll.scrollTop * ratio), tall: high(view) * ratio, wide: wideOf(view), ratio, ink,
  };
  paint.fillStyle = ink.card;
  paint.fillRect(0, 0, canvas.width, canvas.height);
  const [wide, tall] = [canvas.width - frame.left, canvas.height - frame.top];
  if (wide <= 0 || tall <= 0) return;
  paint.putImageData(cells(view, frame, paint, wide, tall), frame.left, frame.top);
  numbers(view, frame, paint);
  if (at.layer === "actions") actions(view, frame, paint);
  if (at.shown) mark(frame, paint, at.step, at.state, ink.ink, 2);
  if (at.hover) mark(frame, paint, at.hover.step, at.hover.state, ink.accent, 1);
}

// The cells in view: of a whole policy they are millions, so that a pointer that moves over them paints none again.
function cells(view, frame, paint, wide, tall) {
  const now = JSON.stringify([wide, tall, frame, view.at.layer]);
  if (view.painted !== now) {
    view.image = paint.createImageData(wide, tall);
    fill(view, frame, new Uint32Array(view.image.data.buffer), wide, tall);
    view.painted = now;
  }
  return view.image;
}

function fill(view, frame, pixels, wide, tall) {
  const { policy, at } = view;
  const background = colours.rgb(frame.ink.card);
  const painted = brush(policy, at.layer, background);
  const [plain, lines] = [new Uint32Array(wide), new Uint32Array(wide)];
  const gap = frame.wide >= 8 ? 1 : 0; // between cells, once they are wide enough to spare it
  const ground = colours.packed(background);
  let before = -1;
  for (let y = 0; y < tall; y += 1) {
    const step = Math.floor((y + frame.down) / frame.tall);
    if (step >= policy.steps) break;
    if (step !== before) row(policy, frame, step, painted, plain, lines, gap, ground);
    before = step;
    const edge = frame.tall >= 8 && (y + frame.down) % frame.tall < gap;
    const start = y * wide;
    for (let x = 0; x < wide && !edge; x += 1) pixels[start + x] = (x + frame.off + y + frame.down) % PERIOD < 2 ? lines[x] : plain[x];
  }
}

// The colours of one step: of the cells, and of the hatching over them.
function row(policy, frame, step, painted, plain, lines, gap, ground) {
  const { wide, off } = frame;
  const [many, times] = [together(wide), new Uint32Array(policy.taken.length)];
  let [before, colour] = [-1, null];
  for (let x = 0; x < plain.length; x += 1) {
    const column = x + off;
    const state = stateAt(wide, column);
    const beside = state >= policy.states || (gap > 0 && column % wide < gap);
    if (!beside && state !== before) {
      colour = many > 1 ? painted(summed(policy, step, state, many, times)) : painted(cell(policy, step * policy.states + state));
      before = state;
    }
    plain[x] = state >= policy.states ? 0 : beside ? ground : colour[0];
    lines[x] = state >= policy.states ? 0 : beside ? ground : colour[1];
  }
}

function cell(policy, index) {
  return { action: policy.decisions[index], trusted: policy.learned[index] === 1, score: policy.scores[index] };
}

// What was learned is in full colour; a fallback is pale, with lines of its colour or of one that is seen.
function brush(policy, layer, background) {
  const known = new Map();
  const full = (found) => (layer === "actions" ? colours.ofAction(found.action, policy.taken.length) : colours.ofScore((found.score - policy.usual[0]) / (policy.usual[1] - policy.usual[0] || 1)));
  const mixed = (colour, trusted) => {
    const pale = trusted ? colour : colours.mixed(colour, background, 0.35);
    return [colours.packed(pale), colours.packed(trusted ? colour : colours.hatching(colour, pale))];
  };
  if (layer !== "actions") return (found) => mixed(full(found), found.trusted);
  return (found) => {
    const name = 2 * found.action + (found.trusted ? 1 : 0);
    if (!known.has(name)) known.set(name, mixed(full(found), found.trusted));
    return known.get(name);
  };
}

function numbers({ policy, canvas }, frame, paint) {
  const { left, top, off, down, tall, wide, ratio, ink } = frame;
  Object.assign(paint, { fillStyle: ink.quiet, font: `${11 * ratio}px system-ui, sans-serif`, textBaseline: "middle", textAlign: "right" });
  const rows = Math.max(1, Math.ceil((15 * ratio) / tall));
  for (let step = 0; step < policy.steps; step += rows) {
    const y = top + (step + 0.5) * tall - down;
    if (y > top && y < canvas.height) paint.fillText(String(step + 1), left - 6 * ratio, y);
  }
  paint.textAlign = "left";
  const every = Math.max(1, niceUp(((String(policy.states - 1).length * 7 + 8) * ratio) / wide));
  for (let state = Math.ceil(off / wide / every) * every; state < policy.states; state += every) {
    const x = left + columnOf(wide, state) - off;
    if (x > canvas.width) break;
    const [text, start] = [String(state), x + Math.min(wide / 4, 4 * ratio)];
    if (start + paint.measureText(text).width < canvas.width) paint.fillText(text, start, top / 2);
  }
}

// 1, 2 or 5 times a power of ten.
function niceUp(least) {
  const power = 10 ** Math.floor(Math.log10(least));
  return [1, 2, 5, 10].map((part) => part * power).find((part) => part >= least);
}

// What the action is called in its cell, or its number, for who cannot tell the colours apart; only where there is room.
function actions({ policy, canvas }, frame, paint) {
  const { left, top, off, down, tall, wide, ratio } = frame;
  if (wide < 15 * ratio || tall < 14 * ratio) return;
  Object.assign(paint, { textAlign: "center", font: `600 ${11 * ratio}px system-ui, sans-serif` });
  const background = colours.rgb(frame.ink.card);
  const named = labelsThatFit(policy, paint, wide - 10 * ratio);
  for (let step = Math.floor(down / tall); step < policy.steps && step * tall - down < canvas.height; step += 1) {
    for (let state = Math.floor(off / wide); state < policy.states && state * wide - off < canvas.width; state += 1) {
      const { action, trusted } = cell(policy, step * policy.states + state);
      const colour = colours.ofAction(action, policy.taken.length);
      const [x, y] = [left + (state + 0.5) * wide - off, top + (step + 0.5) * tall - down];
      paint.fillStyle = colours.onIt(trusted ? colour : colours.mixed(colour, background, 0.5));
      if (x > left && y > top) paint.fillText(named(action), x, y);
    }
  }
}

// All of them or none: some cells with names and some with numbers would be read as two kinds of things.
function labelsThatFit({ actions: { labels }, taken }, paint, room) {
  const shown = labels ? labels.filter((_, action) => taken[action] > 0) : [];
  const fit = shown.length > 0 && shown.every((label) => paint.measureText(label).width <= room);
  return (action) => (fit ? labels[action] : String(action));
}

function mark({ left, top, off, down, tall, wide, ratio }, paint, step, state, colour, thick) {
  const seen = Math.max(wide, 5);
  const x = left + columnOf(wide, state) - off - (seen - Math.max(wide, 1)) / 2;
  const y = top + step * tall - down;
  if (x + seen < left || y + tall < top) return;
  Object.assign(paint, { strokeStyle: colour, lineWidth: thick * ratio });
  paint.strokeRect(x, y, seen, Math.max(tall, 4));
}

// --- pointer, keys, size and light ---

function follow({ policy, canvas, scroll, at }, { place, zoom, read, redraw, told: tell }) {
  const view = { policy, canvas, scroll, at };
  canvas.addEventListener("pointermove", (event) => {
    const found = hit(view, event);
    if (found && at.hover && found.step === at.hover.step && found.state === at.hover.state) return;
    at.hover = found;
    if (found) read(tell(found));
    redraw();
  });
  canvas.addEventListener("pointerleave", () => {
    at.hover = null;
    redraw();
  });
  canvas.addEventListener("click", (event) => {
    const found = hit(view, event);
    if (found) place(found.step, found.state);
  });
  canvas.addEventListener("focus", () => place(at.step, at.state, false));
  scroll.addEventListener("scroll", redraw, { passive: true });
  canvas.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const screen = Math.max(1, Math.floor((canvas.width - GUTTER * density()) / wideOf(view)));
    const ways = {
      ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0],
      PageUp: [0, -screen], PageDown: [0, screen], Home: [0, -Infinity], End: [0, Infinity],
    };
    if (event.key === "+" || event.key === "-") zoom(event.key === "+" ? 1 : -1);
    else if (ways[event.key]) place(at.step + ways[event.key][0], at.state + ways[event.key][1]);
    else return;
    event.preventDefault();
  });
}

function adapt(view, redraw) {
  const again = () => {
    measure(view);
    if (view.at.shown) reveal(view); // what was chosen stays in sight, however wide the window is now
    redraw();
  };
  let width = -1;
  const sizes = new ResizeObserver(() => {
    if (view.scroll.clientWidth === width) return;
    width = view.scroll.clientWidth;
    again();
  });
  sizes.observe(view.scroll);
  const light = matchMedia("(prefers-color-scheme: dark)");
  light.addEventListener("change", redraw);
  return () => {
    sizes.disconnect();
    light.removeEventListener("change", redraw);
  };
}
