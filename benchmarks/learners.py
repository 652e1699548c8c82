"""The learners beside what they replace: HiGHS, drawing every count, and bare BLAS products."""

import functools
import multiprocessing
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog

from benchmarks.rows import Row, in_turns, peak_megabytes, quickest, quickest_and_largest, row
from benchmarks.utility import cql, problems, study
from discretion import memory
from discretion.learning import apvi, vapvi
from discretion.learning.curator import Concentrated, Curator
from discretion.learning.features import Blocks, FeatureMap, Table
from discretion.learning.schemas import Discrete, FloatArray, Schema, Vector
from discretion.learning.trajectories import Trajectories, block_of
from discretion.privacy import noise


def count_programme() -> Row:
    """All 5000 rows of (H, S, A) = (20, 50, 5) in closed form; HiGHS on a tenth of them, scaled up."""
    draw = np.random.default_rng(1)
    rows, successors, bound = 20 * 50 * 5, 51, 60.0
    totals = np.maximum(draw.normal(200, 100, rows), 0.0)
    counts = np.maximum(draw.normal(4, 9, (rows, successors)), 0.0)
    part = rows // 10

    def highs() -> None:
        for total, noisy in zip(totals[:part], counts[:part], strict=True):
            _solve(total, noisy, bound)

    best = quickest({"ours": lambda: apvi.consistent(totals, counts, bound), "peer": highs})
    return row("count programme, 5000 rows", "s", best["ours"], "scipy HiGHS", best["peer"] * 10, "<= 0.002")


def _solve(total: float, counts: FloatArray, bound: float) -> FloatArray:
    size = len(counts)
    identity, column = np.eye(size), -np.ones((size, 1))
    ones = np.append(np.ones(size), 0.0)[None, :]
    constraints = np.vstack([np.hstack([identity, column]), np.hstack([-identity, column]), ones, -ones])
    limits = np.concatenate([counts, -counts, [total + bound / 2], [bound / 2 - total]])
    solved = linprog(np.append(np.zeros(size), 1.0), A_ub=constraints, b_ub=limits, method="highs")
    return np.asarray(solved.x[:-1])


def _clinic(states: int, actions: int, horizon: int, patients: int) -> Trajectories:
    """Stays that crowd into common states and actions, as in an intensive care unit."""
    draw = np.random.default_rng(2)
    crowd = 1.0 / np.arange(1, states + 1)
    habits = 1.0 / np.arange(1, actions + 1) ** 1.5
    walk = draw.choice(states, size=(horizon + 1, patients), p=crowd / crowd.sum())
    choice = draw.choice(actions, size=(horizon, patients), p=habits / habits.sum())
    reward = (walk[1:] == 0).astype(float)
    return Trajectories(
        Schema(horizon, Discrete(states), actions), patients, [block_of(walk[:-1], choice, reward, final=walk[-1])]
    )


def _training(lazy: bool, report: Any) -> None:
    memory.reuse()  # as a training's process does
    clinic = _clinic(716, 25, 20, 20_000)
    parameters, privacy = apvi.Parameters(), Concentrated(Fraction(1))

    def learn() -> None:
        apvi.learn(Curator(clinic, Fraction(1)), privacy, parameters, lazy=lazy)

    seconds = quickest({"ours": learn}, 3 if lazy else 1)["ours"]
    report.put((seconds, peak_megabytes()))


def _alone(lazy: bool) -> tuple[float, float]:
    """Seconds and peak megabytes of a training in a process of its own."""
    context = multiprocessing.get_context("spawn")
    report = context.Queue()
    child = context.Process(target=_training, args=(lazy, report))
    child.start()
    seconds, megabytes = report.get()
    child.join()
    return seconds, megabytes


def _every_draw() -> tuple[float, float]:
    """Seconds of it; its memory is of no interest."""

    def draw() -> None:
        for _ in range(20 * 25):
            noise.gaussian(Fraction(60), (716, 717))

    return quickest({"draws": draw}, 1)["draws"], 0.0


