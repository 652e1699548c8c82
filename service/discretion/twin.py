"""Rehearsals: the same training on a made-up twin of a dataset, as often as one likes, for nothing.

A twin is made of what is public alone: the schema, the number of units, and a number that says which twin. It has the
declared sizes and ranges and a clinic behind it that never was, so that what a policy is worth there is known exactly.
It says what noise of this size does to data of this size; what the real patients are like it cannot say. A tenth of
what may be missing is missing, by chance. Where stays earn once, by an outcome, those of a twin do too: about a quarter
reaches the horizon (with vector states, all) and is settled there, by a state that nobody recorded.

This is a program of its own: it reads a request on its standard input, where no stored dataset can be named.
"""

import json
import sys
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final

import numpy as np

from discretion import errors, processes, requests
from discretion.learning import documents, learners, pae
from discretion.learning.curator import Curator
from discretion.learning.policy import Policy
from discretion.learning.reader import open_object
from discretion.learning.schemas import BoolArray, Discrete, FloatArray, IntArray, Schema, Vector
from discretion.learning.trajectories import CUT, CUT_BEFORE, ENDED, Block, Trajectories, block_of

_MOST_NUMBERS: Final = 50_000_000  # in the clinic behind a twin
_ENDS: Final = 2.0  # of a stay, within as many steps as the horizon has, if it could go on
_SETTLED: Final = 0.25  # of stays reach the horizon, where they are settled there
_MISSING: Final = 0.1  # of what a column holds that is declared as one that may be missing
_JUDGED: Final = 4000  # episodes by which a policy of vector states is valued
_CLINIC, _STAYS, _JUDGEMENT = 1, 2, 3  # streams of random numbers

Document = dict[str, Any]


@dataclass(frozen=True, eq=False)
class _Wards:
    """A clinic of discrete states: where a stay goes, when it ends and what that pays, the same at every step."""

    schema: Schema
    successors: IntArray  # (S, A, k)
    chances: FloatArray  # (S, A, k), cumulative
    ends: FloatArray  # (S, A)
    survives: FloatArray  # (S, A), the chance that an end is a good one
    arrival: FloatArray  # (S,) what reaching a state pays
    outcome: tuple[float, float]  # what a bad and a good end pay
    habit: FloatArray  # (S, A), cumulative
    first: FloatArray  # (S,)
    settled: FloatArray  # (S,), the chance of a good end of those who reach the horizon, where that pays

    def stays(self, count: int, draw: np.random.Generator) -> Block:
        horizon = self.schema.horizon
        states = np.zeros((horizon + 1, count), dtype=np.int64)
        actions = np.zeros((horizon, count), dtype=np.int64)
        rewards, lengths = np.zeros((horizon, count)), np.zeros(count, dtype=np.int64)
        states[0] = draw.choice(len(self.first), size=count, p=self.first)
        going, over = np.arange(count), np.zeros(count, dtype=bool)
        for step in range(horizon):
            here = states[step, going]
            taken = _drawn(self.habit[here], draw)
            following = self.successors[here, taken, _drawn(self.chances[here, taken], draw)]
            ended = draw.random(len(going)) < self.ends[here, taken]
            good = draw.random(len(going)) < self.survives[here, taken]
            actions[step, going], states[step + 1, going], lengths[going] = taken, following, step + 1
            rewards[step, going] = np.where(ended, np.take(self.outcome, good.astype(int)), self.arrival[following])
            over[going] = ended
            going = going[~ended]
        if self.schema.outcome:
            good = draw.random(len(going)) < self.settled[states[-1, going]]
            rewards[-1, going] = np.take(self.outcome, good.astype(int))
        final = states[lengths, np.arange(count)]
        endings = np.where(over, ENDED, CUT if self.schema.outcome else CUT_BEFORE)
        return block_of(states[:-1], actions, rewards, lengths=lengths, endings=endings, final=final)

    def _scores(self, following: FloatArray) -> FloatArray:  # (S,) → (S, A)
        weights = np.diff(self.chances, axis=2, prepend=0.0)
        on = (weights * (self.arrival + following)[self.successors]).sum(axis=2)
        return (1 - self.ends) * on + self.ends * self._paid(self.survives)

    def _paid(self, chances: FloatArray) -> FloatArray:
        bad, good = self.outcome
        return bad + (good - bad) * chances

    def values(self, policy: Policy) -> Document:
        decisions = policy.rule.decisions  # type: ignore[union-attr]
        states = np.arange(len(self.first))
        habit = np.diff(self.habit, axis=1, prepend=0.0)
        last = self._paid(self.settled) if self.schema.outcome else np.zeros(len(states))
        copied, learned, best = (last for _ in range(3))
        for step in reversed(range(self.schema.horizon)):
            copied = (self._scores(copied) * habit).sum(axis=1)
            learned = self._scores(learned)[states, decisions[step]]
            best = self._scores(best).max(axis=1)
        worth = {"behaviour": copied, "policy": learned, "best": best}
        return {name: round(float(self.first @ value), 6) for name, value in worth.items()}


