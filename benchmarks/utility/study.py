"""Every learner on every public problem: several sizes and ρ, several datasets and draws of noise, exact values.

Reported are seeds 300, 301, …: no constant was chosen on them, though two were changed after a run (docs/utility.md
says which). Constants were chosen on seeds from 1000 on, and some after a look at seeds 100 to 199, which were
reported before (docs/utility.md). Whoever tries something takes seeds from 2000 on. Results go to study.json, one row
for each problem, size, ρ and method: the mean of each dataset, their mean and its standard error, and the number of
runs. Two promises are read off it (`promises`): `auto` at ρ = 0.1 is not worse than the noisy most frequent action,
and more budget does not hurt.
"""

import json
import math
import multiprocessing
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

import numpy as np

from benchmarks.utility import cql, glucose, peers, problems, shock
from benchmarks.utility.problems import Problem
from benchmarks.utility.vectors import Simulator
from discretion import simulation
from discretion.learning import apvi, apvi_stationary, baselines, forms, learners, pae, policy, rewards, vapvi
from discretion.learning import auto as choosing
from discretion.learning import features as maps
from discretion.learning.curator import Concentrated, Curator
from discretion.learning.learners import Parameters
from discretion.learning.schemas import FloatArray, Schema
from discretion.learning.trajectories import Block, Trajectories

SUMMARY: Final = Path(__file__).with_suffix(".json")
FIRST: Final = 300  # of the reported seeds
TRIED: Final = 2000  # of the seeds of a sample, and of whatever else is tried
RHOS: Final = (Fraction(1, 10), Fraction(1), Fraction(10))
WIDE: Final = (Fraction(1, 100), Fraction(1, 10), Fraction(1), Fraction(10), Fraction(100))
AUTO, MODE, BEHAVIOUR, BEST = "auto", "noisy most frequent action", "behaviour", "best"
UNIFORM, NOT_PRIVATE, VAPVI = "uniformly random", "not private", "VAPVI, not private"
CQL: Final = "d3rlpy CQL, not private"
PAE, FIRST_VISITS, PER_STEP = "DP-PAE", "DP-APVI, first visits", "DP-APVI, per step"
PRINTED: Final = "DP-APVI, per step, the paper's calibration"
LINEAR, LINEAR_PRINTED = "DP-VAPVI, per step", "DP-VAPVI, the paper's calibration"
CELLS: Final = "DP-VAPVI, per step, a feature for each state and action"
COLUMNS, POOLED = "DP-VAPVI, per step, columns", "DP-VAPVI, pooled"
KNOWN: Final = "auto, reward known"
_PEER_SEEDS: Final = 5  # the peer takes up to minutes each
_MOST_CELLS: Final = 100  # states times actions of which each is given a feature of its own
# By default "tight" has the printed constants too, and plans that cannot learn with them advise this.
_STEPWISE: Final = apvi.Parameters(c2=0.0)

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


def worths(
    methods: dict[str, Parameters], rho: Fraction, draws: int, worth: Callable[[Fraction, Parameters], float]
) -> Iterator[Found]:
    """Each method's runs. Where `auto` takes a learner as it is, its runs are that learner's too."""
    run: list[Parameters] = []
    for parameters in methods.values():
        if parameters in run:
            continue
        run.append(parameters)
        for _ in range(draws):
            value = worth(rho, parameters)
            yield from (Found(other, rho, value) for other in methods if methods[other] == parameters)


def _counting() -> dict[str, Parameters]:
    """The learners of discrete states."""
    printed = apvi.Parameters(calibration="paper")
    return {PAE: pae.Parameters(), FIRST_VISITS: apvi_stationary.Parameters(), PER_STEP: _STEPWISE, PRINTED: printed}


def _cells(schema: Schema) -> dict[str, Parameters]:
    """DP-VAPVI where a feature for each state and action is few: it asks for a matrix of them at every step."""
    states, actions = schema.count, schema.actions
    if states * actions > _MOST_CELLS:
        return {}
    return {CELLS: vapvi.Parameters(maps.Table(np.eye(states * actions).reshape(states, actions, -1)))}


