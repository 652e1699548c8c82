"""How often the interval of an evaluation holds the truth: fresh data and fresh noise in every run, exact values.

Each run draws a dataset, takes a policy (learned by `auto` from the first half, or one of four others), judges it on
the second half with DP-FQE at the same ρ, and compares with what the policy is worth. Some of the policies are ones
that the data hardly follow, the best there is, one drawn at random or one that harms: an evaluator has to be honest
about these too.

Results go to coverage.json, one row for each problem, size, ρ and policy: in how many runs the interval held, its mean
half-width, the mean error and its size, all in the unit of the rewards, and the mean of what it says about support.

An evaluation has a second interval, of what patients received. It does not depend on the judged policy, and only one of
the released numbers counts for it. So it is also measured by itself (`received`), a hundred times in each cell.
"""

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

import numpy as np

from benchmarks.utility import glucose, peers, problems, shock, study, windows_vector
from benchmarks.utility.problems import Problem
from benchmarks.utility.vectors import Simulator
from discretion.learning import evaluators, fqe, fqe_vector, judgements, policy
from discretion.learning.asking import Asker
from discretion.learning.curator import Concentrated, Curator
from discretion.learning.schemas import IntArray
from discretion.learning.trajectories import Block, Trajectories

SUMMARY: Final = Path(__file__).with_suffix(".json")
RECEIVED: Final = "what patients received"  # in the place of a policy
POLICIES: Final = ("auto", "noisy most frequent action", "best", "random")
_RANDOM: Final = 4  # a stream of its own
_PLENTY: Final = Fraction(100)
PROMISED: Final = 0.9
_RECEIVED_RUNS: Final = 100
_TRIED: Final = range(study.TRIED, study.TRIED + 2)  # seeds of a sample
_VECTORS: Final = 100  # first seed of what is reported of vector states
_SAMPLED: Final = 0.75  # of all runs of a sample together

Document = dict[str, Any]


@dataclass(frozen=True)
class Cell:
    problem: str
    make: Callable[[int], Problem | Simulator]  # of a seed: always the same one, or another instance
    size: int  # of both halves together
    rho: Fraction
    runs: int
    policies: tuple[str, ...] = POLICIES
    first: int = study.FIRST  # of the reported seeds


@dataclass(frozen=True)
class Judged:
    """One evaluation beside the truth."""

    policy: str
    found: judgements.Evaluation
    truth: float
    behaviour: float
    seconds: float

    @property
    def held(self) -> bool:
        return self.found.low <= self.truth <= self.found.high


def halves(problem: Problem | Simulator, size: int, seed: int) -> tuple[Trajectories, Trajectories]:
    block, half = problem.sample(size, seed), size // 2
    first, second = _columns(block, slice(half)), _columns(block, slice(half, 2 * half))
    return Trajectories(problem.schema, half, [first]), Trajectories(problem.schema, half, [second])


def _columns(block: Block, kept: slice) -> Block:
    steps = {name: getattr(block, name)[:, kept] for name in ("states", "actions", "rewards")}
    rest = {name: getattr(block, name)[kept] for name in ("lengths", "endings", "final")}
    return replace(block, units=np.arange(len(rest["lengths"])), **steps, **rest)


def taken(problem: Problem | Simulator, name: str, data: Trajectories, rho: Fraction, seed: int) -> policy.Policy:
    if name == "auto":
        return study.learned(data, rho, study.chosen(problem.schema, data.units, rho))
    if isinstance(problem, Simulator):
        return harmful(problem, data) if name == "harmful" else problem.noisy_mode(data, rho)
    return _written(problem, name, decided(problem, name, data, rho, seed))


def decided(problem: Problem, name: str, data: Trajectories, rho: Fraction, seed: int) -> IntArray:  # (H, S) or (S,)
    if name == "best":
        return best(problem)
    if name == "random":
        draw = np.random.default_rng([_RANDOM, problem.number, seed])
        return draw.integers(0, problem.schema.actions, problem.schema.count)
    return peers.noisy_mode(data, rho)


def _written(problem: Problem, name: str, decisions: IntArray) -> policy.Policy:
    shape = (problem.horizon, problem.schema.count)
    whole = np.array(np.broadcast_to(decisions, shape))
    return policy.of_table(name, problem.schema, whole, np.ones(shape, dtype=np.bool_), np.zeros(shape))


