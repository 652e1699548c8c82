"""Problems that everybody knows: the paper's simulated linear MDP with its Figure 1, and a clinic that never was.

Everything here is public and made up: problems and data come from a seeded generator, so that a figure can be drawn
again. The noise is the service's own and is never seeded, so private rows differ from run to run. Nothing here can be
given a stored dataset.

The MDP (appendix "Details for the Evaluation part"): two states, a hundred actions, H = 20, and
φ(s, a) = (bits of a, highest first; δ; 1 − δ) ∈ ℝ¹⁰ with δ = 1{1{s = 0} = 1{a = 0}}. Its features reach norm √7 where
the proofs need 1, so here φ is divided by √7 (and θ, unknown to the learner, is multiplied by it). Actions stop at 99,
so the highest bit is never set and the covariance is singular: κ = 0, outside the paper's own coverage assumption.
"""

import csv
import math
from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass, fields
from fractions import Fraction
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
from numpy.typing import NDArray

from discretion import errors
from discretion.learning import baselines, checks, policy, vapvi
from discretion.learning.curator import Concentrated, Curator
from discretion.learning.features import Table
from discretion.learning.schemas import Discrete, FloatArray, IntArray, Schema
from discretion.learning.trajectories import Block, Trajectories, block_of
from discretion.privacy.rho import Rho

HORIZON: Final = 20
STATES: Final = 2
ACTIONS: Final = 100
_SEED: Final = 2022
_PROBLEM, _DATA = 1, 2  # streams of their own: a seed list that only ends in zeros is the same seed
_ANCHOR: Final = 0.6  # how often the behaviour chooses action 0

Calibration = Literal["paper", "tight"]


@dataclass(frozen=True)
class LinearMDP:
    features: Table
    kernel: FloatArray  # (H, S, A, S)
    rewards: FloatArray  # (H, S, A)
    behaviour: FloatArray  # (A,), the same in every state

    @property
    def schema(self) -> Schema:
        return Schema(HORIZON, Discrete(STATES), ACTIONS)


@dataclass(frozen=True)
class Row:
    """One learned policy and what it loses against the best one, exactly."""

    algorithm: str
    rho: str
    episodes: int
    instance: int
    repetition: int
    suboptimality: float


@dataclass(frozen=True)
class Design:
    """What is simulated."""

    episodes: tuple[int, ...] = (5, 10, 20, 50, 100, 200, 500, 1000)
    rhos: tuple[Rho, ...] = (Rho.parse("1"), Rho.parse("10"), Rho.parse("100"))
    instances: int = 2
    repetitions: int = 5
    calibration: Calibration = "paper"

    def __post_init__(self) -> None:
        checks.choice(self.calibration, "calibration", "paper", "tight")
        checks.whole(self.instances, "instances", low=1, high=1000)
        checks.whole(self.repetitions, "repetitions", low=1, high=1000)
        for count in self.episodes:
            checks.whole(count, "episodes", low=1, high=10**7)
        if not self.episodes or not self.rhos:
            raise errors.InvalidParameter("A simulation needs at least one number of episodes and one ρ.")

    @property
    def runs(self) -> int:
        return len(self.episodes) * self.instances * self.repetitions * (2 + len(self.rhos))


def paper_mdp(instance: int) -> LinearMDP:
    """One instance: α_{h,1}, α_{h,2} and r_h uniform in [0, 1]."""
    draw = np.random.default_rng([_SEED, _PROBLEM, instance])
    alpha, r = draw.random((HORIZON, 2)), draw.random(HORIZON)
    states, actions = np.arange(STATES), np.arange(ACTIONS)
    bits = (actions[:, None] >> np.arange(7, -1, -1)) & 1
    delta = ((states[:, None] == 0) == (actions[None, :] == 0)).astype(float)
    phi = np.concatenate([np.broadcast_to(bits, (STATES, ACTIONS, 8)), delta[..., None], 1 - delta[..., None]], axis=2)
    to_zero = alpha[:, 0, None, None] * delta + alpha[:, 1, None, None] * (1 - delta)
    zero, half = np.zeros(HORIZON), 0.5 - r / 2
    theta = np.stack([r / 8, zero, r / 8, half, r / 8, zero, r / 8, zero, r / 2, half], axis=1)
    behaviour = np.full(ACTIONS, (1 - _ANCHOR) / (ACTIONS - 1))
    behaviour[0] = _ANCHOR
    return LinearMDP(
        features=Table(phi / math.sqrt(7)),
        kernel=np.stack([to_zero, 1 - to_zero], axis=3),
        rewards=np.einsum("sad,hd->hsa", phi, theta),
        behaviour=behaviour,
    )


