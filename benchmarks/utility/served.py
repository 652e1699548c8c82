"""What is promised about `auto`, measured as a user would: over HTTP, default parameters, fresh seeds, exact values.

Each line names a problem, a size and what is promised for each ρ. Several datasets of each size are uploaded and
trained on once at each ρ. Of every line two more things are promised: at ρ = 0.1 its policies are on average not worth
less than copying the noisy most frequent action, on the same datasets; and ten times the budget does not hurt, which is
tried on a few of them from ρ = 0.01 to 100.
"""

import functools
import json
import math
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet

from benchmarks.utility import glucose, peers, problems, promises, study
from discretion import embedded, simulation
from discretion.client import Client
from discretion.learning import documents, policy
from discretion.learning.schemas import Schema, Vector
from discretion.learning.trajectories import ENDED, Block, Trajectories

SUMMARY: Final = Path(__file__).parent / "served.json"
COPYING: Final = "value, less that of copying"
SMALL: Final = "0.1"  # the ρ at which policies are held against copying
WIDE: Final = tuple(f"{float(rho):g}" for rho in study.WIDE)
FIRST: Final = 700  # seed: nothing was chosen on these, nor looked at before what is reported
_COPIES: Final = 3  # of each dataset's noisy mode, which differ by their noise
Document = dict[str, Any]


def table(block: Block, schema: Schema) -> pa.Table:
    """A block as a hospital would upload it, a row for each step of a stay."""
    horizon, stays = block.actions.shape
    kept = (np.arange(horizon)[:, None] < block.lengths).T  # stay by stay
    step = np.broadcast_to(np.arange(1, horizon + 1), (stays, horizon))[kept]
    stay = np.repeat(np.arange(stays), block.lengths)
    last = step == block.lengths[stay]
    columns: Document = {"unit": pa.array(stay).cast(pa.string()), "step": step}
    states, final = np.asarray(block.states), np.asarray(block.final)
    moved = np.swapaxes(states, 0, 1)[kept]
    following = np.where(_wide(last, moved), final[stay], np.roll(moved, -1, axis=0))
    for index, name in enumerate(schema.states.columns if isinstance(schema.states, Vector) else ("state",)):
        columns[name] = moved[:, index] if moved.ndim > 1 else moved
        columns[f"next_{name}"] = following[:, index] if moved.ndim > 1 else following
    columns |= {"action": block.actions.T[kept], "reward": block.rewards.T[kept]}
    columns["terminated"] = last & (np.asarray(block.endings) == ENDED)[stay]
    return pa.table(columns)


def _wide(mask: Any, like: Any) -> Any:
    return mask if like.ndim == 1 else mask[:, None]


class Analyst:
    """A service of its own, its custodian and its analyst."""

    def __init__(self, url: str, token: str, folder: Path) -> None:
        admin = Client(url, token, trust_env=False)
        made = [admin.add_key(role, role) for role in ("custodian", "analyst")]
        self._custodian, self._analyst = (Client(url, key["token"], trust_env=False) for key in made)
        self._key, self._folder = made[1]["id"], folder

    def dataset(self, name: str, schema: Schema, block: Block) -> str:
        path = self._folder / "upload.parquet"
        pyarrow.parquet.write_table(table(block, schema), path)
        public = documents.schema_document(schema)
        dataset = self._custodian.add_dataset(name, budget={"rho": "100000"}, **public)["id"]
        self._custodian.upload(dataset, path)
        self._custodian.add_grant(dataset, self._key, "100000")
        return str(dataset)

    def learn(self, dataset: str, rho: str, parameters: Document | None = None) -> policy.Policy:
        return self._analyst.train(dataset, rho=rho, parameters=parameters or {}).rule


@contextmanager
def analyst() -> Iterator[Analyst]:
    with tempfile.TemporaryDirectory(prefix="discretion-utility-") as name:
        folder = Path(name)
        with embedded.service(folder) as (url, token):
            yield Analyst(url, token, folder)


@dataclass(frozen=True)
class AtLeast:
    """The mean reaches it."""

    bound: float

    def held(self, values: list[float]) -> bool:
        return float(np.mean(values)) >= self.bound

    def __str__(self) -> str:
        return f"≥ {self.bound}"


@dataclass(frozen=True)
class AtMost:
    """The mean stays within it."""

    bound: float

    def held(self, values: list[float]) -> bool:
        return float(np.mean(values)) <= self.bound

    def __str__(self) -> str:
        return f"≤ {self.bound}"


@dataclass(frozen=True)
class Rarely:
    """No more than one run in so many is below it."""

    bound: float
    runs: int

    def held(self, values: list[float]) -> bool:
        return self.runs * sum(value < self.bound for value in values) <= len(values)

    def __str__(self) -> str:
        return f"below {self.bound} in no more than 1 of {self.runs} runs"


Goal = AtLeast | AtMost | Rarely
Goals = dict[str, Goal]  # by ρ