def tabular(make: Callable[[int], Problem], size: int, seeds: range, draws: int, *, peer: bool = False) -> Cell:
    """`make` gives the problem of a seed: always the same one, or another instance."""

    def runs(seed: int) -> Iterator[Found]:
        problem = make(seed)
        block = problem.sample(size, seed)
        data = Trajectories(problem.schema, size, [block])

        def worth(rho: Fraction, given: Parameters) -> float:
            return problem.value(_decided(learned(data, rho, given)))

        yield Found(BEHAVIOUR, None, problem.copied)
        yield Found(UNIFORM, None, problem.uniform)
        yield Found(BEST, None, problem.best)
        yield Found(NOT_PRIVATE, None, peers.not_private(problem, block))
        if peer and seed - seeds.start < _PEER_SEEDS:
            states, actions = problem.behaviour.shape
            yield Found(CQL, None, problem.value(cql.learn(block, block.states, actions, states).by_code()))
        for rho in WIDE:
            methods = {AUTO: chosen(problem.schema, size, rho)}
            if rho in RHOS:
                methods |= _counting() | _cells(problem.schema)
            yield from worths(methods, rho, draws, worth)
            for _ in range(draws):
                yield Found(MODE, rho, problem.value(peers.noisy_mode(data, rho)))

    return Cell(make(seeds.start).name, size, seeds, runs)


def linear(size: int, seeds: range, draws: int, *, peer: bool = False) -> Cell:
    """The paper's MDP: v − v*, which is 0 at best."""

    def runs(seed: int) -> Iterator[Found]:
        mdp = simulation.paper_mdp(seed)
        block = simulation.sample(mdp, size, np.random.default_rng([78, seed]))
        data = Trajectories(mdp.schema, size, [block])
        best = simulation.value(mdp, None)

        def worth(decisions: Any) -> float:
            return simulation.value(mdp, decisions) - best

        def learn(rho: Fraction, given: Parameters) -> float:
            return worth(_decided(learned(data, rho, given)))

        yield Found(BEHAVIOUR, None, _mixed(mdp, mdp.behaviour) - best)
        yield Found(UNIFORM, None, uniform(mdp) - best)
        yield Found(BEST, None, 0.0)
        yield Found(VAPVI, None, worth(_decided(baselines.vapvi(data, mdp.features))))
        if peer and seed - seeds.start < _PEER_SEEDS:
            horizon, states, actions, _ = mdp.kernel.shape
            codes = np.asarray(block.states) + states * np.arange(horizon)[:, None]
            found = cql.learn(block, codes, actions, horizon * states)
            yield Found(CQL, None, worth(found.by_code().reshape(horizon, states)))
        known = rewards.Known(mdp.rewards)
        for rho in WIDE:
            plain = vapvi.Parameters(mdp.features)
            methods: dict[str, Parameters] = {AUTO: plain, KNOWN: vapvi.Parameters(mdp.features, reward=known)}
            if rho in RHOS:
                printed = vapvi.Parameters(mdp.features, calibration="paper")
                methods |= {LINEAR: plain, LINEAR_PRINTED: printed} | _counting()
            yield from worths(methods, rho, draws, learn)
            for _ in range(draws):
                mode = peers.noisy_mode(data, rho)
                yield Found(MODE, rho, worth(np.broadcast_to(mode, mdp.kernel.shape[:2])))

    return Cell("paper's MDP", size, seeds, runs)


def uniform(mdp: simulation.LinearMDP) -> float:
    return _mixed(mdp, np.full_like(mdp.behaviour, 1 / simulation.ACTIONS))


def _mixed(mdp: simulation.LinearMDP, chances: FloatArray) -> float:  # (A,)
    """What choosing actions with these chances, whatever the state, is worth."""
    following = np.zeros(simulation.STATES)
    for step in reversed(range(simulation.HORIZON)):
        following = (mdp.rewards[step] + mdp.kernel[step] @ following) @ chances
    return float(following.mean())


def vector(problem: Simulator, size: int, seeds: range, draws: int, *, peer: bool = False) -> Cell:
    def runs(seed: int) -> Iterator[Found]:
        block = problem.sample(size, seed)
        data = Trajectories(problem.schema, size, [block])

        def worth(rho: Fraction, given: Parameters) -> float:
            return problem.value(learned(data, rho, given))

        yield Found(BEHAVIOUR, None, problem.copied())
        yield Found(UNIFORM, None, problem.uniform())
        yield Found(NOT_PRIVATE, None, problem.reference(size, seed))
        if peer and seed - seeds.start < _PEER_SEEDS:
            yield Found(CQL, None, _neural(problem, block))
        for rho in WIDE:
            methods = {AUTO: chosen(problem.schema, size, rho)}
            if rho in RHOS:
                plain = maps.Blocks(problem.vector, problem.schema.actions, ("1", *problem.vector.columns))
                methods |= {POOLED: methods[AUTO], COLUMNS: vapvi.Parameters(plain)}
            yield from worths(methods, rho, draws, worth)
            for _ in range(draws):
                yield Found(MODE, rho, problem.value(problem.noisy_mode(data, rho)))

    return Cell(problem.name, size, seeds, runs)


