// The dashboard: who is signed in, which page is shown, and what surrounds every page.

import * as api from "/assets/api.js";
import { h, replace, say } from "/assets/dom.js";
import { page, sorry } from "/assets/parts.js";
import * as words from "/assets/words.js";

// Pages are fetched when they are first shown. Each exports show(session, ...parts of the address), which gives
// { title, body, leave? }; `leave` ends what the page started, such as a stream of events.
const PAGES = [
  [/^$/, "overview"],
  [/^datasets$/, "datasets"],
  [/^datasets\/new$/, "dataset_new"],
  [/^datasets\/([\w-]+)$/, "dataset"],
  [/^datasets\/([\w-]+)\/train$/, "training_new"],
  [/^trainings$/, "trainings"],
  [/^trainings\/([\w-]+)$/, "training"],
  [/^policies$/, "policies"],
  [/^policies\/([\w-]+)$/, "policy"],
  [/^policies\/([\w-]+)\/evaluate$/, "evaluation_new"],
  [/^(policies|evaluations)\/([\w-]+)\/certificate$/, "certificate"],
  [/^evaluations\/([\w-]+)$/, "evaluation"],
  [/^audit$/, "audit"],
  [/^audit\/ledgers\/([\w-]+)$/, "audit_ledger"],
  [/^verify$/, "verify"],
  [/^keys$/, "keys"],
];

const MENU = {
  admin: [["", "Overview"], ["keys", "Keys"], ["datasets", "Datasets"], ["trainings", "Trainings"], ["audit", "Audit"]],
  custodian: [["", "Overview"], ["datasets", "Datasets"], ["trainings", "Trainings"], ["policies", "Policies"]],
  analyst: [["", "Overview"], ["datasets", "Datasets"], ["trainings", "Trainings"], ["policies", "Policies"]],
  auditor: [["", "Overview"], ["audit", "Audit"], ["policies", "Policies"], ["verify", "Verify a file"]],
};

const OVER = "Your session has ended, or your key was revoked. Sign in again to go on where you were.";
const UNHEARD = "The service did not answer, so your session is still open. Load this page again in a moment, and sign out then.";
const main = document.getElementById("main");
const top = document.getElementById("top");
let session = null;
let leave = null;
let shown = 0;

function address() {
  return location.hash.replace(/^#\/?/, "").replace(/\/$/, "");
}

async function show() {
  if (location.hash === "#main") return;
  const turn = (shown += 1);
  if (leave) leave();
  leave = null;
  main.setAttribute("aria-busy", "true");
  if (turn > 1) say(""); // what was said was about the page before
  drawTop();
  let made;
  try {
    made = await find();
  } catch (problem) {
    if (problem.status === 401) return;
    made = failed(problem);
  }
  if (turn !== shown) return made.leave && made.leave();
  leave = made.leave || null;
  document.title = `${made.title} – Discretion`;
  replace(main, made.body);
  main.removeAttribute("aria-busy");
  if (turn > 1) main.focus({ preventScroll: true });
  scrollTo(0, 0);
}

async function find() {
  const here = address();
  for (const [pattern, name] of PAGES) {
    const match = here.match(pattern);
    if (match) return (await fetchedPage(name)).show(session, ...match.slice(1));
  }
  return page("There is no such page", h("p", {}, "The address may be misspelt. ", h("a", { href: "#/" }, "Go to the overview.")));
}

// A page is code, too, and may be asked for while the service is away.
async function fetchedPage(name) {
  try {
    return await import(`/assets/pages/${name}.js`);
  } catch (failure) {
    if (failure instanceof TypeError) throw new api.Problem(0, "unreachable", api.UNREACHABLE);
    throw failure;
  }
}

// Code that did not come is not asked for again by every browser until the whole is loaded anew.
function failed(problem) {
  const again = problem.status === 0 || problem.status >= 500;
  return page(again ? "No answer" : "That did not work", sorry(problem),
    again ? h("p", {}, h("button", { type: "button", class: "primary", onclick: () => location.reload() }, "Try again")) : null,
    session ? h("p", {}, h("a", { href: "#/" }, "Go to the overview")) : null);
}

// Where a page without an entry of its own in the menu was come from.
function entry(here) {
  if (!here.startsWith("evaluations/")) return here;
  return session.role === "auditor" ? "audit" : "trainings";
}

function drawTop() {
  if (!session) return replace(top, h("a", { class: "brand", href: "#/" }, "Discretion"));
  const here = entry(address());
  const items = MENU[session.role].map(([target, label]) => {
    const current = target === "" ? here === "" : here === target || here.startsWith(`${target}/`);
    return h("li", {}, h("a", { href: `#/${target}`, "aria-current": current ? "page" : null }, label));
  });
  replace(top,
    h("a", { class: "brand", href: "#/" }, "Discretion"),
    h("nav", { "aria-label": "Pages" }, h("ul", {}, items)),
    h("div", { class: "who" },
      h("span", {}, session.name, h("span", { class: "quiet" }, ` ${words.ROLES[session.role]}`)),
      h("button", { type: "button", onclick: signOut }, "Sign out")));
}

async function signOut() {
  try {
    await api.signOut();
  } catch (problem) {
    if (problem.status !== 401) return signedOut(UNHEARD);
  }
  return signedOut("You are signed out.");
}

async function signedOut(note) {
  session = null;
  shown += 1; // a page that is still being fetched comes too late
  if (leave) leave();
  leave = null;
  drawTop();
  main.removeAttribute("aria-busy");
  const made = (await import("/assets/pages/sign_in.js")).show(note, (found) => {
    session = found;
    show();
  });
  document.title = `${made.title} – Discretion`;
  replace(main, made.body);
  main.querySelector("input").focus();
}

// Whatever finds out that the session is over, a click or a stream, says so here.
addEventListener("session-over", () => session && signedOut(OVER));
addEventListener("hashchange", () => session && show());

async function begin() {
  try {
    session = await api.session();
    await show();
  } catch (problem) {
    if (problem.status === 401) await signedOut("");
    else replace(main, failed(problem).body);
  }
}

begin();