def sample(mdp: LinearMDP, episodes: int, draw: np.random.Generator) -> Block:
    """Episodes of the behaviour, rewards at their expectation."""
    states = np.empty((HORIZON + 1, episodes), dtype=np.int64)
    states[0] = draw.integers(STATES, size=episodes)
    actions = draw.choice(ACTIONS, size=(HORIZON, episodes), p=mdp.behaviour)
    rewards = np.empty((HORIZON, episodes))
    for step in range(HORIZON):
        here = states[step], actions[step]
        rewards[step] = mdp.rewards[step][here]
        states[step + 1] = draw.random(episodes) >= mdp.kernel[step][here][:, 0]
    return block_of(states[:-1], actions, rewards, final=states[-1])


def _first(block: Block, episodes: int) -> Block:
    return block_of(
        block.states[:, :episodes],
        block.actions[:, :episodes],
        block.rewards[:, :episodes],
        final=block.final[:episodes],
    )


def value(mdp: LinearMDP, decisions: IntArray | None) -> float:
    """v^π of a policy, or v* of the best one, from a uniform first state."""
    following = np.zeros(STATES)
    for step in reversed(range(HORIZON)):
        q = mdp.rewards[step] + mdp.kernel[step] @ following
        following = q.max(axis=1) if decisions is None else q[np.arange(STATES), decisions[step]]
    return float(following.mean())


def run(design: Design) -> Iterator[Row]:
    """All rows, one after the other; data of fewer episodes are the first ones of more."""
    for instance in range(design.instances):
        mdp = paper_mdp(instance)
        best = value(mdp, None)
        for repetition in range(design.repetitions):
            block = sample(mdp, max(design.episodes), np.random.default_rng([_SEED, _DATA, instance, repetition]))
            for episodes in design.episodes:
                data = Trajectories(mdp.schema, episodes, [_first(block, episodes)])
                for algorithm, rho, learned in _policies(mdp, data, design):
                    assert isinstance(learned.rule, policy.Table)
                    gap = best - value(mdp, learned.rule.decisions)
                    yield Row(algorithm, rho, episodes, instance, repetition, max(gap, 0.0))


def _policies(mdp: LinearMDP, data: Trajectories, design: Design) -> Iterator[tuple[str, str, policy.Policy]]:
    yield "pevi", "", baselines.pevi(data, mdp.features)
    yield "vapvi", "", baselines.vapvi(data, mdp.features)
    for rho in design.rhos:
        parameters = vapvi.Parameters(mdp.features, calibration=design.calibration)
        curator = Curator(data, rho.exact)
        yield vapvi.NAME, str(rho), vapvi.learn(curator, Concentrated(Fraction(rho.exact)), parameters)


def write(rows: Sequence[Row], path: Path) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([field.name for field in fields(Row)])
        writer.writerows(astuple(row) for row in rows)


# --- a clinic that never was --------------------------------------------------------------------------------------


