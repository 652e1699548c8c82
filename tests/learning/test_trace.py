"""Pooled DP-VAPVI with a trace, from end to end, against the same recursion written down once more, patient by patient;
with rewards at every step, and with one outcome for each stay.

The reference shares no code with the product but the public feature map and the public reference states.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from discretion.learning import features as maps
from discretion.learning import policy, vapvi_stationary
from discretion.learning.curator import Concentrated
from discretion.learning.schemas import FloatArray, IntArray, Schema, Vector
from discretion.learning.trajectories import CUT, CUT_BEFORE, ENDED, Trajectories, block_of
from tests.curators import ZeroNoise

HORIZON, ACTIONS, UNITS, ROUNDS = 10, 2, 150, 6
GAMMA, TRACE, RADIUS, RIDGE, SUPPORT = 0.85, 0.8, 0.6, 0.1, 0.15
LINE = Vector(("x",), ((-1.0, 1.0),))
FEATURES = maps.Blocks(LINE, ACTIONS, ("1", "x"))
SCHEMA = Schema(HORIZON, LINE, ACTIONS)
EARNING_ONCE = replace(SCHEMA, outcome=True)
CLOSE = 1e-4  # of weights: records and weights are on grids of 2⁻¹⁵ and 2⁻¹⁶, and the errors of six rounds add up

Carried = Callable[[FloatArray, Any], FloatArray]  # a stay's own surprises, and which of its records followed → traced


def recorded() -> Trajectories:
    """Action 1 pays where x > 0 and action 0 elsewhere, and action 1 raises x; doctors mostly do what pays."""
    rng = np.random.default_rng(5)
    states, actions = np.empty((HORIZON + 1, UNITS, 1)), np.empty((HORIZON, UNITS), dtype=np.int64)
    rewards, states[0] = np.empty((HORIZON, UNITS)), rng.uniform(-1, 1, (UNITS, 1))
    for step in range(HORIZON):
        right = states[step, :, 0] > 0
        actions[step] = np.where(rng.random(UNITS) < 0.85, right, ~right)
        rewards[step] = np.clip((actions[step] == right) * 0.6 + rng.normal(0, 0.1, UNITS), 0, 1)
        moved = 0.7 * states[step, :, 0] + 0.25 * actions[step] + rng.normal(0, 0.2, UNITS)
        states[step + 1, :, 0] = np.clip(moved, -1, 1)
    lengths = np.minimum(rng.geometric(0.08, UNITS), HORIZON)
    endings = np.where(lengths < HORIZON, rng.choice([ENDED, CUT], UNITS), CUT_BEFORE)
    block = block_of(states[:-1], actions, rewards, lengths=lengths, endings=endings, final=states[-1])
    return Trajectories(SCHEMA, UNITS, [block])


def with_outcomes() -> Trajectories:
    """The same stays, of which those that end early earn nothing, and those that reach the horizon by their state, the
    more the nearer x is to 1; what followed is known, unknown, or said to be the end."""
    data, rng = recorded(), np.random.default_rng(6)
    (block,) = data.blocks
    reached = block.lengths == HORIZON
    rewards, endings = np.zeros((HORIZON, UNITS)), np.where(reached, rng.integers(0, 3, UNITS), block.endings)
    rewards[-1] = np.where(reached, rng.random(UNITS) < (1 + np.asarray(block.states)[-1, :, 0]) / 2, 0.0)
    early = np.flatnonzero(~reached)
    rewards[block.lengths[early] - 1, early] = 0.2
    return Trajectories(EARNING_ONCE, UNITS, [replace(block, rewards=rewards, endings=endings)])


@dataclass(frozen=True)
class Stay:
    """The records of one patient whose successor is known."""

    psi: FloatArray  # (T, p)
    later: FloatArray  # (T, p) of the successors
    actions: IntArray  # (T,)
    rewards: FloatArray  # (T,)
    ended: bool  # after the last of them


def stays(data: Trajectories) -> list[Stay]:
    """With outcomes the horizon's records are left out, and what `potential` rises by is earned."""
    (block,) = data.blocks
    found = []
    for unit in range(UNITS):
        length, ending = int(block.lengths[unit]), int(block.endings[unit])
        if data.schema.outcome and length == HORIZON:
            path = FEATURES.psi(np.asarray(block.states)[:, unit]) / 2**16
            worth = potential(data)(path)
            actions = np.asarray(block.actions, dtype=np.int64)[:-1, unit]
            found.append(Stay(path[:-1], path[1:], actions, worth[1:] - worth[:-1], False))
            continue
        path = np.concatenate([np.asarray(block.states)[:length, unit], np.asarray(block.final)[unit : unit + 1]])
        psi, known = FEATURES.psi(path) / 2**16, length - (ending == CUT)
        actions = np.asarray(block.actions, dtype=np.int64)[:known, unit]
        rewards = np.asarray(block.rewards)[:known, unit]
        if data.schema.outcome:
            worth = potential(data)(psi)
            worth[-1] *= ending != ENDED
            rewards = rewards + worth[1 : known + 1] - worth[:known]
        found.append(Stay(psi[:known], psi[1 : known + 1], actions, rewards, ending == ENDED))
    return found


