"""`discretion demo`: the whole job over HTTP, on patients that never were.

A service of its own is started in a temporary folder, and a custodian, an analyst and an auditor do with it what they
would do in a hospital. Whatever goes otherwise than told is a surprise, and the demonstration fails.

How good a policy is is computed from the clinic's own table of chances, which is public because it was made up here.
No policy is scored on stored patients: that would be a release nobody paid for.
"""

import itertools
import json
import math
import re
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Final

import httpx
import numpy as np
from rich import box
from rich.console import Console
from rich.padding import Padding
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from discretion import certificate_page, certificates, embedded, errors, simulation
from discretion.client import Budget, Client, Document, Refused
from discretion.learning import policy as policies
from discretion.learning.policy import Policy

PATIENTS: Final = 6000
_BUDGET: Final = "1.5"
_DELTA: Final = "1e-6"
_HOURS: Final = 4  # of a step
_WIDTH: Final = 80
_VASOPRESSOR: Final = np.arange(len(simulation.LABELS)) == simulation.LABELS.index("vasopressor")

COUNTS, SPARING, LINEAR = "dp-apvi", "sparing", "dp-vapvi"
_POLICIES: Final = (COUNTS, SPARING, LINEAR)
_PRICES: Final = {COUNTS: "0.25", LINEAR: "0.75"}
# Public, like every parameter. The paper's own c2 = 16 trusts no count of this size.
_CONSTANTS: Final = {"c1": 0.1, "c2": 0}
_PAPERS: Final = {
    "*.policy.json": "what to do at every step, in every state",
    "*.certificate.json": "what was done, about whom, with which noise; signed",
    f"{COUNTS}.certificate.txt": "one of them on a page, for people",
    "keys.json": "the public keys that certificates are checked with",
    "ledger.json": "every movement of the budget",
}


class Surprise(Exception):
    """Something did not happen as it was told."""


def _expect(holds: bool, otherwise: str) -> None:
    if not holds:
        raise Surprise(otherwise)


def run(out: Path, patients: int = PATIENTS) -> bool:
    """Tell the whole story; False if anything was a surprise."""
    console = Console(highlight=False)
    console.width = min(console.width, _WIDTH)
    try:
        _Story(console, out, simulation.clinic(), patients).tell()
    except (Surprise, Refused, embedded.ServiceFailed, errors.Refusal, httpx.HTTPError, OSError) as surprise:
        console.print("\n[bold red]This was not expected.[/]")
        console.print(str(surprise), markup=False)
        return False
    return True


@dataclass(frozen=True)
class _People:
    custodian: Client
    analyst: Client
    auditor: Client
    stranger: Client  # another analyst, to whom nothing was granted
    key: str  # the analyst's


@contextmanager
def _admitted(url: str, token: str) -> Iterator[_People]:
    """A key for everybody; loopback needs no proxy, whatever the environment says."""
    with ExitStack() as opened:

        def client(given: str) -> Client:
            return opened.enter_context(Client(url, given, trust_env=False))

        admin = client(token)
        made = [admin.add_key(f"the demo's {role}", role) for role in ("custodian", "analyst", "auditor", "analyst")]
        custodian, analyst, auditor, stranger = (client(key["token"]) for key in made)
        yield _People(custodian, analyst, auditor, stranger, made[1]["id"])