def _wards(schema: Schema, draw: np.random.Generator) -> _Wards:
    states, actions = schema.count, schema.actions
    successors = min(requests.SUCCESSORS, states)
    if states * actions * successors > _MOST_NUMBERS:
        raise errors.ProblemTooLarge("So many states and actions cannot be rehearsed; try a smaller problem.")
    popular = 1.0 / np.arange(1, states + 1)
    reached = np.searchsorted(np.cumsum(popular / popular.sum()), draw.random((states, actions, successors)))
    chances = np.cumsum(draw.dirichlet(np.ones(successors), size=(states, actions)), axis=2)
    rate = 1 - _SETTLED ** (1 / schema.horizon) if schema.outcome else _ENDS / schema.horizon
    ends = np.clip(rate * draw.uniform(0.2, 1.8, size=(states, actions)), 0.0, 1.0)
    health = draw.random((states, 1))
    survives = np.clip(health + 0.2 * draw.standard_normal((states, actions)), 0.0, 1.0)
    habit = np.cumsum(draw.dirichlet(2.0 / np.arange(1, actions + 1), size=states), axis=1)
    low, high = schema.low, schema.low + schema.width
    arrival, outcome = low + (high - low) * health[:, 0], (0.0, 0.0)
    if schema.outcome or schema.total is not None:  # a bounded return: one outcome, at the end
        least, most = schema.total or (low, high)
        arrival, outcome = np.zeros(states), (max(low, least), min(high, most))
    first, settled = popular / popular.sum(), health[:, 0]
    reached = reached.clip(max=states - 1)
    return _Wards(schema, reached, chances, ends, survives, arrival, outcome, habit, first, settled)


def _drawn(cumulative: FloatArray, draw: np.random.Generator) -> IntArray:
    return (cumulative < draw.random((len(cumulative), 1))).sum(axis=1).clip(max=cumulative.shape[1] - 1)


@dataclass(frozen=True, eq=False)
class _Bedside:
    """A clinic of vector states, scaled to [0, 1]: each action pushes some columns, and one place is best."""

    schema: Schema
    pushes: FloatArray  # (A, p)
    rest: FloatArray  # (p,), where a patient drifts
    target: FloatArray  # (p,)
    weights: FloatArray  # (p,)
    habit: FloatArray  # (A, p + 1)

    @property
    def _vector(self) -> Vector:
        assert isinstance(self.schema.states, Vector)
        return self.schema.states

    def _measured(self, scaled: FloatArray, gaps: BoolArray) -> FloatArray:
        vector = self._vector
        return np.where(gaps, np.nan, vector.low + scaled * (vector.high - vector.low))

    def _gaps(self, count: int, draw: np.random.Generator) -> BoolArray:  # (H + 1, count, p)
        """What was not measured, whatever it would have been: the clinic goes on, and rewards, by what is true."""
        shape = (self.schema.horizon + 1, count, len(self.rest))
        if not self._vector.missing:
            return np.zeros(shape, dtype=np.bool_)
        return np.asarray((draw.random(shape) < _MISSING) & ~self._vector.complete)

    def _followed(self, policy: Policy | None, count: int, draw: np.random.Generator) -> tuple[Any, ...]:
        """Stays under a policy, or under the clinic's habit: states as measured, actions, rewards."""
        horizon, columns = self.schema.horizon, len(self.rest)
        states, gaps = np.empty((horizon + 1, count, columns)), self._gaps(count, draw)
        actions, rewards = np.empty((horizon, count), dtype=np.int64), np.empty((horizon, count))
        states[0] = draw.random((count, columns))
        for step in range(horizon):
            here = states[step]
            if policy is None:
                wish = here @ self.habit[:, :-1].T + self.habit[:, -1] + draw.gumbel(size=(count, len(self.habit)))
                actions[step] = wish.argmax(axis=1)
            else:
                actions[step] = policy.rule.judge(step, self._measured(here, gaps[step]))[0]
            drift = 0.1 * (self.rest - here) + self.pushes[actions[step]] + 0.05 * draw.standard_normal(here.shape)
            states[step + 1] = np.clip(here + drift, 0.0, 1.0)
            rewards[step] = self._reward(states[step + 1])
        if self.schema.outcome:
            rewards = self._settled(states[-1], draw)
        for step in range(horizon + 1):  # in their own place: they are most of a rehearsal's memory
            states[step] = self._measured(states[step], gaps[step])
        return states, actions, rewards

    def _closeness(self, scaled: FloatArray) -> FloatArray:
        return np.asarray(np.exp(-((scaled - self.target) ** 2 @ self.weights)))

    def _settled(self, scaled: FloatArray, draw: np.random.Generator) -> FloatArray:  # (H, count)
        """One outcome, in the last record: the better, the closer to the best place."""
        schema, rewards = self.schema, np.zeros((self.schema.horizon, len(scaled)))
        low, high = schema.total or schema.reward
        good = draw.random(len(scaled)) < self._closeness(scaled)
        rewards[-1] = np.clip(np.where(good, high, low), *schema.reward)
        return rewards

    def _reward(self, scaled: FloatArray) -> FloatArray:
        schema, closeness = self.schema, self._closeness(scaled)
        low, high = schema.low, schema.low + schema.width
        if schema.total is not None:
            low, high = max(low, schema.total[0] / schema.horizon), min(high, schema.total[1] / schema.horizon)
        return low + (high - low) * closeness

    def stays(self, count: int, draw: np.random.Generator) -> Block:
        measured, actions, rewards = self._followed(None, count, draw)
        return block_of(measured[:-1], actions, rewards, final=None if self.schema.outcome else measured[-1])

    def values(self, policy: Policy) -> Document:
        worth: Document = {"best": None}
        for name, followed in (("behaviour", None), ("policy", policy)):
            *_, rewards = self._followed(followed, _JUDGED, np.random.default_rng(_JUDGEMENT))
            worth[name] = round(float(rewards.sum(axis=0).mean()), 6)
        return worth


