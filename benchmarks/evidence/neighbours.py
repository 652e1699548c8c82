"""What one patient can cost a whole training: every learner is run, and every question it asks is answered twice.

A training is run on one dataset; each statistic, with everything in it that was released before, is also summed over a
neighbour in which one patient was replaced. Along the transcript Σ ‖Δ‖²/2σ² must never exceed the ρ that was claimed
(for pure noise: Σ ‖Δ‖₁/b the ε). Pairs are random, built to hurt, or the worst so far, changed a little.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

import numpy as np

from discretion.learning import learners, sums
from discretion.learning.curator import Concentrated, Curator, Pure, Query, Share
from discretion.learning.learners import Parameters
from discretion.learning.trajectories import (
    CUT,
    CUT_BEFORE,
    ENDED,
    Block,
    Discrete,
    IntArray,
    Schema,
    Trajectories,
    Vector,
)
from discretion.privacy import events

SUMMARY = Path(__file__).with_suffix(".json")
_OTHERS: Final = 3  # patients who stay
_SLACK: Final = 1 + 1e-12  # of floating point, here only


class Watched(Curator):
    """Answers from one dataset and notes how far the other would have moved each answer."""

    def __init__(self, one: Trajectories, other: Trajectories, allowance: Fraction) -> None:
        super().__init__(one, allowance)
        self._neighbour = other
        self.concentrated = self.pure = 0.0

    def _totals(self, queries: Sequence[Query]) -> list[IntArray]:
        totals = super()._totals(queries)
        with np.errstate(all="ignore"):
            others = sums.totals([query.statistic for query in queries], self._neighbour)
        for query, one, other in zip(queries, totals, others, strict=True):
            self._note(self.price(query), one - other)
        return totals

    def _note(self, event: events.Event, moved: IntArray) -> None:
        change, scale = moved.astype(np.float64), float(event.grid_scale)
        if event.mechanism == events.LAPLACE:
            self.pure += float(np.abs(change).sum()) / scale
        else:
            divisor = 4 if event.mechanism == events.SYMMETRIC_GAUSSIAN else 2
            self.concentrated += float((change**2).sum()) / (divisor * scale)


@dataclass(frozen=True)
class Case:
    name: str
    schema: Schema
    privacy: Share
    parameters: Parameters


@dataclass(frozen=True, eq=False)
class Patient:
    """Everything recorded about one unit, a column for each trajectory."""

    states: Any  # (H, m) or (H, m, p)
    actions: IntArray  # (H, m)
    rewards: Any  # (H, m)
    lengths: IntArray  # (m,)
    endings: IntArray  # (m,)
    final: Any  # (m,) or (m, p)


def _states(schema: Schema, draw: np.random.Generator, size: tuple[int, ...]) -> Any:
    if isinstance(schema.states, Discrete):
        return draw.integers(0, schema.states.count, size)
    vector = schema.states
    spread = draw.random((*size, len(vector.columns)))
    corners = np.where(draw.random() < 0.5, np.rint(spread), spread)
    return vector.low + corners * (vector.high - vector.low)


def patient(schema: Schema, draw: np.random.Generator) -> Patient:
    """Anybody: often somebody who never changes, or whose rewards are all at one end."""
    horizon, many = schema.horizon, int(draw.integers(1, schema.per_unit + 1))
    states = _states(schema, draw, (horizon, many))
    if draw.random() < 0.3:
        states = np.broadcast_to(states[:1], states.shape).copy()
    actions = draw.integers(0, schema.actions, (horizon, many))
    if draw.random() < 0.3:
        actions = np.broadcast_to(actions[:1], actions.shape).copy()
    low, high = schema.reward
    rewards = low + (high - low) * draw.random((horizon, many))
    if draw.random() < 0.6:
        rewards = np.where(draw.random((horizon, many)) < draw.choice([0.0, 0.5, 1.0]), low, high)
    full = draw.random() < 0.5
    lengths = np.full(many, horizon) if full else draw.integers(1, horizon + 1, many)
    endings = draw.choice([ENDED, CUT_BEFORE, CUT], many)
    return Patient(states, actions, rewards, lengths, endings, _states(schema, draw, (many,)))


def changed(found: Patient, schema: Schema, draw: np.random.Generator) -> Patient:
    """The same with some of it taken from somebody else with as many trajectories."""
    other = patient(schema, draw)
    while len(other.lengths) != len(found.lengths):
        other = patient(schema, draw)
    parts = {}
    for name in ("states", "actions", "rewards", "lengths", "endings", "final"):
        mine, theirs = getattr(found, name), getattr(other, name)
        shape = mine.shape if name != "states" and name != "final" else mine.shape[: 2 if name == "states" else 1]
        mask = draw.random(shape) < draw.choice([0.0, 0.1, 0.5])
        parts[name] = np.where(mask.reshape(mask.shape + (1,) * (mine.ndim - mask.ndim)), theirs, mine)
    return Patient(**parts)


def dataset(schema: Schema, patients: Sequence[Patient]) -> Trajectories:
    def beside(name: str, axis: int) -> Any:
        return np.concatenate([getattr(one, name) for one in patients], axis=axis)

    units = np.repeat(np.arange(len(patients)), [len(one.lengths) for one in patients])
    steps = {name: beside(name, 1) for name in ("states", "actions", "rewards")}
    rest = {name: beside(name, 0) for name in ("lengths", "endings", "final")}
    return Trajectories(schema, len(patients), [Block(units=units, **steps, **rest)])


def cost(case: Case, others: Sequence[Patient], one: Patient, other: Patient) -> float:
    """The share of the claim that this pair uses up."""
    pair = [dataset(case.schema, [*others, who]) for who in (one, other)]
    whole = case.privacy.epsilon**2 / 2 if isinstance(case.privacy, Pure) else case.privacy.rho
    curator = Watched(*pair, Fraction(whole))
    with np.errstate(all="ignore"):
        learners.learn(curator, case.privacy, case.parameters)
    if isinstance(case.privacy, Pure):
        return curator.pure / float(case.privacy.epsilon)
    return curator.concentrated / float(case.privacy.rho)


def worst(case: Case, pairs: int, seed: int) -> float:
    """The largest share over that many pairs, a third of them random and the rest climbing from the worst so far."""
    draw = np.random.default_rng([4, seed])
    others = [patient(case.schema, draw) for _ in range(_OTHERS)]
    best, found = -1.0, (patient(case.schema, draw), patient(case.schema, draw))
    for number in range(pairs):
        if number % 3 == 0:
            pair = patient(case.schema, draw), patient(case.schema, draw)
        else:
            pair = changed(found[0], case.schema, draw), changed(found[1], case.schema, draw)
        share = cost(case, others, *pair)
        if share > best:
            best, found = share, pair
    return best


def run(pairs: int, cases: Callable[[], list[Case]], output: Path | None) -> bool:
    rows = []
    for number, case in enumerate(cases()):
        share = worst(case, pairs, number)
        rows.append({"learner": case.name, "pairs": pairs, "worst_share_of_claim": round(share, 6)})
        print(f"{'ok ' if share <= _SLACK else 'BAD'} {case.name}: at most {share:.4f} of the claim", flush=True)
    if output is not None:
        output.write_text(json.dumps(rows, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return all(row["worst_share_of_claim"] <= _SLACK for row in rows)


_RHO: Final = Concentrated(Fraction(1))
_PLACES: Final = Schema(4, Discrete(3), 2, (-1.0, 2.0), per_unit=2)
_PLANE: Final = Schema(4, Vector(("x", "y"), ((-1.0, 1.0), (0.0, 10.0))), 2, (0.0, 1.0), per_unit=2)
