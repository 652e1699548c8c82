// The token is traded for a cookie and forgotten: it stays in no address, no storage and no variable.

import * as api from "/assets/api.js";
import { h } from "/assets/dom.js";
import { busy, card, field, page } from "/assets/parts.js";

const REFUSED = "This token is not valid, or it was revoked or has expired. Copy all of it once more; if that does not help, ask an administrator for a new key.";

// Nobody was signed in who could sign in again. Of an identity provider's token, the service knows what is wrong with it.
function refused(given, problem) {
  const told = given.split(".").length === 3 ? problem.message : REFUSED;
  throw problem.status === 401 ? new api.Problem(-1, problem.code, told) : problem;
}

export function show(note, signedIn) {
  const token = h("input", { type: "password", autocomplete: "off", spellcheck: "false", required: true });
  const enter = h("button", { type: "submit", class: "primary" }, "Sign in");
  const form = h("form", {}, field("Your token", token, "An administrator made it for you, and it begins with dk_. Or it is one of your identity provider, if this service has one."), h("div", {}, enter));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    busy(enter, async () => {
      const given = token.value.trim();
      token.value = "";
      signedIn(await api.signIn(given).catch((problem) => refused(given, problem)));
    });
  });
  return page("Sign in",
    note ? h("p", { role: "status" }, note) : null,
    card(null, form),
    card("Lost, or new here?",
      h("p", {}, "A token is shown once, when it is made, and kept nowhere. Whoever runs this service makes another with ",
        h("code", {}, "discretion keys create"), " or, for a key that owns datasets, ", h("code", {}, "discretion keys replace"), "."),
      h("p", {}, "The first administrator's token was printed when the service started for the first time.")));
}