def _neural(problem: Simulator, block: Block) -> float:
    """What the peer is worth that sees columns on [0, 1], and the middle where one is missing."""
    low, high = problem.vector.low, problem.vector.high

    def observed(states: Any) -> FloatArray:
        return np.asarray(np.nan_to_num((np.asarray(states) - low) / (high - low), nan=0.5))

    found = cql.learn(block, observed(block.states), problem.schema.actions)
    return problem.valued(lambda _, states, __: found.decide(observed(states)))


def cells(sample: bool) -> list[Cell]:
    few = range(TRIED, TRIED + 1)
    five, ten, forty = (range(FIRST, FIRST + many) for many in (5, 10, 40))
    if sample:
        return [tabular(problems.random_mdp, 5_000, few, 1), linear(1_000, few, 1)]
    icu = problems.icu_sepsis()
    return [
        # To the peer 200 000 stays of 716 one-hot states would be 5 GB.
        *(tabular(lambda _: icu, size, five, 5, peer=size < 200_000) for size in (5_000, 20_000, 50_000, 200_000)),
        *(tabular(problems.random_mdp, size, five, 5, peer=True) for size in (1_000, 5_000, 20_000)),
        # With so little, what learning adds is less than what instances differ by: five would tell nothing.
        tabular(problems.grid, 1_000, forty, 5, peer=True),
        *(tabular(problems.grid, size, five, 5, peer=True) for size in (5_000, 20_000)),
        *(tabular(problems.windows, size, five, 5, peer=True) for size in (1_000, 5_000, 20_000)),
        *(linear(size, ten, 5, peer=True) for size in (1_000, 10_000)),
        *(vector(glucose.SIMULATOR, size, five, 5, peer=True) for size in (1_000, 10_000)),
        vector(shock.SIMULATOR, 1_000, five, 5, peer=True),
    ]


def summary(cell: Cell, found: dict[int, list[Found]]) -> list[Document]:
    """Means over datasets; draws of one dataset are not independent of each other."""
    names = dict.fromkeys((one.method, one.rho) for runs in found.values() for one in runs)
    rows = []
    for method, rho in names:
        by_seed = [[one.value for one in runs if (one.method, one.rho) == (method, rho)] for runs in found.values()]
        each = [float(np.mean(values)) for values in by_seed if values]
        rows.append(
            {
                "problem": cell.problem,
                "size": cell.size,
                "rho": None if rho is None else float(rho),
                "method": method,
                "mean": round(float(np.mean(each)), 4),
                "error": _error(each),
                "runs": sum(map(len, by_seed)),
                "each": [round(value, 5) for value in each],
            }
        )
    return rows


def _error(each: list[float]) -> float | None:
    return round(float(np.std(each, ddof=1) / math.sqrt(len(each))), 4) if len(each) > 1 else None


def pool() -> ProcessPoolExecutor:
    """As many processes as processors, each new and with one thread, as are all that it starts: several that divide
    small products among all processors wait for each other most of the time."""
    os.environ |= dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"), "1")
    return ProcessPoolExecutor(os.cpu_count(), mp_context=multiprocessing.get_context("spawn"))


def _one(sample: bool, index: int, seed: int) -> list[Found]:
    return list(cells(sample)[index].runs(seed))


def run(sample: bool, only: str | None = None) -> list[Document]:
    """Every cell, as many datasets at once as there are processors; `only` one problem, beside what is stored."""
    stored = [] if sample or not SUMMARY.exists() else json.loads(SUMMARY.read_text(encoding="utf-8"))
    wanted = [(index, cell) for index, cell in enumerate(cells(sample)) if only in (None, cell.problem)]
    with pool() as processes:
        waiting = [[processes.submit(_one, sample, index, seed) for seed in cell.seeds] for index, cell in wanted]
        for (_, cell), asked in zip(wanted, waiting, strict=True):
            rows = summary(cell, {seed: one.result() for seed, one in zip(cell.seeds, asked, strict=True)})
            kept = [row for row in stored if (row["problem"], row["size"]) != (cell.problem, cell.size)]
            stored = kept + rows
            print(f"{cell.problem} at {cell.size}: done", flush=True)
            if not sample:
                SUMMARY.write_text(json.dumps(stored, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return stored