@dataclass(frozen=True)
class Line:
    """One problem and size. `value` is what a policy is worth on the dataset with this seed, `copied` the same of the
    noisy mode of these stays, and `figure` makes of a value what the goals are about. `span` lies between a random and
    the best policy."""

    name: str
    told: str  # what the figure is
    size: int
    goals: Goals
    seeds: range
    made: Callable[[int, int], tuple[Schema, Block]]
    value: Callable[[policy.Policy, int], float]
    copied: Callable[[Trajectories, int], float]
    span: Callable[[int], float]
    figure: Callable[[float, int], float] = lambda value, seed: value
    parameters: Callable[[int], Document] = lambda seed: {}
    wide: int = 0  # datasets that are also trained on at every ρ of WIDE

    def rhos(self, seed: int) -> tuple[str, ...]:
        asked = (*self.goals, SMALL, *(WIDE if seed - self.seeds.start < self.wide else ()))
        return tuple(dict.fromkeys(asked))


def _decided(found: policy.Policy) -> Any:
    assert isinstance(found.rule, policy.Table)
    return found.rule.decisions


def _tabular(
    name: str,
    told: str,
    make: Callable[[int], problems.Problem],
    figure: Callable[[float, int], float],
    size: int,
    goals: Goals,
    seeds: range,
    wide: int,
) -> Line:
    return Line(
        name,
        told,
        size,
        goals,
        seeds,
        lambda n, seed: (make(seed).schema, make(seed).sample(n, seed)),
        lambda found, seed: make(seed).value(_decided(found)),
        lambda data, seed: make(seed).value(peers.noisy_mode(data, Fraction(SMALL))),
        lambda seed: make(seed).best - make(seed).uniform,
        figure,
        wide=wide,
    )


def _icu(size: int, goals: Goals, seeds: range, wide: int = 0) -> Line:
    problem = problems.icu_sepsis()
    return _tabular("icu-sepsis", "value", lambda _: problem, lambda value, _: value, size, goals, seeds, wide)


def _shared(make: Callable[[int], problems.Problem], size: int, goals: Goals, seeds: range, wide: int = 0) -> Line:
    """Another instance of the problem for each seed."""
    made = functools.cache(make)
    told = "share of what the best policy gains"
    return _tabular(make(0).name, told, made, lambda value, seed: made(seed).share(value), size, goals, seeds, wide)


def _paper(size: int, goals: Goals, seeds: range, known: bool, wide: int = 0) -> Line:
    def parameters(seed: int) -> Document:
        mdp = simulation.paper_mdp(seed)
        said: Document = {"features": {"kind": "table", "values": mdp.features.values.tolist()}}
        return said | ({"reward": {"table": mdp.rewards.tolist()}} if known else {})

    def made(episodes: int, seed: int) -> tuple[Schema, Block]:
        mdp = simulation.paper_mdp(seed)
        return mdp.schema, simulation.sample(mdp, episodes, np.random.default_rng([77, seed]))

    def copied(data: Trajectories, seed: int) -> float:
        mdp = simulation.paper_mdp(seed)
        mode = peers.noisy_mode(data, Fraction(SMALL))
        return simulation.value(mdp, np.broadcast_to(mode, mdp.kernel.shape[:2]))

    def lacking(value: float, seed: int) -> float:
        return simulation.value(simulation.paper_mdp(seed), None) - value

    return Line(
        f"paper's MDP, {'reward known' if known else 'rewards observed'}",
        "v* − v",
        size,
        goals,
        seeds,
        made,
        lambda found, seed: simulation.value(simulation.paper_mdp(seed), _decided(found)),
        copied,
        lambda seed: lacking(study.uniform(simulation.paper_mdp(seed)), seed),
        lacking,
        parameters,
        wide,
    )


def _glucose(size: int, goals: Goals, seeds: range, wide: int = 0) -> Line:
    simulator = glucose.SIMULATOR
    return Line(
        "glucose",
        "share of what a not private policy gains",
        size,
        goals,
        seeds,
        lambda n, seed: (simulator.schema, simulator.sample(n, seed)),
        lambda found, seed: simulator.value(found),
        lambda data, seed: simulator.value(simulator.noisy_mode(data, Fraction(SMALL))),
        lambda seed: simulator.reference(size, seed) - simulator.uniform(),
        lambda value, seed: simulator.share(value, size, seed),
        wide=wide,
    )