def regressed(data: Trajectories) -> tuple[float, FloatArray]:
    """The mean outcome at the horizon, and a ridge regression of what differs from it."""
    (block,) = data.blocks
    reached = block.lengths == HORIZON
    psi, outcome = FEATURES.psi(np.asarray(block.states)[-1, reached]) / 2**16, np.asarray(block.rewards)[-1, reached]
    public = FEATURES.psi(maps.reference(LINE, 512)) / 2**16
    one = np.linalg.solve(public.T @ public + 512e-6 * np.eye(2), public.sum(axis=0))
    mean = 0.5 + float((psi @ one) @ (outcome - 0.5)) / float((psi @ one) @ (psi @ one))
    centred = psi.T @ (outcome - 0.5) - (mean - 0.5) * psi.T @ (psi @ one)
    weights = np.linalg.solve(psi.T @ psi + RIDGE * np.eye(2), centred)
    return mean, weights


def potential(data: Trajectories) -> Callable[[FloatArray], FloatArray]:
    mean, weights = regressed(data)
    return lambda rows: np.clip(mean + rows @ weights, 0.0, 1.0)


def watkins(own: FloatArray, followed: Any) -> FloatArray:
    """Σ over k up to 6 of (γλ)ᵏ times the surprise k steps later, as long as all actions on the way were the best."""
    found = np.zeros(len(own))
    for step in range(len(own)):
        factor = 1.0
        for later in range(step, min(step + 7, len(own))):
            factor *= 1.0 if later == step else GAMMA * TRACE * followed[later]
            found[step] += factor * own[later]
    return found


