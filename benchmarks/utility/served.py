"""What is promised about `auto`, measured as a user would: over HTTP, default parameters, fresh seeds, exact values.

Each line names a problem, a size and what is promised for each ρ. Several datasets of each size are uploaded and
trained on once at each ρ.
"""

import json
import math
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet

from benchmarks.utility import glucose, problems
from benchmarks.utility.study import FIRST
from discretion import embedded, simulation
from discretion.client import Client
from discretion.learning import documents, policy
from discretion.learning.schemas import Schema, Vector
from discretion.learning.trajectories import ENDED, Block

SUMMARY: Final = Path(__file__).parent / "served.json"
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


Goals = dict[str, AtLeast | AtMost | Rarely]  # by ρ


@dataclass(frozen=True)
class Line:
    """One promise; `worth` turns a policy of the dataset with this seed into the figure."""

    name: str
    size: int
    goals: Goals
    seeds: range
    made: Callable[[int, int], tuple[Schema, Block]]
    worth: Callable[[policy.Policy, int], float]
    parameters: Callable[[int], Document] = lambda seed: {}


def _decided(found: policy.Policy) -> Any:
    assert isinstance(found.rule, policy.Table)
    return found.rule.decisions


def _icu(size: int, goals: Goals, seeds: range) -> Line:
    problem = problems.icu_sepsis()
    return Line(
        "icu-sepsis: value",
        size,
        goals,
        seeds,
        lambda n, seed: (problem.schema, problem.sample(n, seed)),
        lambda found, seed: problem.value(_decided(found)),
    )


def _shared(make: Callable[[int], problems.Problem], size: int, goals: Goals, seeds: range) -> Line:
    """Another instance of the problem for each seed."""
    return Line(
        f"{make(0).name}: share of what the best policy gains",
        size,
        goals,
        seeds,
        lambda n, seed: (make(seed).schema, make(seed).sample(n, seed)),
        lambda found, seed: make(seed).share(make(seed).value(_decided(found))),
    )


def _paper(size: int, goals: Goals, seeds: range, known: bool) -> Line:
    def parameters(seed: int) -> Document:
        mdp = simulation.paper_mdp(seed)
        said: Document = {"features": {"kind": "table", "values": mdp.features.values.tolist()}}
        return said | ({"reward": {"table": mdp.rewards.tolist()}} if known else {})

    def made(episodes: int, seed: int) -> tuple[Schema, Block]:
        mdp = simulation.paper_mdp(seed)
        return mdp.schema, simulation.sample(mdp, episodes, np.random.default_rng([77, seed]))

    def worth(found: policy.Policy, seed: int) -> float:
        mdp = simulation.paper_mdp(seed)
        return simulation.value(mdp, None) - simulation.value(mdp, _decided(found))

    told = "reward known" if known else "rewards observed"
    return Line(f"paper's MDP, {told}: v* − v", size, goals, seeds, made, worth, parameters)


def _glucose(size: int, goals: Goals, seeds: range) -> Line:
    return Line(
        "glucose: share of what a not private policy gains",
        size,
        goals,
        seeds,
        lambda n, seed: (glucose.SCHEMA, glucose.SIMULATOR.sample(n, seed)),
        lambda found, seed: glucose.SIMULATOR.share(glucose.SIMULATOR.value(found), size, seed),
    )


def lines(sample: bool) -> list[Line]:
    few, five, ten, forty = (range(FIRST, FIRST + many) for many in (1, 5, 10, 40))
    if sample:
        return [
            _icu(5_000, {"1": AtLeast(0.70)}, few),
            _shared(problems.random_mdp, 5_000, {"1": AtLeast(0.7)}, few),
        ]
    return [
        _icu(5_000, {"0.1": Rarely(0.687, 40), "1": AtLeast(0.715)}, forty),
        _icu(20_000, {"0.1": AtLeast(0.725), "1": AtLeast(0.745)}, five),
        _icu(50_000, {"0.1": AtLeast(0.743), "1": AtLeast(0.758)}, five),
        _icu(200_000, {"0.1": AtLeast(0.767), "1": AtLeast(0.774)}, five),
        _paper(1_000, {"1": AtMost(0.50)}, ten, known=False),
        _paper(10_000, {"1": AtMost(0.015)}, ten, known=False),
        _paper(1_000, {"1": AtMost(0.08)}, ten, known=True),
        _paper(10_000, {"1": AtMost(0.006)}, ten, known=True),
        _glucose(1_000, {"1": AtLeast(0.85)}, ten),
        _glucose(10_000, {"1": AtLeast(0.95)}, five),
        _shared(problems.random_mdp, 5_000, {"1": AtLeast(0.80)}, ten),
        _shared(problems.grid, 5_000, {"1": AtLeast(0.62)}, ten),
    ]


def run(sample: bool, only: str | None = None) -> bool:
    """Whether every promise held; `only` one problem, beside what is stored."""
    wanted = [line for line in lines(sample) if only in (None, line.name.split(":")[0])]
    names = {line.name for line in wanted}
    stored = [] if sample or not SUMMARY.exists() else json.loads(SUMMARY.read_text(encoding="utf-8"))
    rows: list[Document] = [row for row in stored if row["problem"] not in names]
    with analyst() as hospital:
        for line in wanted:
            found: dict[str, list[float]] = {rho: [] for rho in line.goals}
            for seed in line.seeds:
                schema, block = line.made(line.size, seed)
                dataset = hospital.dataset(f"{line.name} {seed}", schema, block)
                for rho in line.goals:
                    learned = hospital.learn(dataset, rho, line.parameters(seed))
                    found[rho].append(line.worth(learned, seed))
            rows += [_row(line, rho, found[rho]) for rho in line.goals]
            for row in rows[-len(line.goals) :]:
                print(json.dumps(row, ensure_ascii=False), flush=True)
    if not sample:
        SUMMARY.write_text(json.dumps(rows, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return all(row["held"] for row in rows)


def _row(line: Line, rho: str, found: list[float]) -> Document:
    error = float(np.std(found, ddof=1) / math.sqrt(len(found))) if len(found) > 1 else None
    return {
        "problem": line.name,
        "size": line.size,
        "rho": rho,
        "mean": round(float(np.mean(found)), 4),
        "error": None if error is None else round(error, 4),
        "runs": len(found),
        "goal": str(line.goals[rho]),
        "held": line.goals[rho].held(found),
        "values": [round(value, 4) for value in found],
    }