def lines(sample: bool) -> list[Line]:
    few = range(study.TRIED, study.TRIED + 1)
    five, ten, twenty, forty = (range(FIRST, FIRST + many) for many in (5, 10, 20, 40))
    if sample:
        return [
            _icu(5_000, {"1": AtLeast(0.70)}, few),
            _shared(problems.random_mdp, 5_000, {"1": AtLeast(0.7)}, few),
        ]
    return [
        _icu(5_000, {"0.1": Rarely(0.687, 40), "1": AtLeast(0.715)}, forty, 5),
        _icu(20_000, {"0.1": AtLeast(0.725), "1": AtLeast(0.745)}, five, 5),
        _icu(50_000, {"0.1": AtLeast(0.743), "1": AtLeast(0.758)}, five, 5),
        _icu(200_000, {"0.1": AtLeast(0.767), "1": AtLeast(0.774)}, five, 5),
        _paper(1_000, {"1": AtMost(0.50)}, ten, known=False, wide=5),
        _paper(10_000, {"1": AtMost(0.015)}, ten, known=False, wide=5),
        _paper(1_000, {"1": AtMost(0.08)}, ten, known=True, wide=5),
        _paper(10_000, {"1": AtMost(0.006)}, ten, known=True, wide=5),
        _glucose(1_000, {"1": AtLeast(0.85)}, twenty, 5),
        _glucose(10_000, {"1": AtLeast(0.95)}, five, 5),
        _shared(problems.random_mdp, 5_000, {"1": AtLeast(0.80)}, forty, 5),
        _shared(problems.grid, 5_000, {"1": AtLeast(0.62)}, ten, 5),
    ]


@dataclass(frozen=True)
class Measured:
    """What the policies of a line are worth: by ρ, and by seed. And what copying is, at SMALL."""

    line: Line
    values: dict[str, dict[int, float]]
    copied: dict[int, float]

    def rows(self) -> list[Document]:
        wide = [self.budget()] if self.line.wide else []
        return [*(self.promise(rho) for rho in self.line.goals), self.copying(), *wide]

    def promise(self, rho: str) -> Document:
        goal = self.line.goals[rho]
        found = [self.line.figure(value, seed) for seed, value in self.values[rho].items()]
        return self._row(self.line.told, rho, found, str(goal), goal.held(found))

    def copying(self) -> Document:
        """By how much the policies are worth more than copying, in the rewards' unit."""
        goal = AtLeast(-promises.FLOOR)
        found = [value - self.copied[seed] for seed, value in self.values[SMALL].items()]
        return self._row(COPYING, SMALL, found, str(goal), goal.held(found))

    def budget(self) -> Document:
        """What ten times the budget gained at least, in the rewards' unit; below 0, it lost."""
        seeds = list(self.line.seeds)[: self.line.wide]
        span = float(np.mean([self.line.span(seed) for seed in seeds]))
        each = {float(rho): np.array([self.values[rho][seed] for seed in seeds]) for rho in WIDE}
        found = promises.changes(each)
        worst = min(found, key=lambda one: one.gained)
        row = self._row("gain by ten times the budget, the least", f"{WIDE[0]} to {WIDE[-1]}", [], promises.GOAL, True)
        row |= {"mean": round(worst.gained, 4), "error": round(worst.error, 4), "runs": len(WIDE) * len(seeds)}
        means = {rho: round(float(each[float(rho)].mean()), 4) for rho in WIDE}
        return row | {"held": not any(one.hurts(span) for one in found), "values": [], "means": means}

    def _row(self, told: str, rho: str, found: list[float], goal: str, held: bool) -> Document:
        error = float(np.std(found, ddof=1) / math.sqrt(len(found))) if len(found) > 1 else None
        return {
            "problem": f"{self.line.name}: {told}",
            "size": self.line.size,
            "rho": rho,
            "mean": round(float(np.mean(found)), 4) if found else None,
            "error": None if error is None else round(error, 4),
            "runs": len(found),
            "goal": goal,
            "held": held,
            "values": [round(value, 4) for value in found],
        }


def measured(hospital: Analyst, line: Line) -> Measured:
    found = Measured(line, {}, {})
    for seed in line.seeds:
        schema, block = line.made(line.size, seed)
        dataset = hospital.dataset(f"{line.name}, {line.size}, {seed}", schema, block)
        for rho in line.rhos(seed):
            learned = hospital.learn(dataset, rho, line.parameters(seed))
            found.values.setdefault(rho, {})[seed] = line.value(learned, seed)
        data = Trajectories(schema, line.size, [block])
        found.copied[seed] = float(np.mean([line.copied(data, seed) for _ in range(_COPIES)]))
    return found


def _one(sample: bool, index: int) -> list[Document]:
    with analyst() as hospital:
        return measured(hospital, lines(sample)[index]).rows()


def run(sample: bool, only: str | None = None) -> bool:
    """Whether every promise held; `only` one problem, beside what is stored. As many services at once as there are
    processors: most of the time results wait for when they are published."""
    rows: list[Document] = [] if sample or not SUMMARY.exists() else json.loads(SUMMARY.read_text(encoding="utf-8"))
    wanted = [(index, line) for index, line in enumerate(lines(sample)) if only in (None, line.name)]
    with study.pool() as processes:
        asked = [processes.submit(_one, sample, index) for index, _ in wanted]
        for (_, line), each in zip(wanted, asked, strict=True):
            found = each.result()
            kept = [row for row in rows if (row["problem"].split(":")[0], row["size"]) != (line.name, line.size)]
            rows = kept + found
            for row in found:
                print(json.dumps(row, ensure_ascii=False), flush=True)
            if not sample:
                SUMMARY.write_text(json.dumps(rows, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return all(row["held"] for row in rows)
