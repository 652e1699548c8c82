"""The paper's simulated linear MDP, and its Figure 1 again.

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
from typing import Final, Literal

import numpy as np

from discretion import errors
from discretion.learning import baselines, checks, policy, vapvi
from discretion.learning.curator import Concentrated, Curator
from discretion.learning.features import Table
from discretion.learning.trajectories import Block, Discrete, FloatArray, IntArray, Schema, Trajectories, block_of
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