# --- the story ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Story:
    console: Console
    out: Path
    clinic: simulation.Clinic
    patients: int

    def tell(self) -> None:
        self.out.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="discretion-demo-") as temporary:
            folder = Path(temporary)
            self._chapter("A service of its own")
            with embedded.service(folder) as (url, token), _admitted(url, token) as people:
                self._say(
                    f"[bold]discretion serve[/] answers on {url}, with its data in a temporary folder. "
                    "The administrator makes keys for a custodian, two analysts and an auditor."
                )
                files = self._work(people, folder)
        self._verify(files)
        self._leave()

    def _work(self, people: _People, folder: Path) -> dict[str, str]:
        """Everything that needs the service; what is left of it is a handful of files."""
        staged, measured = self._collect(people, folder)
        wanted = self._requests(staged, measured)
        self._plan(people.analyst, wanted)
        before = people.custodian.budget(staged)
        trained = self._train(people.analyst, wanted)
        made = {name: str(training["policy"]) for name, training in trained.items()}
        made[SPARING] = self._derive(people.analyst, staged, trained[COUNTS]["id"])
        learned = {name: people.analyst.policy(made[name]).rule for name in _POLICIES}
        self._decisions(people.analyst, made, learned[COUNTS])
        self._worth(learned)
        self._cost(people.custodian, (staged, measured), before)
        self._refusals(people, wanted[COUNTS], staged)
        return self._download(people.auditor, made, staged)

    def _collect(self, people: _People, folder: Path) -> tuple[str, str]:
        """The same patients twice: staged into twelve states, and as they were measured."""
        self._chapter("The custodian brings the patients")
        population = people.custodian.add_population("sepsis clinic", {"rho": _BUDGET})["id"]
        common: Document = {
            "population": population,
            "horizon": self.clinic.horizon,
            "actions": {"count": len(simulation.LABELS), "labels": list(simulation.LABELS)},
            "reward": {"low": 0, "high": 1},
        }
        bounds = [[edges[0], edges[-1]] for edges in (simulation.LACTATE, simulation.PRESSURE)]
        states = (
            {"kind": "discrete", "count": len(self.clinic.first)},
            {"kind": "vector", "columns": ["lactate", "pressure"], "bounds": bounds},
        )
        table = _table("dataset", "states", "sent as", right=("patients", "rows"))
        made = []
        files = simulation.export(simulation.patients(self.clinic, self.patients), folder)
        for file, kind, described in zip(files, states, ("12 stages", "lactate, pressure"), strict=True):
            made.append(people.custodian.add_dataset(file.stem, states=kind, **common)["id"])
            accepted = people.custodian.upload(made[-1], file)
            people.custodian.add_grant(made[-1], people.key, _BUDGET)
            _expect(accepted["units"] == self.patients, "The service counts other patients than were sent.")
            size = f"{file.suffix[1:]}, {file.stat().st_size / 1e6:.1f} MB"
            table.add_row(file.stem, described, size, str(accepted["units"]), str(accepted["transitions"]))
        self.console.print(table)
        self._say(
            f"Made-up sepsis patients, {self.clinic.horizon} steps of {_HOURS} hours each: wait, give fluids, or a "
            "vasopressor. Most get fluids, whatever they need. Both files are about the same people, so both draw on "
            f"one budget of ρ = {_BUDGET}. The analyst may use them and never sees a row."
        )
        return made[0], made[1]

    def _requests(self, staged: str, measured: str) -> dict[str, Document]:
        known = _CONSTANTS | {"reward": {"table": self.clinic.stable.tolist()}}
        linear = {"features": {"kind": "blocks", "terms": ["1", "lactate", "pressure"]}}
        return {
            name: {"dataset": dataset, "algorithm": name, "privacy": {"rho": _PRICES[name]}, "parameters": parameters}
            for name, dataset, parameters in ((COUNTS, staged, known), (LINEAR, measured, linear))
        }

    def _plan(self, analyst: Client, wanted: dict[str, Document]) -> None:
        self._chapter("The analyst plans: free, and no patient is read")
        for name, request in wanted.items():
            plan = analyst.plan(**request)
            self.console.print(_mechanisms(name, plan["mechanisms"]))
            self._say(
                f"[bold]ρ = {plan['rho']}[/] in all, that is ε = {_epsilon(plan['epsilon'])} at δ = {_DELTA}. "
                f"About {plan['visits_needed']:.0f} visits before a decision is trusted; the budget has "
                f"{plan['trainings_left']} such trainings left."
            )

    def _train(self, analyst: Client, wanted: dict[str, Document]) -> dict[str, Document]:
        self._chapter("The analyst trains")
        ended: dict[str, Document] = {}
        columns = (TextColumn("  {task.description:<9}"), BarColumn(32), TaskProgressColumn(), TimeElapsedColumn())
        with Progress(*columns, TextColumn("{task.fields[state]}"), console=self.console) as progress:
            for name, request in wanted.items():
                bar = progress.add_task(name, total=1.0, state="queued")
                for training in analyst.watch(analyst.train(**request, wait=False)["id"]):
                    progress.update(bar, completed=training["progress"], state=training["state"])
                    ended[name] = training
                _expect(ended[name]["state"] == "released", f"The training ended as {ended[name]['state']}.")
        return ended

    def _derive(self, analyst: Client, dataset: str, training: str) -> str:
        """The same noisy counts, asked another question."""
        before = analyst.budget(dataset)
        reward = np.maximum(self.clinic.stable - 0.5 * _VASOPRESSOR, 0.0)
        found = analyst.derive(training, _CONSTANTS | {"reward": {"table": reward.tolist()}})
        _expect(analyst.budget(dataset) == before, "A derived policy was charged for.")
        self._say(
            f"\nAnd a further policy, [bold]{SPARING}[/], from the noisy counts that {COUNTS} drew: its reward takes "
            "half a point off for every vasopressor. No patient is read again: [bold]further ρ = 0[/]."
        )
        return str(found["id"])

    def _decisions(self, analyst: Client, made: dict[str, str], counted: Policy) -> None:
        self._chapter("What the policies decide on admission")
        table = _table("lactate", "pressure", "clinicians", *_POLICIES)
        for state in range(len(self.clinic.first)):
            (lactate,), (mean,) = simulation.measurements(np.array([state]), np.full((2, 1), 0.5))
            asked = dict.fromkeys(_POLICIES, state) | {LINEAR: {"lactate": float(lactate), "pressure": float(mean)}}
            told = [_told(analyst.decide(made[name], 1, asked[name])) for name in _POLICIES]
            table.add_row(*simulation.levels(state), simulation.LABELS[self.clinic.habit[state].argmax()], *told)
        self.console.print(table)
        assert isinstance(counted.rule, policies.Table)
        learned = counted.rule.learned
        self._say(
            f"Of its {learned.size} decisions {COUNTS} learned {learned.sum()}. The others, marked *, are its "
            "[italic]fallback[/]: where it saw too few patients it says so, and does what was done most "
            "often, by its noisy counts."
        )

    def _worth(self, learned: dict[str, Policy]) -> None:
        self._chapter("What they are worth, by the clinic's own table of chances")
        clinic = self.clinic
        habit = np.repeat(clinic.habit[None], clinic.horizon, axis=0)
        copying, best = "copying their usual choice", "the best there is"
        days = {"the clinicians": habit, copying: np.eye(len(simulation.LABELS))[habit.argmax(axis=2)]}
        days |= {name: simulation.choices(clinic, policy) for name, policy in learned.items()}
        days[best] = clinic.best(clinic.stable)
        given = np.broadcast_to(_VASOPRESSOR.astype(float), clinic.stable.shape)
        stable = {name: _HOURS * clinic.value(chosen, clinic.stable) for name, chosen in days.items()}
        table = _table("a patient's first day under", right=("stable hours", "alive", "vasopressor hours"))
        for name, chosen in days.items():
            cells = f"{stable[name]:.1f}", f"{clinic.alive(chosen):.1%}", f"{_HOURS * clinic.value(chosen, given):.1f}"
            table.add_row(name, *cells, style="bold" if name in learned else None)
        self.console.print(table)
        possible = stable[best] - stable[copying]
        for name in learned:
            gain = stable[name] - stable[copying]
            said = f"gains {gain:.1f} stable hours over copying, {gain / possible:.0%} of what can be gained."
            if gain <= 0:
                said = f"does [bold]not[/] beat copying: {self.patients} patients are too few for it at this ρ."
            self._say(f"{name} {said}")

    def _cost(self, custodian: Client, datasets: tuple[str, str], before: Budget) -> None:
        self._chapter("What it cost")
        after, other = (custodian.budget(dataset) for dataset in datasets)
        _expect(after == other, "Two datasets of one population show two budgets.")
        spent = sum(map(Fraction, _PRICES.values()))
        _expect(Fraction(after.charged) == spent, f"Charged was {after.charged} where {spent} was planned.")
        table = _table("the population's budget", right=("total ρ", "charged", "remaining", f"ε at δ = {_DELTA}"))
        for name, budget in (("before", before), ("after two trainings", after)):
            amounts = (str(amount) for amount in (budget.total, budget.charged, budget.remaining))
            table.add_row(name, *amounts, _epsilon(budget.document["epsilon"], "charged"))
        self.console.print(table)

    def _refusals(self, people: _People, request: Document, dataset: str) -> None:
        self._chapter("What is refused")
        table = _table("who", "tries to", "is told")
        greedy = request | {"privacy": {"rho": "1"}}
        attempts: tuple[tuple[str, str, int, Callable[[], object]], ...] = (
            ("the analyst", "spend ρ = 1 more", 402, lambda: people.analyst.train(**greedy)),
            ("another analyst", "read the dataset", 404, lambda: people.stranger.dataset(dataset)),
            ("the auditor", "train on it", 403, lambda: people.auditor.train(**request)),
        )
        for who, what, status, attempt in attempts:
            try:
                attempt()
            except Refused as refused:
                _expect(refused.status == status, f"When {who} tried to {what}: {refused}")
                table.add_row(who, what, f"[bold]{refused.status} {refused.code}[/]\n{refused.detail}")
            else:
                raise Surprise(f"Nobody stopped {who}, who tried to {what}.")
        self.console.print(table)

    def _download(self, auditor: Client, made: dict[str, str], dataset: str) -> dict[str, str]:
        self._chapter("The auditor takes the papers along")
        ledger = auditor.ledger(dataset)
        _expect(ledger["intact"], "The ledger does not add up.")
        kinds = " → ".join(row["kind"] for row in ledger["rows"])
        self._say(f"The ledger adds up: {kinds}, each row with the hash of the one before.")
        files = {"keys.json": auditor.certificate_keys(), "ledger.json": json.dumps(ledger, indent=1)}
        for name in _POLICIES:
            found = auditor.policy(made[name])
            files |= {f"{name}.policy.json": found.text, f"{name}.certificate.json": found.certificate}
        for name, text in files.items():
            (self.out / name).write_text(text, encoding="utf-8")
        return files

    def _verify(self, files: dict[str, str]) -> None:
        self._chapter("The service is stopped, its data are gone: checked offline")
        table = _table("policy", "certificate", right=("ρ of its release", "further ρ", f"ε at δ = {_DELTA}"))
        for name in _POLICIES:
            papers = (files[f"{name}.policy.json"], files[f"{name}.certificate.json"], files["keys.json"])
            privacy = certificates.verify(*papers).payload["privacy"]
            _expect(privacy["further_rho"] == _PRICES.get(name, "0"), f"The certificate of {name} has another cost.")
            costs = (privacy["charged_rho"], privacy["further_rho"], _epsilon(privacy["epsilon"]))
            table.add_row(name, "[green]holds[/]", *costs)
        self.console.print(table)
        self._say(f"With one decision changed by hand: [red]refused[/]. {_tampered(files)}\n")
        page = certificate_page.explain(files[f"{COUNTS}.certificate.json"], files["keys.json"])
        (self.out / f"{COUNTS}.certificate.txt").write_text(page, encoding="utf-8")
        self._say(f"From the certificate of {COUNTS}, as its page for an ethics board says it:\n")
        self.console.print(Padding(f"[italic]{_paragraph(page, 'What that means')}[/]", (0, 4)))

    def _leave(self) -> None:
        self._chapter(f"What is left, in {self.out}")
        for name, content in _PAPERS.items():
            self._say(f"  {name:<25}{content}")
        papers = [self.out / f"{COUNTS}.{kind}.json" for kind in ("policy", "certificate")]
        command = f"{_program()} verify {papers[0]} \\\n    {papers[1]} --keys {self.out / 'keys.json'}"
        self._say("\nCheck one yourself:\n")
        self.console.print(command, markup=False, soft_wrap=True)

    def _chapter(self, title: str) -> None:
        self.console.print()
        self.console.rule(f"[bold]{title}", align="left", style="dim")

    def _say(self, text: str) -> None:
        self.console.print(text)


