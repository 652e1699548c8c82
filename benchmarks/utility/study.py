"""Every learner on every public problem: several sizes and ρ, several datasets and draws of noise, exact values.

Seeds 0, 1, … are the reported ones; constants were chosen on seeds from 1000 on. Results go to study.json, one row for
each problem, size, ρ and method: mean, standard error over datasets, and the number of runs.
"""

import json
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

import numpy as np

from benchmarks.utility import cql, glucose, peers, problems
from benchmarks.utility.problems import Problem
from discretion import simulation
from discretion.learning import apvi_stationary, baselines, forms, learners, pae, policy, rewards, vapvi
from discretion.learning import auto as choosing
from discretion.learning import features as maps
from discretion.learning.curator import Concentrated, Curator
from discretion.learning.learners import Parameters
from discretion.learning.trajectories import Schema, Trajectories

SUMMARY: Final = Path(__file__).with_suffix(".json")
RHOS: Final = (Fraction(1, 10), Fraction(1), Fraction(10))
WIDE: Final = (Fraction(1, 100), Fraction(1, 10), Fraction(1), Fraction(10), Fraction(100))
_CQL_EPISODES: Final = 20_000  # beyond that the peer takes hours

Document = dict[str, Any]


@dataclass(frozen=True)
class Found:
    """One policy's worth."""

    method: str
    rho: Fraction | None
    value: float


def learned(data: Trajectories, rho: Fraction, parameters: Parameters) -> policy.Policy:
    return learners.learn(Curator(data, rho), Concentrated(rho), parameters)


def chosen(schema: Schema, units: int, rho: Fraction, given: Document | None = None) -> Parameters:
    """What `auto` takes."""
    found = choosing.choose(schema, units, Concentrated(rho), given or {})
    return forms.read(found.algorithm, found.parameters, schema)


def _decided(found: policy.Policy) -> Any:
    assert isinstance(found.rule, policy.Table)
    return found.rule.decisions


@dataclass(frozen=True)
class Cell:
    """A problem at a size; `runs` yields everything measured on the dataset with this seed."""

    problem: str
    size: int
    seeds: range
    runs: Callable[[int], Iterator[Found]]


def tabular(make: Callable[[int], Problem], size: int, seeds: range, draws: int, *, peer: bool = False) -> Cell:
    """`make` gives the problem of a seed: always the same one, or another instance."""

    def runs(seed: int) -> Iterator[Found]:
        problem = make(seed)
        block = problem.sample(size, seed)
        data = Trajectories(problem.schema, size, [block])
        yield Found("behaviour", None, problem.copied)
        yield Found("best", None, problem.best)
        yield Found("not private", None, peers.not_private(problem, block))
        if peer and seed == 0 and size <= _CQL_EPISODES:
            yield Found("d3rlpy CQL, not private", None, problem.value(cql.learn(problem, block).decisions))
        for rho in WIDE:
            methods = {"auto": chosen(problem.schema, size, rho)}
            if rho in RHOS:
                methods |= {"DP-PAE": pae.Parameters(), "DP-APVI, first visits": apvi_stationary.Parameters()}
            for name, parameters in methods.items():
                for _ in range(draws):
                    yield Found(name, rho, problem.value(_decided(learned(data, rho, parameters))))
            for _ in range(draws if rho in RHOS else 1):
                yield Found("noisy most frequent action", rho, problem.value(peers.noisy_mode(data, rho)))

    return Cell(make(0).name, size, seeds, runs)


def linear(size: int, seeds: range, draws: int) -> Cell:
    """The paper's MDP: v* − v."""

    def runs(seed: int) -> Iterator[Found]:
        mdp = simulation.paper_mdp(seed)
        data = Trajectories(mdp.schema, size, [simulation.sample(mdp, size, np.random.default_rng([78, seed]))])
        best = simulation.value(mdp, None)

        def loss(found: policy.Policy) -> float:
            return best - simulation.value(mdp, _decided(found))

        yield Found("VAPVI, not private", None, loss(baselines.vapvi(data, mdp.features)))
        known = rewards.Known(mdp.rewards)
        for rho in WIDE:
            methods: dict[str, Parameters] = {"auto": vapvi.Parameters(mdp.features)}
            if rho in RHOS:
                methods["DP-VAPVI, the paper's calibration"] = vapvi.Parameters(mdp.features, calibration="paper")
                methods["auto, reward known"] = vapvi.Parameters(mdp.features, reward=known)
            for name, parameters in methods.items():
                for _ in range(draws):
                    yield Found(name, rho, loss(learned(data, rho, parameters)))

    return Cell("paper's MDP: v* − v", size, seeds, runs)


def vector(size: int, seeds: range, draws: int) -> Cell:
    def runs(seed: int) -> Iterator[Found]:
        data = glucose.data(size, seed)
        yield Found("behaviour", None, glucose.copied())
        yield Found("not private", None, glucose.reference(size, seed))
        for rho in WIDE:
            methods = {"auto": chosen(glucose.SCHEMA, size, rho)}
            if rho == 1:
                plain = maps.Blocks(glucose.VECTOR, len(glucose.DOSES), ("1", *glucose.VECTOR.columns))
                methods["DP-VAPVI, per step, columns"] = vapvi.Parameters(plain)
            for name, parameters in methods.items():
                for _ in range(draws):
                    yield Found(name, rho, glucose.value(learned(data, rho, parameters)))

    return Cell("glucose", size, seeds, runs)


def cells(sample: bool) -> list[Cell]:
    if sample:
        return [tabular(problems.random_mdp, 5_000, range(1), 1), linear(1_000, range(1), 1)]
    icu = problems.icu_sepsis()
    five = range(5)
    return [
        *(tabular(lambda _: icu, size, five, 5, peer=True) for size in (5_000, 20_000, 50_000, 200_000)),
        *(tabular(problems.random_mdp, size, five, 5) for size in (1_000, 5_000, 20_000)),
        *(tabular(problems.grid, size, five, 5) for size in (1_000, 5_000, 20_000)),
        *(linear(size, range(10), 3) for size in (1_000, 10_000)),
        *(vector(size, five, 2) for size in (1_000, 10_000)),
    ]


def summary(cell: Cell, found: dict[int, list[Found]]) -> list[Document]:
    """Means over datasets; draws of one dataset are not independent of each other."""
    names = dict.fromkeys((one.method, one.rho) for runs in found.values() for one in runs)
    rows = []
    for method, rho in names:
        each = [
            np.mean(values)
            for runs in found.values()
            if (values := [one.value for one in runs if (one.method, one.rho) == (method, rho)])
        ]
        error = float(np.std(each, ddof=1) / math.sqrt(len(each))) if len(each) > 1 else None
        rows.append(
            {
                "problem": cell.problem,
                "size": cell.size,
                "rho": None if rho is None else float(rho),
                "method": method,
                "mean": round(float(np.mean(each)), 4),
                "error": None if error is None else round(error, 4),
                "runs": sum((one.method, one.rho) == (method, rho) for runs in found.values() for one in runs),
            }
        )
    return rows


def run(sample: bool) -> list[Document]:
    rows: list[Document] = []
    for cell in cells(sample):
        rows += summary(cell, {seed: list(cell.runs(seed)) for seed in cell.seeds})
        print(f"{cell.problem} at {cell.size}: done", flush=True)
        if not sample:
            SUMMARY.write_text(json.dumps(rows, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return rows
