// The end of a dataset: the one thing here that nobody can undo.

import * as api from "/assets/api.js";
import { h, say } from "/assets/dom.js";
import * as forms from "/assets/forms.js";
import { busy, card, field } from "/assets/parts.js";

export function retireCard({ dataset, path }, changed) {
  const name = forms.input();
  const retire = h("button", { type: "submit", class: "danger", disabled: true }, "Delete the data for good");
  name.addEventListener("input", () => { retire.disabled = name.value.trim() !== dataset.name; });
  const form = h("form", { novalidate: true },
    field(`Type the name of the dataset to go on: ${dataset.name}`, name), h("div", {}, retire));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    if (name.value.trim() !== dataset.name) return;
    busy(retire, async () => {
      await api.remove(path);
      say("The data is deleted.");
      await changed();
    });
  });
  return card("Retire", h("details", {}, h("summary", {}, "Delete this dataset's data …"),
    h("h3", {}, "What goes, for good"),
    h("ul", {},
      h("li", {}, "Every record of it in this service's store. Nobody here can bring it back; backups that your operator made are not touched."),
      h("li", {}, "Trainings and evaluations that have not ended: they are cancelled. What was only reserved comes back, what was charged stays charged."),
      h("li", {}, "The possibility to train on it, for every analyst.")),
    h("h3", {}, "What stays"),
    h("ul", {},
      h("li", {}, "The budget and its whole ledger: what was learned about these patients was learned."),
      h("li", {}, "Policies, evaluations and certificates that were released."),
      h("li", {}, "The description on this page, with the number of patients.")),
    form));
}