def lazy_noise() -> list[Row]:
    """DP-APVI at S=716, A=25, H=20, n=20 000, ρ=1, beside the same training with all 257 million counts drawn."""
    works = {"ours": lambda: _alone(lazy=True), "every": lambda: _alone(lazy=False), "draws": _every_draw}
    found = {name: quickest_and_largest(rounds) for name, rounds in in_turns(works).items()}
    (seconds, megabytes), (every, _), (draws, _) = found.values()
    whole = 20 * 716 * 25 * 717 * 8 / 2**20
    where = "DP-APVI, S=716 A=25 H=20 n=20000 ρ=1"
    return [
        row(where, "s", seconds, "the same, drawing every count", every, "<= 0.02"),
        row(f"{where}, peak memory", "MB", megabytes, "every count, as a number of 64 bits", whole, "value < 600"),
        row(where, "s", seconds, "257 million bare draws by the same sampler", draws, "none: for scale"),
    ]


def linear_training() -> list[Row]:
    """DP-VAPVI at K=10⁵, H=20, d=50, all five statistics of every step, beside the products on the same floats."""
    episodes, horizon, actions, width = 100_000, 20, 5, 10
    draw = np.random.default_rng(3)
    choice = draw.integers(actions, size=(horizon, episodes))
    reward = draw.random((horizon, episodes))
    vector = Vector(tuple(f"x{i}" for i in range(width - 1)), ((-1.0, 1.0),) * (width - 1))
    patients = draw.uniform(-1, 1, (horizon + 1, episodes, width - 1))
    places = draw.integers(200, size=(horizon + 1, episodes))
    phi = draw.normal(size=(200, actions, 50))
    table = Table(phi / np.linalg.norm(phi, axis=2, keepdims=True))
    problems: list[tuple[str, FeatureMap, Schema, NDArray[Any]]] = [
        ("table", table, Schema(horizon, Discrete(200), actions), places),
        ("action blocks", Blocks(vector, actions, ("1", *vector.columns)), Schema(horizon, vector, actions), patients),
    ]
    floats = draw.normal(size=(episodes, 50))
    works: dict[str, Callable[[], object]] = {"peer": lambda: _products(floats, reward, horizon)}
    for name, features, schema, states in problems:
        data = Trajectories(schema, episodes, [block_of(states[:-1], choice, reward, final=states[-1])])
        works[name] = functools.partial(_regressed, data, vapvi.Parameters(features, calibration="paper"))
    best = quickest(works)
    peer = best.pop("peer")
    return [
        row(f"DP-VAPVI, K=10⁵ H=20 d=50, {name}", "s", ours, "bare BLAS products, dense", peer, "<= 5")
        for name, ours in best.items()
    ]


def _regressed(data: Trajectories, parameters: vapvi.Parameters) -> None:
    vapvi.learn(Curator(data, Fraction(1)), Concentrated(Fraction(1)), parameters)


def _products(phi: FloatArray, targets: FloatArray, horizon: int) -> None:
    for step in range(horizon):
        for _ in range(2):
            phi.T @ phi
        for _ in range(3):
            phi.T @ targets[step]


def beside_a_network() -> Row:
    """What `auto` does with 20 000 stays of ICU-Sepsis at ρ = 1, beside d3rlpy's DiscreteCQL, not private, on the same
    stays: 2000 steps of 256 transitions, which is each transition two or three times."""
    problem, rho = problems.icu_sepsis(), Fraction(1)
    block = problem.sample(20_000, study.TRIED)
    data = Trajectories(problem.schema, 20_000, [block])
    parameters = study.chosen(problem.schema, 20_000, rho)
    ours = {"ours": lambda: study.learned(data, rho, parameters)}
    before = quickest(ours)["ours"]
    states, actions = problem.behaviour.shape
    peer = cql.learn(block, block.states, actions, states).seconds  # once: it takes many seconds
    best = min(before, quickest(ours)["ours"])
    return row("training on ICU-Sepsis, 20 000 stays", "s", best, "d3rlpy DiscreteCQL", peer, "<= 0.02")


def measure() -> list[Row]:
    return [count_programme(), *lazy_noise(), *linear_training(), beside_a_network()]