# --- helpers of the story ----------------------------------------------------------------------------------------


def _table(*left: str, right: tuple[str, ...] = ()) -> Table:
    table = Table(*left, box=box.SIMPLE_HEAD, pad_edge=False)
    for name in right:
        table.add_column(name, justify="right", no_wrap=True)
    return table


def _mechanisms(name: str, released: list[Document]) -> Table:
    """A row for each kind of release; what is asked at every step stands in one row."""
    table = _table(f"{name} releases, with noise", right=("numbers", "sensitivity", "noise σ", "ρ"))
    kinds: dict[str, list[Document]] = {}
    for mechanism in released:
        kinds.setdefault(re.sub(r",( each)? step.*", "", mechanism["statistic"]), []).append(mechanism)
    for statistic, group in kinds.items():
        size = "×".join(map(str, [*([len(group)] if len(group) > 1 else []), *group[0]["shape"]]))
        spans = [_span([Fraction(one[field]["value"]) for one in group]) for field in ("sensitivity", "scale")]
        cost = float(sum(Fraction(one["rho"]) for one in group))
        table.add_row(statistic, size, *spans, f"{cost:.4g}")
    return table


def _span(squares: list[Fraction]) -> str:
    low, high = (f"{math.sqrt(square):.3g}" for square in (min(squares), max(squares)))
    return low if low == high else f"{low} – {high}"