LABELS: Final = ("wait", "fluids", "vasopressor")
LACTATE: Final = (0.0, 2.0, 4.0, 6.0, 8.0)  # mmol/l, the edges of four levels
PRESSURE: Final = (45.0, 65.0, 85.0, 105.0)  # mean arterial pressure in mmHg, the edges of three levels
_DAY: Final = 6  # steps of four hours
_CLINIC: Final = 3  # a stream of its own
_GRID: Final = 6  # measurements tried along each side of a state
# The chances that lactate rises, that it falls, that the pressure rises, that it falls: (pressure, action, chance).
_MOVES: Final = (
    ((0.35, 0.05, 0.10, 0.30), (0.25, 0.15, 0.15, 0.20), (0.10, 0.35, 0.70, 0.05)),
    ((0.30, 0.10, 0.10, 0.30), (0.08, 0.50, 0.30, 0.15), (0.25, 0.15, 0.30, 0.10)),
    ((0.12, 0.25, 0.00, 0.12), (0.10, 0.40, 0.00, 0.30), (0.45, 0.05, 0.00, 0.20)),
)
_HABIT: Final = ((0.20, 0.60, 0.20), (0.25, 0.60, 0.15), (0.30, 0.55, 0.15))  # (pressure, action)


@dataclass(frozen=True)
class Clinic:
    """Sepsis-like patients on their first day; state = 3·(level of lactate) + (level of pressure), column S is death.

    Low pressure wants a vasopressor and a patient who is well wants nothing, but the habit is fluids for everybody.
    """

    kernel: FloatArray  # (S, A, S+1), the same at every step
    stable: FloatArray  # (S, A), the reward: how stable a patient is, from 0 to 1
    habit: FloatArray  # (S, A), what the clinicians do
    first: FloatArray  # (S,), where the day begins
    horizon: int = _DAY

    def value(self, choices: FloatArray, reward: FloatArray) -> float:  # (H, S, A), (S, A)
        """What a day under these choices is worth on average, exactly."""
        following = np.zeros(self.kernel.shape[2])
        for step in reversed(range(self.horizon)):
            q = reward + self.kernel @ following
            following[:-1] = (choices[step] * q).sum(axis=1)
        return float(self.first @ following[:-1])

    def best(self, reward: FloatArray) -> FloatArray:  # (S, A) → (H, S, A)
        """The choices of whoever knows the kernel."""
        choices = np.zeros((self.horizon, *reward.shape))
        following = np.zeros(self.kernel.shape[2])
        for step in reversed(range(self.horizon)):
            q = reward + self.kernel @ following
            choices[step, np.arange(len(q)), q.argmax(axis=1)] = 1.0
            following[:-1] = q.max(axis=1)
        return choices

    def alive(self, choices: FloatArray) -> float:  # (H, S, A)
        """The chance to be alive at the end of the day."""
        here = self.first
        for chosen in choices:
            here = np.einsum("s,sa,sat->t", here, chosen, self.kernel[:, :, :-1])
        return float(here.sum())


def clinic() -> Clinic:
    levels, pressures, actions = len(LACTATE) - 1, len(PRESSURE) - 1, len(LABELS)
    states = levels * pressures
    kernel = np.zeros((states, actions, states + 1))
    lactate, pressure = np.divmod(np.arange(states), pressures)
    strain = 0.6 * lactate / (levels - 1) + 0.4 * (1 - pressure / (pressures - 1))
    death = 0.12 * strain**2
    for state, action in np.ndindex(states, actions):
        rises, falls, recovers, drops = _MOVES[pressure[state]][action]
        across = _step_by_one(int(lactate[state]), levels, rises, falls)
        along = _step_by_one(int(pressure[state]), pressures, recovers, drops)
        kernel[state, action, :-1] = (1 - death[state]) * np.outer(across, along).ravel()
        kernel[state, action, -1] = death[state]
    first = np.outer((0.04, 0.32, 0.36, 0.28), (0.4, 0.4, 0.2)).ravel()  # hardly anybody comes well
    stable = np.repeat(1 - strain[:, None], actions, axis=1)
    return Clinic(kernel, stable, np.array(_HABIT)[pressure], first)


def _step_by_one(level: int, levels: int, up: float, down: float) -> FloatArray:
    """Chances of the next level; at an edge, what would leave stays."""
    chances = np.zeros(levels)
    chances[level] = 1 - up - down
    chances[min(level + 1, levels - 1)] += up
    chances[max(level - 1, 0)] += down
    return chances