class Reference:
    """The learner's recursion without noise; one group of steps."""

    def __init__(self, data: Trajectories, carried: Carried) -> None:
        self.carried, self.possible = carried, (-1.0, 1.0) if data.schema.outcome else (0.0, HORIZON)
        self.stays = [stay for stay in stays(data) if len(stay.actions)]
        mean, square, ends = (
            sum(number(stay) for stay in self.stays) / UNITS
            for number in (
                lambda stay: stay.rewards.mean(),
                lambda stay: (stay.rewards**2).mean(),
                lambda stay: stay.ended / len(stay.actions),
            )
        )
        self.bound = min(1.0, 3 * math.sqrt(square - mean**2))
        self.base = mean / (1 - GAMMA * (1 - ends))
        self.public = FEATURES.psi(maps.reference(LINE, 512)) / 2**16
        grams = np.zeros((ACTIONS, 2, 2))
        for stay in self.stays:
            for psi, action in zip(stay.psi, stay.actions, strict=True):
                grams[action] += np.outer(psi, psi)
        self._behave(grams)
        self._precondition(grams)
        self.weights, self.range = np.zeros((ACTIONS, 2)), (-math.inf, math.inf)
        self.cut = 0  # stays that the radius shortens

    def _behave(self, grams: FloatArray) -> None:
        """Shares of actions: those of all visits, and a ridge regression of what differs from them."""
        one = np.linalg.solve(self.public.T @ self.public + 512e-6 * np.eye(2), self.public.sum(axis=0))
        counts, total = grams @ one @ one, grams.sum(axis=0)
        self.frequencies = counts / counts.sum()
        excess = [(gram - share * total) @ one for gram, share in zip(grams, self.frequencies, strict=True)]
        self.slopes = np.array([np.linalg.solve(total + RIDGE * np.eye(2), each) for each in excess])

    def _precondition(self, grams: FloatArray) -> None:
        self.mixed = mixed = 0.34 * grams + 0.66 * self.frequencies[:, None, None] * grams.sum(axis=0)
        self.together = grams.sum(axis=0) + RIDGE * np.eye(2)
        self.roots, energy = np.empty_like(grams), 0.0
        for action, matrix in enumerate(mixed):
            values, vectors = np.linalg.eigh(matrix)
            self.roots[action] = vectors @ np.diag((values + RIDGE) ** -0.5) @ vectors.T
            energy += float((values / (values + RIDGE)).sum())
        self.typical = math.sqrt(energy / UNITS)

    def _valued(self, psi: FloatArray) -> tuple[FloatArray, IntArray]:
        """V and the action that it is of: the best of those that are taken often enough."""
        share, mean = self.frequencies + psi @ self.slopes.T, self.base + psi @ self.weights.T
        mean = np.where(share >= SUPPORT * share.max(axis=1, keepdims=True), mean, -np.inf)
        return np.clip(mean.max(axis=1), *self.range), mean.argmax(axis=1)

    def _of(self, stay: Stay) -> FloatArray:  # (A, p)
        """A patient's part of a round: features times traced surprises, made round and cut to the radius."""
        value, going = self._valued(stay.later)[0], np.ones(len(stay.actions))
        going[-1] -= stay.ended
        predicted = self.base + (stay.psi * self.weights[stay.actions]).sum(axis=1)
        own = stay.rewards + GAMMA * going * value - predicted
        followed = self._valued(stay.psi)[1] == stay.actions
        errors = np.clip(self.carried(own, followed) / self.bound, -1, 1)
        summed = np.zeros((ACTIONS, 2))
        for psi, action, error in zip(stay.psi, stay.actions, errors, strict=True):
            summed[action] += psi * error
        mapped = np.einsum("aij,aj->ai", self.roots / self.typical, summed)
        self.cut += bool(np.linalg.norm(mapped) > RADIUS)
        return mapped * min(1.0, RADIUS / max(float(np.linalg.norm(mapped)), 1e-12))

    def _moved(self, mapped: FloatArray) -> FloatArray:
        """All actions by what their sums say together, then each by what that leaves of its own."""
        summed = [np.linalg.solve(root, each) * self.typical for root, each in zip(self.roots, mapped, strict=True)]
        alike = np.linalg.solve(self.together, np.sum(summed, axis=0))
        rest = zip(self.mixed, summed, strict=True)
        return np.array([alike + np.linalg.solve(own + RIDGE * np.eye(2), each - own @ alike) for own, each in rest])

    def learn(self) -> FloatArray:
        """Rounds with momentum ½; the mean of the later half of them."""
        history, speed = [], np.zeros((ACTIONS, 2))
        for _ in range(ROUNDS):
            summed = np.sum([self._of(stay) for stay in self.stays], axis=0)
            speed = self._moved(summed * self.bound) + 0.5 * speed
            self.weights = self.weights + speed
            history.append(self.weights)
            self.range = (-math.inf, math.inf)
            reached = np.sort(self._valued(self.public)[0])
            low, high = np.clip((reached[10], reached[-11]), *self.possible)  # without 2 % above and below
            self.range = (float(low), float(high))
        return np.asarray(np.mean(history[ROUNDS // 2 :], axis=0))


def learned_from(data: Trajectories) -> FloatArray:
    parameters = vapvi_stationary.Parameters(
        FEATURES,
        rounds=ROUNDS,
        discount=GAMMA,
        clip=100.0,  # nobody is weighed down
        radius=RADIUS,
        support=SUPPORT,
        ridge=RIDGE,
        trace=TRACE,
        caution=0.0,
        shares=vapvi_stationary.SHARES,
    )
    made = vapvi_stationary.learn(ZeroNoise(data), Concentrated(Fraction(1)), parameters)
    assert isinstance(made.rule, policy.Pooled)
    assert made.rule.groups[0].informed
    return made.rule.groups[0].weights


@pytest.fixture(scope="module")
def learned() -> FloatArray:
    return learned_from(recorded())


@pytest.fixture(scope="module")
def learned_from_outcomes() -> FloatArray:
    return learned_from(with_outcomes())


def differently(change: Callable[[float, float], float], reach: int = 7) -> Carried:
    """A trace that multiplies by something else, or ends elsewhere."""

    def carried(own: FloatArray, followed: Any) -> FloatArray:
        found = np.zeros(len(own))
        for step in range(len(own)):
            factor = 1.0
            for later in range(step, min(step + reach, len(own))):
                before = float(followed[later - 1]) if later else 1.0
                factor *= 1.0 if later == step else change(float(followed[later]), before)
                found[step] += factor * own[later]
        return found

    return carried


WRONG: dict[str, Carried] = {
    "no trace": differently(lambda _, __: 0.0),
    "never ended": differently(lambda _, __: GAMMA * TRACE),
    "ended by the action before": differently(lambda _, before: GAMMA * TRACE * before),
    "ended where it should go on": differently(lambda followed, _: GAMMA * TRACE * (1 - followed)),
    "without the discount": differently(lambda followed, _: TRACE * followed),
    "without λ": differently(lambda followed, _: GAMMA * followed),
    "one step only": differently(lambda followed, _: GAMMA * TRACE * followed, 2),
    "five steps": differently(lambda followed, _: GAMMA * TRACE * followed, 6),
    "any number of steps": differently(lambda followed, _: GAMMA * TRACE * followed, HORIZON),
}


class TestTrace:
    def test_the_learned_weights_are_those_of_the_recursion(self, learned: FloatArray) -> None:
        reference = Reference(recorded(), watkins)
        assert learned == pytest.approx(reference.learn(), abs=CLOSE)
        assert 0.1 < reference.cut / (ROUNDS * UNITS) < 0.9  # some are cut to the radius, not all

    @pytest.mark.parametrize("wrong", WRONG)
    def test_another_trace_would_be_found_out(self, learned: FloatArray, wrong: str) -> None:
        other = Reference(recorded(), WRONG[wrong]).learn()
        assert np.abs(learned - other).max() > 5 * CLOSE

    def test_and_so_they_are_where_stays_earn_by_their_outcome(self, learned_from_outcomes: FloatArray) -> None:
        reference = Reference(with_outcomes(), watkins)
        expected = reference.learn() + regressed(with_outcomes())[1]  # what the rest of a stay earns in all
        assert learned_from_outcomes == pytest.approx(expected, abs=CLOSE)
        assert 0.05 < reference.cut / (ROUNDS * UNITS) < 0.95

    def test_outcomes_taken_for_rewards_of_their_step_would_be_found_out(
        self, learned_from_outcomes: FloatArray
    ) -> None:
        other = Reference(replace(with_outcomes(), schema=SCHEMA), watkins).learn() + regressed(with_outcomes())[1]
        assert np.abs(learned_from_outcomes - other).max() > 5 * CLOSE
