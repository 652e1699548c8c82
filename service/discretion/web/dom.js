// Building the page. Text is always text: nothing here parses HTML, so a name can hold a script and stays a name.

const SVG = "http://www.w3.org/2000/svg";

export function h(tag, properties = {}, ...children) {
  return filled(document.createElement(tag), properties, children);
}

export function svg(tag, properties = {}, ...children) {
  return filled(document.createElementNS(SVG, tag), properties, children);
}

function filled(element, properties, children) {
  for (const [name, value] of Object.entries(properties)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "value" || name === "checked") element[name] = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...present(children));
  return element;
}

export function replace(element, ...children) {
  element.replaceChildren(...present(children));
  return element;
}

function present(children) {
  return children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false).map(bound);
}

// "ρ = 0.5" and "S = 24" do not end one line and begin the next.
function bound(child) {
  return typeof child === "string" ? child.replace(/([ρεδ]|\b[nSAH]) = (?=[0-9])/g, "$1\u00a0=\u00a0") : child;
}

let numbered = 0;

// An id that no other element has, to tie a label to its field.
export function fresh(prefix) {
  numbered += 1;
  return `${prefix}-${numbered}`;
}

// Say something to who cannot see the page change; it is also shown for a moment.
export function say(text) {
  const said = document.getElementById("said");
  said.textContent = "";
  said.textContent = text;
  clearTimeout(say.waiting);
  say.waiting = setTimeout(() => { said.textContent = ""; }, 6000);
}

export function download(name, text, type = "application/json") {
  const address = URL.createObjectURL(new Blob([text], { type }));
  const link = h("a", { href: address, download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 1000);
}

// Calls `act` when nothing has happened for a while: for what follows a slider or a text as it is typed.
export function settled(act, milliseconds = 250) {
  let waiting;
  return (...given) => {
    clearTimeout(waiting);
    waiting = setTimeout(() => act(...given), milliseconds);
  };
}
