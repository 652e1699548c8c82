"""What simulators of vector states have in common: stays drawn from public seeds, and what policies are worth there.

A simulator says how a stay begins, moves, pays and ends, what of it is recorded, and how its clinician chooses. Stays
may end early, and values may be missing. Policies are valued on the same stays, so that differences are paired.

What a private policy is compared with:

* the clinician who made the data;
* `not_private`: fitted Q-iteration on the same stays, no noise, with the features that ρ = 1 has there and the
  simulator's best constants on other seeds;
* `noisy_mode`: all of ρ spent on what is usually done, which a learner must beat to be of use.
"""

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Final

import numpy as np

from discretion.learning import features as maps
from discretion.learning import learners, policy, vapvi_stationary, whereabouts
from discretion.learning.curator import Concentrated, Curator
from discretion.learning.schemas import BoolArray, FloatArray, IntArray, Schema, Vector
from discretion.learning.trajectories import CUT_BEFORE, ENDED, Block, Trajectories

ONE: Final = Fraction(1)
_EPISODES: Final = 20_000  # a policy is valued on
_AGAIN: Final = 1  # another stream of the judge
_CUT: Final = 0.5  # of the width of rewards

Choose = Callable[[int, FloatArray, np.random.Generator], IntArray]
Moved = tuple[FloatArray, FloatArray, BoolArray]  # following states, rewards, whether the stay ended


def never(states: FloatArray) -> BoolArray:
    return np.zeros(len(states), dtype=np.bool_)


def as_it_is(states: FloatArray, draw: np.random.Generator) -> FloatArray:
    return states


@dataclass(frozen=True, eq=False)
class Greedy:
    """The best supported action by fitted Q-iteration."""

    features: maps.Blocks
    weights: FloatArray  # (A, p)
    shares: FloatArray  # (A, p) how often the doctors take an action, regressed on the features
    support: float

    def __call__(self, step: int, states: FloatArray, draw: np.random.Generator) -> IntArray:
        return np.asarray(self.scores(self.features.psi(states) / maps.ONE).argmax(axis=1))

    def supported(self, psi: FloatArray) -> BoolArray:  # (R, p) → (R, A)
        share = psi @ self.shares.T
        least = self.support * np.maximum(share.max(axis=1, keepdims=True), 0.0)
        return np.asarray((share >= least) | (self.support == 0.0))

    def scores(self, psi: FloatArray) -> FloatArray:  # (R, p) → (R, A)
        return np.where(self.supported(psi), psi @ self.weights.T, -np.inf)