def patients(source: Clinic, count: int, seed: int = 0) -> dict[str, NDArray[Any]]:
    """Everything a made-up hospital wrote down, a row for each patient and step, in columns."""
    draw = np.random.default_rng([_SEED, _CLINIC, seed])
    states = draw.choice(len(source.first), size=count, p=source.first)
    who = np.arange(count)
    rows: list[tuple[NDArray[Any], ...]] = []
    for step in range(1, source.horizon + 1):
        actions = _drawn(source.habit[states], draw)
        measured = measurements(states, draw.random((2, len(states))))
        rows.append((who, np.full(len(who), step), states, *measured, actions, source.stable[states, actions]))
        states = _drawn(source.kernel[states, actions], draw)
        living = states < len(source.first)
        who, states = who[living], states[living]
    columns = [np.concatenate(parts) for parts in zip(*rows, strict=True)]
    order = np.lexsort((columns[1], columns[0]))
    names = ("patient", "step", "state", "lactate", "pressure", "action", "reward")
    return {name: column[order] for name, column in zip(names, columns, strict=True)}


def _drawn(chances: FloatArray, draw: np.random.Generator) -> IntArray:  # (B, N) → (B,)
    return (chances.cumsum(axis=1) < draw.random((len(chances), 1))).sum(axis=1).clip(max=chances.shape[1] - 1)


def measurements(states: IntArray, within: FloatArray) -> tuple[FloatArray, FloatArray]:  # (B,), (2, B)
    """Lactate and pressure at these places within their levels, 0 to 1."""
    levels = np.divmod(states, len(PRESSURE) - 1)
    steps = (LACTATE[1] - LACTATE[0], PRESSURE[1] - PRESSURE[0])
    lactate, pressure = (
        edges[0] + step * (level + place)
        for edges, step, level, place in zip((LACTATE, PRESSURE), steps, levels, within, strict=True)
    )
    return np.round(lactate, 3), np.round(pressure, 2)


def levels(state: int) -> tuple[str, str]:
    """A state in words: its lactate and its pressure."""
    lactate, pressure = divmod(state, len(PRESSURE) - 1)
    return f"{LACTATE[lactate]:g} – {LACTATE[lactate + 1]:g}", f"{PRESSURE[pressure]:g} – {PRESSURE[pressure + 1]:g}"


def export(columns: dict[str, NDArray[Any]], folder: Path) -> tuple[Path, Path]:
    """The files that the clinic's systems would write: states as CSV, measurements as Parquet."""
    units = pa.array([f"patient-{number:05d}" for number in columns["patient"]])
    common = {"unit": units} | {name: columns[name] for name in ("step", "action", "reward")}
    staged, measured = folder / "staged.csv", folder / "measured.parquet"
    pyarrow.csv.write_csv(pa.table(common | {"state": columns["state"]}), staged)
    vector = {name: columns[name] for name in ("lactate", "pressure")}
    pyarrow.parquet.write_table(pa.table(common | vector), measured)
    return staged, measured


def choices(source: Clinic, learned: policy.Policy) -> FloatArray:  # (H, S, A)
    """How often a policy takes each action in each state; measurements are even within their levels."""
    places = (np.arange(_GRID) + 0.5) / _GRID
    within = np.stack(np.meshgrid(places, places)).reshape(2, -1)
    taken = np.zeros((source.horizon, *source.habit.shape))
    for step, state in np.ndindex(taken.shape[:2]):
        asked: list[policy.State] = [state]
        if not isinstance(learned.states, Discrete):
            measured = zip(*measurements(np.full(within.shape[1], state), within), strict=True)
            asked = [{"lactate": float(lactate), "pressure": float(pressure)} for lactate, pressure in measured]
        for one in asked:
            taken[step, state, learned.decide(step + 1, one).action] += 1 / len(asked)
    return taken
