"""A public simulator of insulin dosing whose states are vectors: six bounded variables, five doses, eight hours.

A step is half an hour. Insulin acts over hours and by a sensitivity that differs between patients, meals come by the
time of day, and activity doubles what insulin does. A step pays by the blood glucose that it leads to: 1 near
normal, falling with Kovatchev's risk, which rises steeply towards hypoglycaemia. Risk is far from linear in the state,
and what a dose is worth depends on products of it, so that features (1, x) alone do poorly.

Everything is drawn from public seeds; policies are valued on the same episodes, so that differences are paired.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Final

import numpy as np

from discretion.learning import features as maps
from discretion.learning import policy
from discretion.learning.trajectories import (
    CUT_BEFORE,
    Block,
    BoolArray,
    FloatArray,
    IntArray,
    Schema,
    Trajectories,
    Vector,
)

HORIZON: Final = 16
DOSES: Final = (0.0, 1.0, 2.0, 4.0, 7.0)  # units of insulin
LABELS: Final = ("none", "1 U", "2 U", "4 U", "7 U")
VECTOR: Final = Vector(
    ("glucose", "insulin", "carbohydrates", "activity", "hour", "sensitivity"),
    ((40.0, 400.0), (0.0, 12.0), (0.0, 120.0), (0.0, 1.0), (0.0, 24.0), (0.4, 2.0)),
)
SCHEMA: Final = Schema(HORIZON, VECTOR, len(DOSES), (0.0, 1.0))
_DATA, _JUDGE = 11, 12  # streams of their own
_EPISODES: Final = 20_000  # a policy is valued on; the standard error of a difference is below .01

Choose = Callable[[int, FloatArray, np.random.Generator], IntArray]


def risk(glucose: FloatArray) -> FloatArray:
    """Kovatchev's risk of a blood glucose in mg/dl: 0 at 112, 20 at 54 and at 300 or so."""
    return np.asarray(10.0 * (1.509 * (np.log(glucose) ** 1.084 - 5.381)) ** 2)


def _begun(draw: np.random.Generator, episodes: int) -> FloatArray:  # (B, 6)
    return np.stack(
        [
            draw.uniform(70.0, 320.0, episodes),
            draw.uniform(0.0, 3.0, episodes),
            draw.uniform(0.0, 40.0, episodes),
            draw.beta(1.0, 4.0, episodes),
            draw.uniform(0.0, 24.0, episodes),
            np.clip(np.exp(draw.normal(0.0, 0.4, episodes)), 0.4, 2.0),
        ],
        axis=1,
    )


def _moved(states: FloatArray, actions: IntArray, draw: np.random.Generator) -> FloatArray:
    glucose, insulin, carbohydrates, activity, hour, sensitivity = states.T
    size = len(states)
    insulin = insulin + np.array(DOSES)[actions]
    acting, absorbed = 0.35 * insulin, 0.4 * carbohydrates
    dawn = 6.0 * np.exp(-0.5 * ((hour - 6.0) / 2.0) ** 2)
    fall = 26.0 * sensitivity * acting * (1.0 + activity)
    # Low glucose calls up the body's own reserves, high glucose is lost through the kidneys.
    glucose = glucose + 2.6 * absorbed + 5.0 + dawn - fall + 0.5 * np.maximum(80.0 - glucose, 0.0)
    glucose = glucose - 0.08 * np.maximum(glucose - 200.0, 0.0) + draw.normal(0.0, 9.0, size)
    mealtime = sum(np.exp(-0.5 * ((hour - at) / 0.7) ** 2) for at in (7.5, 12.5, 19.0))
    meal = (draw.random(size) < 0.05 + 0.6 * mealtime) * draw.uniform(15.0, 60.0, size)
    active = np.clip(0.7 * activity + (draw.random(size) < 0.12) * draw.uniform(0.2, 0.8, size), 0.0, 1.0)
    drift = sensitivity * np.exp(draw.normal(0.0, 0.03, size))
    following = np.stack(
        [glucose, insulin - acting, carbohydrates - absorbed + meal, active, (hour + 0.5) % 24.0, drift], axis=1
    )
    return np.clip(following, VECTOR.low, VECTOR.high)


def _paid(following: FloatArray) -> FloatArray:
    return np.asarray(np.maximum(1.0 - risk(following[:, 0]) / 25.0, 0.0))