def _bedside(schema: Schema, draw: np.random.Generator) -> _Bedside:
    assert isinstance(schema.states, Vector)
    columns, actions = len(schema.states.columns), schema.actions
    pushes = 0.1 * draw.uniform(-1, 1, size=(actions, columns)) * (draw.random((actions, columns)) < 0.5)
    weights = 4.0 * draw.random(columns) * (np.arange(columns) < 3)
    habit = draw.standard_normal((actions, columns + 1))
    return _Bedside(schema, pushes, draw.random(columns), draw.uniform(0.3, 0.7, size=columns), weights, habit)


def _learned(curator: Curator, played: requests.Asked, asked: requests.Asked) -> Policy:
    """With the switches of the training that was asked for, not of the smaller one that is played."""
    if isinstance(played.parameters, pae.Parameters):
        return pae.learn(curator, played.privacy, played.parameters, like=(asked.units, asked.privacy))
    return learners.learn(curator, played.privacy, played.parameters)


def _note(played: requests.Asked, asked: requests.Asked) -> str | None:
    """What the rehearsal cannot show."""
    if played.units == asked.units:
        return None
    told = (
        f"Played with {played.units} of {asked.units} units, so chance has more say in it than it will have; learner "
        f"and constants are those of {asked.units}."
    )
    largest = requests.LARGEST[type(asked.privacy)]
    if requests.enough(asked.privacy, Fraction(asked.units, played.units)) <= largest:
        return told
    return f"{told} It would need a budget of more than {largest}, so noise has more say in it, too."


def rehearse(asked: requests.Asked, twin: int = 0) -> Document:
    """What the training would have learned from the twin of that number."""
    played = requests.rehearsed(asked)
    make = _wards if isinstance(asked.schema.states, Discrete) else _bedside
    clinic = make(asked.schema, np.random.default_rng([_CLINIC, twin]))
    stays = clinic.stays(played.units, np.random.default_rng([_STAYS, twin]))
    curator = Curator(Trajectories(asked.schema, played.units, [stays]), played.cost.exact)
    learned = _learned(curator, played, asked)
    return {
        "twin": twin,
        "units": played.units,
        "privacy": documents.privacy_document(played.privacy),
        "note": _note(played, asked),
        "value": clinic.values(learned),
        "learned_share": round(_learned_share(learned, stays), 3),
    }


def _learned_share(policy: Policy, stays: Block) -> float:
    """Of the decisions that the twin's stays would have asked for."""
    found = [
        policy.rule.judge(step, np.asarray(stays.states)[step, stays.lengths > step])[1]
        for step in range(policy.horizon)
    ]
    return float(np.concatenate(found).mean())


def main(parent: int | None = None, most: int | None = None) -> int:
    """For a service that asked, which says how many bytes it may take, or for whoever runs it."""
    if parent is not None:
        processes.die_with_parent(parent)
    if most is not None:
        processes.fence(most)
    try:
        top = open_object(
            json.load(sys.stdin),
            errors.InvalidRequest,
            ("schema", "units", "algorithm", "privacy"),
            ("parameters", "twin"),
        )
        schema, labels = documents.schema_of(top.values["schema"])
        request = {"algorithm": top.values["algorithm"], "privacy": top.values["privacy"]}
        request["parameters"] = top.values.get("parameters", {})
        asked = requests.of(schema, labels, top.whole("units"), request)
        json.dump(rehearse(asked, top.whole("twin", 0)), sys.stdout)
    except errors.Refusal as refusal:
        print(refusal, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