def _epsilon(rows: list[Document], field: str = "epsilon") -> str:
    """At our δ, rounded up like in certificates."""
    (found,) = (Fraction(row[field]) for row in rows if float(row["delta"]) == float(_DELTA))
    return f"{math.ceil(1000 * found) / 1000:.3f}"


def _told(decision: Document) -> str:
    return f"{decision['label']} *" if decision["source"] == policies.FALLBACK else str(decision["label"])


def _tampered(files: dict[str, str]) -> str:
    """Why a policy with another decision in it does not pass."""
    document = json.loads(files[f"{COUNTS}.policy.json"])
    document["decisions"][0][0] = (document["decisions"][0][0] + 1) % document["actions"]["count"]
    try:
        certificates.verify(json.dumps(document), files[f"{COUNTS}.certificate.json"], files["keys.json"])
    except errors.InvalidCertificate as refusal:
        return str(refusal)
    raise Surprise("A policy that was changed by hand passed as certified.")


def _paragraph(page: str, heading: str) -> str:
    _, text = page.split(f"{heading}\n", 1)
    return " ".join(line.strip() for line in itertools.takewhile(lambda line: line.startswith(" "), text.splitlines()))


def _program() -> str:
    """This program, as it was called."""
    return sys.argv[0] if Path(sys.argv[0]).name == "discretion" else f"{sys.executable} -m discretion"