def harmful(problem: Simulator, data: Trajectories) -> policy.Policy:
    """What is learned, with next to no noise, by taking every reward for its opposite."""
    (low, high), total = problem.schema.reward, problem.schema.total
    opposite = None if total is None else (-total[1], -total[0])
    schema = replace(problem.schema, reward=(-high, -low), total=opposite)
    blocks = [replace(block, rewards=-block.rewards) for block in data.blocks]
    return study.learned(Trajectories(schema, data.units, blocks), _PLENTY, study.chosen(schema, data.units, _PLENTY))


def best(problem: Problem) -> IntArray:  # (H, S)
    found, following = np.zeros((problem.horizon, len(problem.first)), dtype=np.int64), problem.settled
    for step in reversed(range(problem.horizon)):
        q = problem.kernel @ (problem.arrival + following)
        found[step], following = q.argmax(axis=1), np.where(problem.terminal, 0.0, q.max(axis=1))
    return found


def judge(problem: Problem | Simulator, data: Trajectories, rho: Fraction, judged: policy.Policy, name: str) -> Judged:
    began = time.perf_counter()
    found = evaluators.evaluate(Curator(data, rho), Concentrated(rho), evaluators.Parameters(), judged)
    seconds = time.perf_counter() - began
    if isinstance(problem, Simulator):
        return Judged(name, found, problem.value(judged), problem.received(), seconds)
    assert isinstance(judged.rule, policy.Table)
    return Judged(name, found, problem.value(np.asarray(judged.rule.decisions)), problem.copied, seconds)


def measured(cell: Cell, seed: int) -> Iterator[Judged]:
    problem = cell.make(seed)
    training, judging = halves(problem, cell.size, seed)
    for name in cell.policies:
        yield judge(problem, judging, cell.rho, taken(problem, name, training, cell.rho, seed), name)


def received(cell: Cell, seed: int) -> Judged:
    """What patients received, as an evaluation would say it: the same stays, statistic and share of ρ."""
    problem, began = cell.make(seed), time.perf_counter()
    _, data = halves(problem, cell.size, seed)
    evaluator = fqe_vector if isinstance(problem, Simulator) else fqe
    asked = evaluator.queries(problem.schema, data.units, Concentrated(cell.rho), evaluators.Parameters())
    asker = Asker(Curator(data, cell.rho), {query.statistic.name: query.share for query in asked})
    found = judgements.scaled(problem.schema, 0.0, 0.0, judgements.received_of(asker), 1.0)
    held = replace(found, value=found.behaviour, low=found.behaviour_low, high=found.behaviour_high)
    truth = problem.received() if isinstance(problem, Simulator) else problem.copied
    return Judged(RECEIVED, held, truth, truth, time.perf_counter() - began)


def summary(cell: Cell, found: list[Judged]) -> list[Document]:
    rows = []
    for name in dict.fromkeys(one.policy for one in found):
        runs = [one for one in found if one.policy == name]
        errors = np.array([one.found.value - one.truth for one in runs])
        widths = np.array([one.found.high - one.found.low for one in runs])
        received = [one.found.behaviour_low <= one.behaviour <= one.found.behaviour_high for one in runs]
        row = {"problem": cell.problem, "size": cell.size, "rho": float(cell.rho), "policy": name, "runs": len(runs)}
        row |= {"held": sum(one.held for one in runs), "behaviour_held": sum(received)}
        means = {
            "half_width": widths.mean() / 2,
            "error": errors.mean(),
            "error_size": np.sqrt((errors**2).mean()),
            "supported_share": np.mean([one.found.supported_share for one in runs]),
            "truth": np.mean([one.truth for one in runs]),
            "behaviour": np.mean([one.behaviour for one in runs]),
        }
        row |= {key: round(float(value), 4) for key, value in means.items()}
        rows.append(row | {"seconds": round(float(np.mean([one.seconds for one in runs])), 1)})
    return rows


def _always(problem: Simulator) -> Callable[[int], Simulator]:
    return lambda _: problem