@dataclass(frozen=True, eq=False)
class Simulator:
    """`streams` are the seeds of data and of the judge; the last three are the best constants of `not_private`."""

    name: str
    schema: Schema
    begun: Callable[[np.random.Generator, int], FloatArray]
    moved: Callable[[FloatArray, IntArray, np.random.Generator], Moved]
    clinician: Choose
    streams: tuple[int, int]
    seen: Callable[[FloatArray, np.random.Generator], FloatArray] = as_it_is
    discount: float = 0.9
    ridge: float = 0.1
    support: float = 0.2

    @property
    def vector(self) -> Vector:
        assert isinstance(self.schema.states, Vector)
        return self.schema.states

    def sample(self, episodes: int, seed: int, choose: Choose | None = None) -> Block:
        return self.run(np.random.default_rng([self.streams[0], seed]), episodes, choose or self.clinician)

    def run(self, draw: np.random.Generator, episodes: int, choose: Choose) -> Block:
        horizon = self.schema.horizon
        states = np.empty((horizon + 1, episodes, len(self.vector.columns)))
        actions, rewards = np.empty((horizon, episodes), dtype=np.int64), np.zeros((horizon, episodes))
        lengths, endings = np.full(episodes, horizon), np.full(episodes, CUT_BEFORE)
        here, staying = self.begun(draw, episodes), np.ones(episodes, dtype=np.bool_)
        for step in range(horizon):
            # A stream each, so that two policies meet the same meals and the same noise.
            choosing, moving = (np.random.default_rng(draw.integers(2**62)) for _ in range(2))
            states[step] = self.seen(here, choosing)
            actions[step] = choose(step, states[step], choosing)
            here, paid, ended = self.moved(here, actions[step], moving)
            rewards[step] = np.where(staying, paid, 0.0)
            over = staying & ended
            lengths[over], endings[over] = step + 1, ENDED
            staying &= ~ended
        states[-1] = self.seen(here, np.random.default_rng(draw.integers(2**62)))
        return Block(np.arange(episodes), lengths, states[:-1], actions, rewards, endings, states[-1])

    def data(self, episodes: int, seed: int) -> Trajectories:
        return Trajectories(self.schema, episodes, [self.sample(episodes, seed)])

    def valued(self, choose: Choose, episodes: int = _EPISODES) -> float:
        """The mean total reward of a way to choose, on the judge's stays."""
        return float(self.run(np.random.default_rng(self.streams[1]), episodes, choose).rewards.sum(axis=0).mean())

    def value(self, found: policy.Policy) -> float:
        return self.valued(lambda step, states, _: found.judge(step + 1, states)[0])

    def copied(self) -> float:
        """What the clinician is worth."""
        return _copied(self)

    def received(self) -> float:
        """The same from fifty times as many stays, for intervals that are narrower than what `copied` is off by."""
        return _received(self)

    def uniform(self) -> float:
        return self.valued(lambda _, states, draw: draw.integers(0, self.schema.actions, len(states)))

    def not_private(
        self,
        episodes: int,
        seed: int,
        features: maps.Blocks,
        rounds: int = 60,
        discount: float | None = None,
        ridge: float | None = None,
        support: float | None = None,
        cut: float = math.inf,
    ) -> Greedy:
        return _fitted(
            self.sample(episodes, seed),
            features,
            rounds,
            self.discount if discount is None else discount,
            self.ridge if ridge is None else ridge,
            self.support if support is None else support,
            cut,
        )

    def reference(self, episodes: int, seed: int) -> float:
        """What learning without privacy reaches from these stays, with the features that ρ = 1 has there: the better of
        plain fitted Q-iteration and one whose residuals are cut, so that rare ones do not decide."""
        return _reference(self, episodes, seed)

    def share(self, value: float, episodes: int, seed: int) -> float:
        """How much of what learning without privacy gains over the clinician this value is."""
        return (value - self.copied()) / (self.reference(episodes, seed) - self.copied())

    def shared(self, values: Sequence[float], episodes: int, seeds: Sequence[int]) -> tuple[float, float]:
        """The same of several datasets, and its standard error: what all gain over what all could. A mean of shares
        would count the datasets most from which little can be learned."""
        gained = np.array(values) - self.copied()
        possible = np.array([self.reference(episodes, seed) for seed in seeds]) - self.copied()
        ratio = float(gained.mean() / possible.mean())
        error = (gained - ratio * possible).std(ddof=1) / possible.mean() / np.sqrt(len(gained))
        return ratio, float(error)

    def noisy_mode(self, data: Trajectories, rho: Fraction) -> policy.Policy:
        """What is usually done, regressed on the features that `auto` would take, with all of ρ but a fiftieth."""
        features = maps.usual(self.vector, self.schema.actions, data.units, rho)
        parts = whereabouts.parts(self.vector, data.units, rho)
        copying = vapvi_stationary.Parameters(features, rounds=1, shares=vapvi_stationary.COPYING, parts=parts)
        return learners.learn(Curator(data, rho), Concentrated(rho), copying)


@functools.cache
def _copied(simulator: Simulator) -> float:
    return simulator.valued(simulator.clinician)


@functools.cache
def _received(simulator: Simulator) -> float:
    draw = np.random.default_rng([simulator.streams[1], _AGAIN])
    blocks = (simulator.run(draw, _EPISODES, simulator.clinician) for _ in range(50))
    return float(np.mean([block.rewards.sum(axis=0).mean() for block in blocks]))


@functools.cache
def _reference(simulator: Simulator, episodes: int, seed: int) -> float:
    features = maps.usual(simulator.vector, simulator.schema.actions, episodes, Fraction(1))
    cuts = (math.inf, _CUT * simulator.schema.width)
    return max(simulator.valued(simulator.not_private(episodes, seed, features, cut=cut)) for cut in cuts)


def _fitted(
    block: Block, features: maps.Blocks, rounds: int, discount: float, ridge: float, support: float, cut: float
) -> Greedy:
    horizon = len(block.actions)
    steps = np.arange(horizon)[:, None]
    kept, last = steps < block.lengths, steps == block.lengths - 1
    path = np.concatenate([block.states, block.final[None]])
    after = np.where((last & (block.lengths < horizon))[..., None], block.final, path[1:])
    here, following = (features.psi(states[kept]) / maps.ONE for states in (path[:-1], after))
    actions, rewards = block.actions[kept], block.rewards[kept]
    going = ~(last & (block.endings == ENDED))[kept]
    chosen, small = [actions == action for action in range(features.actions)], ridge * np.eye(features.width)
    inverse = [np.linalg.inv(here[rows].T @ here[rows] + small) for rows in chosen]
    shares = np.linalg.solve(here.T @ here + small, np.stack([here[rows].sum(axis=0) for rows in chosen], axis=1)).T
    found = Greedy(features, np.zeros((features.actions, features.width)), shares, support)
    allowed = found.supported(following)
    for _ in range(rounds):
        best = np.where(allowed, following @ found.weights.T, -np.inf).max(axis=1)
        target = rewards + discount * np.where(going, best, 0.0)
        missed = np.clip(target - (here * found.weights[actions]).sum(axis=1), -cut, cut)
        changes = [i @ (here[rows].T @ missed[rows]) for i, rows in zip(inverse, chosen, strict=True)]
        found = replace(found, weights=found.weights + np.stack(changes))
    return found