def clinician(step: int, states: FloatArray, draw: np.random.Generator) -> IntArray:
    """Doses by glucose and meal as for an average patient, blind to sensitivity and activity, and a third at random."""
    glucose, insulin, carbohydrates, *_ = states.T
    needed = (glucose - 120.0) / 35.0 + carbohydrates / 14.0 - 0.7 * insulin
    dose = np.abs(needed[:, None] - np.array(DOSES)).argmin(axis=1)
    return np.where(draw.random(len(states)) < 0.35, draw.integers(0, len(DOSES), len(states)), dose)


def sample(episodes: int, seed: int, choose: Choose = clinician) -> Block:
    return _run(np.random.default_rng([_DATA, seed]), episodes, choose)


def _run(draw: np.random.Generator, episodes: int, choose: Choose) -> Block:
    states = np.empty((HORIZON + 1, episodes, len(VECTOR.columns)))
    actions = np.empty((HORIZON, episodes), dtype=np.int64)
    rewards = np.empty((HORIZON, episodes))
    states[0] = _begun(draw, episodes)
    for step in range(HORIZON):
        # A stream each, so that two policies meet the same meals and the same noise.
        choosing, moving = (np.random.default_rng(draw.integers(2**62)) for _ in range(2))
        actions[step] = choose(step, states[step], choosing)
        states[step + 1] = _moved(states[step], actions[step], moving)
        rewards[step] = _paid(states[step + 1])
    size = np.arange(episodes)
    lengths, endings = np.full(episodes, HORIZON), np.full(episodes, CUT_BEFORE)
    return Block(size, lengths, states[:-1], actions, rewards, endings, states[-1])


def data(episodes: int, seed: int) -> Trajectories:
    return Trajectories(SCHEMA, episodes, [sample(episodes, seed)])


def valued(choose: Choose, episodes: int = _EPISODES) -> float:
    """The mean total reward of a way to choose, on the judge's episodes."""
    return float(_run(np.random.default_rng(_JUDGE), episodes, choose).rewards.sum(axis=0).mean())


def value(found: policy.Policy) -> float:
    return valued(lambda step, states, _: found.judge(step + 1, states)[0])


@functools.cache
def copied() -> float:
    """What the clinician is worth."""
    return valued(clinician)


@functools.cache
def uniform() -> float:
    return valued(lambda _, states, draw: draw.integers(0, len(DOSES), len(states)))


@dataclass(frozen=True, eq=False)
class Greedy:
    """The best supported action by fitted Q-iteration: no noise, no clipping."""

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


def not_private(
    episodes: int,
    seed: int,
    features: maps.Blocks,
    rounds: int = 60,
    discount: float = 0.9,
    ridge: float = 0.1,
    support: float = 0.2,
) -> Greedy:
    """The constants are those with which this does best on other seeds, and with which its seeds agree."""
    block = sample(episodes, seed)
    psi = [features.psi(states) / maps.ONE for states in (*block.states, block.final)]
    here, following = np.concatenate(psi[:-1]), np.concatenate(psi[1:])
    actions, rewards = block.actions.ravel(), block.rewards.ravel()
    chosen, small = [actions == action for action in range(features.actions)], ridge * np.eye(features.width)
    inverse = [np.linalg.inv(here[rows].T @ here[rows] + small) for rows in chosen]
    shares = np.linalg.solve(here.T @ here + small, np.stack([here[rows].sum(axis=0) for rows in chosen], axis=1)).T
    found = Greedy(features, np.zeros((features.actions, features.width)), shares, support)
    allowed = found.supported(following)
    for _ in range(rounds):
        best = np.where(allowed, following @ found.weights.T, -np.inf).max(axis=1)
        target = rewards + discount * best
        weights = [i @ (here[rows].T @ target[rows]) for i, rows in zip(inverse, chosen, strict=True)]
        found = replace(found, weights=np.stack(weights))
    return found


@functools.cache
def reference(episodes: int, seed: int) -> float:
    """What learning without privacy reaches from these episodes, with the features that ρ = 1 has there."""
    return valued(not_private(episodes, seed, maps.usual(VECTOR, len(DOSES), episodes, Fraction(1))))


def share(value: float, episodes: int, seed: int) -> float:
    """How much of what learning without privacy gains over the clinician this value is."""
    return (value - copied()) / (reference(episodes, seed) - copied())