def cells(sample: bool) -> list[Cell]:
    tenth, one = Fraction(1, 10), Fraction(1)
    if sample:
        return [Cell("random", problems.random_mdp, 5_000, one, 2)]
    icu = problems.icu_sepsis()
    hard = ("auto", "best")
    vector = ("auto", "harmful")
    outcome = ("auto", "noisy most frequent action", "harmful")
    return [
        *(Cell("grid", problems.grid, 5_000, rho, 100) for rho in (tenth, one)),
        *(Cell("random", problems.random_mdp, 5_000, rho, 100) for rho in (tenth, one)),
        *(Cell("icu-sepsis", lambda _: icu, 5_000, rho, 100, hard) for rho in (tenth, one)),
        *(Cell("icu-sepsis", lambda _: icu, 20_000, rho, 100, hard) for rho in (tenth, one)),
        *(Cell("grid", problems.grid, 1_000, rho, 50, hard) for rho in (tenth, one)),
        *(Cell("random", problems.random_mdp, 1_000, rho, 50, hard) for rho in (tenth, one)),
        *(Cell("windows", problems.windows, 2_000, rho, 100) for rho in (tenth, one)),
        *(Cell("windows", problems.windows, 20_000, rho, 30) for rho in (tenth, one)),
        *(Cell("shock", lambda _: shock.SIMULATOR, 2_000, rho, 100, vector, _VECTORS) for rho in (tenth, one)),
        *(Cell("glucose", lambda _: glucose.SIMULATOR, 2_000, rho, 100, vector, _VECTORS) for rho in (tenth, one)),
        Cell("shock", lambda _: shock.SIMULATOR, 20_000, one, 10, vector, _VECTORS),
        Cell("glucose", lambda _: glucose.SIMULATOR, 20_000, one, 10, vector, _VECTORS),
        *(Cell(each.name, _always(each), 2_000, one, 30, outcome, _VECTORS) for each in windows_vector.ALL),
    ]


def _one(sample: bool, index: int, seed: int) -> list[Judged]:
    return list(measured(cells(sample)[index], seed))


def _received(sample: bool, index: int, seed: int) -> list[Judged]:
    return [received(cells(sample)[index], seed)]


def run(sample: bool, only: str | None = None) -> bool:
    """Whether the promise held in every cell; as many runs at once as there are processors; `only` one problem, beside
    what is stored."""
    return _run(sample, only, _one, lambda cell: range(cell.first, cell.first + cell.runs))


def run_received(sample: bool, only: str | None = None) -> bool:
    """The same of what patients received, which takes minutes."""
    return _run(sample, only, _received, lambda _: range(study.FIRST, study.FIRST + _RECEIVED_RUNS))


def _run(
    sample: bool,
    only: str | None,
    judged: Callable[[bool, int, int], list[Judged]],
    reported: Callable[[Cell], range],
) -> bool:
    rows = [] if sample or not SUMMARY.exists() else json.loads(SUMMARY.read_text(encoding="utf-8"))
    wanted = [(index, cell) for index, cell in enumerate(cells(sample)) if only in (None, cell.problem)]
    with study.pool() as processes:
        waiting = [
            [processes.submit(judged, sample, index, seed) for seed in (_TRIED if sample else reported(cell))]
            for index, cell in wanted
        ]
        for (_, cell), asked in zip(wanted, waiting, strict=True):
            found = summary(cell, [one for run in asked for one in run.result()])
            rows = beside(rows, found)
            for row in found:
                print(json.dumps(row, ensure_ascii=False), flush=True)
            if not sample:
                SUMMARY.write_text(json.dumps(rows, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    if sample:  # so few runs that one or two may miss by chance
        return sum(row["held"] for row in rows) >= _SAMPLED * sum(row["runs"] for row in rows)
    return all(row["held"] >= PROMISED * row["runs"] for row in rows)


def beside(rows: list[Document], found: list[Document]) -> list[Document]:
    """New rows in the place of those about the same; what patients received comes last in its cell."""

    def place(row: Document) -> tuple[Any, ...]:
        return row["problem"], row["size"], row["rho"]

    new = {(*place(row), row["policy"]) for row in found}
    kept = [row for row in rows if (*place(row), row["policy"]) not in new] + found
    cells_of = {here: index for index, here in enumerate(dict.fromkeys(map(place, [*rows, *found])))}
    return sorted(kept, key=lambda row: (cells_of[place(row)], row["policy"] == RECEIVED))
